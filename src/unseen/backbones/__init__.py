"""Pretrained models: sources, preprocessing and features.

`load_backbone` builds a model from its name; `register_backbone` adds your own. Importing this package does not import
torch.
"""

from typing import TYPE_CHECKING

from unseen.core.registry import lazy_exports

if TYPE_CHECKING:
    from unseen.backbones.backbone import Backbone as Backbone
    from unseen.backbones.load import BACKBONES as BACKBONES
    from unseen.backbones.load import LOGITS as LOGITS
    from unseen.backbones.load import POOLED as POOLED
    from unseen.backbones.load import BackboneSource as BackboneSource
    from unseen.backbones.load import ModelName as ModelName
    from unseen.backbones.load import backbone_revision as backbone_revision
    from unseen.backbones.load import check_backbone as check_backbone
    from unseen.backbones.load import load_backbone as load_backbone
    from unseen.backbones.load import model_cards as model_cards
    from unseen.backbones.load import register_backbone as register_backbone
    from unseen.backbones.load import wrap_module as wrap_module
else:
    __all__, __getattr__, __dir__ = lazy_exports(__name__)
