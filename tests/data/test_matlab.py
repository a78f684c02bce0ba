"""MATLAB files: ours against scipy's on files that others wrote, and files that mean harm."""

from __future__ import annotations

import io
import os
import struct
import zlib
from contextlib import suppress
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from scipy.io import loadmat, savemat, whosmat

from unseen.core.errors import DataError
from unseen.data.matlab import read_matlab, read_variables

GOLDEN = Path(os.environ.get("UNSEEN_GOLDEN_DATA", "/nowhere"))


def assert_same(ours: Any, theirs: Any) -> None:
    """Ours has cells as lists in MATLAB's order, texts as strings, structures as lists of dictionaries."""
    if isinstance(ours, str):
        assert ours == (str(theirs.ravel()[0]) if theirs.size else "")
    elif theirs.dtype.names:
        for one, other in zip(ours, theirs.ravel(order="F"), strict=True):
            assert set(one) == set(theirs.dtype.names)
            for name, value in one.items():
                assert_same(value, other[name])
    elif theirs.dtype == object:
        for one, other in zip(ours, theirs.ravel(order="F"), strict=True):
            assert_same(one, np.asarray(other))
    elif theirs.dtype.kind == "U":
        assert ours == [str(text) for text in theirs]
    else:
        assert ours.dtype == theirs.dtype and ours.shape == theirs.shape
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.skipif(not GOLDEN.is_dir(), reason="UNSEEN_GOLDEN_DATA is not set: the real files are not at hand")
def test_real_files_as_scipy_reads_them() -> None:
    paths = [
        path
        for path in [*GOLDEN.glob("gbu/*/*.mat"), *GOLDEN.glob("tfds/originals/*/*.mat")]
        if path.read_bytes()[:6] == b"MATLAB"
    ]
    assert len(paths) >= 10
    for path in paths:
        names = tuple(name for name, _, _ in whosmat(path))
        ours, theirs = read_variables(memoryview(path.read_bytes()), names, path), loadmat(path)
        assert set(ours) == set(names)
        for name in names:
            assert_same(ours[name], theirs[name])


@pytest.mark.parametrize("compressed", [False, True])
def test_what_scipy_writes(compressed: bool) -> None:
    values = {
        "double": np.arange(24.0).reshape(2, 3, 4),
        "small": np.array([[1, -2, 3]], np.int8),
        "wide": np.array([[2**60]], np.uint64),
        "single": np.float32([[0.5]]),
        "yes": np.array([[True, False]]),
        "text": "caf\u00e9",
        "rows": np.array(["ab", "cde"]),
        "none": np.zeros((0, 3)),
        "cells": np.array([["a", np.arange(3.0)], ["", np.array(["b"], dtype=object)]], dtype=object),
        "records": np.array([(1.0, "n01"), (2.0, "n02")], [("id", "f8"), ("wnid", "U3")]).reshape(-1, 1),
    }
    stream = io.BytesIO()
    savemat(stream, values, do_compression=compressed)
    theirs = loadmat(io.BytesIO(stream.getvalue()))
    ours = read_variables(memoryview(stream.getvalue()), tuple(values), "f.mat")
    assert set(ours) == set(values)
    for name in values:
        assert_same(ours[name], theirs[name])
    assert read_variables(memoryview(stream.getvalue()), ("nothing",), "f.mat") == {}


def test_a_big_endian_file() -> None:
    head = b"MATLAB 5.0".ljust(124) + struct.pack(">H", 0x0100) + b"MI"

    def element(kind: int, data: bytes) -> bytes:
        return struct.pack(">II", kind, len(data)) + data + bytes(-len(data) % 8)

    matrix = element(6, struct.pack(">II", 6, 0)) + element(5, struct.pack(">ii", 1, 2)) + element(1, b"x")
    matrix += element(9, struct.pack(">dd", 1.5, -2.0))
    file = head + element(14, matrix)
    np.testing.assert_array_equal(read_variables(memoryview(file), ("x",), "f")["x"], [[1.5, -2.0]])


@pytest.mark.parametrize("value", [np.array([[1 + 2j]]), {"a": 1.0}], ids=["complex", "structure"])
def test_what_is_not_a_plain_array_is_refused(tmp_path: Path, value: Any) -> None:
    savemat(tmp_path / "a.mat", {"x": value})
    with pytest.raises(DataError, match=r"is complex|is a structure"):
        read_matlab(tmp_path / "a.mat", ("x",))


def test_every_flipped_byte_is_an_error_of_ours_or_a_value(tmp_path: Path) -> None:
    """scipy's reader died on such files."""
    stream = io.BytesIO()
    savemat(stream, {"x": np.arange(12.0).reshape(3, 4), "c": np.array(["ab", "c"], dtype=object)})
    data = stream.getvalue()
    for place in range(len(data)):
        for value in (0x00, 0xFF, data[place] ^ 0x41):
            broken = bytearray(data)
            broken[place] = value
            with suppress(DataError):
                read_variables(memoryview(bytes(broken)), ("x", "c"), "f.mat")
    for cut in range(len(data)):
        with suppress(DataError):
            read_variables(memoryview(data[:cut]), ("x", "c"), "f.mat")


def test_a_compressed_bomb(tmp_path: Path) -> None:
    matrix = struct.pack("<II", 14, 100 << 20)
    stream = zlib.compressobj(9)
    packed = stream.compress(matrix + struct.pack("<IIII", 6, 8, 6, 0) + struct.pack("<IIii", 5, 8, 1, 12 << 20))
    packed += stream.compress(struct.pack("<HHI", 1, 1, ord("x")) + struct.pack("<II", 9, 100 << 20))
    packed += stream.compress(bytes(100 << 20)) + stream.flush()
    (tmp_path / "bomb.mat").write_bytes(
        b"MATLAB 5.0".ljust(124) + b"\x00\x01IM" + struct.pack("<II", 15, len(packed)) + packed
    )
    with pytest.raises(DataError, match="is it a bomb"):
        read_matlab(tmp_path / "bomb.mat", ("x",))


def test_hdf5_that_leads_elsewhere(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(bytes(range(64)))
    with h5py.File(tmp_path / "other.mat", "w") as file:
        file["labels"] = np.arange(4.0)
    with h5py.File(tmp_path / "a.mat", "w") as file:
        file["labels"] = h5py.ExternalLink("other.mat", "/labels")
        file["soft"] = h5py.SoftLink("/labels")
        file.create_dataset("raw", (8,), "f8", external=[(str(secret), 0, h5py.h5f.UNLIMITED)])
        file.create_dataset("huge", (1 << 20, 1 << 20), "f8", chunks=(64, 64))
    for name, message in (
        ("labels", "in another file"),
        ("soft", "in another file"),
        ("raw", "in another file"),
        ("huge", "too much"),
    ):
        with pytest.raises(DataError, match=message if name != "huge" else "bytes"):
            read_matlab(tmp_path / "a.mat", (name,))
