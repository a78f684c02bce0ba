"""Find the files that an ONNX graph reads, and the layer that gives its output, without onnx, ONNX Runtime or torch.

A graph may keep its tensors in other files (`TensorProto.external_data`); `torch.onnx.export` does so by default. This
reader walks the protocol buffer, skips everything else, and is bounded in depth and in the number of fields.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import TYPE_CHECKING

from unseen.backbones.model_files import tables
from unseen.core.errors import CheckpointError, DataError
from unseen.core.extras import start_session
from unseen.core.files import map_file
from unseen.core.guard import guarded
from unseen.core.identity import digest, file_digest
from unseen.core.isolate import Trial, try_isolated
from unseen.core.wire import fields

if TYPE_CHECKING:
    import onnxruntime

_EXTERNAL_DATA, _DATA_LOCATION, _EXTERNAL = 13, 14, 1
_NODE_INPUT, _NODE_OUTPUT, _NODE_OPERATOR = 1, 2, 4
_COPIES = ("Identity", "Cast", "Squeeze", "Flatten", "Reshape", "Dropout")
_SOFTMAX = ("Softmax", "LogSoftmax", "Sigmoid")
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
        found = sorted({name for kind, _, value in _read(path) if kind == "Tensor" for name in _locations(value)})
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


def output_operators(path: Path, output: str) -> list[str]:
    """Return the operators that compute an output of a graph, last one first.

    The walk ends at the first operator that computes something. It skips operators that only copy or reshape a value,
    and the addition of a bias to a matrix product. After a Softmax it continues with the input of the Softmax.
    """
    nodes = [_node(value) for kind, parents, value in _read(path) if kind == "Node" and parents == ("Model", "Graph")]
    made = {name: (kind, inputs) for kind, inputs, outputs in nodes for name in outputs}
    found: list[str] = []
    while output in made and len(found) < len(made):
        kind, inputs = made.pop(output)
        found.append(kind)
        if kind in _COPIES or kind in _SOFTMAX:
            output = inputs[0] if inputs else ""
        elif kind == "Add":
            output = next((name for name in inputs if name in made and made[name][0] == "MatMul"), "")
        else:
            break
    return [kind for kind in found if kind not in _COPIES]


def _read(path: Path) -> list[tuple[str, tuple[str, ...], memoryview]]:
    """Return the messages of a graph that lead to tensors: kind, kinds of the messages around it, content."""
    try:
        found = list(_walk(("Model",), memoryview(map_file(path)), count()))
        if not any(kind == "Graph" and parents == ("Model",) for kind, parents, _ in found):
            raise ValueError("it has no graph")
        return found
    except (ValueError, IndexError) as error:
        raise CheckpointError(f"{path.name} cannot be read as an ONNX graph: {error}.") from error
    except DataError as error:
        raise CheckpointError(str(error)) from error


def _walk(
    kinds: tuple[str, ...], view: memoryview, counter: Iterator[int]
) -> Iterator[tuple[str, tuple[str, ...], memoryview]]:
    """Yield the messages inside a message, depth first, up to a total number of fields for the file."""
    if len(kinds) > _DEEPEST:
        raise ValueError("its messages are nested too deeply")
    for number, value in fields(view):
        if next(counter) >= _MOST_FIELDS or not number:
            raise ValueError("it has too many fields" if number else "a field has the number 0")
        inner = tables()["onnx"].get(kinds[-1], {}).get(str(number))
        if inner is None:
            continue
        if not isinstance(value, memoryview):
            raise ValueError(f"field {number} is not a message")
        yield inner, kinds, value
        yield from _walk((*kinds, inner), value, counter)


def _node(view: memoryview) -> tuple[str, list[str], list[str]]:
    """Return the operator of a node, its inputs and its outputs."""
    texts: dict[int, list[str]] = {_NODE_INPUT: [], _NODE_OUTPUT: [], _NODE_OPERATOR: [""]}
    for number, value in fields(view):
        if number in texts and isinstance(value, memoryview):
            texts[number].append(bytes(value).decode("utf-8", "replace"))
    return texts[_NODE_OPERATOR][-1], texts[_NODE_INPUT], texts[_NODE_OUTPUT]


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
