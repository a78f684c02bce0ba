"""Read untrusted pickles without running code in them.

The published ImageNet-CoG lists are pickles, and `pickle.load` runs any code that a file names. This loader offers only
constructors of plain containers: the result consists of None, booleans, numbers, strings, bytes, lists, tuples, sets,
dictionaries (`OrderedDict`, `defaultdict`) and NumPy arrays of numbers or strings. NumPy's own unpickling is not used:
a forged dtype makes it treat bytes of the file as pointers. Arrays are read into inert shells and rebuilt from checked
parts (read-only); every container is rebuilt too, so that attributes set by the file do not survive.

A process with limits reads the file first, because ten bytes can make the standard unpickler allocate gigabytes (a memo
index of 2^27) or overflow the C stack (nested tuples as a dictionary key are hashed recursively).

A format may add constructors, and stand-ins for unknown classes. A stand-in imports and runs nothing; it only records
the arguments in the file (`StandIn`).
"""

from __future__ import annotations

import pickle
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

import numpy as np

from unseen.core.arrays import AnyArray
from unseen.core.errors import DataError
from unseen.core.guard import guarded
from unseen.core.isolate import try_reader

_PLAIN_KINDS = frozenset("biufcSU")
_FACTORIES: dict[str, type] = {t.__name__: t for t in (list, dict, set, frozenset, tuple, int, float, str, bool)}

Constructors = Mapping[tuple[str, str], Callable[..., Any]]


class RefusedPickle(Exception):
    """The reason why a pickle is not loaded."""


@dataclass(frozen=True)
class StandIn:
    """The description of an object of an unknown class. Nothing of that class was imported or called.

    Attributes:
        origin: the name of the class or function in the file, "module.name".
        arguments: its arguments.
        state: the argument of `__setstate__`.
        entries: the items that the file adds to it, by key or position.
    """

    origin: str
    arguments: tuple[Any, ...] = ()
    state: Any = None
    entries: Mapping[Any, Any] = field(default_factory=dict)


class _UnknownClass(type):
    """A class that the file names. Calling it, or making an object of it, gives another such class.

    These are classes rather than objects because the unpickler makes objects only from classes, and a file may make
    its classes by calling functions that are unknown themselves.
    """

    origin: str
    arguments: tuple[Any, ...]
    state: Any
    entries: dict[Any, Any]

    @classmethod
    def named(cls, origin: str, arguments: tuple[object, ...] = ()) -> _UnknownClass:
        namespace = {
            "__new__": lambda made, *arguments, **_: _UnknownClass.named(made.origin, arguments),
            "origin": origin,
            "arguments": arguments,
            "state": None,
            "entries": {},
        }
        return type.__new__(cls, "UnknownClass", (), namespace)

    def __call__(cls, *arguments: object, **_: object) -> _UnknownClass:
        return _UnknownClass.named(cls.origin, arguments)

    def __setstate__(cls, state: object) -> None:
        cls.state = state

    def __setitem__(cls, key: object, value: object) -> None:
        cls.entries[key] = value

    def append(cls, value: object) -> None:
        cls.entries[len(cls.entries)] = value

    def extend(cls, values: Any) -> None:
        for value in values:
            cls.append(value)

    add = append


class _Constructor:
    """A global name in a pickle: something to call, and nothing to read."""

    __slots__ = ("make",)

    def __init__(self, make: Callable[..., Any]) -> None:
        self.make = make

    def __call__(self, *arguments: object) -> Any:
        return self.make(*arguments)


class _DtypeShell:
    """A dtype that is being read: a letter, an item size and a byte order."""

    def __init__(self, code: object = None, *_: object) -> None:
        if not isinstance(code, str):
            raise RefusedPickle(f"it has a dtype made from {type(code).__name__}")
        try:
            self.dtype = np.dtype(code)
        except (TypeError, ValueError, SyntaxError):
            raise RefusedPickle(f"it has an unknown dtype {code!r}") from None
        if self.dtype.kind not in _PLAIN_KINDS and self.dtype != np.dtype(object):
            raise RefusedPickle(f"it has an array of dtype {code!r}; numbers, strings and plain objects are allowed")

    def __setstate__(self, state: object) -> None:
        if not isinstance(state, tuple) or len(state) < 5 or any(part is not None for part in state[2:5]):
            raise RefusedPickle("it has an array with fields or sub-arrays")
        if state[1] in ("<", ">"):
            self.dtype = self.dtype.newbyteorder(state[1])


class _ArrayShell:
    """An array that is being read: the state that NumPy would receive, not applied yet."""

    def __init__(self, *_: object) -> None:
        self.state: tuple[Any, Any, Any, Any] | None = None

    def __setstate__(self, state: object) -> None:
        if not isinstance(state, tuple) or len(state) not in (4, 5):
            raise RefusedPickle("it has a malformed array")
        shape, dtype, fortran, data = state[-4:]
        self.state = (shape, dtype, "F" if fortran else "C", data)

    def build(self, rebuild: Callable[[object], object]) -> AnyArray:
        if self.state is None:
            raise RefusedPickle("it has an array without contents")
        shape, shell, order, data = self.state
        sizes = shape if isinstance(shape, tuple) else (shape,)
        if not isinstance(shell, _DtypeShell) or any(type(n) is not int or n < 0 for n in sizes):
            raise RefusedPickle("it has a malformed array")
        if shell.dtype == np.dtype(object):
            return self._build_objects(sizes, data, rebuild)
        if isinstance(data, str):  # protocols 0 to 2 of Python 2 keep bytes as text
            data = data.encode("latin-1")
        if not isinstance(data, (bytes, bytearray)):
            raise RefusedPickle("it has an array whose data are not bytes")
        # A view, not a copy: the published split file holds 0.7 GB of names.
        return np.frombuffer(bytes(data), dtype=shell.dtype).reshape(sizes, order=order)

    def _build_objects(self, sizes: tuple[int, ...], data: object, rebuild: Callable[[object], object]) -> AnyArray:
        if not isinstance(data, list) or len(data) != int(np.prod(sizes, dtype=np.int64)):
            raise RefusedPickle("it has a malformed array of objects")
        flat = np.fromiter(map(rebuild, data), object, len(data))
        return flat.reshape(sizes)  # NumPy lists objects row by row, independent of their order in memory


def _array_from_buffer(data: object, dtype: object, shape: object, order: object = "C", *_: object) -> _ArrayShell:
    shell = _ArrayShell()
    shell.__setstate__((shape, dtype, order == "F", data))
    return shell


def _bytes_from_text(text: object, encoding: object = "latin1", *_: object) -> bytes:
    if not isinstance(text, str) or encoding not in ("latin1", "latin-1", "utf-8", "ascii"):
        raise RefusedPickle(f"it encodes text as {encoding!r}")
    return text.encode(encoding)


def _default_dict(factory: Any = None, *arguments: Any) -> defaultdict[object, object]:
    kind = factory.make if isinstance(factory, _Constructor) else factory
    if kind is not None and kind not in _FACTORIES.values():
        raise RefusedPickle("it has a defaultdict whose default is not a plain type")
    return defaultdict(kind, *arguments)


def _plain_constructors() -> Constructors:
    names: dict[tuple[str, str], Callable[..., Any]] = {
        ("collections", "OrderedDict"): OrderedDict,
        ("collections", "defaultdict"): _default_dict,
        ("_codecs", "encode"): _bytes_from_text,
        ("numpy", "dtype"): _DtypeShell,
        ("numpy", "ndarray"): _ArrayShell,
    }
    for builtins in ("builtins", "__builtin__"):
        names |= {(builtins, name): kind for name, kind in _FACTORIES.items()}
        names[builtins, "bytes"] = lambda: b""  # protocols 0 to 2 write this for b""
    for core in ("numpy.core", "numpy._core"):
        names[f"{core}.multiarray", "_reconstruct"] = _ArrayShell
        names[f"{core}.multiarray", "scalar"] = lambda dtype, data=None, *_: _array_from_buffer(data, dtype, ())
        names[f"{core}.numeric", "_frombuffer"] = _array_from_buffer
    return names


class _PlainUnpickler(pickle.Unpickler):
    def __init__(self, stream: BinaryIO, constructors: Constructors, *, stand_ins: bool) -> None:
        # Python 2 text is latin-1 at worst, which decodes any byte.
        super().__init__(stream, encoding="latin-1")
        self._constructors = {**_plain_constructors(), **constructors}
        self._stand_ins = stand_ins

    def find_class(self, module: str, name: str) -> object:
        if (module, name) in self._constructors:
            return _Constructor(self._constructors[module, name])
        if self._stand_ins:
            return _UnknownClass.named(f"{module}.{name}")
        raise RefusedPickle(f"it names {module}.{name}")

    def persistent_load(self, pid: object) -> NoReturn:
        raise RefusedPickle("it refers to objects outside the file")


class _Rebuilder:
    """Rebuild unpickled objects as new plain objects, each of them once."""

    def __init__(self, *, stand_ins: bool) -> None:
        self._done: dict[int, Any] = {}
        self._open: set[int] = set()
        self._stand_ins = stand_ins

    def __call__(self, value: object) -> Any:
        if value is None or type(value) in (bool, int, float, complex, str, bytes):
            return value
        if id(value) in self._done:
            return self._done[id(value)]
        if id(value) in self._open:
            return self._inert("a container that holds itself")
        self._open.add(id(value))
        built = self._done[id(value)] = self._container(type(value), value)
        self._open.discard(id(value))
        return built

    def _inert(self, what: str) -> StandIn:
        if not self._stand_ins:
            raise RefusedPickle(f"it has {what}")
        return StandIn(what)

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
        if kind is _UnknownClass:
            return StandIn(value.origin, self(value.arguments), self(value.state), self(value.entries))
        if kind in (_Constructor, _DtypeShell):
            return self._inert("a part of an array")
        raise RefusedPickle(f"it has a {kind.__name__}")


def load_plain_pickle(
    path: str | PathLike[str], constructors: Constructors | None = None, *, stand_ins: bool = False
) -> Any:
    """Read a pickle of plain containers; anything else raises `DataError` before it is called.

    Args:
        constructors: by (module, name) in the file, functions that are safe with any arguments.
        stand_ins: whether an object of an unknown class becomes a `StandIn` instead of an error.
    """
    with guarded(path, "a pickle"):
        try_reader(f"{__name__}:check_pickle", Path(path), kind="a pickle", module="numpy")
        return _load(path, constructors or {}, stand_ins=stand_ins)


def check_pickle(path: str) -> None:
    """Read a pickle with stand-ins for all unknown classes, without a process with limits."""
    _load(path, {}, stand_ins=True)


def _load(path: str | PathLike[str], constructors: Constructors, *, stand_ins: bool) -> Any:
    try:
        with Path(path).open("rb") as file:
            return _Rebuilder(stand_ins=stand_ins)(_PlainUnpickler(file, constructors, stand_ins=stand_ins).load())
    except RefusedPickle as refusal:
        raise DataError(
            f"{path} is refused: {refusal}. Only containers of strings and numbers are read; nothing in the file "
            "was run. If you trust it, load it yourself and save it as JSON."
        ) from None
