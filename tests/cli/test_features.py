"""`unseen features ls | verify | rm`."""

from __future__ import annotations

import io
import json
from pathlib import Path

import numpy as np
import pytest

from unseen.cli import main
from unseen.core.records import FeatureKey, Preprocessing
from unseen.features import FeatureStore, Skipped
from unseen.features.part import PartRows


def key(model: str, layer: str = "pooled", dataset: str = "packaged:grocery") -> FeatureKey:
    return FeatureKey(model, "w", layer, Preprocessing(), "fp32", "onnx", dataset, "test", "f")


@pytest.fixture
def home(tmp_path) -> Path:
    """Two complete entries of 1,199 rows, one image skipped, and a partial one of 800."""
    store = FeatureStore(tmp_path / "features")
    for of, parts in ((key("timm:resnet50"), 3), (key("timm:vit", "logits"), 3), (key("random:vit"), 2)):
        with store.writer(of, total=1200, part_size=400) as writer:
            for number in range(parts):
                index = np.arange(number * 400, number * 400 + 400)
                kept = index[index != 1000]
                skipped = [Skipped(1000, "a.png", "truncated")] if number == 2 else []
                writer.write(PartRows(writer.next_index, np.ones((len(kept), 16), np.float32), kept % 3, kept, skipped))
            if parts == 3:
                writer.finish()
    return tmp_path


def run(capsys, *arguments: str) -> tuple[int, str, str]:
    code = main(["features", *arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_ls(capsys, home):
    code, out, _ = run(capsys, "ls", "--home", str(home))
    lines = out.splitlines()
    assert code == 0
    assert lines[0].split() == ["id", "model", "dataset", "split", "layer", "rows", "skipped", "dim", "size", "state"]
    (resnet,) = [line.split() for line in lines if "timm:resnet50" in line]
    assert resnet[1:8] == ["timm:resnet50", "packaged:grocery", "test", "pooled", "1,199", "1", "16"]
    assert resnet[-1] == "complete"
    assert any("random:vit" in line and "partial, 800 of 1,200 images" in line for line in lines)
    assert lines[-1].startswith("Total: 3 entries, 3,198 rows, ")


def test_ls_json(capsys, home):
    code, out, _ = run(capsys, "ls", "--json", "--home", str(home))
    entries = {entry["model"]: entry for entry in json.loads(out)}
    assert code == 0
    assert set(entries) == {"timm:resnet50", "timm:vit", "random:vit"}
    vit = entries["timm:vit"]
    assert vit["id"] == key("timm:vit", "logits").digest
    assert (vit["rows"], vit["images"], vit["skipped"], vit["dim"], vit["state"]) == (1199, 1200, 1, 16, "complete")
    assert vit["bytes"] == sum(path.stat().st_size for path in Path(vit["path"]).iterdir())


def test_ls_of_nothing(capsys, tmp_path):
    assert run(capsys, "ls", "--home", str(tmp_path))[:2] == (
        0,
        f"No features are stored in {tmp_path / 'features'}.\n",
    )
    assert run(capsys, "ls", "--json", "--home", str(tmp_path))[:2] == (0, "[]\n")


def test_home_comes_from_the_environment(capsys, home, monkeypatch):
    monkeypatch.setenv("UNSEEN_HOME", str(home))
    assert "Total: 3 entries" in run(capsys, "ls")[1]


def test_verify(capsys, home):
    code, out, err = run(capsys, "verify", "--home", str(home))
    assert (code, err) == (0, "")
    assert out.startswith("All checksums match: 3 entries, 3,198 rows")

    part = FeatureStore(home / "features").select("timm:vit")[0].path / "part-00001.safetensors"
    content = bytearray(part.read_bytes())
    content[-1] ^= 1
    part.write_bytes(content)
    code, out, err = run(capsys, "verify", "--home", str(home))
    assert code == 2
    assert str(part) in out
    assert f"unseen features rm {part.parent.name}" in out
    assert err.startswith("unseen: error: 1 problem in 3 entries")
    assert err.count("\n") == 1

    assert run(capsys, "verify", "timm:vit", "--home", str(home))[0] == 2
    assert run(capsys, "verify", "timm:res*", "--home", str(home))[0] == 0


def test_a_damaged_entry_is_listed_and_removed(capsys, home):
    entry = FeatureStore(home / "features").select("timm:vit")[0]
    (entry.path / "manifest.json").write_text("{")
    out = run(capsys, "ls", "--home", str(home))[1]
    assert any(entry.digest[:8] in line and line.rstrip().endswith("damaged") for line in out.splitlines())
    assert json.loads(run(capsys, "ls", "--json", "--home", str(home))[1])[-1]["state"] == "damaged"
    assert run(capsys, "verify", "--home", str(home))[0] == 2
    assert run(capsys, "rm", entry.digest[:8], "--yes", "--home", str(home))[0] == 0
    assert run(capsys, "verify", "--home", str(home))[0] == 0


def test_rm_asks(capsys, home, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO("n\n"))
    code, out, _ = run(capsys, "rm", "timm:*", "--home", str(home))
    assert code == 0
    assert "Remove 2 entries, 2,398 rows, " in out
    assert out.endswith("Nothing was removed.\n")
    assert len(list(FeatureStore(home / "features").entries())) == 3

    monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))
    code, out, _ = run(capsys, "rm", "timm:*", "--home", str(home))
    assert code == 0
    assert "Removed 2 entries" in out
    (left,) = FeatureStore(home / "features").entries()
    assert left.manifest is not None
    assert left.manifest.key.model == "random:vit"


def test_rm_without_an_answer(capsys, home, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    code, _, err = run(capsys, "rm", "--all", "--home", str(home))
    assert code == 2
    assert "Add --yes" in err
    assert len(list(FeatureStore(home / "features").entries())) == 3


def test_rm_all(capsys, home):
    assert run(capsys, "rm", "--all", "--yes", "--home", str(home))[0] == 0
    assert run(capsys, "rm", "--all", "--yes", "--home", str(home))[1].startswith("No features are stored")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["rm"], "give a PATTERN"),
        (["rm", "timm:*", "--all"], "give a PATTERN"),
        (["rm", "timm:resnet5"], "Did you mean 'timm:resnet50'"),
        (["verify", "nothing"], "unknown stored features 'nothing'"),
    ],
)
def test_usage_errors_are_one_line_and_code_2(capsys, home, arguments, message):
    code, _, err = run(capsys, *arguments, "--home", str(home))
    assert code == 2
    assert message in err
    assert err.count("\n") == 1
