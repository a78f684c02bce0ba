"""Zero-shot learning: unseen classes, known only by a description. The metadata here loads no numeric library."""

from __future__ import annotations

from collections.abc import Mapping

from unseen.results.info import BenchmarkInfo, MetricStyle
from unseen.zeroshot.catalogue import load_method


def _cell_options(parameters: Mapping[str, object]) -> Mapping[str, object]:
    """Return the options that plan a cell: cells of single validation folds need `robustness`."""
    return parameters if parameters.get("fold", "all") == "all" else {**parameters, "robustness": True}


def _cell_citations(parameters: Mapping[str, object]) -> tuple[str, ...]:
    return (load_method(str(parameters["method"])).card.citation,)


ZSL = BenchmarkInfo(
    title="Zero-shot learning",
    task="zero-shot-image-classification",
    question="How well are unseen classes recognised by their descriptions?",
    command="zsl run",
    sentence="""Zero-shot learning follows the protocol of Xian et al. with the split {split}: the methods {method} were
        fitted on {layer} features of seen classes and class embeddings ({embedding}), their parameters chosen on
        validation classes ({grid} grid)""",
    citations=("gbu",),
    metrics=tuple(
        MetricStyle(name, title, percent=True, long_title=meaning)
        for name, title, meaning in (
            ("zsl", "ZSL", "per-class top-1 accuracy among unseen classes"),
            ("ts", "ts", "accuracy on unseen classes among all classes"),
            ("tr", "tr", "accuracy on seen classes among all classes"),
            ("H", "H", "harmonic mean of ts and tr"),
            ("AUSUC", "AUSUC", "area under the seen-unseen curve"),
            ("zsl_top5", "ZSL top-5", "per-class top-5 accuracy among unseen classes"),
            ("zsl_top10", "ZSL top-10", ""),
            ("zsl_per_image", "ZSL per image", "per-image accuracy among unseen classes"),
            *((f"{name}_top{k}", f"{name} top-{k}", "") for k in (5, 10) for name in ("ts", "tr", "H")),
            ("ts_per_image", "ts per image", ""),
            ("tr_per_image", "tr per image", ""),
        )
    ),
    columns=("zsl", "ts", "tr", "H", "AUSUC", "zsl_per_image"),
    section="unseen.benchmarks.zsl.section:zsl_section",
    tables="unseen.benchmarks.zsl.tables:zsl_tables",
    candidate="unseen.benchmarks.zsl.details:zsl_candidate",
    cell_options=_cell_options,
    cell_citations=_cell_citations,
)
