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
from unseen.core.run_record import Dropped, LoadedModel, RunRecord, SearchRecord, SplitCounts
from unseen.results import ResultsDatabase
from unseen.results.connection import MIGRATIONS

FIXTURES = Path(__file__).resolve().parent.parent / "tests" / "fixtures"


def results() -> list[Result]:
    """Return two models and seeds, a failure, a cell computed twice, odd floats, shared values and run records."""
    found = [
        Result(
            Cell("probe", model, "packaged:grocery", {"seed": seed, "shots": "all", "solver": "fast"}, "a1b2c3d4"),
            {"top1": base + seed / 3000, "top5": base + 0.1, "top1_low": base - 0.05, "top1_high": base + 0.05},
            seconds=1 / 3,
            sweep=({"c": 0.1, "value": 0.5}, {"c": 1.0, "value": base}),
            details={"classes": 14, "chance": 1 / 14},
            record=RunRecord(dropped=(Dropped("image", "train/bad.jpg", "truncated"),)),
            environment={"python": "3.11.7", "unseen": "0.1.0"},
        )
        for model, base in (("packaged:efficientnet-lite0", 0.7), ("random:resnet18", 0.2))
        for seed in (22, 37)
    ]
    odd = {"nan": math.nan, "infinity": math.inf, "minus_infinity": -math.inf, "minus_zero": -0.0, "tiny": 5e-324}
    found.append(Result(Cell("probe", "odd", "packaged:grocery", {"seed": 22}), odd))
    concepts = [{"id": f"n{number:08d}", "name": f"concept {number}"} for number in range(40)]
    parameters = {"seed": 22, "level": "L1", "shots": "all"}
    cell = Cell("cog", "long", "packaged:emoji", parameters, "weights+data", "1 fast.1")
    lost = RunRecord(
        {"test": SplitCounts(480, 440, expected=500)},
        classes_given=41,
        classes_used=40,
        dropped=tuple(Dropped("image", f"test/{number}.jpg", "truncated", "test") for number in range(40)),
        model=LoadedModel(file="a.pth", network="teacher", alternatives=("student",), architecture="resnet50"),
        search=SearchRecord(18, {"c": 1e8}),
        provenance="own sample",
        notes=("a note",),
    )
    trials = tuple({"c": 10.0**power, "value": 0.5} for power in range(-9, 9))
    found.append(Result(cell, {"top1": 0.5}, sweep=trials, details={"concepts": concepts, "classes": 40}, record=lost))
    again = dataclasses.replace(cell, parameters={**parameters, "seed": 37})
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
    connection.execute("VACUUM")
    connection.close()
    print(f"wrote {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
