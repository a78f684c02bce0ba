"""Extract features: images through a backbone into the store, once.

Features that are in the store are read from it. Missing ones are extracted in one pass for all requested layers,
part by part, under the locks of the entries: two processes that need the same features do the work once.

Several workers can share the work (`ExtractionJob.describe`, then `ExtractionJob.extract_parts`): a part depends on its
own images alone, so its bytes do not depend on the worker.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from unseen.backbones.backbone import Backbone
from unseen.backbones.load import POOLED, RuntimeName
from unseen.backbones.runtimes import Runtime, best_device, expected_runtime, make_runtime
from unseen.core.progress import NoProgress, Progress
from unseen.core.records import FeatureKey
from unseen.data import Dataset, Split
from unseen.features.batches import Batch, KnownRows, batch_spans, collect_parts, run_batches, runs_in_workers
from unseen.features.manifest import Extraction
from unseen.features.part import PartLayers, PartRows
from unseen.features.rows import StoredFeatures
from unseen.features.store import FeatureStore, FeatureWriter

#: The rows of a part with their keys and their provenance.
KeyedPart = tuple[dict[str, FeatureKey], PartLayers, dict[str, object]]


@dataclass(frozen=True)
class Described:
    """The features that an extraction would write on this machine.

    Attributes:
        keys: of each layer.
        total: images of the split.
        runtime: what the network runs in.
    """

    keys: dict[str, FeatureKey]
    total: int
    runtime: RuntimeName


@dataclass(frozen=True)
class ExtractionJob:
    """One split, the model and the layers to extract, and the settings."""

    backbone: Backbone
    dataset: Dataset
    split: str
    layers: Sequence[str]
    how: Extraction

    @property
    def images(self) -> Split:
        return self.dataset.split(self.split)

    @property
    def settings(self) -> dict[str, Any]:
        """The settings of a runtime."""
        how = self.how
        device = best_device() if how.device == "auto" else how.device
        return {"device": device, "runtime": how.runtime, "precision": how.precision, "cache": how.graphs}

    def expected_keys(self) -> dict[str, FeatureKey]:
        """Return the keys of the runtime that this machine is expected to use, without making it."""
        runtime = expected_runtime(self.backbone, self.layers, **self.settings)
        return self.keys(self.dataset, runtime, self.how.precision)

    def keys(self, dataset: Dataset, runtime: str, precision: str) -> dict[str, FeatureKey]:
        how, backbone = self.how, self.backbone
        stored = precision if how.dtype == "float32" else f"{precision}, stored as {how.dtype}"
        return {
            layer: FeatureKey(
                model=backbone.id,
                weights=backbone.weights,
                layer=layer,
                preprocessing=backbone.preprocessing,
                precision=stored if how.truncated == "refuse" else f"{stored}, truncated images accepted",
                runtime=runtime,
                dataset=dataset.features_id,
                split=self.split,
                fingerprint=dataset.split(self.split).fingerprint,
            )
            for layer in self.layers
        }

    def runtime(self) -> Runtime:
        """Return the runtime, reusing the previous one if it is the same."""
        how, module = self.how, self.backbone.module
        wanted = (id(module), self.backbone.preprocessing, tuple(self.layers), how)
        for known, held, runtime in _RUNTIMES:
            if known == wanted and held is module:
                return runtime
        runtime = make_runtime(self.backbone, self.layers, **self.settings)
        _RUNTIMES[:] = [(wanted, module, runtime)]
        return runtime

    def parts(
        self,
        runtime: Runtime,
        starts: Sequence[int],
        part_size: int,
        progress: Progress | None = None,
        known: KnownRows | None = None,
    ) -> Iterator[PartLayers]:
        """Extract the parts that begin at the images `starts`."""
        images, how = self.images, self.how
        size, total = how.batch_size or (8 if runs_in_workers(runtime) else 128), len(images)
        spans = [
            span
            for first in starts
            for span in batch_spans(first, min(first + part_size, total), part_size=part_size, batch_size=size)
        ]
        batches = run_batches(
            images, self.backbone, runtime, spans, workers=how.workers, truncated=how.truncated, known=known
        )
        reported = _report(batches, progress or NoProgress())
        for first, rows, outputs, skipped in collect_parts(reported, total, len(self.layers), part_size):
            labels = images.primary_labels[rows]
            yield {
                layer: PartRows(first, output.astype(how.dtype, copy=False), labels, rows, tuple(skipped))
                for layer, output in zip(self.layers, outputs, strict=True)
            }

    def describe(self, store: FeatureStore) -> Described:
        """Return the keys under which this machine stores the features, without extracting them.

        A graph that has to be exported first is exported now.
        """
        keys = self.expected_keys()
        if not all(store.holds(key) for key in keys.values()):
            runtime = self.runtime()
            keys = self.keys(self.dataset, runtime.name, runtime.precision)
        chosen: RuntimeName = "onnx" if next(iter(keys.values())).runtime == "onnx" else "torch"
        return Described(keys, len(self.images), chosen)

    def extract_parts(self, starts: Sequence[int], part_size: int) -> Iterator[KeyedPart]:
        """Extract the parts that begin at the images `starts`, and yield each with its keys and its provenance."""
        runtime, total = self.runtime(), len(self.images)
        keys = self.keys(self.dataset, runtime.name, runtime.precision)
        began = time.perf_counter()
        for part in self.parts(runtime, starts, part_size):
            images = min(part_size, total - next(iter(part.values())).first)
            yield keys, part, self.provenance(runtime, time.perf_counter() - began, images)
            began = time.perf_counter()

    def provenance(self, runtime: Runtime, seconds: float, images: int) -> dict[str, object]:
        return {
            "images": images,
            "seconds": round(seconds, 3),
            "runtime": runtime.name,
            "runtime_note": runtime.note,
            "versions": {name: version(name) for name in ("unseen", "torch", "onnxruntime", "pillow", "numpy")},
            "model_notes": list(self.backbone.notes),
        }


#: The most recent runtime, with the settings and the module it was made for.
_RUNTIMES: list[tuple[tuple[object, ...], object, Runtime]] = []


def extract(
    backbone: Backbone,
    dataset: Dataset,
    split: str,
    store: FeatureStore,
    *,
    layers: Sequence[str] = (POOLED,),
    how: Extraction | None = None,
    progress: Progress | None = None,
    smaller: Sequence[Dataset] = (),
) -> dict[str, StoredFeatures]:
    """Return the features of one split, by layer; extract those that the store lacks, all layers in one pass.

    Args:
        layers: "pooled", "logits" or names of modules.
        smaller: samples of the same images; their stored features are reused.
    """
    progress = progress or NoProgress()
    job = ExtractionJob(backbone, dataset, split, layers, how or Extraction())
    found = {layer: store.find(key) for layer, key in job.expected_keys().items()}
    missing = [layer for layer, features in found.items() if features is None]
    if missing:
        job = ExtractionJob(backbone, dataset, split, missing, job.how)
        runtime = job.runtime()
        keys = job.keys(dataset, runtime.name, runtime.precision)
        samples = [(each.split(split), job.keys(each, runtime.name, runtime.precision)) for each in smaller]
        _fill(store, keys, job, runtime, progress, _known_rows(store, job.images, samples))
        found |= {layer: store.open(keys[layer]) for layer in missing}
    return {layer: features for layer, features in found.items() if features is not None}


def _known_rows(
    store: FeatureStore, images: Split, samples: Sequence[tuple[Split, Mapping[str, FeatureKey]]]
) -> KnownRows | None:
    """Return the stored features of the largest sample of the same images."""
    for sample, keys in sorted(samples, key=lambda one: len(one[0]), reverse=True):
        found = [store.find(key) for key in keys.values()]
        whole = [features for features in found if features is not None]
        if len(whole) < len(found) or not all(np.array_equal(each.index, whole[0].index) for each in whole):
            continue
        if (places := images.places_of(sample)) is not None:
            place = {places[index]: row for row, index in enumerate(whole[0].index.tolist())}
            return KnownRows(place, [each.features for each in whole])
    return None


def _title(keys: Mapping[str, FeatureKey]) -> str:
    one = next(iter(keys.values()))
    return f"{one.model} on {one.dataset} {one.split}"


def _fill(
    store: FeatureStore,
    keys: dict[str, FeatureKey],
    job: ExtractionJob,
    runtime: Runtime,
    progress: Progress,
    known: KnownRows | None,
) -> None:
    """Write every layer that is not complete yet, all of them in one pass over the images."""
    title = _title(keys)
    with ExitStack() as stack:
        writers: dict[str, FeatureWriter] = {}
        # In the order of digests, so that two processes never hold one lock each and wait for the other.
        for layer, key in sorted(keys.items(), key=lambda item: item[1].digest):
            writer = store.writer(
                key, total=len(job.images), part_size=job.how.part_size, on_wait=lambda: progress.waiting(title)
            )
            writers[layer] = stack.enter_context(writer)
        for writer in writers.values():
            for text in writer.discarded:
                progress.note(f"{title}: {text}")
        todo = {layer: writer for layer, writer in writers.items() if not writer.complete}
        # A layer that was begun earlier keeps its part size: layers of one size share a pass.
        for part_size in sorted({writer.part_size for writer in todo.values()}):
            together = {layer: writer for layer, writer in todo.items() if writer.part_size == part_size}
            _write_missing(together, title, job, runtime, progress, known)


def _write_missing(
    writers: Mapping[str, FeatureWriter],
    title: str,
    job: ExtractionJob,
    runtime: Runtime,
    progress: Progress,
    known: KnownRows | None,
) -> None:
    """Extract the parts that at least one of the layers lacks, in one pass, and complete the entries."""
    starts = sorted({first for writer in writers.values() for first in writer.missing})
    part_size, total = next(iter(writers.values())).part_size, len(job.images)
    left = sum(min(part_size, total - first) for first in starts)
    began = time.perf_counter()
    progress.begin(title, total, total - left)
    try:
        for part in job.parts(runtime, starts, part_size, progress, known):
            for layer, writer in writers.items():
                if part[layer].first in writer.missing:
                    writer.write(part[layer])
    finally:
        progress.end()
    begun = {*starts}
    reused = sum(i - i % part_size in begun for i in known.place) if known is not None else 0
    provenance = job.provenance(runtime, time.perf_counter() - began, left - reused)
    for writer in writers.values():
        writer.finish(provenance)


def _report(batches: Iterator[Batch], progress: Progress) -> Iterator[Batch]:
    for batch in batches:
        progress.advance(batch.count, len(batch.skipped))
        yield batch


@dataclass(frozen=True)
class Cost:
    """What a model costs on this machine, without reading and decoding images.

    Attributes:
        latency: seconds of one image.
        batch_latency: seconds per image in a batch of `batch` images.
        memory: bytes of the weights, and of the memory that the process gained (on CUDA the peak) in that batch.
    """

    latency: float
    batch_latency: float
    batch: int
    memory: int


def measure_cost(
    backbone: Backbone, *, device: str = "auto", precision: str = "fp32", graphs: Path | None = None
) -> Cost:
    """Return the latency and the memory of a model: the fastest of several runs, at most about two seconds in all."""
    import torch

    runtime = make_runtime(backbone, device=device, precision=precision, cache=graphs)

    def fastest(images: int, runs: int) -> float:
        pixels, found = backbone.example(images, seed=0).numpy(), []
        for _ in range(runs):
            began = time.perf_counter()
            runtime(pixels)
            found.append(time.perf_counter() - began)
        return min(found)

    fastest(1, 1)
    latency = fastest(1, 3)
    batch = min(max(int(0.5 / max(latency, 1e-6)), 1), 32)
    weights = sum(t.numel() * t.element_size() for t in (*backbone.module.parameters(), *backbone.module.buffers()))
    on_gpu = (best_device() if device == "auto" else device).startswith("cuda")
    if on_gpu:
        torch.cuda.reset_peak_memory_stats()
    before = _peak_memory(reset=True)
    per_image = fastest(batch, 2) / batch
    gained = torch.cuda.max_memory_allocated() - weights if on_gpu else (_peak_memory() - before if before else 0)
    return Cost(latency, min(per_image, latency), batch, weights + max(gained, 0))


def _peak_memory(*, reset: bool = False) -> int:
    """Return the peak resident memory of this process in bytes, since now with `reset`; 0 if the system has none."""
    try:
        if reset:
            Path("/proc/self/clear_refs").write_text("5")
        return 1024 * int(Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0])
    except (OSError, ValueError, IndexError):
        return 0
