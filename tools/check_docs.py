"""Holds the documentation to the truth: links lead somewhere, examples parse, names in them exist.

python tools/check_docs.py

`tests/test_docs.py` runs the examples, page by page. What a page tells it stands in comments that no reader sees:

<!-- not run: why -->                    the next block is left out; there are few of these
<!-- file: products.csv -->              the next block is written to that file
<!-- in tests: timm:resnet50 is random:test_resnet?size=64 -->     a smaller thing that stands in on this page
"""

from __future__ import annotations

import ast
import importlib
import re
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
#: Blocks that may be marked as not run, on all pages together.
MOST_NOT_RUN = 16

_BLOCK = re.compile(
    r"(?:<!-- (?P<mark>not run|file): (?P<word>[^\n]*?) -->\s*\n)?^```(?P<language>\w*)\n(?P<text>.*?)^```", re.M | re.S
)
_STAND_IN = re.compile(r"<!-- in tests: (.+?) is (.+?) -->")
_SHELLS = ("bash", "sh", "shell", "console")


@dataclass(frozen=True)
class Block:
    """An example of a page.

    Attributes:
        line: where it begins.
        not_run: why it is left out, or "".
        file: what it is saved as, or "".
    """

    line: int
    language: str
    text: str
    not_run: str = ""
    file: str = ""

    @property
    def commands(self) -> list[str]:
        """Lines to be given to a shell, comments cut off; those of a block without a language if it has any of ours."""
        if self.language not in (*_SHELLS, ""):
            return []
        lines = [re.sub(r"(^|\s)#\s.*", "", line).strip() for line in self.text.replace("\\\n", " ").splitlines()]
        if not self.language and not any(line.startswith(("unseen ", "make ")) for line in lines):
            return []
        return [line for line in lines if line]


def blocks(page: Path, *, stand_ins: bool = False) -> list[Block]:
    """The examples of a page, in order; with `stand_ins`, smaller things stand where the page says so."""
    text = page.read_text(encoding="utf-8")
    swaps = _STAND_IN.findall(text) if stand_ins else []
    found = []
    for match in _BLOCK.finditer(text):
        body = match["text"]
        for whole, small in swaps:
            body = body.replace(whole, small)
        named = re.match(r"# ([\w.-]+\.(?:toml|csv|txt))\n", body)  # a file that says its own name
        found.append(
            Block(
                line=text[: match.start("language")].count("\n") + 1,
                language=match["language"],
                text=body,
                not_run=match["word"] if match["mark"] == "not run" else "",
                file=match["word"] if match["mark"] == "file" else named[1] if named else "",
            )
        )
    return found


def problems(page: Path) -> list[str]:
    """Everything that is wrong with one page."""
    text = page.read_text(encoding="utf-8")
    links = re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", text)
    found = [
        f"link to {target}, which is not there"
        for target in links
        if "://" not in target and not (page.parent / target).exists()
    ]
    found += [f"nothing is called {whole}" for whole, _ in _STAND_IN.findall(text) if text.count(whole) < 2]
    for block in blocks(page):
        if block.language == "python":
            found += [f"line {block.line}: {problem}" for problem in python_problems(block.text)]
        if block.language == "toml":
            try:
                tomllib.loads(block.text)
            except tomllib.TOMLDecodeError as error:
                found.append(f"line {block.line}: TOML example: {error}")
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
    left_out = sum(bool(block.not_run) for page in PAGES for block in blocks(page))
    if left_out > MOST_NOT_RUN:
        wrong.append(f"{left_out} examples are marked as not run; {MOST_NOT_RUN} may be")
    print("\n".join(wrong) or f"{len(PAGES)} pages: links lead somewhere, examples parse, {left_out} of them not run")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
