"""What an extraction does with its store, and with which model it does it: a model that only notes what it is given."""

from __future__ import annotations

import threading
import time
from dataclasses import FrozenInstanceError, dataclass, field, fields, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from unseen.core.records import Preprocessing
from unseen.features import Extraction, FeatureStore, NoProgress, extract, extraction
from unseen.features.extraction import Described, ExtractionJob
from unseen.features.part import PartRows

pytestmark = pytest.mark.usefixtures("without_flushing")


@dataclass
class Watched(NoProgress):
    """Record all events, and end the work after a number of images."""

    most: int = 10**9
    begun: list[tuple[str, int, int]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    images: int = 0
    ended: int = 0

    def begin(self, title: str, total: int, done: int) -> None:
        self.begun.append((title, total, done))

    def advance(self, images: int, skipped: int) -> None:
        self.images += images
        if self.images >= self.most:
            raise KeyboardInterrupt

    def note(self, text: str) -> None:
        self.notes.append(text)

    def end(self) -> None:
        self.ended += 1


HOW = Extraction(part_size=4, batch_size=2, workers=1)
BOTH = ("pooled", "logits")


def values(found: Any) -> list[float]:
    return found.features.to_array()[:, 0].tolist()


def test_each_layer_has_its_own_numbers(world: Any, store: FeatureStore) -> None:
    """Also if they are stored in another order than they are requested."""
    found = extract(world.backbone, world.dataset(range(10)), "train", store, layers=("deep", *BOTH), how=HOW)
    assert {layer: values(one) for layer, one in found.items()} == {
        layer: [factor * i for i in range(10)] for layer, factor in world.factors.items()
    }
    assert found["pooled"].labels.tolist() == [i % 3 for i in range(10)]


def test_the_runtime_is_made_once_for_neighbours(world: Any, store: FeatureStore) -> None:
    one, two = world.dataset(range(5)), world.dataset(range(5, 10), "e")
    for dataset in (one, two):
        extract(world.backbone, dataset, "train", store, how=HOW)
    assert world.made == [("pooled",)]
    extract(world.backbone, two, "train", store, layers=("logits",), how=HOW)
    assert world.made == [("pooled",), ("logits",)]
    # Another module, other preprocessing or other settings are another model.
    other = SimpleNamespace(**{**vars(world.backbone), "weights": "v", "module": object()})
    extract(other, two, "train", store, layers=("logits",), how=HOW)
    shown = SimpleNamespace(**{**vars(other), "preprocessing": Preprocessing(size=2, resize=3)})
    extract(shown, two, "train", store, layers=("logits",), how=HOW)
    extract(shown, two, "train", store, layers=("logits",), how=replace(HOW, precision="bf16"))
    assert world.made == [("pooled",), *[("logits",)] * 4]


@pytest.mark.parametrize(("device", "used"), [("auto", "the best"), ("cuda:1", "cuda:1"), ("cpu", "cpu")])
def test_the_device_is_the_one_that_was_asked_for(world: Any, store: FeatureStore, device: str, used: str) -> None:
    how = replace(HOW, device=device, precision="fp16", graphs=store.root)
    extract(world.backbone, world.dataset(range(3)), "train", store, how=how)
    told = {name: world.settings[name] for name in ("device", "precision", "cache")}
    assert told == {"device": used, "precision": "fp16", "cache": store.root}


def test_layers_that_were_left_at_different_parts_are_both_finished(world: Any, store: FeatureStore) -> None:
    dataset = world.dataset(range(18))
    with pytest.raises(KeyboardInterrupt):
        extract(world.backbone, dataset, "train", store, how=HOW, progress=Watched(most=10))
    second = Watched()
    found = extract(world.backbone, dataset, "train", store, layers=BOTH, how=HOW, progress=second)
    assert second.images == 18, "one pass for both"
    assert (values(found["pooled"]), values(found["logits"])) == ([*range(18)], [10 * i for i in range(18)])
    assert store.verify() == []


def test_what_is_there_is_not_done_again(world: Any, store: FeatureStore) -> None:
    dataset, first, second = world.dataset(range(18)), Watched(most=10), Watched()
    with pytest.raises(KeyboardInterrupt):
        extract(world.backbone, dataset, "train", store, how=HOW, progress=first)
    found = extract(world.backbone, dataset, "train", store, how=HOW, progress=second)["pooled"]
    assert first.begun == [("m on d train", 18, 0)] and second.begun == [("m on d train", 18, 8)]
    assert (first.ended, second.ended, second.images) == (1, 1, 10)
    assert (values(found), found.provenance["images"]) == ([*range(18)], 10)


def test_layers_that_were_begun_with_another_part_size_keep_it(world: Any, store: FeatureStore) -> None:
    dataset = world.dataset(range(18))
    with pytest.raises(KeyboardInterrupt):
        extract(world.backbone, dataset, "train", store, how=HOW, progress=Watched(most=6))
    watched = Watched()
    how = replace(HOW, part_size=6)
    found = extract(world.backbone, dataset, "train", store, layers=BOTH, how=how, progress=watched)
    assert [one.manifest.part_size for one in found.values()] == [4, 6]
    assert [(total, done) for _, total, done in watched.begun] == [(18, 4), (18, 0)]
    assert (values(found["pooled"]), values(found["logits"])) == ([*range(18)], [10 * i for i in range(18)])


def test_a_damaged_part_is_reported_and_extracted_again(world: Any, store: FeatureStore) -> None:
    dataset, watched = world.dataset(range(18)), Watched()
    with pytest.raises(KeyboardInterrupt):
        extract(world.backbone, dataset, "train", store, how=HOW, progress=Watched(most=14))
    next(store.root.rglob("part-00001.safetensors")).write_bytes(b"")
    extract(world.backbone, dataset, "train", store, how=HOW, progress=watched)
    assert watched.images == 10, "the damaged part and the missing ones"
    (note,) = watched.notes
    assert note.startswith("m on d train: part-00001.safetensors is extracted again")


def test_who_waits_is_told_for_what(world: Any, store: FeatureStore) -> None:
    dataset, told = world.dataset(range(4)), threading.Event()
    titles: list[str] = []

    class Waiting(NoProgress):
        def waiting(self, title: str) -> None:
            titles.append(title)
            told.set()

    key = ExtractionJob(world.backbone, dataset, "train", ("pooled",), HOW).describe(store).keys["pooled"]
    arguments = (world.backbone, dataset, "train", store)
    thread = threading.Thread(target=extract, args=arguments, kwargs={"how": HOW, "progress": Waiting()}, daemon=True)
    with store.writer(key, total=4, part_size=4):
        thread.start()
        assert told.wait(20)
    thread.join(20)
    assert titles == ["m on d train"] and store.holds(key)


def test_provenance_says_how_it_was_made(world: Any, store: FeatureStore) -> None:
    began = time.perf_counter()
    found = extract(world.backbone, world.dataset(range(7)), "train", store, how=HOW)["pooled"].provenance
    assert 0 <= found["seconds"] <= time.perf_counter() - began + 0.001
    told = {name: found[name] for name in ("images", "runtime", "runtime_note", "model_notes")}
    assert told == {"images": 7, "runtime": "torch", "runtime_note": "as told", "model_notes": ["a note"]}
    assert {*found["versions"]} >= {"unseen", "torch", "numpy"}


def test_each_part_has_its_provenance(world: Any) -> None:
    began = time.perf_counter()
    job = ExtractionJob(world.backbone, world.dataset(range(10)), "train", BOTH, replace(HOW, dtype="float16"))
    parts = [(part, notes) for _, part, notes in job.extract_parts([8, 0], 4)]
    took = time.perf_counter() - began
    logits = [part["logits"] for part, _ in parts]
    assert [rows.first for rows in logits] == [8, 0]
    assert [rows.index.tolist() for rows in logits] == [[8, 9], [0, 1, 2, 3]]
    assert [rows.features[:, 0].tolist() for rows in logits] == [[80, 90], [0, 10, 20, 30]]
    assert {rows.features.dtype for part, _ in parts for rows in part.values()} == {np.dtype("float16")}
    assert [rows.labels.tolist() for rows in logits] == [[2, 0], [0, 1, 2, 0]]
    assert [notes["images"] for _, notes in parts] == [2, 4]
    assert all(0 <= notes["seconds"] <= took for _, notes in parts)
    assert sum(notes["seconds"] for _, notes in parts) <= took + 0.001, "each part has its own time"
    assert parts[0][1]["model_notes"] == ["a note"]


@pytest.mark.parametrize("name", ["onnx", "torch"])
def test_what_would_be_written_is_described(world: Any, store: FeatureStore, name: str) -> None:
    world.name, dataset = name, world.dataset(range(5))
    before: Described = ExtractionJob(world.backbone, dataset, "train", BOTH, HOW).describe(store)
    assert (before.total, before.runtime, list(before.keys)) == (5, name, [*BOTH])
    assert world.made == [BOTH], "a graph is exported now"
    found = extract(world.backbone, dataset, "train", store, layers=BOTH, how=HOW)
    assert {layer: one.key for layer, one in found.items()} == before.keys
    world.made.clear()
    extraction._RUNTIMES.clear()
    assert ExtractionJob(world.backbone, dataset, "train", BOTH, HOW).describe(store) == before
    assert world.made == [], "all of it is there"


@pytest.mark.parametrize(
    ("settings", "precision"),
    [
        ({}, "fp32"),
        ({"precision": "bf16"}, "bf16"),
        ({"dtype": "float16"}, "fp32, stored as float16"),
        ({"truncated": "accept"}, "fp32, truncated images accepted"),
        ({"dtype": "float16", "truncated": "accept"}, "fp32, stored as float16, truncated images accepted"),
    ],
)
def test_what_is_kept_in_the_key(world: Any, store: FeatureStore, settings: dict[str, Any], precision: str) -> None:
    found = extract(world.backbone, world.dataset(range(3)), "train", store, how=replace(HOW, **settings))["pooled"]
    assert found.key.precision == precision
    assert found.features.dtype == settings.get("dtype", "float32")


def test_the_folder_of_graphs_may_be_any(world: Any, store: FeatureStore, tmp_path: Path) -> None:
    how = replace(HOW, graphs=tmp_path / "graphs")
    extract(world.backbone, world.dataset(range(3)), "train", store, how=how)
    assert world.settings["cache"] == tmp_path / "graphs"


def test_what_is_handed_on_cannot_be_changed() -> None:
    """Threads and callers share it."""
    none = np.zeros(0, np.int64)
    handed = [
        Described({}, 0, "torch"),
        PartRows(0, np.zeros((0, 2), np.float32), none, none),
        HOW,
    ]
    for record in handed:
        with pytest.raises(FrozenInstanceError):
            setattr(record, fields(record)[0].name, None)
