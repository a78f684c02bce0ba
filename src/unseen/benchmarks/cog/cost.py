"""What a run of ImageNet-CoG costs in images, disk, memory and time, worked out before anything is paid for.

Model:      images     the train and test images of every set, each through every model once
            disk       images x (dim x bytes per number + 16), the 16 being label and index; and about 1 KiB per part
            memory     working copies x 4 bytes x dim x training images of the largest set while a probe runs; where
                       that is more than the probes' limit, rows are read from the disk again at every pass and the
                       limit is what they take
            extraction images / measured images per second
            probes     per set, seed and number of shots: a + b x rows x dim x classes, fitted to measured probes
Limits:     a probe's time also depends on how hard the classes are to tell apart and, where rows are streamed, on the
            disk, which is not in the model. On one core, predicting a probe from ones of a half to a quarter of its
            work missed by -27 % (`fast`) and +62 % (`paper`): take hours of probes as good to a factor of two at best
Expected:   the whole of ImageNet-CoG: 6,810,655 training images (1,281,167 seen, 5,529,488 unseen) and 300,000 test
            images; 2,048 float32 numbers of each are 58 GB
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from math import ceil
from typing import Any, Literal

from unseen.core.errors import UsageError

Shots = int | Literal["all"]

#: Section 3.4 of the paper: all images, and 1, 2, 4 ... 128 of each concept.
PAPER_SHOTS: tuple[Shots, ...] = ("all", 1, 2, 4, 8, 16, 32, 64, 128)
PAPER_SEEDS = 5

_BYTES = {"float32": 4, "float16": 2}
_ROW = 16  # int64 label and int64 index beside each row of features
_PART = 1024  # header of a part file and its entry in the manifest
_GB = 1e9


@dataclass(frozen=True)
class ImageSet:
    """How large one set of images is: the seen concepts, or a level."""

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
    """A model, the length of its features, and how fast it goes on this machine, decoding included."""

    model: str
    dim: int
    images_per_second: float

    def __post_init__(self) -> None:
        if self.dim < 1 or not self.images_per_second > 0:
            raise UsageError(
                f"{self.model}: {self.dim} dimensions at {self.images_per_second} images/s; both must be above 0."
            )


@dataclass(frozen=True)
class ProbeTiming:
    """A probe that was measured: one seed, tuning and final fit together, on `rows` training images."""

    rows: int
    dim: int
    classes: int
    seconds: float

    @property
    def work(self) -> float:
        """Multiply-adds of one pass over the rows, in billions."""
        return self.rows * self.dim * self.classes / 1e9


@dataclass(frozen=True)
class ProbeCost:
    """Seconds of a probe: `fixed` + `per_billion` x billions of multiply-adds in one pass over its rows."""

    fixed: float
    per_billion: float

    def seconds(self, rows: int, dim: int, classes: int) -> float:
        return self.fixed + self.per_billion * rows * dim * classes / 1e9


def fit_probe_cost(timings: Sequence[ProbeTiming]) -> ProbeCost:
    """The cost model that comes nearest to what was measured, by the sum of squared relative errors.

    One measurement gives a cost in proportion to the work; several also give the fixed part. Neither is negative.
    """
    if not timings or any(each.seconds <= 0 or each.work <= 0 for each in timings):
        raise UsageError("the cost of probes is fitted to at least one measurement, of a probe that took some time.")
    if len({each.work for each in timings}) == 1:
        return ProbeCost(0.0, sum(each.seconds for each in timings) / sum(each.work for each in timings))
    import numpy as np
    from scipy.optimize import nnls

    seconds = np.asarray([each.seconds for each in timings])
    terms = np.stack([np.ones(len(timings)), np.asarray([each.work for each in timings])], axis=1)
    fixed, per_billion = nnls(terms / seconds[:, None], np.ones(len(timings)))[0]
    return ProbeCost(float(fixed), float(per_billion))


@dataclass(frozen=True)
class ModelCost:
    """What one model costs over all sets.

    Attributes:
        disk_gb: of its features.
        memory_gb: that the largest probe takes if its rows are held in memory.
        streams: whether they are not, because that is more than the limit.
        probe_hours: None where no probe was measured.
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
class CogPlan:
    """What a whole run costs."""

    sets: tuple[ImageSet, ...]
    models: tuple[ModelCost, ...]
    dtype: str
    shots: tuple[Shots, ...]
    seeds: int
    memory_limit_gb: float

    @property
    def images(self) -> int:
        """In one pass, for one model."""
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
        """That the largest probe really takes, with rows streamed where they are too many."""
        return max(
            (min(each.memory_gb, self.memory_limit_gb) if each.streams else each.memory_gb for each in self.models),
            default=0.0,
        )

    def to_dict(self) -> dict[str, Any]:
        totals = {
            "images": self.images,
            "disk_gb": self.disk_gb,
            "memory_gb": self.memory_gb,
            "extraction_hours": self.extraction_hours,
            "probe_hours": self.probe_hours,
        }
        return {**asdict(self), "totals": totals}

    def lines(self) -> list[str]:
        """The plan in words, a line for each thing that costs."""
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
    probe: ProbeCost | None = None,
    shots: Sequence[Shots] = PAPER_SHOTS,
    seeds: int = PAPER_SEEDS,
    dtype: str = "float32",
    part_size: int = 1024,
    memory_limit: int | None = None,
) -> CogPlan:
    """What the models cost on the sets.

    Args:
        models: with their speed as measured here.
        probe: cost of probes, as fitted to measured ones; without it their hours stay unknown.
        memory_limit: bytes that probes may take before rows are streamed; by default the probes' own.
    """
    from unseen.probes.rows import MEMORY_LIMIT, WORKING_COPIES

    if dtype not in _BYTES:
        raise UsageError(f"features are stored as {' or '.join(_BYTES)}, not as {dtype!r}.")
    limit = MEMORY_LIMIT if memory_limit is None else memory_limit
    largest = max((each.train for each in sets), default=0)
    costs = []
    for each in models:
        memory = WORKING_COPIES * 4 * each.dim * largest
        images = sum(one.images for one in sets)
        costs.append(
            ModelCost(
                model=each.model,
                dim=each.dim,
                images=images,
                disk_gb=sum(_disk(n, each.dim, dtype, part_size) for one in sets for n in (one.train, one.test)) / _GB,
                memory_gb=memory / _GB,
                streams=memory > limit,
                extraction_hours=images / each.images_per_second / 3600,
                probe_hours=None if probe is None else _probe_hours(sets, each.dim, probe, shots, seeds),
            )
        )
    return CogPlan(tuple(sets), tuple(costs), dtype, tuple(shots), seeds, limit / _GB)


def plan_full_cog(models: Sequence[ModelSpeed], *, probe: ProbeCost | None = None, **options: Any) -> CogPlan:
    """What the models cost on the whole of ImageNet-CoG; options as those of `plan_cost`."""
    return plan_cost(FULL_COG, models, probe=probe, **options)


def in_words(hours: float | None) -> str:
    """Hours as a person would say them."""
    if hours is None:
        return "not known: no probe was measured"
    if hours < 1 / 60:
        return f"{hours * 3600:.1f} seconds"
    if hours < 1:
        return f"{hours * 60:.1f} minutes"
    return f"{hours:.1f} hours" if hours < 48 else f"{hours:,.0f} hours ({hours / 24:,.1f} days)"


def _disk(images: int, dim: int, dtype: str, part_size: int) -> int:
    return images * (dim * _BYTES[dtype] + _ROW) + ceil(images / part_size) * _PART


def _probe_hours(sets: Sequence[ImageSet], dim: int, probe: ProbeCost, shots: Sequence[Shots], seeds: int) -> float:
    seconds = 0.0
    for each in sets:
        for number in shots:
            rows = each.train if number == "all" else min(number * each.classes, each.train)
            seconds += seeds * probe.seconds(rows, dim, each.classes)
    return seconds / 3600
