r"""Render tables as LaTeX (booktabs), Markdown and CSV, and results as the metadata of a model card.

LaTeX needs `\usepackage{booktabs}` and nothing else: texts are escaped, and letters that pdfTeX does not have are
written without their accents, or as their code points.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Collection, Mapping
from importlib.resources import files
from itertools import groupby
from pathlib import Path

import yaml

from unseen.core.records import Result
from unseen.results.export import csv_line
from unseen.results.grid import Column, Summary, grids
from unseen.results.info import info_of
from unseen.results.table import DisplayNames, Table, TableCell

#: Names of the Hugging Face hub for metrics that it knows.
_HUB_METRICS = {"top1": "accuracy", "mean_average_precision": "mAP", "r2": "r_squared"}


def markdown_table(table: Table) -> str:
    """Return a table of pipes, the caption above it, the notes and the footnote below."""

    def entry(cell: TableCell) -> str:
        text = markdown_words(cell.full)
        return f"**{text}**" if cell.mark else text

    lines = [
        f"| {' | '.join(map(markdown_words, table.heads))} |",
        f"|---|{'---:|' * (len(table.columns) - 1)}",
        *(f"| {' | '.join(map(entry, row))} |" for row in table.rows),
    ]
    notes = [line for text in (" ".join(table.notes), table.footnote) if text for line in (markdown_words(text), "")]
    return "\n".join([markdown_words(table.caption), "", *lines, "", *notes])


def latex_table(table: Table, label: str) -> str:
    r"""Return a `table` with its caption and `\label{label}`, the notes in the caption, the footnote below."""

    def entry(cell: TableCell) -> str:
        text = latex_text(cell.shown)
        bold = rf"\textbf{{{text}}}" if cell.mark else text
        bounds = cell.full[len(cell.shown) :].strip()
        return rf"{bold} {{\scriptsize {latex_text(bounds)}}}" if bounds else bold

    caption = ". ".join([table.caption.rstrip("."), " ".join(table.notes)]) if table.notes else table.caption
    lines = [
        r"\begin{table}",
        r"\centering",
        rf"\caption{{{latex_text(caption)}}}",
        rf"\label{{{label}}}",
        rf"\begin{{tabular}}{{l{'r' * (len(table.columns) - 1)}}}",
        r"\toprule",
        *_latex_groups(table),
        " & ".join(map(latex_text, table.columns)) + r" \\",
        r"\midrule",
        *(" & ".join(map(entry, row)) + r" \\" for row in table.rows),
        r"\bottomrule",
        r"\end{tabular}",
        *([rf"\par\smallskip{{\footnotesize {latex_text(table.footnote)}}}"] if table.footnote else []),
        r"\end{table}",
    ]
    return "\n".join([*lines, ""])


def csv_table(table: Table) -> str:
    """Return the table as CSV, numbers in full precision; limits, n and chance follow each value."""
    details = ("low", "high", "n", "chance", "mark")
    first, *heads = table.heads
    lines = [csv_line([first, *(name for head in heads for name in (head, *(f"{head} {each}" for each in details)))])]
    for row in table.rows:
        cells = [cell.to_dict() for cell in row[1:]]
        values = (
            value
            for cell in cells
            for value in (cell.get("value", cell.get("text")), *(cell.get(each) for each in details))
        )
        lines.append(csv_line([row[0].shown, *values]))
    return "".join(lines)


def _latex_groups(table: Table) -> list[str]:
    """Return the row of group headings, each over its columns; nothing if there are no groups."""
    if not any(table.groups):
        return []
    spans = [(group, len(list(own))) for group, own in groupby(table.groups)]
    return [" & ".join(rf"\multicolumn{{{n}}}{{c}}{{{latex_text(group)}}}" for group, n in spans) + r" \\"]


def markdown_words(text: str) -> str:
    """Escape text for Markdown: letters that could be marks get a backslash."""
    cleaned = " ".join(_shown(text).split())
    return re.sub(r"([\\`*_\[\]<>|~#])", r"\\\1", cleaned)


_LATEX: Mapping[str, str] = json.loads((files("unseen.results") / "latex.json").read_text(encoding="utf-8"))


def latex_text(text: str) -> str:
    """Escape text for LaTeX, in ASCII; nothing in it is a command."""
    return "".join(map(_latex_letter, " ".join(_shown(text).split(" "))))


def _latex_letter(letter: str) -> str:
    if letter in _LATEX:
        return _LATEX[letter]
    if letter.isascii():
        return letter
    plain = unicodedata.normalize("NFKD", letter).encode("ascii", "ignore").decode()
    return "".join(_LATEX.get(each, each) for each in plain) or f"[U+{ord(letter):04X}]"


def _shown(text: str) -> str:
    """Remove control characters and line breaks."""
    return "".join(c if c.isprintable() or unicodedata.category(c) == "Zs" else " " for c in text)


def model_card(results: Collection[Result], names: DisplayNames, revision: str = "") -> str:
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


def _entry(benchmark: str, column: Column, summary: Summary, names: DisplayNames, revision: str) -> dict[str, object]:
    style, interval = column.style, summary.interval
    scale = 100.0 if style.percent else 1.0
    setting = ", ".join(column.words)
    title = style.spoken
    if interval.known:
        title += f" (95 % CI {style.text(interval.low)} to {style.text(interval.high)}"
        title += f", {summary.images:,} test images)" if summary.images else ")"
    info, dataset = info_of(benchmark), names.get(column.dataset, column.dataset)
    is_local = Path(column.dataset.partition(":")[2]).is_absolute()  # a card does not publish paths
    metric = {
        "type": _HUB_METRICS.get(column.metric, column.metric),
        "name": title,
        "value": round(scale * summary.value, 4),
    }
    return {
        "task": {"type": info.task, "name": info.title + (f", {setting}" if setting else "")},
        "dataset": {"type": dataset if is_local else column.dataset, "name": dataset, "split": "test"},
        "metrics": [metric],
        "source": {"name": f"unseen {revision}".strip(), "url": "https://unseen.readthedocs.io"},
    }
