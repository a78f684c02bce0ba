"""What a planned run takes on other machines: this one, one GPU, eight.

Model:      hours of a stage = hours measured here x GFLOP/s here / (GFLOP/s of the machine x its devices). So a machine
            is taken to reach the share of its peak that this one reaches of its own, and cells, which are independent,
            to be spread evenly
Limits:     a stated peak is not a measured one, and images must be decoded as fast as a device takes them, on its
            cores: the images per second that it asks for are said. Take hours as good to a factor of two or three
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from unseen.benchmarks.cog.cost import CogPlan, in_words
from unseen.core.errors import UsageError

#: Stated float32 peak of an A100, without tensor cores.
GPU_GFLOPS = 19_500.0


@dataclass(frozen=True)
class Machine:
    """Devices and the float32 GFLOP/s of each."""

    name: str
    gflops: float
    devices: int = 1

    def __post_init__(self) -> None:
        if not self.gflops > 0 or self.devices < 1:
            raise UsageError(f"{self.name}: {self.gflops} GFLOP/s on {self.devices} devices; both must be above 0.")

    @property
    def total(self) -> float:
        return self.gflops * self.devices


@dataclass(frozen=True)
class Price:
    """A plan on a machine: hours per stage, and what it must bear.

    Attributes:
        images_per_second: to be decoded while features are extracted.
        device_gb: rows of the largest set in float32, where a device holds them; half in float16.
    """

    machine: Machine
    extraction_hours: float
    probe_hours: float | None
    images_per_second: float
    device_gb: float

    def to_dict(self) -> dict[str, Any]:
        return {
            "name": self.machine.name,
            "gflops": self.machine.gflops,
            "devices": self.machine.devices,
            "extraction_hours": self.extraction_hours,
            "probe_hours": self.probe_hours,
            "images_per_second": self.images_per_second,
            "device_gb": self.device_gb,
        }

    def line(self) -> str:
        extraction = f"extraction {in_words(self.extraction_hours)}, {self.images_per_second:,.0f} images/s to decode"
        return (
            f"{self.machine.name}: {extraction}; probes {in_words(self.probe_hours)}, {self.device_gb:,.1f} GB of rows"
        )


def usual_machines(cpu: float, gpu: float = GPU_GFLOPS) -> tuple[Machine, ...]:
    """A CPU, one GPU and eight of them, by their GFLOP/s."""
    return (
        Machine(f"one CPU ({cpu:,.0f} GFLOP/s)", cpu),
        Machine(f"one GPU ({gpu:,.0f} GFLOP/s)", gpu),
        Machine(f"eight GPUs ({gpu:,.0f} GFLOP/s each)", gpu, 8),
    )


def price(plan: CogPlan, here: float, machines: Sequence[Machine]) -> list[Price]:
    """The plan on each machine.

    Args:
        plan: with hours as measured here.
        here: GFLOP/s of this machine.
    """
    largest = max((each.train for each in plan.sets), default=0)
    widest = max((each.dim for each in plan.models), default=0)
    found = []
    for machine in machines:
        share = here / machine.total
        hours = plan.extraction_hours * share
        images = plan.images * len(plan.models) / (hours * 3600) if hours else 0.0
        probes = None if plan.probe_hours is None else plan.probe_hours * share
        found.append(Price(machine, hours, probes, images, largest * widest * 4 / 1e9))
    return found
