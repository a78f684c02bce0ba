"""`unseen audit`: the table, the summary, JSON, chart and mapping."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from unseen.cli import main

CLASSES = ["leopard", "horse", "bobcat", "walrus", "giraffe", "church_indoor", "crane", "jetski", "xyzzy"]


@pytest.fixture
def classes(tmp_path: Path) -> Path:
    path = tmp_path / "testclasses.txt"
    path.write_text("\n".join(CLASSES) + "\n")
    return path


def test_all_classes_are_printed(classes: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["audit", "--classes", str(classes)]) == 0
    printed = capsys.readouterr().out
    for name in CLASSES:
        assert name in printed
    assert "ancestor of seen: sorrel" in printed and "descendant of seen: lynx" in printed
    assert "of 9 classes are in ImageNet-1K" in printed
    assert "1 not matched" in printed and "n02128385 leopard" in printed


def test_ambiguous_classes_come_with_their_senses(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "c.txt").write_text("crane\nbag\n")
    assert main(["audit", "--classes", str(tmp_path / "c.txt")]) == 0
    printed = capsys.readouterr().out
    assert "Ambiguous classes" in printed and "lifts and moves heavy objects" in printed
    assert "another sense changes the verdict" in printed


def test_json(classes: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "deep" / "audit.json"
    assert main(["audit", "--classes", str(classes), "--output", str(out)]) == 0
    content = json.loads(out.read_text())
    assert [row["class"] for row in content["classes"]] == CLASSES
    leopard = content["classes"][0]
    assert leopard["relation"] == "seen" and leopard["wnid"] == "n02128385" and leopard["similarity"] == 1.0
    capsys.readouterr()
    assert main(["audit", str(classes), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == content


def test_a_mapping_settles_what_was_open(classes: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mapping = tmp_path / "mapping.tsv"
    assert main(["audit", "--classes", str(classes), "--write-mapping", str(mapping)]) == 0
    assert "All classes written to" in capsys.readouterr().err
    mapping.write_text("crane\tn03126707\njetski\t-\n")
    out = tmp_path / "audit.json"
    assert main(["audit", "--classes", str(classes), "--mapping", str(mapping), "--output", str(out)]) == 0
    rows = {row["class"]: row for row in json.loads(out.read_text())["classes"]}
    assert rows["crane"]["wnid"] == "n03126707" and rows["crane"]["how"] == "given"
    assert rows["jetski"]["relation"] == "not matched"


def test_the_users_seen_set(classes: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "seen.txt").write_text("walrus\ngiraffe\n")
    assert main(["audit", "--classes", str(classes), "--seen", str(tmp_path / "seen.txt")]) == 0
    assert "2 of the 7 matched out of 9 classes are in seen.txt" in capsys.readouterr().out


def test_a_dataset(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from PIL import Image

    for name in ("zebra", "walrus"):
        (tmp_path / "photos" / name).mkdir(parents=True)
        for i in range(3):
            Image.new("RGB", (8, 8), (i, 0, 0)).save(tmp_path / "photos" / name / f"{i}.png")
    for data in (["--classes", f"folder:{tmp_path / 'photos'}"], [f"{tmp_path}/photos/"]):
        assert main(["audit", *data]) == 0
        assert "1 of 2 classes is in ImageNet-1K" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--classes", "nothing"], "neither a file nor a dataset"),
        (["--classes", "no:such"], "unknown"),
        (["--seen", "imagenet"], "no seen set 'imagenet'"),
        (["--mapping", "none.tsv"], "cannot read none.tsv"),
    ],
)
def test_mistakes(classes: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str) -> None:
    assert main(["audit", "--classes", str(classes), *arguments]) == 2
    assert message in capsys.readouterr().err


def test_the_commands_import_nothing_heavy() -> None:
    code = (
        "import sys, unseen.cli.audit, unseen.cli.cog\n"
        "heavy = {'torch', 'altair', 'sklearn', 'pyarrow', 'timm'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
