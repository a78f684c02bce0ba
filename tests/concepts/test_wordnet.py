"""The WordNet table: rebuilt from Debian's files, and looked things up in."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from unseen.concepts import WordNet, load_wordnet
from unseen.core.errors import TaxonomyError

TOOL = Path(__file__).parents[2] / "tools" / "build_wordnet.py"


@pytest.mark.slow
def test_the_table_is_what_the_tool_builds(wordnet: WordNet, debian_wordnet: Path) -> None:
    spec = importlib.util.spec_from_file_location("build_wordnet", TOOL)
    assert spec is not None and spec.loader is not None
    tool = importlib.util.module_from_spec(spec)
    import sys

    sys.modules["build_wordnet"] = tool  # dataclasses look their module up
    try:
        spec.loader.exec_module(tool)
        arrays, definitions = tool.build_arrays(debian_wordnet)
    finally:
        del sys.modules["build_wordnet"]
    with np.load(tool.PACKAGE / "wordnet30.npz") as shipped:
        assert set(shipped.files) == set(arrays)
        for name, array in arrays.items():
            np.testing.assert_array_equal(shipped[name], array, err_msg=name)
            assert shipped[name].dtype == array.dtype
    assert [wordnet.definition(wnid) for wnid in wordnet.ids[:50]] == definitions[:50]
    assert wordnet._definitions == definitions


def test_sizes_and_soundness(wordnet: WordNet) -> None:
    assert len(wordnet) == 82_115
    assert len(wordnet.parent_index) == 75_850 + 8_577
    assert int(wordnet._instance_counts.sum()) == 8_577
    assert wordnet.roots == ["n00001740"] and wordnet.label("n00001740") == "entity"
    assert (wordnet.max_depth >= 0).all(), "a cycle"
    assert wordnet is load_wordnet()


def test_every_way_to_look_up(wordnet: WordNet) -> None:
    assert wordnet.find("n02123045") == "n02123045"
    assert wordnet.find("tabby") == "n02123045"
    assert wordnet.find("Tabby Cat") == "n02123045"
    assert wordnet.find("tiger_cat.n.02") == "n02123159"
    assert wordnet.lemmas("n02123045") == ["tabby", "tabby cat"]
    assert wordnet.name("n02123159") == "tiger_cat.n.02"
    assert wordnet.senses("tiger cat") == ["n02126465", "n02123159"]
    assert wordnet.definition("n02123045") == "a cat with a grey or tawny coat mottled with black"
    assert wordnet.senses("sun").count("n09450163") == 1
    assert wordnet.senses("xyzzy") == []


def test_instances_are_kept_apart(wordnet: WordNet) -> None:
    sun = "n09450163"
    assert wordnet.parents(sun) == ["n09444100"]
    assert wordnet.parents(sun) == ["n09444100"]
    assert wordnet.is_instance[wordnet.index([sun])[0]]
    assert wordnet.parents("n02123045") == ["n02121808"]


@pytest.mark.parametrize(
    ("plural", "singular"),
    [("wolves", "wolf"), ("geese", "goose"), ("churches", "church"), ("tiger cats", "tiger cat")],
)
def test_singulars(wordnet: WordNet, plural: str, singular: str) -> None:
    assert singular in wordnet.base_forms(plural)


def test_misses_give_advice(wordnet: WordNet) -> None:
    with pytest.raises(TaxonomyError, match="Did you mean 'tabby'"):
        wordnet.find("tabbyy")
    with pytest.raises(TaxonomyError, match="not a concept"):
        wordnet.lemmas("n99999999")
