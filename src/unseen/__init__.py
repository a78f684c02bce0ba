"""How well does a visual representation handle what it has never seen?

The public names of the package. Each is imported when first used, so that `import unseen` stays light: torch, ONNX
Runtime, Dask and Altair are imported on first use.
"""

from typing import TYPE_CHECKING

from unseen.core.registry import lazy_exports

__version__ = "0.2.0"

if TYPE_CHECKING:
    from unseen.api import ProbeCallback as ProbeCallback
    from unseen.api import compare as compare
    from unseen.api import evaluate as evaluate
    from unseen.api import evaluate_zeroshot as evaluate_zeroshot
    from unseen.api import extract as extract
    from unseen.api import load_results as load_results
    from unseen.api import rank as rank
    from unseen.api import rank_checkpoints as rank_checkpoints
    from unseen.backbones import Backbone as Backbone
    from unseen.backbones import load_backbone as load_backbone
    from unseen.backbones import model_cards as model_cards
    from unseen.backbones import register_backbone as register_backbone
    from unseen.benchmarks import BENCHMARKS as BENCHMARKS
    from unseen.benchmarks import Benchmark as Benchmark
    from unseen.benchmarks import Workbench as Workbench
    from unseen.core.errors import UnseenError as UnseenError
    from unseen.core.errors import UnseenWarning as UnseenWarning
    from unseen.core.files import home as home
    from unseen.core.records import Cell as Cell
    from unseen.core.records import DatasetCard as DatasetCard
    from unseen.core.records import FeatureKey as FeatureKey
    from unseen.core.records import MethodCard as MethodCard
    from unseen.core.records import ModelCard as ModelCard
    from unseen.core.records import Preprocessing as Preprocessing
    from unseen.core.records import Result as Result
    from unseen.data import Dataset as Dataset
    from unseen.data import Split as Split
    from unseen.data import dataset_cards as dataset_cards
    from unseen.data import load_dataset as load_dataset
    from unseen.data import register_dataset as register_dataset
    from unseen.features import Extraction as Extraction
    from unseen.features import FeatureStore as FeatureStore
    from unseen.features import StoredFeatures as StoredFeatures
    from unseen.probes import KnnProbe as KnnProbe
    from unseen.probes import LinearProbe as LinearProbe
    from unseen.probes import NearestMeanProbe as NearestMeanProbe
    from unseen.probes import RidgeProbe as RidgeProbe
    from unseen.probes import evaluate_probe as evaluate_probe
    from unseen.reports import save_chart as save_chart
    from unseen.results import ResultsDatabase as ResultsDatabase
    from unseen.run.execute import run_study as run_study
    from unseen.run.executor import make_engine as make_engine
    from unseen.run.record import write_report as write_report
    from unseen.run.study import Study as Study
    from unseen.run.study import plan_study as plan_study
else:
    __all__, __getattr__, __dir__ = lazy_exports(__name__)
