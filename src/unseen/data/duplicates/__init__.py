"""Duplicates among images: exact ones, and copies that were re-encoded, rescaled, flipped or cropped."""

from unseen.data.duplicates.comparison import Agreement, Kind, compare
from unseen.data.duplicates.report import DuplicatePair, DuplicateReport, ImageSet
from unseen.data.duplicates.search import ALONE, MOST, THRESHOLD, NearPairs, find_duplicates, near_pairs
from unseen.data.duplicates.signature import Signature, signature

__all__ = [
    "ALONE",
    "MOST",
    "THRESHOLD",
    "Agreement",
    "DuplicatePair",
    "DuplicateReport",
    "ImageSet",
    "Kind",
    "NearPairs",
    "Signature",
    "compare",
    "find_duplicates",
    "near_pairs",
    "signature",
]
