"""Choosing a sense: the evidence of names, hints and other classes, and ids that are given."""

from __future__ import annotations

import json
from importlib.resources import files

import numpy as np
import pytest

from unseen.concepts import ClassMatch, WordNet, imagenet_1k, match_classes
from unseen.concepts.evidence import FEATURES
from unseen.concepts.senses import LEAST_SURE, WRONG_AMONG_SURE, matching_weights
from unseen.core.errors import DataError

MAMMALS = ["walrus", "giraffe", "bobcat", "blue+whale", "zebra", "hippopotamus"]


def match(wordnet: WordNet, name: str, *others: str) -> ClassMatch:
    return match_classes(wordnet, [name, *others])[0]


def test_a_name_with_one_sense_is_sure(wordnet: WordNet) -> None:
    got = match(wordnet, "walrus")
    assert got.wnid == "n02081571" and got.how == "exact" and got.probability > 0.99 and not got.ambiguous


def test_proper_names_are_less_probable(wordnet: WordNet) -> None:
    got = match(wordnet, "centaur")
    assert got.wnid == "n09493043" and len(got.senses) > 1 and got.senses[0] == got.wnid


@pytest.mark.parametrize(
    ("name", "wnid"), [("crane (bird)", "n02012849"), ("crane (device)", "n03126707"), ("Bat (animal)", "n02139199")]
)
def test_hints_narrow_the_candidates(wordnet: WordNet, name: str, wnid: str) -> None:
    got = match(wordnet, name)
    bare = match(wordnet, name.partition(" ")[0])
    assert got.wnid == wnid
    assert got.probability > (bare.probability if bare.wnid == wnid else 1 - bare.probability)
    assert set(bare.senses) <= set(got.senses) | set(bare.senses[3:]), "the other senses are still candidates"


@pytest.mark.parametrize(("name", "wnid"), [("seal", "n02076196"), ("bat", "n02139199"), ("mole", "n01889520")])
def test_the_other_classes_decide(wordnet: WordNet, name: str, wnid: str) -> None:
    alone, among_mammals = match(wordnet, name), match(wordnet, name, *MAMMALS)
    assert among_mammals.wnid == wnid
    assert alone.wnid != wnid or among_mammals.probability > alone.probability
    assert set(alone.senses[:3]) & set(among_mammals.senses)


def test_the_order_of_classes_decides_nothing(wordnet: WordNet) -> None:
    names = ["horse", "seal", "bat", *MAMMALS]
    forwards = {m.name: m for m in match_classes(wordnet, names)}
    backwards = {m.name: m for m in match_classes(wordnet, names[::-1])}
    assert forwards == backwards


def test_ambiguous_without_help(wordnet: WordNet) -> None:
    got = match(wordnet, "crane")
    assert got.ambiguous and got.wnid == got.senses[0] and "next" in got.reason and got.probability < 0.9


def test_ids_of_the_mapping_and_of_the_dataset_come_first(wordnet: WordNet) -> None:
    got = match_classes(
        wordnet,
        ["seal", "bat", "jetski", "rat"],
        mapping={"seal": "n02076196", "jetski": "-"},
        wnids=["n04159545", "n02139199", None, None],
    )
    assert got[0].wnid == "n02076196" and got[0].how == "given" and got[0].reason == "settled by the mapping"
    assert got[1].wnid == "n02139199" and got[1].reason == "the dataset gives the synset"
    assert got[2].wnid is None and got[2].how == "given" and "not in WordNet" in got[2].reason
    assert got[3].how == "exact"


def test_bad_mappings(wordnet: WordNet) -> None:
    with pytest.raises(DataError, match="1 classes that are not in the list, such as 'sael'"):
        match_classes(wordnet, ["seal"], mapping={"sael": "n02076196"})
    with pytest.raises(DataError, match="class 'seal': the mapping has 'n99999999', which is not a noun"):
        match_classes(wordnet, ["seal"], mapping={"seal": "n99999999"})


def test_sure_classes_are_wrong_in_one_percent_by_their_own_probabilities(wordnet: WordNet) -> None:
    names = ["crane", "mole", "bass", "seal", "bat", "mouse", "pipe", "ball", *MAMMALS]
    sure = [m.probability for m in match_classes(wordnet, names, seen=imagenet_1k()) if not m.ambiguous]
    assert sure and min(sure) >= LEAST_SURE and np.mean(1 - np.asarray(sure)) <= WRONG_AMONG_SURE


def test_long_lists_are_matched_in_blocks(wordnet: WordNet, monkeypatch: pytest.MonkeyPatch) -> None:
    names = [*MAMMALS, "seal", "otter", "lynx", "okapi", "llama", "gorilla", "beaver", "badger"]
    whole = {m.name: m.wnid for m in match_classes(wordnet, names)}
    monkeypatch.setattr("unseen.concepts.senses._MOST_CONTEXT", 5)
    blocks = {m.name: m.wnid for m in match_classes(wordnet, names)}
    assert sum(whole[name] == blocks[name] for name in names) >= len(names) - 1


def test_the_stored_weights_have_one_value_per_feature() -> None:
    stored = json.loads((files("unseen.concepts") / "matching.json").read_text())["weights"]
    assert set(stored) == set(FEATURES) and len(matching_weights()) == len(FEATURES)


@pytest.mark.parametrize("name", ["Maine Coon", "coon", "spade", "nigger"])
def test_offensive_synsets_are_no_candidates(wordnet: WordNet, name: str) -> None:
    got = match_classes(wordnet, [name, "Persian", "Siamese", "Ragdoll"], seen=imagenet_1k())[0]
    assert not [s for s in got.senses if "slur" in wordnet.definition(s) or "offensive" in wordnet.definition(s)]
