"""Where a result was computed: versions and machine, without importing what is asked about; and how fast it is.

Each run leaves in its home how fast models and benchmarks were (`speeds.json`); a plan says from them what it takes.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from unseen.core.errors import UnseenError
from unseen.core.files import write_whole

# What can move a number, in the order a reader looks for it.
PACKAGES = ("unseen", "torch", "torchvision", "timm", "onnxruntime", "numpy", "scipy", "scikit-learn", "pillow")


def capture_environment() -> dict[str, str]:
    """Versions of Python and of the packages that can move a number, the platform, the CPU and its cores.

    The version of this package has the commit where it runs from a checkout: "0.1.0+1a2b3c4d5e6f-dirty".
    Nothing that names a person or a machine is kept. A package that is not installed is left out.
    """
    return dict(_captured())


@cache
def _captured() -> tuple[tuple[str, str], ...]:
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    commit = _commit(Path(__file__).resolve().parents[3])
    if commit and "unseen" in found:
        found["unseen"] += f"+{commit}"
    found["platform"] = f"{platform.system()} {platform.release()} {platform.machine()}"
    found["cpu"] = _cpu_model()
    found["cpus"] = str(_usable_cpus())
    return tuple(found.items())


def _commit(root: Path) -> str:
    """The commit of a source checkout, "-dirty" where files differ from it; nothing where the package is installed."""
    # A folder named .git further up may be somebody else's: this package's own checkout has its sources under src.
    if not (root / ".git").exists() or not (root / "src" / "unseen").is_dir():
        return ""
    ask = ["git", "-C", str(root), "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]
    plain = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}  # as hooks set them
    try:
        ran = subprocess.run(ask, capture_output=True, text=True, check=True, timeout=10, env=plain)  # noqa: S603
        return ran.stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return ""


def _usable_cpus() -> int:
    """Cores this process may use, which is fewer than the machine has in many containers and batch jobs."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _cpu_model() -> str:
    table = Path("/proc/cpuinfo")
    if table.is_file():
        for line in table.read_text(errors="replace").splitlines():
            key, _, value = line.partition(":")
            if key.strip() in ("model name", "Model") and value.strip():
                return value.strip()
    if sys.platform == "darwin":
        asked = subprocess.run(
            ["/usr/sbin/sysctl", "-n", "machdep.cpu.brand_string"], capture_output=True, text=True, check=False
        )
        if asked.stdout.strip():
            return asked.stdout.strip()
    return platform.processor() or platform.machine() or "unknown"


# ---- how fast it has been --------------------------------------------------------------------------------------------

SPEEDS = "speeds.json"
#: A model's rows and the forward pass of an image, where nobody knows better: a ResNet-50's.
_DIMENSIONS, _GFLOP = 2048, 8.2
#: Seconds of a cell of which nothing is known, and what of its peak a machine reaches in a forward pass.
_CELL_SECONDS, _SHARE = 1.0, 0.25
_BASE_MEMORY = 600_000_000


@dataclass(frozen=True)
class Stage:
    """What a stage of a run takes, or took.

    Attributes:
        work: how many of what, such as "1,024 images".
        disk, memory: bytes.
        known: whether speeds of earlier runs in this home say so; otherwise it is a guess from the machine's own.
    """

    name: str
    work: str
    seconds: float
    disk: int = 0
    memory: int = 0
    known: bool = True


class Speeds:
    """Images per second by model and seconds per cell by benchmark, as runs in a home have measured them.

    A machine of which nothing is known multiplies two matrices, once, and remembers.
    """

    def __init__(self, home: Path) -> None:
        self.path = home / SPEEDS
        try:
            values = json.loads(self.path.read_text(encoding="utf-8"))
            self.models = {str(k): (float(v[0]), int(v[1])) for k, v in values["models"].items()}
            self.cells = {str(k): float(v) for k, v in values["cells"].items()}
            self.gflops = float(values["gflops"])
        except (OSError, ValueError, KeyError, TypeError, IndexError, AttributeError):
            self.models, self.cells, self.gflops = {}, {}, 0.0

    def extraction(self, model: str) -> tuple[float, int, bool]:
        """Images per second of a model, the length of its rows, and whether that is known."""
        if model in self.models:
            return (*self.models[model], True)
        if not self.gflops:
            self.gflops = _multiply()
        return max(self.gflops * _SHARE / _GFLOP, 0.1), _DIMENSIONS, False

    def cell(self, benchmark: str, dataset: str) -> tuple[float, bool]:
        """Seconds of a cell, and whether that is known of this benchmark on this dataset."""
        if (found := self.cells.get(f"{benchmark} {dataset}")) is not None:
            return found, True
        others = [seconds for name, seconds in self.cells.items() if name.partition(" ")[0] == benchmark]
        return (sorted(others)[len(others) // 2] if others else _CELL_SECONDS), False

    def learn_model(self, model: str, images: int, seconds: float, dimensions: int) -> None:
        if images and seconds > 0:
            self.models[model] = images / seconds, dimensions

    def learn_cells(self, benchmark: str, dataset: str, seconds: Sequence[float]) -> None:
        if seconds:
            self.cells[f"{benchmark} {dataset}"] = sum(seconds) / len(seconds)

    def save(self) -> None:
        """Keep what was learnt; a home that cannot be written goes without."""
        values = {"models": self.models, "cells": self.cells, "gflops": self.gflops}
        with suppress(UnseenError):
            write_whole(self.path, json.dumps(values, indent=1, sort_keys=True), flush=False)


def expect_features(speeds: Speeds, wanted: Mapping[str, int], bytes_each: int, workers: int) -> Stage:
    """The stage of extraction: images to go through each model."""
    images, seconds, disk, known = sum(wanted.values()), 0.0, 0, True
    for model, count in wanted.items():
        rate, dimensions, measured = speeds.extraction(model)
        seconds += count / rate
        disk += count * (dimensions * bytes_each + 16)
        known = known and measured
    return Stage("features", f"{images:,} images", seconds / workers, disk, _BASE_MEMORY * workers, known)


def expect_cells(speeds: Speeds, cells: Sequence[tuple[str, str]], rows: Mapping[str, int], workers: int) -> Stage:
    """The stage of cells, each a benchmark and a dataset; `rows` has the features of each dataset, in bytes."""
    found = [speeds.cell(*cell) for cell in cells]
    largest = max((rows.get(dataset, 0) for _, dataset in cells), default=0)
    return Stage(
        "cells",
        f"{len(cells):,} cells",
        sum(seconds for seconds, _ in found) / workers,
        4_000 * len(cells),
        (_BASE_MEMORY + 2 * largest) * workers,
        all(known for _, known in found),
    )


def _multiply(size: int = 512) -> float:
    """GFLOP per second of a product of two matrices here."""
    import numpy as np

    one = np.ones((size, size), np.float32)
    one @ one
    began = time.process_time()
    for _ in range(4):
        one @ one
    return 4 * 2 * size**3 / max(time.process_time() - began, 1e-3) / 1e9
