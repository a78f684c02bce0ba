"""The restricted loader: plain things come through, nothing else does, and nothing ever runs."""

from __future__ import annotations

import builtins
import os
import pickle
import subprocess
import tempfile
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unseen.core import pickles
from unseen.core.errors import DataError
from unseen.core.pickles import load_plain_pickle

PROTOCOLS = range(pickle.HIGHEST_PROTOCOL + 1)
RAN: list[str] = []


@pytest.fixture(autouse=True, scope="module")
def in_this_process() -> Iterator[None]:
    """Read without a process with limits first, which takes a second for each file (tests/core/test_guard.py)."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pickles, "try_reader", lambda *_, **__: None)
        yield


def loads(payload: bytes) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.pkl"
        path.write_bytes(payload)
        return load_plain_pickle(path)


def boom(text: str = "ran") -> str:
    RAN.append(text)
    return text


class Reduces:
    def __init__(self, function: Any, *arguments: Any) -> None:
        self.call = (function, arguments)

    def __reduce__(self) -> Any:
        return self.call


@pytest.fixture(autouse=True)
def nothing_runs() -> Any:
    RAN.clear()
    yield
    assert RAN == []


plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary(),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text(), inner, max_size=4)
        | st.sets(st.integers() | st.text(), max_size=4)
        | st.frozensets(st.integers(), max_size=4)
    ),
    max_leaves=12,
)


@settings(max_examples=60, deadline=None)
@given(value=plain, protocol=st.sampled_from(list(PROTOCOLS)))
def test_plain_values_are_read(value: Any, protocol: int) -> None:
    assert loads(pickle.dumps(value, protocol)) == value


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_other_containers_are_read(protocol: int) -> None:
    value = {"o": OrderedDict([("b", 1), ("a", 2)]), "d": defaultdict(list, {"a": [1]})}
    got = loads(pickle.dumps(value, protocol))
    assert got == value
    assert type(got["o"]) is OrderedDict and type(got["d"]) is defaultdict and got["d"]["new"] == []


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize(
    "array",
    [
        np.arange(12, dtype=np.int32).reshape(3, 4),
        np.asfortranarray(np.arange(12.0).reshape(3, 4)),
        np.arange(4, dtype=">i4"),
        np.array(["n02123045/a.JPEG", "n02123045/bb.JPEG"]),
        np.array([b"x", b"yz"]),
        np.array([True, False]),
        np.array([1 + 2j]),
        np.array(["a", "bcd", None, 3, ("t", 1)], dtype=object),
        np.array([["a", "b"], ["c", "d"]], dtype=object),
        np.array([["a", "b"], ["c", "d"], ["e", "f"]], dtype=object).T,
        np.zeros((0, 3), dtype=np.float32),
    ],
    ids=lambda a: f"{a.dtype}-{a.shape}",
)
def test_arrays_are_read(array: np.ndarray, protocol: int) -> None:
    got = loads(pickle.dumps({"x": array, "again": array}, protocol))
    np.testing.assert_array_equal(got["x"], array)
    assert got["x"].dtype == array.dtype
    assert got["x"] is got["again"]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_scalars_of_numpy_are_read(protocol: int) -> None:
    got = loads(pickle.dumps([np.float64(1.5), np.int32(7), np.str_("abc")], protocol))
    assert got[0] == 1.5 and got[1] == 7 and got[2] == "abc"


def _attacks() -> dict[str, bytes]:
    return {
        "a call": pickle.dumps(Reduces(boom)),
        "os.system": pickle.dumps(Reduces(os.system, "touch /tmp/never")),
        "subprocess": pickle.dumps(Reduces(subprocess.Popen, ["true"])),
        "eval": pickle.dumps(Reduces(builtins.eval, "1+1")),
        "exec": pickle.dumps(Reduces(builtins.exec, "x = 1")),
        "getattr": pickle.dumps(Reduces(getattr, "abc", "upper")),
        "import": pickle.dumps(Reduces(__import__, "os")),
        "a global alone": b"cos\nsystem\n.",
        "a global in a container": b"(lcos\nsystem\na.",
        "protocol 0 inst": b"(S'touch /tmp/never'\nios\nsystem\n.",
        "a dotted global": b"\x80\x04\x8c\x0bcollections\x8c\x14OrderedDict.fromkeys\x93.",
        "a method of a container": b"\x80\x04\x8c\x08builtins\x8c\x0alist.clear\x93.",
        "numpy load": pickle.dumps(Reduces(np.load, "x.npy")),
        "numpy fromfile": pickle.dumps(Reduces(np.fromfile, "/etc/passwd")),
        "a class of ours": pickle.dumps(Reduces(Path, "/etc")),
        "an exception": pickle.dumps(ValueError("x")),
        "a counter": pickle.dumps(Counter("abc")),
        "a bad default": b"\x80\x04\x8c\x0bcollections\x8c\x0bdefaultdict\x93\x8c\x02os\x8c\x06system\x93\x85R.",
        "a persistent id": b"\x80\x04\x8c\x01x\x51.",
        "an extension code": b"\x80\x02\x82\x01.",
        "newobj on a constructor": b"\x80\x02ccollections\nOrderedDict\n)\x81.",
        "build on a constructor": b"\x80\x02ccollections\nOrderedDict\n}X\x04\x00\x00\x00makeK\x01sb.",
        "build slots on a constructor": b"\x80\x02ccollections\nOrderedDict\nN}X\x04\x00\x00\x00makeK\x01s\x86b.",
        "a structured dtype": pickle.dumps(np.zeros(2, dtype=[("a", "i4"), ("b", "O")])),
        "a date": pickle.dumps(np.array(["2020-01-01"], dtype="datetime64[D]")),
        "a self-holding list": b"\x80\x02]q\x00h\x00a.",
    }


@pytest.mark.parametrize("name", list(_attacks()))
def test_attacks_are_refused(name: str) -> None:
    with pytest.raises(DataError):
        loads(_attacks()[name])
    assert not Path("/tmp/never").exists()


def test_an_array_cannot_turn_bytes_into_pointers() -> None:
    """A dtype that says object and claims plain bytes crashes NumPy's own unpickling."""
    payload = (
        b"\x80\x02cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85C\x01b\x87R"
        b"(K\x01K\x01\x85cnumpy\ndtype\nX\x02\x00\x00\x00O8K\x00K\x01\x87R"
        b"(K\x03X\x01\x00\x00\x00|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb\x89C\x08AAAAAAAAtb."
    )
    with pytest.raises(DataError, match="malformed array of objects"):
        loads(payload)


@pytest.mark.parametrize("payload", [b"", b"not a pickle", b"\x80\x04", pickle.dumps([1, 2, 3])[:-3], b"\x80\xff."])
def test_damaged_files_are_data_errors(payload: bytes) -> None:
    with pytest.raises(DataError):
        loads(payload)


def test_attributes_put_on_a_container_are_dropped() -> None:
    value = OrderedDict(a=1)
    value.secret = "x"  # type: ignore[attr-defined]
    assert not hasattr(loads(pickle.dumps(value)), "secret")


def test_errors_name_the_file_and_the_culprit(tmp_path: Path) -> None:
    path = tmp_path / "evil.pkl"
    path.write_bytes(pickle.dumps(Reduces(os.system, "true")))
    with pytest.raises(DataError, match=r"evil\.pkl is refused: it names .*system"):
        load_plain_pickle(path)
    with pytest.raises(DataError, match="cannot read"):
        load_plain_pickle(tmp_path / "none.pkl")
