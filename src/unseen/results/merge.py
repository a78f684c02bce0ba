"""Results of several homes and exported files, together.

A source is a home folder, a `results.sqlite`, or what `unseen results --json` printed. Every row of an export is
checked: a cell's id follows from what it says it is, so that a row that was changed on the way is refused.
"""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from unseen.core.errors import DataError, StoreError, StoreWarning
from unseen.core.guard import guarded
from unseen.core.records import Cell, Result, read_details
from unseen.results.database import FILE_NAME, ResultsDatabase
from unseen.results.rows import check_content

_LARGEST = 2 << 30


@dataclass(frozen=True)
class Merged:
    """Results of several sources, the newest of each cell, in order of their dates.

    Attributes:
        sources: by name, how many results each gave.
        repeated: cells that several sources have.
        differing: those of them whose metrics are not the same to 1e-4.
    """

    results: tuple[Result, ...]
    sources: dict[str, int]
    repeated: int = 0
    differing: tuple[str, ...] = ()


def merge(sources: Sequence[Path]) -> Merged:
    """Read sources and keep the newest success of each cell.

    Raises:
        UnseenError: one that is not there, not readable, or not what it says.
    """
    found: dict[str, list[tuple[str, Result]]] = {}
    counts: dict[str, int] = {}
    for source in sources:
        own = read_source(source)
        counts[str(source)] = len(own)
        for recorded, result in own:
            found.setdefault(result.cell.id, []).append((recorded, result))
    newest = sorted((max(each, key=lambda pair: pair[0]) for each in found.values()), key=lambda pair: pair[0])
    repeated = {key: each for key, each in found.items() if len(each) > 1}
    differing = tuple(key for key, each in repeated.items() if not _agree([result for _, result in each]))
    return Merged(tuple(result for _, result in newest), counts, len(repeated), differing)


def read_source(path: Path) -> list[tuple[str, Result]]:
    """The newest successes of a source, each with its date."""
    if path.is_dir():
        path = path / FILE_NAME
    if path.suffix != ".json":
        with ResultsDatabase(path, read_only=True) as database:
            return [(r.recorded, r) for r in database.latest(include_failed=False)]
    with guarded(path, "results that `unseen results --json` printed", error=StoreError):
        if path.stat().st_size > _LARGEST:
            raise DataError(f"{path} is larger than 2 GB. Export one study at a time, with --study.")
        rows = json.loads(path.read_text(encoding="utf-8"))
        return _results(rows, path)


def _results(rows: Any, path: Path) -> list[tuple[str, Result]]:
    cells: dict[str, tuple[str, Result]] = {}
    invalid: set[str] = set()
    metrics: dict[str, dict[str, float]] = {}
    for row in _checked(rows, path):
        if row["error"]:
            continue
        name = row["cell"]
        if name in invalid:
            continue
        if name not in cells:
            cell = Cell.from_dict({key: row[key] for key in _CELL})
            if cell.id != name:
                raise StoreError(
                    f"{path}: the row of {cell.model} on {cell.dataset} is not what its id {name!r} says: it was "
                    "changed after the export, or written by another version. Export again."
                )
            details, record = read_details(row.get("details", {}), row.get("record", {}))
            try:
                check_content(cell, details)
            except ValueError as error:
                invalid.add(name)
                warnings.warn(f"the result of cell {name} in {path} is left out: {error}.", StoreWarning, stacklevel=5)
                continue
            result = Result(
                cell,
                metrics.setdefault(name, {}),
                seconds=float(row["seconds"]),
                details=details,
                environment=row.get("environment", {}),
                record=record,
            )
            cells[name] = (str(row.get("recorded", "")), result)
        metrics[name][str(row["metric"])] = float(row["value"])
    return list(cells.values())


_CELL = ("benchmark", "model", "dataset", "parameters", "revision", "version")


def _checked(rows: Any, path: Path) -> list[dict[str, Any]]:
    """Rows whose fields are of the kinds that an export gives them."""
    kinds = {**dict.fromkeys(_CELL, str), "parameters": dict, "cell": str}
    for row in rows if isinstance(rows, list) else [None]:
        if not isinstance(row, dict) or any(not isinstance(row.get(name), kind) for name, kind in kinds.items()):
            raise StoreError(f"{path} is not a list of results as `unseen results --json` prints it.")
        if any(not isinstance(row.get(name, {}), dict) for name in ("details", "environment", "record")):
            raise StoreError(f"{path}: details, environment and record of {row['model']} must be mappings.")
    return list(rows)


def _agree(results: Sequence[Result]) -> bool:
    first = results[0].metrics
    return all(
        set(each.metrics) == set(first) and all(_same(each.metrics[n], first[n]) for n in first) for each in results[1:]
    )


def _same(one: float, other: float) -> bool:
    """Whether two values are alike to 1e-4; what is not finite is like itself alone."""
    if not (math.isfinite(one) and math.isfinite(other)):
        return one == other or (math.isnan(one) and math.isnan(other))
    return abs(one - other) <= 1e-4 * max(1.0, abs(other))
