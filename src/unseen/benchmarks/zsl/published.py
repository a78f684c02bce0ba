"""The tables of the zero-shot evaluation, as printed and as results.

Source:     Xian, Lampert, Schiele & Akata, TPAMI 2018, Tables 1 to 6; data in `published.toml`
Notes:      H of Table 6 follows from its ts and tr to 0.1 in all cells but IAP on SUN (1.95 for 1.8) and SAE on aPY
            (0.80 for 0.9). The paired t-test that the text describes under Table 4 gives p = 0.35 from the printed
            figures; the text says 0.007
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from unseen.benchmarks.zsl.details import ALL_FOLDS, BENCHMARK, details_of, parameters_of
from unseen.core.errors import UnknownNameError
from unseen.core.records import Cell, Result
from unseen.core.run_record import RunRecord
from unseen.results.info import MetricStyle
from unseen.results.table import Table, TableCell

IMAGENET = "imagenet:21k"
DATASETS = ("SUN", "CUB", "AWA1", "AWA2", "aPY")
#: The model and the dimension of the features of the release, in `res101.mat`.
MODEL, DIMENSIONS = "xlsa17:res101", 2048
#: Digests of the attributes and locs that the release has, with the counts of Table 1.
KNOWN_SPLITS = {
    "SUN": "401cbca6aa64e791",
    "CUB": "064a2cf484f6ab8f",
    "AWA1": "b6903491f2d0e820",
    "AWA2": "0af132626e47da33",
    "aPY": "6e6a990c5010668f",
}


@dataclass(frozen=True)
class PublishedTable:
    """A table of the paper.

    Attributes:
        rows: name of a method, or of a dataset in Table 1, to one number per column; NaN where the paper has a dash.
    """

    number: int
    caption: str
    columns: tuple[str, ...]
    rows: Mapping[str, tuple[float, ...]]

    def value(self, row: str, column: str) -> float | None:
        """Return one number, or None if the table does not have it."""
        if row not in self.rows or column not in self.columns:
            return None
        number = self.rows[row][self.columns.index(column)]
        return None if math.isnan(number) else number


@cache
def _content() -> dict[str, Any]:
    return tomllib.loads((files("unseen.benchmarks.zsl") / "published.toml").read_text(encoding="utf-8"))


def source() -> str:
    """Return the citation."""
    return str(_content()["source"])


@cache
def table(number: int) -> PublishedTable:
    """Return Table 1 to 6 of the paper."""
    name = f"table{number}"
    if name not in _content():
        raise UnknownNameError("table of the zero-shot paper", str(number), [str(n) for n in range(1, 7)])
    found = _content()[name]
    rows = {row: tuple(float(v) for v in values) for row, values in found["rows"].items()}
    return PublishedTable(number, found["caption"], tuple(found["columns"]), rows)


@cache
def published_results() -> Mapping[tuple[str, str, str, str], Result]:
    """Return the numbers of Tables 3 to 6 as results, by (training set, test set, method, split).

    Sets are named as in the tables. Table 4 repeats Table 3 where both sets are the same.
    """
    metrics: dict[tuple[str, str, str, str], dict[str, float]] = {}
    for number, metric in ((3, "zsl"), (4, "zsl"), (5, "zsl"), (6, "")):
        for method, column in ((row, column) for row in table(number).rows for column in table(number).columns):
            value = table(number).value(method, column)
            home, _, end = column.partition(" " if number in (3, 6) else ":")
            place = {
                3: (home, home, method, end),
                4: (home, end, method, "PS"),
                5: (IMAGENET, IMAGENET, method, column),
                6: (home, home, method, "PS"),
            }[number]
            if value is not None:
                metrics.setdefault(place, {})[metric or end] = value / 100
    return {place: _published_result(place, found) for place, found in metrics.items()}


def _published_result(place: tuple[str, str, str, str], metrics: Mapping[str, float]) -> Result:
    home, target, method, split = place
    parameters = {"method": method, "split": split, "fold": ALL_FOLDS, "calibration": 0.0}
    parameters |= {"test_on": _dataset(target)} if target != home else {}
    dataset = _dataset(home) + ("?split=SS" if split == "SS" else "")
    return Result(Cell(BENCHMARK, MODEL, dataset, parameters), metrics, record=RunRecord(source=source()))


def _dataset(name: str) -> str:
    return name if name == IMAGENET else f"xlsa17:{name}"


def published_value(dataset: str, method: str, metric: str, split: str, test_on: str = "") -> float | None:
    """Return the number of the paper for a cell, as a fraction; None if it has none.

    Args:
        dataset: an id such as `xlsa17:CUB`, or a name as in the tables.
        method: a name as in the tables.
        metric: "zsl" (Tables 3 to 5), "ts", "tr" or "H" (Table 6, PS only).
        split: "PS" or "SS".
        test_on: the test set, if it is another one (Table 4).
    """
    found = published_results().get((_name(dataset), _name(test_on or dataset), method, split))
    return None if found is None else found.metrics.get(metric)


def printed_tables(number: int, most: int = 6) -> list[Table]:
    """Return Table 2 to 6 as printed, Table 5 with its two decimals; in parts of at most `most` columns."""
    printed = table(number)
    style = MetricStyle("printed", "", percent=True, decimals=2 if number == 5 else 1)
    found = []
    for start in range(0, len(printed.columns), most):
        columns = printed.columns[start : start + most]
        rows = []
        for name in printed.rows:
            values = (printed.value(name, column) for column in columns)
            cells = (TableCell() if v is None else TableCell(value=v / 100, metric=style) for v in values)
            rows.append([TableCell(name, name.lower()), *cells])
        caption = f"Table {number}: {printed.caption} (%)"
        found.append(Table(caption, ["method", *columns], rows, range(1, 1 + len(columns))))
    return found


def _name(dataset: str) -> str:
    """Return the name of a dataset in the tables."""
    if dataset == IMAGENET:
        return dataset
    name = dataset.partition("?")[0].rpartition(":")[2]
    return "aPY" if name.upper() == "APY" else name


def printed_beside(result: Result, *, across: bool = False) -> bool:
    """Return whether a result has the attributes, features, split and protocol of the paper.

    The features are identified by their name and dimension, because their digest is unknown.

    Args:
        across: whether it may have been tested on another dataset, as in Table 4.
    """
    cell, details, parameters = result.cell, details_of(result), parameters_of(result)
    return (
        cell.model == MODEL
        and details.feature_dimensions == DIMENSIONS
        and details.embedding == "attributes"
        and details.splits_digest == KNOWN_SPLITS.get(_name(cell.dataset))
        and not parameters.calibration
        and (across or not parameters.test_on)
    )


def printed_value(result: Result, metric: str, *, across: bool = False) -> float | None:
    """Return the number of the paper for a result, as a fraction; None if the paper has none or its setting differs."""
    if not printed_beside(result, across=across):
        return None
    parameters = parameters_of(result)
    return published_value(result.cell.dataset, parameters.method, metric, parameters.split, parameters.test_on)
