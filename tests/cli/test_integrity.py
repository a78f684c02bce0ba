"""`unseen results verify`, `repair` and `rerun`, and commands on a database with damaged rows."""

from __future__ import annotations

import json
import sqlite3
import struct
from pathlib import Path

import pytest

from unseen.cli import main
from unseen.core.records import Cell, Result
from unseen.results import FILE_NAME, ResultsDatabase
from unseen.study import Study, run_study

VALUE = 0.3040404040404


@pytest.fixture
def home(tmp_path: Path) -> Path:
    with ResultsDatabase(tmp_path / FILE_NAME) as database:
        for model, base in (("a", VALUE), ("b", 0.5), ("c", 0.7)):
            for seed, value in ((1, base), (2, base + 0.001)):
                cell = Cell("probe", model, "d", {"seed": seed, "shots": "all", "solver": "ncm"}, "w+d", "1")
                bounds = {"top1_low": value - 0.05, "top1_high": value + 0.05}
                database.append("s", Result(cell, {"top1": value, **bounds}, details={"correct": "8:8A=="}))
    return tmp_path


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    code = main([str(argument) for argument in arguments])
    out, err = capsys.readouterr()
    return code, out, err


def flip(home: Path, old: float = VALUE, new: float = 0.988) -> None:
    """Overwrite the eight bytes of a stored number, once, as a fault of a disk would."""
    path = home / FILE_NAME
    content = path.read_bytes()
    assert struct.pack(">d", old) in content
    path.write_bytes(content.replace(struct.pack(">d", old), struct.pack(">d", new), 1))


def test_a_flipped_byte_is_not_shown_as_a_result(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flip(home)
    code, out, err = run(capsys, "results", "--home", home)
    assert code == 0
    assert "98.8" not in out
    assert "50.0" in out
    assert err.startswith("unseen: warning: 1 invalid result is left out")
    assert "result 1: its digest does not match what is stored" in err
    assert err.count("\n") == 1
    _, out, err = run(capsys, "results", "--home", home, "--json")
    assert {row["value"] for row in json.loads(out) if row["metric"] == "top1"} == {
        VALUE + 0.001,
        0.5,
        0.501,
        0.7,
        0.701,
    }
    assert "result 1" in err


def test_verify_lists_what_does_not_match(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "results", "verify", "--home", home)[:2] == (
        0,
        f"No damage found: 6 results in {home / FILE_NAME}.\n",
    )
    flip(home)
    code, out, err = run(capsys, "results", "verify", "--home", home)
    assert (code, out) == (2, "result 1: its digest does not match what is stored\n")
    assert ": 1 of 6." in err
    assert "unseen results repair" in err
    code, out, _ = run(capsys, "results", "verify", "--home", home, "--json")
    assert code == 2
    assert json.loads(out) == {
        "checked": 6,
        "without_digest": 0,
        "invalid": [{"id": 1, "problem": "its digest does not match what is stored"}],
        "structure": [],
    }


def test_verify_finds_an_index_that_does_not_fit(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with sqlite3.connect(home / FILE_NAME) as other:
        other.execute("PRAGMA writable_schema = ON")
        other.execute(
            "UPDATE sqlite_master SET sql = replace(sql, '(cell, id)', '(model, id)') WHERE name = 'result_by_cell'"
        )
    other.close()
    code, out, err = run(capsys, "results", "verify", "--home", home)
    assert code == 2
    assert out.startswith("structure: row 1 missing from index result_by_cell")
    assert "structure of the file is damaged" in err
    assert run(capsys, "results", "repair", "--home", home)[0] == 0
    assert run(capsys, "results", "verify", "--home", home)[0] == 0


def test_repair_copies_what_is_valid(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = (home / FILE_NAME).read_bytes()
    code, out, _ = run(capsys, "results", "repair", "--home", home)
    assert (code, "Nothing was changed" in out) == (0, True)
    assert (home / FILE_NAME).read_bytes() == before
    flip(home)
    code, out, _ = run(capsys, "results", "repair", "--home", home)
    assert code == 0
    assert out.startswith("result 1 was not copied: its digest does not match what is stored\n5 valid results copied")
    assert run(capsys, "results", "verify", "--home", home)[0] == 0
    assert len(list(home.glob("results-damaged-*.sqlite"))) == 1
    (home / FILE_NAME).write_bytes(b"\0" * 50_000)
    code, _, err = run(capsys, "results", "repair", "--home", home)
    assert (code, "no result can be read" in err) == (2, True)


@pytest.mark.parametrize(("start", "length"), [(60, 4), (0, 100)])
def test_a_damaged_header_is_called_damage(
    home: Path, capsys: pytest.CaptureFixture[str], start: int, length: int
) -> None:
    """A zeroed schema version used to be reported as a database without tables."""
    with (home / FILE_NAME).open("r+b") as stream:
        stream.seek(start)
        stream.write(bytes(length))
    for command in (["results"], ["results", "verify"]):
        code, _, err = run(capsys, *command, "--home", home)
        assert code == 2
        assert "damaged" in err
        assert "unseen results repair" in err
    assert run(capsys, "results", "repair", "--home", home)[0] == 0
    code, out, _ = run(capsys, "results", "--home", home)
    assert (code, "70." in out) == (0, True)


def spoil_metric(home: Path) -> None:
    """A metric that is a text, in a row of a version without digests."""
    with sqlite3.connect(home / FILE_NAME) as other:
        for table in ("result", "metric"):
            other.execute(f"DROP TRIGGER {table}_is_append_only")
        other.execute("UPDATE metric SET value = 'high' WHERE result = 1 AND name = 'top1'")
        other.execute("UPDATE result SET digest = '' WHERE id = 1")
    other.close()


@pytest.mark.parametrize("command", ["results", "report", "leaderboard", "compare"])
@pytest.mark.parametrize("kind", ["metric", "parameter", "answers"])
def test_one_invalid_row_stops_no_command(
    home: Path, capsys: pytest.CaptureFixture[str], command: str, kind: str
) -> None:
    if kind == "metric":
        spoil_metric(home)
    else:
        with ResultsDatabase(home / FILE_NAME) as database:
            if kind == "parameter":
                wrong = Result(Cell("rank", "a", "d", {}, "w+d", "1"), {"logme": 1.0})
            else:
                wrong = Result(
                    Cell("probe", "a", "e", {"seed": 1}, "w+d", "1"), {"top1": 1.0}, details={"correct": "9:/w=="}
                )
            database.append("s", wrong)
    number = 1 if kind == "metric" else 7
    words = {
        "results": ["results", "--home", home, "--json"],
        "report": ["report", "--home", home, "--output", home / "page.html"],
        "leaderboard": ["leaderboard", home, "--output", home / "board.html"],
        "compare": ["compare", "a", "b", "--home", home],
    }[command]
    code, _, err = run(capsys, *words)
    assert code == 0, err
    assert f"result {number}: " in err
    assert err.count("invalid result is left out") == 1


@pytest.mark.slow
def test_a_result_is_computed_again(
    tmp_path: Path, images: Path, capsys: pytest.CaptureFixture[str], small_model: str
) -> None:
    home = tmp_path / "home"
    study = Study("s", (small_model,), (str(images),), {"probe": {"solver": "ncm", "seeds": [1, 2]}})
    outcome = run_study(study, home, report=False)
    assert not outcome.failed
    first = outcome.results[0]
    before = (home / FILE_NAME).read_bytes()
    for identifier in ("1", first.cell.id, first.cell.id[:6]):
        code, out, _ = run(capsys, "results", "rerun", identifier, "--home", home)
        assert code == 0
        assert "Every metric is identical (top1, " in out
        assert "Versions, device, weights and data are the same." in out
    assert (home / FILE_NAME).read_bytes() == before, "the home is not changed"
    changed = {**first.environment, "numpy": "1.0"}
    with ResultsDatabase(home / FILE_NAME) as database:
        metrics = {**first.metrics, "top1": first.metrics["top1"] + 0.25, "gone": 1.0}
        database.append("s", Result(first.cell, metrics, environment=changed))
    code, out, err = run(capsys, "results", "rerun", first.cell.id, "--home", home)
    assert code == 3
    assert "difference -0.25" in out
    assert "gone: stored 1.0, now None" in out
    assert "numpy: 1.0, now " in out
    assert "is not the stored one" in err
    next(path for path in sorted(images.rglob("*")) if path.is_file()).unlink()
    code, out, _ = run(capsys, "results", "rerun", "1", "--home", home, "--json")
    assert "revision of the data" in json.loads(out)["conditions"]


def test_ids_that_are_not_there(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for identifier, said in (
        ("99", "has no valid result with the id '99'"),
        ("ab", "at least 4 digits"),
        ("zzzz", "no valid result"),
    ):
        code, _, err = run(capsys, "results", "rerun", identifier, "--home", home)
        assert code == 2
        assert said in err
    code, _, err = run(capsys, "results", "--study", "s", "verify")
    assert (code, "write options after the word" in err) == (2, True)
