"""The command: `python -m tools.fuzz --inputs 2000` (per reader), or `make fuzz`.

`--entries` runs the public entry points instead of single readers, `--inputs` per entry point. `--state FILE` lists
finished batches in a file; the same command resumes after them, and `--table` prints what the file lists.

Prints a table of counts per reader or entry point and, for each bad input, its number; `--reader NAME --save NUMBER
FOLDER` writes that input and the valid example. The exit code is 1 if an input had any outcome but a result or an
`UnseenError` within the limits of memory and time.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable, Iterator
from itertools import groupby
from pathlib import Path

from tools.fuzz.entries import entry_points
from tools.fuzz.readers import all_readers
from tools.fuzz.runner import BATCH, Count, Reader, fuzz, make_input, read_state


def main() -> int:
    parser = argparse.ArgumentParser(prog="make fuzz", description=__doc__)
    parser.add_argument("--inputs", type=int, default=2000, help="per reader")
    parser.add_argument("--first", type=int, default=0, help="number of the first input: others than last time")
    parser.add_argument("--reader", action="append", help="only this one; may be given several times")
    parser.add_argument("--entries", action="store_true", help="the public entry points")
    parser.add_argument("--state", type=Path, help="file of finished batches")
    parser.add_argument("--batch", type=int, default=BATCH, help="inputs per process; the same whenever a file resumes")
    parser.add_argument("--table", action="store_true", help="run nothing; print the batches of --state")
    parser.add_argument("--save", nargs=2, metavar=("NUMBER", "FOLDER"), help="write one input and stop")
    asked = parser.parse_args()
    os.environ.setdefault("UNSEEN_HOME", "/nonexistent/unseen")  # nothing that is noted may outlive an input
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    if asked.table:
        return _show(_stored(asked.state))
    readers = entry_points(asked.reader or ()) if asked.entries else all_readers()
    readers = [reader for reader in readers if not asked.reader or {reader.name, reader.entry} & set(asked.reader)]
    if asked.save:
        number, folder = int(asked.save[0]), Path(asked.save[1])
        folder.mkdir(parents=True, exist_ok=True)
        for reader in readers:
            name, damaged = make_input(reader, number)
            for each, content in {**reader.files, name: damaged}.items():
                (folder / each).parent.mkdir(parents=True, exist_ok=True)
                (folder / each).write_bytes(content)
        return 0
    return _show(_run(list(readers), asked))


def _run(readers: list[Reader], asked: argparse.Namespace) -> Iterator[Count]:
    """Yield the outcome by entry point, or by reader."""
    for name, group in groupby(readers, key=lambda reader: reader.entry or reader.name):
        forms, count = list(group), Count(name)
        each = -(-asked.inputs // len(forms))
        if asked.state:  # whole batches, so that a longer run uses those of a shorter one
            each = -(-each // asked.batch) * asked.batch
        for form in fuzz(forms, each, asked.first, asked.state, asked.batch):
            count.add(form)
        yield count


def _stored(state: Path) -> Iterable[Count]:
    """Return the outcome by entry point of the batches in a file."""
    found: dict[str, Count] = {}
    for count in read_state(state).values():
        name = count.name.partition(", ")[0]
        found.setdefault(name, Count(name)).add(count)
    return [found[name] for name in sorted(found)]


def _show(counts: Iterable[Count]) -> int:
    """Print a table; return the exit code."""
    total = bad = 0
    print(f"| {'entry point or reader':28} | inputs | read | refused | foreign | crashes | hangs | peak MB |")
    print("|---|---|---|---|---|---|---|---|")
    for count in counts:
        found = (count.inputs, count.read, count.refused, len(count.foreign), len(count.crashes), len(count.hangs))
        numbers = " | ".join(f"{number:,}" for number in found)
        print(f"| {count.name:28} | {numbers} | {count.peak // 1000} |", flush=True)
        for line in [*count.foreign[:8], *count.crashes[:5], *count.hangs[:5]]:
            print(f"    {line}", file=sys.stderr, flush=True)
        total, bad = total + count.inputs, bad + count.bad
    print(f"\n{total:,} inputs, {bad:,} bad.")
    return 1 if bad else 0


if __name__ == "__main__":
    raise SystemExit(main())
