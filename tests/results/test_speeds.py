"""What a run is expected to take, by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from unseen.results import environment
from unseen.results.environment import SPEEDS, Speeds, expect_cells, expect_features


def learnt(home: Path) -> Speeds:
    speeds = Speeds(home)
    speeds.learn_model("m", 100, 4.0, 512)
    speeds.learn_model("none", 0, 4.0, 512)
    speeds.learn_model("no time", 100, 0.0, 512)
    speeds.learn_cells("probe", "a", [1.0, 2.0, 6.0])
    speeds.learn_cells("probe", "b", [4.0])
    speeds.learn_cells("probe", "c", [])
    return speeds


def test_speeds_are_kept(tmp_path: Path) -> None:
    learnt(tmp_path).save()
    again = Speeds(tmp_path)
    assert again.models == {"m": (25.0, 512)}
    assert again.cells == {"probe a": 3.0, "probe b": 4.0}
    assert again.extraction("m") == (25.0, 512, True)
    assert again.cell("probe", "a") == (3.0, True)
    assert again.cell("probe", "elsewhere") == (4.0, False), "the middle one of the others"
    assert again.cell("zsl", "a")[1] is False
    (tmp_path / SPEEDS).write_text("{")
    assert Speeds(tmp_path).models == {}


def test_a_machine_of_which_nothing_is_known_is_measured_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    monkeypatch.setattr(environment, "_multiply", lambda: asked.append(1) or 100.0)
    speeds = Speeds(tmp_path)
    rate, dimensions, known = speeds.extraction("new")
    assert speeds.extraction("newer") == (rate, dimensions, known)
    assert (len(asked), known, speeds.gflops) == (1, False, 100.0)
    speeds.gflops = 200.0
    assert speeds.extraction("new")[0] == pytest.approx(2 * rate)
    speeds.gflops = 1e-9
    assert speeds.extraction("new")[0] == 0.1


def test_a_product_of_matrices_takes_some_time() -> None:
    assert 0.01 < environment._multiply(64) < 1e5


def test_stages_by_hand(tmp_path: Path) -> None:
    speeds = learnt(tmp_path)
    speeds.gflops = 1.0
    stage = expect_features(speeds, {"m": 50}, 2, 2)
    assert (stage.name, stage.work, stage.seconds, stage.known) == ("features", "50 images", 1.0, True)
    assert stage.disk == 50 * (512 * 2 + 16)
    assert not expect_features(speeds, {"m": 50, "new": 1}, 2, 1).known
    cells = [("probe", "a"), ("probe", "a"), ("probe", "b")]
    stage = expect_cells(speeds, cells, {"a": 1000, "b": 500}, 2)
    assert (stage.name, stage.work, stage.seconds, stage.known) == ("cells", "3 cells", 5.0, True)
    bare = expect_cells(speeds, cells, {}, 2)
    assert stage.memory - bare.memory == 2 * 1000 * 2
    assert bare.memory == 2 * expect_cells(speeds, [], {}, 1).memory
    assert stage.disk == 12_000
    assert not expect_cells(speeds, [*cells, ("zsl", "a")], {}, 1).known
