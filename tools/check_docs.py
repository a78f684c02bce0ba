"""Holds the documentation to the truth: links lead somewhere, examples parse, names in them exist.

python tools/check_docs.py

`tests/test_docs.py` runs the examples, page by page. What a page tells it stands in comments that no reader sees:

<!-- not run: why -->                    the next block is left out; there are few of these
<!-- file: products.csv -->              the next block is written to that file
<!-- in tests: timm:resnet50 is random:test_resnet?size=64 -->     a smaller thing that stands in on this page

A table of measured numbers says above itself, in its own section, where they come from:

<!-- made by: python tools/zsl_table.py -->      written by a command from a kept file; a test compares page and file;
                                                 `tools/record.py NAME` does so for runs that are too long for tests
<!-- held by: tests/x/test_y.py -->              a test computes the numbers again and compares them
<!-- measured: bench/x.py, November 2026 -->     a record of a run that is too long to repeat in the suite
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

#: Tables of measured numbers without a word on where they come from, by page; none may be added.
UNMARKED: dict[str, int] = {}
_SOURCE = re.compile(
    r"<!-- (made by|held by|measured|table): (?:python )?([\w./-]*)|<!-- (probe_cells|coverage|protocol|memory|cog) -->"
)
_NUMBER = re.compile(r"\d\.\d|^\W*\d[\d,]*\W*(?:%|s|MB|GB|x)?\W*$")

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


@dataclass(frozen=True)
class Numbers:
    """A table of measured numbers.

    Attributes:
        line: where it begins.
        kind, source: what the comment above it says; empty where there is none.
    """

    line: int
    kind: str = ""
    source: str = ""


def measured_tables(text: str) -> list[Numbers]:
    """Tables of a page in which two cells of five, or more, are numbers."""
    lines, found, start = text.splitlines(), [], 0
    while start < len(lines):
        end = start
        while end < len(lines) and lines[end].startswith("|"):
            end += 1
        cells = [cell.strip() for line in lines[start + 2 : end] for cell in line.strip("|").split("|")[1:]]
        if cells and sum(bool(_NUMBER.search(cell)) for cell in cells) >= 0.4 * len(cells):
            found.append(_source_of(lines, start))
        start = max(end, start + 1)
    return found


def _source_of(lines: list[str], start: int) -> Numbers:
    for line in reversed(lines[:start]):
        if line.startswith("#"):
            break
        if said := _SOURCE.match(line):
            return Numbers(start + 1, said[1] or "made by", said[2] or "")
    return Numbers(start + 1)


def table_problems(page: Path) -> list[str]:
    """Measured tables that do not say where they come from, or name a file that is not there.

    Decisions (`docs/adr`) are records of their day, and not asked.
    """
    tables = [] if "adr" in page.parts else measured_tables(page.read_text(encoding="utf-8"))
    bare = [table for table in tables if not table.kind]
    found = [
        f"line {t.line}: {t.source} is not there" for t in tables if "/" in t.source and not (ROOT / t.source).is_file()
    ]
    if len(bare) > UNMARKED.get(page.name, 0):
        found += [f"line {table.line}: say above the table where its numbers come from" for table in bare]
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
    found += table_problems(page)
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
