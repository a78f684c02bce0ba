"""Where each tensor of a network stands in its published file: names, and the order of axes.

A layout goes from our name of a tensor to the published one. Everything is then strict: `fit` copies what the file has
and stops at the first name that is missing, too many, or of another shape.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt
import torch
from torch import Tensor, nn

#: From our name of a tensor to the published name, before the prefix of the file.
Rename = Callable[[str], str]


@dataclass(frozen=True)
class Layout:
    """How a family of files names and stores the tensors of a network.

    Attributes:
        rename: our name to the published one.
        axes: "torch", or "channels_last" for files of TensorFlow and JAX: convolutions (h, w, in, out), matrices
            (in, out), one-dimensional tensors with axes of one around them.
        reverses_input: whether the network was trained on blue-green-red images.
    """

    rename: Rename
    axes: str = "torch"
    reverses_input: bool = False


@dataclass(frozen=True)
class Difference:
    """The first name at which a file and a network part ways."""

    key: str
    reason: str

    def sentence(self) -> str:
        return f"the first key that differs is {self.key!r}: {self.reason}"


def fit(
    module: nn.Module,
    tensors: Mapping[str, Tensor],
    layout: Layout,
    *,
    prefix: str = "",
    ignored: Iterable[str] = (),
) -> Difference | None:
    """Copy every tensor of a published file into `module`, or say where they differ and leave it as it was.

    Args:
        prefix: what stands before every name of the network in the file; names without it are not looked at.
        ignored: regular expressions of names (after the prefix) that the network does not need, such as the
            projection head of self-supervision.
    """
    skipped = [re.compile(pattern) for pattern in ignored]
    # Batch normalisation's counters are left out: older files lack them, and no feature depends on them.
    shapes = {name: value.shape for name, value in module.state_dict().items() if not _is_counter(name)}
    wanted = {prefix + layout.rename(name): name for name in shapes}
    first_weight = next(iter(shapes))
    state: dict[str, Tensor] = {}
    for key, name in wanted.items():
        if key not in tensors:
            return Difference(key, "it is missing from the file")
        found = _reordered(tensors[key], layout.axes, len(shapes[name]))
        if found.shape != shapes[name]:
            return Difference(key, f"its shape is {tuple(tensors[key].shape)}, {tuple(shapes[name])} is needed")
        state[name] = found.float().flip(1) if layout.reverses_input and name == first_weight else found.float()
    for key in tensors:
        inside = key.startswith(prefix) and key not in wanted and not _is_counter(key)
        if inside and not any(pattern.match(key[len(prefix) :]) for pattern in skipped):
            return Difference(key, "the network has no such tensor")
    module.load_state_dict(state, strict=False)
    return None


def _is_counter(name: str) -> bool:
    return name.endswith("num_batches_tracked")


def _reordered(tensor: Tensor, axes: str, rank: int) -> Tensor:
    if axes == "torch":
        return tensor
    if rank == 4 and tensor.ndim == 4:
        return tensor.permute(3, 2, 0, 1)
    if rank == 2 and tensor.ndim == 2:
        return tensor.T
    return tensor.flatten() if rank == 1 and tensor.numel() == max(tensor.shape, default=1) else tensor


def same_names(name: str) -> str:
    return name


def mopro_names(name: str) -> str:
    """Return MoPro's name: its class head is `classifier`, its `fc` the projection."""
    return re.sub(r"^fc\.", "classifier.", name)


def pycls_names(name: str) -> str:
    """Return pycls' name of a tensor of timm's EfficientNet: stem, stages s1..s7 of blocks b1.., head."""
    outside = {"conv_stem": "stem.conv", "bn1": "stem.bn", "conv_head": "head.conv", "bn2": "head.conv_bn"}
    outside["classifier"] = "head.fc"
    inside = {"conv_dw": "dwise", "conv_pwl": "lin_proj", "bn3": "lin_proj_bn"}
    inside |= {"se.conv_reduce": "se.f_ex.0", "se.conv_expand": "se.f_ex.2"}
    # The blocks of the first stage do not expand: timm builds them without the first convolution.
    plain = {"bn1": "dwise_bn", "conv_pw": "lin_proj", "bn2": "lin_proj_bn"}
    expanding = {"conv_pw": "exp", "bn1": "exp_bn", "bn2": "dwise_bn"}
    part, _, leaf = name.rpartition(".")
    if not (match := re.match(r"blocks\.(\d+)\.(\d+)\.(.+)", part)):
        return f"{outside.get(part, part)}.{leaf}"
    stage, block, inner = int(match[1]) + 1, int(match[2]) + 1, match[3]
    words = inside | (plain if stage == 1 else expanding)
    return f"s{stage}.b{block}.{words.get(inner, inner)}.{leaf}"


def clip_names(name: str) -> str:
    """Return the name in OpenAI's `visual` module of a tensor of timm's CLIP ResNet."""
    kinds = {"conv": "conv", "bn": "bn"}
    if match := re.match(r"stem\.conv(\d)\.(conv|bn)\.(.+)", name):
        return f"{kinds[match[2]]}{match[1]}.{match[3]}"
    if match := re.match(r"stages\.(\d)\.(\d+)\.conv(\d)_\w+\.(conv|bn)\.(.+)", name):
        return f"layer{int(match[1]) + 1}.{match[2]}.{kinds[match[4]]}{match[3]}.{match[5]}"
    if match := re.match(r"stages\.(\d)\.(\d+)\.shortcut\.conv\.(conv|bn)\.(.+)", name):
        return f"layer{int(match[1]) + 1}.{match[2]}.downsample.{0 if match[3] == 'conv' else 1}.{match[4]}"
    name = name.replace("head.pos_embed", "attnpool.positional_embedding")
    return re.sub(r"^head\.(q|k|v|proj)\.", lambda m: f"attnpool.{m[1][0].replace('p', 'c')}_proj.", name)


def haiku_names(name: str) -> str:
    """Return Haiku's name of a tensor of a ResNet, as `read_haiku_file` shortens it."""
    path, _, leaf = name.rpartition(".")
    path = re.sub(r"^layer(\d)\.(\d+)\.", lambda m: f"block_group_{int(m[1]) - 1}/block_{m[2]}/", path)
    path = re.sub(r"\b(conv|bn)(\d)$", lambda m: f"{m[1]}_{int(m[2]) - 1}", path)
    for ours, theirs in {"conv_0": "initial_conv", "bn_0": "initial_bn", "fc": "classifier"}.items():
        path = theirs if path == ours else path
    path = path.replace("downsample.0", "shortcut_conv").replace("downsample.1", "shortcut_bn")
    is_norm = "bn" in path
    path = re.sub(r"bn(?=_\d$|$)", "batchnorm", path)
    if leaf.startswith("running_"):
        return f"{path}/{leaf.removeprefix('running_')}_ema.average"
    return f"{path}.{({'weight': 'scale', 'bias': 'offset'} if is_norm else {'weight': 'w', 'bias': 'b'})[leaf]}"


def simclr_names(blocks: tuple[int, ...] = (3, 4, 6, 3)) -> Rename:
    """Return the name in SimCLR's TensorFlow code, which numbers layers in the order of their creation.

    Args:
        blocks: how many blocks each stage has.
    """
    order = ["conv1"]
    for stage, count in enumerate(blocks, start=1):
        for block in range(count):
            # The shortcut of a stage's first block is made before the block itself.
            order += [f"layer{stage}.{block}.downsample.0"] * (block == 0)
            order += [f"layer{stage}.{block}.conv{n}" for n in (1, 2, 3)]
    numbers = {convolution: number for number, convolution in enumerate(order)}
    leaves = {"weight": "gamma", "bias": "beta", "running_mean": "moving_mean", "running_var": "moving_variance"}

    def rename(name: str) -> str:
        path, _, leaf = name.rpartition(".")
        if path == "fc":
            return f"head_supervised/linear_layer/dense/{'kernel' if leaf == 'weight' else 'bias'}"
        if path in numbers:
            return f"base_model/conv2d{_suffix(numbers[path])}/kernel"
        convolution = path.replace("downsample.1", "downsample.0").replace("bn", "conv")
        return f"base_model/batch_normalization{_suffix(numbers[convolution])}/{leaves.get(leaf, leaf)}"

    return rename


def _suffix(number: int) -> str:
    return f"_{number}" if number else ""


#: By the name that `cards.toml` uses.
LAYOUTS: dict[str, Layout] = {
    "same": Layout(same_names),
    "mopro": Layout(mopro_names),
    "pycls": Layout(pycls_names, reverses_input=True),
    "clip": Layout(clip_names),
    "haiku": Layout(haiku_names, axes="channels_last"),
    "simclr": Layout(simclr_names(), axes="channels_last"),
}


def first_key(tensors: Mapping[str, Tensor]) -> str:
    """Return the first name in a file, for error messages."""
    return next(iter(tensors), "no tensor at all")


def as_tensors(arrays: Mapping[str, npt.NDArray[Any]], names: Iterable[str]) -> dict[str, Tensor]:
    """Convert the NumPy arrays called `names` to tensors, one at a time."""
    return {name: torch.tensor(arrays[name]) for name in names}
