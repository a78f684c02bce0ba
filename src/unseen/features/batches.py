"""Batches of consecutive images, decoded ahead by threads and run through the model, in order.

On the CPU each thread decodes a batch and runs the single-threaded graph on it: no core waits for another, and the
numbers do not depend on the number of threads. On an accelerator the threads only decode, and one caller feeds the
device.

Images are resized and cropped with the arithmetic of torchvision's `Resize` + `CenterCrop` on Pillow images, without
its per-image objects; or, as "tf-bilinear", with that of TensorFlow 1, rounded to whole values.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from PIL import Image, JpegImagePlugin

from unseen.backbones.backbone import Backbone
from unseen.backbones.runtimes import ModelInput, Outputs, Runtime
from unseen.core.arrays import Float32Array, IntArray, Pixels
from unseen.core.errors import DataError
from unseen.core.extras import cores
from unseen.core.guard import read_patiently
from unseen.core.records import Preprocessing
from unseen.data import Split, decode_rgb
from unseen.data.decode import resize_like_tf
from unseen.features.manifest import Skipped, Truncated

#: First image, and the one after the last.
Span = tuple[int, int]


def to_pixels(image: Image.Image, preprocessing: Preprocessing, *, truncated: Truncated = "refuse") -> Pixels:
    """Decode, resize and crop an image: (size, size, 3), not yet normalised (the model's graph does that).

    Raises:
        DataError: the image cannot be decoded.
    """
    interpolation = preprocessing.interpolation.removeprefix("scaled-")
    if interpolation != preprocessing.interpolation and isinstance(image, JpegImagePlugin.JpegImageFile):
        image.draft(None, _resized(image.size, preprocessing))  # no smaller than the image after the resize
    rgb = decode_rgb(image, truncated=truncated)
    target = _resized(rgb.size, preprocessing)
    if rgb.size != target:
        rgb = _resize(rgb, target, interpolation)
    size = preprocessing.size
    left, top = round((target[0] - size) / 2), round((target[1] - size) / 2)
    if (left, top) != (0, 0) or target != (size, size):
        rgb = rgb.crop((left, top, left + size, top + size))
    return np.asarray(rgb, dtype=np.uint8)


def _resize(rgb: Image.Image, target: tuple[int, int], interpolation: str) -> Image.Image:
    if interpolation != "tf-bilinear":
        return rgb.resize(target, Image.Resampling[interpolation.upper()])
    resized = resize_like_tf(np.asarray(rgb, np.uint8), target[1], target[0])
    return Image.fromarray(np.rint(resized).astype(np.uint8))


def _resized(size: tuple[int, int], preprocessing: Preprocessing) -> tuple[int, int]:
    """Return width and height after the resize."""
    width, height = size
    side = preprocessing.resize
    if preprocessing.mode == "squash":
        return side, side
    if width <= height:
        return side, int(side * height / width)
    return int(side * width / height), side


@dataclass(frozen=True)
class Batch:
    """Consecutive images after decoding, and after the model if workers run it."""

    first: int
    count: int
    pixels: ModelInput
    kept: list[int]
    skipped: list[Skipped]
    outputs: Outputs | None = None


@dataclass(frozen=True)
class KnownRows:
    """Features that are known already: those of a smaller sample of the same images.

    Attributes:
        place: row of `layers` by image index.
        layers: (rows, d) in the order of the runtime's outputs.
    """

    place: Mapping[int, int]
    layers: Sequence[Any]

    def joined(self, batch: Batch) -> Batch:
        """Return the batch with the known rows of its span added."""
        images = [index for index in range(batch.first, batch.first + batch.count) if index in self.place]
        if not images:
            return batch
        order = np.argsort([*batch.kept, *images], kind="stable")
        rows = [self.place[index] for index in images]
        known = [np.asarray(layer[rows], np.float32) for layer in self.layers]
        ran = batch.outputs if batch.outputs is not None else tuple(one[:0] for one in known)
        outputs = tuple(np.concatenate([new, old])[order] for new, old in zip(ran, known, strict=True))
        return replace(batch, kept=sorted([*batch.kept, *images]), outputs=outputs)


def runs_in_workers(runtime: Runtime) -> bool:
    """Return whether the decoding threads run the model too."""
    return runtime.name in ("onnx", "openvino")


def batch_spans(start: int, total: int, *, part_size: int, batch_size: int) -> list[Span]:
    """Return the batches from image `start` on. No batch crosses a part, so a resumed run has the same batches."""
    return [
        (first, min(first + batch_size, part + part_size, total))
        for part in range(start, total, part_size)
        for first in range(part, min(part + part_size, total), batch_size)
    ]


def collect_parts(
    batches: Iterator[Batch], total: int, layers: int, part_size: int
) -> Iterator[tuple[int, IntArray, list[Float32Array], list[Skipped]]]:
    """Yield (first image, images with a row, outputs by layer, skipped images) of each part, from its batches."""
    collected: list[Batch] = []
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


def run_batches(
    images: Split,
    backbone: Backbone,
    runtime: Runtime,
    spans: Sequence[Span],
    *,
    workers: int,
    truncated: Truncated,
    known: KnownRows | None = None,
) -> Iterator[Batch]:
    """Yield batches in order, decoded a few batches ahead by a pool of threads."""
    in_workers = runs_in_workers(runtime)
    known = known or KnownRows({}, ())
    workers = workers or cores()

    def work(span: Span) -> Batch:
        batch = _decode(images, backbone, *span, truncated=truncated, known=known)
        return _run(batch, runtime) if in_workers else batch

    with ThreadPoolExecutor(workers, thread_name_prefix="unseen-extract") as pool:
        pending: deque[Future[Batch]] = deque()
        try:
            for span in (*spans, None):
                if span is not None:
                    pending.append(pool.submit(work, span))
                while pending and (span is None or len(pending) > 2 * workers + 1):
                    yield known.joined(_run(pending.popleft().result(), runtime))
        finally:
            for future in pending:
                future.cancel()


def _run(batch: Batch, runtime: Runtime) -> Batch:
    if not batch.kept or batch.outputs is not None:
        return batch
    outputs = runtime(batch.pixels)
    return replace(batch, pixels=batch.pixels[:0], outputs=outputs)


def _decode(
    images: Split, backbone: Backbone, first: int, end: int, *, truncated: Truncated, known: KnownRows
) -> Batch:
    """Decode the images `first` to `end` that are not known.

    An unreadable image is recorded as skipped; a failing disk raises.
    """
    size, own = backbone.preprocessing.size, backbone.transform
    shape, dtype = ((size, size, 3), np.uint8) if own is None else (own.shape, np.float32)
    pixels = np.empty((end - first, *shape), dtype)
    kept: list[int] = []
    skipped: list[Skipped] = []

    def read(index: int) -> ModelInput:
        if own is not None:
            return own(decode_rgb(images.open(index), truncated=truncated))
        return to_pixels(images.open(index), backbone.preprocessing, truncated=truncated)

    for index in range(first, end):
        if index in known.place:
            continue
        try:
            pixels[len(kept)] = read_patiently(partial(read, index), images.names[index])
        except (DataError, OSError) as error:
            reason = str(error).partition("\n")[0] or type(error).__name__
            skipped.append(Skipped(index, images.names[index], reason))
        else:
            kept.append(index)
    return Batch(first, end - first, pixels[: len(kept)], kept, skipped)
