"""Find copies among images: within a set, between its splits, and against another set.

Implements: 1. images whose files are equal, by their content keys
            2. candidates: for every image the few others whose features are most similar (`near_pairs`)
            3. a candidate is confirmed if the details of the two pictures correlate: in grey, squashed to 48 x 48, less
               what varies slowly, unchanged or mirrored
Reason:     features find an edited copy among a million images, but also call two photographs of one thing
            similar; pictures distinguish these, but cannot be compared all with all. What varies slowly makes any two
            things on white paper similar; edges and texture do not
Misses:     crops, rotations, and edits that change the edges
Expected:   docs/evidence/concepts.md has recall and false pairs on edited copies of real photographs
Cost:       n m d multiplications; both sets of features are in memory as float32: 5 GB for a million rows of 1,280
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from typing import Any, Literal, Protocol

import numpy as np
from PIL import Image
from scipy.ndimage import uniform_filter
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from unseen.core.arrays import AnyArray, Float32Array, IntArray
from unseen.core.errors import DataError
from unseen.core.guard import read_patiently
from unseen.core.run_record import counted
from unseen.data.dataset import Split
from unseen.data.decode import decode_rgb

#: Least cosine of features for a candidate, and candidates per image.
THRESHOLD = 0.6
MOST = 5
#: Least correlation of the details of two copies.
SAME = 0.9

_SIDE, _SLOW = 48, 13
_CHUNK = 256


class Rows(Protocol):
    """An (n, d) array, or what a slice turns into one, such as features in the store."""

    @property
    def shape(self) -> tuple[int, ...]: ...

    def __getitem__(self, rows: slice, /) -> AnyArray: ...


@dataclass(frozen=True, eq=False)
class ImageSet:
    """Images that can be compared.

    Attributes:
        name: what to call the set.
        images: all images as one split.
        features: (n, d), row i of image i; two sets need the same model and layer.
        splits: of each image, such as "train" and "test"; empty if there is one.
    """

    name: str
    images: Split
    features: Rows
    splits: Sequence[str] = ()

    def __post_init__(self) -> None:
        for what, found in (("rows of features", self.features.shape[0]), ("splits", len(self.splits or self.names))):
            if found != len(self.names):
                raise DataError(f"{self.name!r} has {len(self.names)} images but {found} {what}. Give one per image.")

    @property
    def names(self) -> Sequence[str]:
        return self.images.names

    def split_of(self, image: int) -> str:
        """Return the split of an image; "" if there are none."""
        return self.splits[image] if self.splits else ""


@dataclass(frozen=True)
class DuplicatePair:
    """Two images that are one picture.

    Attributes:
        first: index in the set.
        second: index in the other set, or of a later image of the same one.
        kind: "exact" if the files are equal.
        similarity: cosine of the features; None if they were not compared.
        correlation: of the details of the pictures.
    """

    first: int
    second: int
    kind: Literal["exact", "near"] = "exact"
    similarity: float | None = None
    correlation: float = 1.0


@dataclass(frozen=True, eq=False)
class DuplicateReport:
    """The duplicates of a set.

    Attributes:
        images: the set that was searched.
        against: the other set, or None.
        pairs: exact copies first, then by correlation.
        drop: images to drop so that no picture is left twice, each with its copy that stays.
        compared: number of candidates whose pictures were compared.
        unreadable: images that could not be decoded, and why.
    """

    images: ImageSet
    against: ImageSet | None
    pairs: Sequence[DuplicatePair]
    drop: dict[int, int]
    compared: int = 0
    unreadable: dict[str, str] = field(default_factory=dict)

    @property
    def other(self) -> ImageSet:
        """Return the set of the second images."""
        return self.images if self.against is None else self.against

    @property
    def between_splits(self) -> dict[tuple[str, str], int]:
        """Return how many images of a split have a copy in another split, by (split, other split)."""
        pairs = [(pair.first, pair.second) for pair in self.pairs] if self.against is None else []
        split = self.images.split_of
        found = {(split(own), split(copy), own) for a, b in pairs for own, copy in ((a, b), (b, a))}
        return dict(sorted(Counter((own, other) for own, other, _ in found if own != other).items()))

    @property
    def summary(self) -> str:
        """Return a sentence, fit for a paper."""
        total, name = len(self.images.names), self.images.name
        kinds = Counter(pair.kind for pair in self.pairs)
        shown = " (" + ", ".join(f"{count:,} {kind}" for kind, count in sorted(kinds.items())) + ")" if kinds else ""
        if self.against is not None:
            copies = f"{len(self.drop):,} of {total:,} images of {name} ({len(self.drop) / max(total, 1):.2%})"
            return f"{copies} have a copy in {self.other.name}{shown}."
        if not self.pairs:
            return f"No image among the {total:,} of {name} is a copy of another one."
        crossing = [
            f"; {counted(count, f'{own} image has', f'{own} images have')} a copy in {other}"
            for (own, other), count in self.between_splits.items()
            if own != "train" and (other == "train" or own < other)
        ]
        copies = counted(len(self.drop), "is a copy of another", "are copies of others")
        return f"Of {total:,} images of {name}, {copies}{shown}{''.join(crossing)}."

    def drop_rows(self) -> list[tuple[str, str, str, str]]:
        """Return name and split of each image to drop, and of its copy that stays."""
        ends = ((self.images, image, self.other, copy) for image, copy in self.drop.items())
        return [(own.names[i], own.split_of(i), other.names[j], other.split_of(j)) for own, i, other, j in ends]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        pairs = [
            asdict(pair)
            | {"first": self.images.names[pair.first], "second": self.other.names[pair.second]}
            | {"first_split": self.images.split_of(pair.first), "second_split": self.other.split_of(pair.second)}
            for pair in self.pairs
        ]
        return {
            "format": "unseen-duplicates/2",
            "images": {"name": self.images.name, "count": len(self.images.names)},
            "against": self.against and {"name": self.against.name, "count": len(self.against.names)},
            "summary": self.summary,
            "between_splits": [[*splits, count] for splits, count in self.between_splits.items()],
            "compared": self.compared,
            "pairs": pairs,
            "drop": [self.images.names[image] for image in self.drop],
            "unreadable": self.unreadable,
        }


def find_duplicates(
    images: ImageSet,
    against: ImageSet | None = None,
    *,
    threshold: float = THRESHOLD,
    most: int = MOST,
    keep: Sequence[str] = ("test", "val", "train"),
    workers: int = 2,
    memory: int = 256 << 20,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> DuplicateReport:
    """Find the copies among images.

    Args:
        images: the set to search.
        against: another set, such as a model's training images. Then pairs between the two are searched, not within.
        threshold: least cosine of features for a candidate.
        most: candidates per image.
        keep: of copies in several splits, the one in the first of these stays; the others are to be dropped.
        workers: threads that decode and compare.
        memory: bytes for the cached pictures.
        progress: called with the number of compared candidates and of all.
    """
    other, unreadable = images if against is None else against, dict[str, str]()

    @lru_cache(maxsize=max(2 * _CHUNK, memory // (4 * _SIDE**2)))
    def read(source: ImageSet, image: int) -> Float32Array | None:
        try:
            return read_patiently(lambda: picture(source.images.open(image)), source.names[image])
        except (DataError, OSError) as error:
            unreadable[source.names[image]] = str(error)
            return None

    def confirm(row: tuple[int, int, float]) -> list[DuplicatePair]:
        first, second, similarity = row
        a, b = read(images, first), read(other, second)
        if a is None or b is None or (first in keys and keys[first] == other_keys.get(second)):
            return []
        value = max(float((a * turned).sum()) for turned in (b, b[:, ::-1], b[::-1], b[::-1, ::-1]))
        return [DuplicatePair(first, second, "near", similarity, value)] if value >= SAME else []

    with ThreadPoolExecutor(workers) as pool:
        keys = _content_keys(images, pool)
        other_keys = keys if against is None else _content_keys(against, pool)
        known = {key: image for image, key in reversed(other_keys.items())}
        ends = [(image, known[key]) for image, key in keys.items() if key in known]
        pairs = [DuplicatePair(*end) for end in ends] if against else [DuplicatePair(j, i) for i, j in ends if i != j]
        others = None if against is None else against.features
        # By the first image, so that its picture is cached for all comparisons with it.
        near = near_pairs(images.features, others, threshold=threshold, most=most)
        for start in range(0, len(near), _CHUNK):
            for found in pool.map(confirm, near[start : start + _CHUNK]):
                pairs += found
            progress(min(start + _CHUNK, len(near)), len(near))
    pairs.sort(key=lambda pair: (pair.kind, -pair.correlation, pair.first, pair.second))
    drop = {p.first: p.second for p in reversed(pairs)} if against else _to_drop(images, pairs, keep)
    return DuplicateReport(images, against, pairs, dict(sorted(drop.items())), len(near), unreadable)


def picture(image: Image.Image) -> Float32Array:
    """Return the details of an image as a (48, 48) array of length one; zeros for an image without details.

    Raises:
        DataError: the pixels cannot be decoded.
    """
    grey = decode_rgb(image, truncated="accept").convert("L").resize((_SIDE, _SIDE), Image.Resampling.BICUBIC)
    values = np.asarray(grey, np.float32)
    values = values - uniform_filter(values, size=_SLOW, mode="nearest")
    values -= values.mean()
    norm = float(np.linalg.norm(values))
    # Less than one grey level per pixel is the noise of an encoder.
    return values / norm if norm > _SIDE else np.zeros_like(values)


def _content_keys(images: ImageSet, pool: ThreadPoolExecutor) -> dict[int, bytes]:
    key = images.images.content_key
    return dict(enumerate(pool.map(key, range(len(images.names))))) if key is not None else {}


def copy_groups(images: ImageSet, pairs: Sequence[DuplicatePair]) -> list[int]:
    """Return a number per image that it shares with its copies in the same set."""
    ends = np.array([(pair.first, pair.second) for pair in pairs], np.int64).reshape(-1, 2)
    graph = coo_array((np.ones(len(ends)), ends.T), (len(images.names), len(images.names)))
    found: list[int] = connected_components(graph, directed=False)[1].tolist()
    return found


def _to_drop(images: ImageSet, pairs: Sequence[DuplicatePair], keep: Sequence[str]) -> dict[int, int]:
    """Return the images to drop, each with the copy that stays: the first in the order of the splits in `keep`."""
    group = copy_groups(images, pairs)
    place = {split: number for number, split in enumerate(keep)}
    stays: dict[int, int] = {}
    for image in sorted(range(len(group)), key=lambda image: place.get(images.split_of(image), len(keep))):
        stays.setdefault(group[image], image)
    return {image: stays[number] for image, number in enumerate(group) if stays[number] != image}


def near_pairs(
    rows: Rows, others: Rows | None = None, *, threshold: float, most: int = MOST
) -> list[tuple[int, int, float]]:
    """Return the pairs whose cosine is at least `threshold`, at most the `most` best of every row, each once.

    A pair is a row of the set, a row of the other set or a later row of the same one, and their cosine.

    Args:
        rows: features of a set.
        others: features of another set; None looks for pairs within the first.
        threshold: least cosine.
        most: how many pairs of a row are searched.
    """
    from sklearn.neighbors import NearestNeighbors

    within = others is None
    second = rows if others is None else others
    if len(rows.shape) != 2 or len(second.shape) != 2 or rows.shape[1] != second.shape[1]:
        raise DataError(
            f"features of shape {tuple(rows.shape)} and {tuple(second.shape)} cannot be compared: both need the same "
            "model, so that they have the same dimensions."
        )
    own, index = _unit(rows)
    other, other_index = (own, index) if others is None else _unit(others)
    count = min(most + within, len(other))
    if not len(own) or not len(other):
        return []
    distance, place = NearestNeighbors(n_neighbors=count, algorithm="brute").fit(other).kneighbors(own)
    similarity = np.minimum(1.0 - distance.ravel() ** 2 / 2, 1.0).astype(np.float32)
    ends = np.stack([np.repeat(index, count), other_index[place.ravel()]])
    chosen = similarity >= threshold
    if within:
        chosen &= ends[0] != ends[1]
        ends.sort(axis=0)
    # In the order of the first row, then of the second.
    pairs, once = np.unique(ends[:, chosen], axis=1, return_index=True)
    return list(zip(*pairs.tolist(), similarity[chosen][once].tolist(), strict=True))


def _unit(rows: Rows) -> tuple[Float32Array, IntArray]:
    """Return rows of length one and their numbers, without rows of zeros or with values that are not numbers."""
    block = np.array(rows[:], np.float32)
    with np.errstate(over="ignore", invalid="ignore"):
        norm = np.linalg.norm(block, axis=1)
    index = np.flatnonzero(np.isfinite(norm) & (norm > 0))
    return block[index] / norm[index, None], index
