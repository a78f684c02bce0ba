"""Reproducible samples: stratified splits, and smaller versions of a dataset for quick studies.

An image's place in a sample is the hash of the seed and of its name, the path of its file below the folder of all
images; images without a file are sampled by their pixels (docs/adr/0022-one-split-rule.md). A sample therefore depends
on no library's generator, is the same in every form of the data, does not change when images are added or files are
listed in another order, and a larger sample with the same seed contains the smaller one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from unseen.core.arrays import IntArray
from unseen.core.errors import DataError
from unseen.core.names import Options, as_number
from unseen.core.run_record import RunRecord
from unseen.data.dataset import CLASS, Dataset, Split


@dataclass(frozen=True)
class Division:
    """How test and validation images are sampled from the train images: shares of every class, and the seed."""

    test: float = 0.2
    val: float = 0.0
    seed: int = 0

    @classmethod
    def read(cls, options: Options, *, files: bool = False) -> tuple[Self, dict[str, str]]:
        """Read the options test, val and seed.

        Args:
            files: return test and val that are not numbers: they name files with the images of these splits.
        """
        shares: dict[str, float] = {}
        named: dict[str, str] = {}
        for split in ("test", "val"):
            text = options.text(split)
            if files and text is not None and as_number(text) is None:
                named[split] = text
            elif (share := options.fraction(split)) is not None:
                shares[split] = share
        return cls(**shares, seed=options.integer("seed") or 0), named


def draw_order(names: Sequence[str], seed: int) -> IntArray:
    """Return the indices of `names` in an order given by the seed."""
    prefix = b"%d\0" % seed
    keys = [hashlib.blake2b(prefix + n.encode("utf-8", "surrogateescape"), digest_size=8).digest() for n in names]
    return np.asarray(sorted(range(len(names)), key=lambda i: (keys[i], i)), np.int64)


def stratified_split(
    names: Sequence[str],
    labels: IntArray,
    *,
    test: float,
    val: float = 0.0,
    seed: int = 0,
    groups: IntArray | None = None,
) -> dict[str, IntArray]:
    """Return ascending indices of train, val and test, with the same share of every class.

    A class of two images or more has at least one in train and, where the share is not 0, one in test. With groups, the
    shares are as near as whole groups allow, and every class keeps a group in train.
    """
    if test + val >= 1:
        raise DataError(f"test ({test}) and val ({val}) leave nothing to train on: together they must stay below 1")
    rank, count = rank_in_class(names, labels, seed)
    in_test = np.clip(np.rint(count * test), 1, count - 1) if test else np.zeros_like(count)
    left = count - in_test
    in_val = np.clip(np.rint(count * val), 1, left - 1) if val else np.zeros_like(count)
    # clip() lets the upper bound win: a class of one image, with bound 0, stays in train.
    part = np.where(rank < in_test, 2, np.where(rank < in_test + in_val, 1, 0))
    if groups is not None:
        part = _group_parts(names, labels, groups, part, seed)
    wanted = {"train": 0} | ({"val": 1} if val else {}) | ({"test": 2} if test else {})
    return {name: np.flatnonzero(part == number) for name, number in wanted.items()}


def _group_parts(names: Sequence[str], labels: IntArray, groups: IntArray, part: IntArray, seed: int) -> IntArray:
    """Return the part of each image (2 test, 1 val, 0 train) so that no group is divided.

    Args:
        part: of each image without groups: how many images of each class every part needs.
    """
    found = np.zeros(len(labels), np.int64)
    needs = {number: np.bincount(labels[part == number], minlength=labels.max() + 1) for number in (2, 1)}
    left = np.bincount(labels)
    by_group: dict[int, list[int]] = {}
    for i in draw_order(names, seed).tolist():  # groups in the order of their first images
        by_group.setdefault(int(groups[i]), []).append(i)
    for rows in by_group.values():
        counts = np.bincount(labels[rows], minlength=len(left))
        for number, need in needs.items():
            own = counts > 0
            if (2 * need[own] >= counts[own]).all() and (left[own] > counts[own]).all():
                found[rows] = number
                need -= counts
                left -= counts
                break
    return found


def single_image_classes(class_names: Sequence[str], labels: IntArray) -> tuple[str, ...]:
    """Return the classes that have one image, which a draw leaves in train."""
    counts = np.bincount(labels, minlength=len(class_names))
    return tuple(class_names[i] for i in np.flatnonzero(counts == 1).tolist())


def select(
    dataset: Dataset,
    *,
    per_class: int | None = None,
    limit: int | None = None,
    classes: int | None = None,
    seed: int = 0,
) -> Dataset:
    """Return a smaller version of a dataset, in the same order.

    Args:
        classes: that many classes; their labels are counted anew, in the old order.
        per_class: at most that many images per class, in every split.
        limit: at most that many images in every split, classes in proportion.
    """
    if classes is not None and classes < len(dataset.class_names):
        if dataset.target != CLASS:
            raise DataError(
                f"{dataset.id!r} has no classes to choose from: its labels are of the kind {dataset.target}."
            )
        dataset = _select_classes(dataset, classes, seed)
    splits = dict(dataset.splits)
    for name, split in splits.items():
        rank, count = rank_in_class(split.sampling_keys, split.labels, seed)
        kept = np.flatnonzero(rank < (per_class if per_class is not None else len(split)))
        if limit is not None and len(kept) > limit:
            # Taking images by their relative place within their class keeps the classes in proportion.
            place = (rank[kept] + 0.5) / np.minimum(count[kept], per_class or count[kept])
            tie = np.empty(len(split), np.int64)
            tie[draw_order(split.sampling_keys, seed)] = np.arange(len(split))
            kept = np.sort(kept[np.lexsort((tie[kept], place))[:limit]])
        if len(kept) < len(split):
            splits[name] = split.take(kept)
    return replace(dataset, splits=splits)


def _select_classes(dataset: Dataset, classes: int, seed: int) -> Dataset:
    # A WordNet id is a better name than a word that two concepts may share.
    wnids = dataset.wnids or [None] * len(dataset.class_names)
    names = [wnid or name for wnid, name in zip(wnids, dataset.class_names, strict=True)]
    chosen = np.sort(draw_order(names, seed)[:classes])
    renumbered = np.full(len(names), -1, np.int64)
    renumbered[chosen] = np.arange(len(chosen))
    splits: dict[str, Split] = {}
    for name, split in dataset.splits.items():
        labels = renumbered[split.labels]
        kept = np.flatnonzero(labels >= 0)
        splits[name] = split.take(kept, labels[kept])
    record = dataset.record.merge(RunRecord(classes_given=len(names), classes_used=len(chosen)))
    return replace(
        dataset,
        record=record,
        class_names=[dataset.class_names[i] for i in chosen],
        wnids=[dataset.wnids[i] for i in chosen] if dataset.wnids else (),
        splits=splits,
    )


def shuffle_labels(dataset: Dataset, seed: int) -> Dataset:
    """Return the dataset with the labels of each split permuted among its images.

    A control: no classifier can score above chance on it, unless information about test labels reaches the training.
    """
    splits = {}
    for name, split in dataset.splits.items():
        order = draw_order([f"shuffled labels {key}" for key in split.sampling_keys], seed)
        targets = None if split.targets is None else split.targets[order]
        splits[name] = replace(split, labels=split.labels[order], targets=targets)
    return replace(dataset, splits=splits)


def rank_in_class(names: Sequence[str], labels: IntArray, seed: int) -> tuple[IntArray, IntArray]:
    """Return each image's rank in the sample among the images of its class, and their number."""
    order = draw_order(names, seed)
    by_class = order[np.argsort(labels[order], kind="stable")]
    sizes = np.bincount(labels)
    rank = np.empty(len(names), np.int64)
    rank[by_class] = np.arange(len(names)) - (np.cumsum(sizes) - sizes)[labels[by_class]]
    return rank, sizes[labels]


def hold_out(train: Split, validation: Split | None, *, seed: int, share: float = 0.2) -> tuple[Split, Split]:
    """Return images to tune on and images to select by: the validation split, or a stratified share of train.

    Raises:
        DataError: no class has two training images, so that none can be held out.
    """
    if validation is not None:
        return train, validation
    parts = stratified_split(train.sampling_keys, train.labels, test=share, seed=seed, groups=train.groups)
    if not len(parts["test"]):
        raise DataError("no class has two training images, so none can be held out to select by.")
    return train.take(parts["train"]), train.take(parts["test"])
