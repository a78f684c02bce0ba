"""Freeze a results database of the present schema version into tests/fixtures.

Run it once when the schema version goes up, and never again for that version: a frozen database must always load.
It refuses to write over one that is there.
"""

from __future__ import annotations

import dataclasses
import math
import sqlite3
import sys
from pathlib import Path

from unseen.core.records import Cell, Result
from unseen.results import ResultsDatabase
from unseen.results.schema import MIGRATIONS

FIXTURES = Path(__file__).resolve().parent.parent / "tests" / "fixtures"


def results() -> list[Result]:
    """Two models, two seeds, one failure, one cell computed twice, floats that are easily lost, and values shared."""
    found = [
        Result(
            Cell("probe", model, "packaged:grocery", {"seed": seed, "shots": "all", "solver": "fast"}, "a1b2c3d4"),
            {"top1": base + seed / 3000, "top5": base + 0.1, "top1_low": base - 0.05, "top1_high": base + 0.05},
            seconds=1 / 3,
            sweep=({"c": 0.1, "value": 0.5}, {"c": 1.0, "value": base}),
            details={"classes": 14, "chance": 1 / 14, "skipped": {"train/bad.jpg": "truncated"}},
            environment={"python": "3.11.7", "unseen": "0.1.0"},
        )
        for model, base in (("packaged:efficientnet-lite0", 0.7), ("random:resnet18", 0.2))
        for seed in (22, 37)
    ]
    odd = {"nan": math.nan, "infinity": math.inf, "minus_infinity": -math.inf, "minus_zero": -0.0, "tiny": 5e-324}
    found.append(Result(Cell("probe", "odd", "packaged:grocery", {"seed": 22}), odd))
    concepts = [{"id": f"n{number:08d}", "name": f"concept {number}"} for number in range(40)]
    cell = Cell("cog", "long", "packaged:emoji", {"seed": 22, "level": "L1"}, "weights+data", "1 fast.1")
    trials = tuple({"c": 10.0**power, "value": 0.5} for power in range(-9, 9))
    found.append(Result(cell, {"top1": 0.5}, sweep=trials, details={"concepts": concepts, "classes": 40}))
    again = dataclasses.replace(cell, parameters={"seed": 37, "level": "L1"})
    found.append(Result(again, {"top1": 0.6}, details={"concepts": concepts, "classes": 40}))
    found.append(Result(Cell("probe", "broken", "packaged:emoji", {"seed": 22}), error="no images: 'a' is empty"))
    found.append(Result(found[0].cell, {"top1": 0.75}, details={"note": "computed again"}))
    return found


def main() -> int:
    path = FIXTURES / f"results-v{len(MIGRATIONS)}.sqlite"
    if path.exists():
        print(f"{path} is frozen already; a released schema never changes")
        return 1
    FIXTURES.mkdir(parents=True, exist_ok=True)
    with ResultsDatabase(path) as database:
        for result in results():
            database.append("frozen", result)
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA journal_mode = DELETE")  # one file, no log beside it
    connection.execute("VACUUM")
    connection.close()
    print(f"wrote {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
