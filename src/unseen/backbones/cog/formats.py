"""Read the published files of ImageNet-CoG's models as state dicts, without running code in them.

Torch files:  zip archives of torch >= 1.6 (TorchScript archives too) and the sequence of pickles before. Training
              scripts save options, schedulers and functions beside the weights, which `weights_only` refuses. Here
              every class other than a tensor becomes an inert record, and storages are read from the file directly.
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
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from unseen.backbones.checkpoints import read_checkpoint
from unseen.backbones.cog.layouts import as_tensors
from unseen.backbones.cog.release import CogModel
from unseen.core.errors import CheckpointError, DataError
from unseen.core.guard import read_member, reader
from unseen.core.pickles import Foreign, PickleRules, load_plain_pickle
from unseen.core.wire import fields, masked_crc32c, varint

#: How torch's pickles name the element type of a storage.
_STORAGE_TYPES = {
    "FloatStorage": torch.float32,
    "DoubleStorage": torch.float64,
    "HalfStorage": torch.float16,
    "BFloat16Storage": torch.bfloat16,
    "LongStorage": torch.int64,
    "IntStorage": torch.int32,
    "ShortStorage": torch.int16,
    "CharStorage": torch.int8,
    "ByteStorage": torch.uint8,
    "BoolStorage": torch.bool,
}

#: What a file of the older format begins with, as a pickled number.
_LEGACY_MAGIC = 0x1950A86A20F9469CFC6C


@dataclass(frozen=True)
class _StorageType:
    dtype: torch.dtype


@dataclass(frozen=True)
class _Storage:
    key: str
    dtype: torch.dtype
    numel: int


@dataclass(frozen=True)
class _Pending:
    """A tensor whose storage has not been read yet."""

    storage: _Storage
    offset: int
    size: tuple[int, ...]
    stride: tuple[int, ...]


class _Malformed(ValueError):
    """The file contradicts itself."""


#: What records give that a forged file has tampered with.
_FORGED = (ValueError, TypeError, AttributeError, OverflowError, MemoryError)


_DEEPEST = 100  # mappings within mappings
_MOST_TENSORS = 100_000

#: From the key of a storage to its bytes.
Storages = Callable[[str], bytes | bytearray]


@reader("a torch file", error=CheckpointError)
def read_torch_file(source: Path | bytes, name: str) -> Any:
    """Read the containers and tensors of a torch file; other objects are dropped.

    Args:
        source: the file, or its contents.
        name: what to call it in an error.
    """
    if isinstance(source, Path) and not source.is_file():
        raise CheckpointError(f"no checkpoint at {source}.")
    if isinstance(source, Path) and not _is_torchscript(source):
        try:
            return read_checkpoint(source)
        except CheckpointError as refusal:
            # Foreign classes, or the format before torch 1.6 with something odd in it: read what can be read.
            if source.suffix == ".safetensors":
                raise
            reason = refusal
    else:
        reason = None
    try:
        if isinstance(source, bytes):
            return _read(io.BytesIO(source))
        with source.open("rb") as file:
            return _read(file)
    except (DataError, RuntimeError, EOFError, LookupError, *_FORGED, zipfile.BadZipFile) as error:
        raise (reason or CheckpointError(f"{name} cannot be read as a torch file: {error}")) from error


def flatten(tree: Any) -> dict[str, Tensor]:
    """Return every tensor of nested mappings under dotted names: the state dict of a TorchScript module.

    Raises:
        CheckpointError: a mapping lies within itself, or the mappings are nested or shared beyond all reason.
    """
    return _flat(tree, {}, ())


def _flat(tree: Any, known: dict[int, dict[str, Tensor]], inside: tuple[int, ...]) -> dict[str, Tensor]:
    """Return the tensors below `tree` by name; a mapping in several places is visited once."""
    if isinstance(tree, Tensor):
        return {"": tree}
    if not isinstance(tree, Mapping):
        return {}
    if id(tree) not in known:
        if id(tree) in inside or len(inside) > _DEEPEST:
            raise CheckpointError("the mappings of the file lie within one another without end.")
        found: dict[str, Tensor] = {}
        for key, value in tree.items():
            below = _flat(value, known, (*inside, id(tree)))
            found |= {f"{key}.{name}" if name else str(key): tensor for name, tensor in below.items()}
            if len(found) > _MOST_TENSORS:
                raise CheckpointError(f"the file names more than {_MOST_TENSORS:,} tensors.")
        known[id(tree)] = found
    return known[id(tree)]


def _is_torchscript(path: Path) -> bool:
    if not zipfile.is_zipfile(path):
        return False
    with zipfile.ZipFile(path) as archive:
        return any(name.endswith("/constants.pkl") for name in archive.namelist())


def _read(file: BinaryIO) -> Any:
    if zipfile.is_zipfile(file):
        with zipfile.ZipFile(file) as archive:
            return _read_zip(archive)
    file.seek(0)
    return _read_legacy(file)


def _read_zip(archive: zipfile.ZipFile) -> Any:
    roots = [n.removesuffix("data.pkl") for n in archive.namelist() if n.endswith("data.pkl") and n.count("/") <= 1]
    if len(roots) != 1:
        raise _Malformed("the archive has no data.pkl")
    order = f"{roots[0]}byteorder"
    if order in archive.namelist() and read_member(archive, order) != b"little":
        raise _Malformed("it was written on a big-endian machine")
    tree = load_plain_pickle(io.BytesIO(read_member(archive, f"{roots[0]}data.pkl")), _rules())
    return _resolve(tree, lambda key: read_member(archive, f"{roots[0]}data/{key}"))


def _read_legacy(file: BinaryIO) -> Any:
    """Read five pickles (magic number, version, system, the object, the storage keys), then the storages."""
    if load_plain_pickle(file) != _LEGACY_MAGIC:
        raise _Malformed("it is neither a zip archive nor a sequence of pickles by torch")
    load_plain_pickle(file), load_plain_pickle(file)
    types: dict[str, _Storage] = {}
    tree = load_plain_pickle(file, _rules(types))
    places: dict[str, tuple[int, int]] = {}
    for key in load_plain_pickle(file):
        count = int.from_bytes(file.read(8), "little", signed=True)
        if key not in types or count < 0:
            raise _Malformed(f"storage {key!r} is not mentioned")
        places[key] = (file.tell(), count * types[key].dtype.itemsize)
        file.seek(places[key][1], io.SEEK_CUR)

    def contents(key: str) -> bytes:
        start, size = places[key]
        file.seek(start)
        return file.read(size)

    return _resolve(tree, contents)


def _rules(seen: dict[str, _Storage] | None = None) -> PickleRules:
    """Return what a torch pickle may contain: storages by reference, and tensors over them."""

    def storage(reference: Any) -> Any:
        match reference:
            case ("storage", _StorageType(dtype), key, _, int(numel), *_):
                found = _Storage(str(key), dtype, numel)
                if seen is not None:
                    seen[found.key] = found
                return found
        return Foreign("a storage of another kind")

    def tensor(data: Any = None, offset: Any = None, size: Any = None, stride: Any = None, *_: Any) -> Any:
        sound = isinstance(data, _Storage) and type(offset) is int and _counts(size) and _counts(stride)
        return _Pending(data, offset, tuple(size), tuple(stride)) if sound else Foreign("a tensor of another kind")

    def parameter(data: Any = None, *_: Any) -> Any:
        return data

    storages = {("torch", name): _StorageType(dtype) for name, dtype in _STORAGE_TYPES.items()}
    functions: dict[tuple[str, str], Callable[..., Any]] = {
        ("torch._utils", "_rebuild_tensor"): tensor,
        ("torch._utils", "_rebuild_tensor_v2"): tensor,
        ("torch._utils", "_rebuild_parameter"): parameter,
        ("torch._utils", "_rebuild_parameter_with_state"): parameter,
    }
    return PickleRules(
        constructors=functions,
        constants=storages,
        leaves=(_Pending, _Storage, _StorageType, Foreign),
        persistent_load=storage,
        foreign=True,
    )


def _counts(value: Any) -> bool:
    return isinstance(value, tuple | list) and all(type(n) is int and n >= 0 for n in value)


def _resolve(tree: Any, contents: Storages) -> Any:
    """Return mappings, lists and tensors of an unpickled object; another object is replaced by its state."""
    done: dict[str, Tensor] = {}
    known: dict[int, Any] = {}

    def visit(value: Any, inside: tuple[int, ...] = ()) -> Any:
        if isinstance(value, _Pending):
            return _tensor(value, contents, done)
        if isinstance(value, Foreign):
            value = value.state if isinstance(value.state, Mapping) else None
        if not isinstance(value, Mapping | list | tuple):
            return value
        if id(value) not in known:  # what stands in several places stays one thing
            if id(value) in inside or len(inside) > _DEEPEST:
                raise _Malformed("its containers lie within one another without end")
            within = (*inside, id(value))
            if isinstance(value, Mapping):
                known[id(value)] = {key: visit(inner, within) for key, inner in value.items()}
            else:
                known[id(value)] = [visit(inner, within) for inner in value]
        return known[id(value)]

    return visit(tree)


def _tensor(pending: _Pending, contents: Storages, done: dict[str, Tensor]) -> Tensor:
    storage = pending.storage
    if storage.key not in done:
        data = bytearray(contents(storage.key))
        if len(data) != storage.numel * storage.dtype.itemsize:
            raise _Malformed(f"storage {storage.key!r} has {len(data)} bytes, not {storage.numel} elements")
        done[storage.key] = torch.frombuffer(data, dtype=storage.dtype) if data else torch.empty(0, dtype=storage.dtype)
    if len(pending.size) != len(pending.stride):
        raise _Malformed("a tensor has a malformed shape")
    last = pending.offset + sum((n - 1) * step for n, step in zip(pending.size, pending.stride, strict=True))
    if math.prod(pending.size) and not 0 <= pending.offset <= last < storage.numel:
        raise _Malformed(f"a tensor reaches outside storage {storage.key!r}")
    return done[storage.key].as_strided(pending.size, pending.stride, pending.offset)


#: Fields of the named tuple, in order; an inert record keeps its values but not their names.
_STATE_FIELDS = ("online_params", "target_params", "online_state", "target_state", "opt_state")

#: What stands before the parts that every path has: the name of the network as Haiku made it.
_NETWORK = re.compile(r"^.*?(?=initial_|block_group_|classifier|projector|predictor)")


def _create_array(make: Any, arguments: Any, state: Any, *_: Any) -> Any:
    """Rebuild an array as dill writes it: the call and the state of NumPy's own pickle.

    `make` can only be one of the restricted reader's own constructors, or an inert stand-in.
    """
    array = make(*arguments)
    array.__setstate__(state)
    return array


_RULES = PickleRules(
    constructors={(module, "_create_array"): _create_array for module in ("dill._dill", "dill.dill")}, foreign=True
)


@reader("a Haiku checkpoint", error=CheckpointError)
def read_haiku_file(path: Path) -> dict[str, Tensor]:
    """Read the online network's tensors, named "block_group_0/block_1/conv_2.w", averages "....mean_ema.average"."""
    try:
        tree = load_plain_pickle(path, _RULES)
        state = _mapping(_mapping(tree)["experiment_state"], _STATE_FIELDS)
        parameters, averages = _mapping(state["online_params"]), _mapping(state["online_state"])
    except (DataError, KeyError, TypeError) as error:
        raise CheckpointError(
            f"{path.name} is not a checkpoint of BYOL: experiment_state with online_params and online_state are "
            f"looked for ({error})."
        ) from None
    return {name: torch.from_numpy(value) for part in (parameters, averages) for name, value in _arrays(part)}


def _arrays(modules: Mapping[Any, Any]) -> Iterator[tuple[str, np.ndarray[Any, Any]]]:
    for path, leaves in modules.items():
        short = _NETWORK.sub("", str(path)).replace("/~/", "/")
        # Haiku numbers a second module of the same name; the stem of some published files has been made twice.
        short = re.sub(r"^(initial_(?:conv|batchnorm))_1\b", r"\1", short)
        for leaf, value in _mapping(leaves).items():
            array = np.asarray(value)
            if array.dtype.kind in "fiu":
                yield f"{short}.{leaf}", np.array(array)


def _mapping(value: Any, fields: tuple[str, ...] = ()) -> Mapping[Any, Any]:
    """Return a mapping; Haiku's classes are pickled as a call with one dictionary."""
    if isinstance(value, Mapping):
        return value
    if isinstance(value, Foreign):
        if fields and len(value.arguments) == len(fields):
            return dict(zip(fields, value.arguments, strict=True))
        for inside in (*value.arguments, value.state, value.entries):
            if isinstance(inside, Mapping) and inside:
                return inside
    if fields and isinstance(value, tuple) and len(value) == len(fields):
        return dict(zip(fields, value, strict=True))
    raise TypeError(f"{type(value).__name__} is not a mapping")


_TABLE_MAGIC = 0xDB4775248B80FB57
_FOOTER_BYTES = 48
_TRAILER_BYTES = 5  # of a block: how it is compressed, and its checksum

#: `DataType` of TensorFlow to NumPy.
_TYPES: Mapping[int, str] = {
    1: "<f4", 2: "<f8", 3: "<i4", 4: "u1", 5: "<i2", 6: "i1",
    9: "<i8", 10: "?", 17: "<u2", 19: "<f2", 22: "<u4", 23: "<u8",
}  # fmt: skip


@dataclass(frozen=True)
class BundleEntry:
    """Where one variable stands."""

    dtype: int
    shape: tuple[int, ...]
    shard: int
    offset: int
    size: int
    sliced: bool


class TensorBundle(Mapping[str, npt.NDArray[Any]]):
    """The variables of a TensorFlow checkpoint by name; each is read from disk on access.

    Args:
        path: the `.index` file, or the name of the checkpoint without it.
    """

    def __init__(self, path: Path) -> None:
        self.prefix = path.with_suffix("") if path.suffix == ".index" else path
        index = self.prefix.with_name(self.prefix.name + ".index")
        if not index.is_file():
            raise CheckpointError(f"no TensorFlow checkpoint at {self.prefix}: {index.name} is not there.")
        try:
            table = dict(read_table(index.read_bytes()))
            header = dict(fields(table.pop(b"")))
            self.shards = int(header.get(1, 1))
            if header.get(2, 0):
                raise ValueError("it was written on a big-endian machine")
            self.entries = {name.decode(): _entry(value) for name, value in table.items()}
        except (ValueError, KeyError, IndexError, TypeError, struct.error, OverflowError) as error:
            raise CheckpointError(f"{index.name} is not the index of a TensorFlow checkpoint: {error}.") from None

    def __getitem__(self, name: str) -> npt.NDArray[Any]:
        entry = self.entries[name]
        dtype = _TYPES.get(entry.dtype)
        if dtype is None or entry.sliced:
            kind = "is partitioned" if entry.sliced else f"has type {entry.dtype}"
            raise CheckpointError(f"{name} in {self.prefix.name} {kind}; whole numeric tensors can be read.")
        if math.prod(entry.shape) * np.dtype(dtype).itemsize != entry.size:
            raise CheckpointError(f"{name} in {self.prefix.name} has shape {entry.shape} but {entry.size} bytes.")
        shard = self.shard(entry.shard)
        if not shard.is_file():
            raise CheckpointError(f"{shard.name} is missing beside {self.prefix.name}.index; both are needed.")
        if entry.offset + entry.size > shard.stat().st_size:
            raise CheckpointError(f"{shard.name} is too short: {name} should end at byte {entry.offset + entry.size}.")
        with shard.open("rb") as file:
            file.seek(entry.offset)
            return np.frombuffer(file.read(entry.size), dtype=dtype).reshape(entry.shape)

    def __iter__(self) -> Iterator[str]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)

    def shard(self, number: int) -> Path:
        """Return the data file of one shard."""
        return self.prefix.with_name(f"{self.prefix.name}.data-{number:05d}-of-{self.shards:05d}")


def read_table(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield keys and values of a sorted string table, in order."""
    footer = data[-_FOOTER_BYTES:]
    if len(footer) < _FOOTER_BYTES or struct.unpack("<Q", footer[-8:])[0] != _TABLE_MAGIC:
        raise ValueError("it does not end as a table does")
    _, position = _handle(footer, 0)  # of the metaindex, which is empty
    index, _ = _handle(footer, position)
    for _, handle in _block(data, *index):
        yield from _block(data, *_handle(handle, 0)[0])


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
        shared, position = varint(block, position)
        fresh, position = varint(block, position)
        length, position = varint(block, position)
        key = key[:shared] + block[position : position + fresh]
        position += fresh
        yield key, block[position : position + length]
        position += length


def _handle(data: bytes, position: int) -> tuple[tuple[int, int], int]:
    offset, position = varint(data, position)
    size, position = varint(data, position)
    return (offset, size), position


def _entry(message: bytes) -> BundleEntry:
    """Parse a `BundleEntryProto`: dtype 1, shape 2, shard_id 3, offset 4, size 5, crc32c 6, slices 7."""
    values: dict[int, Any] = {}
    sliced = False
    for number, value in fields(message):
        values[number] = value
        sliced = sliced or number == 7
    sides: Iterator[dict[int, Any]] = (dict(fields(dim)) for number, dim in fields(values.get(2, b"")) if number == 2)
    shape = tuple(side.get(1, 0) for side in sides)
    return BundleEntry(values.get(1, 0), shape, values.get(3, 0), values.get(4, 0), values.get(5, 0), sliced)


def read_published(model: CogModel, path: Path) -> dict[str, Tensor]:
    """Read the tensors of a model's file by their published names, without running code in it."""
    match model.format:
        case "tensorflow":
            return _tensorflow(path)
        case "haiku":
            return read_haiku_file(path)
        case "torchscript":
            return flatten(read_torch_file(path, path.name))
        case "zip":
            return _state_dict(model, path, _from_zip(path))
        case _:
            return _state_dict(model, path, read_torch_file(path, path.name))


def choose_prefix(model: CogModel, tensors: Mapping[str, Tensor], first: str) -> str:
    """Return the first prefix of the card under which the network's first tensor exists."""
    return next((prefix for prefix in model.prefixes if prefix + first in tensors), model.prefixes[0])


def _state_dict(model: CogModel, path: Path, tree: Any) -> dict[str, Tensor]:
    for container in model.containers:
        inside: Any = tree
        for key in filter(None, container.split(".")):
            inside = inside.get(key) if isinstance(inside, Mapping) else None
        tensors = {str(k): v for k, v in inside.items() if isinstance(v, Tensor)} if isinstance(inside, Mapping) else {}
        if tensors:
            return tensors
    wanted = " or ".join(repr(container) for container in model.containers if container) or "its top level"
    found = ", ".join(map(repr, list(tree)[:5])) if isinstance(tree, Mapping) else type(tree).__name__
    raise CheckpointError(
        f"{model.card.id}: {path.name} has no tensors under {wanted}; it holds {found or 'nothing'}. "
        f"{model.file} from {model.page} is needed."
    )


def _from_zip(path: Path) -> Any:
    """Read the one torch file inside a plain zip archive."""
    if not zipfile.is_zipfile(path):
        return read_torch_file(path, path.name)
    with zipfile.ZipFile(path) as archive:
        members = [name for name in archive.namelist() if name.endswith((".pth.tar", ".pth", ".pt"))]
        if not members:  # what torch saves today is a zip archive itself
            return read_torch_file(path, path.name)
        if len(members) > 1:
            raise CheckpointError(f"{path.name} holds {len(members)} torch files; one is expected.")
        return read_torch_file(read_member(archive, members[0]), f"{members[0]} in {path.name}")


def _tensorflow(path: Path) -> dict[str, Tensor]:
    if path.is_dir():
        indices = sorted(path.glob("*.index"))
        if len(indices) != 1:
            raise CheckpointError(f"{path} holds {len(indices)} TensorFlow checkpoints (*.index); one is expected.")
        path = indices[0]
    bundle = TensorBundle(path)
    # What the optimiser kept of every variable would double the reading.
    return as_tensors(bundle, [name for name in bundle if not name.endswith("/Momentum")])
