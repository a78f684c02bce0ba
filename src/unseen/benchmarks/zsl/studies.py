"""The paper's smaller studies on our own results: SS against PS, across datasets, transductive beside inductive.

Paper:      Xian et al., TPAMI 2018, Table 3, Table 4 with its paired t-test, Fig. 8

What is set beside another differs in that alone: split, method or training set; every other setting is a row, or a
test, of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from unseen.benchmarks.zsl.compare import CHOSEN, METHOD, plain_name, settings
from unseen.core.records import Result
from unseen.metrics import PairedTTest, paired_t_test
from unseen.results import Group, only

#: A heading, columns and rows of texts and fractions; the first two columns are texts.
StudyTable = tuple[str, list[str], list[list[Any]]]

_PAIRS = (("ALE", "ALE-tran"), ("GFZSL", "GFZSL-tran"))


def splits_compared(results: Sequence[Result]) -> StudyTable:
    """Accuracy on unseen classes on SS and on PS, where both were run."""
    rows = []
    for group, model, dataset, values in _places(results, "split"):
        for method in dict.fromkeys(method for method, _ in values):
            ss, ps = (values.get((method, split)) for split in ("SS", "PS"))
            if ss is not None and ps is not None:
                pair = ss.metrics["zsl"], ps.metrics["zsl"]
                rows.append([_said(dataset, model, group), method, *pair, pair[1] - pair[0]])
    return "SS against PS: ZSL (%)", ["data", "method", "SS", "PS", "change"], rows


def inductive_and_transductive(results: Sequence[Result]) -> StudyTable:
    """ALE and GFZSL beside their transductive forms."""
    rows: list[list[Any]] = []
    for group, model, dataset, values in _places(results, "split"):
        for split in dict.fromkeys(split for _, split in values):
            for plain, transductive in _PAIRS:
                before, after = values.get((plain, split)), values.get((transductive, split))
                if before is not None and after is not None:
                    pair = [m.metrics.get(name) for name in ("zsl", "H") for m in (before, after)]
                    rows.append([_said(f"{dataset} {split}", model, group), plain, *pair])
    columns = ["data", "method", "ZSL", "ZSL, transductive", "H", "H, transductive"]
    return "transductive beside inductive (%)", columns, rows


def cross_dataset_tests(results: Sequence[Result]) -> list[tuple[str, PairedTTest]]:
    """The paired t-test of Table 4 for each setting, with its words: same method and test set, trained there or not."""
    found = []
    for group in _main(results, "test_on"):
        at_home: dict[tuple[str, str, str], float] = {}
        elsewhere: list[tuple[tuple[str, str, str], float]] = []
        for result in group.results:
            cell = result.cell
            target = cell.parameters.get("test_on", "")
            key = (plain_name(target or cell.dataset), cell.model, cell.parameters[METHOD])
            if target:
                elsewhere.append((key, result.metrics["zsl"]))
            else:
                at_home[key] = result.metrics["zsl"]
        pairs = [(value, at_home[key]) for key, value in elsewhere if key in at_home]
        if len(pairs) > 1:
            found.append((group.words, paired_t_test([a for a, _ in pairs], [b for _, b in pairs])))
    return found


def cross_dataset(results: Sequence[Result]) -> PairedTTest | None:
    """The test of results of one setting; None without pairs. Several settings are refused."""
    groups = _main(results, "test_on")
    return next((test for _, test in cross_dataset_tests(only(groups).results)), None) if groups else None


def _main(results: Sequence[Result], axis: str) -> list[Group]:
    """Settings with parameters chosen on all folds, which may differ in `axis` too."""
    return [group for group in settings(results, (METHOD, "dataset", axis)) if group.setting[CHOSEN] == "all folds"]


def _places(results: Sequence[Result], axis: str) -> Iterator[tuple[Group, str, str, Mapping[tuple[str, str], Result]]]:
    """Setting, model and dataset with the results of each method and value of `axis`; other test sets are no part."""
    for group in _main(results, axis):
        if group.setting.get("test_on"):
            continue
        found: dict[tuple[str, str], dict[tuple[str, str], Result]] = {}
        for result in group.results:
            cell = result.cell
            here = found.setdefault((cell.model, plain_name(cell.dataset)), {})
            here[cell.parameters[METHOD], cell.parameters[axis]] = result
        for (model, dataset), values in found.items():
            yield group, model, dataset, values


def _said(dataset: str, model: str, group: Group) -> str:
    return f"{dataset} {model}" + (f" ({group.words})" if group.words else "")
