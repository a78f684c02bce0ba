"""Probes: cheap classifiers on frozen features, with the search that tunes them."""

from typing import TYPE_CHECKING

from unseen.core.registry import lazy_exports

if TYPE_CHECKING:
    from unseen.probes.estimators import KnnProbe as KnnProbe
    from unseen.probes.estimators import LinearProbe as LinearProbe
    from unseen.probes.estimators import NearestMeanProbe as NearestMeanProbe
    from unseen.probes.estimators import RidgeProbe as RidgeProbe
    from unseen.probes.evaluate import evaluate_probe as evaluate_probe
    from unseen.probes.outcome import ProbeResult as ProbeResult
    from unseen.probes.outcome import Trial as Trial
    from unseen.probes.rows import Rows as Rows
    from unseen.probes.sampling import Draw as Draw
    from unseen.probes.sampling import draw_rows as draw_rows
    from unseen.probes.solvers import SEEDS as SEEDS
    from unseen.probes.solvers import SHOTS as SHOTS
    from unseen.probes.solvers import Protocol as Protocol
    from unseen.probes.solvers import Settings as Settings
    from unseen.probes.solvers import solver_version as solver_version
else:
    __all__, __getattr__, __dir__ = lazy_exports(__name__)
