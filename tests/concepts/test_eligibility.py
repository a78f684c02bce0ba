"""The funnel: every filter by itself, and the paper's 5,146."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import pytest

from unseen.concepts import Taxonomy, WordNet, cog_discarded, filters_for, imagenet_1k, run_funnel
from unseen.concepts.eligibility import PERSON, Filter, above, listed, sub_tree, too_few_images
from unseen.core.errors import TaxonomyError

#      root - animal - cat - tabby, siamese
#                    - dog - poodle
#           - person - sailor
TREE = Taxonomy.from_edges(
    [
        ("animal", "root"),
        ("person", "root"),
        ("cat", "animal"),
        ("dog", "animal"),
        ("tabby", "cat"),
        ("siamese", "cat"),
        ("poodle", "dog"),
        ("sailor", "person"),
    ]
)


@pytest.mark.parametrize(
    ("each", "dropped"),
    [
        (listed(["tabby", "unlisted"], "seen"), {"tabby"}),
        (too_few_images({"tabby": 5, "dog": 4}, least=5), set(TREE.ids) - {"tabby"}),
        (sub_tree("person"), {"person", "sailor"}),
        (above(["tabby", "dog"]), {"cat", "animal", "root"}),
        (above(["tabby"]), {"cat", "animal", "root"}),
        (above(), {"root", "animal", "person", "cat", "dog"}),
        (listed(["poodle", "unlisted"]), {"poodle"}),
    ],
)
def test_each_filter(each: Filter, dropped: set[str]) -> None:
    result = run_funnel(TREE, TREE.ids, [each])
    assert set(TREE.ids) - set(result.concepts) == dropped
    assert result.steps[0].dropped == len(dropped) and result.steps[0].left == len(result.concepts)


def test_filters_act_one_after_the_other() -> None:
    """Once its leaves are gone, a concept is a leaf of what is left, but not of the whole list."""
    leaves = listed(["tabby", "siamese"])
    assert "cat" in run_funnel(TREE, TREE.ids, [leaves, above()]).concepts
    assert "cat" not in run_funnel(TREE, TREE.ids, [leaves, above(TREE.ids)]).concepts


def test_own_filters_are_welcome() -> None:
    @dataclass(frozen=True)
    class ShortNames:
        name: str = "short names"

        def drop(self, taxonomy: Taxonomy, concepts: Sequence[str]) -> Collection[str]:
            return [c for c in concepts if len(c) < 4]

    result = run_funnel(TREE, TREE.ids, [ShortNames()])
    assert result.steps[0].name == "short names" and result.steps[0].dropped == 2


def test_unknown_concepts_are_errors() -> None:
    with pytest.raises(TaxonomyError, match="'tabbi'"):
        run_funnel(TREE, ["tabbi"], [])


def test_table_a_has_seventy() -> None:
    assert len(set(cog_discarded())) == 70


def test_the_paper_ends_at_5146(wordnet: WordNet, imagenet_counts: dict[str, int]) -> None:
    concepts = list(imagenet_counts)
    result = run_funnel(wordnet, concepts, filters_for(wordnet, concepts, imagenet_1k(), counts=imagenet_counts))
    assert result.started == 21_841
    assert [(step.dropped, step.left) for step in result.steps] == [
        (999, 20_842),
        (12_843, 7_999),
        (608, 7_391),
        (551, 6_840),
        (1_624, 5_216),
        (70, 5_146),
    ]


def test_leaves_among_the_eligible_would_be_5684(wordnet: WordNet, imagenet_counts: dict[str, int]) -> None:
    """The other reading of the main text, which is not the one that gives the paper's number."""
    concepts = list(imagenet_counts)
    filters = filters_for(wordnet, concepts, imagenet_1k(), counts=imagenet_counts)
    filters = [above() if each.name == "not a leaf" else each for each in filters]
    assert len(run_funnel(wordnet, concepts, filters).concepts) == 5_684


def test_an_ontology_of_ones_own_asks_for_no_images(wordnet: WordNet) -> None:
    """The 782 images, the people and Table A are ImageNet's; an ontology has none of these by default."""
    counts = dict.fromkeys(TREE.ids, 3)
    free = run_funnel(TREE, TREE.ids, filters_for(TREE, TREE.ids, ["tabby"], counts=counts))
    assert set(free.concepts) == {"siamese", "poodle", "sailor"}
    asked = filters_for(TREE, TREE.ids, ["tabby"], counts=counts | {"poodle": 9}, min_images=5, subtrees=["person"])
    assert run_funnel(TREE, TREE.ids, asked).concepts == ("poodle",)
    paper = filters_for(wordnet, imagenet_1k(), imagenet_1k(), counts={})
    assert [each.name for each in paper] == [
        *("seen", "fewer than 782 images", f"sub-tree {PERSON}"),
        *("ancestors of seen", "not a leaf", "listed by hand"),
    ]
    assert run_funnel(wordnet, ["n07942152", "n02123045"], filters_for(wordnet, [], [])).concepts == ("n02123045",)


def test_every_dropped_concept_has_the_filter_that_dropped_it(wordnet: WordNet) -> None:
    seen = ["n02123045"]  # tabby
    concepts = [*seen, "n02121620", "n02084071", "n10787470", "n02391049"]  # cat, dog, woman, zebra
    found = run_funnel(wordnet, concepts, filters_for(wordnet, concepts, seen))
    assert found.reasons == {
        "n02123045": "seen",
        "n02121620": "ancestors of seen",
        "n10787470": "sub-tree n00007846",
    }
    assert set(found.concepts) | set(found.reasons) == set(concepts)
