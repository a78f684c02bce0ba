"""Parameter-efficient adaptations: LoRA, adapters, visual prompts, biases, the last blocks.

Each freezes a network in place and adds or unfreezes a few parameters. New parameters start such that the network's
features are unchanged (LoRA, adapters), except for prompts. A block is a module with parameters that stands in a
`Sequential` or `ModuleList` and is neither such a list itself nor part of another block: `blocks.3` of a timm
transformer, `encoder.layer.3` of a Hugging Face one, `layer4.1` of a ResNet.

LoRA
Paper:      Hu et al., "LoRA: Low-rank adaptation of large language models", ICLR 2022
Implements: Eq. (3) by Hugging Face `peft`: W x + B A x with B = 0 at the start, on the query and value projections
Differs:    a projection that computes query, key and value at once (timm's `qkv`) is adapted as a whole

Adapter
Paper:      Houlsby et al., "Parameter-efficient transfer learning for NLP", ICML 2019 [H]; Pfeiffer et al., EACL 2021
Implements: section 2 of [H]: h + up(gelu(down(h))), inside the residual branch; one per block, after the MLP (Pfeiffer)
Differs:    `up` starts at exactly 0 and `down` with a standard deviation of 0.01; [H] starts both near 0. Layer norms
            stay frozen

VPT
Paper:      Jia et al., "Visual prompt tuning", ECCV 2022 [J]
Implements: VPT-deep, Eq. (5): every block has its own prompts, whose outputs are discarded; their uniform start
Differs:    prompts stand after the class token and register tokens; [J] has them after the class token. No dropout

BitFit
Paper:      Ben-Zaken et al., "BitFit: Simple parameter-efficient fine-tuning for transformer-based masked
            language-models", ACL 2022
Implements: all parameters named "bias" are trained, those of normalisations too

Partial
Paper:      Yosinski et al., "How transferable are features in deep neural networks?", NeurIPS 2014; Partial-k of [J]
Implements: the last k blocks, and all that follows them
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from unseen.backbones.backbone import Backbone
from unseen.core.errors import BackboneError, UsageError, first_line
from unseen.core.extras import import_extra
from unseen.finetuning import ADAPTATIONS

_LISTS = (nn.Sequential, nn.ModuleList)
#: Last parts of the names of the projections that LoRA adapts.
_PROJECTIONS = ("qkv", "q_proj", "v_proj", "query", "value")
_DOWN_STD = 0.01


def prepare(backbone: Backbone, module: nn.Module, name: str, size: int = 0) -> None:
    """Freeze parameters of a copy of the backbone's network and add new ones, in place.

    Args:
        module: the copy.
        name: of an adaptation.
        size: its rank, width or number; 0 for the default.

    Raises:
        UsageError: the adaptation has no size, or cannot be applied to this network.
    """
    found = ADAPTATIONS.get(name)
    if size and not found.size:
        raise UsageError(f"adaptation {name!r} has no size; leave it at 0.")
    if found.prepare is None:
        return
    found.prepare(module, size or found.size, backbone.prefix_tokens)
    try:
        with torch.no_grad():
            backbone.forward(module.eval(), backbone.blank_input())
    except (RuntimeError, ValueError, TypeError, AssertionError, IndexError) as error:
        raise BackboneError(f"adaptation {name!r} cannot be applied to {backbone.id!r}: {first_line(error)}") from error


def count_trainable(backbone: Backbone, module: nn.Module, head: nn.Module) -> int:
    """Return the number of trained parameters that the scores depend on, the head included.

    A class head of the pre-training does not count: the features do not depend on it.
    """
    chosen = [p for p in module.parameters() if p.requires_grad]
    device, mode = next(module.parameters()).device, module.training
    features, _ = backbone.forward(module.eval(), backbone.blank_input().to(device))
    depends = features.requires_grad
    used = torch.autograd.grad(features.sum(), chosen, allow_unused=True) if depends else [None] * len(chosen)
    module.train(mode)
    own = sum(p.numel() for p, gradient in zip(chosen, used, strict=True) if gradient is not None)
    return own + sum(p.numel() for p in head.parameters())


def blocks_of(module: nn.Module) -> dict[str, nn.Module]:
    """Return the blocks of a network by name, in their order."""

    def walk(parent: nn.Module, prefix: str) -> Iterator[tuple[str, nn.Module]]:
        for name, child in parent.named_children():
            here = f"{prefix}{name}"
            if isinstance(parent, _LISTS) and not isinstance(child, _LISTS):
                if any(True for _ in child.parameters()):
                    yield here, child
            else:
                yield from walk(child, f"{here}.")

    return dict(walk(module, ""))


def _transformer_blocks(module: nn.Module) -> dict[str, nn.Module]:
    """Return the blocks that contain an attention projection.

    Raises:
        UsageError: there are none.
    """
    found = {name: block for name, block in blocks_of(module).items() if any(map(_is_projection, _linears(block)))}
    if not found:
        raise UsageError(
            f"{type(module).__name__} has no transformer blocks with query, key and value projections. Use bitfit, "
            "partial, linear or finetune for this network."
        )
    return found


def _linears(block: nn.Module) -> dict[str, nn.Linear]:
    return {name: layer for name, layer in block.named_modules() if isinstance(layer, nn.Linear)}


def _is_projection(name: str) -> bool:
    return name.rpartition(".")[2] in _PROJECTIONS


def add_lora(module: nn.Module, rank: int, _prefix_tokens: int) -> None:
    """Add low-rank matrices to the query and value projections, by `peft`."""
    peft: Any = import_extra("peft", "peft")
    blocks = _transformer_blocks(module)
    targets = [f"{name}.{own}" for name, block in blocks.items() for own in _linears(block) if _is_projection(own)]
    config = peft.LoraConfig(r=rank, lora_alpha=rank, target_modules=targets, lora_dropout=0.0, bias="none")
    peft.inject_adapter_in_model(config, module)
    for name, parameter in module.named_parameters():
        parameter.requires_grad_("lora_" in name)


class AdaptedLinear(nn.Module):
    """A linear layer and the adapter after it: h + up(gelu(down(h)))."""

    def __init__(self, layer: nn.Linear, width: int) -> None:
        super().__init__()
        self.layer = layer
        self.down, self.up = nn.Linear(layer.out_features, width), nn.Linear(width, layer.out_features)
        nn.init.normal_(self.down.weight, std=_DOWN_STD)
        for values in (self.down.bias, self.up.weight, self.up.bias):
            nn.init.zeros_(values)

    def forward(self, inputs: Tensor) -> Tensor:
        hidden: Tensor = self.layer(inputs)
        update: Tensor = self.up(nn.functional.gelu(self.down(hidden)))
        return hidden + update


def add_adapters(module: nn.Module, width: int, _prefix_tokens: int) -> None:
    """Add a bottleneck after the last linear layer of every transformer block, which ends its MLP."""
    module.requires_grad_(False)
    for block in _transformer_blocks(module).values():
        name, layer = list(_linears(block).items())[-1]
        block.set_submodule(name, AdaptedLinear(layer, width))


class PromptedBlock(nn.Module):
    """A transformer block whose input has learned tokens after the prefix tokens; their outputs are discarded."""

    def __init__(self, block: nn.Module, prompts: Tensor, prefix_tokens: int) -> None:
        super().__init__()
        self.block, self.prefix_tokens = block, prefix_tokens
        self.prompts = nn.Parameter(prompts)

    def forward(self, tokens: Tensor, *arguments: object, **options: object) -> Tensor | tuple[object, ...]:
        start, count = self.prefix_tokens, len(self.prompts)
        own = self.prompts.to(tokens.dtype).expand(len(tokens), -1, -1)
        output = self.block(torch.cat([tokens[:, :start], own, tokens[:, start:]], dim=1), *arguments, **options)
        hidden = output[0] if isinstance(output, tuple) else output
        kept = torch.cat([hidden[:, :start], hidden[:, start + count :]], dim=1)
        return (kept, *output[1:]) if isinstance(output, tuple) else kept


def add_prompts(module: nn.Module, count: int, prefix_tokens: int) -> None:
    """Add `count` prompts to every transformer block."""
    module.requires_grad_(False)
    patch = next((layer.kernel_size[0] for layer in module.modules() if isinstance(layer, nn.Conv2d)), 16)
    for name, block in _transformer_blocks(module).items():
        width = next(layer.in_features for own, layer in _linears(block).items() if _is_projection(own))
        bound = math.sqrt(6 / (3 * patch**2 + width))  # Xavier's, as in the code of [J]
        module.set_submodule(
            name, PromptedBlock(block, torch.empty(count, width).uniform_(-bound, bound), prefix_tokens)
        )


def train_biases(module: nn.Module, _size: int, _prefix_tokens: int) -> None:
    """Train the biases alone."""
    for name, parameter in module.named_parameters():
        parameter.requires_grad_(name.rpartition(".")[2] == "bias")


def train_last_blocks(module: nn.Module, count: int, _prefix_tokens: int) -> None:
    """Train the last `count` blocks and the modules that are registered after them."""
    blocks = list(blocks_of(module))
    if not 0 < count <= len(blocks):
        raise UsageError(f"the last {count} of {len(blocks)} blocks cannot be trained; choose 1 to {len(blocks)}.")
    names = [name for name, _ in module.named_parameters()]
    first = next(i for i, name in enumerate(names) if name.startswith(f"{blocks[-count]}."))
    for i, parameter in enumerate(module.parameters()):
        parameter.requires_grad_(i >= first)
