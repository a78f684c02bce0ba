"""What a dataset is: classes, splits, labels and images that can be opened one by one.

Every source (folders, packaged sets, ImageNet, VTAB, procedural) builds these two records; nothing downstream
knows where the pixels come from.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from PIL import Image

from unseen.core.errors import DataError
from unseen.core.identity import digest
from unseen.core.records import DatasetCard

IntArray = npt.NDArray[np.int64]

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
        open: gives image `i`, not decoded yet where the format allows. It may raise `OSError` or `DataError` on a
            bad file: extraction records the reason and goes on. Called from many threads at once.
        fingerprint: digest of names, image contents and primary labels, in order. Where it is not given, it is
            computed from `content_key` when first read.
        content_key: gives bytes that change when the content of image `i` changes, such as a digest of its file.
        primary_labels: of the labelling that goes into the fingerprint; `labels`, unless this is a second labelling
            of the same images.
        whole: a larger set that these images are rows of, whose features serve all that is drawn from it.
        targets: where labels are more than classes, (n,) numbers or (n, labels) booleans; `labels` are strata then.
    """

    names: Sequence[str]
    labels: IntArray
    open: Callable[[int], Image.Image]
    fingerprint: _LazyFingerprint = _LazyFingerprint()
    content_key: Callable[[int], bytes] | None = None
    primary_labels: IntArray = field(default_factory=lambda: np.empty(0, np.int64))
    whole: Whole | None = None
    targets: npt.NDArray[Any] | None = None

    def __len__(self) -> int:
        return len(self.names)

    def __repr__(self) -> str:
        return f"<Split of {len(self)} images>"  # a million names, or hashing a million files, would help nobody

    def __post_init__(self) -> None:
        if len(self.labels) != len(self.names):
            raise DataError(f"a split has {len(self.names)} images but {len(self.labels)} labels")
        if self.targets is not None and len(self.targets) != len(self.names):
            raise DataError(f"a split has {len(self.names)} images but {len(self.targets)} targets")
        if len(self.primary_labels) != len(self.names):
            if len(self.primary_labels):
                raise DataError(f"a split has {len(self.names)} images but {len(self.primary_labels)} primary labels")
            object.__setattr__(self, "primary_labels", self.labels)
        if self.content_key is None and not self.__dict__["fingerprint"]:
            raise DataError("a split needs a fingerprint, or a content_key to compute one from")

    def take(self, indices: npt.ArrayLike, labels: IntArray | None = None) -> Split:
        """The split of the images at `indices`, in that order, with new `labels` where given (one per index)."""
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
            targets=None if self.targets is None else self.targets[chosen],
        )

    def places_of(self, drawn: Split) -> list[int] | None:
        """Index of each image of a draw of this split, or None where it cannot be told to be one.

        Found once: the contents of all images of the draw are read for it.
        """
        found: dict[str, list[int] | None] = self.__dict__.setdefault("places", {})
        if drawn.fingerprint not in found:
            found[drawn.fingerprint] = self._find_places(drawn)
        return found[drawn.fingerprint]

    def _find_places(self, drawn: Split) -> list[int] | None:
        known = {name: i for i, name in enumerate(self.names)}
        if len(known) < len(self) or any(name not in known for name in drawn.names):
            return None
        places = [known[name] for name in drawn.names]
        return places if self.take(places).fingerprint == drawn.fingerprint else None

    def join(self, other: Split) -> Split:
        """This split and another one after it."""
        cut = len(self)
        return Split(
            names=[*self.names, *other.names],
            labels=np.concatenate([self.labels, other.labels]),
            open=lambda i: self.open(i) if i < cut else other.open(i - cut),
            fingerprint=digest([self.fingerprint, other.fingerprint], length=32),
            targets=_joined_targets([self, other]),
        )

    def _compute_fingerprint(self) -> str:
        content_key = self.content_key
        assert content_key is not None

        def keys_of(chunk: range) -> list[bytes]:
            return [content_key(i) for i in chunk]

        chunks = [range(i, min(i + _CHUNK, len(self))) for i in range(0, len(self), _CHUNK)]
        total = hashlib.blake2b(digest_size=16)
        with ThreadPoolExecutor(_FINGERPRINT_THREADS) as pool:
            keys = chain.from_iterable(pool.map(keys_of, chunks))
            for name, label, key in zip(self.names, self.primary_labels.tolist(), keys, strict=True):
                # Lengths keep ("ab", "c") and ("a", "bc") apart; file names need not be valid UTF-8.
                encoded = name.encode("utf-8", "surrogateescape")
                total.update(b"%d:%d:%d:" % (len(encoded), len(key), label))
                total.update(encoded)
                total.update(key)
        return total.hexdigest()


def join_splits(parts: Sequence[Split]) -> Split:
    """Several splits, one after the other."""
    places = [(part, i) for part in parts for i in range(len(part))]
    keyed = all(part.content_key is not None for part in parts)

    def key(i: int) -> bytes:
        part, own = places[i]
        assert part.content_key is not None
        return part.content_key(own)

    return Split(
        names=[name for part in parts for name in part.names],
        labels=np.concatenate([part.labels for part in parts]),
        open=lambda i: places[i][0].open(places[i][1]),
        fingerprint="" if keyed else digest([part.fingerprint for part in parts], length=32),
        content_key=key if keyed else None,
        targets=_joined_targets(parts),
    )


def _joined_targets(parts: Sequence[Split]) -> npt.NDArray[Any] | None:
    found = [part.targets for part in parts if part.targets is not None]
    return np.concatenate(found) if found and len(found) == len(parts) else None


@dataclass(frozen=True, eq=False)
class Whole:
    """What a split was drawn from: the split `ALL` of a dataset, and the place in it of each image."""

    dataset: Dataset
    rows: IntArray


#: The one split of images that nobody has divided yet.
ALL = "all"


@dataclass(frozen=True, eq=False)
class Dataset:
    """A dataset that is ready to be read.

    Attributes:
        class_names: one per class index, as a person would write it.
        wnids: WordNet id per class, or None where it is not known; empty where none is.
        splits: by name: "train", "test", and "val" where the dataset brings its own.
        features_id: the dataset id that features are stored under. Two labellings of the same images share it, so
            that the images go through a model once.
        target: what labels say of images; where they are more than classes, splits have targets.
    """

    card: DatasetCard
    class_names: Sequence[str]
    splits: Mapping[str, Split]
    wnids: Sequence[str | None] = field(default=())
    features_id: str = ""
    target: Target = CLASS

    @property
    def id(self) -> str:
        return self.card.id

    @cached_property
    def revision(self) -> str:
        """Digest of all that a benchmark may take from here: images, labels, class names and ids, side information."""
        splits = {name: [part.fingerprint, digest(part.labels.tolist())] for name, part in self.splits.items()}
        targets = {name: part.targets.tolist() for name, part in self.splits.items() if part.targets is not None}
        more = [self.target, targets] if targets else []
        return digest([splits, list(self.class_names), list(self.wnids), self.side_information(), *more], length=12)

    def side_information(self) -> Any:
        """What a dataset of another kind brings beside images and classes, as JSON values."""
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
