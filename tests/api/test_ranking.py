"""`unseen.rank`: the recommended candidate is the same in every output, under the caller's label."""

from __future__ import annotations

import numpy as np

from unseen.api.ranking import Ranking
from unseen.benchmarks.rank.candidates import Candidate, CheckpointRanking


def ranking(*candidates: Candidate) -> CheckpointRanking:
    return CheckpointRanking("d", candidates, (), (), 100, 100, 2, 0, 0.0)


def candidate(model: str, rank: int, *, flops: int | None = None) -> Candidate:
    return Candidate(
        model, rank=rank, expected=0.9 - rank / 100, low=0.8, high=0.95, may_be_best=True, best_share=0.4, flops=flops
    )


def test_best_is_the_recommended_candidate_in_every_output() -> None:
    """The second of the order is as good and cheaper."""
    name = "packaged:efficientnet-lite0"
    order = ranking(candidate(f"{name}?size=64", 1, flops=900), candidate(name, 2, flops=300))
    found = Ranking(order, {name: "full", f"{name}?size=64": "tiny"})
    assert found.best == "full"
    assert found.headline().startswith("Fine-tune full: expect")
    assert "full is the cheaper of the two" in found.headline()
    assert "tiny (89 ± 7 %) is statistically tied with it" in found.headline()
    assert [row["model"] for row in found.rows()] == ["tiny", "full"]
    assert order.to_dict()["choice"]["model"] == name
    assert order.recommendation.startswith(f"Fine-tune {name}: ")


def test_arrays_have_no_cost_to_compare() -> None:
    import unseen

    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(4), 20)
    rows = rng.normal(size=(4, 8))[y] + 0.5 * rng.normal(size=(80, 8))
    more = {"a": rows + 0.5 * rng.normal(size=rows.shape), "b": rows + 0.5 * rng.normal(size=rows.shape)}
    found = unseen.rank(more, y, scores=("logme",), resamples=0)
    assert found.best is not None and found.headline().startswith(f"Fine-tune {found.best}: ")
    assert "cheap" not in found.headline() and "tied" in found.headline()
