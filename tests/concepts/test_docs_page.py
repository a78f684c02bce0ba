"""The examples of docs/concepts.md say what the page says they do; `tests/test_docs.py` runs them all."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "concepts.md"


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)


def test_levels_from_ones_own_ontology(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code = next(block for block in blocks("python") if "build_levels" in block)
    assert len([line for line in code.splitlines() if line.strip()]) <= 10
    (tmp_path / "products.csv").write_text(blocks("csv")[0])
    monkeypatch.chdir(tmp_path)
    exec(compile(code, str(PAGE), "exec"), {})
    first, _, last = capsys.readouterr().out.splitlines()
    assert "('tennis shoe', 'running shoe')" in first and "('trench coat', 'parka')" in first
    assert "table" in last or "chair" in last
    assert (tmp_path / "levels.json").exists()


def test_the_mapping_that_the_page_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    code = next(block for block in blocks("python") if "map_classes" in block)
    exec(compile(code, str(PAGE), "exec"), {})
    lines = [line for line in Path("wnids.tsv").read_text().splitlines() if not line.startswith("#")]
    assert len(lines) == 6 and "mole\t?" in lines and "crocodile_head\t?" in lines
