"""Tables as LaTeX, Markdown and CSV: letter by letter, and no name is a command."""

from __future__ import annotations

import csv
import io
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from unseen.results.info import metric_style
from unseen.results.render import csv_table, latex_table, latex_text, markdown_table, markdown_words
from unseen.results.table import Table, TableCell
from unseen.stats import Interval

HOSTILE = "100% _wild_ \\input{/etc/passwd} $x^2$ & #1 ~ <script> | 中 é \x1b[31m"

TOP1 = metric_style("top1")
TABLE = Table(
    "A_b",
    ["model", "x", "y|"],
    [
        [
            TableCell("m_1"),
            TableCell(mark="best", value=0.5, interval=Interval(0.5, 0.4, 0.6), metric=TOP1, n=20, chance=0.1),
            TableCell(mark="tied", value=1 / 3, metric=TOP1),
        ],
        [TableCell("n"), TableCell("words"), TableCell()],
    ],
    notes=["One.", "Two."],
)


def test_markdown_letter_by_letter() -> None:
    assert markdown_table(TABLE) == (
        "A\\_b\n\n| model | x | y\\| |\n|---|---:|---:|\n| m\\_1 | **50.0 \\[40.0, 60.0\\]** | **33.3** |\n"
        "| n | words | – |\n\nOne. Two.\n"
    )
    assert markdown_words(" a\n\tb  c\x00 ") == "a b c"
    assert markdown_words("\\`*_[]<>|~#") == "".join(f"\\{letter}" for letter in "\\`*_[]<>|~#")


def test_latex_letter_by_letter() -> None:
    lines = latex_table(TABLE, "tab:1").split("\n")
    assert lines == [
        *(r"\begin{table}", r"\centering", r"\caption{A\_b. One. Two.}", r"\label{tab:1}"),
        *(r"\begin{tabular}{lrr}", r"\toprule", r"model & x & y\textbar{} \\", r"\midrule"),
        r"m\_1 & \textbf{50.0} {\scriptsize [40.0, 60.0]} & \textbf{33.3} \\",
        *(r"n & words & -- \\", r"\bottomrule", r"\end{tabular}", r"\end{table}", ""),
    ]


def test_groups_are_over_their_columns() -> None:
    grouped = replace(TABLE, groups=["", "Natural", "Natural"])
    assert r"\multicolumn{1}{c}{} & \multicolumn{2}{c}{Natural} \\" in latex_table(grouped, "t").split("\n")
    assert markdown_table(grouped).split("\n")[2] == "| model | Natural x | Natural y\\| |"


def test_csv_has_full_precision() -> None:
    head, first, second = csv.reader(io.StringIO(csv_table(TABLE)))
    found = dict(zip(head, first, strict=True))
    assert (found["x"], found["x low"], found["x n"], found["x mark"]) == ("0.5", "0.4", "20", "best")
    assert float(found["y|"]) == 1 / 3
    assert second[:2] == ["n", "words"]


def test_texts_are_escaped() -> None:
    assert latex_text("a_b & 5% {x} \\y") == r"a\_b \& 5\% \{x\} \textbackslash{}y"
    assert latex_text("Kjellström 中") == "Kjellstrom [U+4E2D]"
    assert latex_text("\u00e9\u4e2d\u2116") == "e[U+4E2D]No"
    assert latex_text("\uff05") == r"\%", "a wide percent sign starts no comment"
    assert latex_text("a  b\tc\u00a0d") == "a  b c~d"
    assert "\x1b" not in latex_text(HOSTILE) + markdown_words(HOSTILE)
    assert markdown_words("<b>|x_y*") == r"\<b\>\|x\_y\*"


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="pdflatex is not installed (texlive-latex-base)")
def test_latex_compiles(tmp_path: Path) -> None:
    table = replace(TABLE, caption=HOSTILE, columns=["model", HOSTILE, "y"], groups=["", "G", HOSTILE])
    text = "\\documentclass{article}\\usepackage{booktabs}\\begin{document}\n"
    (tmp_path / "table.tex").write_text(text + latex_table(table, "tab:x") + "\\end{document}\n")
    command = ["pdflatex", "-no-shell-escape", "-halt-on-error", "-interaction=nonstopmode", "table.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, errors="replace")
    assert done.returncode == 0, done.stdout[-2000:]
    assert "Missing character" not in (tmp_path / "table.log").read_text(errors="replace")


def test_a_footnote_is_below_the_table_and_escaped() -> None:
    table = replace(TABLE, footnote=f"Run record: {HOSTILE}.")
    lines = latex_table(table, "tab:x").splitlines()
    assert lines[-2] == rf"\par\smallskip{{\footnotesize {latex_text(table.footnote)}}}" and lines[-1] == r"\end{table}"
    assert r"\input" not in lines[-2]
    assert markdown_words(table.footnote) in markdown_table(table).splitlines()
    assert "footnotesize" not in latex_table(TABLE, "tab:x")
