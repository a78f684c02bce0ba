"""Protocols: each plans its cells and evaluates them over stored features."""

from __future__ import annotations

from unseen.benchmarks.benchmark import BENCHMARKS, Benchmark, benchmark_cards, group_cells, make_benchmark
from unseen.benchmarks.workbench import Workbench

__all__ = ["BENCHMARKS", "Benchmark", "Workbench", "benchmark_cards", "group_cells", "make_benchmark"]
