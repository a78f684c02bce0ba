"""What every score promises: order, names and (where it should) rotation do not matter; better features rank higher."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

from unseen.core.errors import DataError, UnknownNameError, UsageError
from unseen.ranking import SCORES, ScoreCard, find_score, logme, score_flops, score_value
from unseen.ranking.inputs import one_thread_if_small

FROM_FEATURES = [card for card in SCORES.values() if not card.needs_training]
#: They draw rows or batches by number, so that another order is another draw.
DRAWING = ("probe", "linear-1", "linear-5", "linear", "mi-0.01", "mi-0.50", "mi-pca-0.01", "mi-pca-0.50", "nleep")
#: Not a function of distances between rows alone: dimensions have a meaning of their own.
NOT_ROTATION_INVARIANT = ("parc", "linear-1", "linear-5", "linear", *DRAWING, "leep", "nce")


def ids(cards: list[ScoreCard]) -> list[str]:
    return [card.id for card in cards]


def value(card: ScoreCard, features: np.ndarray, labels: np.ndarray, head: Callable[..., np.ndarray]) -> float:
    return score_value(card, labels, features=features, probabilities=head(features) if card.needs_head else None)


@pytest.mark.parametrize("card", FROM_FEATURES, ids=ids(FROM_FEATURES))
def test_separable_beats_overlapping_beats_shuffled(
    card: ScoreCard, cloud: Callable[..., tuple], head: Callable[..., np.ndarray]
) -> None:
    separable, labels = cloud(2.5, images=600, seed=2)
    overlapping, same = cloud(0.8, images=600, seed=2)
    assert (labels == same).all()
    shuffled = overlapping[np.random.default_rng(0).permutation(600)]
    best, middle, worst = (value(card, rows, labels, head) for rows in (separable, overlapping, shuffled))
    assert best > middle > worst


@pytest.mark.parametrize("card", FROM_FEATURES, ids=ids(FROM_FEATURES))
def test_class_names_do_not_matter(card: ScoreCard, small: tuple, head: Callable[..., np.ndarray]) -> None:
    features, labels = small
    named = np.array(["ape", "bee", "cat"])[labels]
    assert value(card, features, named, head) == pytest.approx(value(card, features, labels, head), abs=1e-9)
    if card.id not in DRAWING:
        swapped = np.array([2, 0, 1])[labels]
        assert value(card, features, swapped, head) == pytest.approx(value(card, features, labels, head), abs=1e-6)


@pytest.mark.parametrize("card", FROM_FEATURES, ids=ids(FROM_FEATURES))
def test_order_does_not_matter(card: ScoreCard, cloud: Callable[..., tuple], head: Callable[..., np.ndarray]) -> None:
    features, labels = cloud(0.9, images=400)
    order = np.random.default_rng(1).permutation(len(labels))
    # Scores that draw at random draw other rows from another order: they agree within their own noise only.
    noise = 0.15 if card.id in DRAWING else 1e-6
    assert value(card, features[order], labels[order], head) == pytest.approx(
        value(card, features, labels, head), abs=noise
    )


@pytest.mark.parametrize(
    "card",
    [card for card in FROM_FEATURES if card.id not in NOT_ROTATION_INVARIANT],
    ids=lambda card: card.id,
)
def test_rotation_does_not_matter(card: ScoreCard, small: tuple, head: Callable[..., np.ndarray]) -> None:
    features, labels = small
    rotation, _ = np.linalg.qr(np.random.default_rng(0).normal(size=(5, 5)))
    assert value(card, features @ rotation, labels, head) == pytest.approx(
        value(card, features, labels, head), abs=1e-6
    )


@pytest.mark.parametrize("card", FROM_FEATURES, ids=ids(FROM_FEATURES))
def test_input_is_left_as_it_was(card: ScoreCard, small: tuple, head: Callable[..., np.ndarray]) -> None:
    features, labels = small[0].copy(), small[1].copy()
    features.flags.writeable = labels.flags.writeable = False
    first = value(card, features, labels, head)
    assert first == value(card, features, labels, head)
    assert np.isfinite(first)


@pytest.mark.parametrize("card", FROM_FEATURES, ids=ids(FROM_FEATURES))
def test_invalid_input_is_refused_with_a_reason(card: ScoreCard, small: tuple, head: Callable[..., np.ndarray]) -> None:
    features, labels = small
    with pytest.raises(DataError, match="at least two classes"):
        value(card, features, np.zeros(len(labels)), head)
    with pytest.raises(DataError, match="more images than classes"):
        value(card, features[:9], np.arange(9), head)
    with pytest.raises(DataError, match="one label per row"):
        value(card, features, labels[:-1], head)
    if not card.needs_head:
        with pytest.raises(DataError, match="constant"):
            value(card, np.ones_like(features), labels, head)
        with pytest.raises(DataError, match="NaN"):
            value(card, np.where(features > 1, np.nan, features), labels, head)
        with pytest.raises(DataError, match="shape"):
            value(card, features[:, :, None], labels, head)


@pytest.mark.parametrize("card", FROM_FEATURES, ids=ids(FROM_FEATURES))
def test_costs_are_counted_and_grow(card: ScoreCard) -> None:
    small, large = score_flops(card, 1000, 512, 10), score_flops(card, 4000, 512, 10)
    assert 0 < small < large


def test_cards_declare_what_scores_need() -> None:
    assert len(SCORES) == 19
    assert [card.id for card in SCORES.values() if card.needs_head] == ["leep", "nce"]
    assert [card.id for card in SCORES.values() if card.needs_training] == ["finetune-1", "finetune-5"]


def test_a_score_without_its_input_names_what_is_missing(small: tuple) -> None:
    features, labels = small
    with pytest.raises(DataError, match="source probabilities"):
        score_value(SCORES["leep"], labels, features=features)
    with pytest.raises(DataError, match="needs features"):
        score_value(SCORES["logme"], labels)
    with pytest.raises(UsageError, match="trains the network"):
        score_value(SCORES["finetune-1"], labels, features=features)
    with pytest.raises(UnknownNameError, match="nleep"):
        find_score("nlep")


def test_a_score_is_imported_without_the_others_and_without_torch() -> None:
    import subprocess
    import sys

    code = (
        "import unseen.ranking as r, sys; assert callable(r.leep) and 'torch' not in sys.modules\n"
        "assert 'unseen.ranking.scores.parc' not in sys.modules\n"
        "assert r.find_score('leep').compute is r.leep and 'unseen.ranking.scores.parc' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(("rows", "threads"), [(60, 1), (60_000, 3)])
def test_small_scores_use_one_thread(rows: int, threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The threads of small products wait for one another longer than they work."""
    monkeypatch.setattr("unseen.ranking.inputs._SMALL", 10_000)
    used: list[int] = []

    @one_thread_if_small
    def score(features: np.ndarray, labels: np.ndarray) -> float:
        used.append(torch.get_num_threads())
        return 0.0

    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        score(np.zeros((rows, 8)), np.zeros(rows))
        score(features=np.zeros((rows, 8)), labels=np.zeros(rows))
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)
    assert used == [threads] * 2
    assert logme.__wrapped__ is not logme  # type: ignore[attr-defined]
