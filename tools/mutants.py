"""Do the tests bite? Small faults are put into a room's code, one at a time, and its own tests should see each of them.

    make mutants ROOM=metrics                  150 mutants of src/unseen/metrics
    python -m tools.mutants core results       two rooms
    python -m tools.mutants --changed          of the lines that differ from the last commit
    python -m tools.mutants metrics --show     the survivors of the last run, as differences

The faults are those of cosmic-ray: another operator, comparison, number or boolean, a decorator or an exception less, a
loop that never runs. They are drawn with a seed from all places that are not annotations. One run of the room's tests
with coverage says which tests reach which line; a mutant is given those, the quickest first, in a fork of a process
that has the large libraries in memory, on a copy of the sources. What no test reaches has survived. A mutant that
runs six times as long as its tests is caught. Outcomes are kept in `mutants/ROOM.json`; a run
that was stopped goes on.
"""

from __future__ import annotations

import argparse
import ast
import difflib
import json
import math
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
#: The rooms that are measured: their sources, and their own tests.
ROOMS: dict[str, tuple[list[str], list[str]]] = {
    "core": (["core"], ["tests/core"]),
    "identity": (["core/identity.py"], ["tests/core", "tests/benchmarks/test_identity.py"]),
    "metrics": (["metrics"], ["tests/metrics"]),
    "results": (["results"], ["tests/results"]),
    "comparability": (["results/comparability.py"], ["tests/results"]),
    "ranking": (["ranking"], ["tests/ranking"]),
    "zeroshot": (["zeroshot"], ["tests/zeroshot"]),
    "store": ([f"features/{name}.py" for name in ("store", "manifest", "part", "writer")], ["tests/features"]),
    "features": (["features"], ["tests/features"]),
}
#: Seconds that a mutant may take beyond six times what its tests take.
GRACE = 20.0
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


@dataclass(frozen=True)
class Mutant:
    """One fault: where, and which of the faults of that kind in the file."""

    file: str
    line: int
    operator: str
    occurrence: int


def find_mutants(path: Path) -> Iterator[Mutant]:
    """Every fault that can be put into a file."""
    from cosmic_ray.ast import ast_nodes, get_ast
    from cosmic_ray.plugins import get_operator, operator_names

    code = path.read_text(encoding="utf-8")
    silent = _silent_lines(code)
    tree = list(ast_nodes(get_ast(code)))
    for name in operator_names():
        if name.endswith(("/NoOp", "VariableReplacer", "VariableInserter")):
            continue
        operator, occurrence = get_operator(name)(), 0
        for node in tree:
            for (line, column), _ in operator.mutation_positions(node):
                if not any(begin <= (line, column) < end for begin, end in silent):
                    yield Mutant(str(path.relative_to(ROOT)), line, name, occurrence)
                occurrence += 1


def _silent_lines(code: str) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """From where to where nothing is computed: annotations, docstrings, what only a type checker imports."""
    found: list[ast.AST] = []
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.arg | ast.AnnAssign) and node.annotation is not None:
            found.append(node.annotation)
        if isinstance(node, ast.FunctionDef) and node.returns is not None:
            found.append(node.returns)
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            found.append(node)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            found.append(node)
    return [((n.lineno, n.col_offset), (n.end_lineno, n.end_col_offset)) for n in found]  # type: ignore[attr-defined]


def mutated(mutant: Mutant) -> str | None:
    """The file with the fault."""
    from cosmic_ray.mutating import mutate_code
    from cosmic_ray.plugins import get_operator

    code = (ROOT / mutant.file).read_text(encoding="utf-8")
    found = mutate_code(code, get_operator(mutant.operator)(), mutant.occurrence)
    return None if found is None or found == code else str(found)


def reaching(tests: list[str], sources: list[str]) -> tuple[dict[str, dict[int, list[str]]], dict[str, float]]:
    """Which tests reach a line of a file, and how many seconds each takes: one run of them with coverage."""
    import coverage

    with tempfile.TemporaryDirectory() as folder:
        settings = Path(folder) / "coveragerc"
        settings.write_text(
            "[run]\ndynamic_context = test_function\nsource_pkgs = unseen\n"
            f"data_file = {folder}/data\nconcurrency = thread\n",
            encoding="utf-8",
        )
        command = [sys.executable, "-m", "coverage", "run", f"--rcfile={settings}", "-m", "pytest", "-q", "-n0"]
        command += ["-p", "no:cacheprovider", "--durations=0", "--durations-min=0", *tests]
        told = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=_environment(ROOT / "src"))
        if told.returncode not in (0, 5):
            raise SystemExit(f"the tests fail as they are:\n{told.stdout[-2000:]}{told.stderr[-500:]}")
        data = coverage.CoverageData(f"{folder}/data")
        data.read()
        lines: dict[str, dict[int, list[str]]] = {}
        for file in data.measured_files():
            short = str(Path(file).relative_to(ROOT)) if Path(file).is_relative_to(ROOT) else ""
            if any(short.startswith(f"src/unseen/{source}") for source in sources):
                by_line = data.contexts_by_lineno(file)
                everywhere = sorted({name for names in by_line.values() for name in names if name})
                # What ran when the file was imported is given the tests of the whole file.
                lines[short] = {n: everywhere if "" in names else sorted(names) for n, names in by_line.items()}
    return lines, _durations(told.stdout)


def _durations(output: str) -> dict[str, float]:
    """Seconds by test function, from pytest's list: all its phases and parameters together."""
    found: dict[str, float] = {}
    for line in output.splitlines():
        words = line.split()
        if len(words) == 3 and words[1] in ("call", "setup", "teardown") and words[0].endswith("s"):
            name = words[2].split("[")[0]
            found[name] = found.get(name, 0.0) + float(words[0][:-1])
    return found


def _environment(source: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": f"{source}{os.pathsep}{ROOT}", "OMP_NUM_THREADS": "1"}


def as_node(context: str, durations: dict[str, float]) -> str | None:
    """The id that pytest knows a context of coverage by: tests.core.test_files.test_x or test_files.test_x."""
    name = context.rpartition(".")[2]
    module = context.rpartition(".")[0].rpartition(".")[2]
    known = [node for node in durations if node.endswith(f"::{name}") and f"{module}.py" in node]
    return known[0] if known else None


def judge(mutant: Mutant, tests: list[str], seconds: float, copy: Path, *, sound: bool = False) -> str:
    """Run the tests on a copy of the sources that has the fault: "caught", "slow" or "survived".

    Args:
        sound: without the fault, to see that the tests pass on a copy.
    """
    target = copy / Path(mutant.file).relative_to("src")
    original = target.read_text(encoding="utf-8")
    content = original if sound else mutated(mutant)
    if content is None:
        return "none"
    target.write_text(content, encoding="utf-8")
    began = time.monotonic()
    child = os.fork()
    if child == 0:
        _run_tests(copy, tests, quiet=not sound)
    try:
        while True:
            done, status = os.waitpid(child, os.WNOHANG)
            if done:
                return "survived" if os.waitstatus_to_exitcode(status) == 0 else "caught"
            if time.monotonic() - began > 6 * seconds + GRACE:
                os.killpg(child, signal.SIGKILL)
                os.waitpid(child, 0)
                return "slow"
            time.sleep(0.02)
    finally:
        target.write_text(original, encoding="utf-8")


def _run_tests(copy: Path, tests: list[str], *, quiet: bool) -> None:
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

        # That hypothesis is loaded is no fault of the tests.
        options = ["-x", "-q", "-n0", "-p", "no:cacheprovider", "-W", "ignore::pytest.PytestAssertRewriteWarning"]
        status = int(pytest.main([*options, *tests]))
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


def measure(room: str, sample: int, seed: int, folder: Path, lines: dict[str, set[int]] | None = None) -> None:
    """Judge a sample of a room's mutants, and print the score."""
    sources, tests = ROOMS[room]
    files = [f for source in sources for f in _files(ROOT / "src/unseen" / source)]
    mutants = [m for file in files for m in find_mutants(file) if lines is None or m.line in lines.get(m.file, ())]
    random.Random(seed).shuffle(mutants)
    kept = folder / f"{room}.json"
    known: dict[str, Any] = json.loads(kept.read_text()) if kept.exists() else {}
    reach, durations = reaching([t for t in tests if (ROOT / t).exists()], sources)
    for library in LARGE:
        __import__(library)
    outcomes: list[str] = []
    tried = False
    with tempfile.TemporaryDirectory(prefix="mutants-") as place:
        shutil.copytree(
            ROOT / "src", place, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info")
        )
        for mutant in mutants:
            if len(outcomes) == sample:
                break
            name = f"{mutant.file}:{mutant.line} {mutant.operator} {mutant.occurrence}"
            if name not in known:
                nodes = {as_node(c, durations) for c in reach.get(mutant.file, {}).get(mutant.line, ())} - {None}
                order = sorted((n for n in nodes if n), key=lambda node: durations[node])
                seconds = sum(durations[node] for node in order)
                if order and not tried and judge(mutant, order, seconds, Path(place), sound=True) != "survived":
                    raise SystemExit(f"{room}: the tests fail on a copy of the sources without any fault.")
                tried = tried or bool(order)
                outcome = judge(mutant, order, seconds, Path(place)) if order else "not reached"
                known[name] = {"outcome": outcome, **asdict(mutant)}
                folder.mkdir(exist_ok=True)
                kept.write_text(json.dumps(known, indent=1))
            if known[name]["outcome"] != "none":
                outcomes.append(known[name]["outcome"])
                print(f"{known[name]['outcome']:12} {name}", flush=True)
    share, low, high = score(outcomes)
    missed = sum(outcome == "not reached" for outcome in outcomes)
    print(
        f"{room}: {100 * share:.0f} % of {len(outcomes)} mutants caught (95 %: {100 * low:.0f} to {100 * high:.0f}), "
        f"{missed} not reached by a test, of {len(mutants)} in all."
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


def changed_lines() -> dict[str, set[int]]:
    """Lines of the sources that differ from the last commit."""
    asked = ["git", "diff", "-U0", "HEAD", "--", "src/unseen"]
    found: dict[str, set[int]] = {}
    file = ""
    for line in subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines():
        if line.startswith("+++ b/"):
            file = line[6:]
        elif line.startswith("@@"):
            begin, _, count = line.split("+")[1].split(" ")[0].partition(",")
            found.setdefault(file, set()).update(range(int(begin), int(begin) + int(count or 1)))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(prog="make mutants", description=__doc__)
    parser.add_argument("rooms", nargs="*", choices=[*ROOMS, []], help="which; all, if none is named")
    parser.add_argument("--sample", type=int, default=150, help="mutants per room")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--folder", type=Path, default=ROOT / "mutants", help="where outcomes are kept")
    parser.add_argument("--changed", action="store_true", help="only of lines that differ from the last commit")
    parser.add_argument("--show", action="store_true", help="the survivors of the last run")
    asked = parser.parse_args()
    lines = changed_lines() if asked.changed else None
    for room in asked.rooms or ROOMS:
        own = [f"src/unseen/{source}" for source in ROOMS[room][0]]
        if asked.show:
            show(room, asked.folder)
        elif lines is None or any(file.startswith(tuple(own)) for file in lines):
            measure(room, asked.sample, asked.seed, asked.folder, lines)


if __name__ == "__main__":
    main()
