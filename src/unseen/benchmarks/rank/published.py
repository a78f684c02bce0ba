"""The tables of NeuCRaB, as printed: how well eleven measures ranked three groups of checkpoints.

Source:     Li et al., "Ranking Neural Checkpoints", CVPR 2021, Tables 1 to 3; data in `neucrab.toml`
Notes:      averages over four tasks (Caltech101, Flowers102, Sun397, Patch Camelyon), so Recall@k comes in quarters.
            GFLOPs leave out the forward pass over the training images, which every method needs.
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

GROUPS = ("I", "II", "III")


@dataclass(frozen=True)
class RankingTable:
    """A table of the paper.

    Attributes:
        group: of checkpoints: "I", "II" or "III".
        checkpoints: how many are in it.
        forward_gflops: of the forward pass that all methods share.
        rows: id of a score, as `unseen ls scores` has it, to one number per column; None where the paper has a dash.
    """

    number: int
    group: str
    caption: str
    checkpoints: int
    forward_gflops: float
    columns: tuple[str, ...]
    rows: Mapping[str, Mapping[str, float | None]]


def ranking_table(group: str) -> RankingTable:
    """The table of a group."""
    if group not in GROUPS:
        raise UnknownNameError("NeuCRaB group", group, GROUPS)
    content = _content()
    columns = tuple(content["columns"])
    table = next(table for table in content["tables"] if table["group"] == group)
    rows = {
        name: {c: None if math.isnan(v) else float(v) for c, v in zip(columns, values, strict=True)}
        for name, values in table["rows"].items()
    }
    return RankingTable(
        number=table["number"],
        group=group,
        caption=table["caption"],
        checkpoints=table["checkpoints"],
        forward_gflops=float(table["forward_gflops"]),
        columns=columns,
        rows=rows,
    )


def source() -> str:
    """What to cite."""
    return str(_content()["source"])


@cache
def _content() -> dict[str, Any]:
    return tomllib.loads((files("unseen.benchmarks.rank") / "published.toml").read_text(encoding="utf-8"))
