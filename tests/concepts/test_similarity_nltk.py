"""Every similarity against NLTK over the same WordNet files, on 20,000 random pairs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from unseen.concepts import WordNet, information_content, similarity_matrix
from unseen.concepts.imagenet import imagenet_21k

PAIRS = 20_000
SIDE = 200


@pytest.fixture(scope="module")
def corpus_pairs(wordnet: WordNet) -> tuple[list[str], list[str]]:
    """Two lists whose 40,000 combinations hold the 20,000 pairs; ImageNet-21K concepts and their ancestors."""
    corpus = np.array(wordnet.ids)[wordnet.subsumers(wordnet.index(imagenet_21k()))]
    rng = np.random.default_rng(20)
    a, b = rng.choice(corpus, SIDE), rng.choice(corpus, SIDE)
    return a.tolist(), b.tolist()


@pytest.fixture(scope="module")
def all_noun_pairs(wordnet: WordNet) -> tuple[list[str], list[str]]:
    """The same of all nouns, individuals included, with near relatives among them so that short cuts matter."""
    rng = np.random.default_rng(21)
    a = rng.choice(np.array(wordnet.ids), SIDE - 60).tolist()
    family = sorted(wordnet.descendants("n02075296"))[:: len(wordnet.descendants("n02075296")) // 60][:60]
    b = [*rng.choice(np.array(wordnet.ids), SIDE - 60).tolist(), *family]
    return [*a, *rng.permutation(family).tolist()], b


@pytest.fixture(scope="module")
def sample() -> list[tuple[int, int]]:
    chosen = np.random.default_rng(22).choice(SIDE * SIDE, PAIRS, replace=False)
    return [(int(k) // SIDE, int(k) % SIDE) for k in chosen]


def _synsets(reader: Any, wnids: list[str]) -> list[Any]:
    return [reader.synset_from_pos_and_offset("n", int(wnid[1:])) for wnid in wnids]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("measure", "method"), [("lin", "lin"), ("jiang-conrath", "jcn"), ("resnik", "res")], ids=["lin", "jcn", "res"]
)
def test_information_measures_equal_nltk(
    wordnet: WordNet,
    nltk_wordnet: Any,
    corpus_pairs: tuple[list[str], list[str]],
    sample: list[tuple[int, int]],
    measure: str,
    method: str,
) -> None:
    a, b = corpus_pairs
    ic = information_content(wordnet, imagenet_21k())
    ours = similarity_matrix(wordnet, a, b, measure, ic=ic)
    # NLTK keeps masses by offset and the mass of everything under 0; it takes the logarithm itself.
    masses = {int(o): float(w) for o, w in zip((i[1:] for i in wordnet.ids), ic.weight, strict=True) if w > 0}
    nltk_ic = {"n": {0: ic.total, **masses}}
    left, right = _synsets(nltk_wordnet, a), _synsets(nltk_wordnet, b)
    theirs = [getattr(left[i], f"{method}_similarity")(right[j], nltk_ic) for i, j in sample]
    mine = [ours[i, j] for i, j in sample]
    infinite = np.array(theirs) > 1e290  # NLTK's infinity is a large number
    assert np.array_equal(np.isinf(mine), infinite)
    np.testing.assert_allclose(np.array(mine)[~infinite], np.array(theirs)[~infinite], rtol=1e-9, atol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("measure", "method"),
    [("wu-palmer", "wup")],
    ids=["wup"],
)
def test_graph_measures_equal_nltk(
    wordnet: WordNet,
    nltk_wordnet: Any,
    all_noun_pairs: tuple[list[str], list[str]],
    sample: list[tuple[int, int]],
    measure: str,
    method: str,
) -> None:
    a, b = all_noun_pairs
    ours = similarity_matrix(wordnet, a, b, measure)
    left, right = _synsets(nltk_wordnet, a), _synsets(nltk_wordnet, b)
    theirs = [getattr(left[i], f"{method}_similarity")(right[j]) for i, j in sample]
    np.testing.assert_allclose([ours[i, j] for i, j in sample], theirs, rtol=0, atol=1e-9)


@pytest.mark.slow
def test_depths_and_names_equal_nltk(wordnet: WordNet, nltk_wordnet: Any) -> None:
    chosen = np.random.default_rng(23).choice(len(wordnet), 2_000, replace=False)
    for i in chosen.tolist():
        synset = nltk_wordnet.synset_from_pos_and_offset("n", int(wordnet.ids[i][1:]))
        assert synset.max_depth() == wordnet.max_depth[i]
        assert synset.min_depth() == wordnet.min_depth[i]
        assert synset.name() == wordnet.name(wordnet.ids[i])
        above = [*synset.hypernyms(), *synset.instance_hypernyms()]
        assert sorted(f"n{s.offset():08d}" for s in above) == sorted(wordnet.parents(wordnet.ids[i]))
        assert bool(synset.instance_hypernyms()) == wordnet.is_instance[i]
        definition = wordnet.definition(wordnet.ids[i])
        if '"' not in definition:  # NLTK drops every quotation, and keeps what follows, such as its author
            assert synset.definition().startswith(definition.rstrip(";"))


@pytest.mark.slow
@pytest.mark.parametrize("word", ["tiger cat", "seal", "Sun", "crane", "bat", "no such word"])
def test_senses_come_in_nltks_order(wordnet: WordNet, nltk_wordnet: Any, word: str) -> None:
    theirs = [f"n{s.offset():08d}" for s in nltk_wordnet.synsets(word.replace(" ", "_"), "n")]
    assert wordnet.senses(word) == theirs
