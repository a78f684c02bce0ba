"""Class names as datasets write them."""

from __future__ import annotations

import pytest

from unseen.concepts import WordNet
from unseen.concepts.class_names import ClassNameReader, clean
from unseen.concepts.evidence import CandidateFinder


@pytest.fixture(scope="module")
def finder(wordnet: WordNet) -> CandidateFinder:
    return CandidateFinder(ClassNameReader(wordnet))


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("043.Yellow_bellied_Flycatcher", "yellow bellied flycatcher"),
        ("blue+whale", "blue whale"),
        ("temple_south_asia", "temple south asia"),
        ("PottedPlant", "potted plant"),
        ("Jack-o'-lantern", "jack o lantern"),
        ("  12 - antelope ", "antelope"),
        ("/a/alley", "a alley"),
        ("4x4", "4x4"),
    ],
)
def test_cleaning(name: str, words: str) -> None:
    assert clean(name) == words


@pytest.mark.parametrize(
    ("name", "how", "wnid"),
    [
        ("tabby", "exact", "n02123045"),
        ("tiger_cats", "exact", "n02123159"),
        ("wolves", "exact", "n02114100"),
        ("blue+whale", "exact", "n02064816"),
        ("diningtable", "exact", "n03201208"),
        ("tvmonitor", "exact", "n04405762"),
        ("aeroplane", "exact", "n02691156"),
        ("180.Wilson_Warbler", "exact", "n01567879"),
        ("052.Pied_billed_Grebe", "exact", "n02051059"),
        ("grey_catbird", "exact", "n01587526"),
        ("artists_loft", "exact", "n02746683"),
        ("hog, pig, grunter, squealer", "exact", "n02395406"),
        ("church_indoor", "qualified", "n03028079"),
        ("outdoor monastery", "qualified", "n03781244"),
        ("theater_indoor_seats", "qualified", "n04417809"),
        ("143.Caspian_Tern", "ending", "n02043063"),
        ("pottedplant", "ending", "n00017222"),
        ("piano_store", "ending", "n04202417"),
    ],
)
def test_candidates(finder: CandidateFinder, name: str, how: str, wnid: str) -> None:
    row = finder.find(name)[wnid]
    assert row[how] or (how == "exact" and row["form"])


@pytest.mark.parametrize("name", ["jacuzzi_indoor", "xyzzy", "", "123"])
def test_names_that_wordnet_lacks(finder: CandidateFinder, name: str) -> None:
    assert not finder.find(name)


def test_alternatives_and_hints_are_candidates(finder: CandidateFinder) -> None:
    found = finder.find("hog, pig, grunter")
    assert found["n02395406"]["exact"]
    bird = finder.find("crane (bird)")
    assert bird["n02012849"]["below_hint"] == 1 and not bird["n03126707"]["below_hint"]
    assert set(finder.find("crane")) <= set(bird)


def test_nothing_is_a_kind_of_asia(finder: CandidateFinder) -> None:
    found = finder.find("temple_south_asia")
    assert "n04407435" in found, "the temple"
    assert not [wnid for wnid in found if finder.wordnet.is_instance[finder.wordnet.index([wnid])[0]]]


def test_frequent_senses_come_first(finder: CandidateFinder, wordnet: WordNet) -> None:
    assert list(finder.reader.lookup("seal")) == wordnet.senses("seal")
