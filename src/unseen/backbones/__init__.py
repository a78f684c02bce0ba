"""Pretrained models: where they come from, what they take, and which of their tensors are features.

`load_backbone` builds one from its name; `register_backbone` adds one's own. Importing this room does not import torch.
"""

from typing import TYPE_CHECKING

from unseen.core.registry import lazy_exports

if TYPE_CHECKING:
    from unseen.backbones.backbone import Backbone as Backbone
    from unseen.backbones.load import BACKBONES as BACKBONES
    from unseen.backbones.load import BackboneSource as BackboneSource
    from unseen.backbones.load import backbone_revision as backbone_revision
    from unseen.backbones.load import check_backbone as check_backbone
    from unseen.backbones.load import load_backbone as load_backbone
    from unseen.backbones.load import model_cards as model_cards
    from unseen.backbones.load import register_backbone as register_backbone
    from unseen.backbones.load import wrap_module as wrap_module
    from unseen.backbones.names import LOGITS as LOGITS
    from unseen.backbones.names import POOLED as POOLED
    from unseen.backbones.names import ModelName as ModelName
else:
    __all__, __getattr__, __dir__ = lazy_exports(__name__)
