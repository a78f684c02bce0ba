"""Cards of all ranking scores: inputs, cost and citation of each score, and functions to find and compute them.

A score is one file in `scores/`, and one entry in `scores.toml`. An installed package registers its own `ScoreCard`s
under the entry point group `unseen.scores`. A score is imported when it is first used.

Costs are floating-point operations, computed from shapes, without the forward pass. A multiply-add counts as two
operations. Only the leading terms count: matrix products, decompositions and iterations.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from importlib.resources import files
from typing import Any, Literal

import numpy.typing as npt

from unseen.core.errors import DataError, UnknownNameError, UsageError
from unseen.core.records import MethodCard
from unseen.core.registry import Registry
from unseen.ranking.inputs import Tell

#: What a score may be computed from. "images" means that the score trains the network itself.
Input = Literal["features", "labels", "source probabilities", "images"]

FEATURES: tuple[Input, ...] = ("features", "labels")

#: Tridiagonalisation, QR iterations and back-transformation of a symmetric m x m matrix, in units of m^3.
EIGEN = 9.0
#: Share of the dimensions that hold 80 % of the energy, measured with the packaged networks on photographs.
REDUCED = 0.1
#: Typical number of L-BFGS steps of a softmax classifier.
LBFGS_STEPS = 60


@dataclass(frozen=True)
class Sizes:
    """Sizes of the input of a score: n images, d dimensions, c classes, z classes of the checkpoint's own head."""

    n: float
    d: float
    c: float
    z: float = 1000.0

    @property
    def m(self) -> float:
        """The smaller of images and dimensions."""
        return min(self.n, self.d)

    @property
    def q(self) -> float:
        """Dimensions that remain after PCA."""
        return max(1.0, REDUCED * self.d)


@dataclass(frozen=True)
class ScoreCard:
    """A score.

    Attributes:
        inputs: all inputs of the score.
        compute: function of (features or probabilities, labels, ...) that returns the score, higher is better; None for
            a score that trains the network itself.
        cost: floating-point operations by the sizes of the input, without the forward pass.
        options: arguments that define this variant of the function.
        seeded, tells: whether the function takes `seed` and `tell`.
        epochs: of a score that trains the network itself.
        targets: the score for values and several labels: function of features and their targets, (n,) or (n, t); None
            for a score that needs classes.
        version: raised whenever the same features get another score; it is part of the identity of a result.
    """

    id: str
    name: str
    inputs: tuple[Input, ...] = FEATURES
    compute: Callable[..., Any] | None = None
    cost: Callable[[Sizes], float] | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    seeded: bool = False
    tells: bool = False
    epochs: int = 0
    targets: Callable[..., float] | None = None
    version: int = 1
    paper: str = ""
    citation: str = ""
    notes: str = ""

    @property
    def needs_head(self) -> bool:
        """Whether the score needs the class probabilities of the checkpoint's own head."""
        return "source probabilities" in self.inputs

    @property
    def needs_training(self) -> bool:
        """Whether the score trains the network itself, so that features do not suffice."""
        return "images" in self.inputs

    def method_card(self) -> MethodCard:
        """Return the card that `unseen ls scores` shows."""
        needs = f"from {', '.join(self.inputs)}"
        return MethodCard(
            id=self.id,
            name=self.name,
            group="ranking score",
            paper=self.paper,
            citation=self.citation,
            notes=f"{needs}; {self.notes}" if self.notes else needs,
        )


#: Fields of the cards of this package.
_TABLE: dict[str, dict[str, Any]] = tomllib.loads((files(__package__) / "scores.toml").read_text(encoding="utf-8"))


def _as_card(name: str, found: Any) -> ScoreCard:
    """Return the card of what is registered: a card, or the function of a score of this package."""
    if callable(found) and name in _TABLE:
        row, module = _TABLE[name], sys.modules[found.__module__]
        cost = partial(getattr(module, row.get("cost", "cost")), **row.get("options", {}))
        found = _card(name, compute=found, cost=cost, targets=getattr(module, row.get("targets", ""), None))
    if not isinstance(found, ScoreCard):
        raise TypeError(f"{found!r} is no ScoreCard")
    if found.id != name:
        raise TypeError(f"its card has the id {found.id!r}")
    return found


def _card(name: str, **loaded: Any) -> ScoreCard:
    inputs = tuple(_TABLE[name].get("inputs", FEATURES))
    return ScoreCard(name, **_TABLE[name] | {"inputs": inputs} | loaded)


REGISTRY: Registry[ScoreCard] = Registry("ranking score", "unseen.scores", make=_as_card)
for _name, _row in _TABLE.items():
    REGISTRY.add(_name, _row.get("compute") or _card(_name))


class _Scores(Mapping[str, ScoreCard]):
    """The registry as a mapping, without plug-ins that cannot be loaded; `score_cards` lists those with the reason."""

    def __getitem__(self, name: str) -> ScoreCard:
        if name not in REGISTRY:
            raise KeyError(name)
        return REGISTRY.get(name)

    def __iter__(self) -> Iterator[str]:
        return (name for name, found in REGISTRY.entries() if isinstance(found, ScoreCard))

    def __len__(self) -> int:
        return sum(1 for _ in self)


SCORES: Mapping[str, ScoreCard] = _Scores()


def score_cards() -> list[MethodCard]:
    """Return the cards that `unseen ls scores` shows; a plug-in that cannot be loaded is listed with the reason."""
    return [
        found.method_card()
        if isinstance(found, ScoreCard)
        else MethodCard(id=name, group="plug-in", notes=getattr(found, "reason", str(found)))
        for name, found in REGISTRY.entries()
    ]


def find_score(name: str) -> ScoreCard:
    """Return the card of a score; nleep-pca50-2x is N-LEEP with half the energy and two Gaussians per class."""
    if name in SCORES:
        return SCORES[name]
    if (found := variant_of(name)) is None:
        raise UnknownNameError("ranking score", name, REGISTRY, hint="List them with: unseen ls scores.")
    energy, count = found
    options = {"energy": energy / 100, "components_per_class": count}
    title = f"N-LEEP, PCA {energy} %, {count} per class"
    return replace(SCORES["nleep"], id=name, name=title, options=options, cost=None, notes="")


def variant_of(name: str) -> tuple[int, int] | None:
    """Return the percentage of PCA energy and the Gaussians per class of a cell of NeuCRaB's Fig. 2; None otherwise."""
    found = re.fullmatch(r"nleep-pca([1-9]\d?)-([1-9]\d?)x", name)
    return None if found is None else (int(found[1]), int(found[2]))


def score_value(
    card: ScoreCard,
    labels: npt.ArrayLike,
    *,
    features: npt.ArrayLike | None = None,
    probabilities: npt.ArrayLike | None = None,
    seed: int = 0,
    tell: Tell | None = None,
) -> float:
    """Return the score of one checkpoint.

    Args:
        features: (n, d), for scores that need them.
        probabilities: (n, z) of the checkpoint's head, for scores that need them.
        seed: for scores that use random numbers.
        tell: called with each remark on the score.
    """
    if card.compute is None:
        raise UsageError(f"{card.name} trains the network itself: it is computed from images, not from features.")
    needed, first = ("source probabilities", probabilities) if card.needs_head else ("features", features)
    if first is None:
        raise DataError(f"{card.name} needs {needed}, and none were given. A checkpoint without a class head has none.")
    options = dict(card.options) | ({"seed": seed} if card.seeded else {}) | ({"tell": tell} if card.tells else {})
    return float(card.compute(first, labels, **options))


def score_flops(
    score: str | ScoreCard, images: int, dimensions: int, classes: int, source_classes: int = 1000
) -> float:
    """Return the operations of one score on stored features; 0 for a score that trains the network itself."""
    card = find_score(score) if isinstance(score, str) else score
    if card.needs_training or card.cost is None:
        return 0.0
    return card.cost(Sizes(float(images), float(dimensions), float(classes), float(source_classes)))


def finetune_flops(forward: float, images: int, epochs: float) -> float:
    """Return the operations of fine-tuning: a backward pass costs twice the forward pass."""
    return 3.0 * forward * images * epochs


#: Epochs after which the paper's linear classifier has converged, by its own tables: (5.33 - 4.95) x 10^4 GFLOPs more
#: than after one, at 50 each.
_CONVERGED = 77
_EPOCHS = {"linear-1": 1, "linear-5": 5, "linear": _CONVERGED, "finetune-1": 1, "finetune-5": 5}


def paper_flops(score: str, sizes: Sizes, forward: float, test: float) -> float | None:
    """Return the operations as NeuCRaB's tables seem to count them, without the forward pass over training images.

    None for a score that the paper does not have. Inferred from its tables: a score that is evaluated on test images
    includes a forward pass over them; training a network takes three passes per epoch, less the shared one; a head
    takes 6 n d c per epoch; LEEP is its head alone, and N-LEEP the densities of its Gaussians, without PCA and without
    fitting them. The paper does not state what MI trains, so our own count is used.

    Args:
        forward: operations of the network per image.
        test: images that a score is evaluated on.
    """
    n, d, c, z = sizes.n, sizes.d, sizes.c, sizes.z
    if score in ("nleep", "leep"):
        return 2 * n * 5 * c * REDUCED * d if score == "nleep" else 2 * n * d * z
    if score.startswith("mi-"):
        return forward * test + score_flops(score, int(n), int(d), int(c), int(z))
    if score not in _EPOCHS:
        return None
    if score.startswith("linear"):
        return forward * test + 6 * n * d * c * _EPOCHS[score]
    return forward * test + finetune_flops(forward, int(n), _EPOCHS[score]) - forward * n


def gram_flops(s: Sizes) -> float:
    """Return the operations of the smaller Gram matrix, its eigenvectors, and the rows in their basis."""
    return 4 * s.n * s.d * s.m + EIGEN * s.m**3
