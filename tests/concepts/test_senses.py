"""Choosing a sense: every rule, and what a person settled."""

from __future__ import annotations

import pytest

from unseen.concepts import ClassMatch, WordNet, match_classes
from unseen.core.errors import DataError

MAMMALS = ["walrus", "giraffe", "bobcat", "blue+whale", "zebra", "hippopotamus"]


def match(wordnet: WordNet, name: str, *others: str) -> ClassMatch:
    return match_classes(wordnet, [name, *others])[0]


def test_the_only_sense(wordnet: WordNet) -> None:
    got = match(wordnet, "walrus")
    assert got == ClassMatch("walrus", "n02081571", "exact", "only sense", ("n02081571",), False)


def test_proper_names_are_set_aside(wordnet: WordNet) -> None:
    got = match(wordnet, "centaur")
    assert got.wnid == "n09493043" and got.reason == "only sense that is not a proper name"
    assert len(got.senses) > 1 and got.senses[0] == got.wnid


@pytest.mark.parametrize(
    ("name", "wnid"), [("crane (bird)", "n02012849"), ("crane (machine)", "n03126707"), ("Bat (animal)", "n02139199")]
)
def test_hints(wordnet: WordNet, name: str, wnid: str) -> None:
    got = match(wordnet, name)
    assert got.wnid == wnid and "points to" in got.reason and not got.ambiguous


@pytest.mark.parametrize(("name", "wnid"), [("seal", "n02076196"), ("bat", "n02139199"), ("mole", "n01889520")])
def test_the_other_classes_decide(wordnet: WordNet, name: str, wnid: str) -> None:
    alone, among_mammals = match(wordnet, name), match(wordnet, name, *MAMMALS)
    assert alone.ambiguous and not among_mammals.ambiguous
    assert among_mammals.wnid == wnid and "fits the other classes best" in among_mammals.reason
    assert set(alone.senses) == set(among_mammals.senses)


def test_classes_settled_in_the_first_round_help_in_the_second(wordnet: WordNet) -> None:
    """Only three classes are plain; rat, sheep and horse fall in line behind them."""
    got = match_classes(wordnet, ["horse", "sheep", "rat", "walrus", "giraffe", "bobcat"])
    assert [m.wnid for m in got[:3]] == ["n02374451", "n02411705", "n02331046"]
    assert not any(m.ambiguous for m in got)


def test_the_order_of_classes_decides_nothing(wordnet: WordNet) -> None:
    names = ["horse", "seal", "bat", *MAMMALS]
    forwards = {m.name: m for m in match_classes(wordnet, names)}
    backwards = {m.name: m for m in match_classes(wordnet, names[::-1])}
    assert forwards == backwards


def test_ambiguous_without_help(wordnet: WordNet) -> None:
    got = match(wordnet, "crane")
    assert got.ambiguous and got.wnid == got.senses[0] and "not clearly" in got.reason


def test_a_person_and_the_dataset_come_first(wordnet: WordNet) -> None:
    got = match_classes(
        wordnet,
        ["seal", "bat", "jetski", "rat"],
        mapping={"seal": "n02076196", "jetski": "-"},
        wnids=["n04159545", "n02139199", None, None],
    )
    assert got[0].wnid == "n02076196" and got[0].how == "given" and got[0].reason == "settled by the mapping"
    assert got[1].wnid == "n02139199" and got[1].reason == "the dataset names the synset"
    assert got[2].wnid is None and got[2].how == "given" and "not in WordNet" in got[2].reason
    assert got[3].how == "exact"


def test_bad_mappings(wordnet: WordNet) -> None:
    with pytest.raises(DataError, match="1 classes that are not in the list, such as 'sael'"):
        match_classes(wordnet, ["seal"], mapping={"sael": "n02076196"})
    with pytest.raises(DataError, match="class 'seal': the mapping has 'n99999999', which is no noun"):
        match_classes(wordnet, ["seal"], mapping={"seal": "n99999999"})
