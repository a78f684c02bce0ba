"""Choose one network of a checkpoint that contains several, such as the student and the teacher of DINO.

The choice depends on the tensors that fit the architecture and on the keys that lead to a network, never on the order
of the keys. Where several networks fit equally well, the evaluation code of the training recipe decides:

    teacher > student                   DINO, iBOT, EsViT (`--checkpoint_key teacher`), DINOv2
    encoder_q > encoder_k               MoCo v1 and v2 (`main_lincls.py`)
    base_encoder > momentum_encoder     MoCo v3 (`main_lincls.py`)
    online > target                     BYOL
    target_encoder > encoder            MSN, I-JEPA, V-JEPA (`checkpoint_key: target_encoder`)
    backbone > momentum_backbone        solo-learn, lightly (`backbone_momentum`)
    trained weights > their average     timm (`validate.py` without `--use-ema`), DeiT; reversed by `ema=true`

If no rule applies, the choice is left to the user (`?key=`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from unseen.backbones.checkpoints import POSITIONS, state_dicts
from unseen.backbones.model_files import tables
from unseen.backbones.sources.timm import create_timm
from unseen.backbones.sources.torchvision import create_torchvision
from unseen.core.errors import CheckpointError, closest

if TYPE_CHECKING:
    import torch
    from torch import Tensor, nn


#: A network is a candidate if it has this share of the matching tensors of the best network.
_COMPETES = 0.9
_LISTED = 12  # paths in an error
#: Buffers that do not change the features.
_COUNTERS = "num_batches_tracked"


@dataclass(frozen=True, eq=False)
class Network:
    """One network inside a checkpoint.

    Attributes:
        container: dotted keys that lead to the mapping with its tensors; "" for the top level.
        prefix: text before the names of the architecture inside that mapping, such as "module.backbone.".
        tensors: all tensors of the mapping.
        fit: number of tensors of the architecture, without class head and positions, that it has in the right shape.
        share: the same as a share of the architecture.
    """

    container: str
    prefix: str
    tensors: Mapping[str, Tensor]
    fit: int
    share: float

    @property
    def path(self) -> str:
        """Return the dotted keys that lead to the network, for `?key=`."""
        return ".".join(part for part in (self.container, self.prefix.rstrip(".")) if part)


@dataclass(frozen=True, eq=False)
class Choice:
    """The network that was chosen, and the others that fit as well.

    Attributes:
        tied: whether no rule decides between the network and the first alternatives.
    """

    network: Network
    alternatives: tuple[Network, ...] = ()
    tied: bool = False

    def require_unique(self, file: str) -> None:
        """Raise `CheckpointError` if only the user can decide which network is meant."""
        if not self.tied:
            return
        paths = sorted(each.path for each in (self.network, *self.alternatives))
        raise CheckpointError(
            f"{file} has {len(paths)} networks that fit equally well: {', '.join(map(_quoted, paths))}. Select "
            f"one, such as {file}?key={next(filter(None, paths))}."
        )


def find_network(checkpoint: object, module: nn.Module, key: str | None = None, *, ema: bool = False) -> Choice:
    """Return the network in a checkpoint that fits `module` best, by fit first and by recipe second.

    Args:
        checkpoint: mappings and tensors, as `read_checkpoint` returns them.
        module: the architecture.
        key: dotted keys of the network or of a mapping around it, such as "teacher"; None considers all.
        ema: of a network and its average, choose the average.

    Raises:
        CheckpointError: the file has no tensors, or none under `key`.
    """
    containers = list(state_dicts(checkpoint))
    if not containers:
        raise CheckpointError("the checkpoint has no tensors, so there is nothing to load.")
    head = f"{head_name(module)}."
    own = module.state_dict()
    wanted = {n: t.shape for n, t in own.items() if not n.endswith(_COUNTERS)}
    body = {n: s for n, s in wanted.items() if not n.startswith(head) and not n.endswith(POSITIONS)} or wanted
    found = []
    for container, tensors in containers:
        for prefix in _prefixes(tensors):
            fit = _fit(tensors, prefix, body)
            found.append(Network(container, prefix, tensors, fit, fit / len(body)))
    if key is not None:
        found = _select(found, key)
    best = max(each.fit for each in found)
    if not best:  # no name matches: the caller reports it, or matches by order and shape
        tops = {each.container: each for each in sorted(found, key=lambda n: len(n.prefix), reverse=True)}
        largest = max(len(each.tensors) for each in tops.values())
        return _decide([each for each in tops.values() if len(each.tensors) == largest], wanted, ema=ema)
    competing = [each for each in found if each.fit >= _COMPETES * best]
    return _decide(_without_larger(competing, own, len(body)), wanted, ema=ema)


def _without_larger(networks: Sequence[Network], known: Mapping[str, Tensor], size: int) -> list[Network]:
    """Drop networks that contain the architecture as a part: a ResNet-34 has all tensors of a ResNet-18."""
    extra = []
    for each in networks:
        below = [other.prefix for other in networks if other.container == each.container]
        inner = tuple(prefix for prefix in below if prefix != each.prefix and prefix.startswith(each.prefix))
        own = [n for n in each.tensors if n.startswith(each.prefix) and not n.startswith(inner)]
        extra.append(sum(n[len(each.prefix) :] not in known for n in own))
    most = min(extra) + (1 - _COMPETES) * size + 8
    return [each for each, count in zip(networks, extra, strict=True) if count <= most]


def _decide(networks: Sequence[Network], wanted: Mapping[str, torch.Size], *, ema: bool) -> Choice:
    distinct = _distinct(networks, wanted)
    winners = [each for each in distinct if all(_beats(each, o, ema=ema) for o in distinct if o is not each)]
    if winners:
        return Choice(winners[0], tuple(each for each in distinct if each is not winners[0]))
    most = max(each.fit for each in distinct)
    leading = [each for each in distinct if each.fit == most]
    first, *others = [*leading, *(each for each in distinct if each.fit < most)]
    return Choice(first, tuple(others), tied=len(leading) > 1)


def _beats(one: Network, other: Network, *, ema: bool) -> bool:
    """Return whether the first recipe that concerns both networks evaluates `one`."""
    table, paths = tables(), (one.path.lower(), other.path.lower())
    for winner, loser in table["recipes"]:
        sides = [(bool(re.search(winner, path)), bool(re.search(loser, path))) for path in paths]
        if set(sides) == {(True, False), (False, True)}:
            return sides[0] == (True, False)
    for average, reversed_ in ((table["momentum"], False), (table["average"], ema)):
        first, second = (bool(re.search(average, path)) for path in paths)
        if first != second:
            return first == reversed_
    return False


def _distinct(networks: Sequence[Network], wanted: Mapping[str, torch.Size]) -> list[Network]:
    """Return the networks in the order of their paths, and of those with equal weights the most complete one."""
    ranked = sorted(networks, key=lambda n: (-n.fit, -_fit(n.tensors, n.prefix, wanted), len(n.path), n.path))
    kept: list[Network] = []
    for each in ranked:
        if not any(_same(each, other, wanted) for other in kept):
            kept.append(each)
    return sorted(kept, key=lambda n: (n.container.count("."), n.path))


def _same(one: Network, other: Network, wanted: Mapping[str, torch.Size]) -> bool:
    if one.tensors is other.tensors and one.prefix == other.prefix:
        return True
    import torch

    names = [n for n in wanted if one.prefix + n in one.tensors] or list(one.tensors)
    pairs = [(one.tensors.get(one.prefix + n), other.tensors.get(other.prefix + n)) for n in names]
    return bool(pairs) and all(
        a is not None and b is not None and a.shape == b.shape and a.dtype == b.dtype and torch.equal(a, b)
        for a, b in pairs
    )


def _select(networks: Sequence[Network], key: str) -> list[Network]:
    """Return the networks at or below a key path; a part of a path, such as "encoder_q", is enough."""
    wanted = key.strip(".").split(".")
    paths = {each.path: each.path.split(".") for each in networks}
    below = {path for path, parts in paths.items() if parts[: len(wanted)] == wanted} or {
        path for path, parts in paths.items() if any(parts[i : i + len(wanted)] == wanted for i in range(len(parts)))
    }
    if not below:
        near, known = closest(key, paths), sorted(paths, key=lambda path: (path.count("."), path))[:_LISTED]
        advice = f" Did you mean {' or '.join(map(repr, near))}?" if near else ""
        raise CheckpointError(
            f"the checkpoint has no tensors under {key!r}.{advice} It has them under: {', '.join(map(_quoted, known))}."
        )
    return [each for each in networks if each.path in below]


def _quoted(path: str) -> str:
    return repr(path) if path else "the top level"


def _prefixes(tensors: Mapping[str, Tensor]) -> list[str]:
    """Return every dotted beginning of a name."""
    found = {""}
    for name in tensors:
        parts = name.split(".")
        found.update(".".join(parts[:depth]) + "." for depth in range(1, min(len(parts), 6)))
    return sorted(found)


def _fit(tensors: Mapping[str, Tensor], prefix: str, wanted: Mapping[str, torch.Size]) -> int:
    return sum(prefix + name in tensors and tensors[prefix + name].shape == shape for name, shape in wanted.items())


def head_name(model: nn.Module) -> str | None:
    """Return the dotted name of the class head: timm's classifier, or the last linear layer."""
    from torch import nn

    getter = getattr(model, "get_classifier", None)
    head = getter() if callable(getter) else None
    linear: dict[Any, str] = {module: name for name, module in model.named_modules() if isinstance(module, nn.Linear)}
    return linear.get(head) or next(reversed(linear.values()), None)


#: Share of an architecture's tensors that a file must fill for a guess, class head and positions aside.
_ENOUGH = 0.97


def guess_architecture(checkpoint: object, name: str, key: str | None = None) -> tuple[str, float]:
    """Return the architecture that a checkpoint's tensors fit, and the share of it that they fill.

    Args:
        checkpoint: mappings and tensors, as `read_checkpoint` returns them.
        name: of the file, for the message.
        key: dotted keys of the network to consider; None considers all.

    Raises:
        CheckpointError: it fits no known architecture.
    """
    found = [(find_network(checkpoint, module, key).network, arch) for arch, module in _known()]
    # A ResNet-34 has all tensors of a ResNet-18: of complete architectures, choose the one with the most tensors.
    best, best_arch = max(found, key=lambda each: (each[0].share >= _ENOUGH, each[0].fit, each[0].share))
    if best.share >= _ENOUGH:
        return best_arch, best.share
    near = f" Nearest: {best_arch}, of which it fills {100 * best.share:.0f} %." if best.share > 0.3 else ""
    first = next(iter(state_dicts(checkpoint)), ("", {}))[1]
    listed = ", ".join(f"{key} {tuple(value.shape)}" for key, value in list(first.items())[:2])
    raise CheckpointError(
        f"the tensors of {name} fit no known architecture ({listed} ...).{near} Name it: {name}?arch=timm:NAME."
    )


@cache
def _known() -> list[tuple[str, nn.Module]]:
    """Return the known architectures, without memory for their weights."""
    import torch

    found: list[tuple[str, nn.Module]] = []
    for name in tables()["architectures"]:
        library, _, arch = name.partition(":")
        with torch.device("meta"):
            found.append((name, create_timm(arch) if library == "timm" else create_torchvision(arch)))
    return found
