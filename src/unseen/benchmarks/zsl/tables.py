"""Tables of zero-shot results, for every output: methods by metrics, and the smaller studies of the paper.

Paper:      Xian et al., TPAMI 2018: Table 3 (SS against PS), Table 4 (across datasets), Table 5 with Figs. 5 and 6
            (ImageNet), Fig. 3 (folds), Fig. 8 (transductive methods)

Intervals and marks come from `stats.decide`. Results that are compared differ in the split, the method or the training
set alone; every other setting has its own row or table.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from unseen.benchmarks.zsl import ZSL
from unseen.benchmarks.zsl.analysis import CHOSEN, METHOD, METRICS, main_settings, on_all_folds, settings
from unseen.benchmarks.zsl.details import BENCHMARK, details_of, parameters_of, plain_name, short_name
from unseen.benchmarks.zsl.published import printed_value, source
from unseen.core.arrays import FloatArray
from unseen.core.records import Result
from unseen.results.comparability import older_note
from unseen.results.grid import candidate_of, summary_of
from unseen.results.info import MetricStyle, metric_style
from unseen.results.table import MARK_NOTE, DisplayNames, Table, TableCell, mark_of, run_findings
from unseen.stats import Candidate, Decision, decide, unpaired_difference
from unseen.zeroshot.outcomes import class_candidate, power_statement
from unseen.zeroshot.problem import IMAGENET_SPLITS

#: Heading of ZSL with its interval over classes.
OVER_CLASSES = "ZSL over classes (%)"
_PAIRS = (("ALE", "ALE-tran"), ("GFZSL", "GFZSL-tran"))
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


def runs_of(results: Collection[Result], names: DisplayNames) -> list[Run]:
    """Return the runs in order of appearance.

    Args:
        names: display names of models and datasets; ids by default.
    """
    found = []
    for group in settings(list(results), (METHOD,)):
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
    return [method_table(run) if run.on_all_folds else folds_table(run) for run in runs_of(results, names)]


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
    known = {parameters_of(r).method: _per_class(r) for r in _with(results, "zsl")}
    if not known or any(len(values) < 2 for values in known.values()) or len({len(v) for v in known.values()}) > 1:
        return None
    return decide({method: class_candidate(values) for method, values in known.items()})


def _per_class(result: Result) -> FloatArray:
    return np.asarray(list(details_of(result).per_class.values()), np.float64)


def _power(results: Sequence[Result], decision: Decision) -> str:
    statement = power_statement({parameters_of(r).method: _per_class(r) for r in _with(results, "zsl")}, decision)
    return f"Paired t-test over classes: {statement}" if statement else "One method: nothing is compared"


def method_table(run: Run, *, folded: bool = False) -> Table:
    """Return the methods of a run by metrics, with the numbers of the paper where they are of the same question."""
    shown = [m for m in ZSL.columns if any(m in r.metrics for r in run.results)]
    decisions = {metric: decide_methods(run.results, metric) for metric in shown}
    paper = [m for m in METRICS if any(printed_value(r, m) is not None for r in run.results)]
    classes = decide_over_classes(run.results)
    rows = []
    for result in run.results:
        method, details = parameters_of(result).method, details_of(result)
        chosen = ", ".join(f"{name} {value}" for name, value in details.best.items())
        note = "transductive" if details.transductive else ""
        cells = [_cell(result, metric, decisions[metric]) for metric in shown]
        if classes is not None:
            interval = classes.intervals.get(method)
            mark = mark_of(method, classes)
            over = TableCell() if interval is None else replace(measured(result), interval=interval, mark=mark)
            cells.insert(shown.index("zsl") + 1, replace(over, n=None if interval is None else interval.n))
        printed = [number(printed_value(result, metric), metric) for metric in paper]
        rows.append([TableCell(method, note=note, hint=chosen), *cells, *printed])
    heads = [style_of(m).heading for m in shown] + [f"{style_of(m).title}, paper" for m in paper]
    if classes is not None:
        heads.insert(shown.index("zsl") + 1, OVER_CLASSES)
    marked = any(cell.mark for row in rows for cell in row)
    notes = [*_run_notes(run), f"{MARK_NOTE}." if marked else "", f"Paper: {source()}." if paper else ""]
    if classes is not None:
        about = "95 % confidence interval for new unseen classes"
        notes.insert(1, f"{OVER_CLASSES}: {about}. {_power(run.results, classes)}.")
    columns, shown_notes = ["method", *heads], [note for note in notes if note]
    return Table(f"By method · {run.title}", columns, rows, folded=folded, notes=shown_notes)


def folds_table(run: Run) -> Table:
    """Return ZSL of methods with hyper-parameters chosen on each validation fold alone (Fig. 3 of the paper)."""
    results = _with(run.results, "zsl")
    folds = sorted({parameters_of(result).fold for result in results}, key=str)
    cells: dict[str, dict[int | str, TableCell]] = {}
    for fold in folds:
        own = [result for result in results if parameters_of(result).fold == fold]
        decision = decide_methods(own, "zsl")
        for result in own:
            cells.setdefault(parameters_of(result).method, {})[fold] = _cell(result, "zsl", decision)
    rows = [
        [TableCell(method), *(by_fold.get(fold, TableCell()) for fold in folds)] for method, by_fold in cells.items()
    ]
    notes = ["Hyper-parameters chosen on one fold of validation classes alone.", *_run_notes(run)]
    columns = ["method", *(f"fold {fold}" for fold in folds)]
    return Table(f"ZSL by fold (%) · {run.title}", columns, rows, folded=True, notes=notes)


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
    rows = []
    for dataset, rest, values in _places(results):
        for split in dict.fromkeys(split for _, split in values):
            for pair in _PAIRS:
                both = [values[method, split] for method in pair if (method, split) in values]
                if len(both) == 2:
                    cells = [measured(each, metric) for metric in ("zsl", "H") for each in both]
                    rows.append([TableCell(f"{dataset} {split} {rest}"), TableCell(pair[0]), *cells])
    columns = ["data", "method", "ZSL", "ZSL, transductive", "H", "H, transductive"]
    return Table("transductive beside inductive (%)", columns, rows)


def cross_dataset_tables(results: Sequence[Result]) -> list[Table]:
    """Return Table 4 for each setting: ZSL of each method, trained on one dataset and tested on it or on another."""
    found = []
    for group in main_settings(results, "test_on"):
        for model, own in group.by_model().items():
            by_method: dict[str, dict[tuple[str, str], Result]] = {}
            for result in own:
                parameters = parameters_of(result)
                pair = short_name(result.cell.dataset), short_name(parameters.test_on or result.cell.dataset)
                by_method.setdefault(parameters.method, {})[pair] = result
            pairs = dict.fromkeys(pair for by_pair in by_method.values() for pair in by_pair)
            if all(home == target for home, target in pairs):
                continue
            order = sorted(pairs, key=lambda pair: (pair[0], pair[0] != pair[1]))
            printed = [pair for pair in order if any(_printed(r.get(pair)) is not None for r in by_method.values())]
            rows = [
                [TableCell(model), TableCell(method), *(measured(by_pair.get(pair)) for pair in order)]
                + [number(_printed(by_pair.get(pair))) for pair in printed]
                for method, by_pair in by_method.items()
            ]
            heads = [*map(":".join, order), *(f"{':'.join(pair)}, paper" for pair in printed)]
            title = "across datasets, training set : test set: ZSL (%)" + (f" · {group.words}" if group.words else "")
            found.append(Table(title, ["model", "method", *heads], rows))
    return found


def _printed(result: Result | None) -> float | None:
    return None if result is None else printed_value(result, "zsl", across=True)


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
    """Yield dataset with model and setting, method, and the results of each split."""
    for dataset, rest, values in _places(results):
        for method in dict.fromkeys(method for method, _ in values):
            yield f"{dataset} {rest}", method, {split: r for (own, split), r in values.items() if own == method}


def _places(results: Sequence[Result]) -> Iterator[tuple[str, str, Mapping[tuple[str, str], Result]]]:
    """Yield the dataset and the words of each model and setting, with the results of each method and split."""
    for group in main_settings(results, "split"):
        if group.setting.get("test_on"):
            continue
        found: dict[tuple[str, str], dict[tuple[str, str], Result]] = {}
        for result in group.results:
            parameters, place = parameters_of(result), (plain_name(result.cell.dataset), result.cell.model)
            found.setdefault(place, {})[parameters.method, parameters.split] = result
        for (dataset, model), values in found.items():
            yield dataset, model + (f" ({group.words})" if group.words else ""), values
