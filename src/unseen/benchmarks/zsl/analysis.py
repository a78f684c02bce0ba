"""Methods compared over datasets: rank matrices and tests, from results and from the paper's own tables.

Paper:      Xian et al., TPAMI 2018, Figs. 3, 4, 7, 8 and Table 4 with its paired t-test [P]
Shapes:     values (methods, observations)
Implements: an observation is one dataset and model, with parameters chosen on all validation folds or, as in Fig. 4 of
            [P], on one of them; these two are ranked separately, as are inductive and transductive methods, splits,
            test sets and all other settings. Friedman's test needs independent observations: it is computed only if
            each is of another dataset
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from unseen.benchmarks.zsl.details import BENCHMARK, ZslParameters, parameters_of
from unseen.benchmarks.zsl.published import published_results, table
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
METHOD, FOLD = "method", "fold"
#: In a setting: whether parameters were chosen on all validation folds or on one.
CHOSEN = "parameters chosen on"
#: In a setting: whether methods see all test images together.
KIND = "methods"
_LEVEL = 0.05


@dataclass(frozen=True)
class MethodRanks:
    """Ranks of methods by one metric.

    Attributes:
        observations: the names of the columns of the ranks.
        left_out: methods without a value in every observation, and observations without most methods.
        friedman: None if there are too few methods or observations for a test, or two of one dataset.
        critical_difference: Nemenyi's, at the level 0.05; None if there is no test.
        setting: what distinguishes the results from others that they are not ranked with; "" if there are none.
    """

    metric: str
    table: RankTable
    observations: tuple[str, ...]
    left_out: tuple[str, ...] = ()
    friedman: Friedman | None = None
    critical_difference: float | None = None
    setting: str = ""

    @property
    def test_text(self) -> str:
        """Return the result of Friedman's test, or why there is none."""
        if self.friedman is None or self.critical_difference is None:
            several = self.table.ranks.shape[1] > 1 and len(self.table.methods) > 2
            return "No test: several observations are of one dataset." if several else ""
        test = self.friedman
        return (
            f"Friedman chi-square {test.statistic:.1f}, p = {test.p_value:.2g} (Iman-Davenport p = "
            f"{test.f_p_value:.2g}); mean ranks {self.critical_difference:.2f} apart differ at {_LEVEL:.0%} (Nemenyi)."
        )


@dataclass(frozen=True)
class Statement:
    """A sentence of the paper, and whether it follows from the printed numbers."""

    text: str
    holds: bool
    evidence: str


def settings(
    results: Sequence[Result], axes: Sequence[str] = (METHOD, "dataset"), *, kinds: bool = True
) -> list[Group]:
    """Return groups of results that may be ranked together; the split counts once, not in the dataset's name too.

    Args:
        axes: what may vary in addition to the model.
        kinds: whether inductive and transductive methods are in different groups.
    """
    own = [result for result in results if result.cell.benchmark == BENCHMARK]

    def place(cell: Cell) -> dict[str, Any]:
        parameters = ZslParameters.read(cell.parameters)
        chosen = "all folds" if parameters.on_all_folds else "one fold"
        kind = "transductive" if _is_transductive(parameters.method) else "inductive"
        return {"dataset": plain_name(cell.dataset), CHOSEN: chosen} | ({KIND: kind} if kinds else {})

    return comparable(own, axes=(*axes, FOLD), over=(), place=place, datasets=("test_on",))


def main_settings(results: Sequence[Result], axis: str) -> list[Group]:
    """Return settings with parameters chosen on all folds; datasets and `axis` may differ within one."""
    return [group for group in settings(results, (METHOD, "dataset", axis), kinds=False) if on_all_folds(group)]


def on_all_folds(group: Group) -> bool:
    """Return whether the parameters of a setting were chosen on all validation folds."""
    return bool(group.setting[CHOSEN] == "all folds")


def _is_transductive(method: str) -> bool:
    """Return whether a method sees all test images together; False for a plug-in that is not installed."""
    try:
        return load_method(method).transductive
    except UsageError:
        return False


def plain_name(dataset: str) -> str:
    """Return the name of a dataset without its split and features, which are separate settings."""
    return str(Name.parse(dataset).without("split", "features"))


def short_name(dataset: str) -> str:
    """Return the name of a dataset in the paper: AWA1 for `xlsa17:AWA1?root=...`."""
    return Name.parse(plain_name(dataset)).rest.rpartition("/")[2] or plain_name(dataset)


# ---- ranks -----------------------------------------------------------------------------------------------------------


def rank_values(
    values: Mapping[str, Sequence[float]], metric: str, observations: Sequence[str], *, datasets: int | None = None
) -> MethodRanks:
    """Rank methods by values of equal length.

    Args:
        datasets: number of different datasets of the observations; by default as many as there are observations.
    """
    ranks = rank_methods(list(values), list(values.values()))
    k, n = ranks.ranks.shape
    found = MethodRanks(metric, ranks, tuple(observations))
    if k < 3 or n < 2 or datasets not in (None, n):
        return found
    return replace(found, friedman=friedman_test(ranks), critical_difference=nemenyi_difference(k, n))


def ranks_by_setting(results: Sequence[Result], metric: str, split: str | None = None) -> list[MethodRanks]:
    """Return ranks per setting; a setting with fewer than two methods has none.

    An observation without the methods that most observations have is dropped, then a method without all observations.
    """
    found = []
    for group in settings(results):
        if split is not None and group.setting["split"] != split:
            continue
        values: dict[str, dict[str, float]] = {}
        datasets: dict[str, str] = {}
        for result in group.results:
            parameters = parameters_of(result)
            if metric in result.metrics:
                dataset = plain_name(result.cell.dataset)
                name = f"{dataset} {result.cell.model}"
                name += "" if parameters.on_all_folds else f" fold {parameters.fold}"
                values.setdefault(name, {})[parameters.method] = result.metrics[metric]
                datasets[name] = dataset
        most = max(map(len, values.values()), default=0)
        full = {name: by_method for name, by_method in values.items() if len(by_method) == most}
        methods = dict.fromkeys(method for by_method in values.values() for method in by_method)
        common = [method for method in methods if all(method in by_method for by_method in full.values())]
        if len(common) < 2:
            continue
        columns = {method: [by_method[method] for by_method in full.values()] for method in common}
        ranks = rank_values(columns, metric, list(full), datasets=len({datasets[name] for name in full}))
        dropped = (*sorted(set(methods) - set(common)), *(name for name in values if name not in full))
        found.append(replace(ranks, left_out=dropped, setting=group.words))
    return found


def published_ranks(metric: str, split: str = "PS") -> MethodRanks:
    """Return ranks over the five datasets of the paper's Table 3 ("zsl") or Table 6 ("ts", "tr", "H")."""
    results = [result for (home, target, *_), result in published_results().items() if home == target]
    (found,) = ranks_by_setting(results, metric, split)
    return found


# ---- tests and statements --------------------------------------------------------------------------------------------


def cross_dataset_tests(results: Sequence[Result]) -> list[tuple[str, PairedTTest]]:
    """Return the paired t-test of Table 4 per setting: the same method and test set, trained there or elsewhere."""
    found = []
    for group in main_settings(results, "test_on"):
        at_home: dict[tuple[str, str, str], float] = {}
        elsewhere: list[tuple[tuple[str, str, str], float]] = []
        for result in group.results:
            parameters = parameters_of(result)
            key = (plain_name(parameters.test_on or result.cell.dataset), result.cell.model, parameters.method)
            if parameters.test_on:
                elsewhere.append((key, result.metrics["zsl"]))
            else:
                at_home[key] = result.metrics["zsl"]
        pairs = [(value, at_home[key]) for key, value in elsewhere if key in at_home]
        if len(pairs) > 1:
            found.append((group.words, paired_t_test([a for a, _ in pairs], [b for _, b in pairs])))
    return found


def cross_dataset_test() -> PairedTTest:
    """Return the paired t-test that the paper describes under Table 4: trained on AWA1 against trained on AWA2."""
    first, second = (
        [
            published_results()[home, target, method, "PS"].metrics["zsl"]
            for target in ("AWA2", "AWA1")
            for method in table(4).rows
        ]
        for home in ("AWA1", "AWA2")
    )
    return paired_t_test(first, second)


def harmonic_mismatches(tolerance: float = 0.1) -> list[tuple[str, str, float, float]]:
    """Return cells of Table 6 whose H does not follow from ts and tr: (method, dataset, printed, recomputed)."""
    found = []
    for (dataset, _, method, _), result in published_results().items():
        if "H" in result.metrics:
            ts, tr, printed = (round(100 * result.metrics[name], 1) for name in ("ts", "tr", "H"))
            recomputed = harmonic_mean(ts, tr)
            found += [(method, dataset, printed, recomputed)] if abs(recomputed - printed) > tolerance else []
    return found


def check_statements() -> list[Statement]:
    """Check the paper's statements on Figs. 4 and 7 with its tables, which have one choice of parameters, not three."""
    ps, ss = published_ranks("zsl", "PS").table, published_ranks("zsl", "SS").table
    ts, tr, h = (published_ranks(metric).table for metric in ("ts", "tr", "H"))
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
        Statement("ALE, DEVISE and SJE lead on ts (Fig. 7)", set(ts.methods[:3]) == compatibility, _order(ts)),
        Statement("ALE, DEVISE and SJE lead on H (Fig. 7)", set(h.methods[:3]) == compatibility, _order(h)),
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


def _order(ranks: RankTable, count: int = 3) -> str:
    pairs = zip(ranks.methods[:count], np.asarray(ranks.mean_ranks)[:count], strict=True)
    return ", ".join(f"{method} {rank:.1f}" for method, rank in pairs)
