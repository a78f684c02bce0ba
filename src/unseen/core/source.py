"""Sources of models and datasets, and the catalogues that find a source by the scheme of a name.

A source loads all names of one scheme, such as `timm:NAME` or `folder:PATH`. Built-in sources, entry points of
installed packages and registered functions share one catalogue per kind.
"""

from __future__ import annotations

import inspect
from abc import ABC
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar, cast

from unseen.core.errors import UnseenError
from unseen.core.extras import extra_note
from unseen.core.names import Name, from_path
from unseen.core.registry import PluginError, Registry

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
