"""Tensors out of torch files whose pickles name foreign code, which stays where it is.

Training scripts save their whole state: options, schedulers, functions pickled by dill, TorchScript modules.
`torch.load(weights_only=True)` refuses such a file whole. Here every class that is not a tensor becomes an inert
record, nothing is imported or called, and the storages are read straight from the file, only those that are asked for.

Formats: the zip archive of torch >= 1.6 (TorchScript archives too) and the sequence of pickles before it.
"""

from __future__ import annotations

import io
import math
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import torch
from torch import Tensor

from unseen.backbones.checkpoints import read_checkpoint
from unseen.core.errors import CheckpointError, DataError
from unseen.core.guard import read_member, reader
from unseen.core.safe_pickle import Foreign, PickleRules, load_plain_pickle

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
    """The containers and tensors of a torch file; foreign objects are left out.

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
    """Every tensor of nested mappings, under dotted names: the state dict of a TorchScript module.

    Raises:
        CheckpointError: a mapping lies within itself, or the mappings are nested or shared beyond all reason.
    """
    return _flat(tree, {}, ())


def _flat(tree: Any, known: dict[int, dict[str, Tensor]], inside: tuple[int, ...]) -> dict[str, Tensor]:
    """By name below `tree`; a mapping that stands in several places is walked once."""
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
    """Five pickles (magic number, version, system, the object, the storage keys), then the storages one by one."""
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
    """What a torch pickle may hold: storages by reference, and tensors over them."""

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
    """Mappings, lists and tensors of what was unpickled; an object that is not one of them gives its state."""
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
