"""Ranking arrays: feature matrices of the same images by name, and classes, values or several labels to foretell.

Values and several labels have no class, so that two measures remain: R^2 or precision of a ridge regression on images
left out in turn, which the answer speaks in, and LogME.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from unseen.benchmarks.rank.answer import answer
from unseen.benchmarks.rank.candidates import CheckpointRanking
from unseen.benchmarks.rank.protocol import DEFAULT_SCORES, affordable
from unseen.benchmarks.rank.scoring import EXPECTED, MEASURES, score_result, target_result
from unseen.benchmarks.workbench import SplitRows
from unseen.core.errors import DataError, UnseenError, UsageError
from unseen.core.identity import digest
from unseen.core.records import Cell, Result
from unseen.data.dataset import CLASS, NUMBER, SEVERAL, Target
from unseen.ranking.cards import find_score

Kind = Literal["auto", "classes", "values", "labels"]
_TARGETS: dict[str, Target] = {"classes": CLASS, "values": NUMBER, "labels": SEVERAL}


def rank_features(
    features: Mapping[str, npt.ArrayLike],
    targets: npt.ArrayLike,
    *,
    kind: Kind = "auto",
    scores: Sequence[str] = DEFAULT_SCORES,
    resamples: int = 40,
    seed: int = 0,
    top: int = 1,
) -> CheckpointRanking:
    """Rank feature matrices by what a linear head on them will reach.

    Args:
        features: (n, d) by name, rows of the same images in the same order; d may differ.
        targets: (n,) classes, (n,) or (n, t) values, or (n, t) labels of 0 and 1.
        kind: of the targets; "auto" takes whole numbers and texts for classes, 0 and 1 in several columns for labels
            and other numbers for values.
        scores: evidence beside; of classes only.
        resamples, seed, top: as for `unseen rank`.

    Raises:
        DataError: arrays that do not belong together.
        UsageError: no array, or a score that needs the model itself.
    """
    if not features:
        raise UsageError('name at least one array of features to rank, such as {"mine": X}.')
    wanted = np.asarray(targets)
    found = kind_of(wanted) if kind == "auto" else kind
    for name in scores:
        if find_score(name).needs_head or find_score(name).needs_training:
            raise UsageError(f"{name} needs the model itself; arrays have none.")
    results: list[Result] = []
    notes: list[str] = []
    if found == "classes" and scores is DEFAULT_SCORES:
        wide = max(np.asarray(given).shape[-1] for given in features.values())
        scores, notes = affordable(len(wanted), wide, len(np.unique(wanted)))
    for name, given in features.items():
        rows = np.asarray(given)
        if rows.ndim != 2 or len(rows) != len(wanted):
            raise DataError(f"{name!r} has features of shape {rows.shape}; there are {len(wanted)} targets.")
        if found == "classes":
            results += _by_class(name, rows, wanted, scores, resamples, seed)
        else:
            results += _by_target(name, rows, wanted, found, seed)
    return answer(results, top=top, notes=notes, measure=MEASURES[_TARGETS[found]])


def kind_of(targets: npt.NDArray[Any]) -> Literal["classes", "values", "labels"]:
    """What targets are, by their shape and type."""
    if targets.ndim == 1:
        return "values" if targets.dtype.kind == "f" and not (targets == np.rint(targets)).all() else "classes"
    return "labels" if np.isin(targets, (0, 1)).all() else "values"


def _by_class(
    name: str, rows: npt.NDArray[Any], labels: npt.NDArray[Any], scores: Sequence[str], resamples: int, seed: int
) -> list[Result]:
    index = np.unique(labels, return_inverse=True)[1].astype(np.int64).reshape(-1)
    about = {"parameters": None, "flops": None, "checkpoint": _content(rows)}
    split = SplitRows(rows, index, np.arange(len(rows)), len(rows))
    images: Any = SimpleNamespace(
        rows=lambda _layer: split,
        dataset=SimpleNamespace(target=CLASS),
        about=about,
        total=len(rows),
        seconds=0.0,
        speed=None,
        split="train",
    )
    found = []
    for score in dict.fromkeys((EXPECTED, *scores)):
        cell = _cell(name, score, rows, index, resamples, seed)
        try:
            found.append(score_result(cell, find_score(score), images, resamples=resamples, seed=seed))
        except UnseenError as error:
            found.append(Result(cell, error=str(error)))
    return found


def _by_target(name: str, rows: npt.NDArray[Any], targets: npt.NDArray[Any], kind: str, seed: int) -> list[Result]:
    about = {"parameters": None, "flops": None, "checkpoint": _content(rows)}
    split = SplitRows(rows, np.zeros(len(rows), np.int64), np.arange(len(rows)), len(rows))
    dataset = SimpleNamespace(id="arrays", target=_TARGETS[kind], split=lambda _split: SimpleNamespace(targets=targets))
    images: Any = SimpleNamespace(
        rows=lambda _layer: split,
        dataset=dataset,
        about=about,
        total=len(rows),
        seconds=0.0,
        speed=None,
        split="train",
    )
    found = []
    for score in (EXPECTED, "logme"):
        cell = _cell(name, score, rows, targets, 0, seed)
        try:
            found.append(target_result(cell, images, resamples=0, seed=seed))
        except UnseenError as error:
            found.append(Result(cell, error=str(error)))
    return found


def _cell(name: str, score: str, rows: npt.NDArray[Any], targets: npt.NDArray[Any], resamples: int, seed: int) -> Cell:
    parameters = {
        "score": score,
        "layer": "pooled",
        "split": "train",
        "sample": 0,
        "resamples": resamples,
        "seed": seed,
    }
    revision = f"{_content(rows)[:12]}+{_content(targets)[:12]}"
    return Cell("rank", name, "arrays", parameters, revision=revision)


def _content(values: npt.NDArray[Any]) -> str:
    return digest([str(values.dtype), list(values.shape), np.ascontiguousarray(values).tobytes().hex()])
