"""Networks that are evaluated on larger images than they were trained on.

Convolutional networks take any size. A transformer of fixed size is asked to resample its position embedding, which
timm's can do (`set_input_size`); one that cannot fails by itself, with its own words.
"""

from __future__ import annotations

import copy

from torch import nn


def nearest_size(module: nn.Module, size: int) -> int:
    """The side nearest to `size` that the patches of a network cover; `size` where it has none."""
    patch = getattr(getattr(module, "patch_embed", None), "patch_size", None)
    side = patch[0] if isinstance(patch, tuple) else patch
    if not isinstance(side, int) or not hasattr(module, "set_input_size"):
        return size
    return max(1, round(size / side)) * side


def at_size(module: nn.Module, size: int) -> nn.Module:
    """The network for inputs of another side: a copy where it has to change for that, itself where it has not."""
    change = "set_input_size"
    if not hasattr(module, change):
        return module
    other = copy.deepcopy(module)
    getattr(other, change)(img_size=(size, size))
    return other.to(next(module.parameters()).device)
