"""Fixtures of the concepts room: WordNet, an NLTK reader over Debian's database, ImageNet counts, random graphs."""

from __future__ import annotations

import csv
import importlib.util
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from unseen.concepts import Taxonomy, WordNet, load_wordnet

DEBIAN_WORDNET = Path("/usr/share/wordnet")


@pytest.fixture(scope="session")
def wordnet() -> WordNet:
    return load_wordnet()


@pytest.fixture(scope="session")
def debian_wordnet() -> Path:
    if not (DEBIAN_WORDNET / "data.noun").exists():
        pytest.skip("Debian's wordnet-base is not installed: nothing to compare the table with")
    return DEBIAN_WORDNET


@pytest.fixture(scope="session")
def nltk_wordnet(debian_wordnet: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """NLTK's reader over the files of wordnet-base and wordnet-sense-index."""
    pytest.importorskip("nltk", reason="NLTK is not installed")
    if not (debian_wordnet / "index.sense").exists():
        pytest.skip("Debian's wordnet-sense-index is not installed, and NLTK needs it")
    bench = Path(__file__).parents[2] / "bench" / "similarity.py"
    spec = importlib.util.spec_from_file_location("bench_similarity", bench)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.open_nltk_wordnet(debian_wordnet, tmp_path_factory.mktemp("wordnet"))


@pytest.fixture(scope="session")
def golden_data() -> Path:
    folder = os.environ.get("UNSEEN_GOLDEN_DATA")
    if not folder:
        pytest.skip("UNSEEN_GOLDEN_DATA is not set: the published ImageNet and GBU files are elsewhere")
    return Path(folder)


@pytest.fixture(scope="session")
def imagenet_counts(golden_data: Path) -> dict[str, int]:
    with (golden_data / "imagenet21k" / "counts.csv").open() as stream:
        return {row["wnid"]: int(row["images"]) for row in csv.DictReader(stream)}


@pytest.fixture(scope="session")
def random_taxonomy() -> Callable[[int, int], Taxonomy]:
    """A random rooted graph: concept i has one to three parents among those before it."""

    def make(seed: int, size: int) -> Taxonomy:
        rng = np.random.default_rng(seed)
        edges = [
            (f"c{i:03d}", f"c{p:03d}")
            for i in range(1, size)
            for p in rng.choice(i, size=min(i, int(rng.integers(1, 4))), replace=False)
        ]
        order = rng.permutation(len(edges))
        return Taxonomy.from_edges([edges[k] for k in order])

    return make
