"""Makes `import torchvision` work where its compiled operators do not load.

PyPI's torchvision wheel is built for CUDA. Beside a CPU build of torch its extension does not load, and the import
dies when it attaches shape rules to operators that nobody declared. Declaring their schemas first is enough: the
operators stay unusable, which no classification model minds. Where the wheel loads by itself this does nothing.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
from functools import cache

_SCHEMAS = (
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
)


@cache
def ensure_torchvision() -> None:
    """Declare the missing operators, once, before anything imports torchvision or timm."""
    import torch

    if importlib.util.find_spec("torchvision") is None or _extension_loads():
        return
    for schema in _SCHEMAS:
        if not hasattr(torch.ops.torchvision, schema.partition("(")[0]):
            torch.library.define(f"torchvision::{schema.partition('(')[0]}", schema[schema.index("(") :])


def _extension_loads() -> bool:
    """Whether torchvision's compiled operators can be loaded into this torch."""
    import torch

    package = importlib.util.find_spec("torchvision")
    if package is None or not package.submodule_search_locations:
        return False
    finder = importlib.machinery.FileFinder(
        package.submodule_search_locations[0],
        (importlib.machinery.ExtensionFileLoader, importlib.machinery.EXTENSION_SUFFIXES),
    )
    extension = finder.find_spec("_C")
    if extension is None or extension.origin is None:
        return False
    try:
        torch.ops.load_library(extension.origin)  # type: ignore[no-untyped-call]
    except OSError:
        return False
    return True
