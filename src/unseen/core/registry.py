"""One small lazy registry: a name stands for "module:object" until somebody asks for it.

Listing names imports nothing. A name that is not built in may come from an installed plug-in: the registry's
`entry_points` group is read when a look-up misses or when names are listed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any, Generic, TypeVar

from unseen.core.errors import UnknownNameError, UsageError

T = TypeVar("T")


class Registry(Generic[T]):
    """Names to objects, loaded when first asked for.

    Args:
        kind: what an entry is, for error messages ("dataset source").
        entry_point_group: where installed plug-ins add entries, such as "unseen.backbones".
    """

    def __init__(self, kind: str, entry_point_group: str | None = None) -> None:
        self.kind = kind
        self.entry_point_group = entry_point_group
        self._targets: dict[str, str | T] = {}
        self._plugins_read = False

    def add(self, name: str, target: str | T) -> None:
        """Register `target`, an object or the string "module:object", under `name`.

        Registering the same target twice is harmless; another target under a taken name is an error.
        """
        taken = self._targets.get(name)
        if taken is not None and taken != target:
            raise UsageError(f"{self.kind} {name!r} is registered already, as {taken!r}. Choose another name.")
        self._targets[name] = target

    def register(self, name: str) -> Callable[[T], T]:
        """Decorator form of `add`."""

        def decorate(target: T) -> T:
            self.add(name, target)
            return target

        return decorate

    def get(self, name: str) -> T:
        """The object behind `name`, imported now if it has not been."""
        if name not in self._targets:
            self._read_plugins()
        try:
            target = self._targets[name]
        except KeyError:
            raise UnknownNameError(self.kind, name, self._targets) from None
        if isinstance(target, str):
            target = load_object(target)
            self._targets[name] = target
        return target

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
        self._plugins_read = True
        for point in entry_points(group=self.entry_point_group):
            self._targets.setdefault(point.name, point.value)


def load_object(path: str) -> Any:
    """The object that "module:object" names."""
    module, _, attribute = path.partition(":")
    loaded: Any = import_module(module)
    for part in attribute.split("."):
        loaded = getattr(loaded, part)
    return loaded
