"""Every ranking score by its name: what it is called, what it needs, what it costs, and whether it needs the pool.

A score is one file in `scores/`, with its `ScoreCard`, and one line below; an installed package names its own under the
entry point group `unseen.scores`. A score is imported when it is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from unseen.core.errors import DataError, UnknownNameError, UnseenError, UsageError
from unseen.core.records import MethodCard
from unseen.core.registry import PluginError, Registry
from unseen.ranking.inputs import Tell

if TYPE_CHECKING:
    from unseen.ranking.cost import Sizes

#: What a score may be computed from. "images" means that the network itself is trained.
Input = Literal["features", "labels", "source probabilities", "pool", "images"]

FEATURES: tuple[Input, ...] = ("features", "labels")
HEAD: tuple[Input, ...] = ("source probabilities", "labels")
POOL: tuple[Input, ...] = ("features", "labels", "pool")
IMAGES: tuple[Input, ...] = ("images", "labels")


@dataclass(frozen=True)
class ScoreCard:
    """A score.

    Attributes:
        inputs: all that it is computed from.
        compute: (features or probabilities, labels, ...) to the score, higher is better, or to the terms of a score
            that is relative to the pool; None for a score that trains the network itself.
        cost: floating-point operations by the sizes of the input, the forward pass apart.
        options: arguments that make this variant of the function.
        signs: of a score that is relative to the pool: its terms' signs in the sum; empty otherwise.
        seeded, tells: whether the function takes `seed` and `tell`.
        epochs: of a score that trains the network itself.
        parts: of a score that is a mean over images: the same arguments to what each image says, (n,), NaN for images
            that take no part. Half-samples of the images are then means of parts, and cost nothing.
        version: raised whenever the same features get another score; it is part of what a result is.
    """

    id: str
    name: str
    inputs: tuple[Input, ...]
    compute: Callable[..., Any] | None = None
    cost: Callable[[Sizes], float] | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    signs: tuple[float, ...] = ()
    seeded: bool = False
    tells: bool = False
    epochs: int = 0
    parts: Callable[..., npt.NDArray[np.float64]] | None = None
    version: int = 1
    paper: str = ""
    citation: str = ""
    notes: str = ""

    @property
    def pool_relative(self) -> bool:
        """Whether another candidate changes this one's score."""
        return bool(self.signs)

    @property
    def needs_head(self) -> bool:
        """Whether it needs the class probabilities of the checkpoint's own head."""
        return "source probabilities" in self.inputs

    @property
    def needs_training(self) -> bool:
        """Whether the network itself is trained, so that features are not enough."""
        return "images" in self.inputs

    def method_card(self) -> MethodCard:
        """As `unseen ls scores` shows it."""
        needs = f"from {', '.join(self.inputs)}"
        return MethodCard(
            id=self.id,
            name=self.name,
            group="ranking score",
            paper=self.paper,
            citation=self.citation,
            notes=f"{needs}; {self.notes}" if self.notes else needs,
        )


def _as_card(name: str, found: Any) -> ScoreCard:
    if not isinstance(found, ScoreCard):
        raise TypeError(f"{found!r} is no ScoreCard")
    if found.id != name:
        raise TypeError(f"its card has the id {found.id!r}")
    return found


REGISTRY: Registry[ScoreCard] = Registry("ranking score", "unseen.scores", make=_as_card)
#: By its name only: what an answer speaks in stands on the probes, which scores know nothing of.
REGISTRY.add("probe", "unseen.benchmarks.rank.expected:CARD")
REGISTRY.add("nleep", "unseen.ranking.scores.nleep:CARD")
REGISTRY.add("leep", "unseen.ranking.scores.leep:CARD")
REGISTRY.add("linear-1", "unseen.ranking.scores.linear:ONE_EPOCH")
REGISTRY.add("linear-5", "unseen.ranking.scores.linear:FIVE_EPOCHS")
REGISTRY.add("linear", "unseen.ranking.scores.linear:CONVERGED")
REGISTRY.add("finetune-1", "unseen.ranking.scores.finetune:ONE_EPOCH")
REGISTRY.add("finetune-5", "unseen.ranking.scores.finetune:FIVE_EPOCHS")
REGISTRY.add("mi-0.01", "unseen.ranking.scores.mutual_information:LOW_ALPHA")
REGISTRY.add("mi-0.50", "unseen.ranking.scores.mutual_information:HIGH_ALPHA")
REGISTRY.add("mi-pca-0.01", "unseen.ranking.scores.mutual_information:PCA_LOW_ALPHA")
REGISTRY.add("mi-pca-0.50", "unseen.ranking.scores.mutual_information:PCA_HIGH_ALPHA")
REGISTRY.add("nce", "unseen.ranking.scores.nce:CARD")
REGISTRY.add("hscore", "unseen.ranking.scores.hscore:CARD")
REGISTRY.add("hscore-regularised", "unseen.ranking.scores.hscore:REGULARISED")
REGISTRY.add("logme", "unseen.ranking.scores.logme:CARD")
REGISTRY.add("gbc", "unseen.ranking.scores.gbc:CARD")
REGISTRY.add("transrate", "unseen.ranking.scores.transrate:CARD")
REGISTRY.add("parc", "unseen.ranking.scores.parc:CARD")
REGISTRY.add("sfda", "unseen.ranking.scores.sfda:CARD")
REGISTRY.add("pactran", "unseen.ranking.scores.pactran:CARD")
REGISTRY.add("etran", "unseen.ranking.scores.etran:CARD")
REGISTRY.add("ncti", "unseen.ranking.scores.ncti:CARD")
REGISTRY.add("knn", "unseen.ranking.scores.knn:CARD")


class _Scores(Mapping[str, ScoreCard]):
    """The registry as a mapping. A plug-in that cannot be loaded is not in it; `score_cards` says why."""

    def __getitem__(self, name: str) -> ScoreCard:
        if name not in REGISTRY:
            raise KeyError(name)
        return REGISTRY.get(name)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name in REGISTRY

    def __iter__(self) -> Iterator[str]:
        return (name for name, found in REGISTRY.entries() if isinstance(found, ScoreCard))

    def __len__(self) -> int:
        return sum(1 for _ in self)


SCORES: Mapping[str, ScoreCard] = _Scores()


def score_cards() -> list[MethodCard]:
    """Every score, as `unseen ls scores` shows it; a plug-in that cannot be loaded says so."""
    return [
        found.method_card() if isinstance(found, ScoreCard) else _broken(name, found)
        for name, found in REGISTRY.entries()
    ]


def _broken(name: str, error: UnseenError) -> MethodCard:
    return MethodCard(id=name, group="plug-in", notes=error.reason if isinstance(error, PluginError) else str(error))


def find_score(name: str) -> ScoreCard:
    """The score that `name` stands for; nleep-pca50-2x is N-LEEP with half the energy and two Gaussians per class."""
    if name not in SCORES:
        from unseen.ranking.scores.nleep import variant

        if (card := variant(name)) is not None:
            return card
        raise UnknownNameError("ranking score", name, REGISTRY, hint="List them with: unseen ls scores.")
    return SCORES[name]


def score_terms(
    card: ScoreCard,
    labels: npt.ArrayLike,
    *,
    features: npt.ArrayLike | None = None,
    probabilities: npt.ArrayLike | None = None,
    seed: int = 0,
    tell: Tell | None = None,
) -> tuple[float, ...]:
    """The terms of one checkpoint's score: the score itself, or what `combine_terms` scales over the pool.

    Args:
        features: (n, d), for scores that need them.
        probabilities: (n, z) of the checkpoint's head, for scores that need them.
        seed: for scores that draw.
        tell: told what a reader of the score should know.
    """
    if card.needs_training or card.compute is None:
        raise UsageError(f"{card.name} trains the network itself: it is computed from images, not from features.")
    first = probabilities if card.needs_head else features
    if first is None:
        needed = "source probabilities" if card.needs_head else "features"
        raise DataError(f"{card.name} needs {needed}, and none were given. A checkpoint without a class head has none.")
    extra: dict[str, Any] = dict(card.options)
    extra |= {"seed": seed} if card.seeded else {}
    extra |= {"tell": tell} if card.tells else {}
    value = card.compute(first, labels, **extra)
    return tuple(float(v) for v in value) if isinstance(value, tuple) else (float(value),)


def combine_terms(card: ScoreCard, terms: Sequence[Sequence[float]]) -> list[float]:
    """One score per checkpoint from the terms of all of them; the pool matters only where the card says so."""
    if not card.pool_relative:
        return [float(np.asarray(one)[0]) for one in terms]
    from unseen.ranking.pooled import add_scaled

    return [float(value) for value in add_scaled(np.asarray(terms, dtype=np.float64), card.signs)]
