"""A look at the opcodes of a pickle before anything is made of them.

The unpickler of the standard library runs no code that we do not give it, but it can be led to reserve gigabytes by ten
bytes (a memo index of 2^27 makes a table of that length) and to overflow the C stack (a tuple in a tuple in a tuple, as
the key of a dictionary, is hashed recursively). Both show in the opcodes, which are read here without being obeyed.
"""

from __future__ import annotations

import pickletools
from typing import NamedTuple

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
    """The bytes of an argument, and where it ends."""
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
    """The number of an object in the memo, written in digits or as bytes."""
    if op.argument != _LINE:
        return int.from_bytes(argument, "little")
    text = bytes(argument[:20])
    if not text.isdigit():
        raise UnsafePickle(f"it numbers an object {text!r}")
    return int(text)
