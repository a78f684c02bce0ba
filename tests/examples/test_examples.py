"""The scripts and the notebook of `examples/` run as they are, on small networks and images."""

from __future__ import annotations

import json
import runpy
from collections.abc import Callable
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
if not EXAMPLES.is_dir():
    pytest.skip("not a source checkout: there are no examples", allow_module_level=True)

SMALL = ("random:test_resnet?size=64", "random:test_vit?size=64")
PRODUCTS = ("boot", "sandal", "tennis shoe", "trench coat", "armchair", "running shoe", "parka")

ARGUMENTS = {
    "own_model.py": (["photos", "--seeds", "1"], "top-1 "),
    "choose_checkpoint.py": (["photos", "--models", *SMALL], "Best: random:test_"),
    "zero_shot.py": (["--classes", "12"], "ESZSL"),
    "own_ontology.py": (["products", "--models", SMALL[0], "--seeds", "1"], "L1 "),
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
    assert {path.name for path in EXAMPLES.glob("*.py")} == set(ARGUMENTS)


@pytest.mark.slow
@pytest.mark.parametrize("script", ARGUMENTS)
def test_a_script_runs(script: str, place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments, said = ARGUMENTS[script]
    runpy.run_path(str(EXAMPLES / script))["main"](arguments)
    assert said in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.ipynb")), ids=lambda path: path.name)
def test_a_notebook_runs(path: Path, place: Path) -> None:
    notebook = json.loads(path.read_text(encoding="utf-8"))
    assert notebook["nbformat"] == 4
    names: dict[str, object] = {}
    for number, cell in enumerate(notebook["cells"]):
        if cell["cell_type"] != "code":
            continue
        assert cell["outputs"] == [], "a notebook is kept without outputs"
        text = "".join(cell["source"])
        for whole, small in (
            ("packaged:efficientnet-lite0", SMALL[0]),
            ("packaged:efficientnet-lite1", SMALL[1]),
            ("packaged:grocery?labels=coarse", "photos"),
        ):
            text = text.replace(whole, small)
        exec(compile(text, f"{path.name}, cell {number}", "exec"), names)
    assert (place / "report.html").is_file()
