"""Check and identify the files of a model without importing torch.

A study checks every model file before any work begins, so these functions read headers only: the directory of a zip
archive, the opcodes of its pickle, the header of a safetensors file. No code in a file runs.
"""

from __future__ import annotations

import io
import json
import os
import pickletools
import re
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO

from unseen.core.errors import BackboneError, CheckpointError
from unseen.core.files import read_toml
from unseen.core.guard import allowance, guarded
from unseen.core.identity import digest, file_digest

#: First bytes of a torch file before version 1.6: a pickle of torch's magic number.
_LEGACY = b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19."
_LEGACY_PICKLES = 3  # version, system, object
#: Modules that torch may accept names of; `torch.load` decides on each name.
_PERHAPS_SAFE = ("torch", "collections", "builtins", "__builtin__", "_codecs", "numpy", "argparse", "datetime")
#: Packages of torch whose classes are code, never plain data.
_CODE_OF_TORCH = ("torch.nn.modules.", "torch.jit.", "torch.fx.", "torch.optim.", "torch.utils.data.")
_LONGEST_PICKLE = 16 << 20
_LONGEST_HEADER = 100 << 20  # the limit of the safetensors library

_MOST_FILES = 20_000
_HOME_MARK = "results.sqlite"

_ADVICE = "Save its state dict alone (torch.save(model.state_dict(), ...)), or as safetensors."


def check_weights_file(path: Path) -> None:
    """Raise `CheckpointError` if a checkpoint file cannot be loaded, as far as its headers show."""
    if path.suffix == ".safetensors":
        with guarded(path.name, "a safetensors file", error=CheckpointError):
            safetensors_header(path)
        return
    with path.open("rb") as stream:
        names = pickled_names(stream, path.name)
    for name in names or ():
        known = name.partition(".")[0] in _PERHAPS_SAFE and not name.startswith(_CODE_OF_TORCH)
        if not known:
            raise refuse_code(path.name, name)
    if names is not None and not any("_rebuild" in name for name in names):
        raise CheckpointError(f"{path.name} has no tensors, so there is nothing to load.")


def pickled_names(stream: BinaryIO, file: str) -> list[str] | None:
    """Return the classes and functions that the pickles of a torch file name; None if they are not read here.

    Raises:
        CheckpointError: `torch.save` did not write the file, or it is damaged.
    """
    with guarded(file, "a checkpoint", error=CheckpointError):
        start = stream.read(len(_LEGACY))
        if start.startswith(b"PK"):
            content = _zipped_pickle(stream, file)
            return list(_globals(io.BytesIO(content))) if len(content) <= _LONGEST_PICKLE else None
        if start == _LEGACY:
            return [name for _ in range(_LEGACY_PICKLES) for name in _globals(stream)]
        raise CheckpointError(
            f"{file} cannot be read as a checkpoint: it is damaged, or not a file that torch.save or safetensors wrote."
        )


def _zipped_pickle(stream: BinaryIO, file: str) -> bytes:
    """Return the pickle in a zip archive of `torch.save`, or the first bytes of a long one."""
    with zipfile.ZipFile(stream) as archive:
        for member in archive.infolist():
            if member.file_size > allowance(member.compress_size):
                raise CheckpointError(f"{member.filename} in {file} unpacks to far more than its size: is it a bomb?")
        if _members(archive, "constants.pkl"):
            raise CheckpointError(
                f"{file} is a TorchScript archive, which is code; it was not run. Save its state dict alone "
                "(torch.save(torch.jit.load(...).state_dict(), ...)), or export the model to ONNX."
            )
        pickles = _members(archive, "data.pkl")
        if not pickles:
            raise CheckpointError(f"{file} is a zip archive, but not one that torch.save wrote: it has no data.pkl.")
        return archive.open(pickles[0]).read(_LONGEST_PICKLE + 1)


def _members(archive: zipfile.ZipFile, name: str) -> list[str]:
    return [each for each in archive.namelist() if each.endswith(name) and each.count("/") <= 1]


#: Names under which training scripts store several networks in one file.
_NETWORKS = re.compile(rb"teacher|student|encoder_[qk]|momentum|online|target|ema|average|avg|swa|polyak|shadow", re.I)


def may_hold_several_networks(path: Path) -> bool:
    """Return whether a checkpoint file names networks of which one has to be chosen.

    The choice was made by another rule in version 0.1, so results of such files get a new revision.
    """
    with guarded(path.name, "a checkpoint", error=CheckpointError), path.open("rb") as stream:
        names = stream.read(_LONGEST_PICKLE)
        if names.startswith(b"PK"):
            names = _zipped_pickle(stream, path.name)
    return _NETWORKS.search(names) is not None


def refuse_code(file: str, name: str) -> CheckpointError:
    """Return the error for a pickle that names code."""
    return CheckpointError(
        f"{file} is not a file of plain tensors: it names code ({name}), which was not run. {_ADVICE}"
    )


@cache
def tables() -> dict[str, Any]:
    """Return the tables of this package: architectures, networks in checkpoints, files of repositories, ONNX."""
    return read_toml("unseen.backbones", "tables.toml")


def files_digest(folder: Path, *suffixes: str) -> str:
    """Return a digest of the names and contents of the files in a folder that have one of the suffixes."""
    found = sorted(path for path in folder.iterdir() if path.suffix in suffixes)
    return digest([[path.name, file_digest(path)] for path in found])


def folder_digest(folder: Path) -> str:
    """Return a digest of the names and contents of all source, settings and weights files below a folder.

    Hidden folders, caches, build products and homes of `unseen` are skipped.

    Raises:
        BackboneError: there are too many files.
    """
    found = []
    for path in _sources(folder):
        found.append([path.relative_to(folder).as_posix(), file_digest(path)])
        if len(found) > _MOST_FILES:
            raise BackboneError(
                f"{folder} has more than {_MOST_FILES:,} source and weights files, so the identity of its models "
                "cannot be computed. Move data and outputs to another folder."
            )
    return digest(sorted(found))


def _sources(folder: Path) -> Iterator[Path]:
    table = tables()
    for here, folders, names in os.walk(folder):
        if _HOME_MARK in names and Path(here) != folder:
            folders.clear()
            continue
        folders[:] = sorted(each for each in folders if not each.startswith(".") and each not in table["skipped"])
        for name in sorted(names):
            path = Path(here, name)
            if path.suffix.lower() in table["sources"] and path.is_file():
                yield path


def _globals(stream: BinaryIO) -> Iterator[str]:
    """Yield the names in the next pickle of a stream, which is left behind it."""
    strings: list[str] = []
    for opcode, argument, _ in pickletools.genops(stream):
        if opcode.name in ("GLOBAL", "INST"):
            yield str(argument).replace(" ", ".", 1)
        elif opcode.name == "STACK_GLOBAL" and len(strings) > 1:
            yield ".".join(strings[-2:])
        elif isinstance(argument, str):
            strings = [*strings[-1:], argument]


def safetensors_header(path: Path) -> Mapping[str, Mapping[str, Sequence[int]]]:
    """Return dtype, shape and offsets of the tensors in a safetensors file; raise if it is damaged."""
    size = path.stat().st_size
    with path.open("rb") as stream:
        length = int.from_bytes(stream.read(8), "little")
        if size < 8 or not 0 < length <= min(size - 8, _LONGEST_HEADER):
            raise CheckpointError(f"{path.name} cannot be read as a safetensors file: its header is damaged.")
        header = json.loads(stream.read(length))
    tensors = {name: entry for name, entry in header.items() if name != "__metadata__"}
    if not tensors:
        raise CheckpointError(f"{path.name} has no tensors, so there is nothing to load.")
    end = max(int(entry["data_offsets"][1]) for entry in tensors.values())
    if 8 + length + end != size:
        raise CheckpointError(
            f"{path.name} is incomplete: its header promises {8 + length + end:,} bytes, and it has {size:,}. Copy or "
            "download it again."
        )
    return tensors
