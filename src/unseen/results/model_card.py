"""The `model-index` metadata block of a Hugging Face model card, written from stored results."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

import yaml

from unseen.results.grid import grids
from unseen.results.info import info_of

if TYPE_CHECKING:
    from unseen.core.records import Result
    from unseen.results.grid import Column, Summary

#: Names of the hub for metrics that it knows.
_METRICS = {"top1": "accuracy", "mean_average_precision": "mAP", "r2": "r_squared"}


def model_card(results: Collection[Result], names: Mapping[str, str], revision: str = "") -> str:
    """Return the front matter of a model card: one entry of `model-index` per model.

    Args:
        results: results without failures.
        names: names to show, by model, dataset and benchmark id.
        revision: version of this package, named as the source of the numbers.

    Returns:
        YAML between two lines `---`. Percentages are in [0, 100]; the metric's name states the 95 % confidence interval
        and the number of test images.
    """
    index: dict[str, list[dict[str, object]]] = {}
    for grid in grids(results):
        for (model, column), summary in grid.cells.items():
            index.setdefault(model, []).append(_entry(grid.benchmark, column, summary, names, revision))
    block = {"model-index": [{"name": names.get(model, model), "results": rows} for model, rows in index.items()]}
    return f"---\n{yaml.safe_dump(block, sort_keys=False, allow_unicode=True, width=120)}---\n"


def _entry(
    benchmark: str, column: Column, summary: Summary, names: Mapping[str, str], revision: str
) -> dict[str, object]:
    style, interval = column.style, summary.interval
    scale = 100.0 if style.percent else 1.0
    setting = ", ".join(f"{name} {value}" for name, value in column.setting)
    title = style.spoken
    if interval.low == interval.low and interval.high == interval.high:  # neither limit is NaN
        title += f" (95 % CI {style.text(interval.low)} to {style.text(interval.high)}"
        title += f", {summary.images:,} test images)" if summary.images else ")"
    info = info_of(benchmark)
    metric = {
        "type": _METRICS.get(column.metric, column.metric),
        "name": title,
        "value": round(scale * summary.value, 4),
    }
    return {
        "task": {"type": info.task, "name": info.title + (f", {setting}" if setting else "")},
        "dataset": {"type": column.dataset, "name": names.get(column.dataset, column.dataset), "split": "test"},
        "metrics": [metric],
        "source": {"name": f"unseen {revision}".strip(), "url": "https://unseen.readthedocs.io"},
    }
