"""Tables for papers: who is best and second, what the caption says, and nothing in a name that is a command."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from unseen.core.records import Cell, Result
from unseen.results.grid import grids
from unseen.results.typeset import latex_table, latex_text, markdown_table, markdown_words, typeset

HOSTILE = "100% _wild_ \\input{/etc/passwd} $x^2$ & #1 ~ <script> | 中 é \x1b[31m"


def results(models: dict[str, float], *, datasets: int = 2, seeds: int = 3, shots: tuple[object, ...] = ("all",)):
    return [
        Result(
            Cell("probe", model, f"d{d}", {"seed": seed, "shots": shot}),
            {"top1": base + 0.01 * seed, "top1_low": base - 0.1, "top1_high": base + 0.1},
            details={"test_images": 100 + d},
        )
        for model, base in models.items()
        for d in range(datasets)
        for shot in shots
        for seed in range(seeds)
    ]


def test_best_second_spread_and_counts() -> None:
    (grid,) = grids(results({"a": 0.5, "b": 0.7, "c": 0.6}))
    (table,) = typeset(grid, {"d0": "zero"})
    assert table.columns == ("zero", "d1")
    assert [(model, entries[0].text, entries[0].place) for model, entries in table.rows] == [
        ("b", "71.0 ± 1.0", 0),
        ("c", "61.0 ± 1.0", 1),
        ("a", "51.0 ± 1.0", None),
    ]
    assert table.caption == (
        "Probe, top-1 (%). Means over seeds, n = 3; ± one sample standard deviation over seeds. 100 to 101 test images."
    )
    assert "| b | **71.0 ± 1.0** |" in markdown_table(table)
    assert r"c & \underline{61.0 $\pm$ 1.0} &" in latex_table(table, "tab:x")


def test_one_seed_has_the_interval_over_test_images() -> None:
    (grid,) = grids(results({"a": 0.5, "b": 0.7}, seeds=1, datasets=1), ["top1"])
    (table,) = typeset(grid)
    assert table.rows[0][1][0].text == "70.0 ± 10.0"
    assert "± half of the 95 % interval over test images" in table.caption


def test_nobody_is_second_to_several_and_seeds_that_agree_have_no_spread() -> None:
    same = [
        Result(Cell("probe", model, "d", {"seed": seed}), {"top1": value})
        for model, value in (("a", 0.5), ("b", 0.5), ("c", 0.4))
        for seed in (1, 2)
    ]
    (table,) = typeset(grids(same)[0])
    assert [(entries[0].text, entries[0].place) for _, entries in table.rows] == [
        ("50.0", 0),
        ("50.0", 0),
        ("40.0", None),
    ]


def test_many_settings_become_tables_of_eight_or_one_that_is_turned() -> None:
    shots = (1, 2, 4, 8, 16, "all")
    (grid,) = grids(results({"a": 0.5, "b": 0.7, "c": 0.6}, shots=shots))
    tables = typeset(grid)
    assert [table.columns for table in tables] == [
        ("shots 1", "shots 2", "shots 4", "shots 8", "shots 16", "shots all")
    ] * 2
    assert [table.caption.partition(".")[0] for table in tables] == ["Probe, d0, top-1 (%)", "Probe, d1, top-1 (%)"]
    (turned,) = typeset(grids(results({"a": 0.5, "b": 0.7}, shots=shots))[0])
    assert turned.columns == ("b", "a")
    assert len(turned.rows) == 12
    assert turned.rows[0][0] == "d0, shots 1"
    assert [entry.place for entry in turned.rows[0][1]] == [0, 1]


def test_texts_are_escaped() -> None:
    assert latex_text("a_b & 5% {x} \\y") == r"a\_b \& 5\% \{x\} \textbackslash{}y"
    assert latex_text("Kjellström 中") == "Kjellstrom [U+4E2D]"
    assert "\x1b" not in latex_text(HOSTILE) + markdown_words(HOSTILE)
    assert markdown_words("<b>|x_y*") == r"\<b\>\|x\_y\*"


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="pdflatex is not installed (texlive-latex-base)")
@pytest.mark.parametrize("turned", [False, True])
def test_latex_compiles(tmp_path: Path, turned: bool) -> None:
    models = {HOSTILE: 0.5, "b": 0.7} | ({} if turned else {"c": 0.6})
    (grid,) = grids(results(models, shots=(1, 2, 4, 8, 16, "all")))
    tables = [latex_table(table, f"tab:{n}") for n, table in enumerate(typeset(grid, {"d0": HOSTILE}))]
    text = "\\documentclass{article}\\usepackage{booktabs}\\begin{document}\n" + "\n".join(tables) + "\\end{document}\n"
    (tmp_path / "table.tex").write_text(text)
    command = ["pdflatex", "-no-shell-escape", "-halt-on-error", "-interaction=nonstopmode", "table.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, errors="replace")
    assert done.returncode == 0, done.stdout[-2000:]
    assert "Undefined control" not in done.stdout
    assert "Missing character" not in (tmp_path / "table.log").read_text(errors="replace")
    assert (tmp_path / "table.pdf").stat().st_size > 1000
