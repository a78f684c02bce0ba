"""The results database: append-only, in full precision, with everything needed to trust a number.

Importing this package does not import numpy.
"""

from typing import TYPE_CHECKING

from unseen.core.registry import lazy_exports

if TYPE_CHECKING:
    from unseen.results.comparability import Group as Group
    from unseen.results.comparability import comparable as comparable
    from unseen.results.comparability import current as current
    from unseen.results.comparability import only as only
    from unseen.results.database import FILE_NAME as FILE_NAME
    from unseen.results.database import ResultsDatabase as ResultsDatabase
    from unseen.results.grid import Summary as Summary
    from unseen.results.grid import summarise as summarise
    from unseen.results.info import BenchmarkInfo as BenchmarkInfo
    from unseen.results.info import MetricStyle as MetricStyle
    from unseen.results.info import info_of as info_of
    from unseen.results.info import metric_style as metric_style
else:
    __all__, __getattr__, __dir__ = lazy_exports(__name__)
