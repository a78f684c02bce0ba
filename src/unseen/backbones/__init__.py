"""Pretrained models: where they come from, what they take, and which of their tensors are features.

`load_backbone` builds one from its name; `register_backbone` adds one's own. Importing this room does not import torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from unseen.backbones.load import (
    BACKBONES,
    BackboneSource,
    backbone_revision,
    check_backbone,
    load_backbone,
    model_cards,
    register_backbone,
    wrap_module,
)
from unseen.backbones.names import ModelName

if TYPE_CHECKING:
    from unseen.backbones.backbone import LOGITS, POOLED, Backbone

__all__ = [
    "BACKBONES",
    "LOGITS",
    "POOLED",
    "Backbone",
    "BackboneSource",
    "ModelName",
    "backbone_revision",
    "check_backbone",
    "load_backbone",
    "model_cards",
    "register_backbone",
    "wrap_module",
]


def __getattr__(name: str) -> Any:
    if name in ("LOGITS", "POOLED", "Backbone"):
        from unseen.backbones import backbone

        return getattr(backbone, name)
    raise AttributeError(name)
