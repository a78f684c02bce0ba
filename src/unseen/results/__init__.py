"""The results database: append-only, in full precision, with everything needed to trust a number."""

from unseen.results.comparability import Group, comparable, current, only
from unseen.results.database import FILE_NAME, ResultsDatabase
from unseen.results.environment import capture_environment
from unseen.results.grid import Summary, summarise
from unseen.results.styles import MetricStyle, metric_style

__all__ = [
    "FILE_NAME",
    "Group",
    "MetricStyle",
    "ResultsDatabase",
    "Summary",
    "capture_environment",
    "comparable",
    "current",
    "metric_style",
    "only",
    "summarise",
]
