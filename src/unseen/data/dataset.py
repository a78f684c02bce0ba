"""A dataset: classes, splits, labels and images that are opened one by one.

Every source (folders, packaged sets, ImageNet, VTAB, procedural) builds these records.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import accumulate, chain
from typing import Literal, TypeVar

import numpy as np
import numpy.typing as npt
from PIL import Image

from unseen.core.arrays import AnyArray, IntArray
from unseen.core.errors import DataError
from unseen.core.identity import digest
from unseen.core.records import DatasetCard
from unseen.core.run_record import RunRecord

_T = TypeVar("_T")

#: What the label of an image is: one class, several labels at once, or a number.
Target = Literal["class", "several", "number"]
CLASS: Target = "class"
SEVERAL: Target = "several"
NUMBER: Target = "number"

_FINGERPRINT_THREADS = 16  # they wait for the disk, not for the processor
_CHUNK = 256  # images per task: one task for each costs more than reading a small file


class _LazyFingerprint:
    """A `str` field that is computed when first read, if it was not given: reading a million files takes minutes."""

    def __get__(self, split: Split | None, owner: type[Split]) -> str:
        if split is None:
            return ""  # the dataclass takes this for the default
        stored: str = split.__dict__["fingerprint"]
        if not stored:
            stored = split.__dict__["fingerprint"] = split._compute_fingerprint()
        return stored

    def __set__(self, split: Split, value: str) -> None:
        split.__dict__["fingerprint"] = value


@dataclass(frozen=True, eq=False, repr=False)
class Split:
    """One split of a dataset, in a fixed order.

    Attributes:
        names: one per image, for messages and for per-image results; a relative path where there is one.
        labels: class index per image.
        open: returns image `i`, not decoded yet if the format allows. It may raise `OSError` or `DataError` on a
            bad file: extraction records the reason and continues. Called from many threads at once.
        fingerprint: digest of names, image contents and primary labels, in order. By default it is computed from
            `content_key` when first read.
        content_key: returns bytes that change when the content of image `i` changes, such as a digest of its file.
        primary_labels: of the labelling that goes into the fingerprint; `labels`, unless this is a second labelling
            of the same images.
        whole: a larger set that these images are rows of, whose features are stored.
        targets: (n,) numbers or (n, labels) booleans, if labels are more than classes; `labels` are strata then.
        sampling_keys: decide the place of each image in a random sample; `names`, unless the same images have other
            names in another form of the data (`unseen.data.user_data`).
        groups: (n,) group of each image, such as the video of a frame: no split or fold divides a group; None if every
            image is its own.
        feature_rows: row of each image in the features that a dataset has (`unseen.data.sources.features`).
        members: the datasets that were joined and the names of their splits, under which features are stored; a part
            of a joined split, such as `take` returns, has none.
    """

    names: Sequence[str]
    labels: IntArray
    open: Callable[[int], Image.Image]
    fingerprint: _LazyFingerprint = _LazyFingerprint()
    content_key: Callable[[int], bytes] | None = None
    primary_labels: IntArray = field(default_factory=lambda: np.empty(0, np.int64))
    whole: Whole | None = None
    targets: AnyArray | None = None
    sampling_keys: Sequence[str] = ()
    groups: IntArray | None = None
    feature_rows: IntArray | None = None
    members: tuple[tuple[Dataset, str], ...] = ()

    def __len__(self) -> int:
        return len(self.names)

    def __repr__(self) -> str:
        return f"<Split of {len(self)} images>"

    def __post_init__(self) -> None:
        if not len(self.primary_labels):
            object.__setattr__(self, "primary_labels", self.labels)
        targets = self.labels if self.targets is None else self.targets
        for what, values in (("labels", self.labels), ("targets", targets), ("primary labels", self.primary_labels)):
            if len(values) != len(self):
                raise DataError(f"a split has {len(self)} images but {len(values)} {what}")
        if len(self.sampling_keys) != len(self):
            object.__setattr__(self, "sampling_keys", self.names)
        if self.content_key is None and not self.__dict__["fingerprint"]:
            raise DataError("a split needs a fingerprint, or a content_key to compute one from")

    def take(self, indices: npt.ArrayLike, labels: IntArray | None = None) -> Split:
        """Return the split of the images at `indices`, in that order, with new `labels` if given."""
        chosen = np.asarray(indices, np.int64)
        open_all, key_all = self.open, self.content_key
        return Split(
            names=[self.names[i] for i in chosen],
            labels=self.labels[chosen] if labels is None else labels,
            open=lambda i: open_all(int(chosen[i])),
            # Without content keys the whole split's fingerprint and the choice say the same.
            fingerprint="" if key_all else digest([self.fingerprint, chosen.tolist()], length=32),
            content_key=(lambda i: key_all(int(chosen[i]))) if key_all else None,
            primary_labels=self.primary_labels[chosen],
            targets=_at(self.targets, chosen),
            sampling_keys=() if self.sampling_keys is self.names else [self.sampling_keys[i] for i in chosen],
            groups=_at(self.groups, chosen),
            feature_rows=_at(self.feature_rows, chosen),
        )

    def places_of(self, sample: Split) -> list[int] | None:
        """Return the index of each image of a sample of this split, or None if it is not known to be one.

        The result is cached, because the contents of all sampled images are read for it.
        """
        cached: dict[str, list[int] | None] = self.__dict__.setdefault("places", {})
        if sample.fingerprint not in cached:
            known = {name: i for i, name in enumerate(self.names)}
            places = [known[name] for name in sample.names if name in known]
            complete = len(known) == len(self) and len(places) == len(sample)
            same = complete and self.take(places).fingerprint == sample.fingerprint
            cached[sample.fingerprint] = places if same else None
        return cached[sample.fingerprint]

    def join(self, other: Split) -> Split:
        """Concatenate this split and another one."""
        fingerprint = digest([self.fingerprint, other.fingerprint], length=32)
        return replace(join_splits([self, other]), fingerprint=fingerprint, content_key=None)

    def _compute_fingerprint(self) -> str:
        if self.members:
            return digest([member.split(name).fingerprint for member, name in self.members], length=32)
        content_key = self.content_key
        assert content_key is not None

        chunks = [range(i, min(i + _CHUNK, len(self))) for i in range(0, len(self), _CHUNK)]
        total = hashlib.blake2b(digest_size=16)
        with ThreadPoolExecutor(_FINGERPRINT_THREADS) as pool:
            keys = chain.from_iterable(pool.map(lambda chunk: [content_key(i) for i in chunk], chunks))
            for name, label, key in zip(self.names, self.primary_labels.tolist(), keys, strict=True):
                # Lengths keep ("ab", "c") and ("a", "bc") apart; file names need not be valid UTF-8.
                encoded = name.encode("utf-8", "surrogateescape")
                total.update(b"%d:%d:%d:" % (len(encoded), len(key), label))
                total.update(encoded)
                total.update(key)
        return total.hexdigest()


def _at(column: AnyArray | None, rows: IntArray) -> AnyArray | None:
    return None if column is None else column[rows]


def _joined(columns: Iterable[AnyArray | None]) -> AnyArray | None:
    known = list(columns)
    every = [column for column in known if column is not None]
    return np.concatenate(every) if len(every) == len(known) else None


def join_splits(
    parts: Sequence[Split],
    labels: Sequence[IntArray] = (),
    members: Sequence[tuple[Dataset, str]] = (),
    *,
    prefix: str = "",
) -> Split:
    """Concatenate several splits, with other labels and members if given, and `prefix` before every name."""
    keyed = bool(members) or all(part.content_key is not None for part in parts)
    return Split(
        names=[prefix + name for part in parts for name in part.names],
        labels=np.concatenate(labels or [part.labels for part in parts]),
        open=_indexed(parts, lambda part, i: part.open(i)),
        fingerprint="" if keyed else digest([part.fingerprint for part in parts], length=32),
        content_key=_indexed(parts, _content_key) if keyed else None,
        targets=_joined(part.targets for part in parts),
        sampling_keys=[prefix + name for part in parts for name in part.sampling_keys],
        feature_rows=_joined(part.feature_rows for part in parts),
        members=tuple(members),
    )


def _indexed(parts: Sequence[Split], function: Callable[[Split, int], _T]) -> Callable[[int], _T]:
    """Return a function of the position among all images of several splits."""
    locate = locator(map(len, parts))

    def find(i: int) -> _T:
        number, row = locate(i)
        return function(parts[number], row)

    return find


def locator(sizes: Iterable[int]) -> Callable[[int], tuple[int, int]]:
    """Return a function from a position among consecutive parts to the number of the part and the position in it."""
    starts = [0, *accumulate(sizes)]

    def locate(i: int) -> tuple[int, int]:
        number = bisect_right(starts, i) - 1
        return number, i - starts[number]

    return locate


def _content_key(part: Split, i: int) -> bytes:
    return part.content_key(i) if part.content_key else f"{part.fingerprint}:{i}".encode()


@dataclass(frozen=True, eq=False)
class Whole:
    """The images that a split was sampled from: the split `ALL` of a dataset, and the row of each image."""

    dataset: Dataset
    rows: IntArray


#: The only split of images that are not divided yet.
ALL = "all"


@dataclass(frozen=True, eq=False)
class Dataset:
    """A loaded dataset.

    Attributes:
        class_names: one per class index, as a person would write it.
        wnids: WordNet id per class, or None if it is not known; empty if none is.
        splits: by name: "train", "test", and "val" if the dataset has its own.
        features_id: the dataset id that features are stored under. Two labellings of the same images share it, so
            that the images go through a model once.
        target: the kind of the labels; if they are more than classes, splits have targets.
        record: what loading the dataset received, used and dropped, and where its examples come from.
        expected: number of images by split, if a protocol prescribes it.
        untested: classes with a single image, which have no test image.
    """

    card: DatasetCard
    class_names: Sequence[str]
    splits: Mapping[str, Split]
    wnids: Sequence[str | None] = field(default=())
    features_id: str = ""
    target: Target = CLASS
    record: RunRecord = field(default_factory=RunRecord)
    expected: Mapping[str, int] = field(default_factory=dict)
    untested: Sequence[str] = ()

    @property
    def id(self) -> str:
        return self.card.id

    @cached_property
    def revision(self) -> str:
        """Return a digest of all data that a benchmark uses: images, labels, class names and ids, side information."""
        splits = {name: [part.fingerprint, digest(part.labels.tolist())] for name, part in self.splits.items()}
        targets = {name: part.targets.tolist() for name, part in self.splits.items() if part.targets is not None}
        more: list[object] = [self.target, targets] if targets else []
        groups = {name: part.groups.tolist() for name, part in self.splits.items() if part.groups is not None}
        more += [{"groups": groups}] if groups else []
        return digest([splits, list(self.class_names), list(self.wnids), self.side_information(), *more], length=12)

    def side_information(self) -> object:
        """Return data beside images and classes, as JSON values."""
        return None

    def split(self, name: str) -> Split:
        try:
            return self.splits[name]
        except KeyError:
            raise DataError(f"dataset {self.id!r} has no split {name!r}. It has: {', '.join(self.splits)}.") from None

    def __post_init__(self) -> None:
        if not self.features_id:
            object.__setattr__(self, "features_id", self.card.id)
        if self.wnids and len(self.wnids) != len(self.class_names):
            raise DataError(f"{self.id!r} has {len(self.class_names)} classes but {len(self.wnids)} WordNet ids")
        for name, split in self.splits.items():
            if len(split) and not 0 <= split.labels.min() <= split.labels.max() < len(self.class_names):
                raise DataError(
                    f"{self.id!r}, split {name!r}: labels from {split.labels.min()} to {split.labels.max()} "
                    f"do not fit {len(self.class_names)} classes, which are counted from 0"
                )


def check_classes(dataset: Dataset) -> None:
    """Refuse a dataset that a classifier cannot learn and be tested on; labels other than classes are not checked.

    Raises:
        DataError: no training or test images, one class only, or a class with one image of which none is left to test.
    """
    train, test = dataset.split("train"), dataset.split("test")
    trained = np.unique(train.labels)
    if dataset.target == CLASS and len(trained) == 1:
        raise DataError(
            f"{dataset.id!r} has training images of one class, {dataset.class_names[trained[0]]!r}; a classifier needs "
            "at least two. Put the images of each class into a folder of their own."
        )
    if lone := [name for name in dataset.untested if name in set(dataset.class_names)]:
        more = f" ({len(lone):,} such classes)" if len(lone) > 1 else ""
        raise DataError(
            f"{dataset.id!r}: the class {lone[0]!r} has one image, so none is left to test on{more}. Add an image, "
            "remove the class, or give test images of your own."
        )
    for name, split in (("train", train), ("test", test)):
        if not len(split):
            raise DataError(f"{dataset.id!r} has no {name} images.")


def join_datasets(card: DatasetCard, members: Sequence[Dataset]) -> Dataset:
    """Join datasets: the classes of all, those of the first member first, and the splits that all have.

    Raises:
        DataError: two members have a class with the same WordNet id.
    """
    if odd := next((member for member in members if member.target != CLASS), None):
        raise DataError(f"{card.id!r}: {odd.id!r} has no classes, so it cannot be joined with others.")
    wnids = [wnid for member in members for wnid in (member.wnids or [None] * len(member.class_names))]
    known = [wnid for wnid in wnids if wnid is not None]
    if len(set(known)) < len(known):
        twice = next(wnid for i, wnid in enumerate(known) if wnid in known[:i])
        raise DataError(f"{card.id!r}: {twice} is a class of two of its parts ({', '.join(m.id for m in members)}).")
    shared = [name for name in members[0].splits if all(name in member.splits for member in members)]
    record = RunRecord()
    for member in members:
        unused = [name for name in member.splits if name not in shared]
        notes = (f"{member.id}: not every part has {', '.join(unused)}, so it is not used.",) if unused else ()
        record = record.merge(member.record).merge(RunRecord(notes=notes))
    return Dataset(
        card=card,
        class_names=[name for member in members for name in member.class_names],
        wnids=wnids,
        splits={name: _join(members, name) for name in shared},
        record=record,
    )


def _join(members: Sequence[Dataset], name: str) -> Split:
    starts = np.cumsum([0, *(len(member.class_names) for member in members)])
    labels = [member.split(name).labels + start for member, start in zip(members, starts, strict=False)]
    return join_splits([member.split(name) for member in members], labels, [(member, name) for member in members])
