"""Store tables of long runs in docs/measured.json, and write them to the pages of the documentation.

    python -m tools.record                  put every kept table on its page
    python -m tools.record calibration      run its commands again, keep the table that they print, put it on its page
    python -m tools.record --list           names, pages, commands, when they ran

A command prints its table in Markdown; its other lines are ignored. Rows of several commands share one header.
`tests/test_docs_measured.py` compares the pages with the file.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
KEPT = ROOT / "docs" / "measured.json"


def mark(name: str, entry: dict[str, Any]) -> str:
    """The line above a table."""
    return f"<!-- made by: tools/record.py {name} ({'; '.join(entry['commands'])}; {entry['when']}) -->"


def on_page(text: str, name: str, entry: dict[str, Any]) -> str:
    """A page with a table in its place."""
    lines = [mark(name, entry), *entry["table"]]
    placed, count = re.subn(
        rf"<!-- made by: tools/record\.py {re.escape(name)} .*-->\n(?:\|.*\n)+",
        lambda _: "\n".join(lines) + "\n",
        text,
    )
    if count != 1:
        raise SystemExit(f"{entry['page']} has {count} places for the table {name!r}; it needs one.")
    return placed


def tables(printed: str) -> list[list[str]]:
    """The Markdown tables in what a command has printed."""
    found: list[list[str]] = [[]]
    for line in printed.splitlines():
        if line.startswith("|"):
            found[-1].append(line.rstrip())
        elif found[-1]:
            found.append([])
    return [table for table in found if len(table) > 2]


def run(command: str) -> str:
    """What a command prints; that it missed a target is not a reason not to keep its table."""
    words = [os.path.expandvars(word) for word in shlex.split(command)]
    words = [sys.executable, *words[1:]] if words[0] == "python" else words
    done = subprocess.run(words, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)
    print(done.stdout, flush=True)
    return done.stdout


def measured(entry: dict[str, Any]) -> list[str]:
    """The table of an entry, from new runs of its commands."""
    header, rows = entry["table"][:2], []
    for command in entry["commands"]:
        same = [table for table in tables(run(command)) if table[0] == header[0]]
        if not same:
            raise SystemExit(f"{command} printed no table that begins with {header[0]}")
        rows += same[-1][2:]
    return [*header, *rows]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    kept: dict[str, dict[str, Any]] = json.loads(KEPT.read_text(encoding="utf-8"))
    parser.add_argument("names", nargs="*", help=f"some of {', '.join(kept)}")
    parser.add_argument("--list", action="store_true")
    options = parser.parse_args()
    if unknown := sorted({*options.names} - {*kept}):
        parser.error(f"there is no table {unknown[0]!r}; there are {', '.join(kept)}")
    if options.list:
        for name, entry in kept.items():
            print(f"{name:14} {entry['page']:20} {'; '.join(entry['commands'])} ({entry['when']})")
        return 0
    for name in options.names:
        kept[name] |= {"table": measured(kept[name]), "when": f"{datetime.now(UTC):%-d %B %Y}"}
        KEPT.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    for name, entry in kept.items():
        page = ROOT / entry["page"]
        page.write_text(on_page(page.read_text(encoding="utf-8"), name, entry), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
