"""Load a dataset by its name, from built-in sources and plug-ins.

A source is one file with a `DatasetSource`, and one line below; or a function that returns a `Dataset`. Installed
packages add their own in the entry point group `unseen.datasets`.
"""

from __future__ import annotations

import inspect
from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TypeVar

from unseen.core.errors import UnknownNameError, UsageError
from unseen.core.guard import read_patiently
from unseen.core.names import Name, Options
from unseen.core.records import DatasetCard
from unseen.core.registry import Catalogue, Source
from unseen.data.dataset import Dataset, join_splits
from unseen.data.subset import select, shuffle_labels

DatasetFunction = Callable[..., Dataset]
F = TypeVar("F", bound=DatasetFunction)


class DatasetSource(Source[DatasetCard]):
    """All datasets of one scheme."""

    @abstractmethod
    def load(self, name: str, options: Options) -> Dataset:
        """Load the dataset `name`, the part of the id between the scheme and the options.

        It reads the options it knows and then calls `options.finish()`. Its card's id may be anything: the id that
        was requested is put there afterwards. `features_id` may name the same images in another labelling.
        """


#: The scheme of a plain path with such a suffix; any other path is a folder.
_SCHEMES = {".csv": "csv", ".tsv": "csv", ".parquet": "parquet", ".zip": "zip", ".tar": "wds"} | dict.fromkeys(
    (".npz", ".h5", ".hdf5", ".npy"), "features"
)

SOURCES: Catalogue[DatasetSource, DatasetCard] = Catalogue(
    "dataset",
    "unseen.datasets",
    base=DatasetSource,
    adapt=lambda scheme, function: _FunctionSource(scheme, function),
    card=partial(DatasetCard, splits=()),
    scheme_of_path=lambda head, _: _SCHEMES.get(Path(head).suffix.lower(), "folder"),
)
for _scheme, _target in {
    "folder": "sources.folder:FolderSource",
    "object": "adapters:ObjectSource",
    "csv": "sources.table:CsvSource",
    "parquet": "sources.table:ParquetSource",
    "zip": "sources.zip:ZipSource",
    "wds": "sources.wds:WdsSource",
    "hf": "sources.hf:HfSource",
    "imagenet": "sources.imagenet.source:ImageNetSource",
    "packaged": "sources.packaged:PackagedSource",
    "procedural": "sources.procedural:ProceduralSource",
    "vtab": "sources.vtab.source:VtabSource",
    "features": "sources.features:FeaturesSource",
    "xlsa17": "sources.xlsa17:Xlsa17Source",
}.items():
    SOURCES.add(_scheme, f"unseen.data.{_target}")

_SELECTION = ("classes", "limit", "per_class")


def load_dataset(name: str | Path, **options: object) -> Dataset:
    """Load a dataset such as `packaged:grocery?labels=coarse` or `folder:photos?test=0.2&seed=3`.

    Args:
        name: the id, or a plain path: a folder, or a file with one of the endings that `resolve_dataset` knows. Its
            options may also be given as keyword arguments, which win.
        **options: those of the source and, for every source, `per_class`, `limit` and `classes`, which keep at most so
            many images per class and split, images per split, and classes, sampled by `seed` (0); `as=test` makes all
            images test images; `shuffle_labels=SEED` permutes the labels of each split, as a control that must score
            at chance.

    Raises:
        UsageError: a scheme, name or option that is not known.
        DataError: the data are missing or malformed.
        MissingExtraError: the package that holds the data is not installed.
    """
    wanted = Name.parse(SOURCES.add_scheme(str(name)) if isinstance(name, str | Path) else name, options)
    source = _source(wanted)
    read = Options(str(wanted), wanted.options)
    sizes = {key: read.integer(key, at_least=1) for key in _SELECTION}
    selecting = any(sizes.values())
    seed = read.integer("seed") if selecting else None
    tested = read.choice("as", ("", "test")) == "test"
    shuffle_seed = read.integer("shuffle_labels")
    loaded = read_patiently(lambda: source.load(wanted.rest, read), wanted)
    read.finish()
    if tested:
        loaded = replace(loaded, splits={"test": join_splits(list(loaded.splits.values()))})
    if selecting:
        loaded = select(loaded, **sizes, seed=seed or 0)
    if shuffle_seed is not None:
        loaded = shuffle_labels(loaded, shuffle_seed)
    return _with_id(loaded, wanted, selecting=selecting)


def resolve_dataset(name: str, base: Path) -> str:
    """Return a dataset name with absolute paths; a plain path gets a scheme. Relative paths start at `base`."""
    return SOURCES.resolve(name, base)


def expand_datasets(name: str) -> list[str]:
    """Return the datasets of a group such as `xlsa17:all`, each with its options; any other name unchanged."""
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
    """Return the cards of the listed sources and patterns of names that are not listed, or all cards of one source."""
    return list(SOURCES.cards(source))


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
        yield SOURCES.function_card(self.scheme, self.function)

    def load(self, name: str, options: Options) -> Dataset:
        """Call the function with the variant and the options that it takes."""
        signature = inspect.signature(self.function)
        arguments = [name] if name else []
        values = {
            key: value for key in [*signature.parameters][len(arguments) :] if (value := options.text(key)) is not None
        }
        options.finish()
        try:
            signature.bind(*arguments, **values)
        except TypeError as error:
            raise UsageError(
                f"dataset {self.scheme!r}: its function takes other arguments ({error}). A variant is written "
                f"{self.scheme}:NAME, an option {self.scheme}?NAME=VALUE."
            ) from None
        loaded = self.function(*arguments, **values)
        if not isinstance(loaded, Dataset):
            raise UsageError(f"dataset {self.scheme!r}: its function returned {type(loaded).__name__}, not a Dataset")
        return loaded


def _with_id(dataset: Dataset, wanted: Name, *, selecting: bool) -> Dataset:
    """Put the requested id and the actual counts on the card."""
    card = replace(
        dataset.card,
        id=str(wanted),
        splits=tuple(dataset.splits),
        classes=len(dataset.class_names),
        images=sum(map(len, dataset.splits.values())),
    )
    features_id = wanted.without("shuffle_labels")
    if dataset.features_id != dataset.card.id:
        kept = {k: v for k, v in wanted.options.items() if selecting and k in (*_SELECTION, "seed")}
        features_id = Name.parse(dataset.features_id, kept)
    return replace(dataset, card=card, features_id=str(features_id))
