"""Measure the installations behind `make demo` and `make test`: seconds, packages and megabytes.

    python -m tools.install_sizes

Runs both targets' installation steps, one after the other, on a copy of the working tree in a temporary folder.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]


def copy_working_tree(target: Path) -> None:
    """Copy the files of the working tree that git does not ignore."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target / name)


def measure(folder: Path) -> tuple[int, float]:
    """Return the number of packages of an environment, and its size on disk in megabytes."""
    command = [folder / "bin" / "python", "-m", "pip", "list", "--format", "json"]
    packages = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    return len(packages), size / 1e6


def main() -> None:
    """Print one row per installation."""
    with tempfile.TemporaryDirectory() as name:
        clone = Path(name)
        copy_working_tree(clone)
        print(f"{'installed by':<14}{'seconds':>9}{'packages':>10}{'MB':>8}")
        for target, stamp in (("make demo", ".venv/.installed-demo"), ("make test", ".venv/.installed")):
            start = time.monotonic()
            subprocess.run(["make", f"PYTHON={sys.executable}", stamp], cwd=clone, check=True, capture_output=True)
            packages, size = measure(clone / ".venv")
            print(f"{target:<14}{time.monotonic() - start:>9.0f}{packages:>10}{size:>8,.0f}", flush=True)


if __name__ == "__main__":
    main()
