"""The command: `python -m tools.fuzz --inputs 2000` (per reader), or `make fuzz`.

`--entries` runs the public entry points instead of single readers, `--inputs` per entry point. `--state FILE` lists
finished batches in a file; the same command resumes after them.

Prints a table of counts per reader or entry point and, for each bad input, its number; `--reader NAME --save NUMBER
FOLDER` writes that input and the valid example. The exit code is 1 if an input had any outcome but a result or an
`UnseenError` within the limits of memory and time.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from itertools import groupby
from pathlib import Path

from tools.fuzz.entries import entry_points
from tools.fuzz.readers import all_readers
from tools.fuzz.runner import Count, fuzz, make_input


def main() -> int:
    parser = argparse.ArgumentParser(prog="make fuzz", description=__doc__)
    parser.add_argument("--inputs", type=int, default=2000, help="per reader")
    parser.add_argument("--first", type=int, default=0, help="number of the first input: others than last time")
    parser.add_argument("--reader", action="append", help="only this one; may be given several times")
    parser.add_argument("--entries", action="store_true", help="the public entry points")
    parser.add_argument("--state", type=Path, help="file of finished batches")
    parser.add_argument("--save", nargs=2, metavar=("NUMBER", "FOLDER"), help="write one input and stop")
    asked = parser.parse_args()
    os.environ.setdefault("UNSEEN_HOME", "/nonexistent/unseen")  # nothing that is noted may outlive an input
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
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
    began, total, bad = time.process_time(), 0, 0
    what = "entry point" if asked.entries else "reader"
    print(f"| {what:22} | inputs | read | refused | foreign | crashes | hangs | peak MB | CPU s |")
    print("|---|---|---|---|---|---|---|---|---|")
    for name, group in groupby(readers, key=lambda reader: reader.entry or reader.name):
        forms = list(group)
        count = Count(name)
        for form in fuzz(forms, -(-asked.inputs // len(forms)), asked.first, asked.state):
            count.add(form)
        found = (count.inputs, count.read, count.refused, len(count.foreign), len(count.crashes), len(count.hangs))
        numbers = " | ".join(f"{number:,}" for number in found)
        print(f"| {name:22} | {numbers} | {count.peak // 1000} | {count.cpu:.0f} |", flush=True)
        for line in [*count.foreign[:8], *count.crashes[:5], *count.hangs[:5]]:
            print(f"    {line}", file=sys.stderr, flush=True)
        total, bad = total + count.inputs, bad + count.bad
    print(f"\n{total:,} inputs, {bad:,} bad, {time.process_time() - began:.0f} s of this process.")
    return 1 if bad else 0


if __name__ == "__main__":
    raise SystemExit(main())
