"""Protocols: each plans its cells and evaluates them over stored features.

Names are imported when first used, so that the metadata of a benchmark (`info.toml`) loads without its code.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from unseen.core.registry import lazy_exports

if TYPE_CHECKING:
    from unseen.benchmarks.benchmark import BENCHMARKS as BENCHMARKS
    from unseen.benchmarks.benchmark import Benchmark as Benchmark
    from unseen.benchmarks.benchmark import benchmark_cards as benchmark_cards
    from unseen.benchmarks.benchmark import group_cells as group_cells
    from unseen.benchmarks.benchmark import make_benchmark as make_benchmark
    from unseen.benchmarks.workbench import Workbench as Workbench
else:
    __all__, __getattr__, __dir__ = lazy_exports(__name__)
