"""The packaged pictograms, and the table of what they show."""

from __future__ import annotations

import runpy
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from unseen.core.errors import UsageError
from unseen.data import decode_rgb, load_dataset
from unseen.data.sources.packaged import package_folder
from unseen.data.sources.packaged.emoji import concepts

TOOL = Path(__file__).parents[4] / "tools" / "build_emoji_concepts.py"
WORDNET = Path("/usr/share/wordnet/data.noun")


def test_the_table() -> None:
    rows = concepts()
    assert len(rows) == len({row.code_point for row in rows}) == 528
    by_wnid = {row.wnid: row for row in rows}
    assert Counter(row.imagenet for row in by_wnid.values()) == {"1k": 115, "21k": 263, "none": 139}
    assert Counter(Counter(row.wnid for row in rows).values()) == {1: 506, 2: 11}
    assert len({row.class_name for row in by_wnid.values()}) == len(by_wnid)


@pytest.mark.parametrize(
    ("unicode_name", "wnid"),
    [
        ("BAT", "n02139199"),  # the animal
        ("MOUSE", "n02330245"),  # the rodent
        ("SEAL", "n02076196"),  # the animal
        ("TURKEY", "n01794158"),  # the bird
        ("KITE", "n03621473"),  # the plaything
        ("BANANA", "n07753592"),  # the fruit, as in ImageNet-1K
        ("PEAR", "n07767847"),
        ("SPIDER", "n01772222"),
        ("HAMMER", "n03481172"),
        ("PIG", "n02395406"),
        ("DOLPHIN", "n02068974"),
        ("VOLLEYBALL", "n04540053"),
    ],
)
def test_senses_are_those_of_the_picture(unicode_name: str, wnid: str) -> None:
    assert [row.wnid for row in concepts() if row.unicode_name == unicode_name] == [wnid]


def test_imagenet_membership_is_that_of_the_lists() -> None:
    lists = package_folder("timm", "timm") / "data" / "_info"
    in1k = set((lists / "imagenet_synsets.txt").read_text().split())
    in21k = set((lists / "imagenet22k_synsets.txt").read_text().split())
    for row in concepts():
        assert row.imagenet == ("1k" if row.wnid in in1k else "21k" if row.wnid in in21k else "none")


@pytest.mark.skipif(not WORDNET.is_file(), reason="WordNet's noun files (Debian's wordnet-base) are not installed")
def test_the_table_is_what_the_tool_builds() -> None:
    done = subprocess.run([sys.executable, TOOL, "--check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.skipif(not WORDNET.is_file(), reason="WordNet's noun files (Debian's wordnet-base) are not installed")
def test_every_override_is_of_use() -> None:
    tool = runpy.run_path(str(TOOL))
    wordnet = tool["WordNet"].read(WORDNET.parent)
    shown = {row.unicode_name for row in concepts()}
    for name, chosen in tool["OVERRIDES"].items():
        assert (name in shown) == (chosen is not None), name
        if chosen is not None:
            lemma, _, number = chosen.rpartition(".")
            assert int(number) <= len(wordnet.senses[lemma]), name


def test_splits_are_by_designer() -> None:
    dataset = load_dataset("packaged:emoji")
    designers = {name: sorted({n.split("/")[0] for n in split.names}) for name, split in dataset.splits.items()}
    assert designers == {"train": ["Appl", "FB", "Goog", "Sams"], "val": ["Joy"], "test": ["Twtr", "Wind"]}
    assert {name: len(split) for name, split in dataset.splits.items()} == {"train": 2030, "val": 528, "test": 1015}
    for split in dataset.splits.values():
        assert len(np.unique(split.labels)) == len(dataset.class_names) == 517
    assert list(dataset.wnids) == sorted(set(dataset.wnids))


def test_no_drawing_is_in_two_splits() -> None:
    dataset = load_dataset("packaged:emoji")
    drawings = [decode_rgb(s.open(i)).tobytes() for s in dataset.splits.values() for i in range(len(s))]
    assert len(drawings) == len(set(drawings)) == 3573


def test_labels_follow_the_table() -> None:
    dataset = load_dataset("packaged:emoji")
    by_code = {row.code_point: row for row in concepts()}
    for split in dataset.splits.values():
        for name, label in zip(split.names, split.labels, strict=True):
            assert dataset.wnids[label] == by_code[Path(name).stem].wnid


def test_pictograms_lie_on_white() -> None:
    split = load_dataset("packaged:emoji?subset=imagenet-1k").splits["train"]
    corners = [decode_rgb(split.open(i)).getpixel((0, 0)) for i in range(0, len(split), 7)]
    assert sum(corner == (255, 255, 255) for corner in corners) > 0.9 * len(corners)


def test_subsets() -> None:
    sizes = {s: len(load_dataset(f"packaged:emoji?subset={s}").class_names) for s in ("imagenet-1k", "imagenet-21k")}
    assert sizes == {"imagenet-1k": 115, "imagenet-21k": 378}
    few = load_dataset("packaged:emoji?classes=20&seed=1")
    assert len(few.class_names) == 20
    assert all(few.wnids)
    assert few.wnids == load_dataset("packaged:emoji?classes=20&seed=1").wnids


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ("subset=imagenet", UsageError, "should be one of all, imagenet-21k, imagenet-1k"),
    ],
)
def test_bad_choices_are_named(options: str, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        load_dataset(f"packaged:emoji?{options}")


def test_pages_show_drawings_with_an_open_licence() -> None:
    """A picture of a class is its first test image: Twitter's, CC BY 4.0, for every class."""
    loaded = load_dataset("packaged:emoji")
    images = loaded.split("test")
    first = np.unique(images.labels, return_index=True)[1]
    assert len(first) == len(loaded.class_names)
    assert all(images.names[i].startswith("Twtr/") for i in first)
    assert "CC BY 4.0" in loaded.card.license and "not" in loaded.card.license
