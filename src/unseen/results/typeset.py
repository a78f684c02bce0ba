r"""Tables for papers and notes: results in LaTeX (booktabs) and in Markdown.

The best of a column is bold and the second underlined (nobody is second to several); the caption says what ± is, and of
how many. A column has one setting; too many columns become several tables, told apart by what they do not share, or one
that is turned. LaTeX needs `\usepackage{booktabs}` and nothing else: texts are escaped, and letters that pdfTeX has not
are written without their accents, or as their code points.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from unseen.results.comparability import older_said, value_text
from unseen.results.grid import Column, Grid, Summary

#: Columns of numbers that fit a page.
MOST_COLUMNS = 8
#: Models that stand side by side where there are more settings than columns.
FEW_MODELS = 2

_DATASET, _METRIC = "dataset", "metric"


@dataclass(frozen=True)
class Entry:
    """A number of a table: what is shown, and its place in its column (0 the best, 1 the second, None elsewhere)."""

    text: str
    place: int | None = None


@dataclass(frozen=True)
class Typeset:
    """A table that is ready to be written down.

    Attributes:
        caption: what all columns share, what ± is, and how many it is of.
        columns: per column, what tells it apart.
        rows: pairs of (model, entries).
        corner: what the first column holds.
    """

    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, tuple[Entry, ...]], ...]
    corner: str = "model"


def typeset(grid: Grid, names: Mapping[str, str] | None = None) -> list[Typeset]:
    """The tables of a grid.

    Args:
        names: what models and datasets are to be called; those missing keep their ids.
    """
    called = names or {}
    if len(grid.columns) > MOST_COLUMNS and len(grid.models) <= FEW_MODELS:
        return [_turned(_table(grid, grid.columns, called))]
    return [_table(grid, columns, called) for columns in parted(grid.columns)]


def _table(grid: Grid, columns: Sequence[Column], called: Mapping[str, str]) -> Typeset:
    models = [model for model in grid.models if any((model, column) in grid.cells for column in columns)]
    places = {column: _places(grid, column, models) for column in columns}

    def entry(model: str, column: Column) -> Entry:
        cell = grid.cells.get((model, column))
        return Entry(_number(cell), places[column].get(model)) if cell else Entry("–")

    rows = [(called.get(model, model), tuple(entry(model, column) for column in columns)) for model in models]
    return Typeset(_caption(grid, columns, called), tuple(heading(grid, columns, called)[1]), tuple(rows))


def _turned(table: Typeset) -> Typeset:
    """Settings as rows, models as columns: for few models in many settings."""
    models = tuple(model for model, _ in table.rows)
    rows = [(head, tuple(entries[n] for _, entries in table.rows)) for n, head in enumerate(table.columns)]
    return Typeset(table.caption, models, tuple(rows), corner="setting")


def markdown_table(table: Typeset) -> str:
    """A table of pipes, the caption above it."""

    def shown(entry: Entry) -> str:
        text = markdown_words(entry.text)
        return f"**{text}**" if entry.place == 0 else f"<u>{text}</u>" if entry.place == 1 else text

    head = [table.corner, *map(markdown_words, table.columns)]
    lines = [f"| {' | '.join(head)} |", f"|---|{'---:|' * len(table.columns)}"]
    lines += [f"| {' | '.join([markdown_words(model), *map(shown, entries)])} |" for model, entries in table.rows]
    return "\n".join([markdown_words(table.caption), "", *lines, ""])


def latex_table(table: Typeset, label: str) -> str:
    r"""A `table` with its caption and `\label{label}`."""

    def shown(entry: Entry) -> str:
        text = latex_text(entry.text)
        return rf"\textbf{{{text}}}" if entry.place == 0 else rf"\underline{{{text}}}" if entry.place == 1 else text

    lines = [
        r"\begin{table}",
        r"\centering",
        rf"\caption{{{latex_text(table.caption)}}}",
        rf"\label{{{label}}}",
        rf"\begin{{tabular}}{{l{'r' * len(table.columns)}}}",
        r"\toprule",
        " & ".join([table.corner, *map(latex_text, table.columns)]) + r" \\",
        r"\midrule",
        *(" & ".join([latex_text(model), *map(shown, entries)]) + r" \\" for model, entries in table.rows),
        r"\bottomrule",
        r"\end{tabular}",
        r"\end{table}",
    ]
    return "\n".join([*lines, ""])


def parted(columns: Sequence[Column]) -> Iterator[list[Column]]:
    """Columns in lots of at most eight: by what has the fewest values, until they fit; else one lot after another."""
    if len(columns) <= MOST_COLUMNS:
        yield list(columns)
        return
    many = {name: len({_parts(column).get(name) for column in columns}) for name in _varying(columns)}
    if len(many) < 2:
        for start in range(0, len(columns), MOST_COLUMNS):
            yield list(columns[start : start + MOST_COLUMNS])
        return
    by = min(many, key=lambda name: (many[name], name))
    for value in dict.fromkeys(_parts(column).get(by) for column in columns):
        yield from parted([column for column in columns if _parts(column).get(by) == value])


def _parts(column: Column) -> dict[str, str]:
    own = {name: value_text(value) for name, value in column.setting}
    return {_DATASET: column.dataset, **own, _METRIC: column.metric}


def _varying(columns: Sequence[Column]) -> list[str]:
    """What tells columns apart; not the version, where methods do that already."""
    every = [_parts(column) for column in columns]
    names = dict.fromkeys(name for parts in every for name in parts)
    found = [name for name in names if len({parts.get(name) for parts in every}) > 1]
    without = [name for name in found if name != "version"]
    alike = {tuple(parts.get(name) for name in without) for parts in every}
    return without if len(alike) == len(columns) else found


def heading(grid: Grid, columns: Sequence[Column], names: Mapping[str, str]) -> tuple[str, list[str]]:
    """What some columns share, as a title, and per column what tells it apart."""
    vary, every = _varying(columns), [_parts(column) for column in columns]
    alike = [name for name in every[0] if len({parts.get(name) for parts in every}) == 1]
    said = [name for name in alike if name != "version" or not _told_by_method(every[0])]
    shared = [_part(columns[0], name, names) for name in said]
    title = ", ".join([names.get(grid.benchmark, grid.benchmark), *(text for text in shared if text)])
    return title, [_head(column, vary, names) for column in columns]


def _told_by_method(parts: Mapping[str, str]) -> bool:
    """Whether a version is that of a method which is named anyway."""
    return any(f" {value}." in parts.get("version", "") for name, value in parts.items() if name != "version")


def _head(column: Column, vary: Sequence[str], called: Mapping[str, str]) -> str:
    told = [_part(column, name, called) for name in vary]
    return ", ".join(text for text in told if text) or column.style.heading


def _part(column: Column, name: str, called: Mapping[str, str]) -> str:
    if name == _DATASET:
        return called.get(column.dataset, column.dataset)
    if name == _METRIC:
        return column.style.heading
    value = _parts(column).get(name)
    return "" if value is None else value if name in ("level", "method", "task", "score") else f"{name} {value}"


def _places(grid: Grid, column: Column, models: Sequence[str]) -> dict[str, int]:
    """Who is best (0) and second (1): nobody is second to several, or best of one alone."""
    means = {model: grid.cells[model, column].mean for model in models if (model, column) in grid.cells}
    finite = {model: mean for model, mean in means.items() if not math.isnan(mean)}
    ordered = sorted(set(finite.values()), reverse=column.style.higher_is_better)[:2]
    if len(ordered) < 2:
        return {}
    best = [model for model, mean in finite.items() if mean == ordered[0]]
    second = [model for model, mean in finite.items() if mean == ordered[1] and len(best) == 1]
    return dict.fromkeys(best, 0) | dict.fromkeys(second, 1)


def _number(summary: Summary) -> str:
    """The mean with its spread over seeds, or with half of the benchmark's interval where there is one run."""
    if summary.spread == "std":
        return summary.text if summary.std > 0 else summary.style.text(summary.mean)
    if summary.spread == "interval":
        return summary.style.text(summary.mean, (summary.high - summary.low) / 2)
    return summary.style.text(summary.mean)


def _caption(grid: Grid, columns: Sequence[Column], called: Mapping[str, str]) -> str:
    cells = [grid.cells[model, column] for model in grid.models for column in columns if (model, column) in grid.cells]
    told = [heading(grid, columns, called)[0], _spread(cells), _images(grid, columns)]
    said = older_said(sum(grid.groups[number].older for number in {column.group for column in columns}))
    return " ".join(f"{text[0].upper()}{text[1:]}." for text in (*told, said) if text)


def _spread(cells: Sequence[Summary]) -> str:
    kinds = {cell.spread for cell in cells if cell.spread != "std" or cell.std > 0}
    counts = sorted({len(cell.values) for cell in cells})
    n = f"n = {counts[0]}" if len(counts) == 1 else f"n = {counts[0]} to {counts[-1]}"
    said = []
    if counts[-1] > 1:
        said.append(f"Means over seeds, {n}")
    if "std" in kinds:
        said.append("± one sample standard deviation over seeds")
    if "interval" in kinds:
        said.append(
            f"± half of the 95 % interval over test images{'' if counts[-1] == 1 else ', where there is one seed'}"
        )
    if counts == [1] and not said:
        return "Single runs, n = 1"
    return "; ".join(said)


def _images(grid: Grid, columns: Sequence[Column]) -> str:
    counts = {
        result.details.get("test_images")
        for number in {column.group for column in columns}
        for result in grid.groups[number].results
    }
    known = sorted(count for count in counts if isinstance(count, int))
    if not known:
        return ""
    return f"{known[0]:,}{f' to {known[-1]:,}' if known[-1] > known[0] else ''} test images"


def markdown_words(text: str) -> str:
    """Text that no renderer takes for a mark: a letter that could be one has a backslash before it."""
    cleaned = " ".join(_shown(text).split())
    return re.sub(r"([\\`*_\[\]<>|~#])", r"\\\1", cleaned)


_LATEX: Mapping[str, str] = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#", "%": r"\%", "_": r"\_",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}",
    "|": r"\textbar{}", '"': "''", "±": r"$\pm$", "·": r"$\cdot$", "×": r"$\times$", "–": "--",
    "—": "---", "∞": r"$\infty$", "α": r"$\alpha$", "−": "$-$", "≥": r"$\geq$", "≤": r"$\leq$", "τ": r"$\tau$",
    "'": "'", "‘": "`", "’": "'", "“": "``", "”": "''", "…": r"\ldots{}", "\u202f": r"\,", "\u00a0": "~",
}  # fmt: skip


def latex_text(text: str) -> str:
    """Text as LaTeX shows it, in ASCII; nothing in it is a command."""
    return "".join(map(_latex_letter, " ".join(_shown(text).split(" "))))


def _latex_letter(letter: str) -> str:
    if letter in _LATEX:
        return _LATEX[letter]
    if letter.isascii():
        return letter
    plain = unicodedata.normalize("NFKD", letter).encode("ascii", "ignore").decode()
    return "".join(_LATEX.get(each, each) for each in plain) or f"[U+{ord(letter):04X}]"


def _shown(text: str) -> str:
    """Without what commands a terminal or breaks a line."""
    return "".join(c if c.isprintable() or unicodedata.category(c) == "Zs" else " " for c in text)


def tables_text(grids: Sequence[Grid], write: Callable[[Typeset, int], str], names: Mapping[str, str]) -> list[str]:
    """Every table of some grids, written by `write` (table, its number)."""
    tables: list[Any] = [table for grid in grids for table in typeset(grid, names)]
    return [write(table, number) for number, table in enumerate(tables, 1)]
