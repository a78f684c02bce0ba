"""Find out which tests execute which line, by one run under coverage."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

from tools.faults import ROOT


@cache
def reaching(tests: tuple[str, ...]) -> tuple[dict[str, dict[int, list[str]]], dict[str, float]]:
    """Which tests reach a line of a file, and how many seconds each takes: one run of the quick ones with coverage."""
    import coverage

    with tempfile.TemporaryDirectory() as folder:
        settings = Path(folder) / "coveragerc"
        settings.write_text(
            f"[run]\nsource_pkgs = unseen\ndata_file = {folder}/data\nconcurrency = thread\n",
            encoding="utf-8",
        )
        command = [sys.executable, "-m", "coverage", "run", f"--rcfile={settings}", "-m", "pytest", "-q", "-n0"]
        command += [
            "-p",
            "no:cacheprovider",
            "-p",
            "tools.contexts",
            "-m",
            "not slow",
            "--durations=0",
            "--durations-min=0",
        ]
        told = subprocess.run(
            [*command, *tests], cwd=ROOT, capture_output=True, text=True, env=_environment(ROOT / "src")
        )
        if told.returncode not in (0, 5):
            raise SystemExit(f"the tests fail as they are:\n{told.stdout[-2000:]}{told.stderr[-500:]}")
        data = coverage.CoverageData(f"{folder}/data")
        data.read()
        lines: dict[str, dict[int, list[str]]] = {}
        for file in data.measured_files():
            if Path(file).is_relative_to(ROOT):
                code = Path(file).read_text(encoding="utf-8")
                short = str(Path(file).relative_to(ROOT))
                lines[short] = by_statement(ast.parse(code), data.contexts_by_lineno(file))
    return lines, _durations(told.stdout)


def by_statement(tree: ast.Module, by_line: dict[int, list[str]]) -> dict[int, list[str]]:
    """The tests that reach the statement of a line: only some lines of a long one are noted.

    What runs when the file is imported is given the tests of the whole file.
    """
    everywhere = {name for names in by_line.values() for name in names}
    later = {
        line
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef)
        for line in range(node.body[0].lineno, (node.end_lineno or 0) + 1)
    }
    found: dict[int, list[str]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.stmt | ast.ExceptHandler):
            inner = getattr(node, "body", None)
            begin = min([node.lineno, *(each.lineno for each in getattr(node, "decorator_list", ()))])
            end = max(begin, inner[0].lineno - 1 if inner else node.end_lineno or begin)
            names = {name for line in range(begin, end + 1) for name in by_line.get(line, ())}
            names = everywhere if names and begin not in later else names
            found |= dict.fromkeys(range(begin, end + 1), sorted(names - {""}))
    return found


def _durations(output: str) -> dict[str, float]:
    """Seconds by test function, from pytest's list: all its phases and parameters together."""
    found: dict[str, float] = {}
    for line in output.splitlines():
        words = line.split(maxsplit=2)  # names of parameters may have spaces
        if len(words) == 3 and words[1] in ("call", "setup", "teardown") and words[0].endswith("s"):
            name = words[2].split("[")[0]
            found[name] = found.get(name, 0.0) + float(words[0][:-1])
    return found


def _environment(source: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": f"{source}{os.pathsep}{ROOT}", "OMP_NUM_THREADS": "1"}
