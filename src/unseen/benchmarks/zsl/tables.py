"""Tables of zero-shot results, for every output: methods by metrics, and the smaller studies of the paper.

Paper:      Xian et al., TPAMI 2018: Table 3 (SS against PS), Table 4 (across datasets), Table 5 with Figs. 5 and 6
            (ImageNet), Fig. 3 (folds), Fig. 8 (transductive methods)

Intervals and marks come from `stats.decide`. Results that are compared differ in the split, the method or the training
set alone; every other setting has its own row or table.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from unseen.benchmarks.zsl.analysis import CHOSEN, METHOD, METRICS, main_settings, settings
from unseen.benchmarks.zsl.details import BENCHMARK, details_of, parameters_of, plain_name, short_name
from unseen.benchmarks.zsl.published import MODEL as PUBLISHED_MODEL
from unseen.benchmarks.zsl.published import printed_value, source
from unseen.core.arrays import FloatArray
from unseen.core.records import Result
from unseen.metrics import paired_t_test
from unseen.results.comparability import older_note
from unseen.results.grid import candidate_of, summary_of
from unseen.results.info import MetricStyle, info_of, metric_style
from unseen.results.table import MARK_NOTE, DisplayNames, Table, TableCell, mark_of, run_findings
from unseen.stats import Candidate, Decision, decide
from unseen.zeroshot.outcomes import class_deviations, power_statement, split_candidate, split_outcomes
from unseen.zeroshot.problem import IMAGENET_SPLITS

#: Heading of ZSL with its interval over classes.
OVER_CLASSES = "ZSL over classes (%)"
#: The metrics of Fig. 5, then those of Fig. 6.
IMAGENET_METRICS = ("zsl", "zsl_top5", "zsl_top10", "ts", "ts_top5", "ts_top10")

#: Cells of a table, by heading and method.
Columns = Mapping[str, Mapping[str, TableCell]]


@dataclass(frozen=True)
class Run:
    """The results of one model in one setting, best method first.

    Attributes:
        title: dataset, split, model, and what distinguishes the setting from others.
        kind: "methods"; "folds", hyper-parameters chosen on each validation fold alone; or "splits", random class
            splits.
        older: number of results of older weights or data that are not shown.
    """

    title: str
    model: str
    results: Sequence[Result]
    kind: str
    older: int = 0

    @property
    def table(self) -> Table:
        """Methods by metrics, by folds, or by metrics over splits."""
        return {"methods": _method_table, "folds": _folds_table, "splits": _splits_table}[self.kind](self)


def runs_of(results: Collection[Result], names: DisplayNames) -> list[Run]:
    """Return the runs in order of appearance, those over random class splits last.

    Args:
        names: display names of models and datasets; ids by default.
    """
    found = []
    for group in (group for sampled in (False, True) for group in settings(list(results), (METHOD,), sampled=sampled)):
        differs = {name: value for name, value in group.differs.items() if name not in ("dataset", "split", CHOSEN)}
        for model, own in group.by_model().items():
            parameters, dataset = parameters_of(own[0]), plain_name(own[0].cell.dataset)
            dataset = names.get(own[0].cell.dataset, names.get(dataset, dataset))
            words = replace(group, differs=differs).words
            title = " · ".join(filter(None, (dataset, parameters.split, names.get(model, model), words)))
            own.sort(key=lambda r: (-r.metrics.get("H", 0.0), -r.metrics.get("zsl", 0.0)))
            kind = "splits" if parameters.class_split else "methods" if parameters.on_all_folds else "folds"
            found.append(Run(title, model, own, kind, group.older))
    return found


def zsl_tables(results: Collection[Result], names: DisplayNames, metrics: Sequence[str] = ()) -> list[Table]:
    """Return one table per run."""
    return [run.table for run in runs_of(results, names)]


def style_of(metric: str) -> MetricStyle:
    """Return how a metric of zero-shot learning is shown."""
    return metric_style(metric, BENCHMARK)


def method_of(result: Result) -> str:
    return parameters_of(result).method


def candidate(result: Result, metric: str) -> Candidate:
    """Return the candidate of `stats.decide` for one result that has the metric."""
    return candidate_of([result], style_of(metric))


def decide_methods(results: Sequence[Result], metric: str) -> Decision:
    """Decide which methods differ, image by image if their outcomes are stored."""
    return decide({method_of(r): candidate(r, metric) for r in results if metric in r.metrics})


def compare_classes(results: Sequence[Result]) -> tuple[Decision, str] | None:
    """Decide which methods differ for new unseen classes, and state how many classes would separate the best two.

    None if the accuracies of classes are unknown.
    """
    per_class = {
        method_of(r): np.asarray(list(details_of(r).per_class.values()), np.float64)
        for r in results
        if "zsl" in r.metrics
    }
    counts = set(map(len, per_class.values()))
    if len(counts) != 1 or counts <= {0, 1}:
        return None
    decision = decide({method: Candidate(values, over_classes=True) for method, values in per_class.items()})
    return decision, power_statement(per_class, decision)


@dataclass(frozen=True, eq=False)
class SplitResults:
    """Results of random class splits: methods are compared on the splits that all of them have.

    Attributes:
        by_method: results of these splits, in order.
        unused: number of other splits.
        seen, tested, pool: seen and unseen classes of each split, and classes that the unseen ones are sampled from.
    """

    by_method: Mapping[str, Sequence[Result]]
    unused: int
    seen: int
    tested: int
    pool: int

    @classmethod
    def of(cls, results: Sequence[Result]) -> SplitResults:
        found: dict[str, dict[int, Result]] = {}
        for result in results:
            found.setdefault(method_of(result), {})[parameters_of(result).class_split] = result
        common, details = sorted(set.intersection(*map(set, found.values()))), details_of(results[0])
        unused = max(map(len, found.values())) - len(common)
        by_method = {method: [own[k] for k in common] for method, own in found.items()}
        return cls(by_method, unused, details.seen_classes, details.unseen_classes, details.pool)

    @property
    def count(self) -> int:
        return len(next(iter(self.by_method.values())))

    def values(self, metric: str) -> dict[str, FloatArray]:
        """Return what `split_outcomes` makes of each method that has the metric."""
        found = {}
        for method, own in self.by_method.items():
            numbers = {m: [r.metrics[m] for r in own] for m in METRICS if own and all(m in r.metrics for r in own)}
            if metric in numbers:
                found[method] = split_outcomes(metric, numbers, self.seen, self.tested, self.pool)
        return found

    def decide(self, metric: str) -> Decision:
        """Decide which methods differ for new classes."""
        return decide({m: split_candidate(own, self.tested, self.pool) for m, own in self.values(metric).items()})

    @property
    def power(self) -> str:
        """Whether the classes separate the best two methods, and how many classes would."""
        far = {method: class_deviations(own, self.tested, self.pool) for method, own in self.values("zsl").items()}
        return power_statement(far, self.decide("zsl"), classes=self.pool, splits=self.count)


# ---- tables of runs --------------------------------------------------------------------------------------------------


def _table(caption: str, columns: Columns, notes: Sequence[str], *, folded: bool = False) -> Table:
    """Return a table of methods from its columns; cells that a column lacks are empty. Notes become sentences."""
    methods = dict.fromkeys(method for cells in columns.values() for method in cells)
    rows = [[TableCell(method), *(cells.get(method, TableCell()) for cells in columns.values())] for method in methods]
    marked = any(cell.mark for row in rows for cell in row)
    sentences = [f"{text.rstrip('.')}." for text in (*notes, MARK_NOTE if marked else "") if text]
    return Table(caption, ["method", *columns], rows, folded=folded, notes=sentences)


def _method_table(run: Run) -> Table:
    """Return the methods of a run by metrics, with the numbers of the paper where they are of the same question."""
    results, classes = run.results, compare_classes(run.results)
    by_method = {method_of(result): [result] for result in results}
    columns: dict[str, dict[str, TableCell]] = {}
    first, *notes = _run_notes(run)
    for metric in (m for m in info_of(BENCHMARK).columns if any(m in r.metrics for r in results)):
        columns[style_of(metric).heading] = _cells(decide_methods(results, metric), metric, by_method)
        if metric == "zsl" and classes is not None:
            columns[OVER_CLASSES] = _cells(classes[0], metric, by_method)
    if classes is not None:
        compared = f"Paired t-test over classes: {classes[1]}" if classes[1] else "One method: nothing is compared"
        notes.insert(0, f"{OVER_CLASSES}: 95 % confidence interval for new unseen classes. {compared}")
    for metric in METRICS if run.model == PUBLISHED_MODEL else ():
        printed = {method_of(r): value for r in results if (value := printed_value(r, metric)) is not None}
        if printed:
            style = style_of(metric)
            columns[f"{style.title}, paper"] = {m: TableCell(value=v, metric=style) for m, v in printed.items()}
    notes.append(f"Paper: {source()}" if any(heading.endswith(", paper") for heading in columns) else "")
    return _table(f"By method · {run.title}", columns, [first, *notes])


def _folds_table(run: Run) -> Table:
    """Return ZSL of methods with hyper-parameters chosen on each validation fold alone (Fig. 3 of the paper)."""
    by_fold: dict[str, dict[str, list[Result]]] = {}
    for result in sorted(run.results, key=lambda result: str(parameters_of(result).fold)):
        by_fold.setdefault(f"fold {parameters_of(result).fold}", {})[method_of(result)] = [result]
    columns = {
        fold: _cells(decide_methods([result for (result,) in own.values()], "zsl"), "zsl", own)
        for fold, own in by_fold.items()
    }
    notes = ["Hyper-parameters chosen on one fold of validation classes alone", *_run_notes(run)]
    return _table(f"ZSL by fold (%) · {run.title}", columns, notes, folded=True)


def _splits_table(run: Run) -> Table:
    """Return the mean of each metric over random class splits by method, with intervals and marks for new classes."""
    splits = SplitResults.of(run.results)
    decisions = {metric: splits.decide(metric) for metric in METRICS}
    by_method = {method: splits.by_method[method] for method in decisions["zsl"].order}
    columns = {
        style_of(metric).heading: _cells(decision, metric, by_method)
        for metric, decision in decisions.items()
        if decision.order
    }
    power = splits.power
    notes = [
        f"Means over {splits.count} random class splits with {splits.tested} of {splits.pool} classes unseen",
        "95 % confidence interval for new classes in brackets, corrected for the classes that splits share",
        f"Splits without a result of every method: {splits.unused}, not used" if splits.unused else "",
        f"Paired comparison over splits: {power}" if power else "",
        older_note(run.older),
    ]
    return _table(f"Over random class splits · {run.title}", columns, notes)


def _cells(decision: Decision, metric: str, results: Mapping[str, Sequence[Result]]) -> dict[str, TableCell]:
    """Return the cells of a decision by method."""
    return {
        method: TableCell(
            value=decision.intervals[method].value,
            interval=decision.intervals[method],
            metric=style_of(metric),
            cells=tuple(result.cell.id for result in results[method]),
            n=decision.intervals[method].n,
            mark=mark_of(method, decision),
        )
        for method in results
        if method in decision.intervals
    }


def measured(result: Result | None, metric: str = "zsl") -> TableCell:
    """Return a cell with a metric of a result and its interval; an empty one if there is none."""
    if result is None or metric not in result.metrics:
        return TableCell(hint="no result")
    found = summary_of([result], metric)
    return TableCell(value=found.value, interval=found.interval, metric=found.style, cells=found.cells)


def _run_notes(run: Run) -> list[str]:
    """Return what the numbers are, the leak audit, older results, and findings of the run records."""
    details, calibration = details_of(run.results[0]), parameters_of(run.results[0]).calibration
    shared, findings = details.indistinguishable_classes, run_findings(run.results)
    found = [
        "Accuracies are means over classes unless the heading states otherwise",
        "95 % confidence interval over test images of these classes in brackets",
        f"{details.seen_classes} seen and {details.unseen_classes} unseen classes",
        f"{details.train_images:,} training images",
        f"{details.test_images:,} test images of unseen and {details.seen_test_images:,} of seen classes",
        f"embedding {details.embedding} ({details.embedding_dimensions} dimensions)",
        f"{shared} classes share the embedding of another" if shared else "",
        f"chance {100 * details.chance:.1f} %" if details.chance else "",
        f"calibrated stacking {calibration}" if calibration else "",
        "transductive methods see all test images together" if details.transductive else "",
    ]
    audit = f"Leak audit: {details.audit}" if details.audit else ""
    found_in_records = f"Run record: {'; '.join(findings)}" if findings else ""
    known = found if details.test_images else found[:1]  # of published numbers nothing else is known
    return ["; ".join(filter(None, known)), audit, older_note(run.older), found_in_records]


# ---- studies of the paper --------------------------------------------------------------------------------------------


def all_studies(results: Sequence[Result]) -> list[Table]:
    """Return every table that has rows."""
    made = [splits_compared(results), *cross_dataset_tables(results), imagenet_splits(results)]
    return [table for table in (*made, inductive_and_transductive(results)) if table.rows]


def splits_compared(results: Sequence[Result]) -> Table:
    """Return Table 3: the accuracy on unseen classes on SS and on PS, where both were run."""
    both = [(data, method, own) for data, method, own in _by_method(results) if {"SS", "PS"} <= set(own)]
    rows = [
        [TableCell(data), TableCell(method), *(measured(own[s]) for s in ("SS", "PS"))] for data, method, own in both
    ]
    return Table("SS against PS: ZSL (%)", ["data", "method", "SS", "PS"], rows)


def inductive_and_transductive(results: Sequence[Result]) -> Table:
    """Return ALE and GFZSL beside their transductive forms."""
    found = {(data, split, method): r for data, method, own in _by_method(results) for split, r in own.items()}
    rows = [
        [TableCell(f"{data} {split}"), TableCell(method)]
        + [measured(each, metric) for metric in ("zsl", "H") for each in (result, found[form])]
        for (data, split, method), result in found.items()
        if (form := (data, split, f"{method}-tran")) in found
    ]
    columns = ["data", "method", "ZSL", "ZSL, transductive", "H", "H, transductive"]
    return Table("transductive beside inductive (%)", columns, rows)


def cross_dataset_tables(results: Sequence[Result]) -> list[Table]:
    """Return Table 4 for each setting, with its paired t-test: ZSL, trained on one dataset, tested on it or another."""
    found = []
    for group in main_settings(results, "test_on"):
        by_row: dict[tuple[str, str], dict[tuple[str, str], Result]] = {}
        for result in group.results:
            parameters, home = parameters_of(result), short_name(result.cell.dataset)
            pair = home, short_name(parameters.test_on or result.cell.dataset)
            by_row.setdefault((result.cell.model, parameters.method), {})[pair] = result
        pairs = {pair for own in by_row.values() for pair in own}
        order = sorted(pairs, key=lambda pair: (pair[0], pair[0] != pair[1], pair[1]))
        if all(home == target for home, target in order):
            continue
        rows = [[*map(TableCell, names), *(measured(own.get(pair)) for pair in order)] for names, own in by_row.items()]
        heads = map(":".join, order)
        title = "across datasets, training set : test set: ZSL (%)" + (f" · {group.words}" if group.words else "")
        found.append(Table(title, ["model", "method", *heads], rows, notes=list(_cross_dataset_notes(by_row.values()))))
    return found


def _cross_dataset_notes(rows: Collection[Mapping[tuple[str, str], Result]]) -> Iterator[str]:
    """Yield the paired t-test of each two training sets, over methods and the test sets that both were tested on."""
    for one, other in combinations(sorted({home for own in rows for home, _ in own}), 2):
        pairs = [
            [own[home, target].metrics["zsl"] for home in (one, other)]
            for own in rows
            for target in (one, other)
            if (one, target) in own and (other, target) in own
        ]
        if len(pairs) > 1:
            test = paired_t_test(*zip(*pairs, strict=True))
            yield (
                f"Trained on {one} against trained on {other}, over {test.pairs} pairs with the same test set: mean "
                f"difference {100 * test.difference:.1f} points, t = {test.statistic:.2f}, p = {test.p_value:.2g}."
            )


def imagenet_splits(results: Sequence[Result]) -> Table:
    """Return Table 5 and the numbers of Figs. 5 and 6: each method and measure over the ImageNet splits."""
    columns = [s for s in IMAGENET_SPLITS if any(parameters_of(r).split == s for r in results if r.ok)]
    rows = []
    for data, method, by_split in _by_method(results):
        for metric in IMAGENET_METRICS:
            cells = [measured(by_split.get(split), metric) for split in columns]
            if any(cell.value is not None for cell in cells):
                rows.append([TableCell(data), TableCell(method), TableCell(style_of(metric).title), *cells])
    return Table("ImageNet splits (%)", ["data", "method", "measure", *columns], rows)


def _by_method(results: Sequence[Result]) -> Iterator[tuple[str, str, dict[str, Result]]]:
    """Yield dataset with model and setting, method, and the results of each split; tests on the training set alone."""
    for group in main_settings(results, "split"):
        found: dict[tuple[str, str], dict[str, Result]] = {}
        for result in group.results:
            parameters, dataset = parameters_of(result), plain_name(result.cell.dataset)
            words = f"{dataset} {result.cell.model}{f' ({group.words})' if group.words else ''}"
            found.setdefault((words, parameters.method), {})[parameters.split] = result
        if not group.setting.get("test_on"):
            yield from ((data, method, by_split) for (data, method), by_split in found.items())
