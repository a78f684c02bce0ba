"""Compare and chart commands over a database that holds several settings: shown apart, or one is chosen."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.benchmarks.cog.test_settings import two_runs

from unseen.cli import main
from unseen.core.records import Cell, Result
from unseen.results import FILE_NAME, ResultsDatabase


def store(home: Path, study: str, results: list[Result]) -> None:
    with ResultsDatabase(home / FILE_NAME) as database:
        for result in results:
            database.append(study, result)


def test_cog_chart_draws_the_chosen_setting(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store(tmp_path, "cog", two_runs())
    chart = ["cog", "chart", "levels", "--output", str(tmp_path / "levels.svg"), "--home", str(tmp_path)]
    assert main(chart) == 2
    assert "--setting levels=3" in capsys.readouterr().err
    assert main([*chart, "--setting", "levels=3"]) == 0
    assert "from L1 to L" in capsys.readouterr().out
    assert (tmp_path / "levels.svg").stat().st_size > 1000


def test_vtab_compare_keeps_runs_of_two_steps_apart(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def run(steps: int, top1: float) -> list[Result]:
        setting = {"adaptation": "linear", "sweep": "lightweight", "steps": [steps]}
        cells = [Cell("vtab", "timm:a", "vtab:pets", {**setting, "seed": seed}) for seed in range(3)]
        return [Result(cell, {"top1": top1}) for cell in cells]

    store(tmp_path, "vtab", [*run(2500, 0.886), *run(2, 0.105)])
    assert main(["vtab", "compare", "--home", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    places = {words: out.index(words) for words in ("steps [2500]", "steps [2]")}
    for words, value in (("steps [2500]", "88.6"), ("steps [2]", "10.5")):
        later = [place for place in places.values() if place > places[words]]
        assert value in out[places[words] : min(later, default=len(out))], (words, out)


def test_zsl_compare_drops_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def run(value: float, **more: object) -> list[Result]:
        base = {"split": "PS", "fold": "all", "test_on": "", "calibration": 0, **more}
        dataset = "xlsa17:CUB?split=SS" if base["split"] == "SS" else "xlsa17:CUB"
        cells = [Cell("zsl", "m", dataset, {**base, "method": m}, "w+d", f"1 {m}.1") for m in ("ALE", "SAE")]
        return [Result(cell, {"zsl": value + place / 10}) for place, cell in enumerate(cells)]

    folds = [result for fold in (1, 2, 3) for result in run(0.3, fold=fold)]
    store(tmp_path, "zsl", [*run(0.5), *run(0.6, split="SS"), *run(0.1, test_on="xlsa17:AWA1"), *folds])
    assert main(["zsl", "compare", "--home", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert out.count("Ranks by ZSL") == 4
    for words in ("split SS", "test_on xlsa17:AWA1", "parameters chosen on one fold"):
        assert words in out
    assert "SS against PS" in out
