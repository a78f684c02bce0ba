"""Groups in pieces: each piece is done once, in rounds, before the group is evaluated; a failing one does no harm."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest

from unseen.benchmarks import Benchmark, Workbench
from unseen.core.errors import DataError, DiskFullError
from unseen.core.identity import option
from unseen.core.records import Cell, Result
from unseen.study import Study, run_study

EVENTS: list[str] = []


@dataclass(frozen=True)
class InPieces(Benchmark):
    """Two pieces, then one that needs both; `broken` always fails, `full` finds no room."""

    name: ClassVar[str] = "in-pieces"
    question: ClassVar[str] = "What becomes of pieces?"

    broken: str = option("")
    full: bool = option(False)

    def pieces(self, cells: Sequence[Cell], bench: Workbench) -> list[Mapping[str, Any]]:
        done = {path.name for path in (bench.home / "pieces").glob("*")}
        first = [{"piece": piece} for piece in ("a", "b") if piece not in done]
        return first or ([] if "c" in done else [{"piece": "c"}])

    def do_piece(self, piece: Mapping[str, Any], cells: Sequence[Cell], bench: Workbench) -> None:
        EVENTS.append(piece["piece"])
        if self.full:
            raise DiskFullError("no room")
        if piece["piece"] == self.broken:
            raise DataError("broken")
        (bench.home / "pieces").mkdir(exist_ok=True)
        (bench.home / "pieces" / piece["piece"]).touch()

    def evaluate(self, cells: Sequence[Cell], bench: Workbench) -> Iterator[Result]:
        EVENTS.append("evaluate")
        if missing := self.pieces(cells, bench):
            raise DataError(f"{missing[0]['piece']} is broken")
        for cell in cells:
            yield Result(cell, {"top1": 1.0})


@dataclass(frozen=True)
class Whole(InPieces):
    """The same work without pieces."""

    name: ClassVar[str] = "whole"

    def pieces(self, cells: Sequence[Cell], bench: Workbench) -> list[Mapping[str, Any]]:
        return []


@pytest.fixture(autouse=True)
def no_events() -> None:
    EVENTS.clear()


def run(home: Path, images: Path, small_model: str, *benchmarks: Benchmark) -> list[Result]:
    study = Study("pieces", (small_model,), (str(images),), benchmarks)
    return list(run_study(study, home, report=False, on_error="ignore").results)


def test_pieces_come_in_rounds_and_before_the_evaluation(home: Path, images: Path, small_model: str) -> None:
    results = run(home, images, small_model, InPieces(), Whole())
    assert EVENTS == ["evaluate", "a", "b", "c", "evaluate"]  # what has no pieces does not wait for those that have
    assert all(result.ok for result in results)
    EVENTS.clear()
    run(home, images, small_model, InPieces())
    assert EVENTS == []


def test_what_is_there_is_not_done_again(home: Path, images: Path, small_model: str) -> None:
    (home / "pieces").mkdir(parents=True)
    (home / "pieces" / "a").touch()
    run(home, images, small_model, InPieces())
    assert EVENTS == ["b", "c", "evaluate"]


def test_a_piece_that_fails_is_tried_once_and_told_by_the_evaluation(
    home: Path, images: Path, small_model: str
) -> None:
    (result,) = run(home, images, small_model, InPieces(broken="b"))
    assert EVENTS == ["a", "b", "evaluate"]
    assert result.error == "b is broken"


def test_a_full_disk_ends_the_run(home: Path, images: Path, small_model: str) -> None:
    with pytest.raises(DiskFullError):
        run(home, images, small_model, InPieces(full=True))
    assert EVENTS == ["a"]
