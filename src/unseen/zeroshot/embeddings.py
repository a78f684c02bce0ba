"""Class embeddings from wherever they are: a dataset's attributes, a file, word vectors of the name, WordNet.

Shapes:     S (c, a), one row per class, rows l2-normalised as in the xlsa17 release
Sources:    attributes  what the dataset brings
            glove       the mean of the word vectors of the class name (GloVe 6B, 50 dimensions); where it has none, of
                        another name of the same WordNet synset
            text        name and WordNet definition, weighted by tf-idf, as in the supplement of ImageNet-CoG
            wordnet     0/1: one column per noun that lies above two classes or more ("is a mammal")
            PATH.bin    (or .vec, .txt, each also with .gz) word2vec's binary and text files: the vector of the class
                        name as one phrase ("killer_whale"), else the mean over its words; where there is none, of
                        another name of the same WordNet synset
            PATH.npy    an array, one row per class in the dataset's order
            PATH.csv    (or .tsv) a header, then class name or WordNet id and its numbers
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from unseen.concepts import TextEmbedder, imagenet_21k, load_wordnet, match_classes
from unseen.concepts.class_names import clean
from unseen.concepts.words import default_word_vectors
from unseen.core.errors import DataError, UnknownNameError
from unseen.data import Dataset
from unseen.zeroshot.method import FloatArray, unit_rows
from unseen.zeroshot.word2vec import SUFFIXES, read_wanted

SOURCES = ("attributes", "glove", "text", "wordnet")


def class_embeddings(source: str, dataset: Dataset) -> FloatArray:
    """(c, a) embeddings of a dataset's classes.

    Args:
        source: one of `SOURCES`, or a path that ends in .npy, .csv, .tsv, or as word vectors do (.bin, .vec, .txt).

    Raises:
        DataError: a class without an embedding, a value that is not a number, or another number of classes.
    """
    names = list(dataset.class_names)
    rows: FloatArray
    if source == "attributes":
        found = getattr(dataset, "attributes", None)
        if found is None:
            raise DataError(f"{dataset.id!r} brings no attributes. Choose {', '.join(SOURCES[1:])} or a file.")
        rows = np.asarray(found, np.float64)
    elif source == "glove":
        rows = _name_vectors(names, dataset.wnids)
    elif source == "text":
        rows = _text_vectors(names, dataset.wnids)
    elif source == "wordnet":
        rows = _hypernyms(names, dataset.wnids)
    elif source.endswith(".npy"):
        rows = _read_array(Path(source))
    elif source.endswith((".csv", ".tsv")):
        rows = _read_table(Path(source), names, dataset.wnids)
    elif source.endswith(SUFFIXES):
        rows = _word_vectors(Path(source), names, dataset.wnids)
    else:
        hint = "A file ends in .npy, .csv, .tsv, or .bin, .vec or .txt for word vectors."
        raise UnknownNameError("class embedding", source, SOURCES, hint=hint)
    return _checked(rows, names, source)


def _checked(rows: FloatArray, names: Sequence[str], source: str) -> FloatArray:
    if rows.ndim != 2 or len(rows) != len(names):
        swapped = rows.ndim == 2 and rows.shape[1] == len(names)
        why = " The axes are swapped: transpose it." if swapped else ""
        raise DataError(f"{source}: class embeddings have shape {rows.shape}; {len(names)} rows are needed.{why}")
    if len(bad := np.flatnonzero(~np.isfinite(rows).all(1))):
        raise DataError(f"{source}: {len(bad)} classes have values that are not numbers, first {names[bad[0]]!r}.")
    if len(bad := np.flatnonzero(~rows.any(1))):
        raise DataError(f"{source}: {len(bad)} classes have no embedding (all zero), first {names[bad[0]]!r}.")
    return unit_rows(rows)


def _name_vectors(names: Sequence[str], wnids: Sequence[str | None]) -> FloatArray:
    """The mean over the words of a name; a name without a known word goes by the other names of its synset."""
    vectors = default_word_vectors()
    rows = np.zeros((len(names), vectors.dimension))

    def fill(row: int, text: str) -> bool:
        words = [word for word in clean(text).split() if word in vectors]
        if words:
            rows[row] = vectors.lookup(words).mean(0)
        return bool(words)

    lost = [i for i, name in enumerate(names) if not fill(i, name)]
    if lost:
        wordnet, synsets = load_wordnet(), _synsets(names, wnids)
        for i in lost:
            synset = synsets[i]
            any(fill(i, lemma) for lemma in (wordnet.lemmas(synset) if synset else ()))
    return rows


def _word_vectors(path: Path, names: Sequence[str], wnids: Sequence[str | None]) -> FloatArray:
    """Phrases before words; names of the synset where the class name is unknown. The file is read once."""
    wordnet, synsets = load_wordnet(), _synsets(names, wnids)
    others = [wordnet.lemmas(synset) if synset else () for synset in synsets]
    tried = [[clean(name), *(clean(lemma) for lemma in more)] for name, more in zip(names, others, strict=True)]
    wanted = {word for texts in tried for text in texts for word in ("_".join(text.split()), *text.split())}
    known = read_wanted(path, wanted)
    if not known:
        raise DataError(f"{path} has a vector for no word of any class name, the first of which is {names[0]!r}.")
    rows = np.zeros((len(names), len(next(iter(known.values())))))
    for row, texts in enumerate(tried):
        for text in texts:
            words = [w for w in ("_".join(text.split()),) if w in known] or [w for w in text.split() if w in known]
            if words:
                rows[row] = np.mean([known[word] for word in words], axis=0)
                break
    return rows


def _text_vectors(names: Sequence[str], wnids: Sequence[str | None]) -> FloatArray:
    wordnet = load_wordnet()
    synsets = _synsets(names, wnids)
    corpus = (" ".join([*wordnet.lemmas(w), wordnet.definition(w)]) for w in imagenet_21k() if w in wordnet)
    embedder = TextEmbedder(default_word_vectors(), corpus)
    descriptions = [wordnet.definition(w) if w else "" for w in synsets]
    return embedder.embed([clean(name) for name in names], descriptions)


def _hypernyms(names: Sequence[str], wnids: Sequence[str | None]) -> FloatArray:
    wordnet = load_wordnet()
    synsets = _synsets(names, wnids)
    if None in synsets:
        lost = names[synsets.index(None)]
        raise DataError(f"{lost!r} was not found in WordNet. Give wnids, or choose another class embedding.")
    above = [{w, *wordnet.ancestors(w)} for w in synsets if w is not None]
    columns = sorted(set().union(*above))
    table = np.asarray([[c in own for c in columns] for own in above], np.float64)
    # What lies above one class alone tells nothing of others; what lies above all keeps every row from being empty.
    return np.unique(table[:, table.sum(0) > 1], axis=1)  # nouns above the same classes say the same


def _synsets(names: Sequence[str], wnids: Sequence[str | None]) -> list[str | None]:
    return [match.wnid for match in match_classes(load_wordnet(), list(names), wnids=wnids)]


def _read_array(path: Path) -> FloatArray:
    try:
        array = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise DataError(f"cannot read class embeddings from {path}: {error}.") from None
    if array.dtype.kind not in "fiub":
        raise DataError(f"{path} holds {array.dtype}, not numbers.")
    return np.asarray(array, np.float64)


def _read_table(path: Path, names: Sequence[str], wnids: Sequence[str | None]) -> FloatArray:
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"cannot read class embeddings from {path}: {error}.") from None
    rows = list(csv.reader(lines, delimiter="\t" if path.suffix == ".tsv" else ","))[1:]
    table: dict[str, list[float]] = {}
    for number, (key, *values) in enumerate((row for row in rows if row), start=2):
        try:
            table[key.strip()] = [float(value) for value in values]
        except ValueError as error:
            raise DataError(f"{path}, line {number}: {error}. After the class, numbers are expected.") from None
    if len(widths := {len(values) for values in table.values()}) != 1:
        raise DataError(f"{path}: every class needs the same number of values; found {sorted(widths) or 'none'}.")
    found = []
    for name, wnid in zip(names, wnids or [None] * len(names), strict=True):
        own = table.get(name) or table.get(wnid or "")
        if own is None:
            raise DataError(f"{path} has no row for the class {name!r}. It has {len(table)} rows.")
        found.append(own)
    return np.asarray(found, np.float64)
