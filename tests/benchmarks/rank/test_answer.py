"""From cells to an order: ranks by hand, what counts, what does not belong together, and the sentence."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from unseen.benchmarks.rank.answer import Candidate, answer, recommend
from unseen.benchmarks.rank.combine import combine
from unseen.core.errors import DataError
from unseen.core.records import Cell, Result

SHARED = {"split": "train", "sample": 0, "resamples": 2, "seed": 0}


def record(value: float, draws: list[float], **cell: Any) -> Result:
    details = {
        "terms": [value],
        "draws": [[d] for d in draws],
        "notes": [],
        "images": 6,
        "total": 8,
        "classes": 2,
        "extraction_seconds": 0.5,
        "checkpoint": cell.pop("checkpoint", str(value)),
    }
    return Result(Cell("rank", **{"model": "m", "dataset": "d", **cell}), details=details, seconds=0.25)


def scored(model: str, score: str, value: float, layer: str | None = "pooled", **rest: Any) -> Result:
    parameters = {"score": score, **({"layer": layer} if layer else {}), **SHARED, **rest.pop("shared", {})}
    return record(value, [value, value], model=model, parameters=parameters, **rest)


def failed(model: str, score: str, error: str, layer: str | None = "pooled") -> Result:
    return Result(scored(model, score, 0.0, layer).cell, error=error)


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
        {"leep": failed("a", "leep", "no class head", None), "logme": record(1, [1, 1])},
        {"leep": record(-1, [-1, -1]), "logme": record(2, [2, 2])},
    ]
    found = combine(records, ["leep", "logme"])
    assert found.counted == ("logme",)
    assert found.notes == ("leep does not count, since 1 of 2 lack it: no class head",)
    assert np.isnan(found.scores["leep"][0])


def test_scores_that_differ_by_rounding_are_equal() -> None:
    records = [{"nleep": record(-1e-17, [0.0])}, {"nleep": record(0.0, [1e-15])}]
    assert combine(records, ["nleep"]).mean_ranks.tolist() == [1.5, 1.5]


def test_no_candidate_is_an_answer_too() -> None:
    assert combine([], ["nleep"]).counted == ()
    found = answer([failed("a", "nleep", "no such file"), failed("b", "nleep", "no weights")])
    assert found.recommendation == "No checkpoint could be ranked."
    assert [(c.model, c.error) for c in found.failed] == [("a", "no such file"), ("b", "no weights")]
    assert found.best is None


def test_two_versions_of_a_score_are_not_compared() -> None:
    new = record(1, [1], version="1 nleep.2")
    found = combine([{"nleep": record(2, [2], version="1 nleep.1")}, {"nleep": new}], ["nleep"])
    assert found.counted == ()
    assert "another version" in found.notes[0]


def test_one_layer_fails_alone_and_leep_is_every_layers() -> None:
    own = [scored(m, "logme", v, layer) for m, v in (("a", 2.0), ("b", 1.0)) for layer in ("pooled", "deep")]
    own[3] = failed("b", "logme", "unknown layer 'deep'", "deep")
    own += [scored(m, "leep", v, None) for m, v in (("a", -1.0), ("b", -2.0))]
    found = answer(own)
    assert found.counted == ("logme", "leep")
    assert [(c.model, c.layer, c.scores.get("leep")) for c in found.candidates[:3]] == [
        ("a", "pooled", -1.0),
        ("a", "deep", -1.0),
        ("b", "pooled", -2.0),
    ]
    assert [(c.label, c.error) for c in found.failed] == [("b at deep", "unknown layer 'deep'")]


def test_what_does_not_belong_together_is_refused() -> None:
    other = scored("b", "logme", 1.0, shared={"seed": 1})
    with pytest.raises(DataError, match='"seed":1'):
        answer([scored("a", "logme", 2.0), other])
    with pytest.raises(DataError, match="same options"):
        answer([scored("a", "logme", 2.0, revision="x+1"), scored("b", "logme", 1.0, revision="y+2")])
    with pytest.raises(DataError, match="none"):
        answer([])


def test_one_checkpoint_under_two_names_is_said() -> None:
    found = answer([scored("a", "logme", 2.0, checkpoint="w"), scored("b", "logme", 2.0, checkpoint="w")])
    assert found.notes == ("b has the weights of a: they are one checkpoint under two names",)


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
    assert "no half-samples to say" in recommend(candidates, ["nleep"], 0, 1, asked=False)
    assert recommend([], [], 0, 1) == "No checkpoint could be ranked."
    assert "no common order" in recommend(candidates, [], 0, 1)
