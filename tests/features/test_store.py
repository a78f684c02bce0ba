"""The feature store: what is written comes back, and what was not written is never given out."""

from __future__ import annotations

import hashlib
import json
import os
import pickle
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors import safe_open
from safetensors.numpy import load_file, save

from unseen.core.errors import CorruptPartError, StoreError, UnknownNameError
from unseen.core.records import FeatureKey
from unseen.features import FeatureRows, FeatureStore, Skipped
from unseen.features.manifest import entry_folder, load_manifest
from unseen.features.part import PartFile, PartRows, encode_part, open_part

FIXTURE = Path(__file__).parents[1] / "fixtures" / "store-v1"


@pytest.fixture(scope="module", autouse=True)
def disk_without_flushing():
    """Nothing here depends on flushing, which takes most of the time; the tests of interruption have it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda _descriptor: None)
        yield


def flip_byte(path: Path, position: int) -> None:
    content = bytearray(path.read_bytes())
    content[position] ^= 0x10
    path.write_bytes(content)


def parts_of(store: FeatureStore) -> list[Path]:
    return sorted(store.root.glob("*/*/*/*/part-*.safetensors"))


def open_by_size(store: FeatureStore, key: FeatureKey) -> PartFile:
    folder = entry_folder(store.root, key)
    manifest = load_manifest(folder)
    return open_part(folder, manifest.parts[0], dim=manifest.dim, dtype=manifest.dtype, check="size")


def manifest_of(store: FeatureStore) -> Path:
    (path,) = store.root.glob("*/*/*/*/manifest.json")
    return path


# Round trip


@settings(max_examples=60, deadline=None)
@given(
    total=st.integers(0, 23),
    part_size=st.integers(1, 9),
    dim=st.integers(1, 5),
    dtype=st.sampled_from(["float16", "float32"]),
    bad=st.frozensets(st.integers(0, 22)),
)
def test_round_trip(tmp_path_factory, store_process, total, part_size, dim, dtype, bad):
    store = FeatureStore(tmp_path_factory.mktemp("store"))
    sample = store_process.Sample(total, part_size, dim, dtype, bad)
    sample.write(store)
    features, labels, index, skipped = sample.rows(0, total)

    stored = store.open(sample.key)

    np.testing.assert_array_equal(stored.features.to_array(), features if len(features) else np.zeros((0, stored.dim)))
    np.testing.assert_array_equal(stored.labels, labels)
    np.testing.assert_array_equal(stored.index, index)
    assert stored.labels.dtype == stored.index.dtype == np.int64
    assert stored.skipped == tuple(skipped)
    assert stored.key == sample.key
    assert (len(stored), stored.total) == (len(features), total)
    if len(features):
        assert (stored.dim, stored.features.dtype) == (dim, np.dtype(dtype))
    assert stored.nbytes == sum(path.stat().st_size for path in parts_of(store))
    assert store.verify() == []


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_rows_are_indexed_as_by_numpy(rows_and_array, data):
    rows, array = rows_and_array
    whole = st.integers(-len(array), len(array) - 1)
    bound = st.none() | st.integers(-30, 30)
    step = st.none() | st.integers(-4, 4).filter(bool)
    chosen = data.draw(
        whole
        | st.lists(whole)
        | st.builds(slice, bound, bound, step)
        | st.lists(st.booleans(), min_size=len(array), max_size=len(array)).map(np.array)
    )
    expected = array[np.array(chosen, dtype=np.int64)] if isinstance(chosen, list) else array[chosen]
    found = rows[chosen]
    np.testing.assert_array_equal(found, expected)
    assert found.dtype == array.dtype
    assert found.flags.writeable


@pytest.fixture(scope="module")
def rows_and_array(tmp_path_factory, store_process):
    store = FeatureStore(tmp_path_factory.mktemp("store"))
    sample = store_process.Sample(23, 5, bad=frozenset({0, 5, 6, 7, 8, 9, 22}))
    sample.write(store)
    return store.open(sample.key).features, sample.rows(0, 23)[0]


def test_rows_refuse_what_numpy_refuses(rows_and_array):
    rows, array = rows_and_array
    with pytest.raises(IndexError, match="out of bounds"):
        rows[len(array)]
    with pytest.raises(IndexError, match="out of bounds"):
        rows[[-len(array) - 1]]
    with pytest.raises(IndexError, match="boolean"):
        rows[np.array([True, False, True])]
    with pytest.raises(TypeError, match="rows only"):
        rows[1, 2]
    with pytest.raises(IndexError, match="integer"):
        rows[np.array([0.5])]
    with pytest.raises(TypeError, match="not an array of shape"):
        rows[np.array([[0, 1]])]


def test_rows_come_one_by_one_and_as_an_array(rows_and_array):
    rows, array = rows_and_array
    np.testing.assert_array_equal(np.asarray(rows), array)
    np.testing.assert_array_equal(np.asarray(rows, dtype="float64"), array.astype("float64"))
    np.testing.assert_array_equal(np.stack(list(rows)), array)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(rows)).to_array(), array)
    assert (rows.shape, rows.ndim) == (array.shape, 2)


def test_many_parts_do_not_use_up_the_file_descriptors(store, store_process):
    sample = store_process.Sample(300, 1)
    sample.write(store)
    stored = store.open(sample.key)
    descriptors = Path("/proc/self/fd")
    before = len(list(descriptors.iterdir())) if descriptors.exists() else 0
    np.testing.assert_array_equal(stored.features.to_array(), sample.rows(0, 300)[0])
    if before:
        assert len(list(descriptors.iterdir())) - before <= 64


def test_features_are_mapped_and_not_read(store, store_process):
    sample = store_process.Sample(4, 4, dim=8)
    sample.write(store)
    mapped = store.open(sample.key).features._parts[0].map()
    assert not mapped.flags.owndata
    assert not mapped.flags.writeable


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="this system does not list its mapped files")
def test_files_are_let_go_of_with_the_features(store, store_process):
    sample = store_process.Sample()
    sample.write(store)
    stored = store.open(sample.key)
    stored.features.to_array()
    assert str(store.root) in Path("/proc/self/maps").read_text()
    del stored
    assert str(store.root) not in Path("/proc/self/maps").read_text()


# The files, as others read them


def test_the_safetensors_library_reads_a_part(store, store_process):
    sample = store_process.Sample(9, 4, bad=frozenset({2}))
    sample.write(store)
    features, labels, index, _ = sample.rows(0, 4)
    tensors = load_file(parts_of(store)[0])
    np.testing.assert_array_equal(tensors["features"], features)
    np.testing.assert_array_equal(tensors["labels"], labels)
    np.testing.assert_array_equal(tensors["index"], index)


def test_the_reader_in_the_documentation_works(store, store_process):
    """The last example of docs/store.md, run on an entry with skipped images and a part without rows."""
    sample = store_process.Sample(10, 2, bad=frozenset({2, 3, 7}))
    sample.write(store)
    text = (Path(__file__).parents[2] / "docs" / "store.md").read_text()
    example = text.split("```python\n")[-1].split("```")[0]
    names: dict = {"entry": SimpleNamespace(path=manifest_of(store).parent)}
    exec(example, names)
    np.testing.assert_array_equal(names["features"], sample.rows(0, 10)[0])
    np.testing.assert_array_equal(names["labels"], sample.rows(0, 10)[1])


def test_the_digests_of_the_manifest_are_those_of_the_documentation(store, store_process):
    store_process.Sample().write(store)
    values = json.loads(manifest_of(store).read_text())

    def sha256(value: object) -> str:
        return hashlib.sha256(json.dumps(value, sort_keys=True, separators=(",", ":")).encode()).hexdigest()

    assert values["digest"] == sha256(values["key"])[:16] == manifest_of(store).parent.name
    assert values.pop("sha256") == sha256(values)


@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize("shape", [(1, 1), (3, 5), (100, 7)])
def test_part_bytes_are_those_of_the_safetensors_library(shape, dtype):
    features = np.random.default_rng(0).normal(size=shape).astype(dtype)
    column = np.arange(shape[0], dtype=np.int64)
    ours = b"".join(encode_part(features, column, column))
    assert ours == save({"features": features, "labels": column, "index": column})


def test_part_bytes_do_not_depend_on_how_the_array_lies_in_memory():
    features = np.random.default_rng(0).normal(size=(6, 4)).astype("float32")
    column = np.arange(6, dtype=np.int64)
    expected = b"".join(encode_part(features, column, column))
    assert b"".join(encode_part(np.asfortranarray(features), column, column)) == expected
    assert b"".join(encode_part(features.astype(">f4"), column.astype(">i8"), column)) == expected
    wide = np.repeat(features, 2, axis=1)[:, ::2]
    assert b"".join(encode_part(wide, column, column)) == expected


def test_a_part_without_rows(store, store_process):
    sample = store_process.Sample(6, 2, bad=frozenset({0, 1, 4, 5}))
    sample.write(store)
    first = parts_of(store)[0]
    with safe_open(first, "numpy") as file:
        assert file.get_slice("features").get_shape() == [0, 0]
    stored = store.open(sample.key)
    assert stored.features.shape == (2, 3)
    assert [image.index for image in stored.skipped] == [0, 1, 4, 5]


def test_manifest_says_all(store, store_process):
    sample = store_process.Sample(10, 4, bad=frozenset({5}))
    sample.write(store)
    manifest = json.loads(manifest_of(store).read_text())
    assert manifest["schema"] == 1
    assert manifest["state"] == "complete"
    assert manifest["key"]["dataset"] == sample.key.dataset
    assert (manifest["total"], manifest["part_size"], manifest["rows"]) == (10, 4, 9)
    assert (manifest["dim"], manifest["dtype"]) == (3, "float32")
    assert [(p["first"], p["last"], p["rows"]) for p in manifest["parts"]] == [(0, 3, 4), (4, 7, 3), (8, 9, 2)]
    assert manifest["parts"][1]["skipped"] == [{"index": 5, "name": "5.png", "reason": "cannot identify image"}]


def test_reasons_hold_no_addresses(store, store_process):
    sample = store_process.Sample(1, 1)
    none = np.zeros(0, np.int64)
    reason = "cannot identify image file <_io.BytesIO object at 0x7f3a5c0d9e90>"
    with store.writer(sample.key, total=1, part_size=1) as writer:
        writer.write(
            PartRows(writer.next_index, np.zeros((0, 3), np.float32), none, none, [Skipped(0, "a.png", reason)])
        )
        writer.finish()
    assert store.open(sample.key).skipped[0].reason == "cannot identify image file <_io.BytesIO>"


def test_frozen_store_of_schema_1_always_loads():
    expected = json.loads((FIXTURE / "expected.json").read_text())
    store = FeatureStore(FIXTURE / "features")
    entries = {entry.digest: entry for entry in store.entries()}
    assert set(entries) == set(expected)
    for digest, values in expected.items():
        entry = entries[digest]
        assert entry.state == values["state"]
        assert store.verify(entry) == []
        assert entry.manifest is not None
        if entry.state == "complete":
            stored = store.open(entry.manifest.key)
            assert stored.features.to_array().tolist() == values["features"]
            assert stored.labels.tolist() == values["labels"]
            assert stored.index.tolist() == values["index"]
            assert [[s.index, s.name, s.reason] for s in stored.skipped] == values["skipped"]
            assert stored.provenance == values["provenance"]


# What is found, and what is refused


def test_nothing_is_found_where_nothing_is(store, store_process):
    key = store_process.make_key()
    assert store.find(key) is None
    assert list(store.entries()) == []
    with pytest.raises(StoreError, match="there are none"):
        store.open(key)
    assert not store.root.exists()


def test_partial_features_are_not_found(store, store_process):
    sample = store_process.Sample(10, 4)
    sample.write(store, parts=2)
    assert store.find(sample.key) is None
    with pytest.raises(StoreError, match="only 8 of 10 images"):
        store.open(sample.key)


def test_another_key_is_another_entry(store, store_process):
    sample = store_process.Sample()
    sample.write(store)
    for change in ({"layer": "logits"}, {"weights": "v"}, {"split": "test"}, {"model": "timm:resnet50"}):
        assert store.find(store_process.make_key(**change)) is None


def test_every_flipped_byte_is_refused(store, store_process):
    sample = store_process.Sample(4, 4, dim=2)
    sample.write(store)
    (part,) = parts_of(store)
    whole = part.read_bytes()
    for position in range(len(whole)):
        flip_byte(part, position)
        with pytest.raises(CorruptPartError, match=r"part-00000\.safetensors is not the file that was written"):
            store.find(sample.key)
        (problem,) = store.verify()
        assert problem.path == part
        assert "unseen features rm" in str(problem)
        part.write_bytes(whole)
    assert store.open(sample.key).dim == 2


def test_a_flip_is_found_in_a_process_that_has_read_the_part_before(store, store_process, monkeypatch):
    monkeypatch.setattr("unseen.features.part._SETTLED_NS", -1)
    sample = store_process.Sample(4, 4)
    sample.write(store)
    (part,) = parts_of(store)
    store.open(sample.key)
    status = part.stat()
    flip_byte(part, part.stat().st_size - 1)
    os.utime(part, ns=(status.st_atime_ns, status.st_mtime_ns))  # the times of the file look as before
    while part.stat().st_ctime_ns == status.st_ctime_ns:
        os.utime(part, ns=(status.st_atime_ns, status.st_mtime_ns))
    with pytest.raises(CorruptPartError, match="its sha256 is"):
        store.open(sample.key)


def test_each_process_hashes_a_settled_part_once(store, store_process, monkeypatch):
    monkeypatch.setattr("unseen.features.part._SETTLED_NS", -1)
    sample = store_process.Sample(4, 4, dim=5)
    sample.write(store)
    store.open(sample.key)
    monkeypatch.setattr("hashlib.file_digest", lambda *_: pytest.fail("hashed twice"))
    assert store.open(sample.key).dim == 5


def test_verify_reads_the_bytes_again(store, store_process, monkeypatch):
    """Bits that rot change no time stamp: only reading finds them."""
    sample = store_process.Sample(4, 4)
    sample.write(store)
    (part,) = parts_of(store)
    monkeypatch.setattr("unseen.features.part._stamp", lambda file: (0, 0, part.stat().st_size, 0, 0))
    store.open(sample.key)
    flip_byte(part, -1)
    store.open(sample.key)  # this process has seen the part whole
    assert len(store.verify()) == 1


def test_a_part_that_has_just_changed_is_hashed_again(store, store_process):
    """A clock tick is too coarse to tell two changes apart, so a fresh file is not taken on trust."""
    sample = store_process.Sample(4, 4)
    sample.write(store)
    (part,) = parts_of(store)
    for _ in range(20):
        store.open(sample.key)
        flip_byte(part, -1)
        with pytest.raises(CorruptPartError):
            store.open(sample.key)
        flip_byte(part, -1)


def test_check_by_size_sees_sizes_headers_and_indices(store, store_process):
    sample = store_process.Sample(4, 4)
    sample.write(store)
    (part,) = parts_of(store)
    whole = part.read_bytes()
    flip_byte(part, -1)
    assert open_by_size(store, sample.key).shape == (4, 3)
    for damaged in (whole[:-1], whole + b"x", b"", b"\xff" * len(whole), whole[:8] + b"[" + whole[9:]):
        part.write_bytes(damaged)
        with pytest.raises(CorruptPartError):
            open_by_size(store, sample.key)


def test_a_missing_part_is_refused(store, store_process):
    sample = store_process.Sample()
    sample.write(store)
    parts_of(store)[1].unlink()
    with pytest.raises(CorruptPartError, match=r"part-00001.*cannot be opened"):
        store.open(sample.key)


def test_a_part_that_changes_while_it_is_read_is_refused(store, store_process):
    sample = store_process.Sample()
    sample.write(store)
    stored = store.open(sample.key)
    part = parts_of(store)[2]
    other = part.with_name("other")
    other.write_bytes(part.read_bytes())
    other.replace(part)
    assert stored.features[0].shape == (3,)
    with pytest.raises(CorruptPartError, match="changed since it was opened"):
        stored.features[9]


def test_parts_of_another_entry_are_refused(store, store_process):
    one, two = store_process.Sample(4, 4), store_process.Sample(4, 4, key=store_process.make_key(layer="logits"))
    one.write(store)
    (mine,) = parts_of(store)
    two.rows = lambda first, last: (one.rows(first, last)[0] + 1, *one.rows(first, last)[1:])
    two.write(store)
    (theirs,) = [path for path in parts_of(store) if path != mine]
    mine.write_bytes(theirs.read_bytes())
    with pytest.raises(CorruptPartError):
        store.open(one.key)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"null", b'{"schema": 1}', b"\xff\xfe"])
def test_a_damaged_manifest_is_refused_by_readers_and_writers(store, store_process, content):
    sample = store_process.Sample()
    sample.write(store, parts=1)
    manifest_of(store).write_bytes(content)
    for action in (store.find, store.open, lambda _: sample.write(store)):
        with pytest.raises(StoreError, match=r"manifest\.json is damaged.*unseen features rm"):
            action(sample.key)
    (entry,) = store.entries()
    assert entry.state == "damaged"
    (problem,) = store.verify()
    assert "manifest.json is damaged" in str(problem)
    assert parts_of(store), "nothing is lost before the user says so"
    store.remove([entry])
    assert sample.write(store) == 3


def test_every_flipped_byte_of_the_manifest_is_refused(store, store_process):
    sample = store_process.Sample(4, 4, bad=frozenset({1}))
    sample.write(store)
    manifest = manifest_of(store)
    whole = manifest.read_bytes()
    meaning = json.loads(whole)
    for position in range(len(whole)):
        flip_byte(manifest, position)
        try:
            unchanged = json.loads(manifest.read_bytes()) == meaning
        except ValueError:
            unchanged = False
        if not unchanged:
            with pytest.raises(StoreError):
                store.find(sample.key)
        manifest.write_bytes(whole)


def test_a_newer_schema_asks_for_an_upgrade(store, store_process):
    sample = store_process.Sample()
    sample.write(store)
    path = manifest_of(store)
    path.write_text(json.dumps({**json.loads(path.read_text()), "schema": 2}))
    with pytest.raises(StoreError, match=r"schema 2.*knows up to 1.*Upgrade"):
        store.open(sample.key)


# Writing


def test_a_finished_entry_is_not_written_again(store, store_process):
    sample = store_process.Sample()
    assert sample.write(store) == 3
    assert sample.write(store) == 0
    with store.writer(sample.key, total=10, part_size=7) as writer:
        assert writer.complete
        assert writer.next_index == 10
        with pytest.raises(StoreError, match="complete already"):
            writer.finish()


def test_a_resumed_entry_keeps_its_part_size(store, store_process):
    sample = store_process.Sample(10, 4)
    sample.write(store, parts=1)
    with store.writer(sample.key, total=10, part_size=3) as writer:
        assert (writer.next_index, writer.part_size) == (4, 4)


def test_another_total_under_the_same_key_is_refused(store, store_process):
    sample = store_process.Sample(10, 4)
    sample.write(store, parts=1)
    with (
        pytest.raises(StoreError, match="split of 10 images, not of 11"),
        store.writer(sample.key, total=11, part_size=4),
    ):
        pass


def test_a_corrupt_part_is_done_again_on_resume(store, store_process):
    sample = store_process.Sample(20, 4)
    sample.write(store)
    reference = store_process.snapshot(store, sample.key)
    store.remove(store.entries())
    sample.write(store, parts=4)
    flip_byte(parts_of(store)[2], -1)
    with store.writer(sample.key, total=20, part_size=4) as writer:
        assert writer.missing == [8, 16]
        assert "part-00002" in writer.discarded[0]
        assert len(parts_of(store)) == 3
    assert sample.write(store) == 2
    assert store_process.snapshot(store, sample.key) == reference


def test_a_writer_leaves_a_corrupt_complete_entry_for_the_user_to_judge(store, store_process):
    sample = store_process.Sample()
    sample.write(store)
    flip_byte(parts_of(store)[1], -1)
    before = store_process.snapshot(store, sample.key)
    assert sample.write(store) == 0
    assert store_process.snapshot(store, sample.key) == before
    with pytest.raises(CorruptPartError):
        store.open(sample.key)


def test_the_length_of_a_row_is_forgotten_with_the_only_part_that_had_one(store, store_process):
    sample = store_process.Sample(12, 4, dim=3, bad=frozenset({0, 1, 2, 3}))
    sample.write(store, parts=2)
    flip_byte(parts_of(store)[1], -1)
    sample.dim = 5
    sample.write(store)
    assert store.open(sample.key).features.shape == (8, 5)


def test_writer_refuses_what_is_not_the_next_part(store, store_process):
    sample = store_process.Sample(10, 4)
    features, labels, index, _ = sample.rows(0, 4)
    with store.writer(sample.key, total=10, part_size=4) as writer:
        for wrong in (
            (features[:3], labels[:3], index[:3]),
            (features, labels, index + 1),
            (features, labels, index[::-1].copy()),
            (features, labels, index, [Skipped(3, "3.png", "twice")]),
            (features.astype("float64"), labels, index),
            (features, labels.astype("int32"), index),
            (features, labels[:2], index),
            (features[0], labels, index),
        ):
            with pytest.raises(StoreError):
                writer.write(PartRows(writer.next_index, *wrong))
        with pytest.raises(StoreError, match="0 of 10 images"):
            writer.finish()
        writer.write(PartRows(writer.next_index, features, labels, index))
        for other in (features.astype("float16"), features[:, :2]):
            with pytest.raises(StoreError, match="do not match those of other parts"):
                writer.write(PartRows(writer.next_index, other, labels, index + 4))
        assert writer.next_index == 4
    assert len(parts_of(store)) == 1
    with pytest.raises(StoreError, match="inside its `with` block"):
        writer.write(PartRows(writer.next_index, features, labels, index))


def test_writer_refuses_impossible_sizes_and_provenance(store, store_process):
    key = store_process.make_key()
    for total, part_size in ((-1, 4), (4, 0)):
        with pytest.raises(StoreError, match="at least"):
            store.writer(key, total=total, part_size=part_size)
    with store.writer(key, total=0, part_size=4) as writer:
        with pytest.raises(StoreError, match="not made of JSON values"):
            writer.finish({"bad": object()})
        writer.finish({"seconds": 1.5})
    stored = store.open(key)
    assert (len(stored), stored.provenance) == (0, {"seconds": 1.5})


# Listing and removing


def test_entries_select_and_remove(store, store_process):
    keys = [
        store_process.make_key(model=model, dataset=dataset)
        for model in ("timm:resnet50", "timm:vit_base")
        for dataset in ("packaged:grocery", "folder:/data/[x]?a=b")
    ]
    for key in keys:
        store_process.Sample(key=key).write(store, parts=None if key.model.endswith("50") else 1)
    entries = list(store.entries())
    assert {entry.manifest.key for entry in entries} == set(keys)
    assert sorted(entry.state for entry in entries) == ["complete", "complete", "partial", "partial"]
    listed = entries[0].to_dict()
    assert listed["bytes"] == sum(path.stat().st_size for path in entries[0].path.iterdir())
    assert json.loads(json.dumps(listed)) == json.loads(json.dumps(listed))

    assert len(store.select("timm:*")) == 4
    assert len(store.select("timm:resnet50")) == 2
    assert len(store.select("folder:/data/[x]?a=b")) == 2
    assert [entry.digest for entry in store.select(keys[0].digest[:6])] == [keys[0].digest]
    with pytest.raises(UnknownNameError, match="Did you mean 'timm:resnet50'"):
        store.select("timm:resnet5")
    for nothing in ("", keys[0].digest[:3]):
        with pytest.raises(UnknownNameError):
            store.select(nothing)

    assert store.remove(store.select("timm:resnet50")) == sum(e.nbytes for e in entries if e.state == "complete")
    assert {entry.manifest.key.model for entry in store.entries()} == {"timm:vit_base"}
    store.remove(store.entries())
    assert [path.name for path in store.root.iterdir()] == [".locks"]


def test_an_entry_being_written_is_not_removed(store, store_process):
    sample = store_process.Sample()
    with store.writer(sample.key, total=10, part_size=4):
        (entry,) = store.entries()
        with pytest.raises(StoreError, match="another process is writing"):
            store.remove([entry])
    store.remove([entry])
    assert store.remove([entry]) == 0, "it is gone already"


def test_parts_without_a_manifest_are_a_problem(store, store_process):
    sample = store_process.Sample()
    sample.write(store)
    manifest_of(store).unlink()
    assert store.find(sample.key) is None
    (problem,) = store.verify()
    assert "no manifest.json" in str(problem)
    with store.writer(sample.key, total=10, part_size=4) as writer:
        assert "3 part(s)" in writer.discarded[0]
        assert writer.next_index == 0


def test_empty_rows():
    rows = FeatureRows([], 0, "float32")
    assert rows.to_array().shape == (0, 0)
    assert rows[[]].shape == (0, 0)
    assert list(rows) == []
