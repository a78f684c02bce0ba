"""`unseen demo`: says at once what it will do, and at the end one sentence per question."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from unseen.cli import main
from unseen.study import Study


def test_it_says_how_long_and_answers(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, small_model: str, images: Path, tmp_path: Path
) -> None:
    """On a study as small as tests have it; the real one is tried by `make demo`."""
    small = Study("demo", (small_model,), (f"folder:{images}",), {"probe": {"seeds": 2, "solver": "ncm"}})
    monkeypatch.setattr(Study, "read", lambda name: small)
    assert main(["demo", "--home", str(tmp_path)]) == 0
    out, err = capsys.readouterr()
    first = err.splitlines()[0]
    assert re.match(r"1 question, 1 model, 1 step: about \d+ minutes? on \d cores?; what is done", first)
    assert f"[1/1] probe: {small_model} on folder:{images}" in err
    assert re.search(r"Probe\n  .* has \d+\.\d %(?: \[\d+\.\d, \d+\.\d\])?\.", out)
    page = tmp_path / "reports" / "demo.html"
    assert f"The page: {page}" in out and page.is_file()
    assert main(["demo", "--home", str(tmp_path)]) == 0
    again, told = capsys.readouterr()
    assert "1 of 1 step done already." in told and "[1/1]" not in told
    assert again == out
