"""Cost of ImageNet-CoG before a run: images, disk, memory and hours, here and on other machines.

Model:      images     the train and test images of every set, each through every model once
            disk       images x (dim x bytes per number + 16 for label and index), and about 1 KiB per part
            memory     working copies x 4 bytes x dim x training images of the largest set while a probe runs; above
                       the limit of the probes, rows are read from the disk at every pass and the limit is used
            extraction images / measured images per second
            probes     rows x dim x classes multiply-adds per pass; the measured seconds per billion of them, for every
                       set, seed and number of shots
            machines   hours measured here x GFLOP/s here / GFLOP/s there: every machine reaches the same share of its
                       peak, and cells are independent
Limits:     the time of a probe also depends on how similar the classes are and on the disk: expect hours of probes
            within a factor of two, and hours on other machines within a factor of three
Expected:   all of ImageNet-CoG: 6,810,655 training images (1,281,167 seen, 5,529,488 unseen) and 300,000 test images;
            2,048 float32 numbers of each take 58 GB
"""

from __future__ import annotations

import io
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cache
from math import ceil
from typing import Any, Literal

import numpy as np
from PIL import Image

from unseen.core.errors import UsageError
from unseen.data import Split
from unseen.data.decode import open_image

Shots = int | Literal["all"]

#: Section 3.4 of the paper: all images, and 1, 2, 4 ... 128 of each concept.
PAPER_SHOTS: tuple[Shots, ...] = ("all", 1, 2, 4, 8, 16, 32, 64, 128)
PAPER_SEEDS = 5
#: Stated float32 peak of an A100, without tensor cores.
GPU_GFLOPS = 19_500.0

_BYTES = {"float32": 4, "float16": 2}
_ROW = 16  # int64 label and int64 index beside each row of features
_PART = 1024  # images per part file, and bytes of its header
_GB = 1e9
#: Mean size of an image of ImageNet, in pixels; about 110 kB.
_WIDTH, _HEIGHT = 500, 375


@dataclass(frozen=True)
class ImageSet:
    """Size of one set of images: the seen concepts, or a level."""

    name: str
    classes: int
    train: int
    test: int

    @property
    def images(self) -> int:
        return self.train + self.test


#: ILSVRC-2012, and our levels with the images per synset of the Fall 2011 release (at most 1,300 + 50 of each).
FULL_COG = (
    ImageSet("in1k", 1000, 1_281_167, 50_000),
    ImageSet("l1", 1000, 1_119_170, 50_000),
    ImageSet("l2", 1000, 1_116_139, 50_000),
    ImageSet("l3", 1000, 1_095_909, 50_000),
    ImageSet("l4", 1000, 1_106_608, 50_000),
    ImageSet("l5", 1000, 1_091_662, 50_000),
)


@dataclass(frozen=True)
class ModelSpeed:
    """A model, the length of its features, and its images per second on this machine, decoding included."""

    model: str
    dim: int
    images_per_second: float

    def __post_init__(self) -> None:
        if self.dim < 1 or not self.images_per_second > 0:
            raise UsageError(
                f"{self.model}: {self.dim} dimensions at {self.images_per_second} images/s; both must be above 0."
            )


@dataclass(frozen=True)
class ModelCost:
    """Cost of one model over all sets.

    Attributes:
        disk_gb: size of its features.
        memory_gb: memory of the largest probe if its rows are in memory.
        streams: whether they are read from the disk instead, because that is more than the limit.
        probe_hours: None if no probe was measured.
    """

    model: str
    dim: int
    images: int
    disk_gb: float
    memory_gb: float
    streams: bool
    extraction_hours: float
    probe_hours: float | None


@dataclass(frozen=True)
class MachineCost:
    """Hours of a plan on a machine with some devices.

    Attributes:
        gflops: float32 GFLOP/s of each device.
        images_per_second: images to decode while features are extracted.
        device_gb: rows of the largest set in float32, if a device keeps them; half in float16.
    """

    name: str
    gflops: float
    devices: int
    extraction_hours: float
    probe_hours: float | None
    images_per_second: float
    device_gb: float

    def line(self) -> str:
        """Return the cost as one line of text."""
        extraction = f"extraction {in_words(self.extraction_hours)}, {self.images_per_second:,.0f} images/s to decode"
        return f"{self.name}: {extraction}; probes {in_words(self.probe_hours)}, {self.device_gb:,.1f} GB of rows"


@dataclass(frozen=True)
class CogPlan:
    """Cost of a whole run."""

    sets: tuple[ImageSet, ...]
    models: tuple[ModelCost, ...]
    dtype: str
    shots: tuple[Shots, ...]
    seeds: int
    memory_limit_gb: float

    @property
    def images(self) -> int:
        """Images of one pass, for one model."""
        return sum(each.images for each in self.sets)

    @property
    def disk_gb(self) -> float:
        return sum(each.disk_gb for each in self.models)

    @property
    def extraction_hours(self) -> float:
        return sum(each.extraction_hours for each in self.models)

    @property
    def probe_hours(self) -> float | None:
        known = [each.probe_hours for each in self.models if each.probe_hours is not None]
        return sum(known) if len(known) == len(self.models) else None

    @property
    def memory_gb(self) -> float:
        """Memory of the largest probe; the limit if its rows are read from the disk."""
        used = (min(each.memory_gb, self.memory_limit_gb) if each.streams else each.memory_gb for each in self.models)
        return max(used, default=0.0)

    def on_machine(self, name: str, here: float, gflops: float, devices: int = 1) -> MachineCost:
        """Return the cost on a machine of `devices` devices; `here` and `gflops` are GFLOP/s of this one and of each.

        Raises:
            UsageError: no device, or no speed.
        """
        if not gflops > 0 or devices < 1:
            raise UsageError(f"{name}: {gflops} GFLOP/s on {devices} devices; both must be above 0.")
        share = here / (gflops * devices)
        hours = self.extraction_hours * share
        rows = max((each.train for each in self.sets), default=0) * max((each.dim for each in self.models), default=0)
        return MachineCost(
            name,
            gflops,
            devices,
            hours,
            None if self.probe_hours is None else self.probe_hours * share,
            self.images * len(self.models) / (hours * 3600) if hours else 0.0,
            rows * 4 / _GB,
        )

    def on_usual_machines(self, here: float, cpu: float, gpu: float = GPU_GFLOPS) -> list[MachineCost]:
        """Return the cost on a CPU, one GPU and eight of them, by their GFLOP/s."""
        return [
            self.on_machine(f"one CPU ({cpu:,.0f} GFLOP/s)", here, cpu),
            self.on_machine(f"one GPU ({gpu:,.0f} GFLOP/s)", here, gpu),
            self.on_machine(f"eight GPUs ({gpu:,.0f} GFLOP/s each)", here, gpu, 8),
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return the plan and its totals as plain values."""
        names = ("images", "disk_gb", "memory_gb", "extraction_hours", "probe_hours")
        return {**asdict(self), "totals": {name: getattr(self, name) for name in names}}

    def lines(self) -> list[str]:
        """Return the plan as text, one line per resource."""
        train, test = sum(each.train for each in self.sets), sum(each.test for each in self.sets)
        probes = len(self.sets) * len(self.shots) * self.seeds * len(self.models)
        streamed = sum(each.streams for each in self.models)
        return [
            f"images      {self.images:,} per model ({train:,} train, {test:,} test, {len(self.sets)} sets)",
            f"disk        {self.disk_gb:,.1f} GB of {self.dtype} features for {len(self.models)} models",
            f"memory      {self.memory_gb:,.1f} GB while a probe runs"
            + (f"; rows of {streamed} models are read from the disk at every pass" if streamed else ""),
            f"extraction  {in_words(self.extraction_hours)}",
            f"probes      {in_words(self.probe_hours)} for {probes:,} ({self.seeds} seeds x {len(self.shots)} shots)",
        ]


def plan_cost(
    sets: Sequence[ImageSet],
    models: Sequence[ModelSpeed],
    *,
    probe: float | None = None,
    shots: Sequence[Shots] = PAPER_SHOTS,
    seeds: int = PAPER_SEEDS,
    dtype: str = "float32",
    memory_limit: int | None = None,
) -> CogPlan:
    """Return the cost of some models on some sets.

    Args:
        models: with their speed measured on this machine.
        probe: seconds of a probe per billion multiply-adds of one pass (`time_probe`); if None, hours stay unknown.
        memory_limit: bytes that probes may use before rows are read from the disk; by default the limit of the probes.
    """
    from unseen.probes.rows import MEMORY_LIMIT, WORKING_COPIES

    if dtype not in _BYTES:
        raise UsageError(f"features are stored as {' or '.join(_BYTES)}, not as {dtype!r}.")
    limit = MEMORY_LIMIT if memory_limit is None else memory_limit
    images = sum(one.images for one in sets)
    largest = max((one.train for one in sets), default=0)
    parts = sum(ceil(count / _PART) for one in sets for count in (one.train, one.test))
    # rows x classes of all probes of one model
    work = seeds * sum(_rows(one, number) * one.classes for one in sets for number in shots)
    costs = []
    for each in models:
        memory = WORKING_COPIES * 4 * each.dim * largest
        costs.append(
            ModelCost(
                model=each.model,
                dim=each.dim,
                images=images,
                disk_gb=(images * (each.dim * _BYTES[dtype] + _ROW) + parts * _PART) / _GB,
                memory_gb=memory / _GB,
                streams=memory > limit,
                extraction_hours=images / each.images_per_second / 3600,
                probe_hours=None if probe is None else probe * work * each.dim / 1e9 / 3600,
            )
        )
    return CogPlan(tuple(sets), tuple(costs), dtype, tuple(shots), seeds, limit / _GB)


def _rows(images: ImageSet, shots: Shots) -> int:
    return images.train if shots == "all" else min(shots * images.classes, images.train)


def in_words(hours: float | None) -> str:
    """Return a duration in seconds, minutes, hours or days."""
    if hours is None:
        return "not known: no probe was measured"
    if hours < 1 / 60:
        return f"{hours * 3600:.1f} seconds"
    if hours < 1:
        return f"{hours * 60:.1f} minutes"
    return f"{hours:.1f} hours" if hours < 48 else f"{hours:,.0f} hours ({hours / 24:,.1f} days)"


@cache
def imagenet_like(count: int = 32) -> Split:
    """Make JPEG images of ImageNet's usual size in memory: smooth shapes with noise, as costly to decode."""
    encoded = []
    for number in range(count):
        rng = np.random.default_rng(number)
        coarse = Image.fromarray(rng.integers(0, 256, (12, 16, 3), np.uint8)).resize(
            (_WIDTH, _HEIGHT), Image.Resampling.BICUBIC
        )
        grain = rng.normal(0, 12, (_HEIGHT, _WIDTH, 1))
        picture = Image.fromarray(np.clip(np.asarray(coarse) + grain, 0, 255).astype(np.uint8))
        buffer = io.BytesIO()
        picture.save(buffer, "JPEG", quality=92)
        encoded.append(buffer.getvalue())
    return Split(
        names=[f"sample{i}" for i in range(count)],
        labels=np.zeros(count, np.int64),
        open=lambda i: open_image(encoded[i]),
        fingerprint="samples",
    )


def time_probe(rows: int = 4000, dim: int = 512, classes: int = 50) -> float:
    """Measure the default probe on random features; return seconds per billion multiply-adds of one pass."""
    from unseen.probes import evaluate_probe

    rng = np.random.default_rng(rows)
    centres = rng.normal(size=(classes, dim)).astype(np.float32)
    labels = rng.integers(classes, size=rows)
    features = (centres[labels] * 0.3 + rng.normal(size=(rows, dim))).astype(np.float32)
    began = time.perf_counter()
    evaluate_probe(features, labels, features[:50], labels[:50], solver="logistic", seeds=(22,))
    return (time.perf_counter() - began) / (rows * dim * classes / 1e9)


def peak_gflops(size: int = 1024, times: int = 8) -> float:
    """Measure the best of several float32 matrix products, with the threads of the probes."""
    import torch

    left, right = torch.randn(size, size), torch.randn(size, size)
    best = float("inf")
    for _ in range(times):
        began = time.perf_counter()
        left @ right
        best = min(best, time.perf_counter() - began)
    return 2 * size**3 / best / 1e9
