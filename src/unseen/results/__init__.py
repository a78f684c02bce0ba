"""The results database: append-only, in full precision, with everything needed to trust a number."""

from unseen.results.database import FILE_NAME, ResultsDatabase
from unseen.results.environment import capture_environment
from unseen.results.measures import Measure, measure
from unseen.results.summary import Summary, newest_revisions, summarise

__all__ = [
    "FILE_NAME",
    "Measure",
    "ResultsDatabase",
    "Summary",
    "capture_environment",
    "measure",
    "newest_revisions",
    "summarise",
]
