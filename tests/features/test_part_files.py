"""A part file and its description: a part is used only if they match."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from unseen.core.errors import CorruptPartError
from unseen.core.records import FeatureKey, Preprocessing
from unseen.features import FeatureStore
from unseen.features.manifest import entry_folder, load_manifest
from unseen.features.part import PartFile, PartRows, load_description, open_part

pytestmark = pytest.mark.usefixtures("without_flushing")

KEY = FeatureKey("m", "w", "pooled", Preprocessing(32, 32), "fp32", "torch", "d", "train", "f")


DESCRIPTION = "part-00001.json"


def open_by_size(store: FeatureStore, key: FeatureKey) -> PartFile:
    """Open the first part of an entry without comparing its bytes."""
    folder = entry_folder(store.root, key)
    manifest = load_manifest(folder)
    assert manifest is not None
    return open_part(folder, manifest.parts[0], dim=manifest.dim, dtype=manifest.dtype, check="size")


def write_second_part(store: FeatureStore) -> Path:
    """An entry of three parts of which the second is stored; return its folder."""
    index = np.arange(2, 4)
    with store.writer(KEY, total=6, part_size=2) as writer:
        writer.write(PartRows(2, np.ones((2, 3), np.float32), index, index))
    return entry_folder(store.root, KEY)


@pytest.mark.parametrize(
    "content",
    ["", "{", "[]", "null", "7", '{"part": 3}', '{"part": {"skipped": []}, "dim": 3, "dtype": "float32"}', "\udcff"],
)
def test_an_unreadable_description_is_ignored(store: FeatureStore, content: str) -> None:
    folder = write_second_part(store)
    assert load_description(folder, 1) is not None
    (folder / DESCRIPTION).write_bytes(content.encode("utf-8", "surrogateescape"))
    assert load_description(folder, 1) is None
    with store.writer(KEY, total=6, part_size=2) as writer:
        assert writer.missing == [0, 2, 4]
    assert [path.name for path in folder.iterdir()] == ["manifest.json"]


@pytest.mark.parametrize(
    "change",
    [
        lambda found: found.update(dim=4),
        lambda found: found.update(dtype="float16"),
        lambda found: found.update(dtype="colour"),
        lambda found: found.pop("dim"),
        lambda found: found["part"].update(file=3),
        lambda found: found["part"].update(file="part-00002.safetensors"),
        lambda found: found["part"].update(colour="red"),
        lambda found: found["part"].update(bytes=1),
        lambda found: found["part"].update(first=3),
        lambda found: found["part"].update(first=4, last=5),
        lambda found: found["part"].update(skipped=[{"index": 2, "name": "2.png", "reason": ""}]),
        lambda found: found["part"].update(skipped=[{"place": 2}]),
        lambda found: found["part"].update(sha256="0" * 64),
    ],
)
def test_a_part_that_does_not_match_its_description_is_discarded(
    store: FeatureStore, change: Callable[[Any], object]
) -> None:
    folder = write_second_part(store)
    description = json.loads((folder / DESCRIPTION).read_bytes())
    change(description)
    (folder / DESCRIPTION).write_text(json.dumps(description))
    with store.writer(KEY, total=6, part_size=2) as writer:
        assert writer.missing == [0, 2, 4]
    assert [path.name for path in folder.iterdir()] == ["manifest.json"]


def with_header(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """The first part with another header of the same length."""
    path = folder / "part-00000.safetensors"
    content = path.read_bytes()
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    change(header)
    text = json.dumps(header, separators=(",", ":")).encode()
    assert len(text) <= length
    path.write_bytes(content[:8] + text.ljust(length) + content[8 + length :])


@pytest.mark.parametrize(
    "change",
    [
        # Columns that lie elsewhere: 10 rows, of which the index takes 80 bytes and the labels as many.
        lambda header: header["labels"].update(data_offsets=[0, 80]),
        lambda header: header["labels"].update(data_offsets=[88, 99]),
        lambda header: header["index"].update(data_offsets=[80, 99]),
        lambda header: header["features"].update(data_offsets=[0, 120]),
        lambda header: header["features"].update(data_offsets=[168, 280]),
        lambda header: header["features"].update(data_offsets=[]),
        lambda header: header["features"].update(data_offsets=7),
        # Rows of another kind.
        lambda header: header["features"].update(shape=[10, 2]),
        lambda header: header["features"].update(shape=[9, 3]),
        lambda header: header["features"].update(shape=[3, 10]),
        lambda header: header["features"].update(dtype="F16"),
        lambda header: header["features"].update(dtype="Q7"),
        lambda header: header.pop("labels"),
        lambda header: header.pop("features"),
    ],
)
def test_a_header_that_says_something_else_is_refused(
    store: FeatureStore, store_process: ModuleType, change: Callable[[dict[str, Any]], object]
) -> None:
    sample = store_process.Sample(10, 10)
    sample.write(store)
    folder = entry_folder(store.root, sample.key)
    with_header(folder, lambda header: None)
    assert open_by_size(store, sample.key).shape == (10, 3), "as it was"
    with_header(folder, change)
    with pytest.raises(CorruptPartError, match="is not the file that was written"):
        open_by_size(store, sample.key)


@pytest.mark.parametrize("count", [1, 9, 130])
def test_parts_of_any_number_of_rows_are_opened(store: FeatureStore, store_process: ModuleType, count: int) -> None:
    sample = store_process.Sample(count, count, dim=1)
    sample.write(store)
    np.testing.assert_array_equal(store.open(sample.key).features.to_array(), sample.rows(0, count)[0])
    np.testing.assert_array_equal(store.open(sample.key).labels, sample.rows(0, count)[1])


@pytest.mark.parametrize("more", [1, 8, 16, 53, 56, 59, 80])
def test_a_header_that_grew_at_the_cost_of_the_data_is_refused(
    store: FeatureStore, store_process: ModuleType, more: int
) -> None:
    """The size is right, and the last columns are cut or gone."""
    sample = store_process.Sample(4, 4, dim=1)  # 32 bytes of index, 32 of labels, 16 of features
    sample.write(store)
    path = entry_folder(store.root, sample.key) / "part-00000.safetensors"
    content = path.read_bytes()
    length = int.from_bytes(content[:8], "little")
    header = content[8 : 8 + length] + b" " * more
    path.write_bytes(len(header).to_bytes(8, "little") + header + content[8 + length : -more])
    assert path.stat().st_size == len(content)
    with pytest.raises(CorruptPartError, match="its header and size"):
        open_by_size(store, sample.key)


@pytest.mark.parametrize(("age", "readings"), [(0, 2), (1_999_999_999, 2), (2_000_000_000, 2), (2_000_000_001, 1)])
def test_a_file_is_taken_on_trust_two_seconds_after_it_changed(
    store: FeatureStore, store_process: ModuleType, monkeypatch: pytest.MonkeyPatch, age: int, readings: int
) -> None:
    """Until then it could change again within one tick of the file system's clock."""
    sample = store_process.Sample(4, 4)
    sample.write(store)
    status = (entry_folder(store.root, sample.key) / "part-00000.safetensors").stat()
    now = max(status.st_mtime_ns, status.st_ctime_ns) + age
    monkeypatch.setattr("unseen.features.part.time", SimpleNamespace(time_ns=lambda: now))
    hashed, digest = [], hashlib.file_digest
    monkeypatch.setattr(hashlib, "file_digest", lambda file, name: hashed.append(name) or digest(file, name))
    for _ in range(2):
        store.open(sample.key)
    assert len(hashed) == readings
