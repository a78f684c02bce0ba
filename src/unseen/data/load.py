"""Where datasets come from: one registry of sources, built in or installed as a plug-in.

A source is one file with a `DatasetSource`, and one line below; or simply a function that returns a `Dataset`. Plug-ins
name theirs under the entry point group `unseen.datasets`.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from unseen.core.errors import UnknownNameError, UnseenError, UsageError
from unseen.core.extras import extra_note
from unseen.core.guard import read_patiently
from unseen.core.names import Name, Options, from_path
from unseen.core.records import DatasetCard
from unseen.core.registry import PluginError, Registry
from unseen.data.dataset import Dataset, join_splits
from unseen.data.subset import select

DatasetFunction = Callable[..., Dataset]
F = TypeVar("F", bound=DatasetFunction)


class DatasetSource(ABC):
    """All datasets of one scheme."""

    #: How names that are not listed are written, such as "folder:PATH", and a line on them, for `unseen ls datasets`.
    pattern: ClassVar[str] = ""
    hint: ClassVar[str] = ""
    #: The extra that it needs, for the same list.
    extra: ClassVar[str] = ""
    #: Whether all its cards are listed without being asked for.
    listed: ClassVar[bool] = True
    #: Parts of a name that are paths: options, and "" for what follows the scheme.
    paths: ClassVar[tuple[str, ...]] = ()
    #: What may stand for several of its datasets where a list is asked for, such as "all", and for which.
    groups: ClassVar[Mapping[str, tuple[str, ...]]] = {}

    @abstractmethod
    def cards(self) -> Iterable[DatasetCard]:
        """What it can load, as far as that can be listed."""

    @abstractmethod
    def load(self, name: str, options: Options) -> Dataset:
        """The dataset `name`, what stands between the scheme and the options of its id.

        It reads the options it knows and then calls `options.finish()`. Its card's id may be anything: the id that
        was asked for is put there afterwards. `features_id` may name the same images in another labelling.
        """


def _as_source(scheme: str, found: Any) -> DatasetSource:
    """What was registered, as a source: a source, its class, or a function that returns a dataset."""
    made = found() if isinstance(found, type) and issubclass(found, DatasetSource) else found
    if isinstance(made, DatasetSource):
        return made
    if callable(made) and not hasattr(made, "cards"):
        return _FunctionSource(scheme, made)
    raise TypeError(f"{made!r} is neither a DatasetSource nor a function that returns a Dataset")


SOURCES: Registry[DatasetSource] = Registry("dataset source", "unseen.datasets", make=_as_source)
SOURCES.add("folder", "unseen.data.sources.folder:FolderSource")
SOURCES.add("object", "unseen.data.objects:ObjectSource")
SOURCES.add("csv", "unseen.data.sources.table:CsvSource")
SOURCES.add("parquet", "unseen.data.sources.table:ParquetSource")
SOURCES.add("zip", "unseen.data.sources.zip:ZipSource")
SOURCES.add("wds", "unseen.data.sources.wds:WdsSource")
SOURCES.add("hf", "unseen.data.sources.hf:HfSource")
SOURCES.add("torchvision", "unseen.data.sources.torchvision:TorchvisionSource")
SOURCES.add("imagenet", "unseen.data.sources.imagenet.source:ImageNetSource")
SOURCES.add("packaged", "unseen.data.sources.packaged.source:PackagedSource")
SOURCES.add("procedural", "unseen.data.sources.procedural.source:ProceduralSource")
SOURCES.add("vtab", "unseen.data.sources.vtab.source:VtabSource")
SOURCES.add("xlsa17", "unseen.data.sources.xlsa17.source:Xlsa17Source")

#: What a plain path with such an ending is.
_ENDINGS = {".csv": "csv", ".tsv": "csv", ".parquet": "parquet", ".zip": "zip", ".tar": "wds"}

_SELECTION = ("classes", "limit", "per_class")


def load_dataset(name: str, **options: Any) -> Dataset:
    """The dataset with an id such as `packaged:grocery?labels=coarse` or `folder:photos?test=0.2&seed=3`.

    Args:
        name: the id; its options may also be given as keyword arguments, which win.
        **options: those of the source and, for every source, `per_class`, `limit` and `classes`, which keep at most so
            many images per class and split, images per split, and classes, drawn by `seed` (0); `as=test` makes all
            images test images, for what needs no others.

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
    tested = given.text("as") is not None and given.choice("as", ("test",)) == "test"
    loaded = read_patiently(lambda: source.load(wanted.rest, given), wanted)
    given.finish()
    if tested:
        loaded = replace(loaded, splits={"test": join_splits(list(loaded.splits.values()))})
    if selecting:
        loaded = select(loaded, **sizes, seed=seed or 0)
    return _with_id(loaded, wanted, selecting=selecting)


def resolve_dataset(name: str, base: Path) -> str:
    """The name with its paths absolute; a plain path is a folder, or what its ending says. Relative to `base`."""
    kind = _ENDINGS.get(Path(name.partition("?")[0]).suffix.lower(), "folder")
    wanted = Name.parse(from_path(name, kind, SOURCES.__contains__, base))
    if wanted.scheme not in SOURCES:
        return name
    return str(wanted.resolved(base, _source(wanted).paths))


def expand_datasets(name: str) -> list[str]:
    """The datasets that a name such as `xlsa17:all` stands for, each with its options; any other stands for itself."""
    head, mark, query = name.partition("?")
    scheme, _, rest = head.partition(":")
    several = SOURCES.get(scheme).groups.get(rest, ()) if scheme in SOURCES else ()
    return [f"{scheme}:{each}{mark}{query}" for each in several] or [name]


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


def dataset_cards(source: str | None = None) -> list[DatasetCard]:
    """Cards of the listed sources and patterns of names that are not listed, or all cards of one source.

    A plug-in that cannot be loaded or listed has a card that says so.
    """
    if source is not None:
        return list(SOURCES.get(source).cards())
    cards: list[DatasetCard] = []
    for scheme, found in SOURCES.entries():
        if isinstance(found, UnseenError):
            cards.append(_broken(scheme, found))
            continue
        try:
            cards += found.cards() if found.listed else ()
        except Exception as error:  # noqa: BLE001 - whatever a plug-in raises
            cards.append(_broken(scheme, PluginError(SOURCES.kind, scheme, error)))
        if found.pattern:
            note = extra_note(found.extra)
            cards.append(
                DatasetCard(id=found.pattern, name=found.hint, group="pattern", splits=(), source=scheme, notes=note)
            )
    return cards


def _broken(scheme: str, error: UnseenError) -> DatasetCard:
    reason = error.reason if isinstance(error, PluginError) else str(error)
    return DatasetCard(id=scheme, name=scheme, group="plug-in", splits=(), notes=reason)


def _source(wanted: Name) -> DatasetSource:
    if wanted.scheme not in SOURCES:
        known = [card.id for card in dataset_cards() if card.group != "pattern"] + list(SOURCES)
        hint = "A folder of images is written folder:PATH."
        raise UnknownNameError("dataset", f"{wanted.without(*wanted.options)}", known, hint=hint)
    return SOURCES.get(wanted.scheme)


class _FunctionSource(DatasetSource):
    """A function that returns a dataset: one, or one per variant."""

    def __init__(self, scheme: str, function: DatasetFunction) -> None:
        self.scheme, self.function = scheme, function

    def cards(self) -> Iterator[DatasetCard]:
        summary = (inspect.getdoc(self.function) or "").partition("\n")[0]
        yield DatasetCard(id=self.scheme, name=self.scheme, group="plug-in", splits=(), notes=summary)

    def load(self, name: str, options: Options) -> Dataset:
        """Call the function with the variant and the options that it takes."""
        parameters = inspect.signature(self.function).parameters.values()
        positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
        arguments = [name] if name else []
        if arguments and not positional:
            raise UsageError(f"dataset {self.scheme!r} has no variants, so {name!r} means nothing")
        if not arguments and positional and positional[0].default is inspect.Parameter.empty:
            raise UsageError(f"dataset {self.scheme!r} needs a variant: write {self.scheme}:NAME")
        by_name = [p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
        by_name = [each for each in by_name if each not in [p.name for p in positional[: len(arguments)]]]
        values = {each: value for each in by_name if (value := options.text(each)) is not None}
        options.finish()
        loaded = self.function(*arguments, **values)
        if not isinstance(loaded, Dataset):
            raise UsageError(f"dataset {self.scheme!r}: its function returned {type(loaded).__name__}, not a Dataset")
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
