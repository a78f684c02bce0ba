"""A cell as a reader wants to use it: the command that computes it anew, and the papers behind it.

The command says every axis of the cell and every option that is not the protocol's default. A file behind an option is
known by its name alone. Some commands compute neighbours of the cell too: all levels of a CoG, for one.
"""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from unseen.benchmarks.benchmark import BENCHMARKS, Benchmark
from unseen.core.errors import UnseenError
from unseen.core.identity import plain
from unseen.core.records import Cell
from unseen.features.settings import Extraction

_TRUTH = "truth"
#: What to cite for a protocol, by `Benchmark.paper`.
PAPERS = {
    "cog": "Sariyildiz et al., Concept generalization in visual representation learning, ICCV 2021",
    "gbu": "Xian et al., Zero-shot learning: a comprehensive evaluation of the good, the bad and the ugly, TPAMI 2018",
    "vtab": "Zhai et al., A large-scale study of representation learning with VTAB, 2019",
    "neucrab": "Li et al., Ranking neural checkpoints, CVPR 2021",
}


def command_of(cell: Cell) -> str:
    """The command line that computes a cell; "" where its benchmark is not there."""
    kind = _kind(cell)
    if kind is None:
        return ""
    parameters = dict(cell.parameters)
    extraction = parameters.pop("extraction", {})
    if cell.benchmark == "rank" and parameters.get("score") == _TRUTH:
        del parameters["score"]  # no score: an option of its own asks for it
    words = ["unseen", *(kind.command or cell.benchmark).split(), cell.dataset, "--models", cell.model]
    words += _options(kind, parameters)
    words += _options(Extraction, extraction if isinstance(extraction, Mapping) else {})
    return shlex.join([*words, *_asked_for(cell)])


def papers_of(cell: Cell) -> list[str]:
    """What to cite for the protocol of a cell, and for its method or score."""
    kind = _kind(cell)
    found = [PAPERS.get(kind.paper, "") if kind else ""]
    with suppress(UnseenError):  # of a plug-in that is gone
        if cell.benchmark == "zsl":
            from unseen.zeroshot.catalogue import load_method

            found.append(load_method(str(cell.parameters["method"])).card.citation)
        if cell.benchmark == "rank":
            from unseen.ranking.cards import SCORES, find_score

            score = str(cell.parameters["score"])
            found.append(find_score(score).citation if score in SCORES else "")
    return [text for text in found if text]


def _kind(cell: Cell) -> type[Benchmark] | None:
    try:
        return BENCHMARKS.get(cell.benchmark)
    except Exception:  # noqa: BLE001 - a plug-in that is gone or broken must not hide its results
        return None


def _options(kind: type, parameters: Mapping[str, Any]) -> list[str]:
    """The options of a dataclass that say these parameters; what is the default is not said, but for axes."""
    words: list[str] = []
    for field in dataclasses.fields(kind):
        axis = field.metadata.get("axis")
        name = axis or field.name
        if name not in parameters or not (axis or parameters[name] != plain(field.default)):
            continue
        words += _said(f"--{field.name.replace('_', '-')}", parameters[name], several=bool(axis))
    return words


def _said(option: str, value: Any, *, several: bool) -> list[str]:
    if isinstance(value, bool):
        return [option if value else option.replace("--", "--no-", 1)]
    values = value if isinstance(value, list | tuple) else [value]
    texts = [str(each).partition("@")[0] if isinstance(each, str) else f"{each}" for each in values]
    if several or isinstance(value, list | tuple):
        # A lone number would be taken for a count.
        return [option, ",".join(texts) + ("," if len(texts) == 1 and texts[0].isdecimal() else "")]
    return [option, *texts]


def _asked_for(cell: Cell) -> Sequence[str]:
    """Options that add cells and change none: they stand in no cell's parameters."""
    level, fold = str(cell.parameters.get("level", "")), cell.parameters.get("fold", "all")
    if cell.benchmark == "cog" and level.startswith("R") and level[1:].isdecimal():
        return ["--controls", level[1:]]
    if cell.benchmark == "zsl" and fold != "all":
        return ["--robustness"]
    return ["--truth"] if cell.benchmark == "rank" and cell.parameters.get("score") == _TRUTH else []
