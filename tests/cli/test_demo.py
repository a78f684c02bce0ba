"""`unseen demo`: a line per step, and at the end one sentence per question."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from unseen.cli import main
from unseen.study import Study


def test_it_runs_the_study_and_answers(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, small_model: str, images: Path, tmp_path: Path
) -> None:
    """On a study as small as tests have it; the real one is tried by `make demo`."""
    small = Study("demo", (small_model,), (f"folder:{images}",), {"probe": {"seeds": 2, "solver": "ncm"}})
    monkeypatch.setattr(Study, "read", lambda name: small)
    assert main(["demo", "--home", str(tmp_path)]) == 0
    out, err = capsys.readouterr()
    assert f"[1/1] probe: {small_model} on folder:{images}" in err
    assert re.search(r"Probe\n  .* has \d+\.\d.%(?: \[\d+\.\d, \d+\.\d\])?\.", out)
    page = tmp_path / "reports" / "demo.html"
    assert f"Report: {page}" in out and page.is_file()
    assert main(["demo", "--home", str(tmp_path)]) == 0
    again, progress = capsys.readouterr()
    assert "2 cached" in progress and "[1/1]" not in progress
    assert again == out
