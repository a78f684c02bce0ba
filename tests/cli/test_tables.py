"""Tables fit the screen, and no id is ever broken."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest

from unseen.cli import main
from unseen.cli.tables import ConsoleProgress, console, count, print_table, printable, say
from unseen.core.records import Cell, Result
from unseen.results import FILE_NAME, ResultsDatabase

MODEL = "packaged:efficientnet-lite0?size=64"
ROWS = [[MODEL, f"folder:/a/rather/long/place/{i}", "87.5 ± 0.3", "remark of several words " * 4] for i in range(3)]
COLUMNS = ["model", "dataset", "top-1 (%)", "notes"]


@pytest.mark.parametrize("width", [40, 60, 80, 100, 120, 200])
def test_ids_stay_whole_at_any_width(
    width: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    print_table(COLUMNS, ROWS, title="A title", caption="A caption", numeric=("top-1 (%)",), keep=("top-1 (%)",))
    out = capsys.readouterr().out
    assert max(len(line.rstrip()) for line in out.splitlines()) <= width
    assert out.count(MODEL) == 3
    left_out = " ".join(out.partition("Columns that do not fit: ")[2].split())
    said = left_out.rstrip(".").split(", ") if left_out else []
    for column, cell in zip(COLUMNS, ROWS[0], strict=True):
        if column in said:
            assert cell.split()[0] not in out
        elif column != "notes":
            assert cell in out
    assert bool(said) is (width < 100)
    assert width < 60 or "top-1 (%)" not in said, "what is kept goes last"


def test_a_pipe_of_no_stated_width_is_wide(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(COLUMNS, ROWS)
    assert "do not fit" not in (out := capsys.readouterr().out)
    assert max(map(len, out.splitlines())) > 120


def test_one_column_is_never_left_out(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    print_table(["model", "dataset"], [[MODEL, "x"]])
    out = capsys.readouterr().out
    assert MODEL in out
    assert "dataset" in out.splitlines()[-1] + out.splitlines()[-2]


@pytest.mark.parametrize("kind", ["models", "datasets", "benchmarks", "studies", "methods", "scores"])
def test_lists_fit_eighty_columns(
    kind: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import json

    monkeypatch.setenv("COLUMNS", "80")
    assert main(["ls", kind]) == 0
    out = capsys.readouterr().out
    assert main(["ls", kind, "--json"]) == 0
    for card in json.loads(capsys.readouterr().out):
        assert card["id"] in out
    assert max(len(line.rstrip()) for line in out.splitlines()) <= 80


def test_a_name_does_not_command_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(["name"], [["\x1b]0;owned\x07\x1b[31mred"]])
    assert "\x1b" not in capsys.readouterr().out
    assert printable("plain ± text") == "plain ± text"


def test_plurals() -> None:
    assert (count(1, "cell"), count(0, "cell"), count(2000, "cell")) == ("1 cell", "0 cells", "2,000 cells")
    assert count(2, "entry", "entries") == "2 entries"


HOSTILE = "\x1b]0;owned\x07\x1b[31m[bold red]x[/bold red] :boom: \u202eevil"


def test_whatever_is_printed_commands_nothing(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from rich.text import Text

    monkeypatch.setenv("COLUMNS", "300")
    console().print(HOSTILE)
    console().print(Text(HOSTILE))
    print_table([HOSTILE], [[HOSTILE], [Text(HOSTILE)]], title=HOSTILE, caption=HOSTILE)
    say(HOSTILE)
    out = capsys.readouterr().out
    assert not {"\x1b", "\x07", "\u202e"} & set(out)
    assert out.count("[bold red]x[/bold red] :boom: ") == 8
    assert printable("97.1\u202f%") == "97.1\u202f%"


def test_names_of_results_command_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with ResultsDatabase(tmp_path / FILE_NAME) as database:
        for seed in (1, 2):
            database.append(HOSTILE, Result(Cell("probe", HOSTILE, HOSTILE, {"seed": seed}), {"top1": 0.5}))
            database.append(HOSTILE, Result(Cell("probe", "m", HOSTILE, {"seed": seed}), {"top1": 0.4}))
        database.append(HOSTILE, Result(Cell("probe", "broken", "d", {"seed": 1}), error=HOSTILE))
    for words in ([], ["--failed"], ["--markdown", "-"], ["--latex", "-"], ["--study", "x\x1b[31m"]):
        main(["results", "--home", str(tmp_path), *words])
        captured = capsys.readouterr()
        assert "\x1b" not in captured.out + captured.err
    main(["leaderboard", "--home", str(tmp_path)])
    main(["compare", "m", HOSTILE, "--home", str(tmp_path)])
    captured = capsys.readouterr()
    assert "\x1b" not in captured.out + captured.err


def test_a_formula_in_a_csv_is_a_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = ("=1+1", "+x", "-x", "@x", "\tx")
    with ResultsDatabase(tmp_path / FILE_NAME) as database:
        for name in names:
            database.append("s", Result(Cell("rank", name, "d", {"score": "x"}), {"score": -1.5}))
    assert main(["results", "--home", str(tmp_path), "--csv", "-"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [row["model"] for row in rows] == [f"'{name}" for name in names]
    assert {row["value"] for row in rows} == {"-1.5"}


@pytest.mark.parametrize("width", [60, 80, 100])
@pytest.mark.parametrize("command", ["results", "leaderboard"])
def test_results_fit_the_width(
    width: int, command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    models = [f"packaged:efficientnet-lite{n}" for n in range(3)]
    with ResultsDatabase(tmp_path / FILE_NAME) as database:
        for model in models:
            for shots in (1, 2, 4, 8, 16):
                for data in ("packaged:grocery?labels=coarse", "packaged:emoji?classes=150"):
                    cell = Cell("probe", model, data, {"seed": 1, "shots": shots})
                    database.append("s", Result(cell, {"top1": 0.5, "top1_low": 0.4, "top1_high": 0.6}))
    assert main([command, "--home", str(tmp_path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    tables = [line for line in lines if not line.startswith("Leaderboard:")]
    assert max(len(line.rstrip()) for line in tables) <= width
    if command == "results":
        assert all(any(f"EfficientNet-Lite{n}" in line for line in lines) for n in range(len(models)))


def test_progress_says_lines_where_there_is_no_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    times = iter(float(t) for t in range(0, 1000, 20))
    monkeypatch.setattr("unseen.cli.tables.monotonic", lambda: next(times))
    told = ConsoleProgress(console(error=True))
    told.begin("m[red] on d\x1b", 100, 10)
    for _ in range(9):
        told.advance(10, 0)
    told.end()
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].strip() == "m[red] on d\N{REPLACEMENT CHARACTER}: 30 of 100 images"
    assert "90 images" in lines[-1]
    silent = ConsoleProgress(console(error=True, quiet=True))
    silent.begin("m", 1, 0)
    silent.advance(1, 0)
    silent.end()
    assert capsys.readouterr().err == ""


def test_sentences_wrap_between_words_in_a_terminal_and_long_paths_stay_whole() -> None:
    from unseen.cli.tables import Screen

    def shown(text: str, **options: bool) -> list[str]:
        stream = io.StringIO()
        screen = Screen(file=stream, width=30, highlight=False, color_system=None, **options)
        screen.print(text, soft_wrap=True)
        return [line.rstrip() for line in stream.getvalue().splitlines()]

    text = "EfficientNet-Lite0 is statistically tied with EfficientNet-Lite1."
    assert shown(text, force_terminal=True) == [
        "EfficientNet-Lite0 is",
        "statistically tied with",
        "EfficientNet-Lite1.",
    ]
    assert shown(text, force_terminal=False) == [text]
    path = f"Report: {'/folder' * 6}/page.html"
    assert shown(path, force_terminal=True) == [path]
