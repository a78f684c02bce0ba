"""Writers of one entry: which one waits, which parts are stored, and which errors they raise."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest
from filelock import FileLock

from unseen.core.errors import StoreError
from unseen.core.records import FeatureKey, Preprocessing
from unseen.features import FeatureStore, Skipped
from unseen.features.manifest import entry_folder
from unseen.features.part import PartRows
from unseen.features.store import take_lock

pytestmark = pytest.mark.usefixtures("without_flushing")

KEY = FeatureKey("m", "w", "pooled", Preprocessing(32, 32), "fp32", "torch", "d", "train", "f")


def rows(first: int, count: int = 2, dim: int = 3, dtype: str = "float32") -> tuple[np.ndarray, ...]:
    """Features, labels and index of `count` images; each feature is the place of its image."""
    index = np.arange(first, first + count)
    return np.repeat(index[:, None], dim, axis=1).astype(dtype), index % 5, index


def descriptions(store: FeatureStore) -> list[str]:
    return sorted(path.stem for path in entry_folder(store.root, KEY).glob("part-*.json"))


# Waiting


def test_a_writer_that_waits_goes_on_when_the_other_ends(store: FeatureStore) -> None:
    waited, inside = threading.Event(), threading.Event()
    order: list[str] = []

    def second() -> None:
        with store.writer(KEY, total=2, part_size=2, on_wait=waited.set) as writer:
            order.append(f"second from {writer.next_index}")
        inside.set()

    thread = threading.Thread(target=second, daemon=True)
    with store.writer(KEY, total=2, part_size=2) as writer:
        thread.start()
        assert waited.wait(20), "on_wait was not called"
        assert not inside.wait(1.3), "however long that takes"
        writer.write(PartRows(writer.next_index, *rows(0)))
        order.append("first")
    assert inside.wait(20)
    assert order == ["first", "second from 2"]


def test_a_writer_does_not_wait_without_another_writer(store: FeatureStore) -> None:
    with store.writer(KEY, total=2, part_size=2, on_wait=lambda: pytest.fail("there is no other writer")):
        pass


def test_a_writer_that_gives_up_reports_how_long_it_waited(store: FeatureStore) -> None:
    with store.writer(KEY, total=2, part_size=2):
        for timeout, said in ((0.1, "has not finished within 0.1 s"), (0, f"{KEY.digest}. Wait")):
            with (
                pytest.raises(StoreError, match=said),
                store.writer(KEY, total=2, part_size=2, timeout=timeout),
            ):
                pass


def test_a_thread_does_not_wait_for_itself(store: FeatureStore) -> None:
    said: list[str] = []

    def twice() -> None:
        with store.writer(KEY, total=2, part_size=2):
            try:
                with store.writer(KEY, total=2, part_size=2):
                    pass
            except StoreError as error:
                said.append(str(error))

    thread = threading.Thread(target=twice, daemon=True)
    thread.start()
    thread.join(20)
    assert len(said) == 1 and "already" in said[0]


def test_a_writer_may_end_in_another_thread(store: FeatureStore) -> None:
    writer = store.writer(KEY, total=2, part_size=2)
    thread = threading.Thread(target=writer.__enter__)
    thread.start()
    thread.join(20)
    writer.write(PartRows(writer.next_index, *rows(0)))
    writer.__exit__(None, None, None)
    with store.writer(KEY, total=2, part_size=2, timeout=0) as other:
        assert other.next_index == 2


def test_a_lock_that_one_thread_took_another_releases(tmp_path: Path) -> None:
    taken: list[FileLock] = []
    thread = threading.Thread(target=lambda: taken.append(take_lock(tmp_path / "x.lock")))
    thread.start()
    thread.join(20)
    with pytest.raises(StoreError, match="another process is writing"):
        take_lock(tmp_path / "x.lock", timeout=0)
    taken[0].lock.release()
    take_lock(tmp_path / "x.lock", timeout=0).lock.release()


def test_a_writer_that_cannot_begin_releases_the_lock(store: FeatureStore) -> None:
    with store.writer(KEY, total=2, part_size=2):
        pass
    errors = []
    for _ in range(2):
        try:
            store.writer(KEY, total=3, part_size=2, timeout=0).__enter__()
        except StoreError as error:  # kept, as a caller might: the lock must not hang on it
            errors.append(error)
    assert ["split of 2 images" in str(error) for error in errors] == [True, True]
    with store.writer(KEY, total=2, part_size=2, timeout=0):
        pass


# Parts in any order


def test_others_add_the_remaining_parts_of_an_entry(store: FeatureStore) -> None:
    with store.writer(KEY, total=16, part_size=2) as writer:
        for number in range(5):
            writer.write(PartRows(writer.next_index, *rows(2 * number)))
    for number in (7, 5, 6):
        assert not store.holds(KEY)
        part = {"pooled": PartRows(2 * number, *rows(2 * number))}
        store.add_layers({"pooled": KEY}, part, total=16, part_size=2, provenance={})
    assert (descriptions(store), store.holds(KEY)) == ([], True)


@pytest.mark.parametrize("ahead", [1, 2])
def test_a_part_that_is_written_early_is_described(store: FeatureStore, ahead: int) -> None:
    with store.writer(KEY, total=8, part_size=2) as writer:
        writer.write(PartRows(2 * ahead, *rows(2 * ahead)))
        assert (writer.next_index, descriptions(store)) == (0, [f"part-0000{ahead}"])
        assert writer.missing == [first for first in (0, 2, 4, 6) if first != 2 * ahead]
        for first in writer.missing:
            writer.write(PartRows(first, *rows(first)))
        assert (writer.next_index, writer.missing) == (8, [])
        writer.finish()
    assert descriptions(store) == []
    np.testing.assert_array_equal(store.open(KEY).features[:][:, 0], np.arange(8))


def test_rows_of_another_kind_do_not_match_a_later_part(store: FeatureStore) -> None:
    with store.writer(KEY, total=4, part_size=2) as writer:
        writer.write(PartRows(2, *rows(2, dim=4)))
        with pytest.raises(StoreError, match="do not match those of other parts"):
            writer.write(PartRows(writer.next_index, *rows(0)))


@pytest.mark.parametrize(("dim", "dtype"), [(2, "float32"), (4, "float32"), (3, "float16")])
def test_rows_are_like_those_before(store: FeatureStore, dim: int, dtype: str) -> None:
    with store.writer(KEY, total=4, part_size=2) as writer:
        writer.write(PartRows(writer.next_index, *rows(0)))
        with pytest.raises(StoreError, match="do not match those of other parts"):
            writer.write(PartRows(writer.next_index, *rows(2, dim=dim, dtype=dtype)))


def test_no_part_begins_at_the_end(store: FeatureStore) -> None:
    none = np.zeros(0, np.int64)
    with store.writer(KEY, total=4, part_size=2) as writer:
        for first in (4, 6):
            with pytest.raises(StoreError, match="no missing part begins"):
                writer.write(PartRows(first, np.zeros((0, 3), np.float32), none, none))


@pytest.mark.parametrize("order", [[0, 2, 1, 3], [1, 0, 2, 3], [0, 1, 3, 2]])
def test_rows_are_in_the_order_of_their_images(store: FeatureStore, order: list[int]) -> None:
    features, labels, index = rows(0, 4)
    with store.writer(KEY, total=4, part_size=4) as writer, pytest.raises(StoreError, match="ascending"):
        writer.write(PartRows(writer.next_index, features, labels, index[order]))


# Messages


def test_skipped_images_are_put_in_order(store: FeatureStore) -> None:
    features, labels, index = rows(0, 4)
    kept = [1, 3]
    with store.writer(KEY, total=4, part_size=4) as writer:
        skipped = [Skipped(2, "2.png", "b"), Skipped(0, "0.png", "a")]
        writer.write(PartRows(writer.next_index, features[kept], labels[kept], index[kept], skipped))
        writer.finish()
    assert [image.index for image in store.open(KEY).skipped] == [0, 2]


def test_it_reports_which_images_it_received(store: FeatureStore) -> None:
    none = np.zeros(0, np.int64)
    with store.writer(KEY, total=8, part_size=4) as writer:
        with pytest.raises(StoreError, match=r"0 to 3 once.*4 rows and 1 skipped images \(3 to 9\)"):
            writer.write(PartRows(writer.next_index, *rows(3, 4), [Skipped(9, "9.png", "bad")]))
        with pytest.raises(StoreError, match=r"0 rows and 0 skipped images \(none\)"):
            writer.write(PartRows(writer.next_index, np.zeros((0, 3), np.float32), none, none))


def test_it_reports_the_parts_that_are_extracted_again(store: FeatureStore) -> None:
    with store.writer(KEY, total=10, part_size=2) as writer:
        for number in range(5):
            writer.write(PartRows(writer.next_index, *rows(2 * number)))
    (entry_folder(store.root, KEY) / "part-00002.safetensors").unlink()
    with store.writer(KEY, total=10, part_size=2) as writer:
        assert writer.missing == [4]
        assert writer.discarded[0].startswith("part-00002.safetensors is extracted again: ")


def test_provenance_that_is_no_json_is_refused(store: FeatureStore) -> None:
    circle: list[object] = []
    circle.append(circle)
    with store.writer(KEY, total=0, part_size=2) as writer:
        for bad in (circle, {1, 2}):
            with pytest.raises(StoreError, match="not made of JSON values"):
                writer.finish({"bad": bad})
        assert not writer.complete
