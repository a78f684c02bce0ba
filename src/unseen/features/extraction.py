"""Images through a backbone into the store, once.

Features that are in the store are read from it. What is missing is extracted in one pass for all layers asked for,
part by part, under the locks of the entries: two processes that want the same features do the work once.

Where several workers share the work each does some parts (`describe`, then `extract_parts`): a part depends on its own
images alone, and is the same whoever makes it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from unseen.backbones.backbone import Backbone
from unseen.backbones.names import POOLED, RuntimeName
from unseen.backbones.runtimes import Runtime, best_device, expected_runtime, make_runtime
from unseen.core.records import FeatureKey
from unseen.data import Dataset, Split
from unseen.features.batches import Batch, KnownRows, batch_spans, parts, run_batches, runs_in_workers
from unseen.features.manifest import Skipped
from unseen.features.part import FloatArray, IntArray
from unseen.features.progress import NoProgress, Progress
from unseen.features.rows import StoredFeatures
from unseen.features.settings import Extraction
from unseen.features.store import FeatureStore
from unseen.features.writer import FeatureWriter


@dataclass(frozen=True)
class Described:
    """What an extraction would write, as the machine that would do it sees it.

    Attributes:
        keys: of each layer.
        total: images of the split.
        runtime: what the network runs in.
    """

    keys: dict[str, FeatureKey]
    total: int
    runtime: RuntimeName

    @property
    def title(self) -> str:
        return _title(self.keys)


@dataclass(frozen=True)
class ExtractedPart:
    """The rows of one part, by layer."""

    first: int
    features: dict[str, FloatArray]
    labels: IntArray
    index: IntArray
    skipped: tuple[Skipped, ...]


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
    """Features of one split, by layer: from the store where they are, otherwise extracted now, all layers in one pass.

    Args:
        layers: "pooled", "logits" or names of modules.
        smaller: draws of the same images; what the store has of them is not extracted again.
    """
    how, progress = how or Extraction(), progress or NoProgress()
    images = dataset.split(split)
    expected = _expected_keys(backbone, dataset, split, layers, how)
    found = {layer: store.find(key) for layer, key in expected.items()}
    missing = [layer for layer, features in found.items() if features is None]
    if missing:
        runtime = _runtime(backbone, missing, how)
        keys = _keys(backbone, dataset, split, missing, how, runtime.name, runtime.precision)
        having = [_keys(backbone, draw, split, missing, how, runtime.name, runtime.precision) for draw in smaller]
        known = _known(store, images, [(draw.split(split), own) for draw, own in zip(smaller, having, strict=True)])
        _fill(store, keys, images, backbone, runtime, how, progress, known)
        found |= {layer: store.open(keys[layer]) for layer in missing}
    return {layer: features for layer, features in found.items() if features is not None}


def _known(
    store: FeatureStore, images: Split, draws: Sequence[tuple[Split, Mapping[str, FeatureKey]]]
) -> KnownRows | None:
    """What the store has of the largest draw of the same images."""
    for drawn, keys in sorted(draws, key=lambda one: len(one[0]), reverse=True):
        found = [store.find(key) for key in keys.values()]
        whole = [features for features in found if features is not None]
        if len(whole) < len(found) or not all(np.array_equal(each.index, whole[0].index) for each in whole):
            continue
        if (places := images.places_of(drawn)) is not None:
            place = {places[index]: row for row, index in enumerate(whole[0].index.tolist())}
            return KnownRows(place, [each.features for each in whole])
    return None


def describe(
    backbone: Backbone, dataset: Dataset, split: str, store: FeatureStore, *, layers: Sequence[str], how: Extraction
) -> Described:
    """Under which keys features of a split are, or would be, kept by this machine. Nothing is extracted.

    A graph that has to be exported first is exported now.
    """
    keys = _expected_keys(backbone, dataset, split, layers, how)
    if not all(store.holds(key) for key in keys.values()):
        runtime = _runtime(backbone, layers, how)
        keys = _keys(backbone, dataset, split, layers, how, runtime.name, runtime.precision)
    chosen: RuntimeName = "onnx" if next(iter(keys.values())).runtime == "onnx" else "torch"
    return Described(keys, len(dataset.split(split)), chosen)


def extract_parts(
    backbone: Backbone,
    dataset: Dataset,
    split: str,
    *,
    layers: Sequence[str],
    how: Extraction,
    starts: Sequence[int],
    part_size: int,
    give: Callable[[dict[str, FeatureKey], ExtractedPart, dict[str, object]], None],
) -> None:
    """Extract some parts of a split and give each away as it is done, with its keys and how it was made.

    Args:
        starts: first image of each part.
    """
    images, runtime = dataset.split(split), _runtime(backbone, layers, how)
    keys = _keys(backbone, dataset, split, layers, how, runtime.name, runtime.precision)
    began, total = time.perf_counter(), len(images)
    for first, rows, outputs, skipped in _parts(images, backbone, runtime, how, starts, part_size, len(layers)):
        features = {layer: output.astype(how.dtype, copy=False) for layer, output in zip(layers, outputs, strict=True)}
        part = ExtractedPart(first, features, images.primary_labels[rows], rows, tuple(skipped))
        count = min(part_size, total - first)
        notes = _provenance(runtime, time.perf_counter() - began, count) | {"model_notes": list(backbone.notes)}
        give(keys, part, notes)
        began = time.perf_counter()


def keep_part(
    store: FeatureStore,
    keys: Mapping[str, FeatureKey],
    part: ExtractedPart | None,
    *,
    total: int,
    part_size: int,
    provenance: Mapping[str, object],
) -> None:
    """Put a part into the store; whoever brings the last one closes the entry. Without a part, close what can be."""
    for layer, key in keys.items():
        written = None
        if part is not None:
            # The long step, before the lock: others who write parts of this entry do not wait for it.
            written = store.write_part_file(key, part_size, part.first, part.features[layer], part.labels, part.index)
        with store.writer(key, total=total, part_size=part_size, verify=False) as writer:
            if writer.complete:
                continue
            if part is not None and writer.part_size == part_size and part.first >= writer.next_index:
                rows = part.features[layer]
                writer.write_part(rows, part.labels, part.index, part.skipped, first=part.first, written=written)
            writer.gather(due=True)
            if writer.next_index == total:
                writer.finish(provenance)


def _expected_keys(
    backbone: Backbone, dataset: Dataset, split: str, layers: Sequence[str], how: Extraction
) -> dict[str, FeatureKey]:
    expected = expected_runtime(
        backbone, layers, device=_device(how), runtime=how.runtime, precision=how.precision, cache=how.graphs
    )
    return _keys(backbone, dataset, split, layers, how, expected, how.precision)


def _keys(
    backbone: Backbone,
    dataset: Dataset,
    split: str,
    layers: Sequence[str],
    how: Extraction,
    runtime: str,
    precision: str,
) -> dict[str, FeatureKey]:
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
            split=split,
            fingerprint=dataset.split(split).fingerprint,
        )
        for layer in layers
    }


def _runtime(backbone: Backbone, layers: Sequence[str], how: Extraction) -> Runtime:
    """The runtime, made once for neighbouring extractions of one model."""
    wanted = (id(backbone.module), backbone.preprocessing, tuple(layers), how)
    for known, held, runtime in _RUNTIMES:
        if known == wanted and held is backbone.module:
            return runtime
    runtime = make_runtime(
        backbone,
        layers,
        device=_device(how),
        runtime=how.runtime,
        precision=how.precision,
        threads=1,
        cache=how.graphs,
    )
    _RUNTIMES[:] = [(wanted, backbone.module, runtime)]
    return runtime


#: The last runtime that was made here, and for what.
_RUNTIMES: list[tuple[tuple[object, ...], object, Runtime]] = []


def _device(how: Extraction) -> str:
    return best_device() if how.device == "auto" else how.device


def _title(keys: Mapping[str, FeatureKey]) -> str:
    one = next(iter(keys.values()))
    return f"{one.model} on {one.dataset} {one.split}"


def _fill(
    store: FeatureStore,
    keys: dict[str, FeatureKey],
    images: Split,
    backbone: Backbone,
    runtime: Runtime,
    how: Extraction,
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
            _pass(together, list(keys), title, images, backbone, runtime, how, progress, known)


def _pass(
    writers: dict[str, FeatureWriter],
    order: list[str],
    title: str,
    images: Split,
    backbone: Backbone,
    runtime: Runtime,
    how: Extraction,
    progress: Progress,
    known: KnownRows | None,
) -> None:
    """One pass over the images that at least one of the layers lacks; `order` is that of the runtime's outputs."""
    starts = sorted({first for writer in writers.values() for first in writer.missing})
    part_size = next(iter(writers.values())).part_size
    left = sum(min(part_size, len(images) - first) for first in starts)
    began = time.perf_counter()
    progress.begin(title, len(images), len(images) - left)
    try:
        for first, rows, outputs, skipped in _parts(
            images, backbone, runtime, how, starts, part_size, len(order), progress, known
        ):
            for layer, writer in writers.items():
                if writer.next_index == first:
                    features = outputs[order.index(layer)].astype(how.dtype, copy=False)
                    writer.write_part(features, images.primary_labels[rows], rows, skipped)
    finally:
        progress.end()
    begun = {*starts}
    had = sum(i - i % part_size in begun for i in known.place) if known is not None else 0
    provenance = _provenance(runtime, time.perf_counter() - began, left - had)
    for writer in writers.values():
        writer.finish({**provenance, "model_notes": list(backbone.notes)})


def _parts(
    images: Split,
    backbone: Backbone,
    runtime: Runtime,
    how: Extraction,
    starts: Sequence[int],
    part_size: int,
    layers: int,
    progress: Progress | None = None,
    known: KnownRows | None = None,
) -> Iterator[tuple[int, IntArray, list[npt.NDArray[np.float32]], list[Skipped]]]:
    """(first image, rows kept, outputs by layer, skipped) of each part that begins at one of `starts`."""
    size, total = how.batch_size or (8 if runs_in_workers(runtime) else 128), len(images)
    spans = [
        span
        for first in starts
        for span in batch_spans(first, min(first + part_size, total), part_size=part_size, batch_size=size)
    ]
    batches = run_batches(images, backbone, runtime, spans, workers=how.workers, truncated=how.truncated, known=known)
    yield from parts(_told(batches, progress or NoProgress()), total, layers, part_size)


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
