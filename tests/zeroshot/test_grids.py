"""What is tried of a method makes sense, and is what its paper tries where that says so."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import pytest

from unseen.core.errors import UnknownNameError
from unseen.zeroshot.catalogue import BUILT_IN, grid_of, load_method

#: Exponents of ten, which may be below 0; all other numbers of a grid are rates, widths, weights and counts.
EXPONENTS = {("ESZSL", "gamma"), ("ESZSL", "lam")}
SHARES = ("quantile", "alpha", "shrinkage")


def numbers(grid: Mapping[str, Sequence[object]]) -> dict[str, list[float]]:
    lists = {key: [v for v in values if not isinstance(v, str | bool)] for key, values in grid.items()}
    return {key: values for key, values in lists.items() if values}


@pytest.mark.parametrize("name", BUILT_IN)
def test_values_rise_and_mean_something(name: str) -> None:
    kind = load_method(name)
    for grid in (kind.grid, kind.quick_grid):
        for key, values in numbers(grid).items():
            assert values == sorted(set(values)), f"{name}: {key}"
            assert min(values) > 0 or (name, key) in EXPONENTS, f"{name}: {key}"
            assert max(values) < 1 or key not in SHARES, f"{name}: {key}"


def test_grids_of_the_papers() -> None:
    """ESZSL: both exponents from -3 to 3. SYNC: lambda from 2^-30 to 2^-6 in steps of 2^4, sigma from 2^-5 to 2^5."""
    eszsl, sync = load_method("ESZSL"), load_method("SYNC")
    assert list(eszsl.grid["gamma"]) == list(eszsl.grid["lam"]) == list(range(-3, 4))
    assert len(grid_of(eszsl)) == 2 * 49
    lams, sigmas = sync.grid["lam"], sync.grid["sigma"]
    assert (lams[0], lams[-1], len(lams)) == (2**-30, 2**-6, 7)
    assert (sigmas[0], sigmas[-1], len(sigmas)) == (2**-5, 2**5, 11)
    assert {b / a for a, b in pairwise(lams)} == {16}
    assert {b / a for a, b in pairwise(sigmas)} == {2}


def test_there_are_two_sizes() -> None:
    conse = load_method("CONSE")
    assert len(grid_of(conse, "quick")) < len(grid_of(conse)) == len(grid_of(conse, "full"))
    with pytest.raises(UnknownNameError, match="quick"):
        grid_of(conse, "fast")
