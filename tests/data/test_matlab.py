"""MATLAB files: real ones, files that SciPy writes, and hostile files."""

from __future__ import annotations

import io
import os
import random
import struct
import zlib
from contextlib import suppress
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from scipy.io import savemat
from scipy.sparse import coo_array

from unseen.core.errors import DataError
from unseen.data.matlab import read_matlab

GOLDEN = Path(os.environ.get("UNSEEN_GOLDEN_DATA", "/nowhere"))


@pytest.mark.skipif(not GOLDEN.is_dir(), reason="UNSEEN_GOLDEN_DATA is not set: the real files are not at hand")
def test_real_files() -> None:
    paths = sorted(GOLDEN.glob("gbu/*/att_splits.mat"))
    assert len(paths) == 5
    for path in paths:
        found = read_matlab(path, ("att", "allclasses_names"), ("trainval_loc", "no_such_variable"))
        assert set(found) == {"att", "allclasses_names", "trainval_loc"}
        names, att = found["allclasses_names"], found["att"]
        assert isinstance(att, np.ndarray) and att.shape[1] == len(names) == len(set(names))
        assert att.dtype == np.float64 and all(isinstance(name, str) and name.strip() == name for name in names)


@pytest.mark.parametrize("compressed", [False, True])
def test_arrays_and_texts(tmp_path: Path, compressed: bool) -> None:
    arrays = {
        "double": np.arange(24.0).reshape(2, 3, 4),
        "small": np.array([[1, -2, 3]], np.int8),
        "wide": np.array([[2**60]], np.uint64),
        "single": np.float32([[0.5]]),
        "none": np.zeros((0, 3)),
    }
    cells = np.array([["a", "b "], ["", "caf\u00e9"]], dtype=object)
    texts = {"text": "one text ", "rows": np.array(["ab ", "cde"]), "cells": cells}
    savemat(tmp_path / "f.mat", {**arrays, **texts}, do_compression=compressed)
    found = read_matlab(tmp_path / "f.mat", (*arrays, *texts))
    for name, value in arrays.items():
        ours = found[name]
        assert isinstance(ours, np.ndarray) and ours.dtype == value.dtype
        np.testing.assert_array_equal(ours, value)
    assert found["text"] == ["one text"] and found["rows"] == ["ab", "cde"]
    assert found["cells"] == ["a", "", "b", "caf\u00e9"], "in MATLAB's order"
    with pytest.raises(DataError, match="has no variable 'nothing'"):
        read_matlab(tmp_path / "f.mat", ("nothing",))


def test_a_big_endian_file(tmp_path: Path) -> None:
    head = b"MATLAB 5.0".ljust(124) + struct.pack(">H", 0x0100) + b"MI"

    def element(kind: int, data: bytes) -> bytes:
        return struct.pack(">II", kind, len(data)) + data + bytes(-len(data) % 8)

    matrix = element(6, struct.pack(">II", 6, 0)) + element(5, struct.pack(">ii", 1, 2)) + element(1, b"x")
    matrix += element(9, struct.pack(">dd", 1.5, -2.0))
    (tmp_path / "f.mat").write_bytes(head + element(14, matrix))
    np.testing.assert_array_equal(read_matlab(tmp_path / "f.mat", ("x",))["x"], [[1.5, -2.0]])


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (np.array([[1 + 2j]]), "of type complex128"),
        ({"a": 1.0}, "a structure"),
        (coo_array(np.eye(2)), "of type float64|coo|csc"),
        (np.array(["a", np.arange(3.0)], dtype=object), "a cell of type float64"),
    ],
    ids=["complex", "structure", "sparse", "cell of numbers"],
)
def test_what_is_not_a_plain_array_is_refused(tmp_path: Path, value: Any, message: str) -> None:
    savemat(tmp_path / "a.mat", {"x": value})
    with pytest.raises(DataError, match=message):
        read_matlab(tmp_path / "a.mat", ("x",))


@pytest.mark.slow
def test_damaged_files_raise_our_error_or_give_a_value(tmp_path: Path) -> None:
    """SciPy's reader ends the process on some of them, which must be the process with limits."""
    stream = io.BytesIO()
    savemat(stream, {"x": np.arange(12.0).reshape(3, 4), "c": np.array(["ab", "c"], dtype=object)})
    data, rng = stream.getvalue(), random.Random(0)
    for number in range(60):
        broken = bytearray(data[: rng.randrange(len(data))] if number % 3 == 0 else data)
        for _ in range(rng.randrange(1, 4)):
            broken[rng.randrange(len(broken))] = rng.choice([0, 255, rng.randrange(256)])
        (tmp_path / f"{number}.mat").write_bytes(bytes(broken))
        with suppress(DataError):
            read_matlab(tmp_path / f"{number}.mat", ("x", "c"))


def test_a_compressed_bomb(tmp_path: Path) -> None:
    count = 1 << 30
    matrix = struct.pack("<II", 14, count)
    stream = zlib.compressobj(9)
    packed = stream.compress(matrix + struct.pack("<IIII", 6, 8, 6, 0) + struct.pack("<IIii", 5, 8, 1, count >> 3))
    packed += stream.compress(struct.pack("<HHI", 1, 1, ord("x")) + struct.pack("<II", 9, count))
    for _ in range(count >> 20):
        packed += stream.compress(bytes(1 << 20))
    packed += stream.flush()
    (tmp_path / "bomb.mat").write_bytes(
        b"MATLAB 5.0".ljust(124) + b"\x00\x01IM" + struct.pack("<II", 15, len(packed)) + packed
    )
    with pytest.raises(DataError, match=r"takes more than .* of memory"):
        read_matlab(tmp_path / "bomb.mat", ("x",))


def test_hdf5_that_leads_elsewhere(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(bytes(range(64)))
    with h5py.File(tmp_path / "other.mat", "w") as file:
        file["labels"] = np.arange(4.0)
    elsewhere = [(str(secret), 0, h5py.h5f.UNLIMITED)]
    for name, add, message in (
        ("labels", lambda file: file.update(labels=h5py.ExternalLink("other.mat", "/labels")), "in another file"),
        ("soft", lambda file: file.update(soft=h5py.SoftLink("/labels")), "in another file"),
        ("raw", lambda file: file.create_dataset("raw", (8,), "f8", external=elsewhere), "in another file"),
        (
            "huge",
            lambda file: file.create_dataset("huge", (1 << 20, 1 << 20), "f8", chunks=(64, 64)),
            "bytes, which no file of its size",
        ),
    ):
        with h5py.File(tmp_path / "a.mat", "w") as file:
            add(file)
        with pytest.raises(DataError, match=message):
            read_matlab(tmp_path / "a.mat", (name,))
