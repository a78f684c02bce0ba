"""Additional constructors, stand-ins for unknown classes, and forged arrays in pickles."""

from __future__ import annotations

import _codecs
import pickle
import tempfile
from collections import OrderedDict
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from unseen.core import pickles
from unseen.core.errors import DataError
from unseen.core.pickles import StandIn, load_plain_pickle

RECONSTRUCT = np.zeros(1).__reduce__()[0]


@pytest.fixture(autouse=True, scope="module")
def in_this_process() -> Iterator[None]:
    """Read without a process with limits first, which takes a second for each file (tests/core/test_guard.py)."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pickles, "try_reader", lambda *_, **__: None)
        yield


def loads(payload: bytes, constructors: Any = None, *, stand_ins: bool = False) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.pkl"
        path.write_bytes(payload)
        return load_plain_pickle(path, constructors, stand_ins=stand_ins)


class Strange:
    """Pickled as the parts of `__reduce__` that the test chooses."""

    def __init__(self, *parts: Any) -> None:
        self.parts = parts

    def __reduce__(self) -> Any:
        return self.parts


NAME = f"{Strange.__module__}.Strange"


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_stand_in_records_the_arguments_in_the_file(protocol: int) -> None:
    several = Strange(Strange, (1, "b"), {"a": (3,)}, iter(["x", "y"]), iter([("k", 5), ("l", 6)]))
    found = loads(pickle.dumps([several, several], protocol), stand_ins=True)
    assert found[0] == StandIn(NAME, (1, "b"), {"a": (3,)}, {0: "x", 1: "y", "k": 5, "l": 6})
    assert found[0] is found[1]
    one = Strange(Strange, (), None, iter(["x"]), iter([("k", 5)]))
    assert loads(pickle.dumps(one, protocol), stand_ins=True) == StandIn(NAME, (), None, {0: "x", "k": 5})
    inner = Strange(Strange, (Strange(Strange, (2,)),))
    assert loads(pickle.dumps(inner, protocol), stand_ins=True) == StandIn(NAME, (StandIn(NAME, (2,)),))
    with pytest.raises(DataError, match=f"refused: it names {NAME}"):
        loads(pickle.dumps(several, protocol))


def test_stand_ins_of_classes_sets_and_objects_made_without_a_call() -> None:
    assert loads(b"\x80\x02ca.b\nC\n.", stand_ins=True) == StandIn("a.b.C")
    assert loads(b"\x80\x02ca.b\nC\nK\x07\x85\x81.", stand_ins=True) == StandIn("a.b.C", (7,))
    assert loads(b"\x80\x04ca\nC\n)R(K\x07K\x08\x90.", stand_ins=True) == StandIn("a.C", (), None, {0: 7, 1: 8})


def test_parts_of_arrays_and_cycles() -> None:
    itself = b"\x80\x02]q\x00h\x00a."
    assert loads(itself, stand_ins=True) == [StandIn("a container that holds itself")]
    for payload in (pickle.dumps(np.dtype("f4")), pickle.dumps(OrderedDict)):
        assert loads(payload, stand_ins=True) == StandIn("a part of an array")
        with pytest.raises(DataError, match="refused: it has a part of an array"):
            loads(payload)
    with pytest.raises(DataError, match="refused: it has a container that holds itself"):
        loads(itself)


def test_additional_constructors_and_references() -> None:
    call = b"\x80\x02cm\nf\nK\x07\x85R."
    constructors = {("m", "f"): lambda *arguments: [*arguments]}
    assert loads(call, constructors) == [7]
    with pytest.raises(DataError, match=r"refused: it names m\.g"):
        loads(b"\x80\x02cm\ng\n.", constructors)
    with pytest.raises(DataError, match="refused: it has a Fraction"):
        loads(call, {("m", "f"): Fraction})
    with pytest.raises(DataError, match="refused: it refers to objects outside"):
        loads(b"\x80\x04\x8c\x01xQ.", stand_ins=True)


def forged(*state: Any) -> bytes:
    """Return a pickled array with any state."""
    return pickle.dumps(Strange(RECONSTRUCT, (np.ndarray, (0,), b"b"), state), 5)


FOUR, EIGHT = np.dtype("i4"), bytes([1, 0, 0, 0, 2, 0, 0, 0])


@pytest.mark.parametrize(
    "state",
    [
        (1, (2,), FOUR, False, EIGHT),
        ((2,), FOUR, False, EIGHT),
        (1, 2, FOUR, False, EIGHT),
        (1, (2,), FOUR, False, EIGHT.decode("latin-1")),
        (1, (2,), FOUR, False, bytearray(EIGHT)),
        (1, (2,), np.dtype(object), False, [1, 2]),
    ],
)
def test_arrays_of_every_age_are_read(state: tuple[Any, ...]) -> None:
    assert loads(forged(*state)).tolist() == [1, 2]
    assert loads(forged(1, (0, 3), FOUR, False, b"")).shape == (0, 3)
    assert loads(forged(1, (2, 2), FOUR, True, 2 * EIGHT)).tolist() == [[1, 1], [2, 2]]


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        (((2,), FOUR, False), "malformed array"),
        ((0, 1, (2,), FOUR, False, EIGHT), "malformed array"),
        ((1, (-2,), FOUR, False, EIGHT), "malformed array"),
        ((1, (True, 2), FOUR, False, EIGHT), "malformed array"),
        ((1, (2.0,), FOUR, False, EIGHT), "malformed array"),
        ((1, (2,), "i4", False, EIGHT), "malformed array"),
        ((1, (2,), FOUR, False, [1, 2]), "data are not bytes"),
        ((1, (3,), np.dtype(object), False, [1, 2]), "malformed array of objects"),
        ((1, (1,), np.dtype(object), False, [1, 2]), "malformed array of objects"),
        ((1, (2,), np.dtype(object), False, (1, 2)), "malformed array of objects"),
        ((1, (3,), FOUR, False, EIGHT), "cannot be read as a pickle"),
    ],
)
def test_forged_arrays_are_refused(state: tuple[Any, ...], reason: str) -> None:
    with pytest.raises(DataError, match=reason):
        loads(forged(*state))


def test_an_array_without_contents_and_strange_dtypes_and_codecs() -> None:
    for made, reason in (
        (Strange(RECONSTRUCT, (np.ndarray, (0,), b"b")), "an array without contents"),
        (Strange(np.dtype, (3,)), "a dtype made from int"),
        (Strange(np.dtype, ("nonsense",)), "an unknown dtype 'nonsense'"),
        (Strange(np.dtype, ("M8[s]",)), r"an array of dtype 'M8\[s\]'"),
        (Strange(np.dtype, ("f4",), (3, "<", ("f4", (2,)), None, None, -1, -1, 0)), "fields or sub-arrays"),
        (Strange(np.dtype, ("f4",), (3, "<", None, None)), "fields or sub-arrays"),
        (Strange(_codecs.encode, ("x", "rot13")), "encodes text as 'rot13'"),
        (Strange(_codecs.encode, (b"x", "latin1")), "encodes text as 'latin1'"),
    ):
        with pytest.raises(DataError, match=f"refused: it .*{reason}"):
            loads(pickle.dumps(made))
    assert loads(pickle.dumps(Strange(_codecs.encode, ("é", "utf-8")))) == "é".encode()
