"""Names on which earlier versions of the audit were wrong without a flag."""

from __future__ import annotations

import pytest

from unseen.concepts import Audit, Relation, WordNet, audit_classes, imagenet_1k
from unseen.concepts.class_names import clean, split_name
from unseen.concepts.mapping import ClassMapping

PETS = [
    "Abyssinian", "american_bulldog", "american_pit_bull_terrier", "basset_hound", "beagle", "Bengal", "Birman",
    "Bombay", "boxer", "British_Shorthair", "chihuahua", "Egyptian_Mau", "english_cocker_spaniel", "english_setter",
    "german_shorthaired", "great_pyrenees", "havanese", "japanese_chin", "keeshond", "leonberger", "Maine_Coon",
    "miniature_pinscher", "newfoundland", "Persian", "pomeranian", "pug", "Ragdoll", "Russian_Blue", "saint_bernard",
    "samoyed", "scottish_terrier", "shiba_inu", "Siamese", "Sphynx", "staffordshire_bull_terrier", "wheaten_terrier",
    "yorkshire_terrier",
]  # fmt: skip
TEXTURES = ["banded", "blotchy", "braided", "bubbly", "meshed", "paisley", "pitted", "pleated", "striped", "woven"]
DINNER = ["pizza", "guacamole", "lasagna", "sushi", "omelette", "hamburger", "waffles", "paella"]
VEHICLES = ["airliner", "warplane", "minivan", "tractor", "An-12", "F-16A/B", "ford model t", "Spitfire"]


def audit(names: list[str]) -> Audit:
    return audit_classes(names, imagenet_1k(), seen_name="ImageNet-1K")


@pytest.fixture(scope="module")
def pets() -> Audit:
    return audit(PETS)


@pytest.mark.parametrize("names", [PETS, VEHICLES, ["love in the mist", *DINNER], ["Crème brûlée", *DINNER]])
def test_a_class_known_by_a_part_of_its_name_never_reads_unseen(names: list[str]) -> None:
    for row in audit(names).rows:
        if row.match.how in ("head", "spelling", "none"):
            assert row.relation is not Relation.UNSEEN, row.match.name


def test_a_thing_named_by_a_part_of_it_is_flagged() -> None:
    """ObjectNet: ImageNet-1K has toilet tissue."""
    row = audit(["toilet_paper_roll", "basket", "alarm_clock", "backpack", "bench", "hammer", "umbrella"]).rows[0]
    assert row.flagged and row.relation is not Relation.UNSEEN


@pytest.mark.parametrize("name", ["toad lily", "balloon flower"])
def test_flowers_that_wordnet_has_as_other_plants_are_no_leaks(name: str) -> None:
    """WordNet's only sense is another plant, which no name can reveal; neither plant is in ImageNet-1K."""
    row = audit([name, "sunflower", "bearded iris", "foxglove", "snapdragon", "water lily"]).rows[0]
    assert row.relation is Relation.UNSEEN and not row.flagged


def test_the_sentence_is_withheld_if_nothing_was_matched() -> None:
    models = [f"{maker} {number}" for maker in ("Acura", "Audi", "Bugatti") for number in ("TL 2012", "V8x", "ZDX")]
    assert audit(models).summary.startswith("No statement about ImageNet-1K")
    assert audit(["zebra", "walrus", "Bugatti V8x"]).summary.startswith("1 of the 2 matched out of 3 classes is in")


@pytest.mark.parametrize("name", ["Bengal", "Bombay", "Ragdoll"])
def test_places_and_dolls_among_pets_are_open(pets: Audit, name: str) -> None:
    row = next(row for row in pets.rows if row.match.name == name)
    assert row.match.ambiguous and name not in ClassMapping(pets.rows).sure


@pytest.mark.parametrize(
    ("name", "others"),
    [("meshed", TEXTURES), ("garfield", ["anchor", "ant", "lamp", "pizza", "emu"]), ("Spitfire", VEHICLES)],
)
def test_proper_names_that_the_list_does_not_support_are_open(name: str, others: list[str]) -> None:
    rows = audit([name, *(other for other in others if other != name)]).rows
    assert rows[0].match.ambiguous and name not in ClassMapping(rows).sure


@pytest.mark.parametrize(
    ("name", "others"),
    [
        ("vespa", ["minivan", "tractor", "bicycle", "speedboat", "airliner", "snowmobile"]),
        ("pelargonium", ["sunflower", "daisy", "water lily", "bearded iris", "foxglove", "snapdragon"]),
        ("bromelia", ["sunflower", "daisy", "water lily", "bearded iris", "foxglove", "snapdragon"]),
    ],
)
def test_genera_that_the_list_does_not_support_are_open(name: str, others: list[str]) -> None:
    row = audit([name, *others]).rows[0]
    assert row.match.ambiguous and (row.relation is not Relation.UNSEEN or row.flagged)


@pytest.mark.parametrize(
    ("name", "true"), [("bus_(vehicle)", "n02924116"), ("salmon_(fish)", "n02534734"), ("salmon", "n02534734")]
)
def test_a_hint_narrows_and_does_not_silence(name: str, true: str) -> None:
    row = audit([name, "truck", "cow", "eagle", "tricycle", "goldfish", "ferry"]).rows[0]
    assert true in [sense.wnid for sense in row.senses]
    assert row.match.wnid == true or row.match.ambiguous


@pytest.mark.parametrize(
    ("name", "seen"),
    [
        ("japanese_chin", "n02085782"),
        ("leonberger", "n02111129"),
        ("Egyptian_Mau", "n02124075"),
        ("german_shorthaired", "n02100236"),
        ("newfoundland", "n02111277"),
    ],
)
def test_seen_concepts_are_found_by_word_and_prefix(pets: Audit, name: str, seen: str) -> None:
    row = next(row for row in pets.rows if row.match.name == name)
    assert seen in [sense.wnid for sense in row.senses]
    assert row.flagged


@pytest.mark.parametrize(("name", "words"), [("jalapeño", "jalapeno"), ("café", "cafe"), ("señorita", "senorita")])
def test_accents_are_folded(wordnet: WordNet, name: str, words: str) -> None:
    assert clean(name) == words
    assert audit([name]).rows[0].match.how == "exact"


def test_names_in_folders_by_letter(wordnet: WordNet) -> None:
    assert split_name("/c/church/indoor") == (["church indoor"], "") and split_name("/a/abbey") == (["abbey"], "")
    names = ["/a/abbey", "/a/airplane_cabin", "/b/bakery/shop", "/c/church/indoor", "/l/lighthouse", "/p/pagoda"]
    rows = {row.match.name: row for row in audit(names).rows}
    assert rows["/c/church/indoor"].relation is Relation.SEEN and rows["/l/lighthouse"].relation is Relation.SEEN
    assert rows["/a/abbey"].match.wnid in ("n02667093", "n02667576")


def test_slurs_and_persons_are_not_offered_for_objects(pets: Audit, wordnet: WordNet) -> None:
    coon = next(row for row in pets.rows if row.match.name == "Maine_Coon")
    assert "n09638009" not in [sense.wnid for sense in coon.senses]
    people = wordnet.descendants("n00007846")
    tractor = audit(["tractor", "beaver", "tiger", "leopard", "walrus", "emu"]).rows
    for row in tractor:
        assert not people.intersection(sense.wnid for sense in row.senses), row.match
