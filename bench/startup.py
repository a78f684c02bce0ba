"""CPU time of commands that compute nothing, beside `import torch` in the same run.

    python bench/startup.py [--repeats 3]

Each command runs in its own interpreter on a home that already holds the answer, with compiled modules, as after
`pip install`. The least CPU time (user + system) of the repeats counts. The exit code is 1 if a command misses its
target. The targets hold for a processor that imports torch in 1.4 CPU s.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from PIL import Image

from tables import Table

MODEL = "packaged:efficientnet-lite0"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=3)
    repeats = parser.parse_args().repeats
    with tempfile.TemporaryDirectory() as folder:
        os.environ["UNSEEN_HOME"] = str(Path(folder) / "home")
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        os.environ["PYTHONPYCACHEPREFIX"] = str(Path(folder) / "compiled")
        photos = write_photos(Path(folder) / "photos")
        probe = ["-m", "unseen", "probe", str(photos), "--models"]
        commands = (
            ("repeated finished `unseen probe`", [*probe, MODEL], 0, 0.7),
            ("misspelt model", [*probe, "timm:resnet5O"], 2, 0.7),
            ("`unseen ls models`", ["-m", "unseen", "ls", "models"], 0, 0.7),
            ("`unseen doctor`", ["-m", "unseen", "doctor"], 0, 0.7),
            (
                "`unseen leaderboard` of 5 results",
                ["-m", "unseen", "leaderboard", "--output", f"{folder}/board.html"],
                0,
                0.8,
            ),
            ("`import torch`", ["-c", "import torch"], 0, None),
        )
        table = Table("command", "CPU s", "target")
        missed = 0
        for name, command, code, target in commands:
            seconds = cpu_seconds(command, code, repeats)
            missed += target is not None and seconds > target
            table.add(name, f"{seconds:.2f}", "" if target is None else f"{target:.1f}")
    table.show()
    return int(missed > 0)


def write_photos(root: Path) -> Path:
    """Write 24 random images of four classes."""
    random = np.random.default_rng(0)
    for number in range(24):
        path = root / f"class{number % 4}" / f"{number}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(random.integers(0, 256, (96, 96, 3), dtype=np.uint8)).save(path)
    return root


def cpu_seconds(command: list[str], code: int, repeats: int) -> float:
    """Return the least CPU time of `repeats` runs after one that fills the caches."""
    times = []
    for _ in range(repeats + 1):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run([sys.executable, *command], capture_output=True, text=True, check=False)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        if done.returncode != code:
            raise SystemExit(f"{' '.join(command)} ended with exit code {done.returncode}: {done.stderr}")
        times.append(after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime)
    return min(times[1:])


if __name__ == "__main__":
    raise SystemExit(main())
