"""Batches and parts, with a model that only notes what it is given."""

from __future__ import annotations

import errno
import os
import threading
from dataclasses import FrozenInstanceError, fields, replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from unseen.core import guard
from unseen.core.errors import DataError, UnavailableError
from unseen.core.records import Preprocessing
from unseen.data import Split
from unseen.features.batches import Batch, KnownRows, batch_spans, collect_parts, run_batches
from unseen.features.manifest import Skipped

BACKBONE: Any = SimpleNamespace(preprocessing=Preprocessing(size=2, resize=2), transform=None)


class Model:
    """Gives the brightness of an image, and twice as much as a second layer."""

    precision, note = "fp32", ""

    def __init__(self, name: str = "torch") -> None:
        self.name = name
        self.threads: set[str] = set()

    def __call__(self, pixels: np.ndarray) -> tuple[np.ndarray, ...]:
        self.threads.add(threading.current_thread().name)
        light = pixels[:, 0, 0, :1].astype(np.float32)
        return light, 2 * light


def split(count: int, bad: dict[int, Exception] | None = None, opened: list[int] | None = None) -> Split:
    """Images whose brightness is their place; some of them raise instead."""

    def give(i: int) -> Image.Image:
        if opened is not None:
            opened.append(i)
        if bad and i in bad:
            raise bad[i]
        return Image.new("RGB", (2, 2), (i, i, i))

    return Split([f"{i}.png" for i in range(count)], np.zeros(count, np.int64), give, fingerprint="f")


def run(images: Split, spans: list[tuple[int, int]], model: Any = None, **options: Any) -> list[Batch]:
    settings = {"workers": 2, "truncated": "refuse"} | options
    return list(run_batches(images, BACKBONE, model or Model(), spans, **settings))


@given(st.integers(0, 4), st.integers(0, 60), st.integers(1, 13), st.integers(1, 9))
def test_spans_go_through_all_images_and_stay_within_parts(
    begun: int, total: int, part_size: int, batch_size: int
) -> None:
    start = begun * part_size
    spans = batch_spans(start, total, part_size=part_size, batch_size=batch_size)
    assert [i for first, end in spans for i in range(first, end)] == list(range(start, total))
    for first, end in spans:
        assert first // part_size == (end - 1) // part_size
        # None is shorter than it need be.
        assert end - first == batch_size or end == total or end % part_size == 0


@pytest.mark.parametrize("workers", [0, 1, 3])
@pytest.mark.parametrize("name", ["torch", "onnx", "openvino"])
def test_batches_come_in_order_with_what_the_model_gave(name: str, workers: int) -> None:
    model, spans = Model(name), batch_spans(0, 50, part_size=11, batch_size=3)
    batches = run(split(50), spans, model, workers=workers)
    assert [(batch.first, batch.count) for batch in batches] == [(first, end - first) for first, end in spans]
    for batch in batches:
        assert batch.kept == list(range(batch.first, batch.first + batch.count)) and not batch.skipped
        assert batch.outputs is not None
        np.testing.assert_array_equal(batch.outputs[0][:, 0], batch.kept)
        np.testing.assert_array_equal(batch.outputs[1], 2 * batch.outputs[0])
        assert batch.pixels.nbytes == 0, "pixels are let go of once the model has seen them"
    here = threading.current_thread().name
    assert (model.threads == {here}) == (name == "torch"), "a device is fed by the caller alone"
    assert (here in model.threads) == (name == "torch")


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="this system does not say which cores are ours")
def test_without_a_number_there_is_a_thread_for_each_core(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _process: {0, 3, 5})
    opened: list[int] = []
    batches = run_batches(split(40, opened=opened), BACKBONE, Model(), [(i, i + 1) for i in range(40)], **FEW)
    next(batches)
    assert len({thread.name for thread in threading.enumerate() if thread.name.startswith("unseen-extract")}) <= 3
    batches.close()
    assert 3 <= len(opened) <= 10


FEW: dict[str, Any] = {"workers": 0, "truncated": "refuse"}


def test_decoding_stays_a_few_batches_in_front() -> None:
    opened: list[int] = []
    spans = batch_spans(0, 200, part_size=200, batch_size=2)
    batches = run_batches(split(200, opened=opened), BACKBONE, Model(), spans, workers=2, truncated="refuse")
    for done in range(5):
        next(batches)
        assert len(opened) <= 2 * (done + 1 + 2 * 2 + 2)
    batches.close()
    assert len(opened) < 40, "batches that are not requested are not decoded"


def test_a_batch_takes_memory_for_its_own_images() -> None:
    """However many images lie in front of it."""
    first = 10**13
    images: Any = SimpleNamespace(names=range(2 * first), open=lambda i: Image.new("RGB", (2, 2), (i - first,) * 3))
    (found,) = run(images, [(first, first + 3)])
    assert found.outputs is not None
    assert (found.kept[0], found.outputs[0][:, 0].tolist()) == (first, [0, 1, 2])


def test_bad_images_leave_a_reason_of_one_line() -> None:
    bad = {2: DataError("it is cut\noff"), 3: FileNotFoundError(errno.ENOENT, "gone"), 6: OSError(), 7: DataError("x")}
    first, second = run(split(8, bad), [(1, 6), (6, 8)])
    assert (first.kept, second.kept) == ([1, 4, 5], [])
    assert first.skipped == [Skipped(2, "2.png", "it is cut"), Skipped(3, "3.png", "[Errno 2] gone")]
    assert second.skipped == [Skipped(6, "6.png", "OSError"), Skipped(7, "7.png", "x")]
    assert (first.count, second.count, second.outputs) == (5, 2, None)
    assert first.outputs is not None
    assert first.outputs[0][:, 0].tolist() == [1, 4, 5]


def test_a_failing_disk_is_no_bad_image(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "WAITS", (0.0,))
    with pytest.raises(UnavailableError):
        run(split(4, {2: OSError(errno.EIO, "input/output error")}), [(0, 4)])


def test_a_transform_of_the_user_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    class Own:
        shape = (3, 5, 4)

        def __call__(self, image: Image.Image) -> np.ndarray:
            return np.full(self.shape, np.asarray(image)[0, 0, 0] / 8, np.float32)

    seen: list[np.ndarray] = []

    class Keeps(Model):
        def __call__(self, pixels: np.ndarray) -> tuple[np.ndarray, ...]:
            seen.append(pixels)
            return (np.zeros((len(pixels), 1), np.float32),)

    other: Any = SimpleNamespace(preprocessing=BACKBONE.preprocessing, transform=Own())
    list(run_batches(split(5), other, Keeps(), [(1, 4)], workers=1, truncated="refuse"))
    assert (seen[0].shape, seen[0].dtype) == ((3, 3, 5, 4), np.float32)
    assert seen[0][:, 0, 0, 0].tolist() == [1 / 8, 2 / 8, 3 / 8]


def test_known_rows_are_put_where_their_images_are() -> None:
    opened: list[int] = []
    layers = [np.array([[70.0], [10.0], [50.0], [40.0]]), np.array([[7.0], [1.0], [5.0], [4.0]])]
    known = KnownRows({7: 0, 1: 1, 5: 2, 4: 3}, layers)
    images = split(9, {0: DataError("bad")}, opened)
    one, two, three = run(images, [(0, 4), (4, 6), (6, 9)], known=known)
    assert sorted(opened) == [0, 2, 3, 6, 8]
    assert [batch.kept for batch in (one, two, three)] == [[1, 2, 3], [4, 5], [6, 7, 8]]
    assert [image.index for image in one.skipped] == [0]
    found = [batch.outputs for batch in (one, two, three) if batch.outputs is not None]
    assert [output[0][:, 0].tolist() for output in found] == [[10, 2, 3], [40, 50], [6, 70, 8]]
    assert [output[1][:, 0].tolist() for output in found] == [[1, 4, 6], [4, 5], [12, 7, 16]]
    assert {array.dtype for output in found for array in output} == {np.dtype("float32")}


def batch(first: int, count: int, bad: tuple[int, ...] = ()) -> Batch:
    kept = [i for i in range(first, first + count) if i not in bad]
    rows = np.array(kept, np.float32)[:, None]
    skipped = [Skipped(i, f"{i}.png", "bad") for i in bad]
    return Batch(first, count, np.zeros((0, 2, 2, 3), np.uint8), kept, skipped, (rows, -rows) if kept else None)


def test_batches_make_up_parts() -> None:
    given_ = [batch(12, 2), batch(14, 2, (15,)), batch(20, 3, (20, 21, 22)), batch(23, 1, (23,)), batch(24, 1)]
    found = list(collect_parts(iter(given_), 25, 2, 4))
    assert [first for first, *_ in found] == [12, 20, 24]
    assert [rows.tolist() for _, rows, _, _ in found] == [[12, 13, 14], [], [24]]
    assert [[image.index for image in skipped] for *_, skipped in found] == [[15], [20, 21, 22, 23], []]
    assert {rows.dtype for _, rows, _, _ in found} == {np.dtype("int64")}
    for _, rows, outputs, _ in found:
        assert len(outputs) == 2
        assert [output[:, :1].ravel().tolist() for output in outputs] == [rows.tolist(), (-rows).tolist()]
    assert [output.shape for output in found[1][2]] == [(0, 0), (0, 0)]


def test_a_part_may_begin_with_bad_images() -> None:
    whole_batch = replace(batch(2, 2), outputs=(np.ones((2, 1), np.float32),))
    ((first, rows, outputs, _),) = collect_parts(iter([batch(0, 2, (0, 1)), whole_batch]), 4, 1, 4)
    assert (first, rows.tolist(), outputs[0].shape) == (0, [2, 3], (2, 1))


def test_what_threads_share_cannot_be_changed() -> None:
    known = KnownRows({1: 0}, [np.zeros((1, 1)), np.zeros((1, 1))])
    for record in (known, known.joined(batch(0, 2, (1,)))):
        with pytest.raises(FrozenInstanceError):
            setattr(record, fields(record)[0].name, None)
