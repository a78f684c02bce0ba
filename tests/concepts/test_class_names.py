"""Class names as datasets write them."""

from __future__ import annotations

import pytest

from unseen.concepts import WordNet
from unseen.concepts.class_names import ClassNameReader, clean


@pytest.fixture(scope="module")
def reader(wordnet: WordNet) -> ClassNameReader:
    return ClassNameReader(wordnet)


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
        ("n02123045", "given", "n02123045"),
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
        ("143.Caspian_Tern", "head", "n02043063"),
        ("pottedplant", "head", "n00017222"),
        ("piano_store", "head", "n04202417"),
    ],
)
def test_readings(reader: ClassNameReader, name: str, how: str, wnid: str) -> None:
    reading = reader.read(name)
    assert reading.how == how
    assert wnid in reading.senses


@pytest.mark.parametrize("name", ["jacuzzi_indoor", "xyzzy", "", "123"])
def test_names_that_wordnet_lacks(reader: ClassNameReader, name: str) -> None:
    assert reader.read(name).how == "none" and reader.read(name).senses == ()


def test_shared_names_vote(reader: ClassNameReader) -> None:
    """Crane alone has several senses; with its second name there is one."""
    assert len(reader.read("crane").senses) > 3
    assert reader.read("hog, pig, grunter, squealer, Sus scrofa").senses == ("n02395406",)


def test_brackets_are_a_hint(reader: ClassNameReader) -> None:
    reading = reader.read("crane (bird)")
    assert reading.hint == "bird" and reading.senses == reader.read("crane").senses


def test_nothing_is_a_kind_of_asia(wordnet: WordNet) -> None:
    assert ClassNameReader(wordnet).read("temple_south_asia").how == "none"
    scenes = ClassNameReader(wordnet, ["temple_south_asia", "church_indoor"])
    assert "n04407435" in scenes.read("temple_south_asia").senses, "in such lists the head may stand first"
    assert ClassNameReader(wordnet, ["Green_Violetear"]).read("Green_Violetear").how == "none"


def test_frequent_senses_come_first(reader: ClassNameReader, wordnet: WordNet) -> None:
    assert list(reader.read("seal").senses) == wordnet.senses("seal")
