"""From cells to an order: ranks by hand, what counts, what does not belong together, and the sentence."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from unseen.benchmarks.rank.answer import answer, mean_rank, with_truth
from unseen.benchmarks.rank.expected import packed
from unseen.benchmarks.rank.table import candidates_table
from unseen.core.errors import DataError
from unseen.core.records import Cell, Result

SHARED = {"split": "train", "sample": 0, "seed": 0}


def record(value: float, **cell: Any) -> Result:
    details = {"notes": [], "images": 6, "total": 8, "classes": 2}
    made = Cell("rank", **{"model": "m", "dataset": "d", **cell})
    return Result(made, metrics={"score": value}, details=details, seconds=0.25)


def scored(model: str, score: str, value: float, layer: str | None = "pooled", **rest: Any) -> Result:
    parameters = {"score": score, **({"layer": layer} if layer else {}), **SHARED, **rest.pop("shared", {})}
    return record(value, model=model, parameters=parameters, **rest)


def probed(model: str, hits: np.ndarray, *, flops: int = 0, **rest: Any) -> Result:
    found = scored(model, "probe", float(np.mean(hits)), **rest)
    more = {"outcomes": in_text(hits), "flops": flops or None, "images": len(hits)}
    return replace(found, details={**found.details, **more})


def in_text(outcomes: np.ndarray) -> str:
    return packed(outcomes, np.arange(len(outcomes)), len(outcomes))


def failed(model: str, score: str, error: str, layer: str | None = "pooled") -> Result:
    return Result(scored(model, score, 0.0, layer).cell, error=error)


def test_mean_ranks_by_hand() -> None:
    assert mean_rank([[3, 2, 1], [1, 3, 2]], 3).tolist() == [2.0, 1.5, 2.5]


def test_a_score_that_some_candidates_lack_does_not_count_and_the_reason_is_noted() -> None:
    own = [failed("a", "leep", "no class head", None), scored("a", "logme", 1.0)]
    found = answer([*own, scored("b", "leep", -1.0, None), scored("b", "logme", 2.0)])
    assert found.counted == ("logme",)
    assert found.notes == ("leep does not count, since 1 of 2 lack it: no class head",)
    assert [(c.model, "leep" in c.scores, c.mean_rank) for c in found.candidates] == [
        ("b", True, 1.0),
        ("a", False, 2.0),
    ]


def test_scores_that_differ_by_rounding_are_equal() -> None:
    assert mean_rank([[-1e-17, 0.0]], 2).tolist() == [1.5, 1.5]


def test_no_candidate_is_an_answer_too() -> None:
    found = answer([failed("a", "nleep", "no such file"), failed("b", "nleep", "no weights")])
    assert found.recommendation == "No checkpoint could be ranked."
    assert [(c.model, c.error) for c in found.failed] == [("a", "no such file"), ("b", "no weights")]
    assert found.choice is None


def test_two_versions_of_a_score_are_not_compared() -> None:
    new = scored("b", "nleep", 1.0, version="1 nleep.2")
    with pytest.raises(DataError, match="same options"):
        answer([scored("a", "nleep", 2.0, version="1 nleep.1"), new])


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


def test_older_results_without_outcomes_are_listed_without_an_estimate() -> None:
    old = replace(probed("a", hits(0)), details={"hits": "0110", "images": 4})
    found = answer([old, probed("b", hits(80)), probed("c", hits(120))])
    assert [c.model for c in found.candidates] == ["b", "c", "a"]
    assert np.isnan(found.candidates[2].expected) and found.choice is not None and found.choice.model == "b"
    alone = answer([old])
    assert alone.choice is None and "No accuracy could be estimated" in alone.recommendation


def test_what_does_not_belong_together_is_refused() -> None:
    other = scored("b", "logme", 1.0, shared={"seed": 1})
    with pytest.raises(DataError, match='"seed":1'):
        answer([scored("a", "logme", 2.0), other])
    with pytest.raises(DataError, match="same options"):
        answer([scored("a", "logme", 2.0, revision="x+1"), scored("b", "logme", 1.0, revision="y+2")])
    with pytest.raises(DataError, match="none"):
        answer([])


HARD = np.arange(1000) % 10 == 0  # a tenth of the images is wrong for all candidates


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
        "Fine-tune a: expect 90 ± 2 % with a linear head. The lead is significant: 8.0 points"
    )
    assert found.candidates[1].behind == pytest.approx(0.08)
    assert 0 < found.candidates[1].behind_low < 0.08 < found.candidates[1].behind_high
    assert found.candidates[0].low < 0.9 < found.candidates[0].high
    assert found.candidates[0].best_share > 0.99


def test_ties_are_reported_and_a_much_cheaper_one_is_recommended_with_its_price() -> None:
    results = [
        probed("a", hits(10), flops=900),
        probed("b", hits(12, 300), flops=300),
        probed("c", hits(11, 600), flops=500),
        probed("d", hits(300), flops=1),
    ]
    found = answer(results)
    assert not found.clear
    assert [c.model for c in found.equals] == ["a", "c", "b"]
    assert found.choice is not None and found.choice.model == "b"
    assert "Fine-tune b: expect 89 ± 2 %" in found.recommendation
    assert "The lead is not significant: a (89 ± 2 %) and c (89 ± 2 %) are statistically tied" in found.recommendation
    assert "a has the highest estimate (89 ± 2 %); b is 3.0 times cheaper (300 operations" in found.recommendation
    assert "and is expected to lose 0.2 points." in found.recommendation
    assert [c.model for c in found.front] == ["d", "b", "c", "a"]
    assert found.to_dict()["pareto"] == ["d", "b", "c", "a"]
    assert "(Pareto front): d (60 ± 3 %, 1 operations)" in found.front_text({})
    assert [c.may_be_best for c in found.candidates] == [True, True, True, False]


def test_a_cheap_candidate_with_little_chance_is_reported_but_not_recommended() -> None:
    good, poor = np.arange(90) >= 18, np.arange(90) < 60
    found = answer([probed("a", good, flops=900), probed("b", poor, flops=1)])
    assert not found.clear
    assert found.candidates[1].best_share < 0.1
    assert found.choice is not None and found.choice.model == "a"
    assert "b (67 ± 10 %) is statistically tied with it on 90 images." in found.recommendation


def test_a_difference_of_few_images_is_not_clear_and_order_and_share_agree() -> None:
    found = answer([probed("a", hits(20)[:100]), probed("b", hits(22)[:100])])
    assert not found.clear
    assert found.candidates[0].best_share >= found.candidates[1].best_share


def test_without_an_accuracy_no_candidate_is_recommended() -> None:
    found = answer([scored("a", "logme", 2.0), scored("b", "logme", 1.0)])
    assert found.choice is None and "No accuracy could be estimated" in found.recommendation
    (only,) = answer([probed("a", hits(0))]).equals
    assert "it is the only candidate; expect 90 ± 2 %" in answer([probed("a", hits(0))]).recommendation
    assert only.model == "a"


def tied(**costs: dict[str, int | None]) -> list[Result]:
    """Candidates with the same accuracy on different images, so that none of them leads, with their costs."""
    found = [probed(name, hits(10, 100 * i)) for i, name in enumerate(costs)]
    return [replace(r, details={**r.details, **costs[r.cell.model]}) for r in found]


UNKNOWN: dict[str, int | None] = {"flops": None, "parameters": None}


@pytest.mark.parametrize(
    ("costs", "choice", "reason"),
    [
        ({"a": UNKNOWN, "b": UNKNOWN}, "a", "a has the highest estimate."),
        ({"a": UNKNOWN, "b": {"flops": 5, "parameters": 5}}, "a", "a has the highest estimate."),
        ({"a": {"flops": 5, "parameters": 7}, "b": {"flops": 5, "parameters": 7}}, "a", "a has the highest estimate."),
        (
            {"a": {"flops": 9}, "b": {"flops": 3}, "c": {"flops": 3}},
            "b",
            "b is 3.0 times cheaper (3 operations per image) and is expected to lose 0.0 points.",
        ),
    ],
)
def test_cheaper_is_stated_only_if_the_cost_is_known_and_smaller(
    costs: dict[str, dict[str, int | None]], choice: str, reason: str
) -> None:
    found = answer(tied(**costs))
    assert found.choice is not None and found.choice.model == choice
    assert reason in found.recommendation
    assert ("cheaper" in found.recommendation) == ("cheaper" in reason)


@pytest.mark.parametrize(
    ("prefer", "choice"),
    [("", "a"), ("accuracy", "a"), ("cheap", "b"), ("0", "a"), ("0.3", "b"), ("1", "c"), ("45", "d")],
)
def test_the_preferred_candidate(prefer: str, choice: str) -> None:
    results = [
        probed("a", hits(10), flops=900),
        probed("b", hits(12, 300), flops=500),
        probed("c", hits(19, 600), flops=480),
        probed("d", hits(300), flops=1),
    ]
    found = answer(results, prefer=prefer)
    assert found.choice is not None and found.choice.model == choice
    assert found.to_dict()["prefer"] == prefer
    unknown = [replace(r, details={**r.details, "flops": None}) for r in results]
    assert answer(unknown, prefer=prefer).choice.model == "a", "costs are unknown"  # type: ignore[union-attr]


def test_a_price_above_a_point_is_not_paid_by_default() -> None:
    some = np.arange(1000) < 200
    one, other = hits(0)[some], hits(3, 20)[some]
    found = answer([probed("a", one, flops=900), probed("b", other, flops=100)])
    assert not found.clear and found.choice is not None and found.choice.model == "a"
    assert "The cheaper b is 9.0 times cheaper (100 operations per image) and is expected to lose 1.5 points." in (
        found.recommendation
    )


def test_names_are_inserted_and_not_replaced() -> None:
    """A model whose name is a part of another name, or of a word of the sentence."""
    found = answer([probed("m", hits(0)), probed("m?size=64", hits(100)), probed("lead", hits(150))])
    names = {"m": "full", "m?size=64": "tiny", "lead": "m"}
    text = found.describe(names)
    assert text.startswith("Fine-tune full: expect 90") and "The lead is significant: 10.0 points on tiny" in text
    assert found.to_dict()["recommendation"] == found.recommendation
    assert found.to_dict()["choice"]["model"] == "m"


def trained(model: str, accuracy: float) -> Result:
    return Result(Cell("rank", model, "d", {"score": "truth"}), metrics={"top1": accuracy})


def test_fine_tuning_is_compared_with_its_prediction() -> None:
    ranking = answer([probed("a", hits(0)), probed("b", hits(80))])
    found = with_truth(ranking, [trained("a", 0.44), trained("b", 0.36)])
    assert "a 44.0 %; b 36.0 %." in found.recommendation
    assert "confirm" not in found.recommendation
    inside = with_truth(ranking, [trained("a", 0.9), trained("b", 0.36)])
    assert inside.recommendation.endswith("This confirms what was expected of a.")
    assert "confirm" not in with_truth(ranking, [trained("a", 0.99)]).recommendation


def test_many_candidates_are_not_all_named() -> None:
    found = answer(
        [*(probed(f"c{i}", hits(10, i)) for i in range(25)), *(probed(f"d{i}", hits(300)) for i in range(20))]
    )
    text = found.recommendation
    assert "Ruled out, significantly behind: 20." in text
    assert " and 21 more are statistically tied with it on 1,000 images." in text
    assert "Next: fine-tune some of these 25 (--finetune-top 3), or add images." in text
    assert len(text.split()) < 60


def test_a_gap_between_fine_tuning_and_prediction_is_explained() -> None:
    def outcomes(right: int, of: int = 400) -> str:
        return in_text(np.arange(of) < right)

    def tuned(model: str, right: int, probe: int) -> Result:
        details = {"outcomes": outcomes(right), "probe_outcomes": outcomes(probe)}
        return replace(trained(model, right / 400), details=details)

    ranking = answer([probed("a", hits(0)), probed("b", hits(80))])
    shifted = with_truth(ranking, [tuned("a", 180, 172)])
    first = shifted.candidates[0]
    assert first.gap == pytest.approx(0.45 - 0.9) and first.gap_low < first.gap < first.gap_high < 0
    assert (first.tuning, first.probe_tested) == pytest.approx((0.02, 0.43)) and first.tuning_low > 0
    assert "a 45.0 %, -45.0 points beside the prediction of 90.0 %" in shifted.recommendation
    assert "the linear head alone reaches 43.0 % on the same test images" in shifted.recommendation
    assert "mostly because the test images differ from the training images" in shifted.recommendation
    assert "mostly because of fine-tuning" in with_truth(ranking, [tuned("a", 180, 358)]).recommendation
    same = with_truth(ranking, [tuned("a", 358, 356)])
    assert "no significant gap" in same.recommendation and "confirms" in same.recommendation


def test_the_ranking_and_its_decision_agree() -> None:
    found = answer([probed("a", hits(10)), probed("b", hits(12, 300)), probed("c", hits(200)), probed("d", hits(10))])
    decision = found.decision
    assert tuple(c.label for c in found.candidates) == decision.order
    assert tuple(c.label for c in found.equals) == decision.possibly_best
    for c in found.candidates:
        interval = decision.intervals[c.label]
        assert (c.expected, c.low, c.high) == (interval.value, interval.low, interval.high)
        assert c.best_share == decision.best_share[c.label]
    assert found.to_dict()["possibly_best"] == list(decision.possibly_best)


def test_a_clipped_interval_is_shown_by_its_limits() -> None:
    found = answer([probed("a", np.ones(48, bool))])
    low = found.candidates[0].low
    assert f"expect {100 * low:.0f} to 100 % with a linear head" in found.recommendation
    none = answer([probed("a", np.zeros(48, bool))])
    assert f"expect 0 to {100 * none.candidates[0].high:.0f} %" in none.recommendation
    assert "± 2 %" in answer([probed("a", hits(0))]).recommendation


def test_accuracy_of_classes_and_images_that_share_a_fold_are_stated() -> None:
    found = probed("a", hits(0))
    labels = in_text(np.arange(1000) // 500)
    more = {"labels": labels, "class_names": ["cat", "dog"], "copies": 7, "groups": 30, "evaluated": 990}
    one = answer([replace(found, details={**found.details, **more})])
    expected = {"cat": hits(0)[:500].mean(), "dog": hits(0)[500:].mean()}
    assert one.candidates[0].per_class == pytest.approx(expected)
    assert one.to_dict()["candidates"][0]["per_class"] == pytest.approx(expected)
    assert "Lowest per-class accuracy of a: " in one.per_class_text({})
    assert (one.copies, one.groups, one.evaluated, one.to_dict()["copies"]) == (7, 30, 990, 7)
    assert [note.split(" ")[0] for note in one.notes] == ["30", "7", "10"]


def with_majority(result: Result, majority: float) -> Result:
    return replace(result, details={**result.details, "majority": majority})


@pytest.mark.parametrize(
    ("majority", "text"),
    [
        (0.99, "No candidate beats guessing: always predicting the most frequent class (99.0 %)."),
        (
            0.9,
            "No candidate is significantly better than guessing: always predicting the most frequent class (90.0 %).",
        ),
        (0.5, ""),
    ],
)
def test_an_accuracy_of_guessing_is_stated(majority: float, text: str) -> None:
    found = answer([with_majority(probed("a", hits(0)), majority), with_majority(probed("b", hits(80)), majority)])
    assert text in found.recommendation and ("guessing" in found.recommendation) == bool(text)
    assert found.guessing_verdict == text and (not text or text in candidates_table(found, {}).notes)
    assert (found.to_dict()["chance"], found.to_dict()["majority"]) == (0.5, majority)
