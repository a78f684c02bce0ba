"""ArrayRecord files that the format's own library and TFDS have written."""

from __future__ import annotations

import gzip
import importlib.util
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from unseen.core.errors import DataError
from unseen.data.array_record import ArrayRecordFile

FIXTURES = Path(__file__).parent / "sources" / "vtab" / "fixtures"
WRITE = """
import sys, pickle
from array_record.python import array_record_module
for path, options, records in pickle.load(sys.stdin.buffer):
    writer = array_record_module.ArrayRecordWriter(path, options)
    for record in records:
        writer.write(record)
    writer.close()
"""


def unpack(name: str, folder: Path) -> Path:
    """A file that TFDS' own builder wrote."""
    (packed,) = (FIXTURES / "array_record").rglob(f"{name}.gz")
    path = folder / name
    path.write_bytes(gzip.decompress(packed.read_bytes()))
    return path


CLEVR = "clevr-train.array_record-00000-of-00001"


def test_the_records_are_those_of_the_tfrecord_file(tmp_path: Path) -> None:
    from unseen.data.sources.vtab.tfds import RecordFile, parse_example

    for split, count in (("train", 4), ("validation", 2), ("test", 2)):
        found = ArrayRecordFile(unpack(f"sun397-{split}.array_record-00000-of-00001", tmp_path))
        other = RecordFile(FIXTURES / f"tfrecord/sun397/tfds/4.0.0/sun397-{split}.tfrecord-00000-of-00001")
        assert len(found) == len(other) == count
        for i in range(count):
            assert bytes(found.record(i)) == bytes(other.record(i))
            assert "file_name" in parse_example(found.record(i))


@pytest.mark.parametrize(
    ("options", "count"),
    [
        ("group_size:1", 300),  # as TFDS writes
        ("group_size:65536", 300),
        ("group_size:7,uncompressed", 300),
        ("group_size:4,brotli:6", 300),
        ("group_size:4,snappy", 300),
        ("group_size:3,pad_to_block_boundary:true", 20),
        ("group_size:1", 0),
    ],
)
def test_whatever_its_library_writes_is_read_back(tmp_path: Path, options: str, count: int) -> None:
    if importlib.util.find_spec("array_record") is None:
        pytest.skip("the array-record wheel, which writes the files to compare with, is not installed")
    import pickle

    rng = np.random.default_rng(0)
    sizes = rng.integers(0, 5000, count)
    records = [rng.bytes(size) if i % 2 else b"abc" * int(size) for i, size in enumerate(sizes)]
    records[:1] = [b"", rng.bytes(200_000)][: min(count, 1)]  # an empty one, and one of several blocks
    path = tmp_path / "x.array_record"
    # In a process of its own: the library brings its own copy of what others have loaded.
    subprocess.run([sys.executable, "-c", WRITE], input=pickle.dumps([(str(path), options, records)]), check=True)
    found = ArrayRecordFile(path)
    assert [bytes(found.record(i)) for i in range(len(found))] == records


def test_damage_is_noticed(tmp_path: Path) -> None:
    path = unpack(CLEVR, tmp_path)
    whole = path.read_bytes()
    for damaged in (whole[:-1000], whole[:65536], b"", b"junk" * 40000, whole[:-65536] + b"\0" * 65536):
        path.write_bytes(damaged)
        with pytest.raises(DataError, match="as an ArrayRecord file"):
            ArrayRecordFile(path)
    broken = bytearray(whole)
    broken[64 + 40 : 64 + 40 + 30] = b"\xff" * 30  # where the first chunk says how it is packed
    path.write_bytes(bytes(broken))
    file = ArrayRecordFile(path)
    with pytest.raises(DataError, match="byte 64,"):
        file.record(0)
    assert len(file.record(1)) > 0
    with pytest.raises(DataError, match="cannot read"):
        ArrayRecordFile(tmp_path / "none")


def test_a_bomb_is_not_unpacked(tmp_path: Path) -> None:
    path = unpack(CLEVR, tmp_path)
    data = bytearray(path.read_bytes())
    struct.pack_into("<Q", data, 64 + 32, 1 << 50)  # the first chunk says that it decodes to a petabyte
    path.write_bytes(bytes(data))
    with pytest.raises(DataError, match="the limit is"):
        ArrayRecordFile(path).record(0)


@pytest.mark.parametrize("seed", range(3))
def test_random_damage_is_a_data_error_or_nothing(tmp_path: Path, seed: int) -> None:
    path = unpack(CLEVR, tmp_path)
    whole = np.frombuffer(path.read_bytes(), np.uint8)
    used = np.flatnonzero(whole)
    rng = np.random.default_rng(seed)
    for _ in range(150):
        damaged = whole.copy()
        damaged[rng.choice(used, 3)] = rng.integers(0, 256, 3)
        path.write_bytes(damaged.tobytes())
        try:
            file = ArrayRecordFile(path)
            for i in range(len(file)):
                file.record(i)
        except DataError:
            pass
