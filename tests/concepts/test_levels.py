"""Levels: the paper's, anybody's, re-ranked and random ones."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from unseen.concepts import (
    Levels,
    Taxonomy,
    WordNet,
    build_levels,
    filters_for,
    imagenet_1k,
    information_content,
    nearest_seen,
    random_levels,
    rerank_levels,
    run_funnel,
)
from unseen.concepts.eligibility import PERSON
from unseen.concepts.levels import level_starts
from unseen.core.errors import DataError, TaxonomyError


@pytest.fixture(scope="module")
def paper_levels(wordnet: WordNet, imagenet_counts: dict[str, int]) -> Levels:
    concepts = list(imagenet_counts)
    eligible = run_funnel(wordnet, concepts, filters_for(wordnet, concepts, imagenet_1k(), counts=imagenet_counts))
    return build_levels(wordnet, eligible.concepts, imagenet_1k())


def test_the_paper(paper_levels: Levels) -> None:
    assert [len(level.concepts) for level in paper_levels.levels] == [1000] * 5
    assert [len(gap) for gap in paper_levels.gaps] == [36, 37, 36, 37]
    assert len(set(paper_levels.ids)) == 5000
    means = [level.mean_similarity for level in paper_levels.levels]
    assert all(np.diff(means) < 0)
    np.testing.assert_allclose(means, [0.8449, 0.6923, 0.5748, 0.4454, 0.1982], atol=5e-5)
    values = [c.similarity for level in paper_levels.levels for c in level.concepts]
    assert all(a >= b - 1e-12 for a, b in itertools.pairwise(values))


def test_reranking_keeps_the_concepts(paper_levels: Levels, wordnet: WordNet, imagenet_counts: dict[str, int]) -> None:
    ic = information_content(wordnet, [*imagenet_counts, *imagenet_1k()])
    again = rerank_levels(paper_levels, wordnet, imagenet_1k(), "wu-palmer", ic=ic)
    assert set(again.ids) == set(paper_levels.ids) and again.levels[0].ids != paper_levels.levels[0].ids
    assert [len(level.ids) for level in again.levels] == [1000] * 5
    assert all(np.diff([level.mean_similarity for level in again.levels]) < 0)
    same = rerank_levels(paper_levels, wordnet, imagenet_1k(), "lin", ic=ic)
    assert [level.ids for level in same.levels] == [level.ids for level in paper_levels.levels]


def test_levels_do_not_depend_on_the_release(
    paper_levels: Levels, wordnet: WordNet, imagenet_counts: dict[str, int]
) -> None:
    """Winter 2021 lacks the people: the levels are the same, concept by concept (supplement E)."""
    people = {PERSON, *wordnet.descendants(PERSON)}
    winter = {wnid: count for wnid, count in imagenet_counts.items() if wnid not in people}
    assert len(imagenet_counts) - len(winter) > 2_500
    eligible = run_funnel(wordnet, list(winter), filters_for(wordnet, list(winter), imagenet_1k(), counts=winter))
    assert build_levels(wordnet, eligible.concepts, imagenet_1k()) == paper_levels
    # With the corpus that lies on the disk they were not.
    disk = information_content(wordnet, [*winter, *imagenet_1k()])
    moved = build_levels(wordnet, eligible.concepts, imagenet_1k(), ic=disk)
    assert [level.ids for level in moved.levels] != [level.ids for level in paper_levels.levels]


def test_starts_spread_over_the_whole_list() -> None:
    assert level_starts(5146, 5, 1000) == [0, 1036, 2073, 3109, 4146]
    assert level_starts(10, 2, 5) == [0, 5] and level_starts(10, 1, 4) == [0]
    for count, levels, size in ((17, 3, 4), (100, 7, 13), (9, 3, 3)):
        starts = level_starts(count, levels, size)
        assert starts[0] == 0 and starts[-1] + size == count
        assert all(b - a >= size for a, b in itertools.pairwise(starts))


@pytest.mark.parametrize(
    ("levels", "size", "message"), [(3, 4, "need 12 concepts, and 10"), (0, 5, "at least 1"), (1, 0, "at")]
)
def test_impossible_levels(levels: int, size: int, message: str) -> None:
    with pytest.raises(DataError, match=message):
        level_starts(10, levels, size)


def test_any_taxonomy(random_taxonomy: Callable[[int, int], Taxonomy], tmp_path: Path) -> None:
    taxonomy = random_taxonomy(11, 120)
    ids = sorted(taxonomy.ids)
    seen, unseen = ids[:20], ids[20:]
    made = build_levels(taxonomy, unseen, seen, levels=3, size=30, measure="wu-palmer")
    shuffled = build_levels(taxonomy, unseen[::-1], seen[::-1], levels=3, size=30, measure="wu-palmer")
    assert made == shuffled, "the order of the input decides nothing"
    near = nearest_seen(taxonomy, unseen, seen, "wu-palmer")
    best = {c: (s, n) for c, s, n in zip(near.concepts, near.similarity, near.nearest, strict=True)}
    assert all((c.similarity, c.nearest) == best[c.id] for level in made.levels for c in level.concepts)
    made.save(tmp_path / "levels.json")
    assert Levels.load(tmp_path / "levels.json") == made


def test_seen_and_unseen_are_disjoint(wordnet: WordNet) -> None:
    with pytest.raises(TaxonomyError, match="both seen and unseen, such as 'n02123045'"):
        build_levels(wordnet, ["n02123045"], ["n02123045"], levels=1, size=1)


def test_random_levels() -> None:
    pool = [f"n{i:08d}" for i in range(50)]
    drawn = random_levels(pool, draws=4, size=20, seed=3)
    assert [level.name for level in drawn.levels] == ["R1", "R2", "R3", "R4"]
    assert all(len(set(level.ids)) == 20 for level in drawn.levels)
    assert len({level.ids for level in drawn.levels}) == 4
    assert random_levels(pool[::-1], draws=2, size=20, seed=3).levels == drawn.levels[:2]
    assert random_levels(pool, draws=4, size=20, seed=4).levels != drawn.levels
    assert np.isnan(drawn.levels[0].mean_similarity)
    assert len(random_levels(pool, size=5).levels) == 15
    with pytest.raises(DataError, match="cannot sample 51"):
        random_levels(pool, size=51)


@pytest.mark.parametrize(
    ("text", "message"),
    [("{", "not valid JSON"), ("[]", "not a levels file"), ('{"format": "unseen-levels/1"}', "damaged")],
)
def test_bad_files(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "levels.json").write_text(text)
    with pytest.raises(DataError, match=message):
        Levels.load(tmp_path / "levels.json")
    with pytest.raises(DataError, match="cannot read"):
        Levels.load(tmp_path / "none.json")
    with pytest.raises(DataError, match="cannot write"):
        Levels(()).save(tmp_path / "no" / "folder.json")
