"""Copies among the images of datasets: within one, between its splits, and against another or what the store has of it.

The search itself is `unseen.data.duplicates`; here are the features that it takes its candidates from.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from unseen.benchmarks.workbench import Workbench
from unseen.core.errors import DataError, UnknownNameError, UnseenError
from unseen.data.duplicates import DuplicateReport, ImageSet, find_duplicates
from unseen.data.load import SOURCES, resolve_dataset
from unseen.features import Entry, StoredFeatures

MODEL = "packaged:efficientnet-lite0"
LAYER = "pooled"


def audit_images(
    bench: Workbench,
    data: str,
    against: str | None = None,
    *,
    model: str | None = None,
    base: Path | None = None,
    progress: Callable[[str, int, int], None] | None = None,
    **search: Any,
) -> tuple[DuplicateReport, str]:
    """Find the copies among the images of a dataset, or between it and another one.

    Args:
        bench: where features are kept, and extracted where they are not there yet.
        data: a dataset.
        against: another dataset; or, of features in the store, a dataset's name, or the beginning of an entry's id.
            What cannot be opened any more is compared by its features alone.
        model: whose features candidates are taken from; EfficientNet-Lite0, or what the store has of `against`.
        base: folder that relative paths are taken from.
        progress: is told (stage, done, in all) as work goes on.
        search: options of `find_duplicates`.

    Returns:
        What was found, and the model whose features were used.

    Raises:
        UnknownNameError: `against` is neither a dataset nor in the store.
    """
    place = base or Path.cwd()
    name = resolve_dataset(data, place)
    if against is None:
        used = model or MODEL
        return find_duplicates(image_set(bench, used, name), progress=progress, **search), used
    other, used = _other_set(bench, against, model, place)
    return find_duplicates(image_set(bench, used, name), other, progress=progress, **search), used


def image_set(bench: Workbench, model: str, dataset: str) -> ImageSet:
    """All images of a dataset that can be read, split by split, with their features."""
    loaded = bench.dataset(dataset)
    parts = bench.splits(model, dataset, LAYER)
    rows = [(split, int(image)) for split, part in parts.items() for image in part.index]
    splits = {split: loaded.split(split) for split in parts}
    keys = {split: each.content_key for split, each in splits.items()}

    def content_key(i: int) -> bytes:
        key = keys[rows[i][0]]
        assert key is not None
        return key(rows[i][1])

    return ImageSet(
        name=dataset,
        names=[splits[split].names[image] for split, image in rows],
        features=Stacked([part.features for part in parts.values()]),
        open=lambda i: splits[rows[i][0]].open(rows[i][1]),
        splits=[split for split, _ in rows],
        labels=np.concatenate([part.labels for part in parts.values()]).tolist(),
        content_key=content_key if all(keys.values()) else None,
    )


def _other_set(bench: Workbench, against: str, model: str | None, base: Path) -> tuple[ImageSet, str]:
    """The set that `against` names: images with features if they can be opened, else what the store has."""
    name = resolve_dataset(against, base)
    if name.partition(":")[0] in SOURCES and name.partition(":")[1]:
        try:
            bench.dataset(name)
        except UnseenError as error:
            try:
                entries = bench.store.select(name)
            except UnknownNameError:
                raise error from None
            return _stored_set(entries, model)
        return image_set(bench, model or MODEL, name), model or MODEL
    entries = bench.store.select(against)
    models = {e.manifest.key.model for e in entries if e.manifest is not None}
    datasets = {e.manifest.key.dataset for e in entries if e.manifest is not None}
    if len(datasets) == 1 and (model or len(models) == 1):
        used, dataset = model or next(iter(models)), next(iter(datasets))
        try:
            return image_set(bench, used, dataset), used
        except UnseenError:
            pass  # its images are gone: features are all there is
    return _stored_set(entries, model)


def _stored_set(entries: Sequence[Entry], model: str | None) -> tuple[ImageSet, str]:
    """A set of stored features whose images are not at hand."""
    kept = [e for e in entries if e.manifest is not None and e.state == "complete" and e.manifest.key.layer == LAYER]
    models = sorted({e.manifest.key.model for e in kept if e.manifest is not None})
    if model is None and len(models) > 1:
        raise DataError(
            f"the store has features of several models there: {', '.join(models)}. Choose one with --model."
        )
    used = model or (models[0] if models else MODEL)
    own = [(e, e.manifest) for e in kept if e.manifest is not None and e.manifest.key.model == used]
    if not own:
        raise DataError(f"the store has no complete {LAYER} features of {used!r} there. It has: {', '.join(models)}.")
    opened = [StoredFeatures.open(entry.path, manifest, "size") for entry, manifest in own]
    splits = [manifest.key.split for (_, manifest), part in zip(own, opened, strict=True) for _ in part.index]
    names = [
        f"{manifest.key.dataset} {manifest.key.split} #{image}"
        for (_, manifest), part in zip(own, opened, strict=True)
        for image in part.index
    ]
    name = " and ".join(dict.fromkeys(manifest.key.dataset for _, manifest in own))
    return ImageSet(name, names, Stacked([part.features for part in opened]), None, splits), used


class Stacked:
    """Several sets of rows, one after the other, without a copy."""

    def __init__(self, parts: Sequence[Any]) -> None:
        self._parts = list(parts)
        self._ends = np.cumsum([0, *(part.shape[0] for part in self._parts)])
        self.shape: tuple[int, ...] = (int(self._ends[-1]), int(self._parts[0].shape[1]))

    def __getitem__(self, rows: slice) -> npt.NDArray[Any]:
        begin, end, _ = rows.indices(self.shape[0])
        found = [
            np.asarray(part[max(begin - start, 0) : max(min(end - start, part.shape[0]), 0)])
            for start, part in zip(self._ends[:-1].tolist(), self._parts, strict=True)
            if start < end and start + part.shape[0] > begin
        ]
        return np.concatenate(found) if found else np.empty((0, self.shape[1]), np.float32)
