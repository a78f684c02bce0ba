"""Studies: models x datasets x benchmarks, checked before any work; their cells, and which have results already."""

from __future__ import annotations

import tomllib
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import InitVar, dataclass, field, replace
from importlib.resources import files
from pathlib import Path
from typing import Any

from unseen.backbones.load import check_backbone, expand_models, resolve_model
from unseen.benchmarks.benchmark import Benchmark, group_cells, make_benchmark
from unseen.benchmarks.workbench import GIVEN, Workbench, given_models
from unseen.core.errors import StudyError, UnknownNameError, UnseenError, suggest
from unseen.core.files import home as home_folder
from unseen.core.guard import guarded
from unseen.core.identity import make_options, parameters_of
from unseen.core.records import Cell, MethodCard
from unseen.core.registry import OBJECT_SCHEME, load_object
from unseen.data.load import expand_datasets, resolve_dataset
from unseen.features import Extraction
from unseen.results import FILE_NAME, ResultsDatabase

_KEYS = ("name", "title", "models", "datasets", "benchmarks", "extraction")

#: One benchmark's options, a list of them, or benchmarks that are made already.
Benchmarks = Mapping[str, Mapping[str, Any] | Sequence[Mapping[str, Any]]] | Sequence[Benchmark]


@dataclass(frozen=True)
class Study:
    """Models x datasets x benchmarks; names, types and choices are checked. Relative paths start at `base`.

    Attributes:
        name: stored with the results.
        models, datasets: names, or paths of checkpoints and folders. In Python also objects, as `unseen.evaluate`
            accepts them: they are registered under names of their content for the lifetime of the study.
        benchmarks: name to options (or to several tables of options), or benchmarks.
        extraction: settings of the feature extraction, or a table of them.
        title: title of the report.
        base: folder of the study file; the current one by default.
        source: name of the study file in error messages.
    """

    name: str
    models: tuple[str, ...]
    datasets: tuple[str, ...]
    benchmarks: Benchmarks = field(default_factory=lambda: {"probe": {}})
    extraction: Extraction = field(default_factory=Extraction)
    title: str = ""
    base: InitVar[Path | None] = None
    source: InitVar[str] = "study"

    def __post_init__(self, base: Path | None, source: str) -> None:
        base = base or Path()
        for key in ("name", "title"):
            if not isinstance(getattr(self, key), str):
                raise StudyError(f"{source}: {key} must be a text, not {type(getattr(self, key)).__name__}.")
        settings: Any = self.extraction
        extraction: Extraction = settings
        if not isinstance(settings, Extraction):
            extraction = make_options(Extraction, settings, source=f"{source} [extraction]", base=base)
        if extraction.graphs is not None:
            extraction = replace(extraction, graphs=base / extraction.graphs)
        checked = {
            "models": _names(self, "models", source, base),
            "datasets": _names(self, "datasets", source, base),
            "benchmarks": tuple(_benchmarks(self.benchmarks, source, base)),
            "extraction": extraction,
        }
        for key, value in checked.items():
            object.__setattr__(self, key, value)

    @property
    def protocols(self) -> tuple[Benchmark, ...]:
        """The benchmarks as objects."""
        return tuple(each for each in self.benchmarks if isinstance(each, Benchmark))

    @classmethod
    def read(cls, path: Path | str) -> Study:
        """Return the study in a TOML file, or a shipped study by its name; paths in the file are relative to it."""
        path = Path(path)
        if not path.exists() and str(path) in shipped_studies():
            path = Path(str(files("unseen.studies") / f"{path}.toml"))
        try:
            values = tomllib.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise StudyError(f"no study file at {path}. {suggest(str(path), shipped_studies())}") from None
        except (OSError, ValueError, RecursionError) as error:
            raise StudyError(f"{path} is not a TOML file: {error}.") from error
        with guarded(path, "a study", error=StudyError):
            return cls.parse(values, source=str(path), base=path.parent)

    @classmethod
    def parse(cls, values: Mapping[str, Any], *, source: str = "study", base: Path | None = None) -> Study:
        """Return the study in a table, as a TOML file contains it."""
        for key in values:
            if key not in _KEYS:
                raise StudyError(f"{source}: unknown key {key!r}. {suggest(key, _KEYS)}")
        return cls(**{"name": Path(source).stem, "models": (), "datasets": (), **values}, base=base, source=source)


def shipped_studies() -> list[str]:
    """Return the names of the shipped study files."""
    return sorted(f.name.removesuffix(".toml") for f in files("unseen.studies").iterdir() if f.name.endswith(".toml"))


def study_cards() -> list[MethodCard]:
    """Return the cards of the shipped studies, for `unseen ls studies`."""
    cards = []
    for name in shipped_studies():
        values = tomllib.loads((files("unseen.studies") / f"{name}.toml").read_text(encoding="utf-8"))
        sizes = f"{len(values['models'])} models, {len(values['datasets'])} datasets"
        notes = f"{sizes}: {', '.join(values.get('benchmarks', {'probe': {}}))}"
        cards.append(MethodCard(id=name, name=values.get("title", name), group="study", notes=notes))
    return cards


#: What a TOML file contains, which is not a model and no dataset.
_PLAIN = (str, bytes, int, float, dict, list, type(None))


def _register(study: Study, value: object, key: str) -> Any:
    if isinstance(value, Path):
        return str(value)
    registered = isinstance(value, str) and value.startswith(f"{OBJECT_SCHEME}:")
    if isinstance(value, _PLAIN) and not registered:
        return value
    module = "unseen.backbones.objects" if key == "models" else "unseen.data.adapters"  # imports torch
    objects, name = load_object(f"{module}:OBJECTS"), value
    if registered:  # by another study, which may be deleted before this one
        if not objects.retain(name):
            return name
    elif key == "models":
        name = objects.add(load_object(f"{module}:as_backbone")(value))
    else:
        name = objects.add(value if hasattr(value, "splits") else load_object(f"{module}:as_dataset")(value))
    weakref.finalize(study, objects.release, name)
    return name


def _benchmarks(benchmarks: Benchmarks, source: str, base: Path) -> Iterator[Benchmark]:
    if isinstance(benchmarks, list | tuple) and all(isinstance(each, Benchmark) for each in benchmarks):
        yield from benchmarks
        return
    if not isinstance(benchmarks, Mapping):
        raise StudyError(f"{source}: write each benchmark as a table, such as [benchmarks.probe].")
    for name, options in benchmarks.items():
        tables = options if isinstance(options, list | tuple) else [options]
        for table in tables:
            if not isinstance(table, Mapping):
                raise StudyError(f"{source}: write each benchmark as a table, [benchmarks.{name}].")
            yield make_benchmark(name, table, source=f"{source} [benchmarks.{name}]", base=base)
    if not benchmarks:
        raise StudyError(f"{source}: no benchmark is named. Write [benchmarks.probe], or leave benchmarks out.")


_LOOKUPS = {"models": (expand_models, resolve_model), "datasets": (expand_datasets, resolve_dataset)}


def _names(study: Study, key: str, source: str, base: Path) -> tuple[str, ...]:
    """Return the names of the models or datasets of a study.

    Objects are registered until the study is deleted; patterns such as `timm:*dino*` become the names that match.
    """
    values: Any = getattr(study, key)
    values = values if isinstance(values, list | tuple) else [values]
    expand, resolve = _LOOKUPS[key]
    found = [_register(study, value, key) for value in values]
    found = [each for name in found for each in (expand(name) if isinstance(name, str) else [name])]
    if not found or not all(isinstance(name, str) and name for name in found):
        raise StudyError(f'{source}: {key} must be a list of names, such as {key} = ["packaged:..."].')
    resolved = [resolve(name, base) for name in found]
    doubled = [name for i, name in enumerate(resolved) if name in resolved[:i]]
    if doubled:
        raise StudyError(f"{source}: {doubled[0]!r} stands twice in {key}. Remove one.")
    return tuple(resolved)


# ---- the plan --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Plan:
    """The cells of a study.

    Attributes:
        cells: all cells, ordered by model, dataset and benchmark.
        done: ids of the cells that have a result.
        groups: the other cells, each group with its benchmark; the cells of a group have one model and one dataset.
    """

    study: Study
    cells: tuple[Cell, ...]
    done: frozenset[str]
    groups: tuple[tuple[Benchmark, tuple[Cell, ...]], ...] = ()

    @property
    def remaining(self) -> list[Cell]:
        """The cells without a result."""
        return [cell for cell in self.cells if cell.id not in self.done]


def plan_study(
    study: Study,
    home: Path | None = None,
    *,
    bench: Workbench | None = None,
    database: ResultsDatabase | None = None,
) -> Plan:
    """Return every cell of the study, ordered by model, dataset, benchmark; check all names and load no model.

    Args:
        home: folder of features and results; the user's by default.
        bench: a workbench of this home that has loaded datasets already.
        database: the results of the home if they are open already: a process opens them once.

    Raises:
        UnseenError: a model, dataset, file or option that does not exist or does not fit.
    """
    bench = bench or Workbench(home_folder(home), how=study.extraction)
    for dataset in study.datasets:
        for benchmark in study.protocols:
            if not benchmark.only or dataset in benchmark.only:
                data = bench.dataset(dataset)
                benchmark.suited(data).check(data)
    for model in study.models:
        check_backbone(model)
    planned = list(_cells_by_benchmark(study, bench))
    cells = tuple(cell for _, some in planned for cell in some)
    with ResultsDatabase(bench.home / FILE_NAME) if database is None else nullcontext(database) as opened:
        done = frozenset(opened.done(cells))
    groups = [
        (benchmark, tuple(group))
        for benchmark, some in planned
        for group in group_cells(cell for cell in some if cell.id not in done)
    ]
    return Plan(study, cells, done, tuple(groups))


def count_images(plan: Plan, bench: Workbench) -> tuple[int, int]:
    """Return how many images the remaining cells need from their models, and for how many the features are cached.

    An image counts once for each model. A group of cells whose features cannot be determined counts nothing: its
    evaluation reports the reason.
    """
    found: dict[tuple[str, ...], tuple[int, bool]] = {}
    for benchmark, group in plan.groups:
        with suppress(UnseenError):
            model = group[0].model
            for data, name in benchmark.counted(group, bench):
                for dataset, split in bench.extractions(model, data, name):
                    images = dataset.split(split)
                    stored = bench.store.manifests(model, dataset.features_id, split)
                    cached = any(one.complete and one.key.fingerprint == images.fingerprint for one in stored)
                    found[model, dataset.features_id, split, images.fingerprint] = len(images), cached
    cached_images = sum(count for count, cached in found.values() if cached)
    return sum(count for count, _ in found.values()) - cached_images, cached_images


def _cells_by_benchmark(study: Study, bench: Workbench) -> Iterator[tuple[Benchmark, list[Cell]]]:
    """Yield the cells of each model, dataset and benchmark, with the revision of the weights and the data."""
    extraction = parameters_of(study.extraction)
    given = {dataset: given_models(dataset) for dataset in study.datasets}
    for model in study.models:
        found = [dataset for dataset, models in given.items() if model in models]
        if model.startswith(GIVEN) and not found:
            raise UnknownNameError("features of the datasets", model, [each for own in given.values() for each in own])
        for dataset in found or study.datasets:
            for protocol in study.protocols:
                if protocol.only and dataset not in protocol.only:
                    continue
                benchmark = protocol.suited(bench.dataset(dataset))
                cells = benchmark.plan(model, dataset)
                if not cells:
                    continue
                revision = bench.revision(model, dataset, benchmark.other_datasets())
                yield (
                    benchmark,
                    [
                        replace(cell, revision=revision, parameters={**cell.parameters, "extraction": extraction})
                        for cell in cells
                    ],
                )
