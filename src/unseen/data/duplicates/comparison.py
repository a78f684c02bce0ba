"""Whether two images are one picture, and what was done to it: from their signatures, the cheap tests first.

Implements: equal pixels, then the perceptual hash with the pixels laid over each other to confirm it (in the four
            turns), then a search for the one as a part of the other (as it is, and mirrored)
Expected:   docs/concepts.md has recall and precision on planted copies of real photographs
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from unseen.data.duplicates.alignment import coarse_part, edges, refined, whole_agreement
from unseen.data.duplicates.signature import TURNS, Signature, hash_distance

#: Bits of the perceptual hash that may differ between two copies of a picture.
MOST_BITS = 12
#: Least correlation of the details of two copies laid over each other, and of a part with the place that it came from.
WHOLE = 0.9
PART = 0.88
# Which may be a part of which.
_WAYS = (("a", "b"), ("b", "a"), ("a", "mirrored"), ("mirrored", "a"))


class Kind(StrEnum):
    """What was done to a picture to make the other one of it; or that only features say so."""

    EXACT = "exact"
    REENCODED = "re-encoded"
    RESCALED = "rescaled"
    FLIPPED = "flipped"
    CROPPED = "cropped"
    UNCONFIRMED = "not confirmed"


@dataclass(frozen=True)
class Agreement:
    """Two images are one picture.

    Attributes:
        kind: what was done to it.
        correlation: of the details of the two; 1 for equal pixels.
    """

    kind: Kind
    correlation: float


def compare(a: Signature, b: Signature, *, parts: bool = True) -> Agreement | None:
    """How two images are one picture, or None if they are not.

    Args:
        parts: also look for the one as a part of the other, which costs a hundred times as much.
    """
    if a.digest == b.digest:
        return Agreement(Kind.EXACT, 1.0)
    return _as_wholes(a, b) or (_as_parts(a, b) if parts else None)


def _as_wholes(a: Signature, b: Signature) -> Agreement | None:
    best: Agreement | None = None
    for turn, (down, across) in enumerate(TURNS):
        if hash_distance(a.hashes[0], b.hashes[turn]) > MOST_BITS:
            continue
        value = whole_agreement(a.picture, b.picture[::down, ::across].copy())
        if value >= WHOLE and (best is None or value > best.correlation):
            upright = Kind.REENCODED if a.size == b.size else Kind.RESCALED
            best = Agreement(upright if turn == 0 else Kind.FLIPPED, value)
    return best


def _as_parts(a: Signature, b: Signature) -> Agreement | None:
    mirrored = b.picture[:, ::-1].copy()
    pictures = {"a": a.picture, "b": b.picture, "mirrored": mirrored}
    outlines = {"a": edges(a.picture), "b": edges(b.picture)}
    outlines["mirrored"] = outlines["b"][:, ::-1].copy()
    found = {(part, whole): coarse_part(outlines[part], outlines[whole]) for part, whole in _WAYS}
    # Only the most promising way is worth a closer look.
    part, whole = max(_WAYS, key=lambda way: found[way].agreement)
    agreement = refined(pictures[part], pictures[whole], found[part, whole]).agreement
    return Agreement(Kind.CROPPED, agreement) if agreement >= PART else None
