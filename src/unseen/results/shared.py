"""Values that many results repeat (the concepts of a level, an environment), stored once under their digest.

A long value stands in its result as {"$shared": digest}. Short ones stay where they are.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from unseen.core.errors import StoreError

QUERY = "SELECT digest, value FROM shared WHERE digest IN ({marks})"

_KEY = "$shared"
#: Characters of a value's JSON from which on it is stored apart.
_LONG = 256
_REFERENCE = re.compile(r'\{"\$shared":"([0-9a-f]{32})"\}')
_NESTED = ("sweep", "details", "environment")


def pack(what: str, value: Any, aside: dict[str, str]) -> str:
    """JSON of a value, or of a reference to it where it is long; then it is put into `aside`, by its digest."""
    text = to_json(what, value)
    if len(text) < _LONG:
        return text
    digest = hashlib.sha256(text.encode()).hexdigest()[:32]
    aside[digest] = text
    return to_json(what, {_KEY: digest})


def pack_values(what: str, values: Mapping[str, Any], aside: dict[str, str]) -> str:
    """JSON of a mapping whose values are packed one by one: what repeats is one of them, seldom all."""
    return f"{{{','.join(f'{to_json(what, str(k))}:{pack(what, v, aside)}' for k, v in values.items())}}}"


def references(rows: Iterable[Sequence[str]]) -> set[str]:
    """The digests that stand in rows of packed texts."""
    return {digest for row in rows for text in row for digest in _REFERENCE.findall(text)}


class Values:
    """Shared values while results are read: each is loaded and parsed once.

    Args:
        load: gives the rows of `QUERY` for some digests.
    """

    def __init__(self, load: Callable[[list[str]], Iterable[Any]]) -> None:
        self._load = load
        self._known: dict[str, Any] = {}

    def unpack(self, rows: Sequence[Any]) -> list[dict[str, Any]]:
        """What the packed texts of each row stand for."""
        texts = [{name: str(row[name]) for name in _NESTED} for row in rows]
        wanted = references(list(text.values()) for text in texts)
        # What the last rows did not need, the next will not either: a study's rows lie together.
        self._known = {digest: value for digest, value in self._known.items() if digest in wanted}
        for row in self._load(sorted(wanted - set(self._known))):
            self._known[row["digest"]] = json.loads(row["value"])
        found = []
        for text in texts:
            nested = {name: self._whole(json.loads(value)) for name, value in text.items()}
            nested["details"] = {name: self._whole(value) for name, value in nested["details"].items()}
            found.append(nested)
        return found

    def _whole(self, value: Any) -> Any:
        return self._known[value[_KEY]] if isinstance(value, dict) and set(value) == {_KEY} else value


def to_json(what: str, value: Any) -> str:
    """JSON that Python reads back to the same bits; NaN and the infinities are written by name."""

    def plain(odd: Any) -> Any:
        # numpy scalars and arrays know how to become plain values, without importing numpy here.
        if hasattr(odd, "tolist"):
            return odd.tolist()
        raise TypeError(f"a {type(odd).__name__}")

    try:
        return json.dumps(value, separators=(",", ":"), default=plain)
    except (TypeError, ValueError, RecursionError) as error:
        raise StoreError(
            f"the {what} of a result must be strings, numbers, lists and mappings, but hold {error}. Convert it "
            "before it is stored."
        ) from error
