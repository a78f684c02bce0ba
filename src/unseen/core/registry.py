"""A lazy registry of "module:object" names, a registry of objects in memory, and lazy exports of a package.

Listing names imports nothing. Names that are not built in come from installed plug-ins: the registry's `entry_points`
group is read when a look-up misses or when names are listed. Loading a broken plug-in raises `PluginError`.
"""

from __future__ import annotations

import inspect
import re
import sys
from abc import ABC
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar, Generic, Protocol, TypeVar, cast

from unseen.core.errors import UnknownNameError, UnseenError, UsageError
from unseen.core.extras import extra_note
from unseen.core.names import Name, from_path

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


#: `from module import name as name`, indented.
_EXPORT = re.compile(r"^ +from ([\w.]+) import (\w+) as \2$", re.MULTILINE)


def lazy_exports(package: str) -> tuple[list[str], Callable[[str], Any], Callable[[], list[str]]]:
    """Return `__all__`, `__getattr__` and `__dir__` of a package whose public names are imported on first use.

    The names are those that the package's source imports under `if TYPE_CHECKING:`, one per line as itself, which type
    checkers and editors read too: one list for all of them.

        if TYPE_CHECKING:
            from unseen.features.store import FeatureStore as FeatureStore
        else:
            __all__, __getattr__, __dir__ = lazy_exports(__name__)
    """
    module = sys.modules[package]
    assert module.__spec__ is not None and module.__spec__.loader is not None
    source: str = module.__spec__.loader.get_source(package)  # type: ignore[attr-defined]
    homes = {name: home for home, name in _EXPORT.findall(source)}

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


# ---- sources ---------------------------------------------------------------------------------------------------------
#
# Sources of models and datasets, and the catalogues that find a source by the scheme of a name.
#
# A source loads all names of one scheme, such as `timm:NAME` or `folder:PATH`. Built-in sources, entry points of
# installed packages and registered functions share one catalogue per kind.

C = TypeVar("C")
S = TypeVar("S", bound="Source[Any]")

#: Among a source's `paths`: what follows the scheme is a path if it exists, otherwise a name.
IF_EXISTS = "?"


class Source(ABC, Generic[C]):
    """All models or all datasets of one scheme."""

    #: How names that are not listed are written, such as "timm:NAME", and a line on them, for `unseen ls`.
    pattern: ClassVar[str] = ""
    hint: ClassVar[str] = ""
    #: The extra that it needs, for the same list.
    extra: ClassVar[str] = ""
    #: Whether `unseen ls` lists all its cards by default.
    listed: ClassVar[bool] = True
    #: Parts of a name that are paths: options, "" for what follows the scheme, or `IF_EXISTS`.
    paths: ClassVar[tuple[str, ...]] = ()
    #: Words that stand for several names, such as "all", with those names.
    groups: ClassVar[Mapping[str, tuple[str, ...]]] = {}

    def cards(self) -> Iterable[C]:
        """Return the cards of the names that can be listed; none by default."""
        return ()


class Catalogue(Registry[S], Generic[S, C]):
    """The sources of models or of datasets, by scheme.

    Args:
        kind: "model" or "dataset", for error messages.
        entry_point_group: where installed packages add sources.
        base: class of the sources.
        adapt: makes a source from a scheme and a registered function.
        card: makes a card from `id`, `name`, `group`, `source` and `notes`.
        scheme_of_path: the scheme of a plain path, given the path and the folder that it is relative to.
    """

    def __init__(
        self,
        kind: str,
        entry_point_group: str,
        *,
        base: type,
        adapt: Callable[[str, Callable[..., Any]], S],
        card: Callable[..., C],
        scheme_of_path: Callable[[str, Path], str],
    ) -> None:
        super().__init__(f"{kind} source", entry_point_group, make=self._as_source)
        self._base, self._adapt, self._card, self._scheme_of_path = base, adapt, card, scheme_of_path

    def cards(self, source: str | None = None) -> Iterator[C]:
        """Yield the cards of the listed sources and patterns of names that are not listed, or all cards of one source.

        A plug-in that cannot be loaded or listed has a card with the reason.
        """
        if source is not None:
            yield from self.get(source).cards()
            return
        for scheme, found in self.entries():
            if isinstance(found, UnseenError):
                yield self._broken(scheme, found)
                continue
            try:
                yield from list(found.cards()) if found.listed else ()
            except Exception as error:  # noqa: BLE001 - a plug-in may raise anything
                yield self._broken(scheme, PluginError(self.kind, scheme, error))
            if found.pattern:
                note = extra_note(found.extra)
                yield self._card(id=found.pattern, name=found.hint, group="pattern", source=scheme, notes=note)

    def function_card(self, scheme: str, function: Callable[..., object]) -> C:
        """Return the card of a registered function, with the first line of its documentation."""
        summary = (inspect.getdoc(function) or "").partition("\n")[0]
        return self._card(id=scheme, name=scheme, group="plug-in", notes=summary)

    def add_scheme(self, name: str, base: Path = Path()) -> str:
        """Return a plain path with the scheme of its kind; a name with a known scheme stays unchanged."""
        return from_path(name, self._scheme_of_path(name.partition("?")[0], base), self.__contains__, base)

    def resolve(self, name: str, base: Path) -> str:
        """Return a name with absolute paths; a plain path gets a scheme. Relative paths start at `base`."""
        parsed = Name.parse(self.add_scheme(name, base))
        if parsed.scheme not in self:
            return name
        paths = self.get(parsed.scheme).paths
        if IF_EXISTS in paths and (base / Path(parsed.rest).expanduser()).exists():
            paths = ("", *paths)
        return str(parsed.resolved(base, paths))

    def _as_source(self, scheme: str, found: object) -> S:
        """Make a source from what is registered: a source, its class, or a function."""
        made: Any = found() if isinstance(found, type) and issubclass(found, self._base) else found
        if isinstance(made, self._base):
            return cast("S", made)
        if callable(made) and not hasattr(made, "cards"):
            return self._adapt(scheme, made)
        raise TypeError(f"{made!r} is neither a {self._base.__name__} nor a function")

    def _broken(self, scheme: str, error: UnseenError) -> C:
        reason = error.reason if isinstance(error, PluginError) else str(error)
        return self._card(id=scheme, name=scheme, group="plug-in", notes=reason)
