"""The tables of NeuCRaB, as printed: how well eleven scores ranked three groups of checkpoints.

Source:     Li et al., "Ranking Neural Checkpoints", CVPR 2021, Tables 1 to 3; data in `published.toml`
Notes:      means over four tasks (Caltech101, Flowers102, Sun397, Patch Camelyon), so Recall@k is a multiple of 25 %.
            GFLOPs do not include the forward pass over the training images, which every method needs.
"""

from __future__ import annotations

import math
import tomllib
from dataclasses import dataclass, fields
from functools import cache
from importlib.resources import files
from typing import Any

from unseen.core.errors import UnknownNameError
from unseen.core.records import Cell, Result

GROUPS = ("I", "II", "III")


@dataclass(frozen=True)
class PublishedTable:
    """A table of the paper.

    Attributes:
        group: of checkpoints: "I", "II" or "III".
        checkpoints: how many are in it.
        forward_gflops: of the forward pass that all methods share.
    """

    number: int
    group: str
    caption: str
    checkpoints: int
    forward_gflops: float


def published_table(group: str) -> PublishedTable:
    """Return what the paper states about the table of a group."""
    found = _table(group)
    return PublishedTable(**{field.name: found[field.name] for field in fields(PublishedTable)})


def published_results(group: str) -> list[Result]:
    """Return the rows of a table as results: the score in place of a model, shares and correlations as fractions.

    A dash of the paper is a missing metric.
    """
    found = []
    for score, values in _table(group)["rows"].items():
        printed = dict(zip(_content()["metrics"], values, strict=True))
        known = {name: float(value) for name, value in printed.items() if not math.isnan(value)}
        metrics = {name: value if name == "paper_gflops" else value / 100 for name, value in known.items()}
        cell = Cell("neucrab", score, f"NeuCRaB group {group}", {"table": _table(group)["number"]})
        found.append(Result(cell, metrics=metrics, details={"source": source()}))
    return found


def _table(group: str) -> dict[str, Any]:
    if group not in GROUPS:
        raise UnknownNameError("NeuCRaB group", group, GROUPS)
    found: dict[str, Any] = next(table for table in _content()["tables"] if table["group"] == group)
    return found


def source() -> str:
    """Return what to cite."""
    return str(_content()["source"])


@cache
def _content() -> dict[str, Any]:
    return tomllib.loads((files("unseen.benchmarks.rank") / "published.toml").read_text(encoding="utf-8"))
