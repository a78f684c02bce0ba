"""Holds the documentation to the truth: links lead somewhere, Python examples compile, names in them exist.

python tools/check_docs.py
"""

from __future__ import annotations

import ast
import importlib
import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


def problems(page: Path) -> list[str]:
    """Everything that is wrong with one page."""
    text = page.read_text(encoding="utf-8")
    links = re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", text)
    found = [
        f"link to {target}, which is not there"
        for target in links
        if "://" not in target and not (page.parent / target).exists()
    ]
    for language, block in re.findall(r"^```(\w+)\n(.*?)^```", text, re.M | re.S):
        if language == "python":
            found += python_problems(block)
        if language == "toml":
            try:
                tomllib.loads(block)
            except tomllib.TOMLDecodeError as error:
                found.append(f"TOML example: {error}")
    return found


def python_problems(block: str) -> list[str]:
    """Syntax errors, and names imported from this package that it does not have."""
    try:
        tree = ast.parse(block)
    except SyntaxError as error:
        return [f"Python example does not compile: {error}"]
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "unseen":
            module = importlib.import_module(node.module or "")
            found += [f"{node.module} has no {n.name}" for n in node.names if not hasattr(module, n.name)]
    return found


def main() -> int:
    wrong = [f"{page.relative_to(ROOT)}: {problem}" for page in PAGES for problem in problems(page)]
    print("\n".join(wrong) or f"{len(PAGES)} pages: links lead somewhere, examples compile, names exist")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
