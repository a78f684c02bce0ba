"""`unseen results`: tables for people, long form in full precision for programs, errors in one line."""

from __future__ import annotations

import csv
import io
import json
import math
import re
from pathlib import Path

import pytest

from unseen.cli import main
from unseen.core.records import Cell, Result
from unseen.core.run_record import Dropped, RunRecord, SplitCounts
from unseen.results import FILE_NAME, ResultsDatabase

SEEDS = (22, 37, 45)
THIRD = 1 / 3


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Two models on two datasets, three seeds; one failure; one ranking score."""
    with ResultsDatabase(tmp_path / FILE_NAME) as database:
        for model, base in (("packaged:efficientnet-lite0", 0.7), ("random:resnet18", 0.2)):
            for dataset, bonus in (("packaged:emoji", 0.0), ("packaged:grocery", THIRD / 10)):
                for step, seed in enumerate(SEEDS):
                    cell = Cell("probe", model, dataset, {"seed": seed, "shots": "all"})
                    metrics = {"top1": base + bonus + step / 100, "top5": base + 0.1, "top1_low": 0.0, "top1_high": 1.0}
                    sweep = ({"c": 0.1, "value": THIRD},)
                    database.append("demo", Result(cell, metrics, sweep=sweep, environment={"python": "3.11"}))
        broken = Cell("probe", "timm:[bold]odd", "folder:/x", {"seed": 22})
        database.append("demo", Result(broken, error="class 'a' is empty\nadd images"))
        database.append(
            "other", Result(Cell("rank", "a", "packaged:emoji", {"score": "x"}), {"logme": -1.23456, "leep": math.nan})
        )
    return tmp_path


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    code = main([str(argument) for argument in ("results", *arguments)])
    out, err = capsys.readouterr()
    return code, out, err


def test_wide_table(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "--home", home, "--study", "demo")
    assert code == 0
    lines = [line.strip().split("  ") for line in out.splitlines()]
    assert "Linear probe, top-1 (%)" in out
    assert "Mean over 3 seeds, 95 % confidence interval over test images in brackets." in out
    row = next(line for line in lines if line[0].strip() == "EfficientNet-Lite0")
    assert [part.strip() for part in row if part.strip()] == [
        "EfficientNet-Lite0",
        "71.0 [0.0, 100.0]",
        "74.3 [0.0, 100.0]",
    ]
    assert "1 cell failed" in out
    assert "timm:[bold]odd" in out
    assert "class 'a' is empty add images" in out


def test_one_dataset_shows_its_metrics(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(capsys, "--home", home, "--dataset", "packaged:emoji", "--benchmark", "probe")
    assert "Linear probe, Pictograms of WordNet nouns, top-1 (%)" in out
    assert "top-5 (%)" not in out
    _, out, _ = run(capsys, "--home", home, "--dataset", "packaged:emoji", "--benchmark", "probe", "--all-metrics")
    assert "top-1 (%)" in out and "top-5 (%)" in out
    assert "low" not in out


def test_scores_that_are_no_percentages(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(capsys, "--home", home, "--study", "other", "--all-metrics")
    assert "-1.235" in out
    assert "not a number" in out


def test_the_best_is_bold_on_a_terminal(
    home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    with ResultsDatabase(home / FILE_NAME) as database:
        for model, value in (("timm:good", 0.9), ("timm:poor", 0.3)):
            metrics = {"top1": value, "top1_low": value - 0.01, "top1_high": value + 0.01}
            database.append("sure", Result(Cell("probe", model, "packaged:emoji", {"seed": 1}), metrics))
    _, out, _ = run(capsys, "--home", home, "--study", "sure")
    bold = [text.strip() for text in re.findall(r"\x1b\[1m(.*?)\x1b\[0m", out)]
    assert "90.0 [89.0, 91.0]" in bold
    assert "30.0 [29.0, 31.0]" not in bold
    assert "30.0 [29.0, 31.0]" in out


def test_only_failures(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(capsys, "--home", home, "--failed")
    assert "1 cell failed" in out
    assert "efficientnet" not in out
    _, out, _ = run(capsys, "--home", home, "--failed", "--study", "other")
    assert out == "No cell has failed.\n"


def test_json_is_strict_long_and_exact(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "--home", home, "--json")
    assert code == 0

    def refuse(constant: str) -> float:
        raise AssertionError(f"{constant} is not JSON")

    rows = json.loads(out, parse_constant=refuse)
    assert len(rows) == 12 * 4 + 1 + 2
    exact = [r["value"] for r in rows if r["metric"] == "top1" and r["dataset"] == "packaged:grocery"]
    assert exact[0] == 0.7 + THIRD / 10
    assert rows[0]["parameters"] == {"seed": 22, "shots": "all"}
    assert rows[0]["sweep"] == [{"c": 0.1, "value": THIRD}]
    assert rows[0]["environment"] == {"python": "3.11"}
    assert [r["value"] for r in rows if r["metric"] == "leep"] == ["NaN"]
    (broken,) = [r for r in rows if r["error"]]
    assert (broken["metric"], broken["value"]) == (None, None)


def test_what_later_weights_have_overtaken_is_not_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with ResultsDatabase(tmp_path / FILE_NAME) as database:
        for revision, top1 in (("old", 0.1), ("new", 0.6)):
            database.append("s", Result(Cell("probe", "m", "d", {"seed": 1}, revision), {"top1": top1}))
    _, out, _ = run(capsys, "--home", tmp_path)
    assert "60.0" in out
    assert "10.0" not in out
    _, out, _ = run(capsys, "--home", tmp_path, "--json")
    assert [(row["revision"], row["value"]) for row in json.loads(out)] == [("new", 0.6)]


def test_csv(home: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    _, out, _ = run(capsys, "--home", home, "--csv", "-", "--metric", "top1", "--study", "demo")
    rows = list(csv.DictReader(io.StringIO(out)))
    assert len(rows) == 12 + 1
    assert float(rows[3]["value"]) == 0.7 + THIRD / 10
    assert rows[0]["parameters.seed"] == "22"
    assert rows[0]["parameters.shots"] == "all"
    assert rows[-1]["error"] == "class 'a' is empty\nadd images"
    code, printed, _ = run(
        capsys, "--home", home, "--csv", tmp_path / "new" / "r.csv", "--metric", "top1", "--study", "demo"
    )
    assert (code, printed) == (0, "")
    assert (tmp_path / "new" / "r.csv").read_text() == out
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["r.csv"]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("--models", "packaged:efficientnet-lite"), "Did you mean 'packaged:efficientnet-lite0'"),
        (("--study", "dmeo"), "unknown study 'dmeo'. Did you mean 'demo'?"),
        (("--metric", "topl"), "unknown metric 'topl'. Did you mean"),
        (("--json", "--csv", "-"), "only one of --json and the formats with - can go to standard output"),
        (("--csv", "/dev/null/r.csv"), "cannot write /dev/null/r.csv"),
    ],
)
def test_bad_input_is_one_line(
    home: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], expected: str
) -> None:
    code, out, err = run(capsys, "--home", home, *arguments)
    assert (code, out) == (2, "")
    assert expected in err
    assert err.count("\n") == 1


def test_a_folder_is_no_file(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run(capsys, "--home", home, "--csv", home)
    assert code == 2
    assert "is a folder" in err


def test_a_table_of_eighty_columns_breaks_no_id(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("unseen.cli.tables._WIDTH_WITHOUT_TERMINAL", 80)
    models = [f"timm:vit_large_patch14_dinov2.lvd142m_{number}" for number in range(4)]
    datasets = [f"folder:/somewhere/photos-{number}" for number in range(6)]
    with ResultsDatabase(tmp_path / FILE_NAME) as database:
        for model in models:
            for number, dataset in enumerate(datasets):
                database.append("s", Result(Cell("probe", model, dataset, {"seed": 1}), {"top1": number / 10}))
        database.append("s", Result(Cell("probe", models[0], datasets[0], {"seed": 2}), error="image is broken " * 9))
    code, out, _ = run(capsys, "--home", tmp_path)
    assert code == 0
    short = [model.removeprefix("timm:") for model in models]
    assert all(model in out for model in short)
    assert all(f"photos-{number}" in out for number in range(6)), "every dataset, without its folder"
    table = out.partition("1 cell failed")[0]
    assert max(len(line.rstrip()) for line in table.splitlines()) <= 80
    _, out, _ = run(capsys, "--home", tmp_path, "--models", models[0])
    assert all(f"photos-{number}" in out for number in range(6)), "one model: rows and columns are exchanged"
    with ResultsDatabase(tmp_path / FILE_NAME) as database:
        for shots in (1, 2, 4):
            cells = [Cell("probe", model, datasets[0], {"seed": 1, "shots": shots}) for model in models]
            for cell in cells:
                database.append("shots", Result(cell, {"top1": 0.5}))
    _, out, _ = run(capsys, "--home", tmp_path, "--study", "shots")
    assert all(model in out for model in short)
    assert "shots 4" in out
    long = Cell("probe", "file:/" + "very/" * 30 + "long.pth", "folder:/" + "deep/" * 30, {"seed": 1})
    with ResultsDatabase(tmp_path / FILE_NAME) as database:
        database.append("long", Result(long, {"top1": 0.25}))
    _, out, _ = run(capsys, "--home", tmp_path, "--study", "long")
    assert "long.pth" in out and "very/very" not in out, "the file name without its folder"
    assert "25.0" in out


def test_forget(home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(capsys, "forget", "--home", home)[::2] == (
        2,
        "unseen: error: choose what to forget: --study, --models, --benchmark, --dataset, --failed, or several.\n",
    )
    code, _, err = run(capsys, "forget", "--study", "dmeo", "--home", home)
    assert (code, "Did you mean 'demo'" in err) == (2, True)
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    code, _, err = run(capsys, "forget", "--failed", "--home", home)
    assert (code, "Add --yes" in err) == (2, True)
    assert run(capsys, "forget", "--failed", "--yes", "--home", home) == (0, "1 result forgotten.\n", "")
    assert run(capsys, "forget", "--failed", "--yes", "--home", home)[1] == "No matching results.\n"
    monkeypatch.setattr("typer.confirm", lambda question: "Forget 12 results, of study demo" in question and False)
    assert run(capsys, "forget", "--study", "demo", "--home", home)[1] == "Nothing was forgotten.\n"
    code, out, _ = run(capsys, "forget", "--study", "demo", "--models", "random:resnet18", "-y", "--home", home)
    assert (code, out) == (0, "6 results forgotten.\n")
    _, out, _ = run(capsys, "--home", home, "--csv", "-")
    assert len(out.splitlines()) == 1 + 6 * 4 + 2
    code, _, err = run(capsys, "--study", "demo", "forget", "--failed", "--home", home)
    assert (code, "options after the word" in err) == (2, True)


def test_exports_say_what_they_leave_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with ResultsDatabase(tmp_path / FILE_NAME) as database:
        for revision in ("old", "older", "new"):
            database.append("s", Result(Cell("probe", "m", "d", {"seed": 1}, revision), {"top1": 0.5}))
    _, out, err = run(capsys, "--home", tmp_path, "--csv", "-")
    assert len(out.splitlines()) == 2
    assert err == "2 older results of other weights or data left out.\n"
    _, out, _ = run(capsys, "--home", tmp_path)
    assert "2 older results of other weights or data left out" in out


def test_metrics_of_a_benchmark_that_is_not_loaded(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with ResultsDatabase(tmp_path / FILE_NAME) as database:
        database.append(
            "s", Result(Cell("zsl", "m", "d", {"method": "ALE", "fold": "all", "split": "PS"}), {"zsl": 0.5, "H": 0.25})
        )
        database.append("s", Result(Cell("gone", "m", "d"), {"tau": 0.5}))
    _, out, _ = run(capsys, "--home", tmp_path)
    assert "ZSL (%)" in out
    assert "25.0" in out
    assert "0.5000" in out


def test_a_metric_that_the_chosen_ones_lack(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "--home", home, "--study", "other", "--metric", "top5")[1] == "No result has top5.\n"


def test_no_database_yet(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run(capsys, "--home", tmp_path / "nowhere")
    assert code == 2
    assert "no results database" in err
    assert not (tmp_path / "nowhere").exists()


def test_an_empty_database(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ResultsDatabase(tmp_path / FILE_NAME).close()
    assert run(capsys, "--home", tmp_path) == (0, "There are no results yet.\n", "")
    assert run(capsys, "--home", tmp_path, "--json") == (0, "[]\n", "")


def test_the_run_record_of_a_cell(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bad = Dropped("image", "train/a_b.png", "not an image", "train")
    cell = Cell("probe", "timm:x", "folder:/y", {"seed": 1})
    with ResultsDatabase(home / FILE_NAME) as database:
        database.append(
            "demo", Result(cell, {"top1": 0.5}, record=RunRecord({"train": SplitCounts(9, 8)}, dropped=(bad,)))
        )
    code, out, _ = run(capsys, "record", cell.id[:8], "--home", home)
    assert code == 0
    assert f"{cell.id} probe · timm:x · folder:/y" in out
    for words in (
        "Findings: 1 unreadable image",
        "    train:\n      found: 9\n      used: 8\n",
        f"{bad.name} of train: {bad.reason}",
    ):
        assert words in out
    code, out, _ = run(capsys, "record", "--models", "timm:x", "--json", "--home", home)
    (found,) = json.loads(out)
    assert found["id"] == cell.id and found["record"]["dropped"][0]["name"] == bad.name
    rows = json.loads(run(capsys, "--json", "--models", "timm:x", "--home", home)[1])
    assert [row["record"]["findings"] for row in rows] == [["1 unreadable image"]]
    (row,) = csv.DictReader(io.StringIO(run(capsys, "--csv", "-", "--models", "timm:x", "--home", home)[1]))
    assert row["findings"] == "1 unreadable image"
    latex = run(capsys, "--latex", "-", "--models", "timm:x", "--home", home)[1]
    assert r"{\footnotesize Run record: 1 unreadable image.}" in latex


def test_an_id_must_be_known_and_unique(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run(capsys, "record", "nosuchid", "--home", home)
    assert code == 2 and "no valid result with the id 'nosuchid'" in err
    ids = sorted({row["cell"] for row in json.loads(run(capsys, "--json", "--home", home)[1])})
    code, _, err = run(capsys, "record", ids[0][:3], "--home", home)
    assert code == 2 and "at least 4 digits are needed" in err
    code, out, _ = run(capsys, "record", *ids[:2], "--home", home)
    assert code == 0 and all(each in out for each in ids[:2])
