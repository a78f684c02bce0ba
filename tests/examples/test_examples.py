"""The scripts and the notebook of `examples/` run as they are, on small networks and images."""

from __future__ import annotations

import json
import re
import runpy
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest
from tools.notebook import NOTEBOOK, run_cells

EXAMPLES = Path(__file__).parents[2] / "examples"
if not EXAMPLES.is_dir():
    pytest.skip("not a source checkout: there are no examples", allow_module_level=True)

SMALL = ("random:test_resnet?size=64", "random:test_vit?size=64")
PRODUCTS = ("boot", "sandal", "tennis shoe", "trench coat", "armchair", "running shoe", "parka")

#: What stands in for larger models and data.
SMALLER = {
    "packaged:efficientnet-lite0": SMALL[0],
    "packaged:efficientnet-lite1": SMALL[1],
    "packaged:grocery?labels=coarse": "photos",
}

#: By script, a pattern of what it prints.
PRINTED = {
    "own_model.py": r"top-1 \d+\.\d % \[",
    "choose_checkpoint.py": r"(?s)Fine-tune (?P<name>\S+): .*\nRecommended: (?P=name)\n",
    "zero_shot.py": r"(ESZSL|SAE|ALE|DEVISE) has \d+\.\d %",
    "own_ontology.py": r"L1 .*\d",
}


@pytest.fixture
def place(tmp_path: Path, home: Path, make_folder: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    make_folder(tmp_path / "photos", classes=4, per_class=12)
    folders = sorted(make_folder(tmp_path / "products", classes=len(PRODUCTS), per_class=6).iterdir())
    for folder, name in zip(folders, PRODUCTS, strict=True):
        folder.rename(tmp_path / "products" / name)
    return tmp_path


def test_every_script_is_run() -> None:
    assert {path.name for path in EXAMPLES.glob("*.py")} == set(PRINTED)


@pytest.mark.slow
@pytest.mark.parametrize("script", PRINTED)
def test_the_command_in_the_docstring_of_a_script_runs(
    script: str, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = runpy.run_path(str(EXAMPLES / script))
    (line,) = re.findall(rf"^python examples/{script}(.*)$", names["__doc__"], flags=re.MULTILINE)
    names["main"]([SMALLER.get(word, word) for word in shlex.split(line)])
    printed = capsys.readouterr().out
    assert re.search(PRINTED[script], printed), printed


@pytest.mark.slow
def test_the_notebook_has_the_outputs_of_its_cells(place: Path) -> None:
    notebook = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    assert notebook["nbformat"] == 4
    compared = 0
    for cell, shown in run_cells(notebook):
        stored = ["".join(output["data"]["text/plain"]) for output in cell["outputs"]]
        assert stored == ([shown["text/plain"]] if shown else []), "run python -m tools.notebook"
        compared += len(stored)
    assert compared == 5
    assert (place / "report.html").is_file()
