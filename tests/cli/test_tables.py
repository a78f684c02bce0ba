"""Tables fit the screen, and no id is ever broken."""

from __future__ import annotations

import pytest

from unseen.cli import main
from unseen.cli.tables import count, print_table, printable

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
    left_out = " ".join(out.partition("Left out for want of room: ")[2].split())
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
    assert "Left out" not in (out := capsys.readouterr().out)
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
