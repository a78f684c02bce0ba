"""Webdataset shards in the layout of CLIP_benchmark."""

from __future__ import annotations

import gzip
import io
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from unseen.core.errors import DataError
from unseen.data import decode_rgb, load_dataset
from unseen.data.sources.vtab import check_root


def encoded(image: Image.Image, kind: str) -> bytes:
    stream = io.BytesIO()
    image.save(stream, kind, **({"lossless": True} if kind == "webp" else {}))
    return stream.getvalue()


def write_split(
    folder: Path, replicas: Any, values: range, classes: int, *, shards: int = 2, kind: str = "png"
) -> None:
    """What CLIP_benchmark's converter writes: `s0000000.cls` and `s0000000.png`, shards of equal length."""
    folder.mkdir(parents=True)
    parts = np.array_split(np.arange(len(values)), shards)
    for number, part in enumerate(parts):
        with tarfile.open(folder / f"{number}.tar", "w", format=tarfile.USTAR_FORMAT) as archive:
            for index in part.tolist():
                contents = {
                    "cls": str(values[index] % classes).encode(),
                    kind: encoded(replicas.grey(values[index] % 250), kind),
                }
                for extension, content in contents.items():
                    member = tarfile.TarInfo(f"s{index:07d}.{extension}")
                    member.size = len(content)
                    archive.addfile(member, io.BytesIO(content))
    (folder / "nshards.txt").write_text(f"{shards}\n")


@pytest.fixture
def folder(tmp_path: Path, home: Path, replicas: Any) -> Path:
    root = tmp_path / "wds_vtab-kitti_closest_vehicle_distance"
    write_split(root / "train", replicas, range(40), 4)
    write_split(root / "test", replicas, range(40, 60), 4, shards=11, kind="webp")
    (root / "classnames.txt").write_text("near\nfarther\nfar\nnone\n")
    return root


def test_shards_become_splits(folder: Path, replicas: Any) -> None:
    data = load_dataset("vtab:kitti-distance", root=folder.parent, size="full")
    assert {name: len(split) for name, split in data.splits.items()} == {"train": 36, "val": 4, "test": 20}
    values = [replicas.value(s.open(i), "") for s in data.splits.values() for i in range(len(s))]
    assert values == list(range(60))  # shard 10 comes after shard 9
    assert [int(label) for s in data.splits.values() for label in s.labels] == [v % 4 for v in values]
    assert list(data.class_names) == ["near", "farther", "far", "none"]
    assert "not the authors'" in data.card.notes
    assert data.record.provenance == "community folder"
    assert data.expected == {"train": 6347, "val": 423, "test": 711}


def test_a_thousand_out_of_train(tmp_path: Path, home: Path, replicas: Any) -> None:
    root = tmp_path / "wds_vtab-dsprites_label_orientation"
    write_split(root / "train", replicas, range(1100), 40)
    write_split(root / "test", replicas, range(1100, 1150), 40)
    data = load_dataset("vtab:dsprites-orientation", root=tmp_path)
    assert {name: len(split) for name, split in data.splits.items()} == {"train": 800, "val": 200, "test": 50}
    # The shards have the 40 orientations themselves; VTAB makes 16 classes of them.
    assert data.split("val").labels.tolist() == [int(v % 40 / 2.5) for v in range(800, 1000)]


def test_what_is_wrong_is_named(folder: Path) -> None:
    (folder / "test" / "3.tar").rename(folder / "elsewhere")
    with pytest.raises(DataError, match=r"3\.tar' is not there \(11 are named"):
        load_dataset("vtab:kitti-distance", root=folder.parent)
    (folder / "elsewhere").rename(folder / "test" / "3.tar")
    with tarfile.open(folder / "test" / "3.tar", "w") as archive:
        for name, content in (("s1.cls", b"cat"), ("s1.png", b"")):
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    with pytest.raises(DataError, match="not the number of a class"):
        load_dataset("vtab:kitti-distance", root=folder.parent)
    (folder / "test" / "3.tar").write_bytes(b"junk" * 300)
    states = {status.task: status for status in check_root(folder.parent)}
    assert states["kitti-distance"].state == "broken"
    assert "is not a tar file" in states["kitti-distance"].advice


def test_shards_of_the_webdataset_library(tmp_path: Path, home: Path, records: Path) -> None:
    """Written by that library from the records of TFDS' fake CLEVR: the same pixels and counts."""
    source = Path(__file__).parent / "fixtures" / "wds_vtab-clevr_count_all"
    for path in source.rglob("*.*"):
        target = tmp_path / "wds_vtab-clevr_count_all" / path.relative_to(source)
        target.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".gz":
            target.with_suffix("").write_bytes(gzip.decompress(path.read_bytes()))
        else:
            target.write_bytes(path.read_bytes())
    found = load_dataset("vtab:clevr-count", root=tmp_path, size="full")
    other = load_dataset("vtab:clevr-count", root=records, size="full")
    assert found.class_names[0] == "3 objects"
    shards = found.split("train").join(found.split("val")).join(found.split("test"))
    plain = other.split("train").join(other.split("val")).join(other.split("test"))
    assert shards.labels.tolist() == plain.labels.tolist()
    for i in range(10):
        np.testing.assert_array_equal(decode_rgb(shards.open(i)), decode_rgb(plain.open(i)))
