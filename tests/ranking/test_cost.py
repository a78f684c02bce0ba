"""What scores cost, counted by hand."""

from __future__ import annotations

import pytest

from unseen.ranking.cards import REGISTRY, find_score
from unseen.ranking.cost import Sizes, finetune_flops, fisher_flops, gram_flops, paper_flops, score_flops


def test_the_parts_that_several_share() -> None:
    # 2 n d m for the Gram matrix, 9 m^3 for its eigenvectors, 2 n d m for the rows in their basis; m the smaller.
    assert gram_flops(10, 3) == 180 + 243 + 180
    assert gram_flops(3, 10) == 180 + 243 + 180
    assert fisher_flops(10, 3, 4) == 180 + 243 + 240
    assert finetune_flops(1e9, 100, 2) == 6e11


def test_operations_as_the_paper_counts_them() -> None:
    sizes = Sizes(n=1000, d=512, c=10, z=100)
    assert paper_flops("leep", sizes, 1e9, 50) == 2 * 1000 * 512 * 100
    assert paper_flops("nleep", sizes, 1e9, 50) == pytest.approx(2 * 1000 * 50 * 51.2)
    assert paper_flops("linear-5", sizes, 1e9, 50) == 5e10 + 6 * 1000 * 512 * 10 * 5
    assert paper_flops("linear", sizes, 1e9, 50) == 5e10 + 6 * 1000 * 512 * 10 * 77
    assert paper_flops("finetune-1", sizes, 1e9, 50) == 5e10 + 3e12 - 1e12
    assert paper_flops("logme", sizes, 1e9, 50) is None
    mi = next(name for name in REGISTRY if name.startswith("mi-"))
    assert paper_flops(mi, sizes, 1e9, 50) == 5e10 + score_flops(mi, 1000, 512, 10, 100)


@pytest.mark.parametrize("name", list(REGISTRY))
def test_more_images_cost_more_and_hardly_more_than_their_square(name: str) -> None:
    if find_score(name).needs_training:
        assert score_flops(name, 1000, 64, 10) == 0.0
        return
    once, twice, wide = (score_flops(name, n, d, 10, 100) for n, d in ((4000, 64), (8000, 64), (4000, 128)))
    assert 0 < once <= twice <= 4.1 * once  # sorting n^2 distances takes a logarithm more
    assert once <= wide <= 8.01 * once
