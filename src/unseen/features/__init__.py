"""Features: extracted once by a backbone, stored part by part, read as memory-mapped arrays."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from unseen.features.extraction import Extraction, extract
    from unseen.features.manifest import Manifest, Part, Skipped
    from unseen.features.progress import NoProgress, Progress
    from unseen.features.rows import FeatureRows, StoredFeatures
    from unseen.features.store import Entry, FeatureStore, Problem
    from unseen.features.writer import FeatureWriter

__all__ = [
    "Entry",
    "Extraction",
    "FeatureRows",
    "FeatureStore",
    "FeatureWriter",
    "Manifest",
    "NoProgress",
    "Part",
    "Problem",
    "Progress",
    "Skipped",
    "StoredFeatures",
    "extract",
]

_HOMES = {
    "Entry": "store",
    "Extraction": "extraction",
    "FeatureRows": "rows",
    "FeatureStore": "store",
    "FeatureWriter": "writer",
    "Manifest": "manifest",
    "NoProgress": "progress",
    "Part": "manifest",
    "Problem": "store",
    "Progress": "progress",
    "Skipped": "manifest",
    "StoredFeatures": "rows",
    "extract": "extraction",
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first asked for: NumPy and the lock library are not free."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
