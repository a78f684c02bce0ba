"""`unseen report`, `compare` and `leaderboard`: pages and figures of what is stored, nothing computed again."""

from __future__ import annotations

import json
import math
import re
import struct
from pathlib import Path

import numpy as np
import pytest

from unseen.benchmarks.compare import boards, duels
from unseen.cli import main
from unseen.core.records import Cell, Result
from unseen.results import FILE_NAME, ResultsDatabase
from unseen.results.grid import pack_correct
from unseen.results.info import TOP1
from unseen.stats import paired_difference

A, B, C = "packaged:efficientnet-lite0", "packaged:efficientnet-lite1", "random:tf_efficientnet_lite0"
IMAGES = 400


def answers(model: str, seed: int) -> np.ndarray:
    """B is A with one image more; C guesses."""
    rng = np.random.default_rng(seed)
    right = rng.random(IMAGES) < 0.8
    if model == C:
        return np.random.default_rng(seed + 100).random(IMAGES) < 0.1
    right[0] = model == B
    return right


def probe(
    model: str, seed: int, *, dataset: str = "packaged:grocery", shots: object = "all", solver: str = "ridge"
) -> Result:
    right = answers(model, seed)
    return Result(
        Cell("probe", model, dataset, {"seed": seed, "shots": shots, "solver": solver}, f"{model}+d", f"1 {solver}.1"),
        {"top1": float(right.mean()), "top1_low": float(right.mean()) - 0.04, "top1_high": float(right.mean()) + 0.04},
        details={"correct": pack_correct(right), "test_images": IMAGES, "chance": 0.1},
        environment={"unseen": "0.1.0"},
    )


def stored(folder: Path, results: list[Result]) -> Path:
    with ResultsDatabase(folder / FILE_NAME) as database:
        for result in results:
            database.append("fruit", result)
    return folder


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return stored(
        tmp_path / "home", [probe(m, seed, shots=s) for m in (A, B, C) for seed in (1, 2) for s in (4, "all")]
    )


def test_compare_in_words(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", "packaged:efficientnet-lite0", C, "--home", str(home)]) == 0
    out = capsys.readouterr().out
    assert "Of 2 questions that both answered: EfficientNet-Lite0 is significantly better in 2." in out
    assert "2 of 2 tests are paired on the same test images" in out


def test_compare_reports_that_nothing_is_significant_without_minus_zero(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compare", A, B, "--home", str(home)]) == 0
    assert "Of 2 questions that both answered: no difference is significant." in capsys.readouterr().out
    one = stored(tmp_path / "one", [probe(m, 1) for m in (A, B)])
    assert main(["compare", A, B, "--home", str(one)]) == 0
    out = capsys.readouterr().out
    assert "-0.0" not in out, out
    assert (TOP1.text(-0.0004), TOP1.text(-0.0006)) == ("0.0", "-0.1")


def test_the_test_is_paired_on_the_means_over_seeds(home: Path) -> None:
    (duel,) = duels([probe(A, 1), probe(A, 2), probe(B, 2), probe(B, 3)], A, B)
    first, second = (np.stack([answers(model, seed) for seed in seeds]) for model, seeds in ((A, (1, 2)), (B, (2, 3))))
    reference = paired_difference(first, second)
    found = duel.found
    assert (found.value, found.low, found.high) == pytest.approx((reference.value, reference.low, reference.high))
    assert (duel.how, duel.verdict) == ("same images", 0)


def test_other_data_are_not_paired_and_other_settings_not_compared() -> None:
    assert duels([probe(A, 1, solver="ridge"), probe(B, 1, solver="ncm")], A, B) == []
    bare = [Result(each.cell, each.metrics) for each in (probe(A, 1), probe(C, 1))]
    (duel,) = duels(bare, A, C)
    assert (duel.how, duel.verdict) == ("two intervals", 1)
    assert duel.found.high - duel.found.low == pytest.approx(2 * 0.04 * math.sqrt(2), rel=1e-6)
    naked = [Result(each.cell, {"top1": each.metrics["top1"]}) for each in bare]
    (duel,) = duels(naked, A, C)
    assert (duel.how, duel.verdict) == ("", 0)


def test_compare_refuses_in_one_line(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words, message in (
        (["efficientnet", A], "part of several models"),
        ([A, A], "compared with itself"),
        (["lite1", "lite1"], "compared with itself"),
        (["resnet", A], "unknown model 'resnet'"),
    ):
        assert main(["compare", *words, "--home", str(home)]) == 2
        assert message in capsys.readouterr().err


def test_models_are_chosen_by_parts_of_their_ids(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", "packaged*lite0", "lite1", "--home", str(home)]) == 0
    capsys.readouterr()
    found = []
    for chosen in (["--models", "packaged*0"], []):
        assert main(["report", *chosen, "--home", str(home), "--json"]) == 0
        found.append(json.loads(capsys.readouterr().out)["results"])
    assert 0 < found[0] < found[1]
    assert main(["report", "--models", "resnet", "--home", str(home)]) == 2
    assert "unknown model 'resnet'" in capsys.readouterr().err
    assert main(["results", "--models", "lite1", "--home", str(home)]) == 2, "tables and deletions need whole ids"


def test_compare_as_json(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", A, B, "--home", str(home), "--json"]) == 0
    out, err = capsys.readouterr()
    rows = json.loads(out)["rows"]
    assert [row["id"] for row in rows] == [f"probe on packaged:grocery, shots {shots}" for shots in (4, "all")]
    assert not any(cell.get("mark") for row in rows for cell in row["cells"])
    assert all(row["cells"][1]["n"] == IMAGES and row["cells"][3]["low"] <= 0 for row in rows)
    assert not err


def test_report_from_stored_results(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", "--study", "fruit", "--models", "lite0", C, "--home", str(home)]) == 0
    out = capsys.readouterr().out
    assert "Values are the mean over 2 settings on 1 dataset." in out
    page = Path(re.search(r"Report: (.*) \(8 results\)", out)[1])
    assert page == home / "reports" / "fruit.html"
    text = page.read_text()
    assert "EfficientNet-Lite0" in text
    assert "EfficientNet-Lite1" not in text
    assert main(["report", "--study", "vegetables", "--home", str(home)]) == 2
    assert "unknown study" in capsys.readouterr().err


def test_datasets_are_chosen_by_paths(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    photos, other = tmp_path / "photos", tmp_path / "other"
    photos.mkdir()
    other.mkdir()
    names = [f"folder:{photos}", f"folder:{photos}?per_class=5", f"folder:{other}"]
    home = str(stored(tmp_path / "home", [probe(A, 1, dataset=name) for name in names]))
    for text, count in (("photos/", 1), ("other?per_class=2", None), ("photos?per_class=5", 1)):
        code = main(["report", "--dataset", text, "--home", home, "--json"])
        out = capsys.readouterr().out
        assert code == (0 if count else 2) and (not count or json.loads(out)["results"] == count), text
    stored(tmp_path / "options", [probe(A, 1, dataset=names[1])])
    assert main(["results", "--dataset", "photos", "--home", str(tmp_path / "options")]) == 0
    assert "Linear probe, photos, top-1" in capsys.readouterr().out


def test_figures_are_one_column_wide(home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "figures"
    assert main(["report", "--home", str(home), "--figures", str(folder), "--json"]) == 0
    written = [Path(path) for path in json.loads(capsys.readouterr().out)["figures"]]
    assert written
    assert {path.suffix for path in written} == {".pdf", ".svg", ".png"}
    for path in written:
        data = path.read_bytes()
        if path.suffix == ".png":
            assert abs(struct.unpack(">I", data[16:20])[0] - 990) <= 1  # 3.3 inches at 300 dots
        elif path.suffix == ".svg":
            assert b'width="237.6pt"' in data
        else:
            assert float(re.search(rb"MediaBox *\[ *0 0 ([\d.]+)", data)[1]) == pytest.approx(237.6, abs=0.5)
    assert main(["report", "--home", str(home), "--figures", str(folder), "--format", "gif"]) == 2
    assert "not as 'gif'" in capsys.readouterr().err


def test_statistically_tied_models_share_places(home: Path) -> None:
    with ResultsDatabase(home / FILE_NAME, read_only=True) as database:
        (board,) = boards(database.latest(), {})
    assert {row[0].hint: row[-1].place for row in board.rows} == {A: (1, 2), B: (1, 2), C: (3, 3)}
    assert [row[-1].below.rpartition("place ")[2] for row in board.rows] == ["1–2", "1–2", "3"]
    assert board.row_keys[-1] == C


def scored(model: str, value: float) -> Result:
    cell = Cell("rank", model, "packaged:grocery", {"score": "logme", "layer": "pooled"}, f"{model}+d", "1 logme.1")
    return Result(cell, {"score": value})


def test_scores_without_intervals_are_ordered_by_value_and_claim_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The names are in the opposite order of the values."""
    results = [scored("a:poor", 0.1), scored("b:fair", 0.5), scored("c:good", 0.9), scored("d:good", 0.9)]
    (board,) = boards(results, {})
    assert board.row_keys == ["c:good", "d:good", "b:fair", "a:poor"]
    assert [row[-1].note for row in board.rows] == [f"place {place} by value" for place in ("1–2", "1–2", "3", "4")]
    assert {row[-1].place for row in board.rows} == {None}
    folder = stored(tmp_path / "scores", results)
    page = tmp_path / "board.html"
    assert main(["leaderboard", "--home", str(folder), "--output", str(page)]) == 0
    out = capsys.readouterr().out
    assert "by value" in out
    assert "Values have no confidence interval: they are ordered by value" in out
    assert "they are ordered by value, and differences are not tested" in page.read_text()
    assert main(["leaderboard", "--home", str(folder), "--json", "--output", str(page)]) == 0
    (row, *_) = json.loads(capsys.readouterr().out)[0]["rows"]
    assert row["id"] == "c:good" and not any("place" in cell for cell in row["cells"])


def test_a_column_with_one_untested_value_is_ordered_by_value() -> None:
    bare = Result(probe(B, 1).cell, {"top1": 0.99})
    (board,) = boards([probe(A, 1), bare, probe(C, 1)], {})
    assert board.row_keys == [B, A, C] and {row[-1].place for row in board.rows} == {None}


def test_a_leaderboard_of_two_homes(home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = stored(tmp_path / "other", [probe("timm:resnet18", 1), probe(A, 1)])
    page = tmp_path / "board.html"
    assert main(["leaderboard", str(home), str(other), "--output", str(page), "--json"]) == 0
    (board,) = json.loads(capsys.readouterr().out)
    assert "timm:resnet18" in [row["id"] for row in board["rows"]]
    text = page.read_text()
    assert "of a cell in several of them, the newest result counts" in text
    assert "Results are in one column only if" in text
    assert str(tmp_path) not in text
