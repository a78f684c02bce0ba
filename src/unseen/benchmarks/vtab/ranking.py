"""The table of VTAB for all outputs: tasks in the order of the paper, group means, the user's and published rows."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from unseen.benchmarks.vtab.analysis import (
    ModelScores,
    by_setting,
    group_scores,
    published_scores,
    reference_tasks,
    row_names,
    settings,
)
from unseen.benchmarks.vtab.published_tables import Adaptation, Size
from unseen.benchmarks.vtab.suites import TaskInfo
from unseen.core.errors import DataError
from unseen.core.records import Result
from unseen.reports.wording import counted, listed
from unseen.results.info import metric_style
from unseen.results.table import (
    Table,
    TableCell,
    default_tables,
    findings_footnote,
    mark_of,
    summary_cell,
    summary_notes,
)
from unseen.stats import Candidate, Decision, decide

TOP1 = metric_style("top1", "vtab")
_INTERVALS = "Intervals of published numbers follow from the printed accuracy and the number of test images"


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


@dataclass(frozen=True, eq=False)
class Ranking:
    """The rows of one setting that compare with one another, and those that do not.

    Attributes:
        table, size: which published table they compare with, for how many examples.
        tasks: the tasks of the columns, by name, in the order of the paper.
        rows: rows with all tasks and complete data, best mean first; if the data of all rows are incomplete, those.
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
        groups: dict[str, list[str]] = {}
        for task, info in self.tasks.items():
            groups.setdefault(info.group.capitalize(), []).append(task)
        found = [Column(group, self.tasks[task].title, (task,)) for group, own in groups.items() for task in own]
        if len(groups) > 1:
            found += [Column("Mean of", group, tuple(own)) for group, own in groups.items()]
            found.append(Column("Mean of", "groups", tuple(self.tasks), by_group=True))
        return [*found, self.mean]

    @property
    def mean(self) -> Column:
        """The mean over tasks, by which rows are ranked."""
        return Column("Mean of", counted(len(self.tasks), "task"), tuple(self.tasks))

    @cached_property
    def candidates(self) -> Mapping[Column, Mapping[str, Candidate]]:
        """By column and row, the value with its interval."""
        return {
            column: {key_of(row): row.mean(column.tasks, by_group=column.by_group) for row in self.rows}
            for column in self.columns
        }

    @cached_property
    def decisions(self) -> Mapping[Column, Decision]:
        """By column, which rows differ significantly and which may be the best."""
        return {column: decide(rows) for column, rows in self.candidates.items()}

    @property
    def ordered(self) -> list[ModelScores]:
        """The rows, best mean first."""
        rows = {key_of(row): row for row in self.rows}
        return [rows[key] for key in self.decisions[self.mean].order] if rows else []

    def tables(self, names: Mapping[str, str], older: int = 0) -> list[Table]:
        """Return the table of ranked rows, and one of incomplete rows if there are any.

        Args:
            names: how to call models and the benchmark.
            older: how many results of older weights or data were dropped.
        """
        called = self._names(names)
        found = []
        if self.rows:
            rows = [[_head(row, called), *(self._cell(row, c) for c in self.columns)] for row in self.ordered]
            groups = ["", *(column.group for column in self.columns)]
            heads = ["method" if any(row.source for row in self.rows) else "model", *(c.head for c in self.columns)]
            keys = ["" if row.source else row.model for row in self.ordered]  # filters are for the user's models
            notes = self._notes(older)
            found.append(
                Table(self._caption(names), heads, rows, range(1, len(heads)), keys, groups=groups, notes=notes)
            )
        return [*found, *([self._incomplete_table(names, called)] if self.incomplete else [])]

    def to_rows(self) -> list[dict[str, Any]]:
        """Return the rows as JSON values, scores in percent."""
        called = self._names({})
        place = {"setting": self.setting, "table": self.table, "size": self.size}
        places = self.decisions[self.mean].places
        found: list[dict[str, Any]] = []
        for row in self.ordered:
            interval = self.decisions[self.mean].intervals[key_of(row)]
            means = {c.head: self.decisions[c].intervals[key_of(row)].value for c in self.columns if len(c.tasks) > 1}
            found.append(
                _json(row, called)
                | {"mean": 100 * interval.value}
                | {end: 100 * getattr(interval, end) if interval.known else None for end in ("low", "high")}
                | {"means": {head: 100 * value for head, value in means.items()}}
                | {"places": places.get(key_of(row)), "mark": mark_of(key_of(row), self.decisions[self.mean])}
                | place
            )
        return [
            *found,
            *(_json(row, called) | {"mean": None, "incomplete": lacks} | place for row, lacks in self.incomplete),
        ]

    def _names(self, short: Mapping[str, str]) -> dict[tuple[str, str], str]:
        """Return the name of each row by (model, way)."""
        rows = [*self.rows, *(row for row, _ in self.incomplete)]
        parts = [[row for row in rows if bool(row.source) == published] for published in (False, True)]
        return {key: name for part in parts for key, name in row_names(part, short).items()}

    def _cell(self, row: ModelScores, column: Column) -> TableCell:
        decision, candidate = self.decisions[column], self.candidates[column][key_of(row)]
        if len(column.tasks) == 1 and column.group != "Mean of":
            cell = summary_cell(row.summaries[column.tasks[0]], decision)
            return replace(cell, mark=mark_of(key_of(row), decision))
        assert candidate.interval is not None
        return TableCell(
            value=candidate.interval.value,
            interval=candidate.interval,
            metric=TOP1,
            mark=mark_of(key_of(row), decision),
            n=candidate.interval.n or None,
            cells=row.cells(column.tasks),
        )

    def _incomplete_table(self, names: Mapping[str, str], called: Mapping[tuple[str, str], str]) -> Table:
        infos = dict(self.tasks) | {task: info for row, _ in self.incomplete for task, info in row.tasks.items()}
        nothing = decide({})
        rows = [
            [_head(row, called), *(summary_cell(row.summaries.get(task), nothing) for task in infos)]
            for row, _ in self.incomplete
        ]
        return Table(
            f"{self._caption(names)}: incomplete, not ranked",
            ["model", *(info.title for info in infos.values())],
            rows,
            range(1, 1 + len(infos)),
            [row.model for row, _ in self.incomplete],
            groups=["", *(info.group.capitalize() for info in infos.values())],
            notes=[f"{called[row.model, row.way]}: {lacks}." for row, lacks in self.incomplete],
        )

    def _caption(self, names: Mapping[str, str]) -> str:
        examples = "all examples" if self.size == "full" else "1,000 examples"
        adapted = "linear" if self.table == "linear" else f"{self.table} sweep"
        words = [names.get("vtab", "VTAB"), "top-1 accuracy (%)", adapted, examples]
        return ", ".join(words) + (f" · {self.setting}" if self.setting else "")

    def _notes(self, older: int) -> list[str]:
        own = [row for row in self.rows if not row.source]
        summaries = [row.summaries[task] for row in own for task in self.tasks]
        marked = any(mark_of(key_of(row), decision) for decision in self.decisions.values() for row in self.rows)
        found = summary_notes(summaries, marked=marked, older=older) if summaries else []
        sources = listed(list(dict.fromkeys(row.source for row in self.rows if row.source)))
        return [*found, *([f"Published: {sources}.", f"{_INTERVALS}."] if sources else []), *filter(None, [self.note])]


def key_of(row: ModelScores) -> str:
    """Return what identifies a row in the decisions of a ranking."""
    return f"{row.model} ({row.way})"


def rank(
    own: Sequence[ModelScores],
    published: Sequence[ModelScores] | None = None,
    *,
    setting: str = "",
    only_published: bool = False,
) -> Ranking:
    """Rank rows that compare with one another, among published methods if their tasks and data are complete.

    Args:
        own: rows of the user's models.
        published: published rows; by default those of the table that the first row compares with.
        only_published: drop tasks that [P] does not have.
    """
    if only_published:
        own = [replace(s, summaries={t: s.summaries[t] for t, i in s.tasks.items() if i.published}) for s in own]
    first = own[0]
    size: Size = "full" if first.size == "full" else "1000"
    tasks = reference_tasks(own)
    infos = {task: info for scores in own for task, info in scores.tasks.items()}
    whole = [row for row in own if all(task in row.summaries for task in tasks)]
    intact = [row for row in whole if not any(task in row.incomplete for task in tasks)]
    ranked = intact or whole
    unranked = sorted((row for row in own if row not in ranked), key=key_of)
    lacking = [(row, _lacks(row, tasks, infos)) for row in unranked]
    note = "" if intact else "Data are incomplete: not comparable with published numbers."
    others: Sequence[ModelScores] = ()
    if intact and all(infos[task].published for task in tasks):
        others = published_scores(first.table, size) if published is None else published
    shown = {task: infos[task] for task in tasks}
    return Ranking(setting, first.table, size, shown, [*ranked, *others] if tasks else (), lacking, note)


def compare(own: Sequence[ModelScores], *, table: Adaptation | None = None, size: Size | None = None) -> list[Ranking]:
    """Rank every setting apart, each among the published methods, on the tasks of the paper.

    Args:
        table: the published table for all; by default that of each setting.
        size: only results of this size; by default all.

    Raises:
        DataError: there is nothing to compare.
    """
    if not (chosen := [scores for scores in own if size in (None, scores.size)]):
        raise DataError("there are no VTAB results to compare. Make some with: unseen vtab run")
    found, others = [], set[str]()
    for models in by_setting(chosen):
        with_tasks = [s for s in models if any(info.published for info in s.tasks.values())]
        if not with_tasks:
            others |= {task for scores in models for task in scores.summaries}
            continue
        of_size: Size = "full" if models[0].size == "full" else "1000"
        published = published_scores(table or models[0].table, of_size)
        ranking = rank(with_tasks, published, setting=models[0].setting, only_published=True)
        found.append(replace(ranking, table=table or ranking.table))
    if not found:
        raise DataError(
            f"none of these tasks is in the paper's tables: {', '.join(sorted(others))}. The published methods were "
            "never run on the embedded tasks; run some of VTAB's own (unseen vtab check tells which data you have)."
        )
    return found


def vtab_tables(results: Collection[Result], names: Mapping[str, str], metrics: Sequence[str] = ()) -> list[Table]:
    """Return the tables of VTAB for all outputs, setting by setting; results of fixed budgets have their own."""
    found: list[Table] = []
    rest: list[Result] = []
    for group in settings(list(results)):
        if scores := group_scores(group):
            first, *more = rank(scores, setting=group.words).tables(names, group.older)
            found += [replace(first, footnote=findings_footnote(group.results)), *more]
        else:
            rest += group.results
    return [*found, *(default_tables(rest, names, metrics) if rest else [])]


def _lacks(row: ModelScores, tasks: Sequence[str], infos: Mapping[str, TaskInfo]) -> str:
    missing = [infos[task].title for task in tasks if task not in row.summaries]
    said = [f"{counted(len(missing), 'task')} of {len(tasks)} missing: {listed(missing)}"] if missing else []
    data = [f"{infos[task].title} {text}" for task, text in row.incomplete.items()]
    return "; ".join([*said, *([f"incomplete data: {listed(data, 3)}"] if data else [])])


def _head(row: ModelScores, called: Mapping[tuple[str, str], str]) -> TableCell:
    name = called[row.model, row.way]
    shown = f"{name} (published)" if row.source and not name.endswith("published)") else name
    return TableCell(shown, name.lower(), hint=row.source or row.model)


def _json(row: ModelScores, called: Mapping[tuple[str, str], str]) -> dict[str, Any]:
    scores = {task: 100 * value for task, value in row.medians.items()}
    name = called[row.model, row.way]
    return {"method": name, "model": row.model, "own": not row.source, "source": row.source, "scores": scores}
