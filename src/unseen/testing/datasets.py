"""Contract suite of datasets and of sources of datasets."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np

from unseen.core.names import Name, Options
from unseen.core.records import DatasetCard
from unseen.data.dataset import Dataset, Split
from unseen.data.decode import decode_rgb
from unseen.data.load import DatasetSource
from unseen.testing.claims import check_cards, claim, refuses_variants


def check_dataset_source(source: DatasetSource | type[DatasetSource], *, scheme: str, load: Sequence[str] = ()) -> None:
    """Check a source of datasets.

    Args:
        source: or its class.
        scheme: under which it is registered.
        load: names of datasets to load, such as "csv:tests/data/few.csv"; small ones suffice.
    """
    made = source() if isinstance(source, type) else source
    check_cards(made, DatasetSource, DatasetCard, scheme)
    for text in load:
        name = Name.parse(text)
        first, again = _load(made, name), _load(made, name)
        check_dataset(first)
        claim(first.revision == again.revision, f"{text}: two loads have other contents")
        refuses_variants(name, partial(_load, made))


def _load(source: DatasetSource, name: Name) -> Dataset:
    options = Options(str(name), name.options)
    loaded = source.load(name.rest, options)
    options.finish()
    return loaded


def check_dataset(dataset: Dataset) -> None:
    """Check a dataset: its classes, its splits, and some of its images."""
    claim(isinstance(dataset, Dataset), f"{type(dataset).__name__} was given, not a Dataset")
    claim(len(dataset.class_names) > 0, f"{dataset.id}: it has no classes")
    claim(all(isinstance(name, str) and name for name in dataset.class_names), f"{dataset.id}: a class has no name")
    claim(len(dataset.splits) > 0, f"{dataset.id}: it has no splits")
    for name, split in dataset.splits.items():
        if len(split):
            _check_split(f"{dataset.id}, split {name!r}", split, len(dataset.class_names))
    claim(any(len(split) for split in dataset.splits.values()), f"{dataset.id}: it has no images")
    claim(isinstance(dataset.revision, str) and bool(dataset.revision), f"{dataset.id}: it has no revision")


def _check_split(where: str, split: Split, classes: int) -> None:
    labels = np.asarray(split.labels)
    claim(labels.dtype.kind in "iu", f"{where}: labels are {labels.dtype}, not whole numbers")
    claim(0 <= labels.min() <= labels.max() < classes, f"{where}: labels do not count {classes} classes from 0")
    claim(len(set(split.names)) == len(split), f"{where}: two images have one name")
    chosen = sorted({0, len(split) // 2, len(split) - 1})
    with ThreadPoolExecutor(len(chosen)) as pool:  # images are opened from many threads at once
        side_by_side = list(pool.map(lambda i: np.asarray(decode_rgb(split.open(i))), chosen))
    for i, pixels in zip(chosen, side_by_side, strict=True):
        claim(pixels.ndim == 3 and pixels.shape[2] == 3, f"{where}: image {i} does not decode to RGB")
        again = np.asarray(decode_rgb(split.open(i)))
        claim(np.array_equal(again, pixels), f"{where}: image {i} has other pixels when it is opened again")
    claim(bool(split.fingerprint) and isinstance(split.fingerprint, str), f"{where}: its fingerprint is no word")
    if len(split) > 1:
        forth, back = split.take([0, 1]), split.take([1, 0])
        claim(forth.fingerprint != back.fingerprint, f"{where}: another order of images has the same fingerprint")
