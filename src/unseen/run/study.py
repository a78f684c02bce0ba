"""Studies: models x datasets x benchmarks, checked before any work."""

from __future__ import annotations

import tomllib
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import InitVar, dataclass, field, replace
from importlib.resources import files
from pathlib import Path
from typing import Any

from unseen.backbones.load import expand_models, resolve_model
from unseen.benchmarks.benchmark import Benchmark, make_benchmark
from unseen.core.errors import StudyError, closest
from unseen.core.guard import guarded
from unseen.core.objects import OBJECT_SCHEME
from unseen.core.options import make_options
from unseen.core.records import MethodCard
from unseen.core.registry import load_object
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
        for key in ("models", "datasets"):
            object.__setattr__(self, key, _register_objects(self, getattr(self, key), key))
        checked = {
            "models": _names(_expanded(self.models, expand_models), "models", source, base, resolve_model),
            "datasets": _names(_expanded(self.datasets, expand_datasets), "datasets", source, base, resolve_dataset),
            "benchmarks": tuple(_benchmarks(self.benchmarks, source, base)),
            "extraction": extraction,
        }
        for key, value in checked.items():
            object.__setattr__(self, key, value)

    @property
    def protocols(self) -> tuple[Benchmark, ...]:
        """The benchmarks as objects."""
        return tuple(self.benchmarks)  # type: ignore[arg-type]

    @classmethod
    def read(cls, path: Path | str) -> Study:
        """Return the study in a TOML file, or a shipped study by its name; paths in the file are relative to it."""
        path = Path(path)
        if not path.exists() and str(path) in shipped_studies():
            path = Path(str(files("unseen.studies") / f"{path}.toml"))
        try:
            values = tomllib.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            near = closest(str(path), shipped_studies())
            advice = f"Did you mean {near[0]!r}?" if near else f"Shipped: {', '.join(shipped_studies())}."
            raise StudyError(f"no study file at {path}. {advice}") from None
        except (OSError, ValueError, RecursionError) as error:
            raise StudyError(f"{path} is not a TOML file: {error}.") from error
        with guarded(path, "a study", error=StudyError):
            return cls.parse(values, source=str(path), base=path.parent)

    @classmethod
    def parse(cls, values: Mapping[str, Any], *, source: str = "study", base: Path | None = None) -> Study:
        """Return the study in a table, as a TOML file contains it."""
        _check_keys(values, _KEYS, source)
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


def _register_objects(study: Study, values: Any, key: str) -> Any:
    """Replace the objects among models or datasets by names, registered until the study is deleted."""
    if not isinstance(values, list | tuple):
        return (_register(study, values, key),) if _is_object(values, key) else values
    return [_register(study, value, key) for value in values]


def _is_object(value: Any, key: str) -> bool:
    """Return whether a value may be a model or a dataset, and is nothing that a TOML file contains."""
    if isinstance(value, str | Path | bytes | int | float | dict | None):
        return False
    if key == "models":
        return callable(value) or type(value).__name__ == "Backbone"
    if isinstance(value, tuple):
        return len(value) == 2 and not any(isinstance(part, str | Path) for part in value)
    return not isinstance(value, list) and (hasattr(value, "__getitem__") or hasattr(value, "splits"))


def _register(study: Study, value: Any, key: str) -> Any:
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


def _check_keys(values: Mapping[str, Any], known: Sequence[str], source: str) -> None:
    for key in values:
        if key not in known:
            near = closest(key, known)
            advice = f"Did you mean {near[0]!r}?" if near else f"Known: {', '.join(known)}."
            raise StudyError(f"{source}: unknown key {key!r}. {advice}")


def _expanded(names: Any, expand: Callable[[str], list[str]]) -> Any:
    """Replace patterns such as `timm:*dino*` and `xlsa17:all` by the names that match."""
    if not isinstance(names, list | tuple):
        return expand(names) if isinstance(names, str) else names
    return [each for name in names for each in (expand(name) if isinstance(name, str) else [name])]


def _names(names: Any, key: str, source: str, base: Path, resolve: Callable[[str, Path], str]) -> tuple[str, ...]:
    found = [names] if isinstance(names, str) else names
    if not isinstance(found, list | tuple) or not found or not all(isinstance(name, str) and name for name in found):
        raise StudyError(f'{source}: {key} must be a list of names, such as {key} = ["packaged:..."].')
    resolved = [resolve(name, base) for name in found]
    doubled = [name for i, name in enumerate(resolved) if name in resolved[:i]]
    if doubled:
        raise StudyError(f"{source}: {doubled[0]!r} stands twice in {key}. Remove one.")
    return tuple(resolved)
