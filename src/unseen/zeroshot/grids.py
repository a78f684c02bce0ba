"""What is tried for a method on validation classes: the product of the lists that stand in the method's own file."""

from __future__ import annotations

from itertools import product
from typing import Any

from unseen.core.errors import UnknownNameError, UsageError
from unseen.zeroshot.catalogue import load_method
from unseen.zeroshot.method import ZeroShotMethod

GRIDS = ("full", "quick")


def grid_of(method: str | ZeroShotMethod, size: str = "full") -> list[dict[str, Any]]:
    """Every setting that is tried for a method; of one without a grid its defaults alone.

    Raises:
        UsageError: the grid names what is no parameter of the method.
    """
    if size not in GRIDS:
        raise UnknownNameError("size of grid", size, GRIDS)
    kind = load_method(method) if isinstance(method, str) else type(method)
    lists = kind.quick_grid if size == "quick" and kind.quick_grid else kind.grid
    if strange := sorted(set(lists) - set(kind._get_param_names())):
        raise UsageError(
            f"the {size} grid of {kind.__name__} names {', '.join(strange)}, which its constructor does not take. It "
            f"takes {', '.join(kind._get_param_names())}."
        )
    return [dict(zip(lists, values, strict=True)) for values in product(*lists.values())]
