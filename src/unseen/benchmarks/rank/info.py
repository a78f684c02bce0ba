"""Metadata of the ranking of checkpoints."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from unseen.results.info import BenchmarkInfo, MetricStyle

#: In the place of a score: the accuracy after fine-tuning.
TRUTH = "truth"


def _cell_options(parameters: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the options that plan a cell: fine-tuned accuracy is no score, but the option `truth`."""
    if parameters.get("score") != TRUTH:
        return parameters
    return {**{name: value for name, value in parameters.items() if name != "score"}, "truth": True}


def _cell_citations(parameters: Mapping[str, Any]) -> tuple[str, ...]:
    from unseen.ranking.cards import SCORES, find_score

    score = str(parameters["score"])
    return (find_score(score).citation,) if score in SCORES else ()


RANK = BenchmarkInfo(
    title="Ranking scores",
    question="Which checkpoint will fine-tune best?",
    command="rank",
    sentence="""Checkpoints were ranked on the {split} images by {score}; scores were computed before any fine-tuning,
        on {layer} features""",
    citations=("neucrab",),
    metrics=(
        MetricStyle("expected", "expected", percent=True, long_title="expected accuracy of a linear head"),
        MetricStyle("top1", "top-1", percent=True, long_title="fine-tuned top-1 accuracy"),
        MetricStyle("probe_top1", "probe", percent=True, long_title="accuracy of the linear probe before fine-tuning"),
        MetricStyle("mean_rank", "mean rank", higher_is_better=False),
        MetricStyle("validation", "validation", percent=True, long_title="fine-tuned accuracy on validation images"),
        MetricStyle("score", "score"),
        *(MetricStyle(f"term_{number}", f"term {number}") for number in (1, 2, 3)),
    ),
    targets=("class", "several", "number"),
    section="unseen.benchmarks.rank.section:rank_section",
    tables="unseen.benchmarks.rank.tables:rank_tables",
    candidate="unseen.benchmarks.rank.estimates:rank_candidate",
    cell_options=_cell_options,
    cell_citations=_cell_citations,
)
