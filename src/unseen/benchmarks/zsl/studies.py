"""The paper's smaller studies on our own results: SS against PS, across datasets, transductive beside inductive.

Paper:      Xian et al., TPAMI 2018, Table 3, Table 4 with its paired t-test, Fig. 8
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from unseen.benchmarks.zsl.compare import BENCHMARK
from unseen.core.records import Result
from unseen.metrics import PairedTTest, paired_t_test

#: A heading, columns and rows of texts and fractions; the first two columns are texts.
StudyTable = tuple[str, list[str], list[list[Any]]]

_PAIRS = (("ALE", "ALE-tran"), ("GFZSL", "GFZSL-tran"))


def splits_compared(results: Sequence[Result]) -> StudyTable:
    """Accuracy on unseen classes on SS and on PS, where both were run."""
    values: dict[tuple[str, str], dict[str, float]] = {}
    for result in _own(results):
        split = result.cell.parameters["split"]
        if split in ("SS", "PS"):
            place = (_place(result), result.cell.parameters["method"])
            values.setdefault(place, {})[split] = result.metrics["zsl"]
    rows = [
        [place, method, found["SS"], found["PS"], found["PS"] - found["SS"]]
        for (place, method), found in values.items()
        if len(found) == 2
    ]
    return "SS against PS: ZSL (%)", ["data", "method", "SS", "PS", "change"], rows


def inductive_and_transductive(results: Sequence[Result]) -> StudyTable:
    """ALE and GFZSL beside their transductive forms."""
    values: dict[tuple[str, str, str], Result] = {
        (_place(r), r.cell.parameters["split"], r.cell.parameters["method"]): r for r in _own(results)
    }
    rows: list[list[Any]] = []
    for place, split in dict.fromkeys((p, s) for p, s, _ in values):
        for plain, transductive in _PAIRS:
            before, after = values.get((place, split, plain)), values.get((place, split, transductive))
            if before is not None and after is not None:
                pair = [m.metrics.get(name) for name in ("zsl", "H") for m in (before, after)]
                rows.append([f"{place} {split}", plain, *pair])
    columns = ["data", "method", "ZSL", "ZSL, transductive", "H", "H, transductive"]
    return "transductive beside inductive (%)", columns, rows


def cross_dataset(results: Sequence[Result]) -> PairedTTest | None:
    """The paired t-test of Table 4: same method and test set, trained there or elsewhere. None without such pairs."""
    at_home: dict[tuple[str, ...], float] = {}
    elsewhere: dict[tuple[str, ...], float] = {}
    for result in _own(results, cross=True):
        cell = result.cell
        target = cell.parameters.get("test_on")
        key = (target or cell.dataset, cell.model, cell.parameters["split"], cell.parameters["method"])
        (elsewhere if target else at_home)[key] = result.metrics["zsl"]
    shared = [key for key in elsewhere if key in at_home]
    if len(shared) < 2:
        return None
    return paired_t_test([elsewhere[key] for key in shared], [at_home[key] for key in shared])


def _own(results: Sequence[Result], *, cross: bool = False) -> list[Result]:
    return [
        r
        for r in results
        if r.cell.benchmark == BENCHMARK
        and r.ok
        and r.cell.parameters["fold"] == "all"
        and (cross or not r.cell.parameters.get("test_on"))
    ]


def _place(result: Result) -> str:
    """Dataset and model, whatever the split that stands in the dataset's id."""
    name = result.cell.dataset.replace("?split=SS&", "?").replace("?split=SS", "").replace("&split=SS", "")
    return f"{name} {result.cell.model}"
