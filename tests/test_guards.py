"""What must stay true of the package as a whole: its public names, its light import, its registries, its layers."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import unseen
from unseen.backbones import BACKBONES, model_cards
from unseen.benchmarks import BENCHMARKS, benchmark_cards, make_benchmark
from unseen.data import dataset_cards
from unseen.engines import ENGINES

PUBLIC = {
    "BENCHMARKS", "Backbone", "Benchmark", "Cell", "Dataset", "DatasetCard", "Extraction", "FeatureKey",
    "FeatureStore", "KnnProbe", "LinearProbe", "MethodCard", "ModelCard", "NearestMeanProbe", "Preprocessing",
    "Result", "ResultsDatabase", "RidgeProbe", "Split", "StoredFeatures", "Study", "UnseenError", "Workbench",
    "__version__", "dataset_cards", "evaluate_probe", "extract", "home", "load_backbone", "load_dataset",
    "make_engine", "model_cards", "plan_study", "rank_checkpoints", "register_backbone", "register_dataset",
    "run_study", "save_chart", "write_report",
}  # fmt: skip

HEAVY = ("torch", "onnxruntime", "onnx", "dask", "distributed", "altair", "timm", "torchvision", "sklearn", "scipy")


def test_the_public_names_are_pinned() -> None:
    """Adding a name is a decision; losing one breaks somebody."""
    assert set(unseen.__all__) == PUBLIC
    assert unseen.__all__ == sorted(unseen.__all__)


@pytest.mark.parametrize("name", sorted(PUBLIC))
def test_every_public_name_is_there(name: str) -> None:
    assert getattr(unseen, name) is not None


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        unseen.nothing  # noqa: B018


@pytest.mark.parametrize("statement", ["import unseen", "import unseen.cli.application", "import unseen.backbones"])
def test_imports_stay_light(statement: str) -> None:
    code = f"{statement}; import sys; print([m for m in {HEAVY!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_import_unseen_does_not_even_load_numpy() -> None:
    code = "import unseen, sys; print('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "False"


@pytest.mark.parametrize("registry", [BACKBONES, BENCHMARKS, ENGINES], ids=lambda r: r.kind)
def test_every_entry_of_a_registry_loads(registry: object) -> None:
    names = list(registry)  # type: ignore[call-overload]
    assert names
    for name in names:
        assert callable(registry.get(name))  # type: ignore[attr-defined]


def test_every_benchmark_can_be_made_and_planned() -> None:
    for name in BENCHMARKS:
        benchmark = make_benchmark(name, {})
        assert benchmark.question
        assert benchmark.name == name
    assert {card.id for card in benchmark_cards()} == set(BENCHMARKS)


def test_ids_of_cards_are_unique() -> None:
    for cards in (list(model_cards()), dataset_cards(), benchmark_cards()):
        ids = [card.id for card in cards]
        assert len(ids) == len(set(ids)) > 0


def test_every_module_has_a_docstring_and_imports() -> None:
    root = Path(unseen.__file__).parent
    for path in sorted(root.rglob("*.py")):
        name = ".".join(path.relative_to(root.parent).with_suffix("").parts).removesuffix(".__init__")
        if name.endswith("__main__"):
            continue
        module = importlib.import_module(name)
        assert (module.__doc__ or "").strip(), f"{name} has no docstring"


def test_the_layers_hold() -> None:
    """The contract of pyproject.toml, checked in the suite too."""
    root = Path(unseen.__file__).parents[2]
    if not (root / "pyproject.toml").is_file():
        pytest.skip("not a source checkout: there is no contract to check")
    command = [str(Path(sys.executable).parent / "lint-imports")]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
