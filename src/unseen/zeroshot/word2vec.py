"""Word vectors from word2vec's files, text or binary, of the words that are wanted and no others.

Format:     text: a line "COUNT DIMENSION", then a word and its numbers per line, with spaces between; GloVe's files are
            the same without the first line. Binary: the same first line, then a word, a space and DIMENSION
            little-endian float32 for each, a line break between. Either may be compressed by gzip. A phrase is one word
            with underscores
Differs:    the file is read in one pass, and only what is wanted is held: the well-known Google News file has three
            million words of 300 dimensions, of which a dataset wants some hundreds
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Collection, Iterator
from functools import partial
from pathlib import Path
from typing import IO, cast

import numpy as np
import numpy.typing as npt

from unseen.core.errors import DataError
from unseen.core.guard import reader

SUFFIXES = (".bin", ".vec", ".txt", ".bin.gz", ".vec.gz", ".txt.gz")
_MOST_DIMENSIONS, _LONGEST_WORD, _LONGEST_LINE = 20_000, 4096, 1 << 20

Vector = npt.NDArray[np.float32]


@reader("word vectors")
def read_wanted(path: Path, wanted: Collection[str]) -> dict[str, Vector]:
    """Vectors of those of the `wanted` words that the file has, by the word as it is wanted.

    A word is taken as it stands, else without regard to case; of several the first, which is the most frequent.
    """
    folded: dict[str, list[str]] = {}
    for word in wanted:
        folded.setdefault(word.casefold(), []).append(word)
    exact: dict[str, Vector] = {}
    alike: dict[str, Vector] = {}
    binary = path.name.removesuffix(".gz").endswith(".bin")
    try:
        with _open(path) as stream:
            for word, vector in _binary(stream, path) if binary else _text(stream, path):
                for asked in folded.get(word.casefold(), ()):
                    found = np.array(vector(), np.float32)
                    alike.setdefault(asked, found)
                    if asked == word:
                        exact.setdefault(asked, found)
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"cannot read word vectors from {path}: {error}.") from None
    return {**alike, **exact}


def _open(path: Path) -> IO[bytes]:
    return cast("IO[bytes]", gzip.open(path)) if path.suffix == ".gz" else path.open("rb")


class _Later:
    """A vector that is made of bytes when somebody wants it: most words are passed by."""

    def __init__(self, raw: bytes, dimension: int, where: str) -> None:
        self.raw, self.dimension, self.where = raw, dimension, where

    def __call__(self) -> Vector:
        if not self.dimension:
            return np.frombuffer(self.raw, "<f4")
        try:
            values = np.array(self.raw.split(), np.float32)
        except ValueError as error:
            raise DataError(f"{self.where}: {error}. After the word, numbers are expected.") from None
        if len(values) != self.dimension:
            raise DataError(f"{self.where}: {len(values)} numbers, {self.dimension} expected.")
        return values


def _text(stream: IO[bytes], path: Path) -> Iterator[tuple[str, _Later]]:
    dimension = 0
    for number, line in enumerate(iter(partial(stream.readline, _LONGEST_LINE), b""), start=1):
        if len(line) == _LONGEST_LINE:
            raise DataError(f"{path}, line {number}: longer than {_LONGEST_LINE:,} bytes. It holds no word vectors.")
        parts = line.split()
        if number == 1 and len(parts) == 2 and all(part.isdigit() for part in parts):
            dimension = _checked(int(parts[1]), path)
            continue
        if not parts:
            continue
        dimension = dimension or _checked(len(parts) - 1, path)
        # Some words hold spaces: the numbers are counted from the end.
        fields = line.rstrip().rsplit(b" ", dimension)
        word = fields[0].decode("utf-8", "replace").strip().replace(" ", "_")
        yield word, _Later(b" ".join(fields[1:]), dimension, f"{path}, line {number}, {word!r}")


def _binary(stream: IO[bytes], path: Path) -> Iterator[tuple[str, _Later]]:
    head = stream.readline(_LONGEST_WORD).split()
    if len(head) != 2 or not all(part.isdigit() for part in head):
        raise DataError(f"{path} does not start with the number of words and of dimensions, as a word2vec file does.")
    count, size = int(head[0]), 4 * _checked(int(head[1]), path)
    for number in range(count):
        word = bytearray()
        while (letter := stream.read(1)) != b" ":
            if not letter or len(word) > _LONGEST_WORD:
                raise DataError(f"{path} ends after {number} of {count} words, or is not a word2vec file.")
            if letter != b"\n":  # stands before every word but the first
                word += letter
        raw = stream.read(size)
        if len(raw) < size:
            raise DataError(f"{path} ends within word {number + 1} of {count}.")
        yield word.decode("utf-8", "replace"), _Later(raw, 0, "")


def _checked(dimension: int, path: Path) -> int:
    if not 1 <= dimension <= _MOST_DIMENSIONS:
        raise DataError(f"{path}: word vectors of {dimension} dimensions; 1 to {_MOST_DIMENSIONS} can be.")
    return dimension
