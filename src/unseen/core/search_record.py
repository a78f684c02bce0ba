"""Record a hyper-parameter search: failed candidates, and chosen values at the edge of their grid."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from unseen.core.findings import short_value
from unseen.core.run_record import Dropped, RunRecord, SearchRecord

#: Validation scores of a candidate; larger is better.
_SCORES = ("value", "accuracy", "validation")


def search_record(sweep: Sequence[Mapping[str, Any]], best: Mapping[str, Any]) -> RunRecord:
    """Return the record of a hyper-parameter search.

    Args:
        sweep: the candidates that were tried, as `Result.sweep` holds them; a failed one has the key "error".
        best: the chosen values by hyper-parameter.

    Returns:
        A record with the number of candidates, the failed ones with their reasons, and the hyper-parameters whose
        chosen value lies on the edge of its grid: it is the smallest or largest of at least three values, and no
        candidate with a value in between did as well. Neither of these is an edge: a count of 1 or 0 (neighbours,
        epochs), because there is no smaller one; any value of a search that sampled, where several hyper-parameters
        have a different value in every candidate.
    """
    if not sweep:
        return RunRecord()
    failed = tuple(
        Dropped("candidate", _setting(trial, best), str(trial["error"])) for trial in sweep if trial.get("error")
    )
    tried = {name: {trial[name] for trial in sweep if _is_number(trial.get(name))} for name in best}
    sampled = sum(len(values) == len(sweep) for values in tried.values()) > 1
    grids = {name: (min(values), max(values)) for name, values in tried.items() if len(values) >= 3 and not sampled}
    edges = {name: best[name] for name, grid in grids.items() if _is_edge(name, grid, sweep, best)}
    return RunRecord(dropped=failed, search=SearchRecord(len(sweep), edges, {name: grids[name] for name in edges}))


def _is_edge(name: str, grid: tuple[float, float], sweep: Sequence[Mapping[str, Any]], best: Mapping[str, Any]) -> bool:
    """Return whether the chosen value of a hyper-parameter lies on the edge of the values that were tried."""
    chosen, (low, high) = best[name], grid
    if chosen not in grid or (chosen == low and isinstance(chosen, int) and chosen in (0, 1)):
        return False
    own = next((t for t in sweep if all(t.get(key) == value for key, value in best.items())), None)
    between = [t for t in sweep if _is_number(t.get(name)) and low < t[name] < high and not t.get("error")]
    return own is None or not any(_is_as_good(trial, own) for trial in between)


def _is_as_good(trial: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Return whether a candidate was as good as another by its validation score, and by its loss if both have one."""
    score, reference = (next((t[key] for key in _SCORES if _is_number(t.get(key))), None) for t in (trial, other))
    if score is None or reference is None:
        return False
    loss, reference_loss = trial.get("log_loss"), other.get("log_loss")
    lower = loss is None or reference_loss is None or loss <= reference_loss
    return bool(score >= reference and lower)


def _setting(trial: Mapping[str, object], best: Mapping[str, object]) -> str:
    names = [name for name in trial if name in best] or [name for name in trial if name != "error"]
    return ", ".join(f"{name}={short_value(trial[name])}" for name in names)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
