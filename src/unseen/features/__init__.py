"""Features: extracted once by a backbone, stored part by part, read as memory-mapped arrays."""

from typing import TYPE_CHECKING

from unseen.core.registry import lazy_exports

if TYPE_CHECKING:
    from unseen.core.progress import NoProgress as NoProgress
    from unseen.core.progress import Progress as Progress
    from unseen.features.extraction import extract as extract
    from unseen.features.manifest import Extraction as Extraction
    from unseen.features.manifest import Manifest as Manifest
    from unseen.features.manifest import Part as Part
    from unseen.features.manifest import Skipped as Skipped
    from unseen.features.rows import FeatureRows as FeatureRows
    from unseen.features.rows import StoredFeatures as StoredFeatures
    from unseen.features.store import Entry as Entry
    from unseen.features.store import FeatureStore as FeatureStore
    from unseen.features.store import FeatureWriter as FeatureWriter
    from unseen.features.store import Problem as Problem
else:
    __all__, __getattr__, __dir__ = lazy_exports(__name__)
