"""TFDS records without TensorFlow: framing, messages, and all four kinds of annotations."""

from __future__ import annotations

import gzip
import importlib.util
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unseen.core.errors import DataError
from unseen.core.wire import masked_crc32c
from unseen.data import decode_rgb, load_dataset
from unseen.data.sources.vtab import vtab_tasks
from unseen.data.sources.vtab.tfds import RecordFile, find_tfds, parse_example, read_tfds


def test_the_checksum_is_castagnolis() -> None:
    crc = 0xE3069283  # the check value of CRC-32C
    assert masked_crc32c(b"123456789") == ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


@settings(deadline=None)  # the first message loads the library that writes it
@given(
    st.dictionaries(
        st.text(min_size=1, max_size=12),
        st.one_of(
            st.binary(max_size=300),
            st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=9).map(np.array),
            st.lists(st.floats(width=32, allow_nan=False), min_size=1, max_size=9).map(lambda v: np.array(v, "f4")),
        ),
        max_size=5,
    )
)
def test_messages_of_googles_library_are_read_back(features: dict[str, Any]) -> None:
    from google.protobuf import message  # noqa: F401 - the writer needs it

    data = _EXAMPLE(features)
    found = parse_example(data)
    assert set(found) == set(features)
    for name, value in features.items():
        if isinstance(value, bytes):
            assert found[name] == [value]
        else:
            assert np.array_equal(np.asarray(found[name]), value)


_EXAMPLE: Any = None


@pytest.fixture(autouse=True, scope="module")
def _writer(replicas: Any) -> None:
    global _EXAMPLE
    _EXAMPLE = replicas.example


def test_records_are_found_and_damage_is_noticed(tmp_path: Path, replicas: Any) -> None:
    contents = [b"one", b"", b"three" * 100]
    path = tmp_path / "x.tfrecord"
    path.write_bytes(b"".join(map(replicas.record, contents)))
    file = RecordFile(path)
    assert [bytes(file.record(i)) for i in range(len(file))] == contents
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(DataError, match="cut short"):
        RecordFile(path)
    path.write_bytes(b"\x01" + path.read_bytes()[1:])
    with pytest.raises(DataError, match="not a TFRecord"):
        RecordFile(path)
    with pytest.raises(DataError, match=r"tf\.train\.Example"):
        parse_example(b"\xff\xff\xff")
    empty = tmp_path / "empty.tfrecord"
    empty.write_bytes(b"")
    assert len(RecordFile(empty)) == 0


def write(root: Path, replicas: Any, builder: str, split: str, rows: list[dict[str, Any]], shards: int = 1) -> None:
    folder = root / builder / "3.1.0"
    folder.mkdir(parents=True, exist_ok=True)
    name = builder.partition("/")[0]
    for shard, part in enumerate(np.array_split(np.arange(len(rows)), shards)):
        data = b"".join(replicas.record(replicas.example(rows[i])) for i in part)
        (folder / f"{name}-{split}.tfrecord-{shard:05d}-of-{shards:05d}").write_bytes(data)


def test_a_dataset_with_classes_in_record_order(tmp_path: Path, replicas: Any) -> None:
    def rows(first: int, count: int) -> list[dict[str, Any]]:
        greys = range(first, first + count)
        return [{"image": replicas.encoded(replicas.grey(v)), "label": v % 10, "id": b"x"} for v in greys]

    write(tmp_path, replicas, "svhn_cropped", "train", rows(0, 50), shards=3)
    write(tmp_path, replicas, "svhn_cropped", "test", rows(50, 20))
    old = tmp_path / "svhn_cropped" / "1.0.0"
    old.mkdir()
    (old / "svhn_cropped-train.tfrecord-00000-of-00001").write_bytes(b"")
    data = load_dataset("vtab:svhn", root=tmp_path)
    train, val = data.split("train"), data.split("val")
    # train[:90%] and train[90%:] of the record order, over three shards.
    assert [replicas.value(train.open(i), "") for i in range(len(train))] == list(range(45))
    assert [replicas.value(val.open(i), "") for i in range(len(val))] == list(range(45, 50))
    assert train.labels.tolist() == [v % 10 for v in range(45)]
    assert len(data.split("test")) == 20


def test_the_first_800_and_200_in_record_order(tmp_path: Path, replicas: Any) -> None:
    image = replicas.encoded(replicas.grey(7, 4))
    for split, count in (("train", 900), ("validation", 250), ("test", 30)):
        write(tmp_path, replicas, "patch_camelyon", split, [{"image": image, "label": k % 2} for k in range(count)])
    data = load_dataset("vtab:camelyon", root=tmp_path)
    assert data.split("train").names[-1] == "train/000799"
    assert data.split("val").names[-1] == "validation/000199"
    assert {name: len(split) for name, split in data.splits.items()} == {"train": 800, "val": 200, "test": 30}


def test_clevr_objects(tmp_path: Path, replicas: Any) -> None:
    rows = []
    for k, (depth, _) in enumerate(replicas.clevr_depths):
        count = 3 + k % 8
        coordinates = np.array([[5, 6, depth + 0.5 * j] for j in range(count)], np.float32)[::-1]
        rows.append(
            {
                "image": replicas.encoded(replicas.grey(k)),
                "objects/size": np.zeros(count, int),
                "objects/pixel_coords": coordinates,
            }
        )
    write(tmp_path, replicas, "clevr", "train", rows * 2)
    write(tmp_path, replicas, "clevr", "validation", rows)
    distance = load_dataset("vtab:clevr-distance", root=tmp_path).split("test")
    assert distance.labels.tolist() == [label for _, label in replicas.clevr_depths]
    count = load_dataset("vtab:clevr-count", root=tmp_path).split("test")
    assert count.labels.tolist() == [k % 8 for k in range(len(rows))]


def test_kitti_vehicles(tmp_path: Path, replicas: Any) -> None:
    rows = []
    for k, (depth, _) in enumerate(replicas.kitti_depths):
        kinds, places = [3, 5], [[0, 0, 1.0], [0, 0, 0.5]]  # a pedestrian and a cyclist, near
        if depth is not None:
            kinds, places = [*kinds, k % 3], [*places, [1.0, 2.0, depth]]
        rows.append(
            {
                "image": replicas.encoded(replicas.grey(k)),
                "objects/type": np.array(kinds),
                "objects/location": np.array(places, np.float32),
            }
        )
    for split in ("train", "validation", "test"):
        write(tmp_path, replicas, "kitti", split, rows)
    found = load_dataset("vtab:kitti-distance", root=tmp_path).split("test").labels
    assert found.tolist() == [label for _, label in replicas.kitti_depths]


def test_dsprites_pixels_are_ones_and_smallnorb_labels_are_indices(tmp_path: Path, replicas: Any) -> None:
    from PIL import Image

    picture = np.zeros((64, 64), np.uint8)
    picture[:10] = 1
    png = replicas.encoded(Image.fromarray(picture))
    rows = [{"image": png, "label_x_position": k % 32, "label_orientation": k % 40} for k in range(200)]
    write(tmp_path, replicas, "dsprites", "train", rows)
    data = load_dataset("vtab:dsprites-orientation", root=tmp_path)
    assert data.split("test").labels.tolist() == [int(k % 40 / 2.5) for k in range(180, 200)]
    assert np.asarray(data.split("test").open(0)).max() == 255
    norb = [{"image": png, "image2": png, "label_azimuth": k % 18, "label_elevation": k % 9} for k in range(36)]
    for split in ("train", "test"):
        write(tmp_path, replicas, "smallnorb", split, norb)
    found = load_dataset("vtab:smallnorb-azimuth", root=tmp_path)
    assert found.split("val").labels.tolist() == [k % 18 for k in range(18)]
    assert found.split("test").labels.tolist() == [k % 18 for k in range(18, 36)]


def test_a_missing_shard_is_named(tmp_path: Path, replicas: Any) -> None:
    write(tmp_path, replicas, "dmlab", "train", [{"image": b"", "label": 0}] * 9, shards=3)
    (tmp_path / "dmlab" / "3.1.0" / "dmlab-train.tfrecord-00001-of-00003").unlink()
    with pytest.raises(DataError, match="shard 1 of 3"):
        load_dataset("vtab:dmlab", root=tmp_path)


def test_names_of_classes_and_configurations(tmp_path: Path, replicas: Any) -> None:
    rows = [{"image": replicas.encoded(replicas.grey(k)), "label": k % 10} for k in range(40)]
    write(tmp_path, replicas, "eurosat/rgb", "train", rows)
    (tmp_path / "eurosat" / "rgb" / "3.1.0" / "label.labels.txt").write_text("".join(f"c{k}\n" for k in range(10)))
    data = load_dataset("vtab:eurosat", root=tmp_path)
    assert list(data.class_names) == [f"c{k}" for k in range(10)]
    assert [len(s) for s in data.splits.values()] == [24, 8, 8]


FIXTURES = Path(__file__).parent / "fixtures"


def unpacked(tmp_path: Path, builder: str) -> Path:
    """The ArrayRecord files that TFDS' own builder wrote."""
    for path in (FIXTURES / "array_record" / builder).rglob("*.gz"):
        target = tmp_path / path.relative_to(FIXTURES / "array_record").with_suffix("")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(gzip.decompress(path.read_bytes()))
    return tmp_path


def test_array_records_hold_what_tfrecords_hold(tmp_path: Path) -> None:
    splits = ("train", "validation", "test")
    folders = [find_tfds(root, "sun397/tfds") for root in (unpacked(tmp_path, "sun397"), FIXTURES / "tfrecord")]
    packed, plain = (read_tfds(folder, "sun397", splits) for folder in folders if folder)
    for split in splits:
        one, other = packed[split], plain[split]
        assert list(one.keys) == list(other.keys)
        assert one.fields["label"].tolist() == other.fields["label"].tolist()
        assert [one.content_key(i) for i in range(len(one))] == [other.content_key(i) for i in range(len(other))]


def test_a_task_out_of_array_records(tmp_path: Path) -> None:
    data = load_dataset("vtab:clevr-count", root=unpacked(tmp_path, "clevr"), source="tfds")
    assert {name: len(split) for name, split in data.splits.items()} == {"train": 4, "val": 1, "test": 5}
    assert decode_rgb(data.split("test").open(0)).width > 0


def test_array_records_of_every_dataset(tmp_path: Path, records: Path) -> None:
    """The records of all 14 datasets, written once more by the format's own library as TFDS calls it."""
    if importlib.util.find_spec("array_record") is None:
        pytest.skip("the array-record wheel, which writes the files to compare with, is not installed")
    import pickle

    work = []
    for path in sorted(records.rglob("*.tfrecord-*")):
        target = tmp_path / str(path.relative_to(records)).replace(".tfrecord-", ".array_record-")
        target.parent.mkdir(parents=True, exist_ok=True)
        file = RecordFile(path)
        work.append((str(target), "group_size:1", [bytes(file.record(i)) for i in range(len(file))]))
    code = "import sys, pickle\nfrom array_record.python.array_record_module import ArrayRecordWriter\n"
    code += "for path, options, rows in pickle.load(sys.stdin.buffer):\n    writer = ArrayRecordWriter(path, options)\n"
    code += "    for row in rows:\n        writer.write(row)\n    writer.close()\n"
    subprocess.run([sys.executable, "-c", code], input=pickle.dumps(work), check=True)
    done = set()
    for task in vtab_tasks().values():
        folders = [find_tfds(root, task.tfds) for root in (tmp_path, records)]
        if None in folders or task.data in done:
            continue
        one, other = (read_tfds(f, task.data, list(task.official_sizes)) for f in folders if f)
        for split in one:
            assert list(one[split].keys) == list(other[split].keys)
            for name, column in one[split].fields.items():
                assert np.array_equal(column, other[split].fields[name])
        done.add(task.data)
    assert len(done) == 14


def test_records_in_another_order_are_not_the_authors(tmp_path: Path, replicas: Any) -> None:
    image = replicas.encoded(replicas.grey(7, 4))
    keys = [f"x{k}.jpg" for k in range(30)]
    for split in ("train", "validation", "test"):
        rows = [{"image": image, "label": 0, "file_name": key.encode()} for key in keys]
        write(tmp_path, replicas, "dtd", split, rows)
    folder = find_tfds(tmp_path, "dtd")
    assert folder is not None
    assert "not in the order" in read_tfds(folder, "dtd", ["train"])["train"].own
    assert "not in the order" in load_dataset("vtab:dtd", root=tmp_path).card.notes
