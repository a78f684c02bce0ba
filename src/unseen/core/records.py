"""Frozen records that packages exchange: plain values that convert to JSON and back."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, Literal, Self

import msgspec

from unseen.core.identity import digest, identify, plain, type_hints
from unseen.core.run_record import RunRecord


@dataclass(frozen=True, slots=True)
class _Record:
    """JSON in and out for the dataclasses below."""

    def to_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, object]) -> Self:
        names = {f.name for f in dataclasses.fields(cls)}
        return cls(**{k: tuple(v) if isinstance(v, list) else v for k, v in values.items() if k in names})


@dataclass(frozen=True, slots=True)
class Preprocessing(_Record):
    """From a decoded image to the tensor a model takes.

    Attributes:
        size: side in pixels of the square that enters the model.
        resize: side in pixels that the image is resized to before the crop.
        mode: "shortest" keeps the aspect and crops the centre; "squash" resizes both sides to `resize`.
        interpolation: Pillow's name of the filter, or "tf-bilinear": two neighbours per axis, without the low-pass that
            Pillow applies where an image shrinks, as TensorFlow 1 resizes. "scaled-": decode large JPEG files at 1/2,
            1/4 or 1/8 of their size first, which is faster and changes pixels.
        mean, std: per RGB channel, of pixel values in [0, 1].
    """

    size: int = 224
    resize: int = 224
    mode: Literal["shortest", "squash"] = "shortest"
    interpolation: Literal[
        "nearest", "bilinear", "bicubic", "lanczos", "tf-bilinear", "scaled-bilinear", "scaled-bicubic"
    ] = "bicubic"
    mean: tuple[float, float, float] = (0.485, 0.456, 0.406)
    std: tuple[float, float, float] = (0.229, 0.224, 0.225)


@dataclass(frozen=True, slots=True)
class MethodCard(_Record):
    """Facts about a benchmark, a probe, a zero-shot method or a ranking score, known without importing it.

    Attributes:
        id: the permanent name.
        group: a family to list it under, such as the category of a paper.
        paper: the benchmark whose table lists it ("cog"), or "".
    """

    id: str
    name: str = ""
    group: str = ""
    paper: str = ""
    citation: str = ""
    notes: str = ""


@dataclass(frozen=True, slots=True)
class ModelCard(MethodCard):
    """Facts about a model, known without loading it; `None` for those that are known only once it is loaded.

    Attributes:
        id: the permanent name, such as `timm:resnet50`.
        parameters: count without the classifier head.
        flops: multiply-adds per image at `preprocessing.size`, times two.
    """

    architecture: str = ""
    parameters: int | None = None
    flops: int | None = None
    feature_dim: int | None = None
    preprocessing: Preprocessing | None = None
    source: str = ""
    license: str = ""


@dataclass(frozen=True, slots=True)
class DatasetCard(MethodCard):
    """Facts about a dataset, known without reading its images.

    Attributes:
        id: the permanent name, such as `packaged:grocery`.
        splits: the names it has, such as ("train", "val", "test").
        label_sets: the labellings to choose from by `?labels=`; the first is the default.
    """

    splits: tuple[str, ...] = ("train", "val", "test")
    label_sets: tuple[str, ...] = ()
    classes: int | None = None
    images: int | None = None
    source: str = ""
    license: str = ""


@dataclass(frozen=True, slots=True)
class FeatureKey(_Record):
    """Everything that changes a stored number. Equal keys mean equal features.

    Attributes:
        weights: digest of every tensor of the model.
        layer: "pooled", "logits", or the name of a module.
        precision: "fp32", "bf16" or "fp16".
        runtime: "onnx" or "torch": they agree to about 1e-6, which is not bit for bit.
        fingerprint: digest of the split's images, in order.
    """

    model: str
    weights: str
    layer: str
    preprocessing: Preprocessing
    precision: str
    runtime: str
    dataset: str
    split: str
    fingerprint: str

    @property
    def digest(self) -> str:
        return digest(self.to_dict())

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        nested = dict(values["preprocessing"])
        return cls(**{**values, "preprocessing": Preprocessing.from_dict(nested)})


@dataclass(frozen=True, slots=True)
class Cell(_Record):
    """The smallest unit of a study: one benchmark's question about one model on one dataset.

    Attributes:
        benchmark: registry name of the protocol, such as "probe".
        parameters: every option of the protocol that may change a number, plain values only (seed, shots, solver ...).
        version: of the protocol and of the methods in it, such as "1 logistic.2".
        revision: digests of the weights and of the data behind the two names, with a "+" between: they change when
            what they stand for does, and the id with them.
    """

    benchmark: str
    model: str
    dataset: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    revision: str = ""
    version: str = ""

    @property
    def id(self) -> str:
        return identify(self.benchmark, self.version, self.model, self.dataset, dict(self.parameters), self.revision)

    @property
    def data(self) -> str:
        """Return the digest of the data alone: equal for all models on the same images and labels."""
        return self.revision.partition("+")[2]

    def name_of(self, kind: str, *parts: object, without: Collection[str] = ()) -> str:
        """Return the id of an intermediate object of this cell, such as a search or a training state.

        Args:
            kind: what it is.
            parts: what tells it from others of its kind, JSON values.
            without: parameters that do not change it, such as the seed of what comes later.
        """
        parameters = {name: value for name, value in self.parameters.items() if name not in without}
        place = [self.benchmark, self.model, self.dataset, parameters, self.revision]
        return identify(kind, self.version, place, *parts)

    def to_dict(self) -> dict[str, Any]:
        return {
            "benchmark": self.benchmark,
            "version": self.version,
            "model": self.model,
            "dataset": self.dataset,
            "parameters": dict(self.parameters),
            "revision": self.revision,
        }


@dataclass(frozen=True, slots=True)
class Result(_Record):
    """The outcome of a cell.

    Attributes:
        metrics: name to value, in full precision; empty if the cell failed.
        error: the reason of a failure, or "" after success.
        sweep: every hyper-parameter setting that was tried, with its validation value.
        details: anything else worth keeping (per-class accuracy ...), JSON values.
        record: what the evaluation received, what it used, and what it dropped and why.
        environment: versions and machine; filled in when the cell is run.
        recorded: when it was stored, UTC in ISO 8601; filled in by the database, and not part of the result's identity.
    """

    cell: Cell
    metrics: Mapping[str, float] = field(default_factory=dict)
    error: str = ""
    seconds: float = 0.0
    sweep: tuple[Mapping[str, Any], ...] = ()
    details: Mapping[str, Any] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    record: RunRecord = field(default_factory=RunRecord)
    recorded: str = field(default="", compare=False)

    @property
    def ok(self) -> bool:
        return not self.error

    def to_dict(self) -> dict[str, Any]:
        values = {f.name: getattr(self, f.name) for f in dataclasses.fields(self) if f.name != "recorded"}
        nested: dict[str, Any] = {"cell": self.cell.to_dict(), "sweep": [dict(trial) for trial in self.sweep]}
        return {**values, **nested, "record": self.record.to_dict()}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Read what `to_dict` of this or an earlier version wrote; ignore keys of a later version."""
        known = {f.name for f in dataclasses.fields(cls)}
        found = {name: value for name, value in values.items() if name in known}
        nested: dict[str, Any] = {"cell": Cell(**found["cell"]), "sweep": tuple(found.get("sweep", ()))}
        return cls(**{**found, **nested, "record": RunRecord.from_dict(found.get("record") or {})})


# ---- typed views -----------------------------------------------------------------------------------------------------
#
# Typed views of the plain mappings that results store: details of a benchmark, parameters of a cell.
#
# A benchmark declares a frozen dataclass for everything that it stores beyond metrics. Code reads its fields instead of
# looking up strings. Reading is tolerant: a missing or ill-typed value of an old or damaged result becomes the default.


@dataclass(frozen=True)
class Typed:
    """Base of typed details and parameters; every field needs a default."""

    @classmethod
    def read(cls, values: Mapping[str, object]) -> Self:
        """Return the view of a stored mapping; ignore keys that the class does not declare."""
        hints = type_hints(cls)
        found: dict[str, Any] = {}
        for each in fields(cls):
            with suppress(KeyError, msgspec.ValidationError, TypeError):  # the value becomes the default
                found[each.name] = msgspec.convert(values[each.name], hints[each.name], strict=True)
        return cls(**found)

    def to_dict(self) -> dict[str, Any]:
        """Return the fields that differ from their defaults, as plain values."""
        found = {}
        for each in fields(self):
            value = getattr(self, each.name)
            default = each.default if each.default_factory is MISSING else each.default_factory()
            if value != default:
                found[each.name] = plain(value)
        return found


@dataclass(frozen=True)
class Details(Typed):
    """Details that results of several benchmarks store under the same names.

    Attributes:
        chance: value of guessing.
        correct, image_scores: packed outcomes per test image (`unseen.results.grid`).
        best, chosen: the selected hyper-parameters.
        per_class, per_label: accuracy or average precision by class or label; None without test images.
        labels: number of labels of images with several.
        audit: the sentence of the leak audit.
    """

    classes: int | None = None
    train_images: int | None = None
    test_images: int | None = None
    chance: float | None = None
    correct: str = ""
    image_scores: str = ""
    best: dict[str, Any] = field(default_factory=dict)
    chosen: dict[str, Any] = field(default_factory=dict)
    per_class: dict[str, float | None] = field(default_factory=dict)
    per_label: dict[str, float | None] = field(default_factory=dict)
    labels: int | None = None
    audit: str = ""
