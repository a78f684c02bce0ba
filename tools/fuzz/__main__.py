"""The command: `python -m tools.fuzz --inputs 2000` (per reader), or `make fuzz`.

Prints a table of counts per reader and, for each bad input, its number; `--reader NAME --save NUMBER FOLDER` writes
that input, and the sound example, to look at. Leaves with 1 where anything but an error of ours came out.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

from tools.fuzz.readers import all_readers
from tools.fuzz.runner import fuzz, make_input


def main() -> int:
    parser = argparse.ArgumentParser(prog="make fuzz", description=__doc__)
    parser.add_argument("--inputs", type=int, default=2000, help="per reader")
    parser.add_argument("--first", type=int, default=0, help="number of the first input: others than last time")
    parser.add_argument("--reader", action="append", help="only this one; may be given several times")
    parser.add_argument("--save", nargs=2, metavar=("NUMBER", "FOLDER"), help="write one input and stop")
    asked = parser.parse_args()
    os.environ.setdefault("UNSEEN_HOME", "/nonexistent/unseen")  # nothing that is noted may outlive an input
    readers = [reader for reader in all_readers() if not asked.reader or reader.name in asked.reader]
    if asked.save:
        number, folder = int(asked.save[0]), Path(asked.save[1])
        folder.mkdir(parents=True, exist_ok=True)
        for reader in readers:
            for name, content in reader.files.items():
                (folder / name).write_bytes(content)
            (folder / next(iter(reader.files))).write_bytes(make_input(reader, number))
        return 0
    began, total, bad = time.process_time(), 0, 0
    print(f"| {'reader':18} | inputs | read | refused | foreign | crashes | hangs | peak MB |")
    print("|---|---|---|---|---|---|---|---|")
    for count in fuzz(readers, asked.inputs, asked.first):
        found = (count.inputs, count.read, count.refused, len(count.foreign), len(count.crashes), len(count.hangs))
        print(
            f"| {count.name:18} | " + " | ".join(f"{number:,}" for number in found) + f" | {count.peak // 1000} |",
            flush=True,
        )
        for line in [*count.foreign[:5], *count.crashes[:5], *count.hangs[:5]]:
            print(f"    {line}", file=sys.stderr, flush=True)
        total, bad = total + count.inputs, bad + count.bad
    print(f"\n{total:,} inputs, {bad:,} bad, {time.process_time() - began:.0f} s of this process.")
    return 1 if bad else 0


if __name__ == "__main__":
    raise SystemExit(main())
