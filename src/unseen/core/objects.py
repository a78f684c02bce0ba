"""In-memory models and datasets under generated names, with reference counts."""

from __future__ import annotations

from collections import Counter
from typing import Generic, Protocol, TypeVar

from unseen.core.errors import UnknownNameError

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
