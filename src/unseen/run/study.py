"""Studies: models x datasets x benchmarks, checked before any work."""

from __future__ import annotations

import tomllib
import weakref
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import InitVar, dataclass, field, replace
from importlib.resources import files
from pathlib import Path
from typing import Any

from unseen.backbones.load import expand_models, resolve_model
from unseen.benchmarks.benchmark import Benchmark, make_benchmark
from unseen.core.errors import StudyError, suggest
from unseen.core.guard import guarded
from unseen.core.options import make_options
from unseen.core.records import MethodCard
from unseen.core.registry import OBJECT_SCHEME, load_object
from unseen.data.load import expand_datasets, resolve_dataset
from unseen.features import Extraction

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


def _is_object(value: object, key: str) -> bool:
    """Return whether a value may be a model or a dataset, and is nothing that a TOML file contains."""
    if isinstance(value, str | Path | bytes | int | float | dict | None):
        return False
    if key == "models":
        return callable(value) or type(value).__name__ == "Backbone"
    if isinstance(value, tuple):
        return len(value) == 2 and not any(isinstance(part, str | Path) for part in value)
    return not isinstance(value, list) and (hasattr(value, "__getitem__") or hasattr(value, "splits"))


def _register(study: Study, value: object, key: str) -> Any:
    if isinstance(value, Path):
        return str(value)
    registered = isinstance(value, str) and value.startswith(f"{OBJECT_SCHEME}:")
    if not registered and not _is_object(value, key):
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
