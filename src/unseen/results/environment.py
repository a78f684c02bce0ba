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
