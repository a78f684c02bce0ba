"""Images through a backbone into the store, once.

Features that are in the store are read from it. What is missing is extracted in one pass for all layers asked for,
part by part, under the locks of the entries: two processes that want the same features do the work once.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack

from unseen.backbones.backbone import Backbone
from unseen.backbones.names import POOLED
from unseen.backbones.runtimes import Runtime, best_device, expected_runtime, make_runtime
from unseen.core.records import FeatureKey
from unseen.data import Dataset, Split
from unseen.features.batches import Batch, batch_spans, parts, run_batches, runs_in_workers
from unseen.features.progress import NoProgress, Progress
from unseen.features.rows import StoredFeatures
from unseen.features.settings import Extraction
from unseen.features.store import FeatureStore
from unseen.features.writer import FeatureWriter


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

    expected = expected_runtime(
        backbone, layers, device=device, runtime=how.runtime, precision=how.precision, cache=how.graphs
    )
    found = {layer: store.find(key(layer, expected, how.precision)) for layer in layers}
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
        size = how.batch_size or (8 if runs_in_workers(runtime) else 128)
        spans = batch_spans(start, len(images), part_size=part_size, batch_size=size)
        batches = run_batches(images, backbone, runtime, spans, workers=how.workers, truncated=how.truncated)
        for first, rows, outputs, skipped in parts(_told(batches, progress), len(images), len(order), part_size):
            for layer, writer in writers.items():
                if writer.next_index == first:
                    features = outputs[order.index(layer)].astype(how.dtype, copy=False)
                    writer.write_part(features, images.primary_labels[rows], rows, skipped)
    finally:
        progress.end()
    provenance = _provenance(runtime, time.perf_counter() - began, len(images) - start)
    for writer in writers.values():
        writer.finish({**provenance, "model_notes": list(backbone.notes)})


def _told(batches: Iterator[Batch], progress: Progress) -> Iterator[Batch]:
    for batch in batches:
        progress.advance(batch.count, len(batch.skipped))
        yield batch


def _provenance(runtime: Runtime, seconds: float, images: int) -> dict[str, object]:
    from importlib.metadata import version

    return {
        "images": images,
        "seconds": round(seconds, 3),
        "runtime": runtime.name,
        "runtime_note": runtime.note,
        "versions": {name: version(name) for name in ("unseen", "torch", "onnxruntime", "pillow", "numpy")},
    }
