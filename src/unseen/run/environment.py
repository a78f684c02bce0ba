"""Record where a result is computed: versions and machine, without importing the packages."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from contextlib import suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from unseen.core.extras import cores

#: Packages that can change a number.
PACKAGES = ("unseen", "torch", "torchvision", "timm", "onnxruntime", "numpy", "scipy", "scikit-learn", "pillow")


def capture_environment() -> dict[str, str]:
    """Return the versions of Python and of packages that can change a number, the platform, the CPU and its cores.

    In a source checkout the version of this package contains the commit: "0.1.0+1a2b3c4d5e6f-dirty".
    Nothing identifies a person or a machine. Packages that are not installed are missing.
    """
    return dict(_captured())


def installed_versions() -> dict[str, str]:
    """Return the versions of the installed packages that can change a number."""
    found = {}
    for package in PACKAGES:
        with suppress(PackageNotFoundError):
            found[package] = version(package)
    return found


@cache
def _captured() -> tuple[tuple[str, str], ...]:
    found = {"python": platform.python_version(), **installed_versions()}
    commit = _commit(Path(__file__).resolve().parents[3])
    if commit and "unseen" in found:
        found["unseen"] += f"+{commit}"
    found["platform"] = f"{platform.system()} {platform.release()} {platform.machine()}"
    found["cpu"] = _cpu_model()
    found["cpus"] = str(cores())
    return tuple(found.items())


def _commit(root: Path) -> str:
    """Return the commit of a source checkout, with "-dirty" if files differ from it; "" for an installed package."""
    # A folder named .git further up may belong to another project: a checkout of this one has its sources in src.
    if not (root / ".git").exists() or not (root / "src" / "unseen").is_dir():
        return ""
    command = ["git", "-C", str(root), "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]
    plain = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}  # set by hooks
    try:
        ran = subprocess.run(command, capture_output=True, text=True, check=True, timeout=10, env=plain)  # noqa: S603
        return ran.stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return ""


def _cpu_model() -> str:
    table = Path("/proc/cpuinfo")
    if table.is_file():
        for line in table.read_text(errors="replace").splitlines():
            key, _, value = line.partition(":")
            if key.strip() in ("model name", "Model") and value.strip():
                return value.strip()
    if sys.platform == "darwin":
        brand = subprocess.run(
            ["/usr/sbin/sysctl", "-n", "machdep.cpu.brand_string"], capture_output=True, text=True, check=False
        )
        if brand.stdout.strip():
            return brand.stdout.strip()
    return platform.processor() or platform.machine() or "unknown"
