"""Faults of cosmic-ray: list those of a file, apply one of them, and recognise those without effect."""

from __future__ import annotations

import ast
import difflib
import subprocess
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import islice
from pathlib import Path

ROOT = Path(__file__).parents[1]


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


def is_mark(mutant: Mutant) -> bool:
    """Whether the operator is none: the star of a signature, which cosmic-ray takes for a product."""
    from cosmic_ray.ast import ast_nodes, get_ast
    from cosmic_ray.plugins import get_operator

    if not any(f"_{name}_" in mutant.operator for name in ("Mul", "Pow", "Div")):
        return False
    operator = get_operator(mutant.operator)()
    places = (
        node
        for node in ast_nodes(get_ast((ROOT / mutant.file).read_text(encoding="utf-8")))
        for _ in operator.mutation_positions(node)
    )
    node = next(islice(places, mutant.occurrence, None), None)
    return node is not None and getattr(node.parent, "type", "") in ("param", "parameters", "typedargslist", "lambdef")


def changed(mutant: Mutant) -> tuple[str, str, str]:
    """The file, and the lines that differ, before and after: what tells a fault where line numbers move."""
    before, after = (ROOT / mutant.file).read_text(encoding="utf-8").splitlines(), (mutated(mutant) or "").splitlines()
    lines = list(difflib.unified_diff(before, after, lineterm="", n=0))[3:]
    old, new = ("\n".join(line[1:].strip() for line in lines if line[0] == sign) for sign in "-+")
    return mutant.file, old, new


def no_faults() -> set[tuple[str, str, str]]:
    """Those changes that cannot be seen from outside, as `changed` gives them."""
    listed = tomllib.loads((ROOT / "tools" / "equivalent_mutants.toml").read_text(encoding="utf-8"))
    return {(f"src/unseen/{each['file']}", each["before"], each["after"]) for each in listed["mutant"]}


@cache
def mutated(mutant: Mutant) -> str | None:
    """The file with the fault; None where that would be no Python, which any test sees."""
    from cosmic_ray.mutating import mutate_code
    from cosmic_ray.plugins import get_operator

    code = (ROOT / mutant.file).read_text(encoding="utf-8")
    found = mutate_code(code, get_operator(mutant.operator)(), mutant.occurrence)
    if found is None or found == code:
        return None
    try:
        ast.parse(str(found))
    except SyntaxError:
        return None
    return str(found)


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
