"""`unseen.extract`: features and labels of any model on any images, cached in the feature store."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from unseen.api.answer import Answer
from unseen.api.objects import Data, Model, NamedObjects, workbench
from unseen.backbones.backbone import ImageTransform
from unseen.benchmarks.workbench import SplitRows, Workbench
from unseen.core.arrays import AnyArray, Float32Array
from unseen.core.errors import UsageError
from unseen.core.identity import Values
from unseen.core.records import Preprocessing
from unseen.core.run_record import RunRecord
from unseen.data import Dataset
from unseen.data.dataset import ALL
from unseen.features import Extraction, Progress


@dataclass(frozen=True, eq=False, repr=False)
class Features(Answer):
    """Features with labels and names, in the order of the images.

    Attributes:
        features: (n, d) float32.
        labels: (n,) class indices, or numbers; (n, labels) booleans if images have several; None without labels.
        class_names: one per class index.
        names: one per image.
        splits: the split of each image, such as "train".
        model, dataset, layer: what the features were extracted with and from.
        run_record: what the extraction received, used and dropped; also `record`.
    """

    features: Float32Array
    labels: AnyArray | None
    class_names: tuple[str, ...]
    names: tuple[str, ...]
    splits: npt.NDArray[np.str_]
    model: str
    dataset: str
    layer: str = "pooled"
    run_record: RunRecord = field(default_factory=RunRecord)

    @property
    def record(self) -> RunRecord:
        """What the extraction received, what it used, and what it dropped and why."""
        return self.run_record

    @property
    def skipped(self) -> dict[str, str]:
        """Images that could not be read, with the reason."""
        return {each.name: each.reason for each in self.record.dropped if each.kind == "image"}

    def __len__(self) -> int:
        return len(self.features)

    def headline(self) -> str:
        count, width = self.features.shape
        return f"{count} images, {width} features each, {self.model} on {self.dataset}"

    def rows(self) -> list[Values]:
        labels: list[Any] = [None] * len(self)
        if self.labels is not None:
            labels = [self._label_name(label) for label in self.labels]
        about = zip(self.names, self.splits.tolist(), labels, strict=True)
        values = [[float(value) for value in row] for row in self.features]
        return [
            {"name": name, "split": split, "label": label, **{f"f{i}": value for i, value in enumerate(row)}}
            for (name, split, label), row in zip(about, values, strict=True)
        ]

    def _label_name(self, label: Any) -> object:
        if isinstance(label, np.ndarray):
            return "|".join(name for name, has in zip(self.class_names, label, strict=False) if has)
        return self.class_names[label] if isinstance(label, np.integer) else float(label)

    def _repr_html_(self) -> str:
        return f"<p>{escape('. '.join([self.headline(), *self._notes()]))}</p>"  # without the table of features

    def of(self, split: str) -> Features:
        """Return the images of one split."""
        kept = np.flatnonzero(self.splits == split)
        if not len(kept):
            raise UsageError(f"there is no split {split!r}; there are {', '.join(sorted(set(self.splits.tolist())))}.")
        return replace(
            self,
            features=self.features[kept],
            labels=None if self.labels is None else self.labels[kept],
            names=tuple(self.names[i] for i in kept),
            splits=self.splits[kept],
        )


def extract(
    model: Model,
    data: Data,
    *,
    split: str | None = None,
    layer: str = "pooled",
    transform: ImageTransform | None = None,
    preprocessing: Preprocessing | None = None,
    home: Path | str | None = None,
    how: Extraction | None = None,
    progress: Progress | None = None,
) -> Features:
    """Return the features of a model on images, from the store if they are cached.

    Args:
        model: a name (`timm:resnet50`), a checkpoint or ONNX file, a torch module, a function from a batch of images
            to an array, or a backbone.
        data: a dataset's name, a folder, (images, labels) or images alone, a torch or Hugging Face dataset, a data
            frame with paths and labels; images are Pillow images, arrays, tensors or paths.
        split: only these images of a dataset that has splits.
        layer: "pooled", "logits", or the name of a module.
        transform: from a Pillow image to the input of the model, for a model that is an object.
        preprocessing: the same as a record.
        home: folder of features and results; the user's by default.
        how: settings of the extraction.
        progress: receives progress events.

    Raises:
        UnseenError: a model or data that cannot be loaded.
    """
    bench = workbench(home, how, progress)
    with NamedObjects() as objects:
        name = objects.model(model, transform=transform, preprocessing=preprocessing)
        dataset, labels = _dataset(data, bench, objects)
        wanted = [split] if split is not None else list(dataset.splits)
        parts = {each: bench.layers(name, dataset, each, (layer,))[layer] for each in wanted}
    bench.recorder.add(dataset.record)
    return replace(_joined(parts, dataset, labels, name, layer), run_record=bench.recorder.record)


def _dataset(data: Data, bench: Workbench, objects: NamedObjects) -> tuple[Dataset, AnyArray | None]:
    """Return a dataset; with the labels of an object, whose images are extracted as a whole."""
    if isinstance(data, str | Path):
        return bench.dataset(objects.dataset(data)), None
    if isinstance(data, Dataset):
        return data, None
    from unseen.data.adapters import label_object  # imports torch

    return label_object(data)


def _joined(
    parts: dict[str, SplitRows], dataset: Dataset, object_labels: AnyArray | None, model: str, layer: str
) -> Features:
    whole = ALL in parts
    targets = {split: dataset.split(split).targets for split in parts}
    labels = np.concatenate(
        [part.labels if (own := targets[split]) is None else own[part.index] for split, part in parts.items()]
    )
    names = [dataset.split(split).names[i] for split, part in parts.items() for i in part.index]
    return Features(
        features=np.concatenate([np.asarray(part.features[:], np.float32) for part in parts.values()]),
        labels=labels if not whole else None if object_labels is None else object_labels[parts[ALL].index],
        class_names=tuple(dataset.class_names),
        names=tuple(names),
        splits=np.concatenate([np.full(len(part.index), split) for split, part in parts.items()]),
        model=model,
        dataset=dataset.id,
        layer=layer,
    )
