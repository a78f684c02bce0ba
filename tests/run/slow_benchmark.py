"""A benchmark for tests of the orchestrator: three cells, each of which takes a moment and may be told to fail."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from unseen.benchmarks import BENCHMARKS, Benchmark, Workbench
from unseen.core.errors import DataError
from unseen.core.files import home
from unseen.core.identity import option
from unseen.core.records import Cell, Result


@dataclass(frozen=True)
class SlowBenchmark(Benchmark):
    """Counts its cells; `marks` is a folder where each evaluation leaves a file."""

    name: ClassVar[str] = "slow"
    question: ClassVar[str] = "How long does it take?"

    seeds: tuple[int, ...] = option((1, 2, 3), axis="seed", count=(1, 2, 3))
    pause: float = option(0.0, neutral="it changes no number")
    fail_at: int = option(0, neutral="for tests")
    kill_at: int = option(0, neutral="for tests")
    marks: str = option("", neutral="for tests")

    def evaluate(self, cells: Sequence[Cell], bench: Workbench) -> Iterator[Result]:
        bench.dataset(cells[0].dataset)
        for cell in cells:
            seed = cell.parameters["seed"]
            if seed == self.fail_at:
                raise DataError(f"told to fail at {seed}")
            if seed == self.kill_at:
                os.kill(os.getpid(), signal.SIGKILL)
            time.sleep(self.pause)
            (Path(self.marks) / f"{seed}-{time.time_ns()}").touch()
            yield Result(cell, {"top1": seed / 10}, details={"home": str(home())})


BENCHMARKS.add("slow", SlowBenchmark)
