"""The tables of the zero-shot evaluation, as printed and as results.

Source:     Xian, Lampert, Schiele & Akata, TPAMI 2018, Tables 1 to 6; data in `published.toml`
Notes:      H of Table 6 follows from its ts and tr to 0.1 in all cells but IAP on SUN (1.95 for 1.8) and SAE on aPY
            (0.80 for 0.9). The paired t-test that the text describes under Table 4 gives p = 0.35 from the printed
            figures; the text says 0.007
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from itertools import product

from unseen.benchmarks.zsl.details import ALL_FOLDS, BENCHMARK, details_of, parameters_of, short_name
from unseen.core.files import read_toml
from unseen.core.identity import Values
from unseen.core.records import Cell, Result
from unseen.core.run_record import RunRecord
from unseen.results.info import MetricStyle
from unseen.results.table import Table, TableCell

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

    caption: str
    columns: tuple[str, ...]
    rows: Mapping[str, tuple[float, ...]]

    def value(self, row: str, column: str) -> float | None:
        """Return one number, or None if the table does not have it."""
        number = dict(zip(self.columns, self.rows.get(row, ()), strict=False)).get(column, math.nan)
        return None if math.isnan(number) else number


@cache
def _content() -> Values:
    return read_toml("unseen.benchmarks.zsl", "published.toml")


def source() -> str:
    """Return the citation."""
    return str(_content()["source"])


@cache
def table(number: int) -> PublishedTable:
    """Return Table 1 to 6 of the paper."""
    found = _content()[f"table{number}"]
    rows = {row: tuple(map(float, values)) for row, values in found["rows"].items()}
    return PublishedTable(found["caption"], tuple(found["columns"]), rows)


@cache
def published_results() -> Mapping[tuple[str, str, str, str], Result]:
    """Return the numbers of Tables 3 to 6 as results, by (training set, test set, method, split).

    Sets are named as in the tables, ImageNet "21k". Table 4 repeats Table 3 where both sets are the same.
    """
    metrics: dict[tuple[str, str, str, str], dict[str, float]] = {}
    for number in (3, 4, 5, 6):
        for method, column in product(table(number).rows, table(number).columns):
            home, _, end = column.partition(":" if number == 4 else " ")
            place, metric = {
                3: ((home, home, method, end), "zsl"),
                4: ((home, end, method, "PS"), "zsl"),
                5: (("21k", "21k", method, column), "zsl"),
                6: ((home, home, method, "PS"), end),
            }[number]
            if (value := table(number).value(method, column)) is not None:
                metrics.setdefault(place, {})[metric] = value / 100
    found = {}
    for (home, target, method, split), own in metrics.items():
        parameters = {"method": method, "split": split, "fold": ALL_FOLDS, "calibration": 0.0}
        parameters |= {"test_on": f"xlsa17:{target}"} if target != home else {}
        dataset = "imagenet:21k" if home == "21k" else f"xlsa17:{home}{'?split=SS' if split == 'SS' else ''}"
        cell = Cell(BENCHMARK, MODEL, dataset, parameters)
        found[home, target, method, split] = Result(cell, own, record=RunRecord(source=source()))
    return found


def published_at_home() -> list[Result]:
    """Return the results of Tables 3 and 6: methods that were trained and tested on one of the five datasets."""
    found = (result for (home, target, *_), result in published_results().items() if home == target != "21k")
    return sorted(found, key=lambda result: parameters_of(result).split)


def printed_table(number: int) -> Table:
    """Return Table 2 to 6 as printed, Table 5 with its two decimals."""
    printed = table(number)
    style = MetricStyle("printed", "", percent=True, decimals=2 if number == 5 else 1)
    rows = [
        [TableCell(name), *(TableCell() if math.isnan(v) else TableCell(value=v / 100, metric=style) for v in values)]
        for name, values in printed.rows.items()
    ]
    return Table(f"Table {number}: {printed.caption} (%)", ["method", *printed.columns], rows)


def printed_value(result: Result, metric: str) -> float | None:
    """Return the number of the paper for a result, as a fraction; None if the paper has none or its setting differs.

    The setting is the same if attributes, features, split and protocol are. The features are identified by their name
    and dimension, because their digest is unknown.
    """
    cell, details, parameters = result.cell, details_of(result), parameters_of(result)
    home = short_name(cell.dataset)
    place = (home, short_name(parameters.test_on or cell.dataset), parameters.method, parameters.split)
    alike = (
        cell.model == MODEL
        and details.feature_dimensions == DIMENSIONS
        and details.embedding == "attributes"
        and details.splits_digest == KNOWN_SPLITS.get(home)
        and not parameters.calibration
    )
    return published_results()[place].metrics.get(metric) if alike and place in published_results() else None
