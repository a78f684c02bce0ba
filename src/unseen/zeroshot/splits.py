"""Which classes are unseen, for any dataset with class names: drawn, from ImageNet's zero-shot splits, or from a file.

Paper:      Xian et al., TPAMI 2018, section 5.2 [P]
Implements: PS: test classes are drawn among those that the leak audit clears, so that no feature can have seen them;
            SS: drawn among all classes, as earlier work did; the ImageNet splits of [P] (2-hops, 3-hops, most-500 ...
            all) with ImageNet-1K as seen classes; `file:PATH`, a list of unseen classes by name or WordNet id
Differs:    [P] fixed its splits once; these are drawn by a seed from the names, the same on every machine
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from unseen.concepts import (
    Audit,
    Relation,
    audit_classes,
    imagenet_1k,
    imagenet_zeroshot_split,
    load_wordnet,
    read_split,
)
from unseen.core.errors import DataError, UnknownNameError
from unseen.data.subset import draw_order
from unseen.zeroshot.method import IntArray
from unseen.zeroshot.problem import Fold

IMAGENET_SPLITS = (
    "2-hops",
    "3-hops",
    *(f"{kind}-{size}" for kind in ("most", "least") for size in ("500", "1k", "5k")),
    "all",
)
SPLITS = ("PS", "SS", *IMAGENET_SPLITS)
_FOLDS = 3


@dataclass(frozen=True, eq=False)
class ClassSplit:
    """Seen and unseen classes by index, and folds of the seen ones."""

    seen: IntArray
    unseen: IntArray
    folds: tuple[Fold, ...]


def split_classes(
    kind: str,
    names: Sequence[str],
    wnids: Sequence[str | None],
    *,
    counts: Sequence[int],
    share: float = 0.2,
    seed: int = 0,
) -> ClassSplit:
    """Divide the classes of a dataset.

    Args:
        kind: one of `SPLITS`, or "file:PATH".
        names, wnids: of the classes.
        counts: images per class, which the ImageNet splits rank by.
        share: of the classes that are unseen, in PS and SS.
        seed: of what is drawn.
    """
    keys = [wnid or name for wnid, name in zip(wnids or [None] * len(names), names, strict=True)]
    if kind in ("PS", "SS"):
        unseen = _drawn(kind, names, wnids, keys, share, seed)
        seen = np.setdiff1d(np.arange(len(names)), unseen)
    elif kind in IMAGENET_SPLITS:
        seen, unseen = _imagenet(kind, keys, dict(zip(keys, counts, strict=True)))
    elif kind.startswith("file:"):
        wanted = set(read_split(Path(kind.removeprefix("file:"))))
        unseen = np.asarray([i for i, (n, k) in enumerate(zip(names, keys, strict=True)) if wanted & {n, k}], np.int64)
        seen = np.setdiff1d(np.arange(len(names)), unseen)
    else:
        raise UnknownNameError("zero-shot split", kind, SPLITS, hint="A list of unseen classes is file:PATH.")
    if len(unseen) < 2 or len(seen) < 4:
        raise DataError(f"split {kind!r} leaves {len(seen)} seen and {len(unseen)} unseen classes; 4 and 2 are needed.")
    return ClassSplit(seen, unseen, draw_folds(seen, [keys[i] for i in seen], seed))


def draw_folds(seen: IntArray, keys: Sequence[str], seed: int, *, share: float = 0.25) -> tuple[Fold, ...]:
    """Three folds of the seen classes, with disjoint validation classes."""
    count = max(2, min(round(share * len(seen)), len(seen) // _FOLDS))
    order = draw_order(keys, seed)
    folds = []
    for number in range(_FOLDS):
        val = np.sort(seen[order[number * count : (number + 1) * count]])
        if len(val) >= 2:
            folds.append(Fold(np.setdiff1d(seen, val), val))
    return tuple(folds)


def audit_unseen(names: Sequence[str], wnids: Sequence[str | None], unseen: IntArray) -> Audit:
    """Which test classes a model trained on ImageNet-1K has seen: the line that is printed with each run."""
    own = [wnids[i] for i in unseen] if wnids else ()
    return audit_classes(
        [names[i] for i in unseen], imagenet_1k(), wnids=own, seen_name="ImageNet-1K", noun="test classes"
    )


def _drawn(
    kind: str, names: Sequence[str], wnids: Sequence[str | None], keys: Sequence[str], share: float, seed: int
) -> IntArray:
    wanted = round(share * len(names))
    order = draw_order(keys, seed)
    if kind == "PS":
        audit = audit_unseen(names, wnids, np.arange(len(names)))
        clear = {i for i, row in enumerate(audit.rows) if row.relation is Relation.UNSEEN and not row.flagged}
        order = np.asarray([i for i in order if int(i) in clear], np.int64)
        if len(order) < wanted:
            raise DataError(
                f"PS needs {wanted} classes that no model trained on ImageNet-1K has seen, and the audit clears "
                f"{len(order)}. Ask for fewer (share), or for SS, whose test classes may have been seen."
            )
    return np.sort(order[:wanted])


def _imagenet(kind: str, keys: Sequence[str], counts: Mapping[str, int]) -> tuple[IntArray, IntArray]:
    wordnet = load_wordnet()
    known = {key: count for key, count in counts.items() if key in wordnet}
    if len(known) < len(keys):
        raise DataError(f"split {kind!r} goes by WordNet ids; {len(keys) - len(known)} of the classes have none.")
    training = [wnid for wnid in imagenet_1k() if wnid in known]
    if len(training) < 4:
        raise DataError(f"split {kind!r} trains on ImageNet-1K, of which the dataset has {len(training)} classes.")
    place = {key: i for i, key in enumerate(keys)}
    unseen = imagenet_zeroshot_split(kind, wordnet, known, list(imagenet_1k()))
    return (
        np.asarray(sorted(place[wnid] for wnid in training), np.int64),
        np.asarray(sorted(place[wnid] for wnid in unseen if wnid in place), np.int64),
    )
