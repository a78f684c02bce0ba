"""Methods compared over datasets: rank matrices and tests from results, and from the paper's own tables.

Paper:      Xian et al., TPAMI 2018, Figs. 3, 4, 7, 8 and Table 4 [P]
Shapes:     values (methods, observations)
Implements: an observation is one dataset, model and split with parameters chosen on one validation fold, as in Fig. 4
            of [P]; where no fold was run alone, the choice over all folds counts
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from unseen.benchmarks.zsl import published
from unseen.core.identity import canonical_json
from unseen.core.records import Result
from unseen.metrics import (
    Friedman,
    PairedTTest,
    RankTable,
    friedman_test,
    harmonic_mean,
    nemenyi_difference,
    paired_t_test,
    rank_methods,
)

METRICS = ("zsl", "ts", "tr", "H")
BENCHMARK = "zsl"


@dataclass(frozen=True)
class MethodRanks:
    """How methods rank by one metric.

    Attributes:
        observations: what each column of the ranks is.
        left_out: methods without a value in every observation.
        friedman: None where there are too few methods or observations for a test.
        critical_difference: Nemenyi's, at `level`.
    """

    metric: str
    table: RankTable
    observations: tuple[str, ...]
    left_out: tuple[str, ...]
    friedman: Friedman | None
    critical_difference: float
    level: float = 0.05


@dataclass(frozen=True)
class Statement:
    """A sentence of the paper, and whether it follows from the printed numbers."""

    text: str
    holds: bool
    evidence: str


def rank_values(values: Mapping[str, Sequence[float]], metric: str, observations: Sequence[str]) -> MethodRanks:
    """Rank methods by values of equal length."""
    table = rank_methods(list(values), list(values.values()))
    k, n = table.ranks.shape
    test = friedman_test(table) if k >= 3 and n >= 2 else None
    return MethodRanks(metric, table, tuple(observations), (), test, nemenyi_difference(k, n))


def rank_results(results: Sequence[Result], metric: str, split: str | None = None) -> MethodRanks | None:
    """Ranks from results, or None where fewer than two methods can be compared.

    A method that has no value where most have one is left out; an observation that lacks a remaining method is too.
    """
    found = _by_observation(results, metric, split)
    if not found:
        return None
    most = max(len(values) for values in found.values())
    found = {key: values for key, values in found.items() if len(values) == most}
    everywhere = set.intersection(*(set(values) for values in found.values()))
    ordered = [m for m in dict.fromkeys(m for values in found.values() for m in values) if m in everywhere]
    if len(ordered) < 2:
        return None
    ranks = rank_values({m: [v[m] for v in found.values()] for m in ordered}, metric, list(found))
    gone = {m for values in _by_observation(results, metric, split).values() for m in values} - everywhere
    return MethodRanks(
        metric, ranks.table, ranks.observations, tuple(sorted(gone)), ranks.friedman, ranks.critical_difference
    )


def _by_observation(results: Sequence[Result], metric: str, split: str | None) -> dict[str, dict[str, float]]:
    """Observation to method to value."""
    own = [r for r in results if r.cell.benchmark == BENCHMARK and r.ok and metric in r.metrics]
    if split is not None:
        own = [r for r in own if r.cell.parameters["split"] == split]
    if any(r.cell.parameters["fold"] != "all" for r in own):
        own = [r for r in own if r.cell.parameters["fold"] != "all"]
    found: dict[str, dict[str, float]] = {}
    for result in own:
        cell = result.cell
        setting = {k: v for k, v in cell.parameters.items() if k != "method"}
        key = canonical_json([cell.dataset, cell.model, setting])
        found.setdefault(key, {})[cell.parameters["method"]] = result.metrics[metric]
    return found


def published_ranks(metric: str, split: str = "PS") -> MethodRanks:
    """Ranks over the five datasets of the paper's Table 3 ("zsl") or Table 6 ("ts", "tr", "H")."""
    return rank_values(published.observations(metric, split), metric, published.DATASETS)


def cross_dataset_test() -> PairedTTest:
    """The paired t-test that the paper describes under Table 4, from the printed figures."""
    return paired_t_test(*published.cross_dataset_pairs())


def robustness(results: Sequence[Result], metric: str = "zsl") -> dict[tuple[str, str, str, str], tuple[float, ...]]:
    """Fig. 3: (dataset, model, split, method) to the accuracy with parameters chosen on each fold alone."""
    found: dict[tuple[str, str, str, str], dict[Any, float]] = {}
    for result in results:
        cell = result.cell
        if cell.benchmark == BENCHMARK and result.ok and cell.parameters["fold"] != "all" and metric in result.metrics:
            key = (cell.dataset, cell.model, cell.parameters["split"], cell.parameters["method"])
            found.setdefault(key, {})[cell.parameters["fold"]] = result.metrics[metric]
    return {key: tuple(v for _, v in sorted(values.items())) for key, values in found.items()}


def harmonic_mismatches(tolerance: float = 0.1) -> list[tuple[str, str, float, float]]:
    """Cells of Table 6 whose H does not follow from ts and tr: (method, dataset, printed, recomputed)."""
    table, wrong = published.table(6), []
    for method in table.rows:
        for dataset in published.DATASETS:
            ts, tr, printed = (table.value(method, f"{dataset} {c}") for c in ("ts", "tr", "H"))
            if ts is None or tr is None or printed is None:
                continue
            recomputed = harmonic_mean(ts, tr)
            if abs(recomputed - printed) > tolerance:
                wrong.append((method, dataset, printed, recomputed))
    return wrong


def check_statements() -> list[Statement]:
    """What the paper says of Figs. 4 and 7, checked on the printed tables (which hold one choice, not three folds)."""
    ps, ss = published_ranks("zsl", "PS").table, published_ranks("zsl", "SS").table
    ts, tr, h = (published_ranks(metric).table for metric in ("ts", "tr", "H"))
    leaders = {name: set(table.methods[:3]) for name, table in (("ts", ts), ("H", h))}
    compatibility = {"ALE", "DEVISE", "SJE"}
    classifiers = {"DAP", "IAP", "CONSE"}
    return [
        Statement("GFZSL and ALE lead on PS (Fig. 4)", set(ps.methods[:2]) == {"GFZSL", "ALE"}, _order(ps)),
        Statement("GFZSL leads on SS, SYNC is second (Fig. 4)", ss.methods[:2] == ("GFZSL", "SYNC"), _order(ss)),
        Statement(
            "SYNC falls from SS to PS (Fig. 4: second to seventh)",
            ps.place("SYNC") > ss.place("SYNC"),
            f"place {ss.place('SYNC')} on SS, {ps.place('SYNC')} on PS",
        ),
        Statement("ALE, DEVISE and SJE lead on ts (Fig. 7)", leaders["ts"] == compatibility, _order(ts)),
        Statement("ALE, DEVISE and SJE lead on H (Fig. 7)", leaders["H"] == compatibility, _order(h)),
        Statement(
            "methods of attribute or object classifiers lead on tr (Fig. 7)",
            tr.methods[0] in classifiers and len(classifiers & set(tr.methods[:4])) >= 2,
            _order(tr, 4),
        ),
        Statement(
            "CMT* is better than CMT in all cases (Fig. 7)",
            all(t.place("CMT*") < t.place("CMT") for t in (ts, tr, h)),
            ", ".join(f"{n} {t.place('CMT*')} against {t.place('CMT')}" for n, t in (("ts", ts), ("tr", tr), ("H", h))),
        ),
    ]


def _order(table: RankTable, count: int = 3) -> str:
    pairs = zip(table.methods[:count], np.asarray(table.mean_ranks)[:count], strict=True)
    return ", ".join(f"{method} {rank:.1f}" for method, rank in pairs)
