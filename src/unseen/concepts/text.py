"""Text similarity of concepts: tf-idf-weighted word vectors of name and description, added, compared by cosine.

Paper:      Sariyildiz et al., ICCV 2021, supplement D.1 [P]
Shapes:     d dimensions of the word vectors; embeddings (n, d) float64; similarities (n, m)
Implements: the embedding described in D.1 and Eq. (1) of the supplement, the cosine
Differs:    [P] uses skip-gram vectors of Wikipedia with named entities (Wikipedia2Vec), as any file of that format
            does here; the default is GloVe 6B of 50 dimensions, which arrives as a wheel and has no entities. [P] does
            not say which tf-idf: ours is tf x (ln((1 + N) / (1 + df)) + 1), one document per concept, its name and its
            description. Nor does it say where entities are looked for: here each name of a concept that is not a
            single known word is one token if it is an entity, else its words are; descriptions are taken word by word

The two averages, of the name and of the description, are weighted by tf-idf and then added. A word without a vector is
left out; a concept none of whose words has one gets the zero vector and similarity 0 to everything.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from os import PathLike
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from unseen.concepts.imagenet import imagenet_21k
from unseen.concepts.nearest import SimilarityFunction
from unseen.concepts.taxonomy import Taxonomy
from unseen.concepts.wordnet import WordNet
from unseen.concepts.words import WordVectors, default_word_vectors, entity_key, read_word_vectors
from unseen.core.errors import TaxonomyError

FloatArray = npt.NDArray[np.float64]
_WORD = re.compile(r"[a-z0-9]+")


@runtime_checkable
class Described(Protocol):
    """A taxonomy whose concepts have words, as WordNet's have."""

    def lemmas(self, concept: str) -> list[str]: ...

    def definition(self, concept: str) -> str: ...


#: A text as it stands, or the names of a concept, each of which may be an entity.
Words = str | Sequence[str]


def tokenize(text: str) -> list[str]:
    """Lower-case words and numbers; hyphens and apostrophes divide."""
    return _WORD.findall(text.lower())


class TextEmbedder:
    """Embeds concepts by their words.

    Args:
        vectors: a vector per word, and per entity where there are any.
        documents: one per concept of the corpus, to learn idf weights from: its name and description in one text, or
            its names and its description.
    """

    def __init__(self, vectors: WordVectors, documents: Iterable[str | tuple[Sequence[str], str]]) -> None:
        self.vectors = vectors
        frequency: Counter[str] = Counter()
        count = 0
        for document in documents:
            parts: tuple[Words, ...] = (document,) if isinstance(document, str) else document
            frequency.update({token for part in parts for token in self.tokens(part)})
            count += 1
        # A word that the corpus does not have is as rare as can be: df = 0.
        self._unknown_weight = math.log(1 + count) + 1.0
        self._weight = {word: math.log((1 + count) / (1 + df)) + 1.0 for word, df in frequency.items()}

    def tokens(self, text: Words) -> list[str]:
        """The words of a text; of a list of names the entities, and the words of those that are none."""
        if isinstance(text, str):
            return tokenize(text)
        return [token for name in text for token in self._name_tokens(name)]

    def _name_tokens(self, name: str) -> list[str]:
        words = tokenize(name)
        if self.vectors.has_entities and not (len(words) == 1 and words[0] in self.vectors):
            entity = entity_key(name)
            if entity in self.vectors:
                return [entity]
        return words

    def idf(self, word: str) -> float:
        """Inverse document frequency, ln((1 + N) / (1 + df)) + 1."""
        return self._weight.get(word, self._unknown_weight)

    def embed(self, names: Sequence[Words], descriptions: Sequence[str]) -> FloatArray:
        """(n, d) embeddings of concepts given by name, or by several names each, and description."""
        return self._average(names) + self._average(descriptions)

    def _average(self, texts: Sequence[Words]) -> FloatArray:
        result = np.zeros((len(texts), self.vectors.dimension))
        for row, text in enumerate(texts):
            words = {w: tf for w, tf in Counter(self.tokens(text)).items() if w in self.vectors}
            if words:
                weight = np.array([tf * self.idf(word) for word, tf in words.items()])
                result[row] = weight @ self.vectors.lookup(list(words)) / weight.sum()
        return result


def vocabulary(taxonomy: Described, concepts: Iterable[str]) -> set[str]:
    """Every word and entity that the concepts can ask for: what to read of a large file of vectors."""
    found: set[str] = set()
    for concept in concepts:
        names = taxonomy.lemmas(concept)
        found.update(tokenize(" ".join([*names, taxonomy.definition(concept)])))
        found.update(entity_key(name) for name in names)
    return found


def cosine_matrix(x: FloatArray, y: FloatArray) -> FloatArray:
    """(n, m) cosine of every pair of rows, Eq. (1) of the supplement; 0 where a row is zero."""

    def unit(rows: FloatArray) -> FloatArray:
        norm = np.linalg.norm(rows, axis=1, keepdims=True)
        scaled: FloatArray = np.divide(rows, norm, out=np.zeros_like(rows), where=norm > 0)
        return scaled

    return np.asarray(np.clip(unit(x) @ unit(y).T, -1.0, 1.0))  # Eq. (1), supplement


def text_similarity_matrix(
    taxonomy: Taxonomy,
    a: Sequence[str],
    b: Sequence[str],
    *,
    vectors: WordVectors | None = None,
    corpus: Sequence[str] | None = None,
) -> FloatArray:
    """Text similarity of every concept of `a` with every concept of `b`.

    Args:
        taxonomy: where names and descriptions come from: WordNet, or a taxonomy that has `lemmas` and `definition`.
        a, b: ids.
        vectors: by default GloVe 6B, 50 dimensions, without entities.
        corpus: concepts to learn idf from; by default ImageNet-21K for WordNet, every concept for another taxonomy.
    """
    described: object = taxonomy
    if not isinstance(described, Described):
        raise TaxonomyError(
            "text similarity needs names and descriptions, and this taxonomy has ids only. Use another measure, or "
            "embed your own texts with TextEmbedder."
        )
    if corpus is None:
        corpus = imagenet_21k() if isinstance(taxonomy, WordNet) else taxonomy.ids
    embedder = TextEmbedder(vectors or default_word_vectors(), (_texts(described, c) for c in corpus))

    def embed(concepts: Sequence[str]) -> FloatArray:
        taxonomy.index(concepts)  # an unknown id is an error with advice
        texts = [_texts(described, concept) for concept in concepts]
        return embedder.embed([name for name, _ in texts], [description for _, description in texts])

    return cosine_matrix(embed(a), embed(b))


def text_measure(taxonomy: Taxonomy, path: str | PathLike[str]) -> SimilarityFunction:
    """The measure `text` over a file of word vectors, of which only what the taxonomy can ask for is kept."""
    described: object = taxonomy
    only = vocabulary(described, taxonomy.ids) if isinstance(described, Described) else None
    vectors = read_word_vectors(path, only=only)

    def text(a: Sequence[str], b: Sequence[str]) -> FloatArray:
        return text_similarity_matrix(taxonomy, a, b, vectors=vectors)

    return text


def _texts(taxonomy: Described, concept: str) -> tuple[list[str], str]:
    """Names (all lemmas, as ImageNet's word list has them) and description."""
    return taxonomy.lemmas(concept), taxonomy.definition(concept)
