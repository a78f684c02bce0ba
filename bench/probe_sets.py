"""The real feature sets that the probe benchmarks share: groceries, emoji and photographs by four networks.

The photographs lie under the folder that the environment variable UNSEEN_GOLDEN_DATA names, as for the tests.
"""

from __future__ import annotations

import argparse
import json
import os
import textwrap
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from unseen.benchmarks.workbench import Workbench
from unseen.core.files import home

FloatArray = npt.NDArray[np.float32]
IntArray = npt.NDArray[np.int64]
Figures = dict[str, Any]
PHOTOS = str(Path(os.environ.get("UNSEEN_GOLDEN_DATA", "data")) / "photos" / "caltech101" / "images")
TASKS = {
    "grocery": "packaged:grocery",
    "coarse": "packaged:grocery?labels=coarse",
    "emoji": "packaged:emoji?classes=150",
    "photos": f"folder:{PHOTOS}",
}
NETWORKS = {
    "lite0": "packaged:efficientnet-lite0",
    "resnet18": "random:torchvision:resnet18",
    "lite1": "packaged:efficientnet-lite1",
    "lite2": "packaged:efficientnet-lite2",
}


class Features(NamedTuple):
    """One feature set with its labels; a validation split is among the images to train on."""

    train: FloatArray
    train_labels: IntArray
    test: FloatArray
    test_labels: IntArray

    @property
    def classes(self) -> int:
        return len(np.unique(self.train_labels))


@cache
def load(task: str, network: str, folder: Path | None = None, photos: str = PHOTOS) -> Features:
    """Features from the store, extracted now where it does not have them."""
    bench = Workbench(home(folder))
    name = f"folder:{photos}" if task == "photos" else TASKS[task]
    return joined(bench, NETWORKS[network], name)


def joined(bench: Workbench, model: str, name: str) -> Features:
    """Features of a dataset, its validation images among those to train on."""
    splits = bench.splits(model, name)
    test = splits.pop("test")
    features = np.concatenate([np.asarray(rows.features[:], np.float32) for rows in splits.values()])
    labels = np.concatenate([rows.labels for rows in splits.values()])
    return Features(features, labels, np.asarray(test.features[:], np.float32), test.labels)


def keep_options(parser: argparse.ArgumentParser, script: str) -> None:
    """Where the figures of a table are kept, and whether they are only to be written out."""
    kept = Path(script).with_suffix(".json")
    parser.add_argument("--save", type=Path, default=kept, help="figures of the last run")
    parser.add_argument("--kept", action="store_true", help="measure nothing: write the table of the kept figures")
    parser.add_argument("--docs", type=Path, default=None, help="page to write the table into")


def kept_figures(options: argparse.Namespace, measure: Callable[[], Figures]) -> Figures:
    """The figures of the last run, or new ones, which are stored if a page shows them."""
    if options.kept:
        found: Figures = json.loads(options.save.read_text(encoding="utf-8"))
        return found
    figures = measure()
    if options.docs:
        options.save.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    return figures


def write_docs(path: Path, marker: str, lines: list[str]) -> None:
    """Put tables, and sentences wrapped at 120 characters, between their markers on a page."""
    head, rest = path.read_text(encoding="utf-8").split(f"<!-- {marker} -->\n")
    tail = rest.split(f"<!-- /{marker} -->")[1]
    table = "\n".join(line if line.startswith("|") else _wrapped(line) for line in lines)
    path.write_text(f"{head}<!-- {marker} -->\n{table}\n<!-- /{marker} -->{tail}", encoding="utf-8")


def _wrapped(line: str) -> str:
    indent = "  " if line.startswith("- ") else ""
    return textwrap.fill(line, 120, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
