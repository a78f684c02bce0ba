"""T2T-ViT-t-14: a vision transformer whose patches are grown by transformers instead of cut out.

Paper:      Yuan et al., "Tokens-to-Token ViT: Training vision transformers from scratch on ImageNet", ICCV 2021 [P]
Shapes:     images (n, 3, 224, 224) -> 56 x 56 -> 28 x 28 -> 14 x 14 tokens -> class token (n, 384)
Implements: Sec. 3 of [P]: soft split and re-structurization with transformer layers (the variant "t"), and the
            deep-narrow backbone of depth 14, width 384, 6 heads, MLP ratio 3
Differs:    no dropout and no stochastic depth: it is for evaluation. Names of parameters are those of the published
            weights.
Expected:   21.5 M parameters, 81.7 % top-1 on ImageNet-1K with the published weights
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from unseen.core.torchvision_shim import ensure_torchvision


class TokenAttention(nn.Module):
    """Single-head attention that changes the width of its tokens, so that the values serve as the shortcut."""

    def __init__(self, width_in: int, width: int) -> None:
        super().__init__()
        self.qkv = nn.Linear(width_in, 3 * width, bias=False)
        self.proj = nn.Linear(width, width)
        # By the width of what enters, not of the queries: so the published weights were trained.
        self.scale = width_in**-0.5

    def forward(self, tokens: Tensor) -> Tensor:
        query, key, value = self.qkv(tokens).chunk(3, dim=-1)
        mixed = functional.scaled_dot_product_attention(query, key, value, scale=self.scale)
        shortcut: Tensor = value + self.proj(mixed)
        return shortcut


class TokenTransformer(nn.Module):
    """One transformer layer of the tokens-to-token module: T' = MLP(MSA(T)), Eq. (1) of [P]."""

    def __init__(self, width_in: int, width: int) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(width_in)
        self.attn = TokenAttention(width_in, width)
        self.norm2 = nn.LayerNorm(width)
        self.mlp = nn.ModuleDict({"fc1": nn.Linear(width, width), "fc2": nn.Linear(width, width)})

    def forward(self, tokens: Tensor) -> Tensor:
        tokens = self.attn(self.norm1(tokens))
        hidden = functional.gelu(self.mlp["fc1"](self.norm2(tokens)))
        mixed: Tensor = tokens + self.mlp["fc2"](hidden)  # Eq. (1)
        return mixed


class TokensToToken(nn.Module):
    """Three soft splits with a transformer between them: each token gathers its neighbours."""

    def __init__(self, width: int, token_width: int) -> None:
        super().__init__()
        self.attention1 = TokenTransformer(3 * 7 * 7, token_width)
        self.attention2 = TokenTransformer(token_width * 3 * 3, token_width)
        self.project = nn.Linear(token_width * 3 * 3, width)

    def forward(self, images: Tensor) -> Tensor:
        tokens = functional.unfold(images, kernel_size=7, stride=4, padding=2).transpose(1, 2)
        for layer in (self.attention1, self.attention2):
            maps = _as_map(layer(tokens))  # Eq. (2): back to the grid
            tokens = functional.unfold(maps, kernel_size=3, stride=2, padding=1).transpose(1, 2)
        projected: Tensor = self.project(tokens)
        return projected


class T2TViT(nn.Module):
    """The whole network; `forward` gives class logits, `forward_features` every token after the last norm."""

    def __init__(
        self,
        *,
        depth: int = 14,
        width: int = 384,
        heads: int = 6,
        mlp_ratio: float = 3.0,
        token_width: int = 64,
        size: int = 224,
        classes: int = 1000,
    ) -> None:
        super().__init__()
        ensure_torchvision()
        from timm.models.vision_transformer import Block

        positions = (size // 16) ** 2 + 1
        self.tokens_to_token = TokensToToken(width, token_width)
        self.cls_token = nn.Parameter(torch.zeros(1, 1, width))
        self.pos_embed = nn.Parameter(sinusoid_positions(positions, width), requires_grad=False)
        self.blocks = nn.ModuleList(
            Block(width, heads, mlp_ratio=mlp_ratio, qkv_bias=False, norm_layer=nn.LayerNorm) for _ in range(depth)
        )
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, classes)

    def forward_features(self, images: Tensor) -> Tensor:
        tokens = self.tokens_to_token(images)
        tokens = torch.cat([self.cls_token.expand(tokens.shape[0], -1, -1), tokens], dim=1) + self.pos_embed
        for block in self.blocks:
            tokens = block(tokens)
        normed: Tensor = self.norm(tokens)
        return normed

    def forward_head(self, tokens: Tensor) -> Tensor:
        logits: Tensor = self.head(tokens[:, 0])
        return logits

    def forward(self, images: Tensor) -> Tensor:
        return self.forward_head(self.forward_features(images))


def sinusoid_positions(positions: int, width: int) -> Tensor:
    """The fixed position table (1, positions, width): sines in even columns, cosines in odd ones."""
    frequency = 10000.0 ** (-2.0 * (torch.arange(width, dtype=torch.float64) // 2) / width)
    angles = torch.arange(positions, dtype=torch.float64)[:, None] * frequency
    angles[:, 0::2] = angles[:, 0::2].sin()
    angles[:, 1::2] = angles[:, 1::2].cos()
    return angles.float()[None]


def _as_map(tokens: Tensor) -> Tensor:
    count, length, width = tokens.shape
    side = math.isqrt(length)
    return tokens.transpose(1, 2).reshape(count, width, side, side)
