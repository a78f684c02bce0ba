"""The 19 tasks of VTAB, as data: `tasks.toml`."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from unseen.core.errors import UnknownNameError
from unseen.core.records import DatasetCard
from unseen.data.sources.vtab.rules import Rule

OPTIONS = "options: size=1000 or full, root, source"


@dataclass(frozen=True)
class VtabTask:
    """One task.

    Attributes:
        name: as in `vtab:NAME`.
        title: the heading of its column in the paper's tables.
        group: "natural", "specialized" or "structured".
        data: which images; equal for tasks that share them.
        printed_size: training and validation images together, as Table 2 prints it.
        sizes: of train, val and test, whole.
        splits: train, val and test out of the official splits, such as "train[:90%]".
        rule: how an annotation becomes a class.
        folder: its name in a VTAB-1k folder.
        tfds: builder and configuration in TensorFlow Datasets.
        wds: its name in CLIP_benchmark, whose shards are in `wds_vtab-NAME`.
        reader: module of the reader of the original files.
        selection: whose 1,000 examples the original files give, and why.
        url, expects: where to get the original files, and what they are called.
    """

    name: str
    title: str
    group: str
    data: str
    printed_size: int
    classes: int
    reference: str
    sizes: tuple[int, int, int]
    splits: Mapping[str, str]
    rule: Rule
    folder: str
    tfds: str
    wds: str
    reader: str
    url: str
    expects: str
    citation: str
    license: str
    selection: str = "the authors' from original files too: they are put into the order of TFDS' records"

    @property
    def official_sizes(self) -> dict[str, int]:
        """How many examples the official splits have that this task is cut from."""
        found: dict[str, int] = {}
        for spec, size in zip(self.splits.values(), self.sizes, strict=True):
            name = spec.partition("[")[0]
            found[name] = found.get(name, 0) + size
        return found

    @property
    def card(self) -> DatasetCard:
        return DatasetCard(
            id=f"vtab:{self.name}",
            name=self.title,
            group=self.group,
            paper="vtab",
            classes=self.classes,
            images=sum(self.sizes),
            source=self.url,
            license=self.license,
            citation=self.citation,
            notes=f"{OPTIONS}; examples: {self.selection}",
        )


@cache
def vtab_tasks() -> Mapping[str, VtabTask]:
    """Name to task, in the order of the paper's tables."""
    path = files("unseen.data.sources.vtab") / "tasks.toml"
    return {row["name"]: _task(row) for row in tomllib.loads(path.read_text(encoding="utf-8"))["task"]}


def vtab_task(name: str) -> VtabTask:
    try:
        return vtab_tasks()[name]
    except KeyError:
        raise UnknownNameError("VTAB task", name, vtab_tasks()) from None


def _task(row: dict[str, Any]) -> VtabTask:
    values: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in row.items() if k != "rule"}
    rule: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in row.get("rule", {}).items()}
    return VtabTask(**values, rule=Rule(**rule))
