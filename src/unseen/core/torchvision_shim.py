"""Makes `import torchvision` work where its compiled operators do not load.

PyPI's torchvision wheel is built for CUDA. Beside a CPU build of torch its extension does not load, and the import
dies when it attaches shape rules to operators that nobody declared. Declaring their schemas first is enough: the
operators stay unusable, which no classification model minds. Where the wheel loads by itself this does nothing.
"""

from __future__ import annotations

import importlib.util
from functools import cache
from pathlib import Path

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
    """Whether torchvision's compiled operators can be loaded into this torch: `_C.so`, `_C_stable.so` from 0.29 on.

    To declare what a library that does load declares too would end the process.
    """
    import torch

    package = importlib.util.find_spec("torchvision")
    if package is None or not package.submodule_search_locations:
        return False
    folder = Path(package.submodule_search_locations[0])
    found = [path for path in sorted(folder.glob("_C*")) if path.suffix in (".so", ".pyd", ".dylib")]
    try:
        for path in found:
            torch.ops.load_library(str(path))  # type: ignore[no-untyped-call]
    except OSError:
        return False
    return bool(found)
