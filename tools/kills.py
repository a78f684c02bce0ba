"""Kill a study at random moments, resume it, and compare its files with those of an undisturbed run.

    python tools/kills.py                 200 times over five benchmarks on an untrained network
    python tools/kills.py --kills 20 --seed 3 --workers 2
    python tools/kills.py --together 2    two runs at a time in each home, killed independently
    python tools/kills.py --demo --together 2 --longest 8    over all cells of `unseen demo`, on fewer images

Each attempt is a process that runs the study in a home and is ended by `kill -9` after a random while, in any step of
the run; the next attempt resumes in the same home. A finished home is compared with that of an undisturbed run: the
store byte for byte, the database row by row except for times. Then the script starts with a new home.

A state is what a killed run has left: how many parts, loose parts, temporary files and complete entries there are, how
many results, and how many files wait in the inbox.
"""

from __future__ import annotations

import argparse
import math
import os
import random
import signal
import sqlite3
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from importlib.resources import files
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

STUDY = """
name = "kills"
models = ["random:test_resnet?size=32"]
datasets = [
  "packaged:grocery?per_class=2",
  "packaged:emoji?classes=14",
  "procedural:shapes-count?test=20&train=24&val=6",
]

[benchmarks.probe]
only = ["packaged:grocery?per_class=2", "packaged:emoji?classes=14"]
seeds = [22, 37]
solver = "logistic"

[benchmarks.vtab]
only = ["procedural:shapes-count?test=20&train=24&val=6"]
steps = [6]
batch_size = 8
preprocessing = "own"

[benchmarks.rank]
only = ["packaged:grocery?per_class=2"]
scores = ["logme", "knn"]

[benchmarks.cog]
only = ["packaged:emoji?classes=14"]
levels = 2
size = 3
seeds = [22]

[benchmarks.zsl]
only = ["packaged:emoji?classes=14"]
methods = ["ESZSL", "SAE"]
grid = "quick"
split = "SS"

[extraction]
part_size = 4
"""

#: What the demo has, and what stands for it with `--demo`: its 200 cells on 3,260 images instead of 14,836.
DEMO = {
    "limit=400": "limit=60",
    "classes=150": "classes=60",
    "test=200&train=240&val=60": "test=20&train=24&val=6",
    "steps = [250, 1000]": "steps = [4, 8]",
    "batch_size = 128": "batch_size = 8",
}

#: Everything of a row but when and how long.
_ROWS = """
SELECT study, cell, benchmark, version, model, dataset, parameters, revision, error, sweep, environment FROM result
"""
_METRICS = "SELECT cell, name, hex(value), value FROM metric JOIN result ON result.id = metric.result"

State = tuple[int, ...]


def demo() -> str:
    """Return the study of `unseen demo` on fewer images."""
    text = files("unseen.studies").joinpath("demo.toml").read_text(encoding="utf-8")
    for known, small in DEMO.items():
        assert known in text, f"the demo has no {known} any more"
        text = text.replace(known, small)
    return text + "\n[extraction]\npart_size = 16\n"


def attempt(study: Path, home: Path, workers: int) -> int:
    """Start a run in a process of its own and return its id; what this process has loaded it has too."""
    pid = os.fork()
    if pid:
        return pid
    code = 70
    try:
        code = finish(study, home, workers)
    finally:
        os._exit(code)


def finish(study: Path, home: Path, workers: int) -> int:
    """Run the study; how many cells have failed."""
    from unseen.engines import make_engine
    from unseen.study import Study, run_study

    with make_engine("local", workers=workers) as engine:
        return len(run_study(Study.read(study), home, engine, report=False, on_error="ignore").failed)


def all_ended(deadlines: dict[int, float]) -> dict[int, int | None]:
    """Wait for processes, each until its own time; return exit codes, None for those that are killed then."""
    codes: dict[int, int | None] = {}
    while len(codes) < len(deadlines):
        for pid in deadlines.keys() - codes.keys():
            found, status = os.waitpid(pid, os.WNOHANG)
            if found:
                codes[pid] = os.waitstatus_to_exitcode(status)
            elif time.monotonic() > deadlines[pid]:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
                codes[pid] = None
        time.sleep(0.002)
    return codes


def state(home: Path) -> State:
    """What a killed run has left."""
    names = Counter(
        kind
        for path in home.rglob("*")
        for kind, fits in (
            ("part", path.match("part-*.safetensors")),
            ("loose", path.match("part-*.json")),
            ("entry", path.name == "manifest.json"),
            ("complete", path.name == "provenance.json"),
            ("temporary", path.name.endswith(".tmp")),
            ("inbox", path.parent.name == "inbox"),
            ("graph", path.suffix == ".onnx"),
        )
        if fits
    )
    kinds = ("part", "loose", "entry", "complete", "temporary", "inbox", "graph")
    return (*(names[kind] for kind in kinds), rows(home))


def rows(home: Path) -> int:
    if not (home / "results.sqlite").is_file():
        return -1
    with suppress(sqlite3.Error), sqlite3.connect(home / "results.sqlite") as database:
        return int(database.execute("SELECT count(*) FROM result").fetchone()[0])
    return -2


def store(home: Path) -> dict[str, bytes]:
    """Every file of the feature store, but locks and how features were made."""
    root = home / "features"
    files = [path for path in root.rglob("*") if path.is_file() and ".locks" not in path.parts]
    return {str(path.relative_to(root)): path.read_bytes() for path in files if path.name != "provenance.json"}


def leases(home: Path) -> int:
    return len(list((home / "leases").glob("*")))


def database(home: Path) -> tuple[list[tuple[object, ...]], list[tuple[object, ...]], int]:
    """The newest results and their metrics, without times, in an order of their own; and the number of leases."""
    with sqlite3.connect(home / "results.sqlite") as opened:
        assert opened.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        return (
            sorted(opened.execute(_ROWS).fetchall()),
            sorted(opened.execute(_METRICS).fetchall(), key=repr),
            leases(home),
        )


def run(
    kills: int,
    seed: int,
    workers: int,
    folder: Path,
    minutes: float = math.inf,
    together: int = 1,
    text: str = STUDY,
    most: float | None = None,
) -> tuple[int, set[State], int, list[str]]:
    """Kill until it is enough, then finish: how often, the states, finished homes, and what differs.

    Args:
        text: the study.
        most: seconds after which a process is killed at the latest; by default nearly half of a whole run for each.
    """
    study = folder / "study.toml"
    study.write_text(text)
    # Here, so that what it loads is there for all attempts; its threads are gone when it is done.
    assert finish(study, folder / "whole", 1) == 0, "the undisturbed run has failed cells"
    began = time.monotonic()
    if most is None:
        all_ended({attempt(study, folder / "measured", workers): began + 3600})
        most = 0.45 * together * (time.monotonic() - began)
    expected = store(folder / "whole"), database(folder / "whole")
    rng, states, killed, homes, differences = random.Random(seed), set[State](), 0, 0, list[str]()
    home = folder / "home-0"
    while True:
        enough = killed >= kills or time.monotonic() - began > 60 * minutes
        longest = [3600 if enough else rng.uniform(0.0, most) for _ in range(together)]
        codes = all_ended({attempt(study, home, workers): time.monotonic() + seconds for seconds in longest})
        if cut := sum(code is None for code in codes.values()):
            killed += cut
            states.add(state(home))
            print(f"\r{killed} kills, {len(states)} states, {homes} homes", end="", file=sys.stderr, flush=True)
        if any(codes.values()):  # a run that was not killed has failed cells
            differences.append(f"{home.name}: ended with {sorted(map(str, codes.values()))}")
        if cut:
            continue
        if store(home) != expected[0]:
            differences.append(f"{home.name}: the store differs")
        if database(home) != expected[1]:
            differences.append(f"{home.name}: the database differs")
        homes += 1
        if enough:
            return killed, states, homes, differences
        home = folder / f"home-{homes}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--together", type=int, default=1, help="runs at the same time in each home")
    parser.add_argument("--demo", action="store_true", help="the study of `unseen demo`, on fewer images")
    parser.add_argument("--longest", type=float, help="kill after so many seconds at the latest")
    parser.add_argument("--minutes", type=float, default=math.inf, help="kill no more after so long")
    given = parser.parse_args()
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        killed, states, homes, differences = run(
            given.kills,
            given.seed,
            given.workers,
            Path(folder),
            given.minutes,
            given.together,
            demo() if given.demo else STUDY,
            given.longest,
        )
    seconds, used = time.monotonic() - began, os.times()
    print(f"{killed} kills, {len(states)} distinct states, {homes} homes finished in {seconds:.0f} s")
    for line in differences or ["store identical, database identical but for times"]:
        print(line)
    cpu = used.user + used.system + used.children_user + used.children_system
    print("\n| study | runs at a time | kills | distinct states | homes | differences | wall s | CPU s |")
    print("|---|---|---|---|---|---|---|---|")
    study = "demo, fewer images" if given.demo else "five benchmarks"
    counts = (given.together, killed, len(states), homes, len(differences), round(seconds), round(cpu))
    print(f"| {study} | {' | '.join(map(str, counts))} |")
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())
