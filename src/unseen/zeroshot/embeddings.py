"""Class embeddings from the attributes of a dataset, a file, word vectors of the class name, or WordNet.

Shapes:     S (c, a), one row per class, rows l2-normalised as in the xlsa17 release
Sources:    attributes  those of the dataset
            glove       the mean of the word vectors of the class name (GloVe 6B, 50 dimensions); if it has none, of
                        another name of the same WordNet synset
            wordnet     0/1: one column per noun that lies above two classes or more ("is a mammal")
            PATH.bin    (or .vec, .txt, each also with .gz) word2vec's binary and text files: the vector of the class
                        name as one phrase ("killer_whale"), else the mean over its words; if there is none, of
                        another name of the same WordNet synset
            PATH.npy    an array, one row per class in the dataset's order
            PATH.csv    (or .tsv) class name or WordNet id and its numbers per row; a header is not needed
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import numpy as np

from unseen.concepts import WordVectors, list_unknown, load_wordnet, match_classes, match_names, read_word_vectors
from unseen.concepts.class_names import clean
from unseen.concepts.text import default_word_vectors
from unseen.core.errors import DataError, UnknownNameError
from unseen.core.guard import guarded
from unseen.data import Dataset
from unseen.zeroshot.problem import FloatArray, unit_rows

SOURCES = ("attributes", "glove", "wordnet")
SUFFIXES = (".bin", ".vec", ".txt", ".bin.gz", ".vec.gz", ".txt.gz")

T = TypeVar("T")


def class_embeddings(source: str, dataset: Dataset) -> FloatArray:
    """Return (c, a) embeddings of a dataset's classes.

    Args:
        source: one of `SOURCES`, or a path that ends in .npy, .csv, .tsv, or as word vectors do (.bin, .vec, .txt).

    Raises:
        DataError: a class without an embedding, a value that is not a number, or another number of classes.
    """
    if source == "attributes":
        rows = getattr(dataset, "attributes", None)
        if rows is None:
            raise DataError(f"{dataset.id!r} has no attributes. Choose {', '.join(SOURCES[1:])} or a file.")
    elif source == "glove":
        rows = _name_vectors(dataset, lambda _: default_word_vectors())
    elif source == "wordnet":
        rows = _hypernyms(dataset)
    elif source.endswith(".npy"):
        with guarded(source, "class embeddings"):
            rows = np.load(source, allow_pickle=False).astype(np.float64)
    elif source.endswith((".csv", ".tsv")):
        rows = _read_table(Path(source), dataset)
    elif source.endswith(SUFFIXES):
        rows = _name_vectors(dataset, lambda wanted: read_word_vectors(source, only=wanted))
    else:
        hint = "A file ends in .npy, .csv, .tsv, or .bin, .vec or .txt for word vectors."
        raise UnknownNameError("class embedding", source, SOURCES, hint=hint)
    return normalise_embeddings(np.asarray(rows, np.float64), dataset.class_names, source)


def check_source(source: str, dataset: Dataset) -> None:
    """Raise an `UnseenError` if a source has no embeddings for the classes; of word vectors only look for the file."""
    if not source.endswith(SUFFIXES):
        class_embeddings(source, dataset)
    elif not Path(source).is_file():
        raise DataError(f"cannot read word vectors from {source}: there is no such file.")


def normalise_embeddings(rows: FloatArray, names: Sequence[str], source: str) -> FloatArray:
    """Return class embeddings with rows of length 1.

    Raises:
        DataError: they are not one finite row per class, none of them zero.
    """
    if rows.ndim != 2 or len(rows) != len(names):
        swapped = rows.ndim == 2 and rows.shape[1] == len(names)
        why = " The axes are swapped: transpose it." if swapped else ""
        raise DataError(f"{source}: class embeddings have shape {rows.shape}; {len(names)} rows are needed.{why}")
    if len(bad := np.flatnonzero(~np.isfinite(rows).all(1))):
        raise DataError(f"{source}: {len(bad)} classes have values that are not numbers, first {names[bad[0]]!r}.")
    if len(bad := np.flatnonzero(~rows.any(1))):
        raise DataError(f"{source}: {len(bad)} classes have no embedding (all zero), first {names[bad[0]]!r}.")
    return unit_rows(rows)


def _name_vectors(dataset: Dataset, read: Callable[[set[str]], WordVectors]) -> FloatArray:
    """Return the vector of each name as one phrase, else the mean over its words; then of other names of its synset.

    Args:
        read: from words and phrases to the vectors of those that are known.
    """
    wordnet = load_wordnet()
    tried = [
        [clean(text).split() for text in (name, *(wordnet.lemmas(synset) if synset else ()))]
        for name, synset in zip(dataset.class_names, _synsets(dataset), strict=True)
    ]
    vectors = read({word for texts in tried for words in texts for word in ("_".join(words), *words)})
    rows = np.zeros((len(tried), vectors.dimension))
    for row, texts in enumerate(tried):
        found = ([w for w in words if w in vectors] for text in texts for words in (["_".join(text)], text))
        if words := next(filter(None, found), []):
            rows[row] = vectors.lookup(words).mean(axis=0)
    return rows


def _hypernyms(dataset: Dataset) -> FloatArray:
    wordnet = load_wordnet()
    synsets = _synsets(dataset)
    if None in synsets:
        lost = dataset.class_names[synsets.index(None)]
        raise DataError(f"{lost!r} was not found in WordNet. Give wnids, or choose another class embedding.")
    above = [{w, *wordnet.ancestors(w)} for w in synsets if w is not None]
    columns = sorted(set().union(*above))
    table = np.asarray([[c in own for c in columns] for own in above], np.float64)
    # A noun above one class alone is useless for others; one above all classes keeps every row from being empty.
    return np.unique(table[:, table.sum(0) > 1], axis=1)  # nouns above the same classes are duplicates


def _synsets(dataset: Dataset) -> list[str | None]:
    return [match.wnid for match in match_classes(load_wordnet(), list(dataset.class_names), wnids=dataset.wnids)]


def _read_table(path: Path, dataset: Dataset) -> FloatArray:
    table: dict[str, list[float]] = {}
    for number, (key, *cells) in read_rows(path, "class embeddings"):
        try:
            values = [float(cell) for cell in cells]
        except ValueError as error:
            if number == 1 and key not in (*dataset.class_names, *dataset.wnids):  # the header
                continue
            raise DataError(f"{path}, line {number}: {error}. After the class, numbers are expected.") from None
        if key in table:
            raise DataError(f"{path}, line {number}: there is a row for {key!r} already.")
        table[key] = values
    if len(widths := {len(values) for values in table.values()}) != 1:
        raise DataError(f"{path}: every class needs the same number of values; found {sorted(widths) or 'none'}.")
    return np.asarray(rows_of_classes(table, f"{path} has no row", dataset), np.float64)


def read_rows(path: Path, kind: str) -> list[tuple[int, list[str]]]:
    """Return the numbered rows of a .csv or .tsv file, without empty ones."""
    with guarded(path, kind):
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    rows = csv.reader(lines, delimiter="\t" if path.suffix == ".tsv" else ",")
    return [(number, [row[0].strip(), *row[1:]]) for number, row in enumerate(rows, 1) if row]


def rows_of_classes(table: Mapping[str, T], lost: str, dataset: Dataset) -> list[T]:
    """Return the value of each class, by name or WordNet id.

    Raises:
        DataError: a class without a value; `lost` begins the message.
    """
    names = dataset.class_names
    own = match_names(names, table)
    keys = [own[name] or wnid for name, wnid in zip(names, dataset.wnids or [None] * len(names), strict=True)]
    if missing := [name for name, key in zip(names, keys, strict=True) if key not in table]:
        raise DataError(
            f"{lost} for {len(missing)} of {len(names)} classes: {list_unknown(missing, table)}. It has {len(table)} "
            "rows."
        )
    return [table[str(key)] for key in keys]
