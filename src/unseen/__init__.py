"""How well does a visual representation handle what it has never seen?

The public names of the package. Each is imported when first used, so that `import unseen` stays light: torch, ONNX
Runtime, Dask and Altair load when somebody needs them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from unseen.api import rank_checkpoints
    from unseen.backbones import Backbone, load_backbone, model_cards, register_backbone
    from unseen.benchmarks import BENCHMARKS, Benchmark, Workbench
    from unseen.core.errors import UnseenError
    from unseen.core.files import home
    from unseen.core.records import Cell, DatasetCard, FeatureKey, MethodCard, ModelCard, Preprocessing, Result
    from unseen.data import Dataset, Split, dataset_cards, load_dataset, register_dataset
    from unseen.engines import make_engine
    from unseen.features import Extraction, FeatureStore, StoredFeatures, extract
    from unseen.probes import KnnProbe, LinearProbe, NearestMeanProbe, RidgeProbe, evaluate_probe
    from unseen.reports import save_chart
    from unseen.results import ResultsDatabase
    from unseen.study import Study, plan_study, run_study, write_report

__version__ = "0.1.0"

#: public name -> the room it lives in
_ROOMS = {
    "BENCHMARKS": "benchmarks",
    "Backbone": "backbones",
    "Benchmark": "benchmarks",
    "Cell": "core.records",
    "Dataset": "data",
    "DatasetCard": "core.records",
    "Extraction": "features",
    "FeatureKey": "core.records",
    "FeatureStore": "features",
    "KnnProbe": "probes",
    "LinearProbe": "probes",
    "MethodCard": "core.records",
    "ModelCard": "core.records",
    "NearestMeanProbe": "probes",
    "Preprocessing": "core.records",
    "Result": "core.records",
    "ResultsDatabase": "results",
    "RidgeProbe": "probes",
    "Split": "data",
    "StoredFeatures": "features",
    "Study": "study",
    "UnseenError": "core.errors",
    "Workbench": "benchmarks",
    "dataset_cards": "data",
    "evaluate_probe": "probes",
    "extract": "features",
    "home": "core.files",
    "load_backbone": "backbones",
    "load_dataset": "data",
    "make_engine": "engines",
    "model_cards": "backbones",
    "plan_study": "study",
    "rank_checkpoints": "api",
    "register_backbone": "backbones",
    "register_dataset": "data",
    "run_study": "study",
    "save_chart": "reports",
    "write_report": "study",
}

__all__ = [
    "BENCHMARKS",
    "Backbone",
    "Benchmark",
    "Cell",
    "Dataset",
    "DatasetCard",
    "Extraction",
    "FeatureKey",
    "FeatureStore",
    "KnnProbe",
    "LinearProbe",
    "MethodCard",
    "ModelCard",
    "NearestMeanProbe",
    "Preprocessing",
    "Result",
    "ResultsDatabase",
    "RidgeProbe",
    "Split",
    "StoredFeatures",
    "Study",
    "UnseenError",
    "Workbench",
    "__version__",
    "dataset_cards",
    "evaluate_probe",
    "extract",
    "home",
    "load_backbone",
    "load_dataset",
    "make_engine",
    "model_cards",
    "plan_study",
    "rank_checkpoints",
    "register_backbone",
    "register_dataset",
    "run_study",
    "save_chart",
    "write_report",
]


def __getattr__(name: str) -> Any:
    if name not in _ROOMS:
        raise AttributeError(f"module 'unseen' has no attribute {name!r}")
    return getattr(import_module(f"unseen.{_ROOMS[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
