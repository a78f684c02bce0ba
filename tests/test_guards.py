"""What must stay true of the package as a whole: its public names, its light import, its registries, its layers."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

import unseen
from unseen.backbones import BACKBONES, model_cards
from unseen.benchmarks import BENCHMARKS, benchmark_cards, make_benchmark
from unseen.core.registry import Registry
from unseen.data import dataset_cards
from unseen.data.load import SOURCES
from unseen.engines import ENGINES
from unseen.finetuning import ADAPTATIONS, adaptation_cards
from unseen.ranking.cards import REGISTRY as SCORES
from unseen.ranking.cards import score_cards
from unseen.zeroshot.catalogue import METHODS, method_cards

PUBLIC = {
    "BENCHMARKS", "Backbone", "Benchmark", "Cell", "Dataset", "DatasetCard", "Extraction", "FeatureKey",
    "FeatureStore", "KnnProbe", "LinearProbe", "MethodCard", "ModelCard", "NearestMeanProbe", "Preprocessing",
    "ProbeCallback", "Result", "ResultsDatabase", "RidgeProbe", "Split", "StoredFeatures", "Study", "UnseenError",
    "UnseenWarning", "Workbench",
    "__version__", "compare", "dataset_cards", "evaluate", "evaluate_probe", "evaluate_zeroshot", "extract", "home",
    "load_backbone", "load_dataset", "load_results", "make_engine", "model_cards", "plan_study", "rank",
    "rank_checkpoints", "register_backbone", "register_dataset",
    "run_study", "save_chart", "write_report",
}  # fmt: skip

HEAVY = ("torch", "onnxruntime", "onnx", "dask", "distributed", "altair", "timm", "torchvision", "sklearn", "scipy")


def test_the_public_names_are_pinned() -> None:
    """Adding a name is a decision; losing one breaks a user's program."""
    assert set(unseen.__all__) == PUBLIC
    assert unseen.__all__ == sorted(unseen.__all__)


@pytest.mark.parametrize("name", sorted(PUBLIC))
def test_every_public_name_is_there(name: str) -> None:
    assert getattr(unseen, name) is not None


def test_no_public_name_is_also_a_room_or_a_module() -> None:
    """An import of the module `unseen.home` would otherwise replace the function `unseen.home`."""
    root = Path(unseen.__file__).parent
    modules = {path.stem for path in root.glob("*.py")} | {path.parent.name for path in root.glob("*/__init__.py")}
    assert not modules & set(unseen.__all__)
    for name in sorted(modules - {"__init__", "__main__"}):
        assert importlib.import_module(f"unseen.{name}") is getattr(unseen, name)
    assert callable(unseen.home) and unseen.home("here") == Path("here")


ROOMS = ("backbones", "benchmarks", "concepts", "data", "features", "metrics", "probes", "ranking",
         "reports", "results", "stats", "testing", "zeroshot")  # fmt: skip


@pytest.mark.parametrize("room", ROOMS)
def test_every_name_of_a_room_is_there_and_is_no_module(room: str) -> None:
    """Also where all its modules have been imported first, each of which then stands under its own name."""
    package = importlib.import_module(f"unseen.{room}")
    for path in Path(str(package.__file__)).parent.glob("*.py"):
        importlib.import_module(f"unseen.{room}.{path.stem}" if path.stem != "__init__" else f"unseen.{room}")
    assert package.__all__
    assert set(package.__all__) <= set(dir(package))
    for name in package.__all__:
        assert not inspect.ismodule(getattr(package, name)), name


#: Names of rooms that earlier versions promised.
PROMISED = {
    "concepts": "audit_classes build_levels load_wordnet match_classes read_taxonomy similarity_matrix MEASURES",
    "probes": "evaluate_probe LinearProbe RidgeProbe KnnProbe NearestMeanProbe SEEDS SHOTS",
    "zeroshot": "METHODS ESZSL SAE ALE GFZSL evaluate_method tune method_cards",
    "ranking": "SCORES find_score score_value score_flops finetune_flops nleep leep logme gbc parc",
    "metrics": "accuracy kendall_tau harmonic_mean mcnemar paired_bootstrap over_seeds mean_per_class_accuracy",
    "stats": "accuracy_interval per_class_interval paired_difference decide Decision Candidate Interval Difference",
    "features": "Extraction FeatureStore FeatureRows StoredFeatures extract",
}


@pytest.mark.parametrize("room", PROMISED)
def test_what_rooms_promised_stays(room: str) -> None:
    package = importlib.import_module(f"unseen.{room}")
    assert set(PROMISED[room].split()) <= set(package.__all__)


def test_functions_outside_the_public_api_take_at_most_seven_parameters() -> None:
    """Public are names that packages export or docs import, and commands, whose parameters are options."""
    root = Path(unseen.__file__).parent
    if not (docs := root.parents[1] / "docs").is_dir():
        pytest.skip("not a source checkout")
    public = set(unseen.__all__)
    for package in sorted(root.glob("*/__init__.py")):
        public |= set(getattr(importlib.import_module(f"unseen.{package.parent.name}"), "__all__", ()))
    for page in docs.rglob("*.md"):
        for names in re.findall(r"from unseen[\w.]* import ([\w, ]+)", page.read_text(encoding="utf-8")):
            public |= set(names.split(", "))
    found = []
    for path in root.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            for inner in node.body if isinstance(node, ast.Module | ast.ClassDef) else ():
                if not isinstance(inner, ast.FunctionDef):
                    continue
                name = node.name if isinstance(node, ast.ClassDef) else inner.name
                several = [*inner.args.posonlyargs, *inner.args.args, *inner.args.kwonlyargs]
                texts = [ast.unparse(each) for each in several if each.arg not in ("self", "cls")]
                is_command = any(text.partition(": ")[2].startswith("Annotated[") for text in texts)
                if len(texts) > 7 and name not in public and not is_command:
                    found.append(f"{path.relative_to(root)}: {name} ({len(texts)})")
    assert not found


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        unseen.nothing  # noqa: B018


@pytest.mark.parametrize(
    "statement",
    [
        "import unseen",
        "import unseen.cli.application",
        "import unseen.backbones",
        "import unseen.testing",
        # What the help of a command, and a plan, are made from.
        "import unseen.study; from unseen.benchmarks import BENCHMARKS; dict(BENCHMARKS.entries())",
    ],
)
def test_imports_stay_light(statement: str) -> None:
    code = f"{statement}; import sys; print([m for m in {HEAVY!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_import_unseen_does_not_even_load_numpy() -> None:
    code = "import unseen, sys; print('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "False"


@pytest.mark.parametrize(
    "registry", [ADAPTATIONS, BACKBONES, BENCHMARKS, ENGINES, METHODS, SCORES, SOURCES], ids=lambda r: r.kind
)
def test_every_entry_of_a_registry_loads(registry: Registry[object]) -> None:
    assert len(registry)
    for name, found in registry.entries():
        assert not isinstance(found, Exception), f"{name}: {found}"


@pytest.mark.parametrize(
    "registry", [ADAPTATIONS, BACKBONES, BENCHMARKS, ENGINES, METHODS, SCORES, SOURCES], ids=lambda r: r.kind
)
def test_every_registry_takes_plug_ins_and_lists_broken_ones(
    registry: Registry[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert registry.entry_point_group and registry.entry_point_group.startswith("unseen.")
    monkeypatch.setattr(registry, "_targets", dict(registry._targets))
    registry.add("broken", "no_such_package:thing")
    for cards in (model_cards, dataset_cards, benchmark_cards, method_cards, score_cards, adaptation_cards):
        notes = {card.id: card.notes for card in cards()}
        if "broken" in notes:
            assert "No module named 'no_such_package'" in notes["broken"]
            break
    else:
        assert registry is ENGINES  # engines are not listed


def test_every_benchmark_can_be_made_and_planned() -> None:
    for name in BENCHMARKS:
        benchmark = make_benchmark(name, {})
        assert benchmark.info.question
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


#: Functions that may catch every exception without raising another one, and why.
BOUNDARIES = {
    "run/evaluate.py": {"run_piece", "evaluate_group"},  # workers: the run reports the reason
    "run/extract.py": {"describe_features", "extract_batch"},
    "run/execute.py": {"_pieces"},  # code of a benchmark, as in a worker: the run warns
    "benchmarks/rank/protocol.py": {"_one"},  # one cell: the reason and the traceback are in its result
    "run/executor.py": {"_portable"},  # an exception that cannot be pickled is sent as text
    "core/registry.py": {"cards"},  # plug-ins: the list shows the reason
    "finetuning/data.py": {"__getitem__"},  # sent from a worker, raised in the process that trains
    "data/adapters.py": {"_is_random", "_without_transform"},  # code of a user's dataset, which reading runs again
}


def test_exceptions_are_swallowed_only_at_boundaries() -> None:
    """Elsewhere `except Exception` must raise another error, and `suppress(Exception)` hides programming errors."""
    root, found = Path(unseen.__file__).parent, dict[str, set[str]]()
    for path in root.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        assert "suppress(Exception)" not in text, path
        for function in ast.walk(ast.parse(text)):
            if not isinstance(function, ast.FunctionDef):
                continue
            for handler in ast.walk(function):
                if not isinstance(handler, ast.ExceptHandler) or ast.unparse(handler.type or ast.Pass()) != "Exception":
                    continue
                if not any(isinstance(each, ast.Raise) for each in ast.walk(handler)):
                    found.setdefault(path.relative_to(root).as_posix(), set()).add(function.name)
    assert found == BOUNDARIES
