"""rank_checkpoints: order, confidence, failures, what is computed twice, and ranks by hand."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from unseen.benchmarks.rank.checkpoints import rank_checkpoints
from unseen.benchmarks.rank.combine import combine, recommend
from unseen.benchmarks.rank.records import Candidate
from unseen.benchmarks.rank.scores import ScoreCache, ScoreRecord, half_samples
from unseen.core.errors import DataError, UsageError

SECOND = "random:test_resnet?size=64"


def record(value: float, draws: list[float]) -> ScoreRecord:
    return ScoreRecord(terms=[value], draws=[[d] for d in draws])


def test_mean_ranks_and_shares_by_hand() -> None:
    records = [
        {"nleep": record(3, [3, 3, 1, 2]), "logme": record(1, [9, 9, 1, 5])},
        {"nleep": record(2, [2, 2, 2, 2]), "logme": record(3, [1, 1, 2, 5])},
        {"nleep": record(1, [1, 1, 3, 2]), "logme": record(2, [0, 0, 3, 5])},
    ]
    found = combine(records, ["nleep", "logme"])
    assert found.mean_ranks.tolist() == [2.0, 1.5, 2.5]
    assert found.draws.tolist() == [[1, 2, 3], [1, 2, 3], [3, 2, 1], [2, 2, 2]]
    assert found.first_shares == pytest.approx([0.5 + 1 / 12, 1 / 12, 0.25 + 1 / 12])


def test_a_score_that_some_lack_does_not_count_and_says_why() -> None:
    records = [
        {"leep": ScoreRecord(error="no class head"), "logme": record(1, [1, 1])},
        {"leep": record(-1, [-1, -1]), "logme": record(2, [2, 2])},
    ]
    found = combine(records, ["leep", "logme"])
    assert found.counted == ("logme",)
    assert found.notes == ("leep does not count, since 1 of 2 lack it: no class head",)
    assert np.isnan(found.scores["leep"][0])


def test_scores_that_differ_by_rounding_are_equal() -> None:
    records = [{"nleep": record(-1e-17, [0.0])}, {"nleep": record(0.0, [1e-15])}]
    assert combine(records, ["nleep"]).mean_ranks.tolist() == [1.5, 1.5]


@pytest.mark.parametrize(
    ("shares", "resamples", "expected"),
    [
        ((0.93, 0.07), 100, "Fine-tune a: it comes first in 93 % of 100 resamples"),
        ((0.5, 0.5), 10, "the lead is not clear"),
        ((float("nan"), float("nan")), 0, "too few images to say how sure"),
    ],
)
def test_the_sentence_says_how_sure(shares: tuple[float, float], resamples: int, expected: str) -> None:
    candidates = [Candidate(name, first_share=share) for name, share in zip("ab", shares, strict=True)]
    assert expected in recommend(candidates, ["nleep"], resamples, 1)
    assert recommend([], [], 0, 1) == "No checkpoint could be ranked."
    assert "no common order" in recommend(candidates, [], 0, 1)


def test_half_samples_keep_classes_and_give_up_where_they_cannot() -> None:
    labels = np.repeat([0, 1, 2], [20, 10, 10])
    samples = half_samples(labels, 5, 0)
    assert [np.bincount(labels[rows]).tolist() for rows in samples] == [[10, 5, 5]] * 5
    assert len({tuple(rows) for rows in samples}) == 5
    assert half_samples(np.array([0, 1, 2, 2]), 5, 0) == []


def test_a_second_run_computes_nothing_again_and_one_more_model_only_its_own(
    images: Path, home: Path, small_model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {"scores": ("logme", "ncti"), "resamples": 5}
    first = rank_checkpoints(f"folder:{images}", [small_model, SECOND], **options)
    import unseen.benchmarks.rank.scores as module

    calls: list[int] = []
    original = module.score_terms

    def counting(*arguments, **named):
        calls.append(1)
        return original(*arguments, **named)

    monkeypatch.setattr(module, "score_terms", counting)
    again = rank_checkpoints(f"folder:{images}", [small_model, SECOND], **options)
    assert not calls
    assert [(c.model, c.scores, c.first_share) for c in again.candidates] == [
        (c.model, c.scores, c.first_share) for c in first.candidates
    ]
    rank_checkpoints(f"folder:{images}", [small_model, SECOND, "random:test_resnet?seed=1&size=64"], **options)
    assert len(calls) == 2 * 6


def test_a_broken_cache_is_made_anew(tmp_path: Path) -> None:
    path = tmp_path / "broken.json"
    path.write_text("{not json")
    cache = ScoreCache(path)
    assert cache.records == {}
    cache.records["logme"] = record(1.0, [2.0])
    cache.write()
    assert ScoreCache(path).records["logme"].draws == [[2.0]]


def test_constant_features_fail_their_candidate_alone(
    images: Path, home: Path, small_model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from torch import nn

    from unseen.backbones import BACKBONES, register_backbone

    class Constant(nn.Module):
        def forward(self, x):  # type: ignore[no-untyped-def]
            return 0 * x.mean(dim=(2, 3)) + 1

    name = "constant-for-ranking"
    register_backbone(name)(lambda: Constant())
    try:
        found = rank_checkpoints(f"folder:{images}", [name, small_model], scores=("logme",), resamples=0)
    finally:
        BACKBONES._targets.pop(name)
    assert [c.model for c in found.candidates] == [small_model, name]
    assert "constant" in found.candidates[1].error
    assert found.best is not None
    assert found.best.model == small_model


def test_leep_counts_where_all_have_heads(images: Path, home: Path, small_model: str) -> None:
    found = rank_checkpoints(f"folder:{images}", [small_model, SECOND], scores=("leep", "nce", "logme"), resamples=3)
    assert found.counted == ("leep", "nce", "logme")
    assert all(len(c.scores) == 3 for c in found.candidates)
    results = found.results()
    assert results[0].metrics["mean_rank"] <= results[1].metrics["mean_rank"]


def test_one_candidate_has_no_pool(images: Path, home: Path, small_model: str) -> None:
    found = rank_checkpoints(f"folder:{images}", [small_model], scores=("etran", "logme"), resamples=2)
    assert found.counted == ("logme",)
    assert "at least two models" in found.notes[0]


def test_rubbish(tmp_path: Path, home: Path, make_folder: Callable[..., Path], small_model: str) -> None:
    make_folder(tmp_path / "few", classes=4, per_class=1)
    with pytest.raises(DataError, match="more images than classes"):
        rank_checkpoints(f"folder:{tmp_path / 'few'}?test=0", [small_model])
    with pytest.raises(UsageError, match="at least one checkpoint"):
        rank_checkpoints(f"folder:{tmp_path / 'few'}?test=0", [])
