"""What `PickleRules` let through, what becomes of classes that nobody knows, and arrays that are forged."""

from __future__ import annotations

import _codecs
import io
import pickle
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from unseen.core.errors import DataError
from unseen.core.pickles import Foreign, PickleRules, load_plain_numpy, load_plain_pickle

FOREIGN = PickleRules(foreign=True)
RECONSTRUCT = np.zeros(1).__reduce__()[0]


def loads(payload: bytes, rules: PickleRules = FOREIGN) -> Any:
    return load_plain_pickle(io.BytesIO(payload), rules)


class Strange:
    """Pickled as a call of itself, with whatever else a pickle may say of an object."""

    def __init__(self, *parts: Any) -> None:
        self.parts = parts

    def __reduce__(self) -> Any:
        return self.parts


NAME = f"{Strange.__module__}.Strange"


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_foreign_object_remembers_what_the_file_said(protocol: int) -> None:
    several = Strange(Strange, (1, "b"), {"a": (3,)}, iter(["x", "y"]), iter([("k", 5), ("l", 6)]))
    found = loads(pickle.dumps([several, several], protocol))
    assert found[0] == Foreign(NAME, (1, "b"), {"a": (3,)}, {0: "x", 1: "y", "k": 5, "l": 6})
    assert found[0] is found[1]
    one = Strange(Strange, (), None, iter(["x"]), iter([("k", 5)]))
    assert loads(pickle.dumps(one, protocol)) == Foreign(NAME, (), None, {0: "x", "k": 5})
    inner = Strange(Strange, (Strange(Strange, (2,)),))
    assert loads(pickle.dumps(inner, protocol)) == Foreign(NAME, (Foreign(NAME, (2,)),))
    with pytest.raises(DataError, match=f"refused: it asks for {NAME}"):
        loads(pickle.dumps(several, protocol), PickleRules())


def test_foreign_classes_sets_and_objects_made_without_a_call() -> None:
    assert loads(b"\x80\x02ca.b\nC\n.") == Foreign("a.b.C")
    assert loads(b"\x80\x02ca.b\nC\nK\x07\x85\x81.") == Foreign("a.b.C", (7,))
    assert loads(b"\x80\x04ca\nC\n)R(K\x07K\x08\x90.") == Foreign("a.C", (), None, {0: 7, 1: 8})


def test_parts_that_mean_nothing_alone() -> None:
    itself = b"\x80\x02]q\x00h\x00a."
    assert loads(itself) == [Foreign("a container that holds itself")]
    for payload in (pickle.dumps(np.dtype("f4")), pickle.dumps(OrderedDict)):
        assert loads(payload) == Foreign("a part of an array")
        with pytest.raises(DataError, match="refused: it holds a _"):
            loads(payload, PickleRules())
    with pytest.raises(DataError, match="refused: it has a container that holds itself"):
        loads(itself, PickleRules())


class Leaf:
    def __init__(self, *given: Any) -> None:
        self.given = given


def test_constructors_constants_leaves_and_references() -> None:
    call = b"\x80\x02cm\nf\nK\x07\x85R."
    rules = PickleRules(
        constructors={("m", "f"): Leaf}, constants={("m", "c"): 3}, leaves=(Leaf,), persistent_load="<{}>".format
    )
    assert loads(call, rules).given == (7,)
    assert loads(b"\x80\x02cm\nc\n.", rules) == 3
    assert loads(b"\x80\x04\x8c\x01xQ.", rules) == "<x>"
    with pytest.raises(DataError, match="refused: it holds a Leaf"):
        loads(call, PickleRules(constructors={("m", "f"): Leaf}))
    with pytest.raises(DataError, match=r"refused: it asks for m\.g"):
        loads(b"\x80\x02cm\ng\n.", rules)
    with pytest.raises(DataError, match="refused: it refers to objects outside"):
        loads(b"\x80\x04\x8c\x01xQ.")


def forged(*state: Any) -> bytes:
    """An array that says of itself whatever it likes."""
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
    assert loads(forged(*state), PickleRules()).tolist() == [1, 2]
    assert loads(forged(1, (0, 3), FOUR, False, b""), PickleRules()).shape == (0, 3)
    assert loads(forged(1, (2, 2), FOUR, True, 2 * EIGHT), PickleRules()).tolist() == [[1, 1], [2, 2]]


@pytest.mark.parametrize(
    ("state", "told"),
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
def test_forged_arrays_are_refused(state: tuple[Any, ...], told: str) -> None:
    with pytest.raises(DataError, match=told):
        loads(forged(*state), PickleRules())


def test_an_array_without_contents_and_strange_dtypes_and_codecs() -> None:
    for made, told in (
        (Strange(RECONSTRUCT, (np.ndarray, (0,), b"b")), "an array without contents"),
        (Strange(np.dtype, (3,)), "a dtype made from int"),
        (Strange(np.dtype, ("nonsense",)), "an unknown dtype 'nonsense'"),
        (Strange(np.dtype, ("M8[s]",)), r"an array of dtype 'M8\[s\]'"),
        (Strange(np.dtype, ("f4",), (3, "<", ("f4", (2,)), None, None, -1, -1, 0)), "fields or sub-arrays"),
        (Strange(np.dtype, ("f4",), (3, "<", None, None)), "fields or sub-arrays"),
        (Strange(_codecs.encode, ("x", "rot13")), "encodes text as 'rot13'"),
        (Strange(_codecs.encode, (b"x", "latin1")), "encodes text as 'latin1'"),
    ):
        with pytest.raises(DataError, match=f"refused: it .*{told}"):
            loads(pickle.dumps(made), PickleRules())
    assert loads(pickle.dumps(Strange(_codecs.encode, ("é", "utf-8"))), PickleRules()) == "é".encode()


def test_a_pickle_may_begin_anywhere_in_a_stream(tmp_path: Path) -> None:
    payload = b"head" + pickle.dumps([1, "two"])
    (tmp_path / "file").write_bytes(payload)
    with (tmp_path / "file").open("rb") as file:
        for stream in (io.BytesIO(payload), io.BufferedReader(io.BytesIO(payload)), file):  # type: ignore[type-var]
            assert stream.read(4) == b"head"
            assert load_plain_pickle(stream) == [1, "two"]


def test_numpy_files_of_other_shapes(tmp_path: Path) -> None:
    objects = np.asfortranarray(np.array([["a", "b", "c"], ["d", "e", "f"]], dtype=object))
    for array in (objects, np.asfortranarray(np.eye(3)[:2])):
        for version in ((1, 0), (2, 0)):
            with (tmp_path / "x.npy").open("wb") as stream:
                np.lib.format.write_array(stream, array, version)
            assert load_plain_numpy(tmp_path / "x.npy").tolist() == array.tolist()
    whole = (tmp_path / "x.npy").read_bytes()
    (tmp_path / "x.npy").write_bytes(whole[:-1])
    with pytest.raises(DataError, match=r"promises \(2, 3\) of float64, and 47 bytes follow"):
        load_plain_numpy(tmp_path / "x.npy")
    np.save(tmp_path / "o.npy", np.array(["a", "b"], dtype=object), allow_pickle=True)
    (tmp_path / "o.npy").write_bytes((tmp_path / "o.npy").read_bytes().replace(b"(2,)", b"(3,)", 1))
    with pytest.raises(DataError, match=r"promises \(3,\), its contents have \(2,\)"):
        load_plain_numpy(tmp_path / "o.npy")
