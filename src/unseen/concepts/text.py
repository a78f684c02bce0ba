"""Text similarity of concepts: tf-idf-weighted word vectors of name and description, added, compared by cosine.

Paper:      Sariyildiz et al., ICCV 2021, supplement D.1 [P]
Shapes:     d dimensions of the word vectors; embeddings (n, d) float64; similarities (n, m)
Implements: the embedding described in D.1 and Eq. (1) of the supplement, the cosine
Differs:    [P] uses skip-gram vectors of Wikipedia with named entities (Wikipedia2Vec); any word vectors do here, and
            the default is GloVe 6B of 50 dimensions, which arrives as a wheel. [P] does not say which tf-idf: ours is
            tf x (ln((1 + N) / (1 + df)) + 1), one document per concept, its name and its description

The two averages, of the name and of the description, are weighted by tf-idf and then added. A word without a vector is
left out; a concept none of whose words has one gets the zero vector and similarity 0 to everything.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from unseen.concepts.imagenet import imagenet_21k
from unseen.concepts.taxonomy import Taxonomy
from unseen.concepts.wordnet import WordNet
from unseen.concepts.words import WordVectors, default_word_vectors
from unseen.core.errors import TaxonomyError

FloatArray = npt.NDArray[np.float64]
_WORD = re.compile(r"[a-z0-9]+")


@runtime_checkable
class Described(Protocol):
    """A taxonomy whose concepts have words, as WordNet's have."""

    def lemmas(self, concept: str) -> list[str]: ...

    def definition(self, concept: str) -> str: ...


def tokenize(text: str) -> list[str]:
    """Lower-case words and numbers; hyphens and apostrophes divide."""
    return _WORD.findall(text.lower())


class TextEmbedder:
    """Embeds concepts by their words.

    Args:
        vectors: a vector per word.
        documents: one text per concept of the corpus, its name and description, to learn idf weights from.
    """

    def __init__(self, vectors: WordVectors, documents: Iterable[str]) -> None:
        self.vectors = vectors
        frequency: Counter[str] = Counter()
        count = 0
        for document in documents:
            frequency.update(set(tokenize(document)))
            count += 1
        # A word that the corpus does not have is as rare as can be: df = 0.
        self._unknown_weight = math.log(1 + count) + 1.0
        self._weight = {word: math.log((1 + count) / (1 + df)) + 1.0 for word, df in frequency.items()}

    def idf(self, word: str) -> float:
        """Inverse document frequency, ln((1 + N) / (1 + df)) + 1."""
        return self._weight.get(word, self._unknown_weight)

    def embed(self, names: Sequence[str], descriptions: Sequence[str]) -> FloatArray:
        """(n, d) embeddings of concepts given by name and description."""
        return self._average(names) + self._average(descriptions)

    def _average(self, texts: Sequence[str]) -> FloatArray:
        result = np.zeros((len(texts), self.vectors.dimension))
        for row, text in enumerate(texts):
            words = {w: tf for w, tf in Counter(tokenize(text)).items() if w in self.vectors}
            if words:
                weight = np.array([tf * self.idf(word) for word, tf in words.items()])
                result[row] = weight @ self.vectors.lookup(list(words)) / weight.sum()
        return result


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
        vectors: by default GloVe 6B, 50 dimensions.
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
    embedder = TextEmbedder(vectors or default_word_vectors(), (" ".join(_texts(described, c)) for c in corpus))

    def embed(concepts: Sequence[str]) -> FloatArray:
        taxonomy.index(concepts)  # an unknown id is an error with advice
        texts = [_texts(described, concept) for concept in concepts]
        return embedder.embed([name for name, _ in texts], [description for _, description in texts])

    return cosine_matrix(embed(a), embed(b))


def _texts(taxonomy: Described, concept: str) -> tuple[str, str]:
    """Name (all lemmas, as ImageNet's word list has them) and description."""
    return " ".join(taxonomy.lemmas(concept)), taxonomy.definition(concept)
