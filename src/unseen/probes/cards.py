"""The probes and adaptations as `unseen ls methods` shows them."""

from __future__ import annotations

from unseen.core.records import MethodCard

_VTAB = "Zhai et al., A large-scale study of representation learning with the Visual Task Adaptation Benchmark, 2019"
_COG = "Sariyildiz et al., Concept generalization in visual representation learning, ICCV 2021"

PROBE_CARDS = (
    MethodCard(
        "logistic",
        "Logistic regression, converged, its penalty chosen on images left out in turn",
        "probe",
        notes="the default; `fast` is an older name of it",
    ),
    MethodCard("paper", "SGD with a search over learning rate and weight decay", "probe", "cog", _COG, "as published"),
    MethodCard("ridge", "Ridge regression on one-hot targets", "probe", notes="closed form, one eigendecomposition"),
    MethodCard("knn", "k nearest neighbours by cosine", "probe", notes="temperature-weighted, k chosen on validation"),
    MethodCard("ncm", "Nearest class mean by cosine", "probe", notes="nothing to tune"),
    MethodCard("linear", "A linear layer, lightweight sweep", "adaptation", "vtab", _VTAB, "unseen vtab run"),
    MethodCard("finetune", "Fine-tuning of the whole network", "adaptation", "vtab", _VTAB, "both sweeps"),
    MethodCard("scratch", "The same architecture from random weights", "adaptation", "vtab", _VTAB, "both sweeps"),
)
