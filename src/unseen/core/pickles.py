"""Read untrusted pickles and NumPy object files without running code in them.

The published ImageNet-CoG lists are pickles, and `pickle.load` runs any code that a file names. This loader offers only
constructors of plain containers: the result consists of None, booleans, numbers, strings, bytes, lists, tuples, sets,
dictionaries (`OrderedDict`, `defaultdict`) and NumPy arrays of numbers or strings. NumPy's own unpickling is not used:
a forged dtype makes it treat bytes of the file as pointers. Arrays are read into inert shells and rebuilt from checked
parts (read-only); every container is rebuilt too, so that attributes set by the file do not survive.

`scan_pickle` reads the opcodes first, because ten bytes can make the standard unpickler allocate gigabytes (a memo
index of 2^27) or overflow the C stack (nested tuples as a dictionary key are hashed recursively).

`PickleRules` allows more for one file format: constructors, constants and, with `foreign`, stand-ins for unknown
classes. A stand-in imports and runs nothing; it only records the arguments in the file (`Foreign`).
"""

from __future__ import annotations

import io
import math
import mmap
import pickle
import pickletools
import zipfile
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, NoReturn

import numpy as np
import numpy.typing as npt

from unseen.core.errors import DataError
from unseen.core.guard import allowance, guarded, read_limited

#: Tuples within tuples; real files have a handful.
DEEPEST = 100

_WIDTHS = {-2: 1, -3: 4, -4: 4, -5: 8}  # of the length that stands before an argument, as pickletools numbers them
_LINE = -1
_FILLS = frozenset({"APPEND", "APPENDS", "SETITEM", "SETITEMS", "ADDITEMS", "BUILD"})
#: What may be, or may make, something that is hashed member by member.
_WRAPS = frozenset({"TUPLE", "TUPLE1", "TUPLE2", "TUPLE3", "FROZENSET", "REDUCE", "NEWOBJ", "NEWOBJ_EX", "INST", "OBJ"})


class _Op(NamedTuple):
    name: str
    argument: int | None
    lines: int
    pops: int
    to_mark: bool
    pushes: int


def _table() -> dict[int, _Op]:
    table = {}
    for op in pickletools.opcodes:
        before = [kind.name for kind in op.stack_before]
        pops = before.index("mark") if "mark" in before else len(before)
        lines = 2 if op.name in ("GLOBAL", "INST") else 1
        argument = None if op.arg is None else op.arg.n
        table[ord(op.code)] = _Op(op.name, argument, lines, pops, "mark" in before, len(op.stack_after))
    return table


_OPS = _table()


class UnsafePickle(Exception):
    """Why a pickle is not to be loaded."""


class _Thing:
    """Something on the stack or in the memo: how deep it is nested, which for a list grows while it is filled."""

    __slots__ = ("depth",)

    def __init__(self, depth: int = 0) -> None:
        self.depth = depth


_MARK = _Thing()


def scan_pickle(data: memoryview) -> None:
    """Read the opcodes of one pickle.

    Raises:
        UnsafePickle: it would take more memory or stack than its size allows, or is no pickle.
    """
    stack: list[_Thing] = []
    memo: dict[int, _Thing] = {}
    place, size = 0, len(data)
    while place < size:
        op = _OPS.get(data[place])
        if op is None:
            raise UnsafePickle(f"there is no opcode {data[place]} (at byte {place})")
        argument, place = _argument(data, place + 1, op)
        name = op.name
        if name == "STOP":
            return
        if name == "MARK":
            stack.append(_MARK)
        elif name == "MEMOIZE" or name.endswith("PUT"):
            index = len(memo) if name == "MEMOIZE" else _number(argument, op)
            if not 0 <= index <= size:
                raise UnsafePickle(f"it numbers an object {index:,}, more than it has bytes")
            memo[index] = stack[-1] if stack else _Thing()
        elif name.endswith("GET"):
            stack.append(memo.get(_number(argument, op), _MARK))
        elif name == "DUP":
            stack.append(stack[-1] if stack else _Thing())
        else:
            _apply(op, stack)
    raise UnsafePickle("it does not end")


def _apply(op: _Op, stack: list[_Thing]) -> None:
    taken: list[_Thing] = []
    if op.to_mark:
        while stack and (thing := stack.pop()) is not _MARK:
            taken.append(thing)
    taken += [stack.pop() for _ in range(min(op.pops, len(stack)))]
    deepest = max((thing.depth for thing in taken), default=0)
    if op.name in _FILLS and taken:
        filled = taken[-1]
        filled.depth = deepest
        stack.append(filled)
        return
    if op.name in _WRAPS:
        deepest += 1
        if deepest > DEEPEST:
            raise UnsafePickle(f"its tuples are nested more than {DEEPEST} deep")
    stack.extend(_Thing(deepest) for _ in range(op.pushes))


def _argument(data: memoryview, place: int, op: _Op) -> tuple[memoryview, int]:
    """Return the bytes of an argument and the position after it."""
    if op.argument is None:
        return data[:0], place
    if op.argument == _LINE:
        start = place
        for _ in range(op.lines):
            place = _line_end(data, place) + 1
        return data[start : place - 1], place
    end = place + op.argument
    if op.argument < 0:
        width = _WIDTHS[op.argument]
        place, length = place + width, int.from_bytes(data[place : place + width], "little")
        end = place + length
    if end > len(data):
        raise UnsafePickle("it ends within an argument")
    return data[place:end], end


def _line_end(data: memoryview, place: int) -> int:
    for start in range(place, len(data), 256):
        found = bytes(data[start : start + 256]).find(b"\n")
        if found >= 0:
            return start + found
    raise UnsafePickle("a line in it does not end")


def _number(argument: memoryview, op: _Op) -> int:
    """Return the memo number of an object, written in digits or as bytes."""
    if op.argument != _LINE:
        return int.from_bytes(argument, "little")
    text = bytes(argument[:20])
    if not text.isdigit():
        raise UnsafePickle(f"it numbers an object {text!r}")
    return int(text)


_PLAIN_KINDS = frozenset("biufcSU")
_FACTORIES: dict[str, type] = {t.__name__: t for t in (list, dict, set, frozenset, tuple, int, float, str, bool)}


class _Refused(Exception):
    """The file asks for something outside the plain containers."""


@dataclass(frozen=True)
class Foreign:
    """What a file said of an object whose class is not known here. Nothing of that class was imported or called.

    Attributes:
        origin: the name that the file gives the class or function, "module.name".
        arguments: what the file would have called it with.
        state: what the file would have given to `__setstate__` afterwards.
        entries: what the file would have put into it item by item.
    """

    origin: str
    arguments: tuple[Any, ...] = ()
    state: Any = None
    entries: Mapping[Any, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class PickleRules:
    """What the pickles of one format may hold beside the plain containers.

    Attributes:
        constructors: (module, name) as the file writes it, to a function of ours that is safe with any arguments.
        constants: (module, name) to a value that the name stands for.
        leaves: types that those functions return, which come out as they are.
        persistent_load: what a reference to something outside the pickle becomes; refused where None.
        foreign: whether a name that is not known becomes a `Foreign` instead of a refusal.
    """

    constructors: Mapping[tuple[str, str], Callable[..., Any]] = field(default_factory=dict)
    constants: Mapping[tuple[str, str], Any] = field(default_factory=dict)
    leaves: tuple[type, ...] = ()
    persistent_load: Callable[[Any], Any] | None = None
    foreign: bool = False


_PLAIN_RULES = PickleRules()


class _StandIn(type):
    """A class that the file names. Calling it, or making an object of it, gives another stand-in.

    Stand-ins are classes rather than objects because the unpickler insists that objects are made from classes, and a
    file may make its classes by calling functions that are stand-ins themselves.
    """

    origin: str
    arguments: tuple[Any, ...]
    state: Any
    entries: dict[Any, Any]

    @classmethod
    def named(cls, origin: str, arguments: tuple[Any, ...] = ()) -> _StandIn:
        namespace = {
            "__new__": lambda made, *given, **_: _StandIn.named(made.origin, given),
            "origin": origin,
            "arguments": arguments,
            "state": None,
            "entries": {},
        }
        return type.__new__(cls, "StandIn", (), namespace)

    def __call__(cls, *arguments: Any, **_: Any) -> _StandIn:
        return _StandIn.named(cls.origin, arguments)

    def __setstate__(cls, state: Any) -> None:
        cls.state = state

    def __setitem__(cls, key: Any, value: Any) -> None:
        cls.entries[key] = value

    def append(cls, value: Any) -> None:
        cls.entries[len(cls.entries)] = value

    def extend(cls, values: Any) -> None:
        for value in values:
            cls.append(value)

    add = append


class _Constructor:
    """What a global name in a pickle becomes: something to call, and nothing to read or to change."""

    __slots__ = ("make",)
    make: Callable[..., Any]

    def __init__(self, make: Callable[..., Any]) -> None:
        object.__setattr__(self, "make", make)

    def __call__(self, *arguments: Any) -> Any:
        return self.make(*arguments)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise _Refused("it changes a constructor")


class _DtypeShell:
    """A dtype on its way in: a letter, an item size and a byte order."""

    def __init__(self, code: Any = None, *_: Any) -> None:
        if not isinstance(code, str):
            raise _Refused(f"it has a dtype made from {type(code).__name__}")
        try:
            self.dtype = np.dtype(code)
        except (TypeError, ValueError, SyntaxError):
            raise _Refused(f"it has an unknown dtype {code!r}") from None
        if self.dtype.kind not in _PLAIN_KINDS and self.dtype != np.dtype(object):
            raise _Refused(f"it has an array of dtype {code!r}; numbers, strings and plain objects are allowed")

    def __setstate__(self, state: Any) -> None:
        if not isinstance(state, tuple) or len(state) < 5 or any(part is not None for part in state[2:5]):
            raise _Refused("it has an array with fields or sub-arrays")
        if state[1] in ("<", ">"):
            self.dtype = self.dtype.newbyteorder(state[1])


class _ArrayShell:
    """An array on its way in: the state that NumPy would have taken, not applied yet."""

    def __init__(self, *_: Any) -> None:
        self.state: tuple[Any, Any, Any, Any] | None = None

    def __setstate__(self, state: Any) -> None:
        if not isinstance(state, tuple) or len(state) not in (4, 5):
            raise _Refused("it has a malformed array")
        shape, dtype, fortran, data = state[-4:]
        self.state = (shape, dtype, "F" if fortran else "C", data)

    def build(self, rebuild: Callable[[Any], Any]) -> npt.NDArray[Any]:
        if self.state is None:
            raise _Refused("it has an array without contents")
        shape, shell, order, data = self.state
        sizes = shape if isinstance(shape, tuple) else (shape,)
        if not isinstance(shell, _DtypeShell) or any(type(n) is not int or n < 0 for n in sizes):
            raise _Refused("it has a malformed array")
        if shell.dtype == np.dtype(object):
            return self._build_objects(sizes, data, rebuild)
        if isinstance(data, str):  # protocols 0 to 2 of Python 2 keep bytes as text
            data = data.encode("latin-1")
        if not isinstance(data, (bytes, bytearray)):
            raise _Refused("it has an array whose data are not bytes")
        # A view, not a copy: the published split file holds 0.7 GB of names.
        return np.frombuffer(bytes(data), dtype=shell.dtype).reshape(sizes, order=order)

    def _build_objects(self, sizes: tuple[int, ...], data: Any, rebuild: Callable[[Any], Any]) -> npt.NDArray[Any]:
        if not isinstance(data, list) or len(data) != int(np.prod(sizes, dtype=np.int64)):
            raise _Refused("it has a malformed array of objects")
        flat = np.empty(len(data), dtype=object)
        for i, value in enumerate(data):
            flat[i] = rebuild(value)
        return flat.reshape(sizes)  # NumPy lists objects row by row, independent of their order in memory


def _array_from_buffer(data: Any, dtype: Any, shape: Any, order: Any = "C", *_: Any) -> _ArrayShell:
    shell = _ArrayShell()
    shell.__setstate__((shape, dtype, order == "F", data))
    return shell


def _scalar(dtype: Any, data: Any = None, *_: Any) -> _ArrayShell:
    return _array_from_buffer(data, dtype, ())


def _bytes_from_text(text: Any, encoding: Any = "latin1", *_: Any) -> bytes:
    if not isinstance(text, str) or encoding not in ("latin1", "latin-1", "utf-8", "ascii"):
        raise _Refused(f"it encodes text as {encoding!r}")
    return text.encode(encoding)


def _empty_bytes() -> bytes:
    return b""


def _default_dict(factory: Any = None, *arguments: Any) -> defaultdict[Any, Any]:
    kind = factory.make if isinstance(factory, _Constructor) else factory
    if kind is not None and kind not in _FACTORIES.values():
        raise _Refused("it has a defaultdict whose default is not a plain type")
    return defaultdict(kind, *arguments)


def _allowed() -> dict[tuple[str, str], _Constructor]:
    names: dict[tuple[str, str], Callable[..., Any]] = {
        ("collections", "OrderedDict"): OrderedDict,
        ("collections", "defaultdict"): _default_dict,
        ("_codecs", "encode"): _bytes_from_text,
        ("numpy", "dtype"): _DtypeShell,
        ("numpy", "ndarray"): _ArrayShell,
    }
    for builtins in ("builtins", "__builtin__"):
        names |= {(builtins, name): kind for name, kind in _FACTORIES.items()}
        names[builtins, "bytes"] = _empty_bytes  # what protocols 0 to 2 write for b""
    for core in ("numpy.core", "numpy._core"):
        names[f"{core}.multiarray", "_reconstruct"] = _ArrayShell
        names[f"{core}.multiarray", "scalar"] = _scalar
        names[f"{core}.numeric", "_frombuffer"] = _array_from_buffer
    return {name: _Constructor(make) for name, make in names.items()}


class _PlainUnpickler(pickle.Unpickler):
    def __init__(self, stream: BinaryIO, rules: PickleRules) -> None:
        # Python 2 text is latin-1 at worst, which no byte fails to decode.
        super().__init__(stream, encoding="latin-1")
        self._allowed = _allowed() | {name: _Constructor(make) for name, make in rules.constructors.items()}
        self._rules = rules

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) in self._rules.constants:
            return self._rules.constants[module, name]
        try:
            return self._allowed[module, name]
        except KeyError:
            if self._rules.foreign:
                return _StandIn.named(f"{module}.{name}")
            raise _Refused(f"it asks for {module}.{name}") from None

    def persistent_load(self, pid: Any) -> Any:
        if self._rules.persistent_load is None:
            raise _Refused("it refers to objects outside the file")
        return self._rules.persistent_load(pid)


class _Rebuilder:
    """Turns what was unpickled into fresh plain objects, each of them once."""

    def __init__(self, rules: PickleRules = _PLAIN_RULES) -> None:
        self._done: dict[int, Any] = {}
        self._open: set[int] = set()
        self._rules = rules

    def __call__(self, value: Any) -> Any:
        kind = type(value)
        if value is None or kind in (bool, int, float, complex, str, bytes):
            return value
        if id(value) in self._done:
            return self._done[id(value)]
        if id(value) in self._open:
            if self._rules.foreign:
                return Foreign("a container that holds itself")
            raise _Refused("it has a container that holds itself")
        self._open.add(id(value))
        built = self._done[id(value)] = self._container(kind, value)
        self._open.discard(id(value))
        return built

    def _container(self, kind: type, value: Any) -> Any:
        if kind in (list, tuple, set, frozenset):
            return kind(self(member) for member in value)
        if kind in (dict, OrderedDict):
            return kind((self(k), self(v)) for k, v in kind.items(value))
        if kind is defaultdict:
            return defaultdict(value.default_factory, {self(k): self(v) for k, v in dict.items(value)})
        if kind is bytearray:
            return bytearray(value)
        if kind is _ArrayShell:
            array = value.build(self)
            return array if array.ndim else array[()]
        if kind in self._rules.leaves:
            return value
        if kind is _StandIn:
            return Foreign(value.origin, self(value.arguments), self(value.state), self(value.entries))
        if kind in (_Constructor, _DtypeShell) and self._rules.foreign:
            return Foreign("a part of an array")
        raise _Refused(f"it holds a {kind.__name__}")


def load_plain_pickle(source: str | PathLike[str] | BinaryIO, rules: PickleRules = _PLAIN_RULES) -> Any:
    """Read a pickle of plain containers; anything else raises `DataError` before it has been called.

    Args:
        source: a path, or a binary stream at the start of the pickle.
        rules: what the pickle may hold beside them.
    """
    if not isinstance(source, (str, PathLike)):
        return _load(source, getattr(source, "name", "the stream"), rules)
    try:
        with Path(source).open("rb") as stream:
            return _load(stream, source, rules)
    except OSError as error:
        raise DataError(f"cannot read {source}: {error.strerror}.") from None


def load_plain_numpy(path: str | PathLike[str]) -> Any:
    """Read a .npy or .npz file; arrays of objects may hold plain containers only.

    Returns:
        an array, or a dictionary of arrays for an archive.
    """
    path = Path(path)
    with guarded(path, "a NumPy file"):
        if not zipfile.is_zipfile(path):
            with path.open("rb") as stream:
                return _load_npy(stream, path)
        found, left = {}, allowance(path.stat().st_size)
        with zipfile.ZipFile(path) as archive:
            for name in archive.namelist():
                with archive.open(name) as member:
                    content = read_limited(member, left, path)
                left -= len(content)
                found[name.removesuffix(".npy")] = _load_npy(io.BytesIO(content), path)
        return found


def _load_npy(stream: BinaryIO, name: object) -> npt.NDArray[Any]:
    version = np.lib.format.read_magic(stream)
    read_header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, fortran, dtype = read_header(stream)
    if not dtype.hasobject:
        begin = stream.tell()
        there = stream.seek(0, io.SEEK_END) - begin
        if math.prod(shape) * dtype.itemsize > there:
            raise DataError(f"{name}: its header promises {shape} of {dtype}, and {there:,} bytes follow.")
        stream.seek(0)
        array: npt.NDArray[Any] = np.lib.format.read_array(stream, allow_pickle=False)
        return array
    loaded = np.asarray(_load(stream, name), dtype=object)
    if loaded.size != int(np.prod(shape, dtype=np.int64)):
        raise DataError(f"{name}: its header promises {shape}, its contents have {loaded.shape}.")
    return loaded.reshape(shape, order="F" if fortran else "C")


def _rest(stream: BinaryIO) -> memoryview:
    """Return the rest of a stream without moving its position; a file is mapped, not read."""
    place = stream.tell()
    if isinstance(stream, io.BytesIO):
        return stream.getbuffer()[place:].toreadonly()
    try:
        return memoryview(mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ))[place:]
    except (OSError, ValueError):  # no file, or an empty one
        rest = stream.read()
        stream.seek(place)
        return memoryview(rest)


def _load(stream: BinaryIO, name: object, rules: PickleRules = _PLAIN_RULES) -> Any:
    with guarded(name, "a pickle"):
        try:
            scan_pickle(_rest(stream))
            return _Rebuilder(rules)(_PlainUnpickler(stream, rules).load())
        except _Refused as refusal:
            raise DataError(
                f"{name} is refused: {refusal}. Only containers of strings and numbers are read; nothing in the file "
                "was run. If you trust it, load it yourself and save it as JSON."
            ) from None
        except UnsafePickle as error:
            raise DataError(f"{name} is not a sane pickle: {error}.") from None
