"""The probes as `unseen ls methods` shows them."""

from __future__ import annotations

from unseen.records import MethodCard

_COG = "Sariyildiz et al., Concept generalization in visual representation learning, ICCV 2021"

PROBE_CARDS = (
    MethodCard("fast", "Logistic regression along a regularisation path", "probe", "cog", _COG, "the default"),
    MethodCard("paper", "SGD with a search over learning rate and weight decay", "probe", "cog", _COG, "as published"),
    MethodCard("ridge", "Ridge regression on one-hot targets", "probe", notes="closed form, one eigendecomposition"),
    MethodCard("knn", "k nearest neighbours by cosine", "probe", notes="temperature-weighted, k chosen on validation"),
    MethodCard("ncm", "Nearest class mean by cosine", "probe", notes="nothing to tune"),
)
