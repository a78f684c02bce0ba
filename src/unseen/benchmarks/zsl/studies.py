"""The paper's smaller studies on our own results: SS against PS, across datasets, ImageNet, transductive methods.

Paper:      Xian et al., TPAMI 2018, Table 3, Table 4 with its paired t-test, Table 5 with Figs. 5 and 6, Fig. 8

What is set beside another differs in that alone: split, method or training set; every other setting is a row, or a
test, of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from unseen.benchmarks.zsl.compare import BENCHMARK, CHOSEN, METHOD, plain_name, settings
from unseen.benchmarks.zsl.published import printed_beside, table
from unseen.core.names import Name
from unseen.core.records import Result
from unseen.metrics import PairedTTest, paired_t_test
from unseen.results import Group, metric_style, only
from unseen.zeroshot.splits import IMAGENET_SPLITS

#: A heading, columns and rows of texts and fractions; the first two columns are texts.
StudyTable = tuple[str, list[str], list[list[Any]]]

_PAIRS = (("ALE", "ALE-tran"), ("GFZSL", "GFZSL-tran"))
#: What Fig. 5 draws for the ImageNet splits, and what Fig. 6 does.
IMAGENET_METRICS = ("zsl", "zsl_top5", "zsl_top10", "ts", "ts_top5", "ts_top10")


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


def all_studies(results: Sequence[Result]) -> list[StudyTable]:
    """Every table that the results give rows to."""
    made = [splits_compared(results), *cross_dataset_tables(results), imagenet_splits(results)]
    return [table for table in (*made, inductive_and_transductive(results)) if table[2]]


def cross_dataset_tables(results: Sequence[Result]) -> list[StudyTable]:
    """Table 4 for each setting: ZSL of each method, trained on one dataset and tested on it or on another."""
    found = []
    for group in _main(results, "test_on"):
        for model, own in group.by_model().items():
            cells: dict[str, dict[str, Result]] = {}
            for result in own:
                home = short_name(result.cell.dataset)
                there = short_name(result.cell.parameters.get("test_on") or result.cell.dataset)
                cells.setdefault(result.cell.parameters[METHOD], {})[f"{home}:{there}"] = result
            pairs = list(dict.fromkeys(pair for of_pair in cells.values() for pair in of_pair))
            if all(_same(pair) for pair in pairs):
                continue
            pairs.sort(key=lambda pair: (pair.partition(":")[0], not _same(pair)))
            printed = [p for p in pairs if any(_printed(m, p, c[p]) is not None for m, c in cells.items() if p in c)]
            rows = [
                [
                    model,
                    method,
                    *(of_pair[p].metrics["zsl"] if p in of_pair else None for p in pairs),
                    *(_printed(method, p, of_pair[p]) if p in of_pair else None for p in printed),
                ]
                for method, of_pair in cells.items()
            ]
            title = "across datasets, training set : test set: ZSL (%)" + (f" · {group.words}" if group.words else "")
            found.append((title, ["model", "method", *pairs, *(f"{p}, paper" for p in printed)], rows))
    return found


def _same(pair: str) -> bool:
    home, _, there = pair.partition(":")
    return home == there


def _printed(method: str, pair: str, result: Result) -> float | None:
    value = table(4).value(method, pair) if printed_beside(result, across=True) else None
    return None if value is None else value / 100


def imagenet_splits(results: Sequence[Result]) -> StudyTable:
    """Table 5, and the numbers of Figs. 5 and 6: each method and measure over the ImageNet splits that were run."""
    rows: list[list[Any]] = []
    columns = [s for s in IMAGENET_SPLITS if any(r.cell.parameters.get("split") == s for r in results if r.ok)]
    for group, model, dataset, values in _places(results, "split"):
        for method in dict.fromkeys(method for method, split in values if split in columns):
            own = {split: values[method, split] for split in columns if (method, split) in values}
            for metric in IMAGENET_METRICS:
                found = [own[split].metrics.get(metric) if split in own else None for split in columns]
                if any(value is not None for value in found):
                    rows.append([_said(dataset, model, group), method, metric_style(metric, BENCHMARK).title, *found])
    return "ImageNet splits (%)", ["data", "method", "measure", *columns], rows


def short_name(dataset: str) -> str:
    """A dataset as the paper calls it: AWA1 for `xlsa17:AWA1?root=...`."""
    return Name.parse(plain_name(dataset)).rest.rpartition("/")[2] or plain_name(dataset)


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
    groups = settings(results, (METHOD, "dataset", axis), kinds=False)
    return [group for group in groups if group.setting[CHOSEN] == "all folds"]


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
