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

from unseen.benchmarks.zsl.analysis import CHOSEN, METHOD, METRICS, main_settings, on_all_folds, settings
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
from unseen.stats import Candidate, Decision, decide, unpaired_difference
from unseen.zeroshot.outcomes import class_candidate, class_deviations, power_statement, split_candidate, split_outcomes
from unseen.zeroshot.problem import IMAGENET_SPLITS

#: Heading of ZSL with its interval over classes.
OVER_CLASSES = "ZSL over classes (%)"
#: The metrics of Fig. 5, then those of Fig. 6.
IMAGENET_METRICS = ("zsl", "zsl_top5", "zsl_top10", "ts", "ts_top5", "ts_top10")


@dataclass(frozen=True)
class Run:
    """The results of one model in one setting, best method first.

    Attributes:
        title: dataset, split, model, and what distinguishes the setting from others.
        on_all_folds: whether hyper-parameters were chosen on all validation folds; otherwise on each fold alone.
        older: number of results of older weights or data that are not shown.
    """

    title: str
    model: str
    results: Sequence[Result]
    on_all_folds: bool
    older: int = 0


def runs_of(results: Collection[Result], names: DisplayNames, *, sampled: bool = False) -> list[Run]:
    """Return the runs in order of appearance.

    Args:
        names: display names of models and datasets; ids by default.
        sampled: return runs over random class splits in place of the others.
    """
    found = []
    for group in settings(list(results), (METHOD,), sampled=sampled):
        differs = {name: value for name, value in group.differs.items() if name not in ("dataset", "split", CHOSEN)}
        for model, own in group.by_model().items():
            dataset = plain_name(own[0].cell.dataset)
            dataset = names.get(own[0].cell.dataset, names.get(dataset, dataset))
            words = replace(group, differs=differs).words
            parts = (dataset, parameters_of(own[0]).split, names.get(model, model), words)
            headline = "H" if any("H" in result.metrics for result in own) else "zsl"
            own.sort(key=lambda r: (-r.metrics.get(headline, 0.0), -r.metrics.get("zsl", 0.0)))
            found.append(Run(" · ".join(filter(None, parts)), model, own, on_all_folds(group), group.older))
    return found


def zsl_tables(results: Collection[Result], names: DisplayNames, metrics: Sequence[str] = ()) -> list[Table]:
    """Return one table per run: methods by metrics, or methods by validation folds."""
    found = [method_table(run) if run.on_all_folds else folds_table(run) for run in runs_of(results, names)]
    return found + [splits_table(run) for run in runs_of(results, names, sampled=True)]


def style_of(metric: str) -> MetricStyle:
    """Return how a metric of zero-shot learning is shown."""
    return metric_style(metric, BENCHMARK)


def candidate(result: Result, metric: str) -> Candidate:
    """Return the candidate of `stats.decide` for one result that has the metric."""
    return candidate_of([result], style_of(metric))


def decide_methods(results: Sequence[Result], metric: str) -> Decision:
    """Decide which methods differ, image by image if their outcomes are stored."""
    return decide({parameters_of(r).method: candidate(r, metric) for r in _with(results, metric)})


def decide_over_classes(results: Sequence[Result]) -> Decision | None:
    """Decide which methods differ for new unseen classes; None if the accuracies of classes are unknown."""
    known = _per_class(results)
    if not known or min(map(len, known.values())) < 2 or len(set(map(len, known.values()))) > 1:
        return None
    return decide({method: class_candidate(values) for method, values in known.items()})


def _per_class(results: Sequence[Result]) -> dict[str, FloatArray]:
    """Return the accuracies of the unseen classes by method."""
    return {
        parameters_of(result).method: np.asarray(list(details_of(result).per_class.values()), np.float64)
        for result in _with(results, "zsl")
    }


def class_power(results: Sequence[Result], decision: Decision) -> str:
    """Return whether the unseen classes separate the best two methods, and how many classes would."""
    return power_statement(_per_class(results), decision)


@dataclass(frozen=True, eq=False)
class SplitResults:
    """Results of random class splits: methods are compared on the splits that all of them have.

    Attributes:
        by_method: results by method and number of the split.
        common: numbers of the splits with a result of every method.
    """

    by_method: Mapping[str, Mapping[int, Result]]
    common: Sequence[int]

    @classmethod
    def of(cls, results: Sequence[Result]) -> SplitResults:
        found: dict[str, dict[int, Result]] = {}
        for result in results:
            found.setdefault(parameters_of(result).method, {})[parameters_of(result).class_split] = result
        return cls(found, sorted(set.intersection(*map(set, found.values()))))

    @property
    def tested(self) -> tuple[int, int]:
        """Unseen classes of each split, and classes that they are sampled from."""
        details = details_of(next(iter(next(iter(self.by_method.values())).values())))
        return details.unseen_classes, details.pool

    def values(self, metric: str) -> dict[str, FloatArray]:
        """Return what `split_outcomes` makes of each method that has the metric."""
        found = {}
        for method, own in self.by_method.items():
            each = [own[k].metrics for k in self.common]
            numbers = {m: [one[m] for one in each] for m in METRICS if all(m in one for one in each)}
            if metric in numbers:
                seen = details_of(next(iter(own.values()))).seen_classes
                found[method] = split_outcomes(metric, numbers, seen, *self.tested)
        return found

    def decide(self, metric: str) -> Decision:
        """Decide which methods differ for new classes."""
        return decide({method: split_candidate(own, *self.tested) for method, own in self.values(metric).items()})

    @property
    def power(self) -> str:
        """Whether the classes separate the best two methods, and how many classes would."""
        tested, pool = self.tested
        far = {method: class_deviations(own, tested, pool) for method, own in self.values("zsl").items()}
        return power_statement(far, self.decide("zsl"), classes=pool, splits=len(self.common))


def method_table(run: Run, *, folded: bool = False) -> Table:
    """Return the methods of a run by metrics, with the numbers of the paper where they are of the same question."""
    results, classes = run.results, decide_over_classes(run.results)
    columns: dict[str, list[TableCell]] = {}
    for metric in (m for m in info_of("zsl").columns if any(m in r.metrics for r in results)):
        decision = decide_methods(results, metric)
        columns[style_of(metric).heading] = [_cell(result, metric, decision) for result in results]
        if metric == "zsl" and classes is not None:
            columns[OVER_CLASSES] = [_cell_over_classes(result, classes) for result in results]
    marked = any(cell.mark for cells in columns.values() for cell in cells)
    measured_columns = len(columns)
    for metric in METRICS if any(result.cell.model == PUBLISHED_MODEL for result in results) else ():
        printed = [printed_value(result, metric) for result in results]
        if any(value is not None for value in printed):
            columns[f"{style_of(metric).title}, paper"] = [number(value, metric) for value in printed]
    rows = []
    for result, *cells in zip(results, *columns.values(), strict=True):
        details = details_of(result)
        chosen = ", ".join(f"{name} {value}" for name, value in details.best.items())
        note = "transductive" if details.transductive else ""
        rows.append([TableCell(parameters_of(result).method, note=note, hint=chosen), *cells])
    notes = [*_run_notes(run), f"{MARK_NOTE}." if marked else ""]
    notes.append(f"Paper: {source()}." if len(columns) > measured_columns else "")
    if classes is not None:
        power = class_power(results, classes)
        compared = f"Paired t-test over classes: {power}" if power else "One method: nothing is compared"
        notes.insert(1, f"{OVER_CLASSES}: 95 % confidence interval for new unseen classes. {compared}.")
    heads = ["method", *columns]
    return Table(f"By method · {run.title}", heads, rows, folded=folded, notes=list(filter(None, notes)))


def folds_table(run: Run) -> Table:
    """Return ZSL of methods with hyper-parameters chosen on each validation fold alone (Fig. 3 of the paper)."""
    columns: dict[str, dict[str, TableCell]] = {}
    for fold in sorted({parameters_of(result).fold for result in _with(run.results, "zsl")}, key=str):
        own = [result for result in _with(run.results, "zsl") if parameters_of(result).fold == fold]
        decision = decide_methods(own, "zsl")
        columns[f"fold {fold}"] = {parameters_of(result).method: _cell(result, "zsl", decision) for result in own}
    notes = ["Hyper-parameters chosen on one fold of validation classes alone.", *_run_notes(run)]
    return Table(f"ZSL by fold (%) · {run.title}", *_by_row(columns), folded=True, notes=notes)


def _by_row(columns: Mapping[str, Mapping[str, TableCell]]) -> tuple[list[str], list[list[TableCell]]]:
    """Return heads and rows of a table of methods from its columns, with empty cells where a column lacks a method."""
    methods = dict.fromkeys(method for cells in columns.values() for method in cells)
    rows = [[TableCell(method), *(cells.get(method, TableCell()) for cells in columns.values())] for method in methods]
    return ["method", *columns], rows


def splits_table(run: Run) -> Table:
    """Return the mean of each metric over random class splits by method, with intervals and marks for new classes."""
    splits = SplitResults.of(run.results)
    (tested, pool), common = splits.tested, splits.common
    columns: dict[str, dict[str, TableCell]] = {}
    for metric in (m for m in METRICS if common and any(m in r.metrics for r in run.results)):
        decision = splits.decide(metric)
        columns[style_of(metric).heading] = {
            method: replace(
                number(decision.intervals[method].value, metric),
                interval=decision.intervals[method],
                cells=tuple(splits.by_method[method][k].cell.id for k in common),
                n=len(common),
                mark=mark_of(method, decision),
            )
            for method in decision.order
        }
    heads, rows = _by_row(columns)
    unused = max(map(len, splits.by_method.values())) - len(common)
    power = splits.power if common else ""
    notes = [
        f"Means over {len(common)} random class splits with {tested} of {pool} classes unseen",
        "95 % confidence interval for new classes in brackets, corrected for the classes that splits share",
        f"Splits without a result of every method: {unused}, not used" if unused else "",
        f"Paired comparison over splits: {power}" if power else "",
        older_note(run.older),
        MARK_NOTE if any(cell.mark for row in rows for cell in row) else "",
    ]
    return Table(f"Over random class splits · {run.title}", heads, rows, notes=[f"{n}." for n in notes if n])


def number(value: float | None, metric: str = "zsl") -> TableCell:
    """Return a cell with the value of a metric; an empty one for None."""
    return TableCell(value=value, metric=style_of(metric)) if value is not None else TableCell()


def measured(result: Result | None, metric: str = "zsl") -> TableCell:
    """Return a cell with a metric of a result and its interval; an empty one if there is none."""
    if result is None or metric not in result.metrics:
        return TableCell()
    cell = number(float(result.metrics[metric]), metric)
    return replace(cell, interval=summary_of([result], metric).interval, cells=(result.cell.id,))


def _cell(result: Result, metric: str, decision: Decision) -> TableCell:
    if not _with([result], metric):
        return TableCell(hint="no result")
    details = details_of(result)
    images = {"zsl": details.test_images, "ts": details.test_images, "tr": details.seen_test_images}
    name = metric.removesuffix("_per_image")
    return replace(
        measured(result, metric),
        mark=mark_of(parameters_of(result).method, decision),
        n=images.get(name, details.test_images + details.seen_test_images) or None,
        chance=(details.chance or None) if name == "zsl" else None,
    )


def _cell_over_classes(result: Result, decision: Decision) -> TableCell:
    method = parameters_of(result).method
    if (interval := decision.intervals.get(method)) is None:
        return TableCell()
    return replace(measured(result), interval=interval, mark=mark_of(method, decision), n=interval.n)


def _with(results: Sequence[Result], metric: str) -> list[Result]:
    """Return the results that have a metric; AUSUC of a method that no constant moves is dropped."""
    return [r for r in results if metric in r.metrics and (metric != "AUSUC" or details_of(r).has_area)]


def _run_notes(run: Run) -> list[str]:
    details, calibration = details_of(run.results[0]), parameters_of(run.results[0]).calibration
    known = any(summary_of([r], m).interval.known for r in run.results for m in METRICS if m in r.metrics)
    shared, findings = details.indistinguishable_classes, run_findings(run.results)
    found = [
        "Accuracies are means over classes unless the heading states otherwise",
        "95 % confidence interval over test images of these classes in brackets" if known else "",
        f"{details.seen_classes} seen and {details.unseen_classes} unseen classes",
        f"{details.train_images:,} training images",
        f"{details.test_images:,} test images of unseen and {details.seen_test_images:,} of seen classes",
        f"embedding {details.embedding} ({details.embedding_dimensions} dimensions)",
        f"{shared} classes share the embedding of another" if shared else "",
        f"chance {100 * details.chance:.1f} %" if details.chance else "",
        f"calibrated stacking {calibration}" if calibration else "",
        "transductive methods see all test images together" if details.transductive else "",
    ]
    sentences = ["; ".join(filter(None, found)), f"Leak audit: {details.audit}" if details.audit else ""]
    sentences += [older_note(run.older), f"Run record: {'; '.join(findings)}" if findings else ""]
    return [f"{text.rstrip('.')}." for text in sentences if text]


# ---- studies of the paper --------------------------------------------------------------------------------------------


def all_studies(results: Sequence[Result]) -> list[Table]:
    """Return every table that has rows."""
    made = [splits_compared(results), *cross_dataset_tables(results), imagenet_splits(results)]
    return [table for table in (*made, inductive_and_transductive(results)) if table.rows]


def splits_compared(results: Sequence[Result]) -> Table:
    """Return the accuracy on unseen classes on SS and on PS, where both were run."""
    rows = []
    for data, method, by_split in _by_method(results):
        if "SS" in by_split and "PS" in by_split:
            ss, ps = by_split["SS"], by_split["PS"]
            change = unpaired_difference(summary_of([ps], "zsl").interval, summary_of([ss], "zsl").interval)
            cells = [measured(ss), measured(ps), replace(number(change.value), interval=change)]
            rows.append([TableCell(data), TableCell(method), *cells])
    return Table("SS against PS: ZSL (%)", ["data", "method", "SS", "PS", "change"], rows)


def inductive_and_transductive(results: Sequence[Result]) -> Table:
    """Return ALE and GFZSL beside their transductive forms."""
    found = {(data, split, method): r for data, method, own in _by_method(results) for split, r in own.items()}
    rows = []
    for data, split, method in found:
        both = [found.get((data, split, each)) for each in (method, f"{method}-tran")]
        if all(both):
            cells = [measured(each, metric) for metric in ("zsl", "H") for each in both]
            rows.append([TableCell(f"{data} {split}"), TableCell(method), *cells])
    columns = ["data", "method", "ZSL", "ZSL, transductive", "H", "H, transductive"]
    return Table("transductive beside inductive (%)", columns, rows)


def cross_dataset_tables(results: Sequence[Result]) -> list[Table]:
    """Return Table 4 for each setting, with its paired t-test: ZSL, trained on one dataset, tested on it or another."""
    found = []
    for group in main_settings(results, "test_on"):
        by_row: dict[tuple[str, str], dict[tuple[str, str], Result]] = {}
        for result in group.results:
            parameters, home = parameters_of(result), short_name(result.cell.dataset)
            pair = home, short_name(parameters.test_on) if parameters.test_on else home
            by_row.setdefault((result.cell.model, parameters.method), {})[pair] = result
        columns = dict.fromkeys(pair for own in by_row.values() for pair in own)
        order = sorted(columns, key=lambda pair: (pair[0], pair[0] != pair[1]))
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
