"""Measure how many injected faults (mutants) of a package its own tests find.

    make mutants ROOM=metrics                  150 mutants of src/unseen/metrics
    python -m tools.mutants core results       two rooms
    python -m tools.mutants --changed          of the lines that differ from the last commit
    python -m tools.mutants metrics --show     the survivors of the last run, as differences
    python -m tools.mutants metrics --again    the survivors of the last run are judged anew, by the tests as they are

The faults are those of cosmic-ray: another operator, comparison, number or boolean, a decorator or an exception less, a
loop that never runs. They are drawn with a seed from all places that are not annotations. One run of the room's tests
with coverage says which tests reach which line; a mutant is given those, the quickest first, in a fork of a process
that has the large libraries in memory, on a copy of the sources. What no test reaches has survived. A mutant with which
a test takes five times as long is caught. What changes nothing that can be seen is listed in
`tools/equivalent_mutants.toml` with its reason, and counts neither way. Outcomes are kept in `mutants/ROOM.json`; a run
that was stopped resumes.
"""

from __future__ import annotations

import argparse
import difflib
import gc
import json
import math
import os
import random
import shutil
import signal
import sys
import tempfile
import traceback
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tools.faults import ROOT, Mutant, changed, changed_lines, find_mutants, is_mark, mutated, no_faults
from tools.reach import reaching

#: Without those that kill child processes: they take minutes, and coverage does not look into children.
_STORE = [
    *(f"tests/features/test_{name}.py" for name in ("store", "store_parts", "store_layout", "store_disk", "parts")),
    *(f"tests/features/test_{name}.py" for name in ("manifest", "writer", "part_files", "listing")),
    "tests/cli/test_features.py",
]
_FEATURES = ("preprocess", "extraction", "smaller", "rows", "speed", "batches", "passes", "known")
#: Without those that need data which is not shipped, or train for long.
_ZEROSHOT = (
    *("closed_forms", "methods", "gradient_methods", "embeddings_and_splits", "lbfgs", "published_losses"),
    *("prompt", "protocol", "golden", "catalogue", "generative", "networks", "grids", "novelty", "problem"),
    *("transductive", "attribute_classifiers"),
)
#: The rooms that are measured: their sources, and their own tests.
ROOMS: dict[str, tuple[list[str], list[str]]] = {
    "core": (["core"], ["tests/core"]),
    "identity": (["core/identity.py"], ["tests/core"]),
    "metrics": (["metrics"], ["tests/metrics"]),
    "stats": (["stats"], ["tests/stats"]),
    "results": (["results"], ["tests/results"]),
    "comparability": (["results/comparability.py"], ["tests/results"]),
    "ranking": (["ranking"], ["tests/ranking"]),
    "zeroshot": (["zeroshot"], [f"tests/zeroshot/test_{name}.py" for name in _ZEROSHOT]),
    "store": ([f"features/{name}.py" for name in ("store", "manifest", "part")], _STORE),
    "features": (["features"], [*_STORE, *(f"tests/features/test_{name}.py" for name in _FEATURES)]),
}
#: A test may take so many times as long as it did, and so many seconds more.
TIMES, GRACE = 5.0, 15.0
LARGE = (
    "numpy",
    "scipy.linalg",
    "scipy.optimize",
    "sklearn.linear_model",
    "torch",
    "PIL.Image",
    "pytest",
    "hypothesis",
)


def judge(mutant: Mutant, tests: dict[str, float], copy: Path, *, sound: bool = False) -> str:
    """Run the tests on a copy of the sources that has the fault: "caught", "slow" or "survived".

    Args:
        tests: in their order, with the seconds that each takes.
        sound: without the fault, to see that the tests pass on a copy.
    """
    target = copy / Path(mutant.file).relative_to("src")
    original = target.read_text(encoding="utf-8")
    content = original if sound else mutated(mutant)
    if content is None:
        return "none"
    target.write_text(content, encoding="utf-8")
    child = os.fork()
    if child == 0:
        _run_tests(copy, tests, quiet=not sound)
    try:
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        return "survived" if code == 0 else "slow" if code == -signal.SIGALRM else "caught"
    finally:
        with suppress(ProcessLookupError):  # what its tests have started
            os.killpg(child, signal.SIGKILL)
        target.write_text(original, encoding="utf-8")


def judge_in_rounds(
    mutant: Mutant, rounds: list[list[str]], durations: dict[str, float], copy: Path, tried: set[int]
) -> str:
    """Tests of another room, which load much more, are asked only where those of this one see nothing.

    Args:
        tried: rounds whose tests have passed without any fault; what is new is added.
    """
    outcome = "none" if is_mark(mutant) else "not reached"
    for number, tests in enumerate(rounds if outcome != "none" else ()):
        timed = {node: durations[node] for node in tests}
        if tests and number not in tried and judge(mutant, timed, copy, sound=True) != "survived":
            raise SystemExit("the tests fail on a copy of the sources without any fault.")
        if tests:
            tried.add(number)
            outcome = judge(mutant, timed, copy)
        if outcome not in ("survived", "not reached"):
            break
    return outcome


def _run_tests(copy: Path, tests: dict[str, float], *, quiet: bool) -> None:
    """The child: never returns."""
    status = 1
    try:
        os.setpgid(0, 0)
        if quiet:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, 1), os.dup2(nowhere, 2)
        os.chdir(ROOT)
        os.environ["PYTHONPATH"] = f"{copy}{os.pathsep}{ROOT}"
        sys.path[:0] = [str(copy), str(ROOT)]
        sys.dont_write_bytecode = True
        import pytest
        from tools.contexts import Deadline

        # Plug-ins, and the search for leaks at the end, take longer than most tests do.
        os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
        options = ["-x", "-q", "-p", "no:cacheprovider", "-p", "no:unraisableexception"]
        status = int(pytest.main([*options, *tests], plugins=[Deadline(tests, times=TIMES, grace=GRACE)]))
    except BaseException:  # noqa: BLE001, the process ends here
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        os._exit(status)


def score(outcomes: list[str]) -> tuple[float, float, float]:
    """Share of mutants that were caught, with Wilson's 95 % interval."""
    n, caught = len(outcomes), sum(outcome in ("caught", "slow") for outcome in outcomes)
    if not n:
        return math.nan, math.nan, math.nan
    z, share = 1.96, caught / n
    middle = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n)) / (1 + z * z / n)
    return share, middle - half, middle + half


def measure(
    room: str, sample: int, seed: int, folder: Path, lines: dict[str, set[int]] | None = None, *, again: bool = False
) -> None:
    """Judge a sample of a room's mutants, and print the score."""
    sources, tests = ROOMS[room]
    files = [f for source in sources for f in _files(ROOT / "src/unseen" / source)]
    mutants = [m for file in files for m in find_mutants(file) if lines is None or m.line in lines.get(m.file, ())]
    random.Random(seed).shuffle(mutants)
    kept = folder / f"{room}.json"
    known: dict[str, Any] = json.loads(kept.read_text()) if kept.exists() else {}
    if again:
        known = {name: row for name, row in known.items() if row["outcome"] not in ("survived", "not reached")}
    harmless = no_faults()
    reach, durations = reaching(tuple(tests))
    for library in LARGE:
        __import__(library)
    gc.freeze()  # forks need not look through them
    outcomes: list[str] = []
    tried: set[int] = set()
    with tempfile.TemporaryDirectory(prefix="mutants-") as place:
        shutil.copytree(
            ROOT / "src", place, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info")
        )
        for mutant in mutants:
            if len(outcomes) == sample:
                break
            name = f"{mutant.file}:{mutant.line} {mutant.operator} {mutant.occurrence}"
            if mutated(mutant) is None:
                continue
            if name not in known:
                nodes = reach.get(mutant.file, {}).get(mutant.line, ())
                order = sorted((node for node in nodes if node in durations), key=lambda node: durations[node])
                rooms = dict.fromkeys("/".join(root.split("/")[:2]) for root in tests)
                rounds = [[node for node in order if node.startswith(f"{name}/")] for name in rooms]
                outcome = judge_in_rounds(mutant, rounds, durations, Path(place), tried)
                if outcome in ("survived", "not reached") and changed(mutant) in harmless:
                    outcome = "equivalent"
                known[name] = {"outcome": outcome, **asdict(mutant)}
                folder.mkdir(exist_ok=True)
                kept.write_text(json.dumps(known, indent=1))
            if known[name]["outcome"] != "none":
                outcomes.append(known[name]["outcome"])
                print(f"{known[name]['outcome']:12} {name}", flush=True)
    share, low, high = score([outcome for outcome in outcomes if outcome != "equivalent"])
    print(
        f"{room}: {100 * share:.0f} % of {len(outcomes)} mutants caught (95 %: {100 * low:.0f} to {100 * high:.0f}), "
        f"{outcomes.count('not reached')} not reached by a test, {outcomes.count('equivalent')} that change nothing, "
        f"of {len(mutants)} in all."
    )


def _files(path: Path) -> list[Path]:
    return [path] if path.is_file() else sorted(path.rglob("*.py"))


def show(room: str, folder: Path) -> None:
    """What the survivors look like."""
    for name, row in json.loads((folder / f"{room}.json").read_text()).items():
        if row["outcome"] not in ("survived", "not reached"):
            continue
        mutant = Mutant(row["file"], row["line"], row["operator"], row["occurrence"])
        before, after = (ROOT / mutant.file).read_text().splitlines(), (mutated(mutant) or "").splitlines()
        print(f"\n{row['outcome']}: {name}")
        print("\n".join(list(difflib.unified_diff(before, after, lineterm="", n=0))[3:]))


def main() -> None:
    parser = argparse.ArgumentParser(prog="make mutants", description=__doc__)
    parser.add_argument("rooms", nargs="*", choices=[*ROOMS, []], help="which; all, if none is named")
    parser.add_argument("--sample", type=int, default=150, help="mutants per room")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--folder", type=Path, default=ROOT / "mutants", help="where outcomes are kept")
    parser.add_argument("--changed", action="store_true", help="only of lines that differ from the last commit")
    parser.add_argument("--again", action="store_true", help="judge the survivors of the last run anew")
    parser.add_argument("--show", action="store_true", help="the survivors of the last run")
    asked = parser.parse_args()
    lines = changed_lines() if asked.changed else None
    for room in asked.rooms or ROOMS:
        own = [f"src/unseen/{source}" for source in ROOMS[room][0]]
        if asked.show:
            show(room, asked.folder)
        elif lines is None or any(file.startswith(tuple(own)) for file in lines):
            measure(room, asked.sample, asked.seed, asked.folder, lines, again=asked.again)


if __name__ == "__main__":
    main()
