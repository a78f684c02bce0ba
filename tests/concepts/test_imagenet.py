"""Synset lists and image counts."""

from __future__ import annotations

from pathlib import Path

import pytest

from unseen.concepts import WordNet, imagenet_1k, imagenet_21k, read_counts
from unseen.core.errors import DataError
from unseen.core.names import is_wnid


def test_lists(wordnet: WordNet) -> None:
    assert len(set(imagenet_1k())) == 1000 and list(imagenet_1k()) == sorted(imagenet_1k())
    assert len(set(imagenet_21k())) == 21_841
    assert set(imagenet_1k()) - set(imagenet_21k()) == {"n04399382"}
    assert all(wnid in wordnet for wnid in (*imagenet_1k(), *imagenet_21k()))


def test_counts_are_those_of_the_release(imagenet_counts: dict[str, int]) -> None:
    assert set(imagenet_counts) == set(imagenet_21k())


def test_reading_counts(tmp_path: Path) -> None:
    (tmp_path / "c.csv").write_text("wnid,images\na,3\nb, 0\n")
    (tmp_path / "c.tsv").write_text("a\t3\nb\t0\n")
    assert read_counts(tmp_path / "c.csv") == read_counts(tmp_path / "c.tsv") == {"a": 3, "b": 0}


@pytest.mark.parametrize(
    ("text", "message"),
    [("a,1\nb,x\n", "line 2: expected"), ("a,1\na,2\n", "counted twice"), ("", "no counts"), ("a,1\nb,-1\n", "line 2")],
)
def test_bad_counts(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "c.csv").write_text(text)
    with pytest.raises(DataError, match=message):
        read_counts(tmp_path / "c.csv")
    with pytest.raises(DataError, match="cannot read"):
        read_counts(tmp_path / "none.csv")


def test_wnids() -> None:
    assert is_wnid("n02123045") and not is_wnid("n0212304") and not is_wnid("tabby") and not is_wnid("xn02123045")
