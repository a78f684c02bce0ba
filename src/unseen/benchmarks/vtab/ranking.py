"""The table of VTAB for all outputs: tasks in the order of the paper, group means, the user's and published rows."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from operator import or_

from unseen.benchmarks.vtab.analysis import (
    ModelScores,
    published_scores,
    reference_tasks,
    row_names,
    scores_of,
    vtab_settings,
)
from unseen.benchmarks.vtab.info import VtabParameters
from unseen.benchmarks.vtab.published_tables import Size, TaskInfo, task_info
from unseen.core.errors import DataError
from unseen.core.records import Result
from unseen.reports.blocks import Material
from unseen.reports.wording import counted, listed
from unseen.results.info import metric_style
from unseen.results.table import (
    DisplayNames,
    Table,
    TableCell,
    findings_footnote,
    mark_of,
    summary_cell,
    summary_notes,
)
from unseen.stats import Candidate, Decision, decide

TOP1 = metric_style("top1", "vtab")
UNDECIDED = decide({})
_MEAN = "Mean of"
_INTERVALS = "Intervals of published numbers follow from the printed accuracy and the number of test images."


@dataclass(frozen=True, slots=True)
class Column:
    """A task, or a mean over tasks.

    Attributes:
        by_group: whether it is the mean of the means of groups of tasks.
    """

    group: str
    head: str
    tasks: tuple[str, ...]
    by_group: bool = False


#: The mean number of trained parameters over tasks, with the head.
_PARAMETERS = Column("", "trained parameters", ())


@dataclass(frozen=True, eq=False)
class Ranking:
    """The rows of one setting that compare with one another, and those that do not.

    Attributes:
        table, size: which published table they compare with, for how many examples.
        tasks: the tasks of the columns, by name, in the order of the paper.
        rows: rows with all tasks and complete data; if the data of all rows are incomplete, those.
        incomplete: the user's other rows, with what they lack; they are not ranked.
        note: why there are no published rows.
    """

    setting: str
    table: str
    size: Size
    tasks: Mapping[str, TaskInfo]
    rows: Sequence[ModelScores]
    incomplete: Sequence[tuple[ModelScores, str]] = field(default=())
    note: str = ""

    @cached_property
    def columns(self) -> list[Column]:
        """The tasks by group, then means: of each group, of groups, and of tasks."""
        found = _task_columns(self.tasks)
        groups: dict[str, tuple[str, ...]] = {}
        for column in found:
            groups[column.group] = groups.get(column.group, ()) + column.tasks
        if len(groups) > 1:
            found += [Column(_MEAN, group, own) for group, own in groups.items()]
            found.append(Column(_MEAN, "groups", tuple(self.tasks), by_group=True))
        return [*found, self.mean]

    @property
    def mean(self) -> Column:
        """The mean over tasks, by which rows are ranked."""
        return Column(_MEAN, counted(len(self.tasks), "task"), tuple(self.tasks))

    @cached_property
    def candidates(self) -> Mapping[Column, Mapping[str, Candidate]]:
        """By column and row, the value with its interval."""
        return {c: {row.key: row.mean(c.tasks, by_group=c.by_group) for row in self.rows} for c in self.columns}

    @cached_property
    def decisions(self) -> Mapping[Column, Decision]:
        """By column, which rows differ significantly and which may be the best."""
        return {column: decide(rows) for column, rows in self.candidates.items()}

    @property
    def ordered(self) -> list[ModelScores]:
        """The rows, best mean first."""
        return sorted(self.rows, key=lambda row: self.decisions[self.mean].order.index(row.key))

    def tables(self, names: DisplayNames, older: int = 0) -> list[Table]:
        """Return the table of ranked rows, and one of incomplete rows if there are any.

        Args:
            names: how to call models and the benchmark.
            older: how many results of older weights or data were dropped.
        """
        others = [row for row, _ in self.incomplete]
        called = row_names([row for row in (*self.rows, *others) if not row.source], names)
        called |= row_names([row for row in (*self.rows, *others) if row.source], names)
        own = [row for row in self.rows if not row.source]
        counted_rows = any(row.trainable and row.adaptation != "linear" for row in own)
        columns = [*self.columns, *([_PARAMETERS] if counted_rows else [])]
        ranked = self._table(self._caption(names, own), self.ordered, columns, called)
        marked = any(cell.mark for cells in ranked.rows for cell in cells)
        sources = listed(list(dict.fromkeys(row.source for row in self.rows if row.source)))
        notes = summary_notes([r.summaries[t] for r in own for t in self.tasks], marked=marked, older=older)
        notes += [_whose(self.rows), *([f"Published: {sources}.", _INTERVALS] if sources else []), self.note]
        found = [replace(ranked, notes=[note for note in notes if note])]
        if others:
            columns = _task_columns(reduce(or_, [row.tasks for row in others], dict(self.tasks)))
            table = self._table(f"{ranked.caption}: incomplete, not ranked", others, columns, called)
            found.append(replace(table, notes=[f"{called[row.key]}: {lacks}." for row, lacks in self.incomplete]))
        return found

    def _table(
        self, caption: str, rows: Sequence[ModelScores], columns: Sequence[Column], called: Mapping[str, str]
    ) -> Table:
        return Table(
            caption,
            ["method" if any(row.source for row in rows) else "model", *(column.head for column in columns)],
            [[_head(row, called[row.key]), *(self._cell(row, column) for column in columns)] for row in rows],
            ["" if row.source else row.model for row in rows],  # filters are for the user's models
            groups=["", *(column.group for column in columns)],
        )

    def _cell(self, row: ModelScores, column: Column) -> TableCell:
        if column == _PARAMETERS:
            return TableCell(f"{row.trainable:,}", row.trainable) if row.trainable else TableCell()
        decision = self.decisions.get(column, UNDECIDED)
        mark = mark_of(row.key, decision)
        if column.group != _MEAN:
            return replace(summary_cell(row.summaries.get(column.tasks[0]), UNDECIDED), mark=mark)
        interval, cells = decision.intervals[row.key], row.cells(column.tasks)
        n = interval.n or None
        return TableCell(value=interval.value, interval=interval, metric=TOP1, mark=mark, n=n, cells=cells)

    def _caption(self, names: DisplayNames, own: Sequence[ModelScores]) -> str:
        known = any(info.published for info in self.tasks.values())  # other data have other numbers of examples
        ways = {row.way for row in own}
        words = [names.get("vtab", "VTAB"), "top-1 accuracy (%)", ways.pop() if len(ways) == 1 else self.table]
        words += ["1,000 examples"] if known and self.size == "1000" else []
        return ", ".join(words) + (f" · {self.setting}" if self.setting else "")


def _whose(rows: Sequence[ModelScores]) -> str:
    """Return whose 1,000 examples of VTAB's tasks were used, as a sentence; "" if none of them is VTAB's."""
    tasks: dict[str, list[str]] = {}
    for row in rows:
        for task, whose in row.examples.items():
            tasks.setdefault(whose, []).append(row.tasks[task].title)
    words = [f"{whose} ({listed(list(dict.fromkeys(titles)), 19)})" for whose, titles in tasks.items()]
    return f"1,000 examples: {'; '.join(words)}." if words else ""


def _task_columns(tasks: Mapping[str, TaskInfo]) -> list[Column]:
    """Return one column per task, group by group."""
    ordered = sorted(tasks.items(), key=lambda item: item[1].order)
    return [Column(info.group.capitalize(), info.title, (task,)) for task, info in ordered]


def _head(row: ModelScores, name: str) -> TableCell:
    shown = f"{name} (published)" if row.source and not name.endswith("published)") else name
    return TableCell(shown, name.lower(), hint=row.source or row.model)


def rank(own: Sequence[ModelScores], literature: Sequence[ModelScores] = (), *, setting: str = "") -> Ranking:
    """Rank rows that compare with one another, among published methods if their tasks and data are complete.

    Args:
        own: rows of the user's models.
        literature: published rows beside those of the table that the first row compares with.
    """
    table, size = VtabParameters(own[0].adaptation, own[0].sweep).table, own[0].size
    tasks = reference_tasks(own)
    whole = [row for row in own if row.summaries.keys() >= tasks.keys()]
    intact = [row for row in whole if row.incomplete.keys().isdisjoint(tasks)]
    ranked, note = intact or whole, "" if intact else "Data are incomplete: not comparable with published numbers."
    unranked = sorted((row for row in own if row not in ranked), key=lambda row: row.key)
    if intact and not own[0].budget and all(info.published for info in tasks.values()):
        for row in (*published_scores(table, size), *literature):
            (ranked if row.summaries.keys() >= tasks.keys() else unranked).append(row)
    return Ranking(setting, table, size, tasks, ranked, [(row, _lacks(row, tasks)) for row in unranked], note)


def compare(
    results: Sequence[Result],
    *,
    size: Size | None = None,
    literature: Sequence[Result] = (),
) -> list[Ranking]:
    """Rank every setting apart, each among the published methods, on the tasks of the paper.

    Args:
        size: only results of this size; by default all.
        literature: further published results, with their source; rows that lack tasks are listed, not ranked.

    Raises:
        DataError: there is nothing to compare.
    """
    found, known = [], [result for result in results if task_info(result.cell.dataset).published]
    for setting in vtab_settings(Material(known)):
        if setting.rows and size in (None, setting.size):
            more = [row for row in scores_of(literature) if row.size == setting.size]
            found.append(rank(setting.scores, more, setting=setting.group.words))
    if not found:
        raise DataError(
            "there are no VTAB results to compare. The published methods were never run on the embedded tasks: run "
            "some of VTAB's own with `unseen vtab run` (`unseen vtab check` lists the data that you have)."
        )
    return found


def vtab_tables(results: Collection[Result], names: DisplayNames, metrics: Sequence[str] = ()) -> list[Table]:
    """Return the tables of VTAB for all outputs, setting by setting; results of fixed budgets have their own."""
    found: list[Table] = []
    for setting in vtab_settings(Material(list(results))):
        first, *more = rank(setting.scores, setting=setting.group.words).tables(names, setting.group.older)
        found += [replace(first, footnote=findings_footnote(setting.group.results)), *more]
    return found


def _lacks(row: ModelScores, tasks: Mapping[str, TaskInfo]) -> str:
    missing = [info.title for task, info in tasks.items() if task not in row.summaries]
    found = [f"{counted(len(missing), 'task')} of {len(tasks)} missing: {listed(missing)}"] if missing else []
    data = [f"{row.tasks[task].title} {text}" for task, text in row.incomplete.items()]
    return "; ".join([*found, *([f"incomplete data: {listed(data, 3)}"] if data else [])])
