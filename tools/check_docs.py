"""Check the documentation: links lead to files, examples parse, and the names that they import exist.

    python tools/check_docs.py
    python tools/check_docs.py --wrap           wrap paragraphs with lines of more than 120 characters
    python tools/check_docs.py --demo FILE      compare the output of `make demo` in README with a real one

`tests/test_docs.py` runs the examples, page by page. `tests/docs_examples.toml` lists, by page, what tests replace in
the examples, which examples they do not run, and which ones they save to a file. A block of the language "output" shows
what the example before it prints: "..." matches any text within a line, and a line "..." matches any lines.

A comment above each table of measured numbers, in the same section, names the source of the numbers:

<!-- made by: python tools/zsl_table.py -->      written by a command from a stored file; a test compares page and file;
                                                 `tools/record.py NAME` does so for runs that are too long for tests
<!-- held by: tests/x/test_y.py -->              a test computes the numbers again and compares them
<!-- measured: bench/x.py, November 2026 -->     a record of a run that is too long to repeat in the suite
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import re
import sys
import textwrap
import tomllib
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
#: How tests run the examples of each page.
SETUPS = ROOT / "tests" / "docs_examples.toml"
#: Blocks that may be marked as not run, on all pages together.
MOST_NOT_RUN = 16

#: Number of measured tables without a source, by page; none may be added.
UNMARKED: dict[str, int] = {}
_SOURCE = re.compile(
    r"<!-- (made by|held by|measured|table): (?:python )?([\w./-]*)|<!-- (probe_cells|coverage|protocol|memory|cog) -->"
)
_NUMBER = re.compile(r"\d\.\d|^\W*\d[\d,]*\W*(?:%|s|MB|GB|x)?\W*$")

_BLOCK = re.compile(r"^```(?P<language>\w*)\n(?P<text>.*?)^```", re.M | re.S)
_NAMED = re.compile(r"# ([\w.-]+\.(?:toml|csv|txt))\n")
_SHELLS = ("bash", "sh", "shell", "console")


@dataclass(frozen=True)
class Setup:
    """How tests run the examples of a page.

    Attributes:
        replace: texts to replace in examples, in this order, by smaller ones.
        not_run: reasons why examples are only parsed, by the text that the example begins with.
        files: names of files that examples are saved to, by the text that the example begins with.
    """

    replace: dict[str, str] = field(default_factory=dict)
    not_run: dict[str, str] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)


def setup_of(page: Path) -> Setup:
    """Return how tests run the examples of a page."""
    name = str(page.relative_to(ROOT)) if page.is_relative_to(ROOT) else page.name
    return Setup(**tomllib.loads(SETUPS.read_text(encoding="utf-8")).get(name, {}))


@dataclass(frozen=True)
class Block:
    """An example of a page.

    Attributes:
        line: the line on which it begins.
        not_run: the reason why it is not run, or "".
        file: the file that it is saved to, or "".
    """

    line: int
    language: str
    text: str
    not_run: str = ""
    file: str = ""

    @property
    def commands(self) -> list[str]:
        """The lines for a shell, without comments; those of a block without a language if it has a command of ours."""
        if self.language not in (*_SHELLS, ""):
            return []
        lines = [re.sub(r"(^|\s)#\s.*", "", line).strip() for line in self.text.replace("\\\n", " ").splitlines()]
        if not self.language and not any(line.startswith(("unseen ", "make ")) for line in lines):
            return []
        return [line for line in lines if line]


def blocks(page: Path, *, replaced: bool = False, setup: Setup | None = None) -> list[Block]:
    """Return the examples of a page in order.

    Args:
        page: the file.
        replaced: make the replacements of the page's setup.
        setup: used instead of the page's entry in `tests/docs_examples.toml`.
    """
    text, found = page.read_text(encoding="utf-8"), []
    setup = setup or setup_of(page)
    for match in _BLOCK.finditer(text):
        body = match["text"]
        named = _NAMED.match(body)  # a file whose first line is its name
        file = _by_beginning(setup.files, body) or (named[1] if named else "")
        not_run = _by_beginning(setup.not_run, body)
        for whole, small in setup.replace.items() if replaced else ():
            body = body.replace(whole, small)
        line = text[: match.start("language")].count("\n") + 1
        found.append(Block(line, match["language"], body, not_run, file))
    return found


def _by_beginning(table: dict[str, str], text: str) -> str:
    return next((value for beginning, value in table.items() if text.startswith(beginning)), "")


def setup_problems(page: Path, setup: Setup) -> list[str]:
    """Return the entries of a page's setup that apply to none of its examples."""
    texts = [match["text"] for match in _BLOCK.finditer(page.read_text(encoding="utf-8"))]
    for whole, small in setup.replace.items():
        if not any(whole in text for text in texts):
            return [f"tests replace {whole!r}, which is in no example"]
        texts = [text.replace(whole, small) for text in texts]
    texts = [match["text"] for match in _BLOCK.finditer(page.read_text(encoding="utf-8"))]
    return [
        f"no example begins with {beginning!r}"
        for beginning in (*setup.not_run, *setup.files)
        if not any(text.startswith(beginning) for text in texts)
    ]


@dataclass(frozen=True)
class Numbers:
    """A table of measured numbers.

    Attributes:
        line: where it begins.
        kind, source: of the comment above it; empty without one.
    """

    line: int
    kind: str = ""
    source: str = ""


def measured_tables(text: str) -> list[Numbers]:
    """Return the tables of a page in which at least two of five cells are numbers."""
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
        if named := _SOURCE.match(line):
            return Numbers(start + 1, named[1] or "made by", named[2] or "")
    return Numbers(start + 1)


def table_problems(page: Path) -> list[str]:
    """Return measured tables without a source, and those whose source is a missing file.

    Decisions (`docs/adr`) are records of their day and need no source.
    """
    tables = [] if "adr" in page.parts else measured_tables(page.read_text(encoding="utf-8"))
    bare = [table for table in tables if not table.kind]
    found = [
        f"line {t.line}: there is no file {t.source}"
        for t in tables
        if "/" in t.source and not (ROOT / t.source).is_file()
    ]
    if len(bare) > UNMARKED.get(page.name, 0):
        found += [f"line {table.line}: name the source of the numbers above the table" for table in bare]
    return found


#: Longest line of prose.
WIDTH = 120
_ITEM = re.compile(r"\s*(?:[-*] |\d\d?\. )?")
#: Lines that are no prose: headings, tables, fences, comments, pictures, and references with their options.
_NO_PROSE = re.compile(r"\s*(?:#|\||```|<|!\[|:::|options:|members:|$)")
#: A space before a word that would begin a list, a heading or a quotation at the beginning of a line.
_BEFORE_MARK = re.compile(r" (?=(?:[-+*>#|]|\d+\.) )")


def wrap(text: str) -> str:
    """Return a page whose paragraphs and list items have no line of more than `WIDTH` characters."""
    found: list[str] = []
    part: list[str] = []
    fenced = False

    def close() -> None:
        if any(len(line) > WIDTH for line in part):
            start = _ITEM.match(part[0])
            assert start is not None
            words = _BEFORE_MARK.sub("\0", " ".join(line.strip() for line in part)[len(start[0].lstrip()) :])
            filled = textwrap.wrap(
                words,
                WIDTH,
                initial_indent=start[0],
                subsequent_indent=" " * len(start[0]),
                break_long_words=False,
                break_on_hyphens=False,
            )
            part[:] = [line.replace("\0", " ") for line in filled]
        found.extend(part)
        part.clear()

    for line in text.splitlines():
        fence = line.lstrip().startswith("```")
        item = _ITEM.match(line)
        assert item is not None
        if fenced or fence or _NO_PROSE.match(line) or item[0].strip():
            close()
        (found if fenced or fence or _NO_PROSE.match(line) else part).append(line)
        fenced ^= fence
    close()
    return "\n".join(found) + "\n"


def problems(page: Path) -> list[str]:
    """Return everything that is wrong with one page."""
    text = page.read_text(encoding="utf-8")
    links = re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", text)
    found = [
        f"link to {target}, which does not exist"
        for target in links
        if "://" not in target and not (page.parent / target).exists()
    ]
    found += [f"there is no {name}" for name in re.findall(r"^::: ([\w.]+)$", text, re.M) if not name_exists(name)]
    found += setup_problems(page, setup_of(page))
    if page != ROOT / "README.md" and re.search(r"<!-- (in tests|not run|file): ", text):
        found.append("instructions for tests belong into tests/docs_examples.toml")
    found += table_problems(page)
    if wrap(text) != text:
        found.append(f"lines of more than {WIDTH} characters: python tools/check_docs.py --wrap")
    for block in blocks(page):
        if block.language == "python":
            found += [f"line {block.line}: {problem}" for problem in python_problems(block.text)]
        if block.language == "toml":
            try:
                tomllib.loads(block.text)
            except tomllib.TOMLDecodeError as error:
                found.append(f"line {block.line}: TOML example: {error}")
    return found


def name_exists(name: str) -> bool:
    """Return whether a dotted name is a module, or an attribute of one."""
    module, _, attribute = name.rpartition(".")
    try:
        return hasattr(importlib.import_module(module), attribute) or importlib.util.find_spec(name) is not None
    except ImportError:
        return False


def python_problems(block: str) -> list[str]:
    """Return syntax errors, and names imported from this package that it does not have."""
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


#: Numbers that may differ in their last digits on another processor: decimals, and whole percentages.
NUMBER = re.compile(r"(?<![\w.])[-+]?(?:\d+\.\d+|\d+(?= ±| %)|(?<=± )\d+)(?![\w.])")


def output_problems(shown: str, printed: str, line: int) -> list[str]:
    """Return how the output that a page shows differs from what its example printed; [] if it matches.

    Words and counts are compared exactly. Sums of floats depend on the processor, and a single image with another
    prediction moves an accuracy, so that accuracies may differ by 2.5 points, and other decimals by 5 %.
    """

    def pattern(text: str) -> str:
        """Return a pattern of a line: any number for a number, any width for spaces and for lines of a table."""
        if text.strip() == "...":
            return r"(?:.*\n)*?"
        words = [r"\s+".join(map(re.escape, part.split(" "))) for part in re.sub(" +", " ", text).split("...")]
        return re.sub("─+", "─+", ".*".join(words)) + r"\s+"

    shown = shown.strip("\n")
    lines = [pattern(NUMBER.sub("\0", line.rstrip())) for line in shown.splitlines()]
    expected = "".join(lines).replace(re.escape("\0"), r"([-+]?\d+(?:\.\d+)?)")
    found = re.fullmatch(expected, printed.strip("\n") + "\n")
    if found and all(map(_agree, NUMBER.findall(shown), found.groups())):
        return []
    return [f"line {line}: the page shows\n{shown.strip()}\nbut the example printed\n{printed.strip()}"]


def _agree(shown: str, printed: str) -> bool:
    """Return whether two numbers agree: percentages, with at most one decimal, within 2.5, others within 5 %."""
    decimals = len(shown.partition(".")[2])
    tolerance = 2.5 if decimals <= 1 else 0.05 * abs(float(shown))
    return abs(float(shown) - float(printed)) <= tolerance


def is_demo_output(block: Block) -> bool:
    """Return whether a block shows the output of the demo, which takes minutes."""
    return block.language == "output" and block.text.startswith("Unseen concepts")


def is_suite_output(block: Block) -> bool:
    """Return whether a block shows the last line of `make test`."""
    return block.language == "output" and " passed, " in block.text


def check_demo(printed: str) -> int:
    """Compare the output of `make demo` that README shows with a real one."""
    (shown,) = (block for block in blocks(ROOT / "README.md") if is_demo_output(block))
    wrong = output_problems(shown.text, printed[printed.index("Unseen concepts") :], shown.line)
    print("\n".join(wrong) or "README shows the output of the demo")
    return 1 if wrong else 0


def main() -> int:
    if sys.argv[1:2] == ["--demo"]:
        return check_demo(Path(sys.argv[2]).read_text(encoding="utf-8"))
    for page in PAGES if sys.argv[1:2] == ["--wrap"] else ():
        page.write_text(wrap(page.read_text(encoding="utf-8")), encoding="utf-8")
    wrong = [f"{page.relative_to(ROOT)}: {problem}" for page in PAGES for problem in problems(page)]
    left_out = sum(bool(block.not_run) for page in PAGES for block in blocks(page))
    if left_out > MOST_NOT_RUN:
        wrong.append(f"{left_out} examples are marked as not run; {MOST_NOT_RUN} may be")
    print(
        "\n".join(wrong) or f"{len(PAGES)} pages: links lead to files, examples parse, {left_out} of them are not run"
    )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
