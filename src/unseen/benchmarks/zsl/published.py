"""The tables of the zero-shot evaluation, as printed, and what follows from them.

Source:     Xian, Lampert, Schiele & Akata, TPAMI 2018, Tables 1 to 6; data in `gbu.toml`
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

from unseen.core.errors import UnknownNameError
from unseen.core.records import Result

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
        """One number, or None where the table does not have it."""
        if row not in self.rows or column not in self.columns:
            return None
        number = self.rows[row][self.columns.index(column)]
        return None if math.isnan(number) else number

    def column(self, name: str) -> dict[str, float]:
        """The numbers of a column by row, dashes left out."""
        if name not in self.columns:
            raise UnknownNameError(f"column of Table {self.number}", name, self.columns)
        return {row: value for row in self.rows if (value := self.value(row, name)) is not None}


@cache
def _content() -> dict[str, Any]:
    return tomllib.loads((files("unseen.benchmarks.zsl") / "published.toml").read_text(encoding="utf-8"))


def source() -> str:
    """What to cite."""
    return str(_content()["source"])


@cache
def table(number: int) -> PublishedTable:
    """Table 1 to 6 of the paper."""
    name = f"table{number}"
    if name not in _content():
        raise UnknownNameError("table of the zero-shot paper", str(number), [str(n) for n in range(1, 7)])
    found = _content()[name]
    rows = {row: tuple(float(v) for v in values) for row, values in found["rows"].items()}
    return PublishedTable(number, found["caption"], tuple(found["columns"]), rows)


def published_value(dataset: str, method: str, metric: str, split: str) -> float | None:
    """What the paper prints for a cell, as a fraction.

    Args:
        dataset: an id such as `xlsa17:CUB`, or a name as in the tables.
        method: a name as in the tables.
        metric: "zsl" (Table 3), "ts", "tr" or "H" (Table 6, PS only).
        split: "PS" or "SS".
    """
    name = _name(dataset)
    if metric == "zsl":
        found = table(3).value(method, f"{name} {split}")
    else:
        found = table(6).value(method, f"{name} {metric}") if split == "PS" else None
    return None if found is None else found / 100


def _name(dataset: str) -> str:
    """A dataset as the tables call it."""
    name = dataset.partition("?")[0].rpartition(":")[2]
    return "aPY" if name.upper() == "APY" else name


def printed_beside(result: Result, *, across: bool = False) -> bool:
    """Whether the paper's numbers may stand beside a result: its attributes, features, split and protocol.

    The features are known by their name and dimension: their digest was never at hand.

    Args:
        across: whether it may have been tested on another dataset, as in Table 4.
    """
    cell, details = result.cell, result.details
    return (
        cell.model == MODEL
        and details.get("feature_dimensions") == DIMENSIONS
        and details.get("embedding") == "attributes"
        and details.get("splits_digest") == KNOWN_SPLITS.get(_name(cell.dataset))
        and not cell.parameters["calibration"]
        and (across or not cell.parameters.get("test_on"))
    )


def printed_value(result: Result, metric: str) -> float | None:
    """What the paper prints for what a result is of, as a fraction; None where the two are not the same thing."""
    if not printed_beside(result):
        return None
    return published_value(
        result.cell.dataset, result.cell.parameters["method"], metric, result.cell.parameters["split"]
    )


def observations(metric: str, split: str = "PS") -> dict[str, list[float]]:
    """Per method its numbers over the five datasets, for ranking; methods with a gap are left out.

    Args:
        metric: "zsl" from Table 3, or "ts", "tr", "H" from Table 6.
        split: of "zsl".
    """
    if metric not in ("zsl", "ts", "tr", "H"):
        raise UnknownNameError("metric of the zero-shot paper", metric, ("zsl", "ts", "tr", "H"))
    chosen = table(3) if metric == "zsl" else table(6)
    columns = [f"{dataset} {split if metric == 'zsl' else metric}" for dataset in DATASETS]
    found = {row: [chosen.value(row, column) for column in columns] for row in chosen.rows}
    return {row: [v for v in values if v is not None] for row, values in found.items() if None not in values}


def cross_dataset_pairs() -> tuple[list[float], list[float]]:
    """The 24 pairs of Table 4 with the same test set: trained on AWA1, and trained on AWA2."""
    columns = table(4)
    trained_on_awa1 = [*columns.column("AWA1:AWA2").values(), *columns.column("AWA1:AWA1").values()]
    trained_on_awa2 = [*columns.column("AWA2:AWA2").values(), *columns.column("AWA2:AWA1").values()]
    return trained_on_awa1, trained_on_awa2
