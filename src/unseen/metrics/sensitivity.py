"""How much each hyper-parameter matters, from the trials of a search.

Paper:      Zhai et al., 2019 [P], Appendix I, Figures 8 to 13
Implements: per hyper-parameter the best value, the values of all trials within 2 points of the best, and the scores by
            value for a violin plot
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from unseen.core.errors import DataError

#: What a trial records beside its hyper-parameters.
_SCORE = "accuracy"
_OUTCOMES = (_SCORE, "log_loss", "note", "seconds", "state", "index", "number", "reason", "error", "forward_images")
_RANGES = 4
#: How far from the best is still good.
_GOOD = 0.02
#: Numbers with more different values than this count as continuous.
_DISCRETE = 8


@dataclass(frozen=True)
class Sensitivity:
    """One hyper-parameter over the trials of a search.

    Attributes:
        best: its value in the best trial.
        good: its values in the trials within the margin of the best, sorted, each once.
        tried: all its values, sorted, each once.
        scores: for discrete hyper-parameters, the scores of the trials by value; empty for continuous ones.
        binned: for continuous ones, the scores by four ranges of equal width, logarithmic where all values are
            positive; empty for discrete ones, and ranges without a trial are left out.
    """

    name: str
    best: Any
    good: tuple[Any, ...]
    tried: tuple[Any, ...]
    scores: Mapping[Any, tuple[float, ...]]
    binned: Mapping[str, tuple[float, ...]] = field(default_factory=dict)


def sensitivities(trials: Sequence[Mapping[str, Any]]) -> dict[str, Sensitivity]:
    """Return the sensitivity of every hyper-parameter that took more than one value.

    Args:
        trials: settings with their "accuracy", a fraction; a setting may lack hyper-parameters that others have.
    """
    valid = [t for t in trials if isinstance(t.get(_SCORE), float | int) and np.isfinite(t[_SCORE])]
    if not valid:
        raise DataError(f"no trial has a finite {_SCORE!r}: there is nothing to learn from this search.")
    top = max(valid, key=lambda t: t[_SCORE])
    found = {}
    for name in dict.fromkeys(k for t in valid for k in t if k not in _OUTCOMES):
        pairs = [(t[name], float(t[_SCORE])) for t in valid if t.get(name) is not None]
        tried = _distinct(value for value, _ in pairs)
        if len(tried) > 1:
            good = _distinct(value for value, own in pairs if own >= top[_SCORE] - _GOOD)
            numeric = all(isinstance(v, int | float) and not isinstance(v, bool) for v in tried)
            continuous = numeric and len(tried) > _DISCRETE
            scores = {} if continuous else {v: tuple(own for value, own in pairs if value == v) for v in tried}
            found[name] = Sensitivity(name, top.get(name), good, tried, scores, _binned(pairs) if continuous else {})
    return found


def _binned(pairs: Sequence[tuple[float, float]]) -> dict[str, tuple[float, ...]]:
    values = np.array([value for value, _ in pairs], np.float64)
    spaced = np.geomspace if values.min() > 0 else np.linspace
    edges = spaced(values.min(), values.max(), _RANGES + 1)
    places = np.digitize(values, edges[1:-1]).tolist()
    return {
        f"{edges[k]:.1g} to {edges[k + 1]:.1g}": tuple(
            s for place, (_, s) in zip(places, pairs, strict=True) if place == k
        )
        for k in sorted(set(places))
    }


def _distinct(values: Iterable[object]) -> tuple[object, ...]:
    return tuple(sorted(set(values), key=lambda v: (isinstance(v, str), v)))
