"""Read the published files of ImageNet-CoG's models, and copy their tensors into our networks. No code in a file runs.

A format is a function from a file to tensors by their published names; a layout maps our names to the published ones.

Torch files:  read by `torch.load` with `weights_only`. Training scripts save options, schedulers and functions beside
              the weights: every class or function in the file other than a tensor's becomes an inert `Record`.
TorchScript:  the same, without the code in the archive.
Haiku:        BYOL's dill pickle {"experiment_state": (online_params, target_params, online_state, target_state, ...)}:
              mappings of module paths (`res_net50/~/block_group_0/~/block_1/~/conv_2`) to arrays by short name
              (`w`, `b`, `scale`, `offset`); states have moving averages under `.../mean_ema` and `.../var_ema`. The
              online network is read, as its authors evaluate it.
TensorFlow:   `NAME.index` is a sorted string table as LevelDB writes them: variable names to `BundleEntryProto`
              messages (type, shape, shard, offset, size) of the bytes in `NAME.data-00000-of-00001`; the empty key has
              the `BundleHeaderProto`. Uncompressed tables and whole numeric tensors are read; checksums of the index
              are verified, those of tensors are not (a pure Python CRC of 100 MB takes minutes).
"""

from __future__ import annotations

import io
import math
import re
import struct
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, BinaryIO

import msgspec
import numpy as np
import torch
from torch import Tensor, nn

from unseen.backbones.checkpoints import load_plain, state_dicts
from unseen.backbones.model_files import pickled_names
from unseen.backbones.sources.cog import CogModel
from unseen.core.arrays import AnyArray
from unseen.core.errors import CheckpointError, DataError
from unseen.core.files import read_toml
from unseen.core.guard import guarded, read_member, reader
from unseen.core.pickles import StandIn, load_plain_pickle
from unseen.core.wire import fields, masked_crc32c, varint

Tensors = dict[str, Tensor]
_COUNTERS = "num_batches_tracked"


def read_published(model: CogModel, path: Path) -> Tensors:
    """Read the tensors of a file by their published names, from the first container of the card that has any."""
    if model.format == "haiku":
        return read_haiku_file(path)
    if model.format == "tensorflow":
        return read_tensorflow_file(path)
    tree = read_torch_file(*_zipped_torch_file(path)) if model.format == "zip" else read_torch_file(path, path.name)
    if model.format == "torchscript":
        return flatten(tree)
    for container in model.containers:
        inside = tree
        for key in filter(None, container.split(".")):
            inside = inside.get(key) if isinstance(inside, Mapping) else None
        if isinstance(inside, Mapping) and (found := {str(k): v for k, v in inside.items() if isinstance(v, Tensor)}):
            return found
    wanted = " or ".join(repr(container) for container in model.containers if container) or "its top level"
    keys = ", ".join(map(repr, list(tree)[:5])) if isinstance(tree, Mapping) else type(tree).__name__
    raise CheckpointError(
        f"{model.card.id}: {path.name} has no tensors under {wanted}; it holds {keys or 'nothing'}. "
        f"{model.file} from {model.page} is needed."
    )


class Record(dict[str, object]):
    """Stand-in for an object of an unknown class: the attributes that the file has for it."""

    def __new__(cls, *_: object) -> Record:
        return super().__new__(cls)

    def __init__(self, *_: object) -> None:
        super().__init__()

    def __setstate__(self, state: object) -> None:
        if isinstance(state, Mapping):
            self.update(state)


def read_torch_file(source: Path | bytes, name: str) -> object:
    """Read the containers and tensors of a torch file; an object of another class becomes a `Record`.

    Args:
        source: the file, or its contents.
        name: what to call it in an error.
    """
    if isinstance(source, Path) and not source.is_file():
        raise CheckpointError(f"no checkpoint at {source}.")
    with (
        guarded(name, "a torch file", error=CheckpointError),
        source.open("rb") if isinstance(source, Path) else io.BytesIO(source) as opened,
    ):
        file = _without_code(opened)
        # A pickle of torch names built-in functions by the module that Python 2 had them in.
        names = [re.sub(r"^__builtin__\b", "builtins", each) for each in pickled_names(file, name) or ()]
        file.seek(0)
        return load_plain(file, name, [(Record, each) for each in names])


def _without_code(file: BinaryIO) -> BinaryIO:
    """Return a TorchScript archive with its data only, in memory; any other file unchanged, at its start."""
    if zipfile.is_zipfile(file):
        with zipfile.ZipFile(file) as archive:
            if any(name.endswith("/constants.pkl") for name in archive.namelist()):
                file = io.BytesIO()
                with zipfile.ZipFile(file, "w") as data:
                    for name in archive.namelist():
                        if not name.endswith("/constants.pkl") and "/code/" not in name:
                            data.writestr(name, read_member(archive, name))
    file.seek(0)
    return file


def flatten(tree: object) -> Tensors:
    """Return every tensor of nested mappings under dotted names: the state dict of a TorchScript module."""
    found = ((path, name, tensor) for path, tensors in state_dicts(tree) for name, tensor in tensors.items())
    return {f"{path}.{name}" if path else name: tensor for path, name, tensor in found}


def _zipped_torch_file(path: Path) -> tuple[Path | bytes, str]:
    """Return the one torch file inside a plain zip archive, or the file itself, and its name."""
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            members = [name for name in archive.namelist() if name.endswith((".pth.tar", ".pth", ".pt"))]
            if len(members) > 1:
                raise CheckpointError(f"{path.name} holds {len(members)} torch files; one is expected.")
            if members:
                return read_member(archive, members[0]), f"{members[0]} in {path.name}"
    return path, path.name


#: Fields of the named tuple, in order; an inert record keeps its values but not their names.
_STATE_FIELDS = ("online_params", "target_params", "online_state", "target_state", "opt_state")

#: What precedes the parts that every path has: the name of the network as Haiku made it.
_NETWORK = re.compile(r"^.*?(?=initial_|block_group_|classifier|projector|predictor)")


def _create_array(make: Any, arguments: Any, state: Any, *_: Any) -> object:
    """Rebuild an array as dill writes it: the call and the state of NumPy's own pickle.

    `make` can only be one of the restricted reader's own constructors, or an inert stand-in.
    """
    array = make(*arguments)
    array.__setstate__(state)
    return array


_CONSTRUCTORS = {(module, "_create_array"): _create_array for module in ("dill._dill", "dill.dill")}


@reader("a Haiku checkpoint", error=CheckpointError)
def read_haiku_file(path: Path) -> Tensors:
    """Read the online network's tensors, named "block_group_0/block_1/conv_2.w", averages "....mean_ema.average"."""
    try:
        tree = load_plain_pickle(path, _CONSTRUCTORS, stand_ins=True)
        state = _mapping(_mapping(tree)["experiment_state"], _STATE_FIELDS)
        parts = [_mapping(state["online_params"]), _mapping(state["online_state"])]
    except (DataError, KeyError, TypeError) as error:
        raise CheckpointError(
            f"{path.name} is not a checkpoint of BYOL: it needs experiment_state with online_params and online_state "
            f"({error})."
        ) from None
    return {name: torch.from_numpy(value) for part in parts for name, value in _arrays(part)}


def _arrays(modules: Mapping[object, object]) -> Iterator[tuple[str, AnyArray]]:
    for path, leaves in modules.items():
        short = _NETWORK.sub("", str(path)).replace("/~/", "/")
        # Haiku numbers a second module of the same name; the stem of some published files has been made twice.
        short = re.sub(r"^(initial_(?:conv|batchnorm))_1\b", r"\1", short)
        for leaf, value in _mapping(leaves).items():
            array = np.asarray(value)
            if array.dtype.kind in "fiu":
                yield f"{short}.{leaf}", np.array(array)


def _mapping(value: object, names: tuple[str, ...] = ()) -> Mapping[object, object]:
    """Return a mapping; Haiku's classes are pickled as a call with one dictionary, named tuples with their fields."""
    if isinstance(value, StandIn):
        inside = [each for each in (*value.arguments, value.state, value.entries) if isinstance(each, Mapping) and each]
        value = value.arguments if len(value.arguments) == len(names) else inside[0] if inside else value
    if isinstance(value, tuple) and len(value) == len(names):
        return dict(zip(names, value, strict=True))
    if not isinstance(value, Mapping):
        raise TypeError(f"{type(value).__name__} is not a mapping")
    return value


_TABLE_MAGIC = 0xDB4775248B80FB57
_FOOTER_BYTES = 48
_TRAILER_BYTES = 5  # of a block: how it is compressed, and its checksum

#: `DataType` of TensorFlow to NumPy.
_TYPES: Mapping[int, str] = {
    1: "<f4", 2: "<f8", 3: "<i4", 4: "u1", 5: "<i2", 6: "i1",
    9: "<i8", 10: "?", 17: "<u2", 19: "<f2", 22: "<u4", 23: "<u8",
}  # fmt: skip


def read_tensorflow_file(path: Path) -> Tensors:
    """Read the variables of a TensorFlow checkpoint, without what the optimiser kept of each.

    Args:
        path: the `.index` file, the name of the checkpoint without it, or a folder with one checkpoint.
    """
    if path.is_dir():
        indices = sorted(path.glob("*.index"))
        if len(indices) != 1:
            raise CheckpointError(f"{path} holds {len(indices)} TensorFlow checkpoints (*.index); one is expected.")
        path = indices[0]
    prefix = path.with_suffix("") if path.suffix == ".index" else path
    index = prefix.with_name(prefix.name + ".index")
    if not index.is_file():
        raise CheckpointError(f"no TensorFlow checkpoint at {prefix}: {index.name} does not exist.")
    try:
        table = dict(read_table(index.read_bytes()))
        header: dict[int, Any] = dict(fields(table.pop(b"")))
        if header.get(2, 0):
            raise ValueError("it was written on a big-endian machine")
        # BundleEntryProto: dtype 1, shape 2, shard_id 3, offset 4, size 5, crc32c 6, slices 7.
        entries: dict[str, dict[int, Any]] = {name.decode(): dict(fields(value)) for name, value in table.items()}
        shapes = {name: _shape(entry.get(2, b"")) for name, entry in entries.items()}
    except (ValueError, KeyError, IndexError, TypeError, struct.error, OverflowError) as error:
        raise CheckpointError(f"{index.name} is not the index of a TensorFlow checkpoint: {error}.") from None
    shards = int(header.get(1, 1))
    return {
        name: torch.from_numpy(
            _read_variable(
                prefix.with_name(f"{prefix.name}.data-{entry.get(3, 0):05d}-of-{shards:05d}"), name, entry, shapes[name]
            )
        )
        for name, entry in entries.items()
        if not name.endswith("/Momentum")
    }


def _shape(message: Any) -> tuple[int, ...]:
    """Parse a `TensorShapeProto`."""
    sides: Iterator[dict[int, Any]] = (dict(fields(dim)) for number, dim in fields(message) if number == 2)
    return tuple(side.get(1, 0) for side in sides)


def _read_variable(shard: Path, name: str, entry: Mapping[int, Any], shape: tuple[int, ...]) -> AnyArray:
    kind, offset, size = (entry.get(number, 0) for number in (1, 4, 5))
    if kind not in _TYPES or 7 in entry:
        problem = "is partitioned" if 7 in entry else f"has type {kind}"
        raise CheckpointError(f"{name} of {shard.name} {problem}; whole numeric tensors can be read.")
    dtype = np.dtype(_TYPES[kind])
    if math.prod(shape) * dtype.itemsize != size:
        raise CheckpointError(f"{name} of {shard.name} has shape {shape} but {size} bytes.")
    if not shard.is_file():
        raise CheckpointError(f"{shard.name} is missing beside its index; both are needed.")
    if offset + size > shard.stat().st_size:
        raise CheckpointError(f"{shard.name} is too short: {name} should end at byte {offset + size}.")
    return np.fromfile(shard, dtype, math.prod(shape), offset=offset).reshape(shape)


def read_table(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield keys and values of a sorted string table, in order."""
    footer = data[-_FOOTER_BYTES:]
    if len(footer) < _FOOTER_BYTES or struct.unpack("<Q", footer[-8:])[0] != _TABLE_MAGIC:
        raise ValueError("it does not end as a table does")
    _, _, *index = _integers(footer, 0, 4)[0]  # after the handle of the metaindex, which is empty
    for _, handle in _block(data, *index):
        yield from _block(data, *_integers(handle, 0, 2)[0])


def _block(data: bytes, offset: int, size: int) -> Iterator[tuple[bytes, bytes]]:
    block = data[offset : offset + size + _TRAILER_BYTES]
    if len(block) < size + _TRAILER_BYTES:
        raise ValueError("a block reaches beyond the file")
    if block[size]:
        raise ValueError("a block is compressed")
    if struct.unpack("<I", block[size + 1 :])[0] != masked_crc32c(block[: size + 1]):
        raise ValueError("the checksum of a block does not match")
    restarts = struct.unpack("<I", block[size - 4 : size])[0]
    end, position, key = size - 4 * (restarts + 1), 0, b""
    while position < end:
        # Each key shares a beginning with the one before it.
        (shared, fresh, length), position = _integers(block, position, 3)
        key = key[:shared] + block[position : position + fresh]
        position += fresh
        yield key, block[position : position + length]
        position += length


def _integers(data: bytes, position: int, count: int) -> tuple[list[int], int]:
    """Return consecutive variable-length integers and the position after them."""
    found = []
    for _ in range(count):
        value, position = varint(data, position)
        found.append(value)
    return found, position


@dataclass(frozen=True)
class Layout:
    """How a family of files names and stores the tensors of a network; `layouts.toml` describes the attributes."""

    rules: tuple[tuple[str, str, int], ...] = ()
    axes: str = "torch"
    reverses_input: bool = False
    numbered: bool = False

    def rename(self, name: str) -> str:
        """Return the published name of a tensor, before the prefix of the file."""
        name = numbered_name(name) if self.numbered else name
        for pattern, replacement, number in self.rules:
            name = re.sub(pattern, partial(_replaced, replacement, number), name)
        return name


def _replaced(replacement: str, number: int, match: re.Match[str]) -> str:
    return replacement.format(*(int(group) + number if group.isdigit() else group for group in match.groups()))


@cache
def layouts() -> Mapping[str, Layout]:
    """Return the layouts by the names that `cards.toml` uses."""
    return msgspec.convert(read_toml("unseen.backbones.cog", "layouts.toml"), dict[str, Layout])


#: Convolutions of a ResNet-50 in the order of their creation: a shortcut is made before its block.
_CONVOLUTIONS = [
    "conv1",
    *(
        f"layer{stage}.{block}.{name}"
        for stage, count in enumerate((3, 4, 6, 3), start=1)
        for block in range(count)
        for name in ("downsample.0", "conv1", "conv2", "conv3")[block > 0 :]
    ),
]


def numbered_name(name: str) -> str:
    """Return the name of a tensor with the number of its convolution, such as "bn_7.weight"."""
    path, _, leaf = name.rpartition(".")
    convolution = path.replace("downsample.1", "downsample.0").replace("bn", "conv")
    if convolution not in _CONVOLUTIONS:
        return name
    number = _CONVOLUTIONS.index(convolution)
    return f"{'conv' if path == convolution else 'bn'}{f'_{number}' if number else ''}.{leaf}"


def fit(model: CogModel, module: nn.Module, tensors: Mapping[str, Tensor]) -> str:
    """Copy every tensor of a published file into `module`, strict about every name and shape.

    Returns:
        The first difference between the file and the network, which is then unchanged; "" if there is none.
    """
    layout = layouts()[model.layout]
    # Batch normalisation's counters are skipped: older files lack them, and no feature depends on them.
    shapes = {name: value.shape for name, value in module.state_dict().items() if not name.endswith(_COUNTERS)}
    first = next(iter(shapes))
    prefix = next((each for each in model.prefixes if each + layout.rename(first) in tensors), model.prefixes[0])
    wanted = {prefix + layout.rename(name): name for name in shapes}
    ignored = re.compile("|".join(model.ignored) or "(?!)")
    state: Tensors = {}
    for key, name in wanted.items():
        if key not in tensors:
            return _difference(key, "it is missing from the file")
        found = _reordered(tensors[key], layout.axes, len(shapes[name]))
        if found.shape != shapes[name]:
            return _difference(key, f"its shape is {tuple(tensors[key].shape)}, {tuple(shapes[name])} is needed")
        state[name] = found.float().flip(1) if layout.reverses_input and name == first else found.float()
    for key in tensors:
        inside = key.startswith(prefix) and key not in wanted and not key.endswith(_COUNTERS)
        if inside and not ignored.match(key[len(prefix) :]):
            return _difference(key, "the network has no such tensor")
    module.load_state_dict(state, strict=False)
    return ""


def _difference(key: str, reason: str) -> str:
    return f"the first key that differs is {key!r}: {reason}"


def _reordered(tensor: Tensor, axes: str, rank: int) -> Tensor:
    if axes == "torch":
        return tensor
    if rank == 4 and tensor.ndim == 4:
        return tensor.permute(3, 2, 0, 1)
    if rank == 2 and tensor.ndim == 2:
        return tensor.T
    return tensor.flatten() if rank == 1 and tensor.numel() == max(tensor.shape, default=1) else tensor
