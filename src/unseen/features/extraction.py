"""Images through a backbone into the store, once.

Work goes out in small batches of consecutive images. On the CPU each worker thread decodes a batch and runs the
single-threaded graph on it: no core waits for another, and the numbers do not depend on how many there are. On an
accelerator the threads decode ahead and one caller feeds the device. Batches never straddle a part, so a resumed run
sees the very batches of an uninterrupted one and writes the very same bytes.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

import numpy as np
import numpy.typing as npt

from unseen.backbones.backbone import POOLED, Backbone
from unseen.backbones.runtimes import Outputs, Runtime, RuntimeName, best_device, make_runtime
from unseen.data import Dataset, Split
from unseen.errors import DataError, UnknownNameError
from unseen.features.manifest import Skipped
from unseen.features.preprocess import to_pixels
from unseen.features.rows import StoredFeatures
from unseen.features.store import FeatureStore
from unseen.features.writer import FeatureWriter
from unseen.records import FeatureKey


class Progress(Protocol):
    """Told how an extraction goes; the command line draws a bar from it."""

    def begin(self, title: str, total: int, done: int) -> None:
        """An extraction of `total` images starts, `done` of which are in the store already."""

    def advance(self, images: int, skipped: int) -> None:
        """`images` more are through, `skipped` of them unreadable."""

    def waiting(self, title: str) -> None:
        """Another process is extracting the same features: waiting for it."""

    def note(self, text: str) -> None:
        """Something that the user should know, such as a damaged part that is done again."""

    def end(self) -> None:
        """The extraction is over, well or not."""


class NoProgress:
    """Tells nobody."""

    def begin(self, title: str, total: int, done: int) -> None: ...
    def advance(self, images: int, skipped: int) -> None: ...
    def waiting(self, title: str) -> None: ...
    def note(self, text: str) -> None: ...
    def end(self) -> None: ...


@dataclass(frozen=True)
class Extraction:
    """How to extract. The defaults suit any machine.

    Attributes:
        device: "auto", "cpu", "cuda", "mps".
        runtime: "auto", "onnx", "torch".
        precision: of the computation: "auto", "fp32", "bf16", "fp16".
        dtype: of the stored features; "float16" halves the disk.
        workers: threads; 0 means one per core.
        batch_size: images per batch; 0 means 8 on the CPU, where small batches stay in the cache, and 128 elsewhere.
        part_size: images per part file: what a kill loses at most.
        truncated: "accept" keeps images whose file ends early, as ImageNet-CoG does.
        graphs: folder for exported graphs, so that a second run need not export again.
    """

    device: str = "auto"
    runtime: RuntimeName = "auto"
    precision: str = "auto"
    dtype: Literal["float32", "float16"] = "float32"
    workers: int = 0
    batch_size: int = 0
    part_size: int = 1024
    truncated: Literal["refuse", "accept"] = "refuse"
    graphs: Path | None = None

    def __post_init__(self) -> None:
        if self.dtype not in ("float32", "float16"):
            raise UnknownNameError("feature dtype", self.dtype, ("float32", "float16"))


@dataclass(frozen=True)
class _Batch:
    """A run of consecutive images after decoding, and after the model where workers run it."""

    first: int
    count: int
    pixels: npt.NDArray[np.uint8]
    kept: list[int]
    skipped: list[Skipped]
    outputs: Outputs | None = None


def extract(
    backbone: Backbone,
    dataset: Dataset,
    split: str,
    store: FeatureStore,
    *,
    layers: Sequence[str] = (POOLED,),
    how: Extraction | None = None,
    progress: Progress | None = None,
) -> dict[str, StoredFeatures]:
    """Features of one split, by layer: from the store where they are, otherwise extracted now, all layers in one pass.

    Args:
        layers: "pooled", "logits" or names of modules.
    """
    how, progress = how or Extraction(), progress or NoProgress()
    images = dataset.split(split)
    device = best_device() if how.device == "auto" else how.device

    def key(layer: str, runtime: str, precision: str) -> FeatureKey:
        stored = precision if how.dtype == "float32" else f"{precision}, stored as {how.dtype}"
        return FeatureKey(
            model=backbone.id,
            weights=backbone.weights,
            layer=layer,
            preprocessing=backbone.preprocessing,
            precision=stored if how.truncated == "refuse" else f"{stored}, truncated images accepted",
            runtime=runtime,
            dataset=dataset.features_id,
            split=split,
            fingerprint=images.fingerprint,
        )

    expected = _expected_runtime(how, device)
    found = {layer: store.find(key(layer, *expected)) for layer in layers}
    missing = [layer for layer, features in found.items() if features is None]
    if missing:
        runtime = make_runtime(
            backbone,
            missing,
            device=device,
            runtime=how.runtime,
            precision=how.precision,
            threads=1,
            cache=how.graphs,
        )
        keys = {layer: key(layer, runtime.name, runtime.precision) for layer in missing}
        _fill(store, keys, images, backbone, runtime, how, progress)
        found |= {layer: store.open(keys[layer]) for layer in missing}
    return {layer: features for layer, features in found.items() if features is not None}


def _expected_runtime(how: Extraction, device: str) -> tuple[str, str]:
    """Runtime and precision that will be used unless the export fails: enough to look into the store first."""
    precision = how.precision if how.precision != "auto" else ("bf16" if device.startswith("cuda") else "fp32")
    if how.runtime != "auto":
        return how.runtime, precision
    return ("onnx" if device == "cpu" and precision == "fp32" else "torch"), precision


def _fill(
    store: FeatureStore,
    keys: dict[str, FeatureKey],
    images: Split,
    backbone: Backbone,
    runtime: Runtime,
    how: Extraction,
    progress: Progress,
) -> None:
    """Write every layer that is not complete yet, all of them in one pass over the images."""
    title = f"{backbone.id} on {next(iter(keys.values())).dataset} {next(iter(keys.values())).split}"
    with ExitStack() as stack:
        writers: dict[str, FeatureWriter] = {}
        # In the order of digests, so that two processes never hold one lock each and wait for the other.
        for layer, key in sorted(keys.items(), key=lambda item: item[1].digest):
            writer = store.writer(
                key, total=len(images), part_size=how.part_size, on_wait=lambda: progress.waiting(title)
            )
            writers[layer] = stack.enter_context(writer)
        for writer in writers.values():
            for note in writer.discarded:
                progress.note(f"{title}: {note}")
        todo = {layer: writer for layer, writer in writers.items() if not writer.complete}
        # A layer that was begun earlier keeps its part size: layers of one size share a pass.
        for part_size in sorted({writer.part_size for writer in todo.values()}):
            together = {layer: writer for layer, writer in todo.items() if writer.part_size == part_size}
            _pass(together, list(keys), title, images, backbone, runtime, how, progress)


def _pass(
    writers: dict[str, FeatureWriter],
    order: list[str],
    title: str,
    images: Split,
    backbone: Backbone,
    runtime: Runtime,
    how: Extraction,
    progress: Progress,
) -> None:
    """One pass over the images that at least one of the layers lacks; `order` is that of the runtime's outputs."""
    start = min(writer.next_index for writer in writers.values())
    part_size = next(iter(writers.values())).part_size
    began = time.perf_counter()
    progress.begin(title, len(images), start)
    try:
        batches = _told(_batches(images, backbone, runtime, how, start, part_size), progress)
        for first, rows, outputs, skipped in _parts(batches, len(images), len(order), part_size):
            for layer, writer in writers.items():
                if writer.next_index == first:
                    features = outputs[order.index(layer)].astype(how.dtype, copy=False)
                    writer.write_part(features, images.labels[rows], rows, skipped)
    finally:
        progress.end()
    provenance = _provenance(runtime, time.perf_counter() - began, len(images) - start)
    for writer in writers.values():
        writer.finish({**provenance, "model_notes": list(backbone.notes)})


def _told(batches: Iterator[_Batch], progress: Progress) -> Iterator[_Batch]:
    for batch in batches:
        progress.advance(batch.count, len(batch.skipped))
        yield batch


def _parts(
    batches: Iterator[_Batch], total: int, layers: int, part_size: int
) -> Iterator[tuple[int, npt.NDArray[np.int64], list[npt.NDArray[np.float32]], list[Skipped]]]:
    """(first image, rows kept, outputs by layer, skipped) for each part, from the batches that make it up."""
    collected: list[_Batch] = []
    for batch in batches:
        collected.append(batch)
        end = batch.first + batch.count
        if end % part_size and end != total:
            continue
        rows = np.array([row for b in collected for row in b.kept], np.int64)
        kept = [b.outputs for b in collected if b.outputs is not None]
        if kept:
            outputs = [np.concatenate([o[i] for o in kept]) for i in range(len(kept[0]))]
        else:  # every image of the part is unreadable
            outputs = [np.empty((0, 0), np.float32) for _ in range(layers)]
        yield collected[0].first, rows, outputs, [s for b in collected for s in b.skipped]
        collected = []


def _batches(
    images: Split, backbone: Backbone, runtime: Runtime, how: Extraction, start: int, part_size: int
) -> Iterator[_Batch]:
    """Batches in order, decoded ahead by a pool of threads that stays a few batches in front."""
    in_workers = runtime.name == "onnx"
    workers = how.workers or os.cpu_count() or 1
    size = how.batch_size or (8 if in_workers else 128)
    spans = [
        (first, min(first + size, part + part_size, len(images)))
        for part in range(start, len(images), part_size)
        for first in range(part, min(part + part_size, len(images)), size)
    ]

    def work(span: tuple[int, int]) -> _Batch:
        batch = _decode(images, backbone, *span, truncated=how.truncated)
        return _run(batch, runtime) if in_workers else batch

    with ThreadPoolExecutor(workers, thread_name_prefix="unseen-extract") as pool:
        pending: deque[Future[_Batch]] = deque()
        waiting = iter(spans)
        try:
            for span in waiting:
                pending.append(pool.submit(work, span))
                if len(pending) > 2 * workers + 1:
                    yield _finished(pending.popleft(), runtime)
            while pending:
                yield _finished(pending.popleft(), runtime)
        finally:
            for future in pending:
                future.cancel()


def _finished(future: Future[_Batch], runtime: Runtime) -> _Batch:
    batch = future.result()
    return batch if batch.outputs is not None or not batch.kept else _run(batch, runtime)


def _run(batch: _Batch, runtime: Runtime) -> _Batch:
    if not batch.kept:
        return batch
    outputs = runtime(batch.pixels)
    return _Batch(batch.first, batch.count, batch.pixels[:0], batch.kept, batch.skipped, outputs)


def _decode(
    images: Split, backbone: Backbone, first: int, end: int, *, truncated: Literal["refuse", "accept"]
) -> _Batch:
    """Decode images `first` to `end`; an unreadable one leaves a reason instead of pixels."""
    size = backbone.preprocessing.size
    pixels = np.empty((end - first, size, size, 3), np.uint8)
    kept: list[int] = []
    skipped: list[Skipped] = []
    for index in range(first, end):
        try:
            pixels[len(kept)] = to_pixels(images.open(index), backbone.preprocessing, truncated=truncated)
        except (DataError, OSError) as error:
            reason = str(error).partition("\n")[0] or type(error).__name__
            skipped.append(Skipped(index, images.names[index], reason))
        else:
            kept.append(index)
    return _Batch(first, end - first, pixels[: len(kept)], kept, skipped)


def _provenance(runtime: Runtime, seconds: float, images: int) -> dict[str, object]:
    from importlib.metadata import version

    return {
        "images": images,
        "seconds": round(seconds, 3),
        "runtime": runtime.name,
        "runtime_note": runtime.note,
        "versions": {name: version(name) for name in ("unseen", "torch", "onnxruntime", "pillow", "numpy")},
    }
