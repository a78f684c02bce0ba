"""Every ranking score as data: what it is called, what it needs, how it is called, and whether it needs the pool.

Listing scores imports none of them. To add one: its file, a line in `_CARDS`, a line in `cost.py`, its test.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from unseen.core.errors import DataError, UnknownNameError, UsageError
from unseen.core.records import MethodCard
from unseen.ranking.inputs import Tell

#: What a score may be computed from. "images" means that the network itself is trained.
Input = Literal["features", "labels", "source probabilities", "pool", "images"]


@dataclass(frozen=True)
class ScoreCard:
    """What is known of a score without importing it.

    Attributes:
        inputs: all that it is computed from.
        target: "module:function" of this room; empty for a score that trains the network itself.
        options: arguments that make this variant of the function.
        signs: of a score that is relative to the pool: its terms' signs in the sum; empty otherwise.
        seeded, tells: whether the function takes `seed` and `tell`.
        epochs: of a score that trains the network itself.
    """

    id: str
    name: str
    inputs: tuple[Input, ...]
    target: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
    signs: tuple[float, ...] = ()
    seeded: bool = False
    tells: bool = False
    epochs: int = 0
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


_FEATURES: tuple[Input, ...] = ("features", "labels")
_HEAD: tuple[Input, ...] = ("source probabilities", "labels")
_POOL: tuple[Input, ...] = ("features", "labels", "pool")
_IMAGES: tuple[Input, ...] = ("images", "labels")
_LINEAR, _MUTUAL = "linear:linear", "mutual_information:mutual_information"


def _neucrab(id: str, name: str, inputs: tuple[Input, ...], target: str = "", **rest: Any) -> ScoreCard:  # noqa: A002
    return ScoreCard(id, name, inputs, target, paper="neucrab", citation="Li et al., CVPR 2021", **rest)


_CARDS = (
    _neucrab("nleep", "N-LEEP", _FEATURES, "nleep:nleep", seeded=True, tells=True),
    _neucrab("leep", "LEEP", _HEAD, "leep:leep", notes="needs a class head"),
    _neucrab("linear-1", "Linear (1 epoch)", _FEATURES, _LINEAR, options={"epochs": 1}, seeded=True),
    _neucrab("linear-5", "Linear (5 epochs)", _FEATURES, _LINEAR, options={"epochs": 5}, seeded=True),
    _neucrab("linear", "Linear (converged)", _FEATURES, _LINEAR, seeded=True),
    _neucrab("finetune-1", "Fine-tune (1 epoch)", _IMAGES, epochs=1),
    _neucrab("finetune-5", "Fine-tune (5 epochs)", _IMAGES, epochs=5),
    _neucrab("mi-0.01", "MI (alpha=0.01)", _FEATURES, _MUTUAL, options={"alpha": 0.01}, seeded=True),
    _neucrab("mi-0.50", "MI (alpha=0.50)", _FEATURES, _MUTUAL, options={"alpha": 0.5}, seeded=True),
    _neucrab("mi-pca-0.01", "MI w/ PCA (alpha=0.01)", _FEATURES, _MUTUAL, seeded=True,
             options={"alpha": 0.01, "pca": True}),
    _neucrab("mi-pca-0.50", "MI w/ PCA (alpha=0.50)", _FEATURES, _MUTUAL, seeded=True,
             options={"alpha": 0.5, "pca": True}),
    ScoreCard("nce", "NCE", _HEAD, "nce:nce", citation="Tran et al., ICCV 2019", notes="needs a class head"),
    ScoreCard("hscore", "H-score", _FEATURES, "hscore:hscore", citation="Bao et al., ICIP 2019",
              notes="says nothing with fewer images than dimensions"),
    ScoreCard("hscore-regularised", "H-score, regularised", _FEATURES, "hscore:regularised_hscore",
              citation="Ibrahim et al., ECML-PKDD 2022"),
    ScoreCard("logme", "LogME", _FEATURES, "logme:logme", citation="You et al., ICML 2021"),
    ScoreCard("gbc", "GBC", _FEATURES, "gbc:gbc", citation="Pandy et al., CVPR 2022"),
    ScoreCard("transrate", "TransRate", _FEATURES, "transrate:transrate", citation="Huang et al., ICML 2022"),
    ScoreCard("parc", "PARC", _FEATURES, "parc:parc", seeded=True, tells=True, citation="Bolya et al., NeurIPS 2021"),
    ScoreCard("sfda", "SFDA", _FEATURES, "sfda:sfda", citation="Shao et al., ECCV 2022",
              notes="says nothing with far fewer images than dimensions"),
    ScoreCard("pactran", "PACTran-Gauss", _FEATURES, "pactran:pactran", citation="Ding et al., ECCV 2022"),
    ScoreCard("etran", "ETran", _POOL, "etran:etran_terms", signs=(1.0, 1.0), citation="Gholami et al., ICCV 2023",
              notes="relative to the pool"),
    ScoreCard("ncti", "NCTI", _POOL, "ncti:ncti_terms", signs=(1.0, 1.0, -1.0), citation="Wang et al., ICCV 2023",
              notes="relative to the pool"),
    ScoreCard("knn", "kNN, leave one out", _FEATURES, "knn:knn", notes="5 neighbours by cosine"),
)  # fmt: skip
SCORES: Mapping[str, ScoreCard] = {card.id: card for card in _CARDS}


def find_score(name: str) -> ScoreCard:
    """The score that `name` stands for."""
    if name not in SCORES:
        raise UnknownNameError("ranking score", name, SCORES, hint="List them with: unseen ls scores.")
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
    if card.needs_training:
        raise UsageError(f"{card.name} trains the network itself: it is computed from images, not from features.")
    first = probabilities if card.needs_head else features
    if first is None:
        needed = "source probabilities" if card.needs_head else "features"
        raise DataError(f"{card.name} needs {needed}, and none were given. A checkpoint without a class head has none.")
    module, _, name = card.target.partition(":")
    function = getattr(import_module(f"unseen.ranking.{module}"), name)
    extra: dict[str, Any] = dict(card.options)
    extra |= {"seed": seed} if card.seeded else {}
    extra |= {"tell": tell} if card.tells else {}
    value = function(first, labels, **extra)
    return tuple(float(v) for v in value) if isinstance(value, tuple) else (float(value),)


def combine_terms(card: ScoreCard, terms: Sequence[Sequence[float]]) -> list[float]:
    """One score per checkpoint from the terms of all of them; the pool matters only where the card says so."""
    if not card.pool_relative:
        return [float(np.asarray(one)[0]) for one in terms]
    from unseen.ranking.pooled import add_scaled

    return [float(value) for value in add_scaled(np.asarray(terms, dtype=np.float64), card.signs)]
