"""Find the files that an ONNX graph reads, without onnx, ONNX Runtime or torch, and run it on a blank image.

A graph may keep its tensors in other files (`TensorProto.external_data`); `torch.onnx.export` does so by default. This
reader walks the protocol buffer, skips everything else, and is bounded in depth and in the number of fields.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import TYPE_CHECKING

from unseen.backbones.model_files import tables
from unseen.core.errors import CheckpointError
from unseen.core.extras import start_session
from unseen.core.files import map_file
from unseen.core.guard import guarded
from unseen.core.identity import digest, file_digest
from unseen.core.isolate import Trial, try_isolated
from unseen.core.wire import fields

if TYPE_CHECKING:
    import onnxruntime

_GRAPH, _EXTERNAL_DATA, _DATA_LOCATION, _EXTERNAL = 7, 13, 14, 1
_FLOATS = {"tensor(float)": "float32", "tensor(float16)": "float16"}
_LARGEST_SIDE, _LARGEST_BATCH = 4096, 1024
_DEEPEST = 64
_MOST_FIELDS = 10_000_000
#: Bytes of activations that one image may need.
_ROOM = 2 << 30


def graph_digest(path: Path) -> str:
    """Return the sha256 (hex) of a graph; if it keeps tensors in other files, a digest of the graph and of those files.

    Raises:
        CheckpointError: it is not an ONNX file, or a file that it names does not exist or lies outside its folder.
    """
    own, others = file_digest(path), external_files(path)
    if not others:
        return own
    return digest([own, *([name, file_digest(path.parent / name)] for name in others)], length=64)


def image_input(session: onnxruntime.InferenceSession, file: str) -> tuple[str, str, list[int]]:
    """Return the name, NumPy type and shape (0 for a free size) of the first input of a graph.

    Raises:
        CheckpointError: it does not take images.
    """
    inputs = session.get_inputs()
    if not inputs or inputs[0].type not in _FLOATS:
        kind = inputs[0].type if inputs else "no input"
        raise CheckpointError(f"{file} takes {kind}; images (n, 3, h, w) of floats are needed.")
    shape = [size if isinstance(size, int) else 0 for size in inputs[0].shape]
    if len(shape) != 4:
        raise CheckpointError(f"{file} takes {inputs[0].shape}; images (n, 3, h, w) are needed.")
    if min(shape) < 0 or max(shape[1:]) > _LARGEST_SIDE or shape[0] > _LARGEST_BATCH:
        raise CheckpointError(f"{file} takes {shape}; images have at most {_LARGEST_SIDE:,} pixels a side.")
    return inputs[0].name, _FLOATS[inputs[0].type], shape


def try_graph(path: Path, output: str | None, side: int) -> None:
    """Run a graph on a blank image, in a process with limits, unless it ran before."""
    size = path.stat().st_size + sum((path.parent / name).stat().st_size for name in external_files(path))
    given = (str(path), output or "", str(side))
    trial = Trial(
        f"{__name__}:check_graph", given, path.name, "an ONNX graph", ("onnxruntime",), size, 4 * size + _ROOM
    )
    try_isolated(trial, graph_digest(path), error=CheckpointError)


def check_graph(path: str, output: str, side: str) -> None:
    """Run a graph on a blank image."""
    import numpy as np

    session = start_session(Path(path), 1)
    name, kind, shape = image_input(session, Path(path).name)
    usual = (1, *((int(side), int(side), 3) if shape[3] in (1, 3) else (3, int(side), int(side))))
    blank = np.zeros([own or other for own, other in zip(shape, usual, strict=True)], kind)
    known = [each.name for each in session.get_outputs()]
    session.run([output if output in known else known[0]], {name: blank})


def external_files(path: Path) -> list[str]:
    """Return the names, relative to the graph's folder, of the files that hold tensors of a graph.

    Raises:
        CheckpointError: as `graph_digest`.
    """
    with guarded(path.name, "an ONNX graph", error=CheckpointError):
        model = memoryview(map_file(path))
        if _GRAPH not in dict(fields(model)):
            raise ValueError("it has no graph")
        found = sorted({name for tensor in _tensors("Model", model, count()) for name in _locations(tensor)})
    for name in found:
        parts = (*PurePosixPath(name).parts, *PureWindowsPath(name).parts)
        absolute = PurePosixPath(name).is_absolute() or PureWindowsPath(name).anchor
        if not name or "\0" in name or ".." in parts or absolute:
            raise CheckpointError(
                f"{path.name} names the weights file {name!r}, which is outside its own folder. It was not read: "
                "put the weights beside the graph and save it again."
            )
        if not (path.parent / name).is_file():
            raise CheckpointError(
                f"{path.name} keeps weights in {name!r}, and there is no such file in {path.parent}. Copy it there."
            )
    return found


def _tensors(kind: str, view: memoryview, counter: Iterator[int], depth: int = 1) -> Iterator[memoryview]:
    """Yield the tensors inside a message, depth first, up to a total number of fields for the file."""
    if depth > _DEEPEST:
        raise ValueError("its messages are nested too deeply")
    for number, value in fields(view):
        if next(counter) >= _MOST_FIELDS or not number:
            raise ValueError("it has too many fields" if number else "a field has the number 0")
        inner = tables()["onnx"].get(kind, {}).get(str(number))
        if inner is None:
            continue
        if not isinstance(value, memoryview):
            raise ValueError(f"field {number} is not a message")
        if inner == "Tensor":
            yield value
        else:
            yield from _tensors(inner, value, counter, depth + 1)


def _locations(view: memoryview) -> list[str]:
    """Return the files that hold a tensor; none if the graph itself does."""
    named, external = [], False
    for number, value in fields(view):
        if number == _DATA_LOCATION and isinstance(value, int):
            external = value == _EXTERNAL
        elif number == _EXTERNAL_DATA and isinstance(value, memoryview):
            entry = {n: bytes(text) for n, text in fields(value) if isinstance(text, memoryview)}
            if entry.get(1) == b"location":
                named.append(entry.get(2, b"").decode("utf-8", "surrogateescape"))
    return (named or [""]) if external else []
