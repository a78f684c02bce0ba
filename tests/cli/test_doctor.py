"""`unseen doctor`: what it says is so."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest

from unseen.cli import main
from unseen.cli.doctor import examine
from unseen.core.extras import EXTRAS


def test_it_tells_versions_folders_and_extras(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    import torch

    assert found["versions"]["torch"] == torch.__version__
    assert found["places"]["home"] == {"path": str(home), "state": "not created yet"}
    for name, (_, module) in EXTRAS.items():
        assert found["extras"][name]["installed"] == (importlib.util.find_spec(module) is not None)
    assert not [line for line in found["problems"] if line.startswith("Problem")] and found["next"][0].startswith(
        "Next: "
    )


def test_a_folder_that_cannot_be_written_is_a_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.access", lambda *_: False)
    assert any("UNSEEN_HOME" in line for line in examine(tmp_path)["problems"])


@pytest.mark.parametrize("loads", [True, False])
def test_torchvision_of_another_build_is_noted(loads: bool, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its operators do not load with this torch, so that `import timm` fails."""
    monkeypatch.setattr("unseen.cli.doctor.torchvision_loads", lambda: loads)
    assert any("`import timm` alone fails" in line for line in examine(home)["problems"]) != loads


def test_it_prints_tables(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor"]) == 0
    shown = capsys.readouterr().out
    assert "This machine" in shown and "Extras" in shown and "Next: " in shown


def test_the_extras_are_those_of_the_package() -> None:
    """Every extra that an error or the doctor names can be installed."""
    import tomllib

    project = Path(__file__).parents[2] / "pyproject.toml"
    if not project.is_file():
        pytest.skip("not a source checkout")
    declared = tomllib.loads(project.read_text())["project"]["optional-dependencies"]
    assert set(EXTRAS) == set(declared) - {"dev", "docs"}
