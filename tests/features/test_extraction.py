"""From images to stored features: right numbers, counted skips, one pass for all layers, and no harm from a kill."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from tests.background import call, start_call
from tests.features import killable_extraction

from unseen.backbones import load_backbone
from unseen.core.errors import UsageError
from unseen.core.extras import ensure_torchvision
from unseen.core.records import Preprocessing
from unseen.data import load_dataset
from unseen.features import Extraction, FeatureStore, NoProgress, extract
from unseen.features.batches import to_pixels


@dataclass
class Watched(NoProgress):
    """Record all events."""

    began: list[tuple[int, int]] = field(default_factory=list)
    images: int = 0
    skipped: int = 0

    def begin(self, title: str, total: int, done: int) -> None:
        self.began.append((total, done))

    def advance(self, images: int, skipped: int) -> None:
        self.images += images
        self.skipped += skipped


def bytes_of(folder: Path) -> dict[str, str]:
    """Digest of every file of a store but for provenance, which tells the time."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != "provenance.json" and ".locks" not in path.parts
    }


def test_features_equal_the_plain_torch_loop(images: Path, tmp_path: Path, small_model: str) -> None:
    """Against torchvision's own transforms and an eager model, image by image."""
    ensure_torchvision()
    from torchvision import transforms

    backbone, dataset = load_backbone(small_model), load_dataset(f"folder:{images}")
    p = backbone.preprocessing
    transform = transforms.Compose(
        [
            transforms.Resize(p.resize, interpolation=transforms.InterpolationMode(p.interpolation)),
            transforms.CenterCrop(p.size),
            transforms.ToTensor(),
            transforms.Normalize(p.mean, p.std),
        ]
    )
    stored = extract(backbone, dataset, "train", FeatureStore(tmp_path), how=Extraction(part_size=5))["pooled"]
    split = dataset.split("train")
    with torch.no_grad():
        expected = torch.cat(
            [
                backbone.forward(backbone.module, transform(split.open(i).convert("RGB"))[None])[0]
                for i in range(len(split))
            ]
        )
    found = torch.from_numpy(stored.features.to_array())
    assert torch.nn.functional.cosine_similarity(found, expected).min() > 0.9999
    np.testing.assert_array_equal(stored.labels, split.labels)
    np.testing.assert_array_equal(stored.index, np.arange(len(split)))


@pytest.mark.parametrize("size", [(64, 64), (100, 80), (80, 123), (37, 200), (500, 333)])
@pytest.mark.parametrize("mode", ["shortest", "squash"])
def test_pixels_equal_torchvision(size: tuple[int, int], mode: str) -> None:
    ensure_torchvision()
    from torchvision import transforms

    image = Image.fromarray(np.random.default_rng(0).integers(0, 256, (*size, 3), np.uint8))
    p = Preprocessing(size=56, resize=64, mode=mode, interpolation="bicubic")  # type: ignore[arg-type]
    bicubic = transforms.InterpolationMode.BICUBIC
    resize = transforms.Resize(64 if mode == "shortest" else (64, 64), interpolation=bicubic)
    np.testing.assert_array_equal(to_pixels(image, p), np.asarray(transforms.CenterCrop(56)(resize(image))))


def test_a_second_call_reads_the_store(images: Path, tmp_path: Path, small_model: str) -> None:
    backbone, dataset, store = load_backbone(small_model), load_dataset(f"folder:{images}"), FeatureStore(tmp_path)
    first, second = Watched(), Watched()
    a = extract(backbone, dataset, "train", store, progress=first)["pooled"].features.to_array()
    b = extract(backbone, dataset, "train", store, progress=second)["pooled"].features.to_array()
    assert (first.images, second.images, second.began) == (len(a), 0, [])
    np.testing.assert_array_equal(a, b)


def test_layers_share_a_pass_and_join_what_is_there(images: Path, tmp_path: Path, small_model: str) -> None:
    backbone, dataset, store = load_backbone(small_model), load_dataset(f"folder:{images}"), FeatureStore(tmp_path)
    watched = Watched()
    both = extract(backbone, dataset, "train", store, layers=("pooled", "logits"), progress=watched)
    assert watched.images == len(dataset.split("train"))
    three = extract(backbone, dataset, "train", store, layers=("blocks.1", "logits", "pooled"), progress=watched)
    assert watched.images == 2 * len(dataset.split("train"))
    assert list(three) == ["blocks.1", "logits", "pooled"]
    np.testing.assert_array_equal(both["pooled"].features.to_array(), three["pooled"].features.to_array())
    probabilities = torch.from_numpy(three["logits"].features.to_array()).softmax(1)
    assert probabilities.shape[1] == 1000


def test_what_changes_a_number_changes_the_key(images: Path, tmp_path: Path) -> None:
    dataset, store = load_dataset(f"folder:{images}"), FeatureStore(tmp_path)
    for name in ("random:test_resnet?size=64", "random:test_resnet?size=64&seed=1", "random:test_resnet?size=96"):
        extract(load_backbone(name), dataset, "train", store)
    backbone = load_backbone("random:test_resnet?size=64")
    extract(backbone, dataset, "train", store, how=Extraction(dtype="float16"))
    extract(backbone, dataset, "train", store, how=Extraction(runtime="torch"))
    extract(backbone, dataset, "test", store)
    Image.new("RGB", (40, 40)).save(images / "class0" / "one-more.png")
    extract(backbone, load_dataset(f"folder:{images}"), "train", store)
    assert len(list(store.entries())) == 7


def test_relabelling_the_folder_changes_the_key(images: Path, tmp_path: Path, small_model: str) -> None:
    store, backbone = FeatureStore(tmp_path), load_backbone(small_model)
    extract(backbone, load_dataset(f"folder:{images}?test=0"), "train", store)
    (images / "class0" / "000.png").rename(images / "class1" / "x.png")
    extract(backbone, load_dataset(f"folder:{images}?test=0"), "train", store)
    assert len(list(store.entries())) == 2


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("part_size", [3, 1024])
def test_workers_and_parts_do_not_change_the_numbers(
    workers: int, part_size: int, images: Path, tmp_path: Path, small_model: str
) -> None:
    backbone, dataset = load_backbone(small_model), load_dataset(f"folder:{images}")
    plain = extract(backbone, dataset, "train", FeatureStore(tmp_path / "a"))["pooled"]
    how = Extraction(workers=workers, part_size=part_size)
    other = extract(backbone, dataset, "train", FeatureStore(tmp_path / "b"), how=how)["pooled"]
    np.testing.assert_allclose(other.features.to_array(), plain.features.to_array(), rtol=1e-4, atol=1e-5)


def test_bad_images_are_counted_and_never_kill_the_run(images: Path, tmp_path: Path, small_model: str) -> None:
    good = (images / "class0" / "000.png").read_bytes()
    bad = images / "class1"
    (bad / "truncated.png").write_bytes(good[: len(good) // 2])
    (bad / "text.png").write_text("this is not a picture")
    (bad / "empty.jpg").write_bytes(b"")
    Image.new("1", (20000, 20000)).save(bad / "bomb.png")
    odd = images / "class2"
    Image.new("CMYK", (40, 50), (10, 20, 30, 40)).save(odd / "cmyk.jpg")
    Image.fromarray(np.full((40, 40), 40000, np.uint16)).save(odd / "deep.png")
    frames = [Image.new("RGB", (40, 40), c) for c in ("red", "blue")]
    frames[0].save(odd / "moving.gif", save_all=True, append_images=frames[1:])
    dataset = load_dataset(f"folder:{images}?test=0")
    watched = Watched()
    stored = extract(
        load_backbone(small_model),
        dataset,
        "train",
        FeatureStore(tmp_path),
        how=Extraction(part_size=4),
        progress=watched,
    )["pooled"]
    assert {s.name for s in stored.skipped} == {
        f"class1/{n}" for n in ("truncated.png", "text.png", "empty.jpg", "bomb.png")
    }
    assert watched.skipped == 4
    assert len(stored.labels) == len(dataset.split("train")) - 4
    np.testing.assert_array_equal(stored.labels, dataset.split("train").labels[stored.index])
    assert all(s.reason for s in stored.skipped)


def test_a_part_of_bad_images_only(tmp_path: Path, small_model: str, make_folder: Callable[..., Path]) -> None:
    images = make_folder(tmp_path / "images", classes=2, per_class=4)
    for path in (images / "class0").iterdir():
        path.write_bytes(b"rubbish")
    how = Extraction(part_size=4, batch_size=2)
    dataset = load_dataset(f"folder:{images}?test=0")
    stored = extract(load_backbone(small_model), dataset, "train", FeatureStore(tmp_path / "s"), how=how)["pooled"]
    assert (len(stored.labels), len(stored.skipped)) == (4, 4)


def test_exif_orientation_is_applied(tmp_path: Path) -> None:
    upright = Image.fromarray(np.random.default_rng(0).integers(0, 256, (40, 60, 3), np.uint8))
    exif = Image.Exif()
    exif[0x0112] = 6  # shown turned by 90 degrees
    upright.transpose(Image.Transpose.ROTATE_90).save(tmp_path / "turned.png", exif=exif)
    p = Preprocessing(size=32, resize=32)
    np.testing.assert_array_equal(to_pixels(Image.open(tmp_path / "turned.png"), p), to_pixels(upright, p))


def test_unknown_dtype() -> None:
    with pytest.raises(UsageError, match="Did you mean 'float16'"):
        Extraction(dtype="float15")  # type: ignore[arg-type]


@pytest.mark.slow
def test_kill_at_twenty_random_moments(tmp_path: Path, small_model: str, make_folder: Callable[..., Path]) -> None:
    """Every re-run goes on behind the last whole part, and ends with the bytes of an unbroken run."""
    images = make_folder(tmp_path / "images", classes=4, per_class=40)

    def tries(home: Path, delays: list[float]) -> list[dict[str, object]]:
        return call(killable_extraction.tries, images, home, small_model, delays)

    (unbroken,) = tries(tmp_path / "unbroken", [300])
    assert unbroken["ended"]
    expected = bytes_of(tmp_path / "unbroken" / "features")
    chance = random.Random(7)
    kills, resumed, round_number = 0, 0, 0
    while kills < 20:
        round_number += 1
        home = tmp_path / f"round{round_number}"
        delays = [chance.uniform(0.02, 0.4) for _ in range(9)] + [300.0]
        for attempt in tries(home, delays):
            before = attempt["before"]
            assert isinstance(before, list)
            if attempt["begun"] is not None and before:
                # It took up behind what was whole: the layers may be one part apart, never more is done again.
                assert attempt["begun"] == min(before)
                assert max(before) - min(before) <= 8
            kills += not attempt["ended"]
            resumed += bool(attempt["begun"])
        assert bytes_of(home / "features") == expected
    assert kills >= 20
    assert resumed, "some tries began behind whole parts"


def test_two_at_once_do_the_work_once(images: Path, tmp_path: Path, small_model: str) -> None:
    """Two callers of the same key: one extracts, the other waits and reads."""
    store, dataset, backbone = FeatureStore(tmp_path), load_dataset(f"folder:{images}"), load_backbone(small_model)
    watched = Watched()

    def call(_: int) -> np.ndarray:
        return extract(backbone, dataset, "train", store, progress=watched)["pooled"].features.to_array()

    with ThreadPoolExecutor(2) as pool:
        a, b = pool.map(call, range(2))
    np.testing.assert_array_equal(a, b)
    assert watched.images == len(a)


@pytest.mark.slow
def test_two_processes_at_once(tmp_path: Path, small_model: str, make_folder: Callable[..., Path]) -> None:
    images = make_folder(tmp_path / "images", classes=4, per_class=20)
    again = (killable_extraction.tries, images, tmp_path / "home", small_model, [300.0])
    for running in [start_call(*again) for _ in range(2)]:
        assert running.result()[0]["ended"]
    store = FeatureStore(tmp_path / "home" / "features")
    assert [entry.state for entry in store.entries()] == ["complete", "complete"]
    assert store.verify() == []
