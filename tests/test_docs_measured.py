"""Tables of long runs: pages show what docs/measured.json keeps, and a run's table gets there."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture
def tool(load_tool: Callable[[str], ModuleType]) -> ModuleType:
    return load_tool("record")


KEPT: dict[str, dict[str, Any]] = json.loads((ROOT / "docs" / "measured.json").read_text(encoding="utf-8"))


def script(command: str) -> Path:
    """The file that a command runs: a script, or the main file of a package of tools."""
    (path,) = re.findall(r"(?:bench|tools|tests)/\w+\.py", re.sub(r"-m tools\.(\w+)", r"tools/\1.py", command))
    return ROOT / path if (ROOT / path).is_file() else (ROOT / path).with_suffix("") / "__main__.py"


@pytest.mark.parametrize("name", KEPT)
def test_the_page_shows_what_is_kept(tool: ModuleType, name: str) -> None:
    entry = KEPT[name]
    page = (ROOT / entry["page"]).read_text(encoding="utf-8")
    assert tool.on_page(page, name, entry) == page, "run: python -m tools.record"
    for command in entry["commands"]:
        assert script(command).is_file()


@pytest.mark.parametrize("name", KEPT)
def test_its_command_prints_such_a_table(name: str) -> None:
    """The titles stand in the script that the command names."""
    titles = [cell.strip() for cell in KEPT[name]["table"][0].strip("|").split("|") if cell.strip()]
    text = "".join(script(command).read_text(encoding="utf-8") for command in KEPT[name]["commands"])
    missing = [title for title in titles if not re.fullmatch(r"\d+x", title) and title not in text]
    assert not missing


def test_a_new_run_takes_its_place(tool: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script, page = tmp_path / "bench.py", tmp_path / "page.md"
    script.write_text(
        "print('begun')\nprint('| a | b |\\n|---|---|\\n| new | 2 |\\n')\nprint('| c |\\n|---|\\n| 1 |')\n"
    )
    entry = {
        "page": "page.md",
        "commands": [f"python {script}", f"python {script}"],
        "when": "yesterday",
        "table": ["| a | b |", "|---|---|", "| old | 1 |"],
    }
    monkeypatch.setattr(tool, "ROOT", tmp_path)
    monkeypatch.setattr(tool, "KEPT", tmp_path / "measured.json")
    (tmp_path / "measured.json").write_text(json.dumps({"mine": entry}))
    page.write_text("before\n\n" + "\n".join([tool.mark("mine", entry), *entry["table"]]) + "\n\nafter\n")
    monkeypatch.setattr(sys, "argv", ["record", "mine"])
    assert tool.main() == 0
    assert page.read_text().count("| new | 2 |\n") == 2
    assert "old" not in page.read_text() and "yesterday" not in page.read_text()
    assert page.read_text().startswith("before\n\n<!-- made by") and page.read_text().endswith("|\n\nafter\n")
    entry["table"] = ["| other |", "|---|", "| 1 |"]
    (tmp_path / "measured.json").write_text(json.dumps({"mine": entry}))
    with pytest.raises(SystemExit, match="printed no table"):
        tool.main()
