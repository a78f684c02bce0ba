"""A lazy registry of "module:object" names, a registry of objects in memory, and lazy exports of a package.

Listing names imports nothing. Names that are not built in come from installed plug-ins: the registry's `entry_points`
group is read when a look-up misses or when names are listed. Loading a broken plug-in raises `PluginError`.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any, Generic, Protocol, TypeVar

from unseen.core.errors import UnknownNameError, UnseenError, UsageError

T = TypeVar("T")


class PluginError(UsageError):
    """Something that is registered cannot be loaded.

    Attributes:
        reason: what went wrong, in one line.
    """

    def __init__(self, kind: str, name: str, error: Exception) -> None:
        self.reason = f"cannot be loaded: {' '.join(str(error).split()) or type(error).__name__}"
        super().__init__(f"{kind} {name!r} {self.reason}. Mend or uninstall the package that brings it.")


class Registry(Generic[T]):
    """Objects by name, loaded on first use.

    Args:
        kind: what an entry is, for error messages ("dataset source").
        entry_point_group: where installed plug-ins add entries, such as "unseen.backbones".
        make: from (name, what was registered) to the entry; raises a TypeError where it cannot be one.
    """

    def __init__(
        self, kind: str, entry_point_group: str | None = None, *, make: Callable[[str, object], T] | None = None
    ) -> None:
        self.kind = kind
        self.entry_point_group = entry_point_group
        self._make = make
        self._targets: dict[str, Any] = {}
        self._loaded: dict[str, tuple[Any, T]] = {}
        self._plugins_read = False

    def add(self, name: str, target: object) -> None:
        """Register `target`, an object or the string "module:object", under `name`.

        Registering the same target twice is harmless; another target under a taken name is an error.
        """
        taken = self._targets.get(name)
        if taken is not None and taken != target:
            raise UsageError(f"{self.kind} {name!r} is registered already, as {taken!r}. Choose another name.")
        self._targets[name] = target

    def register(self, name: str) -> Callable[[Any], Any]:
        """Return a decorator that calls `add`."""

        def decorate(target: object) -> Any:
            self.add(name, target)
            return target

        return decorate

    def get(self, name: str) -> T:
        """Return the object registered under `name`, importing it on first use.

        Raises:
            UnknownNameError: nothing is registered under the name.
            PluginError: what is registered cannot be loaded.
        """
        if name not in self:
            raise UnknownNameError(self.kind, name, self._targets)
        target = self._targets[name]
        if name not in self._loaded or self._loaded[name][0] is not target:
            try:
                found = load_object(target) if isinstance(target, str) else target
                self._loaded[name] = target, self._make(name, found) if self._make else found
            except UnseenError:
                raise
            except Exception as error:  # a plug-in may raise anything
                raise PluginError(self.kind, name, error) from error
        return self._loaded[name][1]

    def target(self, name: str) -> Any:
        """Return what is registered under a name, without loading it; None if nothing is."""
        return self._targets[name] if name in self else None

    def entries(self) -> Iterator[tuple[str, T | UnseenError]]:
        """Yield every name with its object, or with the error that prevents loading it."""
        for name in self:
            try:
                yield name, self.get(name)
            except UnseenError as error:
                yield name, error

    def __contains__(self, name: str) -> bool:
        if name not in self._targets:
            self._read_plugins()
        return name in self._targets

    def __iter__(self) -> Iterator[str]:
        self._read_plugins()
        return iter(list(self._targets))

    def __len__(self) -> int:
        return len(list(iter(self)))

    def _read_plugins(self) -> None:
        if self._plugins_read or self.entry_point_group is None:
            return
        from importlib.metadata import entry_points  # slow to import, and most look-ups never need it

        self._plugins_read = True
        for point in entry_points(group=self.entry_point_group):
            self._targets.setdefault(point.name, point.value)


#: Scheme of the names of registered objects: `object:NAME@DIGEST`.
OBJECT_SCHEME = "object"

_HINT = "Objects exist only in the process that registered them: use one worker, or a name."


class _Named(Protocol):
    @property
    def id(self) -> str: ...


N = TypeVar("N", bound=_Named)


class ObjectRegistry(Generic[N]):
    """Objects by id, each available until every `add` and `retain` is matched by a `release`.

    Args:
        kind: what an object is, for error messages ("model object").
    """

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.objects: dict[str, N] = {}
        self._references: Counter[str] = Counter()

    def add(self, item: N) -> str:
        """Register an object and return its id."""
        self.objects[item.id] = item
        self._references[item.id] += 1
        return item.id

    def retain(self, name: str) -> bool:
        """Add a reference to a registered object; return whether it is registered."""
        if name in self.objects:
            self._references[name] += 1
        return name in self.objects

    def release(self, name: str) -> None:
        """Remove a reference, and with the last one the object."""
        self._references[name] -= 1
        if self._references[name] < 1:
            self.objects.pop(name, None)
            del self._references[name]

    def get(self, name: str) -> N:
        """Return a registered object.

        Raises:
            UnknownNameError: nothing is registered under the name.
        """
        if name not in self.objects:
            raise UnknownNameError(self.kind, name, self.objects, hint=_HINT)
        return self.objects[name]


def load_object(path: str) -> Any:
    """Import the object "module:object"."""
    module, _, attribute = path.partition(":")
    loaded: Any = import_module(module)
    for part in filter(None, attribute.split(".")):
        loaded = getattr(loaded, part)
    return loaded


def lazy_exports(package: str) -> tuple[list[str], Callable[[str], Any], Callable[[], list[str]]]:
    """Return `__all__`, `__getattr__` and `__dir__` of a package whose public names are imported on first use.

    The names are those that the package's source imports under `if TYPE_CHECKING:`, which type checkers and editors
    read too: one list for all of them.

        if TYPE_CHECKING:
            from unseen.features.store import FeatureStore as FeatureStore
        else:
            __all__, __getattr__, __dir__ = lazy_exports(__name__)
    """
    import ast

    module = sys.modules[package]
    assert module.__spec__ is not None and module.__spec__.loader is not None
    source: str = module.__spec__.loader.get_source(package)  # type: ignore[attr-defined]
    homes: dict[str, str] = {}
    for node in ast.parse(source).body:
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            for statement in node.body:
                if isinstance(statement, ast.ImportFrom) and statement.module:
                    homes |= {alias.name: statement.module for alias in statement.names}

    def find(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        found = getattr(import_module(homes[name]), name)
        setattr(module, name, found)
        return found

    public = sorted({*homes, *(name for name in ("__version__",) if hasattr(module, name))})
    for name, home in homes.items():
        # A name equal to its module's: importing the module would bind the module to the name.
        if home == f"{package}.{name}":
            find(name)
    return public, find, lambda: public
