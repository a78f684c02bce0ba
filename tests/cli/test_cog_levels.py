"""`unseen cog levels`: the paper's levels, and an ontology of one's own."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from unseen.cli import main
from unseen.concepts import Levels, load_wordnet, read_counts
from unseen.concepts.eligibility import PERSON

EDGES = """child,parent
plant,thing
animal,thing
tree,plant
oak,tree
elm,tree
fern,plant
cat,animal
tabby,cat
siamese,cat
dog,animal
poodle,dog
"""


@pytest.fixture
def counts() -> Path:
    folder = os.environ.get("UNSEEN_GOLDEN_DATA")
    if not folder:
        pytest.skip("UNSEEN_GOLDEN_DATA is not set: the published ImageNet counts are elsewhere")
    return Path(folder) / "imagenet21k" / "counts.csv"


@pytest.fixture
def own(tmp_path: Path) -> list[str]:
    """Arguments for a small ontology: tabby was seen, every leaf has ten images."""
    (tmp_path / "edges.csv").write_text(EDGES)
    (tmp_path / "seen.txt").write_text("tabby\n")
    rows = [f"{concept},10\n" for concept in ("oak", "elm", "fern", "tabby", "siamese", "poodle", "dog")]
    (tmp_path / "counts.csv").write_text("".join([*rows, "cat,3\n"]))
    return [
        *("cog", "levels", "--ontology", str(tmp_path / "edges.csv"), "--seen", str(tmp_path / "seen.txt")),
        *("--counts", str(tmp_path / "counts.csv"), "--min-images", "5", "--levels", "2", "--size", "2"),
    ]


def test_the_paper(counts: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "levels.json"
    assert main(["cog", "levels", "--counts", str(counts), "--output", str(out)]) == 0
    printed = capsys.readouterr().out
    assert "5,146" in printed and "146 concepts left in the gaps" in printed
    levels = Levels.load(out)
    assert [len(level.ids) for level in levels.levels] == [1000] * 5
    means = [level.mean_similarity for level in levels.levels]
    assert means == sorted(means, reverse=True) and len(set(means)) == 5
    for level in levels.levels:
        assert f"{level.mean_similarity:.4f}" in printed
    steps = levels.details["funnel"]["steps"]
    assert steps[-1] == {"name": "listed by hand", "dropped": 70, "left": 5146}
    first = out.read_bytes()
    assert main(["cog", "levels", "--counts", str(counts), "--output", str(out)]) == 0
    assert out.read_bytes() == first


def test_the_release_without_people_gives_the_same_levels(counts: Path, tmp_path: Path) -> None:
    """Winter 2021 lacks the `person` sub-tree (supplement E): the same concepts in the same levels, one by one."""
    wordnet = load_wordnet()
    people = {PERSON, *wordnet.descendants(PERSON)}
    kept = {wnid: count for wnid, count in read_counts(counts).items() if wnid not in people}
    winter = tmp_path / "winter.csv"
    winter.write_text("".join(f"{wnid},{count}\n" for wnid, count in kept.items()))
    assert len(read_counts(counts)) - len(kept) > 2000
    for name, file in (("fall", counts), ("winter", winter)):
        assert main(["cog", "levels", "--counts", str(file), "--output", str(tmp_path / f"{name}.json")]) == 0
    fall, short = (Levels.load(tmp_path / f"{name}.json") for name in ("fall", "winter"))
    assert len(fall.ids) == 5000
    assert [level.concepts for level in fall.levels] == [level.concepts for level in short.levels]
    assert fall.gaps == short.gaps


def test_an_ontology_asks_for_no_images(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "edges.csv").write_text(EDGES)
    (tmp_path / "seen.txt").write_text("tabby\n")
    run = ["cog", "levels", "--ontology", str(tmp_path / "edges.csv"), "--seen", str(tmp_path / "seen.txt")]
    sizes = ["--levels", "2", "--size", "2", "--output", str(tmp_path / "levels.json")]
    assert main([*run, *sizes]) == 0, capsys.readouterr().err
    levels = Levels.load(tmp_path / "levels.json")
    assert [level.ids for level in levels.levels] == [("siamese", "poodle"), ("fern", "oak")]
    (tmp_path / "counts.csv").write_text("oak,1\nelm,2\nsiamese,1\npoodle,1\ntabby,3\n")
    assert main([*run, *sizes, "--counts", str(tmp_path / "counts.csv")]) == 0, "a concept of one image will do"
    assert set(Levels.load(tmp_path / "levels.json").ids) == {"oak", "elm", "siamese", "poodle"}
    # A minimum number of images needs counts, and is kept.
    assert main([*run, *sizes, "--min-images", "2"]) == 2
    assert main([*run, *sizes, "--counts", str(tmp_path / "counts.csv"), "--min-images", "2"]) == 2
    assert "1 are eligible" in capsys.readouterr().err


def test_an_ontology_of_ones_own(own: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*own, "--output", str(tmp_path / "levels.json")]) == 0
    levels = Levels.load(tmp_path / "levels.json")
    # dog is above poodle and so no leaf; of the five left one falls in the gap.
    assert [level.ids for level in levels.levels] == [("siamese", "poodle"), ("fern", "oak")]
    assert sum(len(gap) for gap in levels.gaps) == 1
    assert levels.details["seen"] == {"name": "seen.txt", "concepts": 1}
    assert "siamese (tabby)" in capsys.readouterr().out


@pytest.mark.parametrize("measure", ["resnik", "wu-palmer"])
def test_another_measure(own: list[str], tmp_path: Path, measure: str) -> None:
    assert main([*own, "--measure", measure, "--output", str(tmp_path / "levels.json")]) == 0
    assert Levels.load(tmp_path / "levels.json").measure == measure


def test_counting_a_folder(own: list[str], tmp_path: Path) -> None:
    for concept in ("oak", "elm", "fern", "siamese", "poodle"):
        folder = tmp_path / "images" / concept
        folder.mkdir(parents=True)
        for i in range(6):
            (folder / f"{i}.JPEG").touch()
    place = own.index("--counts")
    arguments = [*own[:place], "--images", str(tmp_path / "images"), *own[place + 2 :]]
    assert main([*arguments, "--output", str(tmp_path / "levels.json")]) == 0
    assert len(Levels.load(tmp_path / "levels.json").ids) == 4


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--levels", "9"], "9 levels of 2 need 18 concepts, and 5 are eligible"),
        (["--measure", "lim"], "Did you mean 'lin'"),
        (["--drop-subtree", "catt"], "did you mean 'cat'"),
        (["--measure", "text"], "ids only"),
        (["--output", "/nowhere/x.json"], "cannot write"),
        (["--images", "."], "either --counts FILE or --images FOLDER"),
    ],
)
def test_mistakes(own: list[str], capsys: pytest.CaptureFixture[str], arguments: list[str], message: str) -> None:
    assert main([*own, *arguments]) == 2
    assert message in capsys.readouterr().err


def test_a_root_needs_an_ontology(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cog", "levels", "--root", "x", "--counts", "y"]) == 2
    assert "--root goes with --ontology" in capsys.readouterr().err


def test_the_file_is_plain_json(own: list[str], tmp_path: Path) -> None:
    assert main([*own, "--output", str(tmp_path / "levels.json")]) == 0
    content = json.loads((tmp_path / "levels.json").read_text())
    assert content["format"] == "unseen-levels/1" and content["columns"] == ["id", "similarity", "nearest"]
