"""From cells to an order: ranks by hand, what counts, what does not belong together, and the sentence."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from unseen.benchmarks.rank.answer import Candidate, answer
from unseen.benchmarks.rank.combine import combine
from unseen.benchmarks.rank.wording import recommend
from unseen.core.errors import DataError
from unseen.core.records import Cell, Result

SHARED = {"split": "train", "sample": 0, "resamples": 2, "seed": 0}


def record(value: float, draws: list[float], **cell: Any) -> Result:
    details = {
        "terms": [value],
        "draws": [[d] for d in draws],
        "draw_images": 3,
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


def probed(model: str, hits: np.ndarray, *, flops: int = 0, **rest: Any) -> Result:
    found = scored(model, "probe", float(np.mean(hits)), **rest)
    more = {"hits": "".join(str(int(hit)) for hit in hits), "flops": flops or None, "images": len(hits)}
    return replace(found, details={**found.details, **more, "checkpoint": rest.get("checkpoint", model)})


def failed(model: str, score: str, error: str, layer: str | None = "pooled") -> Result:
    return Result(scored(model, score, 0.0, layer).cell, error=error)


def test_mean_ranks_and_shares_by_hand() -> None:
    records = [
        {"nleep": record(3, [3, 3, 1, 1]), "logme": record(1, [9, 9, 1, 1])},
        {"nleep": record(2, [2, 2, 2, 2]), "logme": record(3, [1, 1, 2, 2])},
        {"nleep": record(1, [1, 1, 3, 3]), "logme": record(2, [0, 0, 3, 3])},
    ]
    found = combine(records, ["nleep", "logme"])
    assert found.mean_ranks.tolist() == [2.0, 1.5, 2.5]
    # Draws about their means: nleep 3 +- 1, 2, 1 -+ 1; logme 1 +- 4, 3 -+ 0.5, 2 -+ 1.5.
    assert found.draws.tolist() == [[1, 2, 3], [1, 2, 3], [2.5, 1.75, 1.75], [2.5, 1.75, 1.75]]
    assert found.first_shares == pytest.approx([0.5, 0.25, 0.25])


def test_draws_are_centred_on_the_score_of_all_images_and_scaled_to_their_number() -> None:
    """A bias of few images, even another one for every candidate, moves neither ranks nor shares."""
    generator = np.random.default_rng(0)
    noise = generator.normal(size=400)
    biased = [record(1.0, list(1.0 + noise + 5.0)), record(0.0, list(-noise - 7.0))]
    plain = [record(1.0, list(1.0 + noise)), record(0.0, list(-noise))]
    shares = [combine([{"logme": one} for one in pair], ["logme"]).first_shares for pair in (biased, plain)]
    assert shares[0] == pytest.approx(shares[1])
    centred = noise - noise.mean()
    assert shares[0][0] == pytest.approx(np.mean(1 + 2 * centred > 0), abs=0.01)
    # A tenth of the images scatters three times as much as all of them would.
    for one in plain:
        one.details.update(images=1000, draw_images=100)
    few = combine([{"logme": one} for one in plain], ["logme"]).first_shares
    assert few[0] == pytest.approx(np.mean(1 + 2 * centred / 3 > 0), abs=0.01)


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


HARD = np.arange(1000) % 10 == 0  # a tenth of the images is wrong for everybody


def hits(errors: int, begin: int = 0) -> np.ndarray:
    wrong = HARD.copy()
    wrong[np.flatnonzero(~HARD)[begin : begin + errors]] = True
    return ~wrong


def test_a_clear_lead_in_accuracy() -> None:
    found = answer([probed("a", hits(0)), probed("b", hits(80)), probed("c", hits(120))])
    assert [c.model for c in found.candidates] == ["a", "b", "c"]
    assert found.clear
    assert found.choice is not None and found.choice.model == "a"
    assert found.recommendation.startswith(
        "Fine-tune a: expect 90 ± 2 % with a linear head. The lead is clear: 8.0 points"
    )
    assert found.candidates[1].behind == pytest.approx(0.08)
    assert 0 < found.candidates[1].behind_low < 0.08 < found.candidates[1].behind_high
    assert found.candidates[0].low < 0.9 < found.candidates[0].high
    assert found.candidates[0].best_share > 0.99


def test_equals_are_said_and_the_cheapest_is_recommended() -> None:
    results = [
        probed("a", hits(10), flops=900),
        probed("b", hits(12, 300), flops=300),
        probed("c", hits(11, 600), flops=500),
        probed("d", hits(300), flops=1),
    ]
    found = answer(results)
    assert not found.clear
    assert [c.model for c in found.equals] == ["a", "c", "b"]
    assert found.best is not None and found.best.model == "a"
    assert found.choice is not None and found.choice.model == "b"
    assert "Fine-tune b: expect 89 ± 2 %" in found.recommendation
    assert "The lead is not clear: a (89 ± 2 %) and c (89 ± 2 %) cannot be told apart from it" in found.recommendation
    assert "cheapest of the 3" in found.recommendation
    assert [c.may_be_best for c in found.candidates] == [True, True, True, False]


def test_who_has_little_chance_is_said_but_not_recommended_for_being_cheap() -> None:
    good, poor = np.arange(90) >= 18, np.arange(90) < 60
    found = answer([probed("a", good, flops=900), probed("b", poor, flops=1)])
    assert not found.clear
    assert found.candidates[1].best_share < 0.1
    assert found.choice is not None and found.choice.model == "a"
    assert "b (67 ± 15 %) cannot be ruled out on 90 images, but has little chance." in found.recommendation


def test_a_difference_of_few_images_is_not_clear_and_order_and_share_agree() -> None:
    found = answer([probed("a", hits(20)[:100]), probed("b", hits(22)[:100])])
    assert not found.clear
    assert found.candidates[0].best_share >= found.candidates[1].best_share


def test_one_checkpoint_under_two_names_is_said_and_beats_nobody() -> None:
    results = [probed("a", hits(0), checkpoint="w"), probed("b", hits(0), checkpoint="w"), probed("c", hits(90))]
    found = answer(results)
    assert found.notes == ("b has the weights of a: they are one checkpoint under two names",)
    assert found.clear  # its twin is no rival
    assert [c.model for c in found.equals] == ["a"]
    assert "b" not in found.recommendation.split("The lead")[0].split()
    assert found.candidates[1].expected == found.candidates[0].expected


def test_what_cannot_be_said_is_not_said() -> None:
    assert recommend([], images=0) == (None, "No checkpoint could be ranked.")
    choice, text = recommend([Candidate("a", rank=1), Candidate("b", rank=2)], images=10)
    assert choice is None and "No accuracy could be estimated" in text
    (only,) = answer([probed("a", hits(0))]).equals
    assert "it is the only candidate; expect 90 ± 2 %" in answer([probed("a", hits(0))]).recommendation
    assert only.model == "a"


def test_a_share_of_resamples_needs_two_hundred() -> None:
    few = [probed("a", hits(0)), scored("a", "logme", 2.0), probed("b", hits(9)), scored("b", "logme", 1.0)]
    assert all(np.isnan(c.first_share) for c in answer(few).candidates)
    many = [replace(r, details={**r.details, "draws": [[r.details["terms"][0]]] * 200}) for r in few]
    assert [c.first_share for c in answer(many).candidates] == [1.0, 0.0]
