"""Class lists, seen sets and mapping files."""

from __future__ import annotations

from pathlib import Path

import pytest

from unseen.concepts import (
    ClassMapping,
    WordNet,
    audit_classes,
    imagenet_1k,
    imagenet_21k,
    list_unknown,
    match_names,
    read_class_list,
    read_mapping,
    read_seen,
)
from unseen.core.errors import DataError, UsageError


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("c.txt", "blue whale\n\n# a comment\nseal\n"),
        ("n.txt", "1\tblue whale\n2 seal\n"),
        ("c.csv", "class,wnid\nblue whale,x\nseal,y\n"),
        ("c.tsv", "blue whale\t3\nseal\t4\n"),
        ("c.json", '["blue whale", "seal"]'),
    ],
)
def test_class_lists(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    assert read_class_list(tmp_path / name) == ["blue whale", "seal"]


def test_numbers_that_belong_to_names_stay(tmp_path: Path) -> None:
    (tmp_path / "c.txt").write_text("001.Black_footed_Albatross\n002.Laysan_Albatross\n")
    assert read_class_list(tmp_path / "c.txt")[0] == "001.Black_footed_Albatross"


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("c.txt", "a\nb\na\n", "'a' twice"),
        ("c.txt", "\n", "no classes"),
        ("c.json", "{}", "list of names"),
        ("c.json", "[", "JSON"),
    ],
)
def test_bad_class_lists(tmp_path: Path, name: str, text: str, message: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(DataError, match=message):
        read_class_list(tmp_path / name)
    with pytest.raises(DataError, match="cannot read"):
        read_class_list(tmp_path / "none.txt")
    (tmp_path / "latin.txt").write_bytes(b"caf\xe9\n")
    with pytest.raises(DataError, match="not UTF-8"):
        read_class_list(tmp_path / "latin.txt")


def test_seen_sets(wordnet: WordNet, tmp_path: Path) -> None:
    assert read_seen("imagenet-1k", wordnet) == ("ImageNet-1K", list(imagenet_1k()))
    assert read_seen("ImageNet-21K", wordnet) == ("ImageNet-21K", list(imagenet_21k()))
    (tmp_path / "mine.txt").write_text("n02123045\nn02123159\n")
    assert read_seen(str(tmp_path / "mine.txt"), wordnet) == ("mine.txt", ["n02123045", "n02123159"])
    (tmp_path / "names.txt").write_text("Persian cat\nwalrus\n")
    assert read_seen(str(tmp_path / "names.txt"), wordnet)[1] == ["n02123394", "n02081571"]
    (tmp_path / "odd.txt").write_text("tabby\nCaspian_Tern\n")
    with pytest.raises(DataError, match="1 of 2 seen classes have no synset of their own, such as 'Caspian_Tern'"):
        read_seen(str(tmp_path / "odd.txt"), wordnet)
    with pytest.raises(UsageError, match="Did you mean 'imagenet-1k'"):
        read_seen("imagenet1k", wordnet)


@pytest.mark.parametrize(
    ("name", "text"),
    [("m.tsv", "# ours\nclass\twnid\nblue whale\tn02064816\nseal\t-\n"), ("m.csv", '"blue whale",n02064816\nseal,-\n')],
)
def test_mappings(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text.removeprefix("# ours\n") if name == "m.tsv" else text)
    assert read_mapping(tmp_path / name) == {"blue whale": "n02064816", "seal": "-"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("seal\tcat", "line 1: 'seal' has 'cat', which is no WordNet id"),
        ("seal", "line 1: expected a class and a wnid"),
        ("seal\tn02076197", r"line 1: 'seal' has n02076197, which is not a noun"),
        ("# settled\nseal\tn02076196\nseal\t-", "line 3: the class 'seal' is on line 2 already"),
    ],
)
def test_bad_mappings(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "m.tsv").write_text(text + "\n")
    with pytest.raises(DataError, match=message):
        read_mapping(tmp_path / "m.tsv")


@pytest.mark.parametrize("ending", ["tsv", "csv"])
def test_a_written_mapping_given_back_claims_nothing_new(tmp_path: Path, ending: str) -> None:
    names = ["crane", "jetski", "xyzzy", "walrus", "market_outdoor", "bag", "Caspian_Tern", "mouse, x"]
    before = audit_classes(names, imagenet_1k())
    path = tmp_path / f"m.{ending}"
    made = ClassMapping(before.rows)
    made.write(path)
    assert len(made.doubtful) >= 5
    assert "n02773037 bag" in path.read_text() and "[seen]" in path.read_text()
    mapping = read_mapping(path)
    assert mapping == {"walrus": "n02081571"}, "what is open stays open"
    after = audit_classes(names, imagenet_1k(), mapping=mapping)
    assert [row.relation for row in after.rows] == [row.relation for row in before.rows]
    assert not any(row.match.ambiguous for row in after.rows if row.match.name in mapping)
    with pytest.raises(UsageError, match="is a folder"):
        made.write(tmp_path)


def test_names_match_but_for_separators_and_unicode_form() -> None:
    known = ["red fox", "barn_owl", "cre\u0300me", "a b", "a_b"]
    found = match_names(["red_fox", "barn  owl", "cr\u00e8me", "a_b", "a  b", "Red fox", "emu"], known)
    assert found == {
        "red_fox": "red fox",
        "barn  owl": "barn_owl",
        "cr\u00e8me": "cre\u0300me",
        "a_b": "a_b",  # itself, though another name differs only in its separator
        "a  b": None,  # it may be either of two
        "Red fox": None,
        "emu": None,
    }
    assert list_unknown(["Red fox", "qqq"], known) == "'Red fox' (did you mean 'red fox'?), 'qqq'"
    assert list_unknown([str(i) for i in range(7)], []).endswith("'4' and 2 more")
