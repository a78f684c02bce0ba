"""Word vectors from text files."""

from __future__ import annotations

import bz2
import gzip
from pathlib import Path

import numpy as np
import pytest

from unseen.concepts import WordVectors, read_word_vectors
from unseen.concepts.text import entity_key
from unseen.core.errors import DataError

GLOVE = "the 0.1 0.2\nCat -1 2e-1\ncat 9 9\nCAT 7 7\nDog 1 2\nDOG 3 4\n"


def rows_of(vectors: WordVectors, *words: str) -> np.ndarray:
    return vectors.table[[vectors.rows[word] for word in words]]


@pytest.mark.parametrize("header", ["", "6 2\n"])
def test_glove_and_word2vec(tmp_path: Path, header: str) -> None:
    (tmp_path / "v.txt").write_text(header + GLOVE)
    vectors = read_word_vectors(tmp_path / "v.txt")
    assert vectors.table.shape[1] == 2 and "the" in vectors.rows and "elk" not in vectors.rows
    # The word in lower case is preferred; of other spellings the first, which is the more frequent.
    np.testing.assert_allclose(rows_of(vectors, "cat", "dog", "the"), [[9, 9], [1, 2], [0.1, 0.2]], atol=1e-7)


def test_gzip_and_limit(tmp_path: Path) -> None:
    with gzip.open(tmp_path / "v.txt.gz", "wt") as stream:
        stream.write(GLOVE)
    assert len(read_word_vectors(tmp_path / "v.txt.gz").rows) == 3
    assert list(read_word_vectors(tmp_path / "v.txt.gz", only={"cat"}).rows) == ["cat"]


WIKIPEDIA2VEC = {
    # What its `save_text` writes: with a header and underscores, or with a tab and titles as they are.
    "word2vec": "5 3\nENTITY/Tabby_cat 1 0 0\nENTITY/Labrador_Retriever 0 1 0\nthe 0 0 1\ntabby 1 1 0\ncat 0 1 1\n",
    "default": "ENTITY/Tabby cat\t1 0 0\nENTITY/Labrador Retriever\t0 1 0\nthe\t0 0 1\ntabby\t1 1 0\ncat\t0 1 1\n",
}


@pytest.mark.parametrize("style", WIKIPEDIA2VEC)
@pytest.mark.parametrize("ending", ["txt", "txt.gz", "txt.bz2"])
def test_entities(tmp_path: Path, style: str, ending: str) -> None:
    path = tmp_path / f"v.{ending}"
    opener = {"txt": open, "txt.gz": gzip.open, "txt.bz2": bz2.open}[ending]
    with opener(path, "wt") as stream:
        stream.write(WIKIPEDIA2VEC[style])
    vectors = read_word_vectors(path)
    assert vectors.table.shape == (5, 3)
    np.testing.assert_allclose(rows_of(vectors, entity_key("tabby_cat"), "tabby"), [[1, 0, 0], [1, 1, 0]])
    assert entity_key("Labrador retriever") in vectors.rows and "labrador retriever" not in vectors.rows
    few = read_word_vectors(path, only={"cat", entity_key("tabby cat")})
    assert len(few.rows) == 2 and "the" not in few.rows


def test_words_with_spaces(tmp_path: Path) -> None:
    """GloVe 840B has such: where the number of dimensions is known, the word is what comes before."""
    (tmp_path / "v.txt").write_text("the 1 2 3\n. . . 4 5 6\n")
    np.testing.assert_allclose(rows_of(read_word_vectors(tmp_path / "v.txt"), ". . ."), [[4, 5, 6]])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("2 3\na 1 2\n", "line 2: 2 numbers after 'a', 3 expected"),
        ("a 1 nan\n", "'a' has values that are not finite"),
        ("a " + "1 " * 600_000, "longer than 1,000,000"),
    ],
)
def test_damaged_files(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "v.txt").write_text(text)
    with pytest.raises(DataError, match=message):
        read_word_vectors(tmp_path / "v.txt")


def test_none_of_the_words(tmp_path: Path) -> None:
    (tmp_path / "v.txt").write_text(GLOVE)
    with pytest.raises(DataError, match="but none of a required word"):
        read_word_vectors(tmp_path / "v.txt", only={"xyzzy"})
    (tmp_path / "v.txt.bz2").write_bytes(b"no bzip2")
    with pytest.raises(DataError, match="cannot be read"):
        read_word_vectors(tmp_path / "v.txt.bz2")


@pytest.mark.parametrize(
    ("text", "message"), [("", "no word vectors"), ("a 1 2\nb 1\n", "line 2: 1 numbers"), ("a x y\n", "cannot be read")]
)
def test_bad_files(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "v.txt").write_text(text)
    with pytest.raises(DataError, match=message):
        read_word_vectors(tmp_path / "v.txt")


def test_bad_tables(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="cannot read"):
        read_word_vectors(tmp_path / "none.txt")
    with pytest.raises(DataError, match="2 words need"):
        WordVectors(["a", "b"], np.zeros((3, 2)))
