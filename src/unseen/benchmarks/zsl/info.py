"""Metadata of zero-shot learning; it loads no numeric library."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from unseen.results.info import BenchmarkInfo, MetricStyle
from unseen.zeroshot.catalogue import load_method


def _cell_options(parameters: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the options that plan a cell: cells of single validation folds need `robustness`."""
    return parameters if parameters.get("fold", "all") == "all" else {**parameters, "robustness": True}


def _cell_citations(parameters: Mapping[str, Any]) -> tuple[str, ...]:
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
    metrics=(
        MetricStyle("zsl", "ZSL", percent=True, long_title="per-class top-1 accuracy among unseen classes"),
        MetricStyle("ts", "ts", percent=True, long_title="accuracy on unseen classes among all classes"),
        MetricStyle("tr", "tr", percent=True, long_title="accuracy on seen classes among all classes"),
        MetricStyle("H", "H", percent=True, long_title="harmonic mean of ts and tr"),
        MetricStyle("AUSUC", "AUSUC", percent=True, long_title="area under the seen-unseen curve"),
        MetricStyle("zsl_top5", "ZSL top-5", percent=True, long_title="per-class top-5 accuracy among unseen classes"),
        MetricStyle("zsl_top10", "ZSL top-10", percent=True),
        MetricStyle(
            "zsl_per_image", "ZSL per image", percent=True, long_title="per-image accuracy among unseen classes"
        ),
        *(
            MetricStyle(f"{name}_top{k}", f"{name} top-{k}", percent=True)
            for k in (5, 10)
            for name in ("ts", "tr", "H")
        ),
        MetricStyle("ts_per_image", "ts per image", percent=True),
        MetricStyle("tr_per_image", "tr per image", percent=True),
    ),
    columns=("zsl", "ts", "tr", "H", "AUSUC", "zsl_per_image"),
    section="unseen.benchmarks.zsl.section:zsl_section",
    tables="unseen.benchmarks.zsl.tables:zsl_tables",
    candidate="unseen.benchmarks.zsl.details:zsl_candidate",
    cell_options=_cell_options,
    cell_citations=_cell_citations,
)
