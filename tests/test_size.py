"""Upper limits for the size of the source code, and plain words in the source and in `--help`.

Lower a limit whenever the code allows it. `python -m tools.size` prints the numbers.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tools.size import ROOT, SOURCE, FileSize, measure

from unseen.cli import main
from unseen.cli.application import COMMANDS, load_command

TOKENS = 370_000
FILES = 308
OWN_IMPORTS_IN_FUNCTIONS = 47
ANYS = 481
TYPE_IGNORES = 11

PHRASES = (
    "is said", "are said", "is told", "told apart", "nobody", "somebody", "whoever", "goes on where", "for want of",
    "left out in turn", "asked for", "as it stands", "takes part", "is no rival", "what is there",
)  # fmt: skip
PHRASE = re.compile("|".join(rf"\b{phrase}\b".replace(" ", r"\s+") for phrase in PHRASES), re.IGNORECASE)


@pytest.fixture(scope="module")
def sizes() -> list[FileSize]:
    return measure()


def test_code_stays_within_the_token_limit(sizes: list[FileSize]) -> None:
    assert sum(size.tokens for size in sizes) <= TOKENS


def test_code_stays_within_the_file_limit(sizes: list[FileSize]) -> None:
    assert len(sizes) <= FILES


def test_few_functions_import_own_modules(sizes: list[FileSize]) -> None:
    assert sum(size.own_imports for size in sizes) <= OWN_IMPORTS_IN_FUNCTIONS


def test_few_types_are_unknown(sizes: list[FileSize]) -> None:
    assert sum(size.anys for size in sizes) <= ANYS
    assert sum(size.ignores for size in sizes) <= TYPE_IGNORES


def test_docstrings_comments_and_imports_are_not_counted(tmp_path: Path) -> None:
    lines = ['"""Module.', "", 'Text."""', "import os", "def f():", '    """Text."""', "    from unseen import g  # a"]
    (tmp_path / "a.py").write_text("\n".join([*lines, "    return g", ""]))
    assert measure(tmp_path) == [FileSize("a.py", "(top)", tokens=7, own_imports=1, anys=0, ignores=0)]


def test_texts_use_plain_words() -> None:
    folders = [SOURCE, *(ROOT / name for name in ("tests", "tools", "bench", "docs", "examples"))]
    kinds = {".py", ".toml", ".md", ".js", ".html", ".css"}
    paths = [path for folder in folders for path in folder.rglob("*") if path.suffix in kinds]
    found = {
        str(path.relative_to(ROOT)): sorted(set(phrases))
        for path in [*paths, *ROOT.glob("*.md")]
        if path != Path(__file__) and (phrases := PHRASE.findall(path.read_text(encoding="utf-8")))
    }
    assert len(paths) > 800 and not found


def test_docstrings_are_imperative() -> None:
    command = [sys.executable, "-m", "ruff", "check", "--select", "D401", "--output-format", "concise", str(SOURCE)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr


def commands() -> list[list[str]]:
    """Return the words of every command and group."""

    def walk(command: object, words: list[str]) -> Iterator[list[str]]:
        yield words
        for name, inner in getattr(command, "commands", {}).items():
            yield from walk(inner, [*words, name])

    return [[], *(found for name in COMMANDS for found in walk(load_command(name), [name]))]


def test_help_uses_plain_words(capsys: pytest.CaptureFixture[str]) -> None:
    found = {}
    assert len(commands()) > 20
    for words in commands():
        assert main([*words, "--help"]) == 0
        text = re.sub(r"[\s│]+", " ", capsys.readouterr().out)
        if phrases := set(PHRASE.findall(text)):
            found[" ".join(words)] = phrases
    assert not found
