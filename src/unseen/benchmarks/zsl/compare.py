"""Methods compared over datasets: rank matrices and tests from results, and from the paper's own tables.

Paper:      Xian et al., TPAMI 2018, Figs. 3, 4, 7, 8 and Table 4 [P]
Shapes:     values (methods, observations)
Implements: an observation is one dataset and model, with parameters chosen on all validation folds or, as in Fig. 4 of
            [P], on one of them; these two are ranked apart, as are inductive and transductive methods, splits, test
            sets and all other settings. Friedman's test needs observations that are independent: it is made only where
            each is of another dataset
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from unseen.benchmarks.zsl import published
from unseen.core.errors import UsageError
from unseen.core.names import Name
from unseen.core.records import Cell, Result
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
from unseen.results import Group, comparable
from unseen.zeroshot.catalogue import load_method

METRICS = ("zsl", "ts", "tr", "H")
BENCHMARK = "zsl"
METHOD, FOLD = "method", "fold"
#: In a setting: whether parameters were chosen on all validation folds or on one.
CHOSEN = "parameters chosen on"
#: In a setting: whether methods may look at all test images together.
KIND = "methods"


@dataclass(frozen=True)
class MethodRanks:
    """How methods rank by one metric.

    Attributes:
        observations: what each column of the ranks is.
        left_out: methods without a value in every observation, and observations without most methods.
        friedman: None where there are too few methods or observations for a test, or two of one dataset.
        critical_difference: Nemenyi's, at `level`; None where there is no test.
        setting: what tells the results apart from others that they are not ranked with; "" where there are none.
    """

    metric: str
    table: RankTable
    observations: tuple[str, ...]
    left_out: tuple[str, ...]
    friedman: Friedman | None
    critical_difference: float | None
    level: float = 0.05
    setting: str = ""


@dataclass(frozen=True)
class Statement:
    """A sentence of the paper, and whether it follows from the printed numbers."""

    text: str
    holds: bool
    evidence: str


def rank_values(
    values: Mapping[str, Sequence[float]], metric: str, observations: Sequence[str], *, datasets: int | None = None
) -> MethodRanks:
    """Rank methods by values of equal length.

    Args:
        datasets: how many different datasets the observations are of; as many as there are observations by default.
    """
    table = rank_methods(list(values), list(values.values()))
    k, n = table.ranks.shape
    tested = k >= 3 and n >= 2 and datasets in (None, n)
    test, apart = (friedman_test(table), nemenyi_difference(k, n)) if tested else (None, None)
    return MethodRanks(metric, table, tuple(observations), (), test, apart)


def settings(
    results: Sequence[Result], axes: Sequence[str] = (METHOD, "dataset"), *, kinds: bool = True
) -> list[Group]:
    """Results that may be ranked together. Splits stand in a dataset's name and among the parameters: once is enough.

    Args:
        axes: what may vary beside the model.
        kinds: whether inductive and transductive methods are kept apart, as wherever one is better than another.
    """
    own = [result for result in results if result.cell.benchmark == BENCHMARK]

    def place(cell: Cell) -> dict[str, Any]:
        chosen = "all folds" if cell.parameters[FOLD] == "all" else "one fold"
        kind = "transductive" if is_transductive(cell.parameters[METHOD]) else "inductive"
        return {"dataset": plain_name(cell.dataset), CHOSEN: chosen} | ({KIND: kind} if kinds else {})

    return comparable(own, axes=(*axes, FOLD), over=(), place=place, datasets=("test_on",))


def is_transductive(method: str) -> bool:
    """Whether a method looks at all test images together; a plug-in that is gone is taken as one that does not."""
    try:
        return load_method(method).transductive
    except UsageError:
        return False


def plain_name(dataset: str) -> str:
    """A dataset, whatever the split and the features that stand in its name: features are the model's affair."""
    return str(Name.parse(dataset).without("split", "features"))


def ranks_by_setting(results: Sequence[Result], metric: str, split: str | None = None) -> list[MethodRanks]:
    """Ranks from results, setting by setting; settings with fewer than two methods to compare have none.

    In each, an observation that lacks methods which most have is left out, then a method that lacks an observation.
    """
    found = []
    for group in settings(results):
        if split is not None and group.setting["split"] != split:
            continue
        values: dict[str, dict[str, float]] = {}
        of_dataset: dict[str, str] = {}
        for result in group.results:
            cell = result.cell
            if metric in result.metrics:
                parts = [plain_name(cell.dataset), cell.model, f"fold {cell.parameters[FOLD]}"]
                name = " ".join(parts[: 2 if cell.parameters[FOLD] == "all" else 3])
                values.setdefault(name, {})[cell.parameters[METHOD]] = result.metrics[metric]
                of_dataset[name] = parts[0]
        if (ranks := _ranks(values, metric, of_dataset)) is not None:
            found.append(replace(ranks, setting=group.words))
    return found


def _ranks(values: Mapping[str, Mapping[str, float]], metric: str, of_dataset: Mapping[str, str]) -> MethodRanks | None:
    """Ranks from the values of methods by observation, or None for fewer than two methods."""
    most = max((len(of_methods) for of_methods in values.values()), default=0)
    kept = {name: of_methods for name, of_methods in values.items() if len(of_methods) == most}
    methods = list(dict.fromkeys(method for of_methods in values.values() for method in of_methods))
    everywhere = [method for method in methods if all(method in of_methods for of_methods in kept.values())]
    if len(everywhere) < 2:
        return None
    datasets = len({of_dataset[name] for name in kept})
    ranks = rank_values({m: [v[m] for v in kept.values()] for m in everywhere}, metric, list(kept), datasets=datasets)
    gone = [*sorted(set(methods) - set(everywhere)), *(name for name in values if name not in kept)]
    return replace(ranks, left_out=tuple(gone))


def rank_results(results: Sequence[Result], metric: str, split: str | None = None) -> MethodRanks | None:
    """Ranks from results of one setting, or None where fewer than two methods can be compared.

    Raises:
        UsageError: results of several settings, which are not ranked together: see `ranks_by_setting`.
    """
    found = ranks_by_setting(results, metric, split)
    if len(found) > 1:
        told = "; ".join(f"({number}) {ranks.setting}" for number, ranks in enumerate(found, 1))
        raise UsageError(f"these are results of {len(found)} settings, which are not ranked together: {told}.")
    return found[0] if found else None


def published_ranks(metric: str, split: str = "PS") -> MethodRanks:
    """Ranks over the five datasets of the paper's Table 3 ("zsl") or Table 6 ("ts", "tr", "H")."""
    return rank_values(published.observations(metric, split), metric, published.DATASETS)


def cross_dataset_test() -> PairedTTest:
    """The paired t-test that the paper describes under Table 4, from the printed figures."""
    return paired_t_test(*published.cross_dataset_pairs())


def robustness(results: Sequence[Result], metric: str = "zsl") -> dict[tuple[str, str, str, str], tuple[float, ...]]:
    """Fig. 3: (dataset, model, split, method) to the accuracy with parameters chosen on each fold alone.

    Raises:
        UsageError: a method has such results in several settings.
    """
    found: dict[tuple[str, str, str, str], dict[Any, float]] = {}
    alone = [r for r in results if r.cell.benchmark == BENCHMARK and r.cell.parameters[FOLD] != "all"]
    for group in settings(alone):
        before = set(found)
        for result in group.results:
            cell = result.cell
            key = (cell.dataset, cell.model, cell.parameters["split"], cell.parameters[METHOD])
            if key in before:
                raise UsageError(f"folds of {key[3]} on {key[0]} were run in several settings; one is: {group.words}.")
            if metric in result.metrics:
                found.setdefault(key, {})[cell.parameters[FOLD]] = result.metrics[metric]
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
