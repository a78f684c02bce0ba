"""Measure the source code: tokens and files per package, and habits that make it harder to read.

    python -m tools.size             the packages of src/unseen, and the totals
    python -m tools.size --files 20  and the twenty largest files

Tokens are those of Python's tokenizer without docstrings, comments, imports, line breaks and indentation, so that a
file does not grow by being documented. `tests/test_size.py` sets upper limits.
"""

from __future__ import annotations

import argparse
import ast
import io
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "unseen"

_LAYOUT = {
    tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER
}  # fmt: skip
_DOCUMENTED = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
_FUNCTION = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class FileSize:
    """Counts of one file.

    Attributes:
        package: the folder below `src/unseen`; benchmarks are listed one by one.
        tokens: code tokens.
        own_imports: imports of `unseen` inside functions.
        anys: occurrences of `Any` in the code.
        ignores: `type: ignore` comments.
    """

    path: str
    package: str
    tokens: int
    own_imports: int
    anys: int
    ignores: int


def measure(source: Path = SOURCE) -> list[FileSize]:
    """Return the counts of every Python file below `source`."""
    return [_measure_file(path, path.relative_to(source)) for path in sorted(source.rglob("*.py"))]


def _measure_file(path: Path, name: Path) -> FileSize:
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    skipped = set(_skipped_lines(tree))
    tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
    code = [token for token in tokens if token.type not in _LAYOUT]
    return FileSize(
        path=name.as_posix(),
        package=_package(name),
        tokens=sum(token.start[0] not in skipped for token in code),
        own_imports=len(_own_imports_in_functions(tree)),
        anys=sum(token.type == tokenize.NAME and token.string == "Any" for token in code),
        ignores=sum(token.type == tokenize.COMMENT and "type: ignore" in token.string for token in tokens),
    )


def _package(name: Path) -> str:
    if len(name.parts) == 1:
        return "(top)"
    return "/".join(name.parts[:2]) if name.parts[0] == "benchmarks" and len(name.parts) > 2 else name.parts[0]


def _skipped_lines(tree: ast.Module) -> Iterator[int]:
    """Yield the lines of docstrings and imports."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield from range(node.lineno, (node.end_lineno or node.lineno) + 1)
        if isinstance(node, _DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            first = node.body[0]
            yield from range(first.lineno, (first.end_lineno or first.lineno) + 1)


def _own_imports_in_functions(tree: ast.Module) -> set[ast.stmt]:
    functions = [node for node in ast.walk(tree) if isinstance(node, _FUNCTION)]
    return {
        node
        for function in functions
        for node in ast.walk(function)
        if (isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "unseen")
        or (isinstance(node, ast.Import) and any(alias.name.split(".")[0] == "unseen" for alias in node.names))
    }


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--files", type=int, default=0, help="Number of largest files to list.")
    found = measure()
    for package in sorted({size.package for size in found}):
        own = [size for size in found if size.package == package]
        print(f"{package:20} {sum(size.tokens for size in own):8,} tokens {len(own):4} files")
    print(f"{'sum':20} {sum(size.tokens for size in found):8,} tokens {len(found):4} files")
    print(f"own imports in functions: {sum(size.own_imports for size in found)}")
    print(f"Any: {sum(size.anys for size in found)}, type: ignore: {sum(size.ignores for size in found)}")
    for size in sorted(found, key=lambda size: -size.tokens)[: parser.parse_args().files]:
        print(f"{size.tokens:6,} {size.path}")


if __name__ == "__main__":
    main()
