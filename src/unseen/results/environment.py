"""Where a result was computed: versions and machine, without importing what is asked about."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

# What can move a number, in the order a reader looks for it.
PACKAGES = ("unseen", "torch", "torchvision", "timm", "onnxruntime", "numpy", "scipy", "scikit-learn", "pillow")


def capture_environment() -> dict[str, str]:
    """Versions of Python and of the packages that can move a number, the platform, the CPU and its cores.

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
    found["platform"] = f"{platform.system()} {platform.release()} {platform.machine()}"
    found["cpu"] = _cpu_model()
    found["cpus"] = str(_usable_cpus())
    return tuple(found.items())


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
