"""Where datasets come from: one registry of sources, built in or installed as a plug-in.

A source is an object with `cards()` and `load(name, options)`, or simply a function that returns a `Dataset`. Plug-ins
name theirs under the entry point group `unseen.datasets`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol, TypeVar, runtime_checkable

from unseen.core.errors import UnknownNameError, UsageError
from unseen.core.names import Name, from_path
from unseen.core.records import DatasetCard
from unseen.core.registry import Registry
from unseen.data.dataset import Dataset
from unseen.data.names import Options
from unseen.data.subset import select


@runtime_checkable
class DatasetSource(Protocol):
    """All datasets of one scheme."""

    def cards(self) -> Iterable[DatasetCard]:
        """What `unseen ls datasets` shows."""

    def load(self, name: str, options: Options) -> Dataset:
        """The dataset `name`, what stands between the scheme and the options of its id.

        It reads the options it knows and then calls `options.finish()`. Its card's id may be anything: the id that
        was asked for is put there afterwards. `features_id` may name the same images in another labelling.
        """


DatasetFunction = Callable[..., Dataset]
F = TypeVar("F", bound=DatasetFunction)

SOURCES: Registry[DatasetSource | DatasetFunction] = Registry("dataset source", "unseen.datasets")
SOURCES.add("folder", "unseen.data.sources.folder:SOURCE")
SOURCES.add("imagenet", "unseen.data.sources.imagenet.source:SOURCE")
SOURCES.add("packaged", "unseen.data.sources.packaged.source:SOURCE")
SOURCES.add("procedural", "unseen.data.sources.procedural:SOURCE")
SOURCES.add("vtab", "unseen.data.sources.vtab:SOURCE")
SOURCES.add("xlsa17", "unseen.data.sources.xlsa17.source:SOURCE")

_SELECTION = ("classes", "limit", "per_class")


def load_dataset(name: str, **options: Any) -> Dataset:
    """The dataset with an id such as `packaged:grocery?labels=coarse` or `folder:photos?test=0.2&seed=3`.

    Args:
        name: the id; its options may also be given as keyword arguments, which win.
        **options: those of the source and, for every source, `per_class`, `limit` and `classes`, which keep at most so
            many images per class and split, images per split, and classes, drawn by `seed` (0).

    Raises:
        UsageError: a scheme, name or option that is not known.
        DataError: the data are missing or malformed.
        MissingExtraError: the package that holds the data is not installed.
    """
    wanted = Name.parse(name, options)
    source = _source(wanted)
    given = Options(str(wanted), wanted.options)
    sizes = {key: given.integer(key, at_least=1) for key in _SELECTION}
    selecting = any(size is not None for size in sizes.values())
    seed = given.integer("seed") if selecting else None
    loaded = source.load(wanted.rest, given) if isinstance(source, DatasetSource) else _call(source, wanted, given)
    given.finish()
    if selecting:
        loaded = select(loaded, **sizes, seed=seed or 0)
    return _with_id(loaded, wanted, selecting=selecting)


def resolve_dataset(name: str, base: Path) -> str:
    """The name with its paths absolute; a plain path is a folder. Relative ones are taken from `base`."""
    wanted = Name.parse(from_path(name, "folder", SOURCES.__contains__, base))
    if wanted.scheme not in SOURCES:
        return name
    return str(wanted.resolved(base, getattr(_source(wanted), "paths", ())))


def register_dataset(name: str) -> Callable[[F], F]:
    """Make a function that returns a `Dataset` loadable under `name`.

        @register_dataset("mine")
        def mine() -> Dataset: ...

    Then `load_dataset("mine")` calls it. `mine:variant` passes "variant" as the first argument, and `mine?size=3`
    passes size="3", where the function has such parameters.
    """
    if not name or any(character in name for character in ":?&="):
        raise UsageError(f"a dataset cannot be registered as {name!r}: give it a name without ':', '?', '&' and '='")

    def decorate(function: F) -> F:
        SOURCES.add(name, function)
        return function

    return decorate


def dataset_cards() -> list[DatasetCard]:
    """The cards of all datasets of all sources, plug-ins included. A plug-in that cannot be loaded says so."""
    cards: list[DatasetCard] = []
    for scheme in SOURCES:
        try:
            source = SOURCES.get(scheme)
        except (ImportError, AttributeError) as error:
            cards.append(DatasetCard(id=scheme, group="plug-in", splits=(), notes=f"cannot be loaded: {error}"))
            continue
        if isinstance(source, DatasetSource):
            cards += source.cards()
        else:
            summary = (inspect.getdoc(source) or "").partition("\n")[0]
            cards.append(DatasetCard(id=scheme, group="plug-in", splits=(), notes=summary))
    return cards


def _source(wanted: Name) -> DatasetSource | DatasetFunction:
    try:
        return SOURCES.get(wanted.scheme)
    except UnknownNameError:
        known = [card.id for card in dataset_cards()] + list(SOURCES)
        hint = "A folder of images is written folder:PATH."
        raise UnknownNameError("dataset", f"{wanted.without(*wanted.options)}", known, hint=hint) from None
    except (ImportError, AttributeError) as error:
        raise UsageError(f"the plug-in of dataset {str(wanted)!r} cannot be loaded: {error}") from error


def _call(function: DatasetFunction, wanted: Name, options: Options) -> Dataset:
    """Call a plain function with the variant and the options that it takes."""
    parameters = inspect.signature(function).parameters.values()
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    arguments = [wanted.rest] if wanted.rest else []
    if arguments and not positional:
        raise UsageError(f"dataset {wanted.scheme!r} has no variants, so {wanted.rest!r} means nothing")
    if not arguments and positional and positional[0].default is inspect.Parameter.empty:
        raise UsageError(f"dataset {wanted.scheme!r} needs a variant: write {wanted.scheme}:NAME")
    by_name = [p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    by_name = [each for each in by_name if each not in [p.name for p in positional[: len(arguments)]]]
    values = {each: value for each in by_name if (value := options.text(each)) is not None}
    options.finish()
    loaded = function(*arguments, **values)
    if not isinstance(loaded, Dataset):
        raise UsageError(f"dataset {wanted.scheme!r}: its function returned {type(loaded).__name__}, not a Dataset")
    return loaded


def _with_id(dataset: Dataset, wanted: Name, *, selecting: bool) -> Dataset:
    """Put the id that was asked for, and what was really found, on the card."""
    card = replace(
        dataset.card,
        id=str(wanted),
        splits=tuple(dataset.splits),
        classes=len(dataset.class_names),
        images=sum(len(split) for split in dataset.splits.values()),
    )
    if dataset.features_id == dataset.card.id:
        features_id = str(wanted)
    else:
        kept = {key: wanted.options.get(key) for key in (*_SELECTION, "seed")} if selecting else {}
        features_id = str(Name.parse(dataset.features_id, {k: v for k, v in kept.items() if v is not None}))
    return replace(dataset, card=card, features_id=features_id)
