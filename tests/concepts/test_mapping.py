"""The mapping from names to synsets: what is sure, what is open, and the file that goes round."""

from __future__ import annotations

from pathlib import Path

import pytest

from unseen.concepts import imagenet_1k, map_classes, read_mapping
from unseen.core.errors import DataError
from unseen.data.columns import read_table, read_wnids

NAMES = ["accordion", "mole", "crocodile_head", "jetski", "xyzzy", "crocodile", "okapi", "Caspian_Tern", "emu"]


def test_sure_and_doubtful() -> None:
    mapping = map_classes(NAMES, mapping={"jetski": "-"})
    assert mapping.sure == {
        "accordion": "n02672831",
        "okapi": "n02439398",
        "emu": "n01519873",
    }
    doubtful = {row.match.name for row in mapping.doubtful}
    assert doubtful == {"mole", "crocodile", "crocodile_head", "xyzzy", "Caspian_Tern"}
    assert mapping.absent == ("jetski",)
    assert mapping.wnids == tuple(mapping.sure.get(name) for name in NAMES)
    mole = next(row for row in mapping.doubtful if row.match.name == "mole")
    assert mole.senses[0].wnid == "n01889520" and mole.senses[0].definition
    assert "n02894605" in [sense.wnid for sense in mole.senses], "the breakwater, which is seen"
    assert mapping.summary == "3 of 9 classes were matched to WordNet, 5 are open, 1 has no synset."


def test_a_synset_goes_to_one_class() -> None:
    """The one that is written so, wherever it stands; but what a person or the dataset says stays."""
    mapping = map_classes(["cougar_face", "cougar_body", "cougar"])
    assert mapping.sure == {"cougar": "n02125311"}
    assert {row.match.name for row in mapping.doubtful} == {"cougar_face", "cougar_body"}
    given = map_classes(["cougar_face", "cougar_body"], wnids=["n02125311", "n02125311"])
    assert list(given.sure) == ["cougar_face", "cougar_body"]


def test_seen_concepts_are_a_choice() -> None:
    """A mole may be a seen concept only if models were trained on breakwaters."""
    mammals = ["walrus", "giraffe", "bobcat", "blue+whale", "raccoon", "mole"]
    without, with_them = map_classes(mammals, seen=["n02123045"]), map_classes(mammals, seen=imagenet_1k())
    assert without.rows[-1].match.seen == () and "n02894605" in with_them.rows[-1].match.seen
    assert without.rows[-1].match.wnid == with_them.rows[-1].match.wnid == "n01889520"


@pytest.mark.parametrize("ending", ["tsv", "csv", "txt"])
def test_the_file_goes_round(tmp_path: Path, ending: str) -> None:
    names = [*NAMES, "llama, Lama peruana"]
    first = map_classes(names, mapping={"jetski": "-"})
    path = tmp_path / f"wnids.{ending}"
    first.write(path)
    text = path.read_text()
    assert all(any(line.lstrip('"').startswith(name) for line in text.splitlines()) for name in names), "all classes"
    assert read_wnids(path, names) == list(first.wnids), "the folder source takes it as it is"
    settled = read_mapping(path)
    assert settled == {**first.sure, "jetski": "-"}
    again = map_classes(names, mapping=settled)
    assert again.wnids == first.wnids and again.absent == first.absent
    # A person settles one, and both readers see it.
    separator = "," if ending == "csv" else "\t"
    path.write_text(text.replace(f"mole{separator}?", f"mole{separator}n01889520"))
    assert read_wnids(path, names)[1] == "n01889520" and read_mapping(path)["mole"] == "n01889520"


def test_what_readers_accept(tmp_path: Path) -> None:
    (tmp_path / "w.tsv").write_text(
        "# ours\nclass\twnid\na b\tn02123045\t# tabby\nc n02123159 # tiger cat\nd\t?\ne\t-\n"
    )
    assert read_wnids(tmp_path / "w.tsv", ["a b", "c", "d", "e", "f"]) == ["n02123045", "n02123159", None, None, None]
    (tmp_path / "n.csv").write_text('# ours\n"a, b",A thing\nc,C\n')
    assert read_table(tmp_path / "n.csv", ["a, b", "c"]) == {"a, b": "A thing", "c": "C"}
    (tmp_path / "bad.tsv").write_text("a\tcat\n")
    with pytest.raises(DataError, match=r"'a' has 'cat', which is no WordNet id.*Write \?"):
        read_wnids(tmp_path / "bad.tsv", ["a"])
    (tmp_path / "half.tsv").write_text("a\n")
    with pytest.raises(DataError, match="line 1: expected a class and a wnid"):
        read_wnids(tmp_path / "half.tsv", ["a"])


def test_the_photographs(golden_data: Path, tmp_path: Path) -> None:
    """From the folder's names alone: what is sure agrees with what a person settled."""
    folder = golden_data / "photos" / "caltech101"
    names = sorted(path.name for path in (folder / "images").iterdir())
    settled = read_wnids(folder / "wnids.tsv", names)
    mapping = map_classes(names)
    mapping.write(tmp_path / "wnids.tsv")
    proposed = read_wnids(tmp_path / "wnids.tsv", names)
    wrong = [n for n, a, b in zip(names, proposed, settled, strict=True) if a and b and a != b]
    assert not wrong and sum(wnid is not None for wnid in proposed) >= 55
    assert len(mapping.sure) + len(mapping.doubtful) == len(names) == 95
