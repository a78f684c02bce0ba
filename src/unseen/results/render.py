r"""Render a `Table` as LaTeX (booktabs), Markdown or CSV.

LaTeX needs `\usepackage{booktabs}` and nothing else: texts are escaped, and letters that pdfTeX does not have are
written without their accents, or as their code points.
"""

from __future__ import annotations

import csv
import io
import re
import unicodedata
from collections.abc import Mapping

from unseen.results.export import harmless
from unseen.results.table import Table, TableCell


def markdown_table(table: Table) -> str:
    """Return a table of pipes, the caption above it, the notes and the footnote below."""

    def entry(cell: TableCell) -> str:
        text = markdown_words(cell.full)
        return f"**{text}**" if cell.mark else text

    lines = [
        f"| {' | '.join(map(markdown_words, _heads(table)))} |",
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
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    details = ("low", "high", "n", "chance", "mark")
    heads = [name for head in _heads(table)[1:] for name in (head, *(f"{head} {each}" for each in details))]
    writer.writerow([table.columns[0], *heads])
    for row in table.rows:
        found = [cell.to_dict() for cell in row[1:]]
        values = [
            value
            for cell in found
            for value in (cell.get("value", cell.get("text")), *(cell.get(each) for each in details))
        ]
        writer.writerow([harmless(value) for value in (row[0].shown, *values)])
    return text.getvalue()


def _heads(table: Table) -> list[str]:
    """Return the headings, with the group before each if the table has groups."""
    groups = table.groups or [""] * len(table.columns)
    return [f"{group}: {head}" if group else head for group, head in zip(groups, table.columns, strict=True)]


def _latex_groups(table: Table) -> list[str]:
    """Return the row of group headings, each over its columns; nothing if there are no groups."""
    if not any(table.groups):
        return []
    spans: list[tuple[str, int]] = []
    for group in table.groups:
        if spans and spans[-1][0] == group:
            spans[-1] = group, spans[-1][1] + 1
        else:
            spans.append((group, 1))
    return [" & ".join(rf"\multicolumn{{{n}}}{{c}}{{{latex_text(group)}}}" for group, n in spans) + r" \\"]


def markdown_words(text: str) -> str:
    """Escape text for Markdown: letters that could be marks get a backslash."""
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
