"""Probes: cheap classifiers on frozen features, with the search that tunes them."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from unseen.probes.draws import Draw, draw_rows
    from unseen.probes.estimators import KnnProbe, LinearProbe, NearestMeanProbe, RidgeProbe
    from unseen.probes.evaluate import evaluate_probe
    from unseen.probes.outcome import ProbeResult, Trial
    from unseen.probes.protocol import SEEDS, SHOTS, Protocol
    from unseen.probes.rows import Rows
    from unseen.probes.solvers import Settings, solver_version

__all__ = [
    "SEEDS",
    "SHOTS",
    "Draw",
    "KnnProbe",
    "LinearProbe",
    "NearestMeanProbe",
    "ProbeResult",
    "Protocol",
    "RidgeProbe",
    "Rows",
    "Settings",
    "Trial",
    "draw_rows",
    "evaluate_probe",
    "solver_version",
]

_HOMES = {
    "SEEDS": "protocol",
    "SHOTS": "protocol",
    "Draw": "draws",
    "KnnProbe": "estimators",
    "LinearProbe": "estimators",
    "NearestMeanProbe": "estimators",
    "ProbeResult": "outcome",
    "Protocol": "protocol",
    "RidgeProbe": "estimators",
    "Rows": "rows",
    "Settings": "solvers",
    "Trial": "outcome",
    "draw_rows": "draws",
    "evaluate_probe": "evaluate",
    "solver_version": "solvers",
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first asked for: torch, Optuna and scikit-learn are not free."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
