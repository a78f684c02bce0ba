"""A larger draw takes what the store has of a smaller one."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from unseen.backbones import load_backbone
from unseen.benchmarks.workbench import Workbench
from unseen.data import Dataset, load_dataset
from unseen.data.subset import select
from unseen.features import Extraction, FeatureStore, extract
from unseen.features.manifest import PROVENANCE

MODEL = "random:test_vit?size=64"


def photographs(folder: Path, count: int = 40) -> Path:
    generator = np.random.default_rng(0)
    for i in range(count):
        place = folder / f"class {i % 4}"
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray(generator.integers(0, 256, (70, 66, 3), np.uint8)).save(place / f"{i:03d}.png")
    return folder


def opened(dataset: Dataset, asked: list[str]) -> Dataset:
    """The dataset, which notes what is opened."""
    train = dataset.split("train")
    known = train.open

    def note(i: int) -> Image.Image:
        asked.append(train.names[i])
        return known(i)

    return replace(dataset, splits={"train": replace(train, open=note, fingerprint=train.fingerprint)})


@pytest.mark.parametrize("layers", [("pooled",), ("pooled", "blocks.1")])
def test_what_is_known_is_not_opened_again(tmp_path: Path, layers: tuple[str, ...]) -> None:
    photographs(tmp_path / "photos")
    (tmp_path / "photos" / "class 0" / "bad.png").write_bytes(b"rubbish")
    asked: list[str] = []
    whole = opened(load_dataset(f"folder:{tmp_path / 'photos'}?test=0"), asked)
    few, more = select(whole, limit=13), select(whole, limit=29)
    backbone, how = load_backbone(MODEL), Extraction(workers=1, part_size=16)
    plain = extract(backbone, whole, "train", FeatureStore(tmp_path / "plain"), layers=layers, how=how)
    store = FeatureStore(tmp_path / "store")
    extract(backbone, few, "train", store, layers=layers, how=how)
    asked.clear()
    extract(backbone, more, "train", store, layers=layers, how=how, smaller=[few])
    assert not {*asked} & {*few.split("train").names} - {"class 0/bad.png"}
    asked.clear()
    found = extract(backbone, whole, "train", store, layers=layers, how=how, smaller=[few, more])
    assert {*asked} >= {*whole.split("train").names} - {*more.split("train").names}
    assert not {*asked} & {*more.split("train").names} - {"class 0/bad.png"}
    for layer in layers:
        np.testing.assert_array_equal(found[layer].index, plain[layer].index)
        np.testing.assert_array_equal(found[layer].labels, plain[layer].labels)
        np.testing.assert_array_equal(np.asarray(found[layer].features[:]), np.asarray(plain[layer].features[:]))
        assert [one.name for one in found[layer].skipped] == ["class 0/bad.png"]
        assert found[layer].provenance["images"] == 41 - len(set(more.split("train").names) - {"class 0/bad.png"})


def test_an_image_that_changed_is_extracted(tmp_path: Path) -> None:
    """A name is not enough: what the file holds decides."""
    folder = photographs(tmp_path / "photos")
    few = select(load_dataset(f"folder:{folder}?test=0"), limit=12)
    backbone, store = load_backbone(MODEL), FeatureStore(tmp_path / "store")
    before = extract(backbone, few, "train", store)["pooled"]
    changed = few.split("train").names[3]
    Image.new("RGB", (70, 66), (200, 30, 10)).save(folder / changed)
    whole = load_dataset(f"folder:{folder}?test=0")
    images = whole.split("train")
    assert images.places_of(few.split("train")) is None
    found = extract(backbone, whole, "train", store, smaller=[few])["pooled"]
    kept, row = before.features[3], list(images.names).index(changed)
    assert not np.allclose(np.asarray(found.features[row : row + 1])[0], kept, atol=1e-3)


def test_a_workbench_remembers_its_samples(tmp_path: Path) -> None:
    folder = photographs(tmp_path / "photos")
    bench = Workbench(tmp_path / "home")
    name = f"folder:{folder}?test=0"
    bench.layers(MODEL, select(bench.dataset(name), limit=20), "train", ("pooled",))
    whole = bench.layers(MODEL, name, "train", ("pooled",))["pooled"]
    assert len(whole.index) == 40
    notes = [json.loads(path.read_bytes()) for path in bench.store.root.rglob(PROVENANCE)]
    assert [note["images"] for note in notes] == [20, 20]
