"""Tables of zero-shot results: intervals and marks come from the outcomes per image that results store."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from unseen.benchmarks.zsl.details import ZslDetails, details_of, pack_outcomes
from unseen.benchmarks.zsl.section import zsl_section
from unseen.benchmarks.zsl.tables import decide_methods, zsl_tables
from unseen.core.records import Cell, Result
from unseen.reports.blocks import Material
from unseen.results.grid import summary_of
from unseen.results.table import result_tables
from unseen.stats import harmonic_mean_interval, per_class_interval
from unseen.zeroshot.outcomes import ImageOutcomes

LABELS = np.repeat(np.arange(4), 50)


def made(method: str, zsl: np.ndarray, *, model: str = "m", seed: int = 0, **changes: object) -> Result:
    """A result of 4 unseen classes of 50 images and as many seen ones, with its outcomes."""
    counts = np.full(4, 50)
    tr = np.arange(200) % 5 > 0
    outcomes = ImageOutcomes(zsl, zsl & (np.arange(200) % 3 > 0), tr, counts, counts)
    ts = per_class_interval(outcomes.ts, LABELS)
    intervals = {"zsl": per_class_interval(zsl, LABELS), "ts": ts, "tr": per_class_interval(tr, LABELS)}
    intervals["H"] = harmonic_mean_interval(ts, intervals["tr"])
    metrics = {name: each.value for name, each in intervals.items()}
    metrics |= {f"{name}_{end}": getattr(each, end) for name, each in intervals.items() for end in ("low", "high")}
    details = ZslDetails(
        chance=0.25, unseen_classes=4, seen_classes=4, test_images=200, seen_test_images=200, embedding="attributes",
        per_class={f"class {i}": 0.5 for i in range(4)}, audit="No leak", **pack_outcomes(outcomes),
    )  # fmt: skip
    details = replace(details, **changes)  # type: ignore[arg-type]
    parameters = {"method": method, "split": "PS", "fold": "all", "calibration": 0, "seed": seed}
    return Result(Cell("zsl", model, "d", parameters, "w+d", f"1 {method}.1"), metrics, details=details.to_dict())


EVEN = np.arange(200) % 2 == 0
FEWER = EVEN & (np.arange(200) % 20 > 0)


def test_bold_is_what_the_comparison_image_by_image_supports() -> None:
    """The intervals overlap; on the same images, one method is never worse than the other."""
    results = [made("ALE", EVEN), made("SAE", FEWER)]
    decision = decide_methods(results, "zsl")
    assert decision.pairs["ALE", "SAE"].paired
    assert decision.intervals["ALE"].low < decision.intervals["SAE"].high
    assert decision.best == "ALE"
    (table,) = result_tables(results)
    assert table.to_dict() == zsl_tables(results, {})[0].to_dict()
    by_name = {row[0].shown: row for row in table.rows}
    zsl = list(table.columns).index("ZSL (%)")
    assert (by_name["ALE"][zsl].mark, by_name["SAE"][zsl].mark) == ("best", "")
    assert by_name["ALE"][zsl].n == 200
    assert not any(row[list(table.columns).index("tr (%)")].mark for row in table.rows), "equal values are no contest"
    assert any("Leak audit: No leak." in note for note in table.notes)
    assert any(note.startswith("Bold: ") for note in table.notes)


def test_results_of_older_versions_have_their_stored_limits() -> None:
    empty = {"zsl_correct": "", "ts_correct": "", "tr_correct": "", "unseen_counts": (), "seen_counts": ()}
    old = [made("ALE", EVEN, **empty), made("SAE", FEWER, **empty)]
    assert details_of(old[0]).outcomes is None
    decision = decide_methods(old, "zsl")
    assert not decision.pairs["ALE", "SAE"].paired
    assert decision.best is None
    found = summary_of([old[0]], "zsl").interval
    assert (found.low, found.high) == (old[0].metrics["zsl_low"], old[0].metrics["zsl_high"])
    damaged = made("ALE", EVEN, zsl_correct="3:AAAA")
    assert details_of(damaged).outcomes is None


@pytest.mark.parametrize("metric", ["zsl", "ts", "tr", "H"])
def test_all_outputs_have_the_interval_that_was_stored(metric: str) -> None:
    result = made("ALE", EVEN)
    found = summary_of([result], metric).interval
    wanted = [result.metrics[name] for name in (metric, f"{metric}_low", f"{metric}_high")]
    np.testing.assert_allclose([found.value, found.low, found.high], wanted)


def test_seeds_are_averaged_per_image_if_the_classes_are_the_same() -> None:
    first, second = made("ALE", EVEN), made("ALE", ~EVEN, seed=1)
    both = summary_of([first, second], "zsl")
    assert both.value == 0.5
    assert both.interval.high - both.interval.low < 0.01 + summary_of([first], "zsl").interval.high - 0.5
    other = replace(details_of(second), per_class={f"other {i}": 0.5 for i in range(4)})
    apart = summary_of([first, replace(second, details=other.to_dict())], "zsl")
    assert apart.candidate.outcomes is None
    assert apart.interval.known


def test_the_headline_states_ties_and_chance() -> None:
    clear = zsl_section(Material([made("ALE", EVEN), made("ALE", FEWER, model="n")]), "zsl")
    assert clear is not None
    (headline,) = clear.headlines
    assert (headline.sure, headline.clear) == ("significant", True)
    rng = np.random.default_rng(0)
    tied = zsl_section(Material([made("ALE", rng.random(200) < 0.5, model=m) for m in "mn"]), "zsl")
    assert tied is not None
    assert tied.headlines[0].sure == "significant"
    text = tied.headlines[0].text
    assert "Both trained models are significantly better than chance" in text and "statistically tied with it" in text
    guess = zsl_section(Material([made("ALE", np.arange(200) % 4 == 0)]), "zsl")
    assert guess is not None
    (headline,) = guess.headlines
    assert headline.sure == "not above chance"
    assert "which the confidence interval contains" in headline.text


def test_a_run_stores_outcomes(release: Path, run_zsl: Callable[..., list[Result]]) -> None:
    results = run_zsl(f"xlsa17:AWA1?root={release}", "xlsa17:res101", methods=["ESZSL", "CMT*"], grid="quick")
    assert [r.error for r in results] == ["", ""]
    for result in results:
        outcomes = details_of(result).outcomes
        assert outcomes is not None
        assert (outcomes.unseen_counts.tolist(), outcomes.seen_counts.tolist()) == ([10] * 3, [3] * 9)
        for metric in ("zsl", "ts", "tr", "H"):
            found = summary_of([result], metric).interval
            stored = [result.metrics[name] for name in (metric, f"{metric}_low", f"{metric}_high")]
            np.testing.assert_allclose([found.value, found.low, found.high], stored)
    assert ["AUSUC" in result.metrics for result in results] == [True, False]
    for metric in ("zsl", "H"):
        assert decide_methods(results, metric).pairs["ESZSL", "CMT*"].paired
