"""Word vectors from text files."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from unseen.concepts import WordVectors, read_word_vectors
from unseen.core.errors import DataError

GLOVE = "the 0.1 0.2\nCat -1 2e-1\ncat 9 9\n"


@pytest.mark.parametrize("header", ["", "3 2\n"])
def test_glove_and_word2vec(tmp_path: Path, header: str) -> None:
    (tmp_path / "v.txt").write_text(header + GLOVE)
    vectors = read_word_vectors(tmp_path / "v.txt")
    assert vectors.dimension == 2 and "the" in vectors and "dog" not in vectors
    # Of two spellings the first, more frequent one stands.
    np.testing.assert_allclose(vectors.lookup(["cat", "the"]), [[-1, 0.2], [0.1, 0.2]], atol=1e-7)


def test_gzip_and_limit(tmp_path: Path) -> None:
    with gzip.open(tmp_path / "v.txt.gz", "wt") as stream:
        stream.write(GLOVE)
    assert len(read_word_vectors(tmp_path / "v.txt.gz")) == 2
    assert len(read_word_vectors(tmp_path / "v.txt.gz", limit=1)) == 1


@pytest.mark.parametrize(
    ("text", "message"), [("", "no word vectors"), ("a 1 2\nb 1\n", "line 2: 1 numbers"), ("a x y\n", "cannot read")]
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
