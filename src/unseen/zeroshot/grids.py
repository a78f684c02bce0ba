"""Hyper-parameter grids as data: `grids.toml`, one table per method."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib.resources import files
from itertools import product
from typing import Any

from unseen.core.errors import UnknownNameError

GRIDS = ("full", "quick")


@cache
def _tables() -> dict[str, dict[str, Any]]:
    return tomllib.loads((files("unseen.zeroshot") / "grids.toml").read_text(encoding="utf-8"))


def grid_of(method: str, size: str = "full") -> list[dict[str, Any]]:
    """Every setting that is tried for a method; without a grid, as for a plug-in, its defaults alone."""
    if size not in GRIDS:
        raise UnknownNameError("size of grid", size, GRIDS)
    own = dict(_tables().get(method, {}))
    quick = own.pop("quick", None)
    lists = quick if size == "quick" and quick is not None else own
    return [dict(zip(lists, values, strict=True)) for values in product(*lists.values())]
