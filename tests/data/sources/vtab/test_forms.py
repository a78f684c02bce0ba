"""Two forms of the same data, neither written by us: TFDS' records, and the original files they were made from.

Both hold TFDS' fake data. For every dataset that is there in both forms: the same examples, the same labels, the same
pixels, in the same order. The others, with the reason, are in `ONE_FORM`.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from unseen.core.errors import DataError
from unseen.data.decode import decode_rgb
from unseen.data.sources.vtab import vtab_tasks
from unseen.data.sources.vtab.examples import Examples, is_record_order, record_order
from unseen.data.sources.vtab.original import find_original, read_original
from unseen.data.sources.vtab.tasks import VtabTask, class_names
from unseen.data.sources.vtab.tfds import find_tfds, read_tfds

FIXTURES = Path(__file__).parent / "fixtures"
#: Data that are there in one form only, and why.
ONE_FORM = {
    "caltech101": "TFDS' fake has two images per class, and its builder draws thirty: no record is written",
    "retinopathy": "photographs need the processing of TFDS",
}
#: One task for each of the other datasets.
TASKS = {task.data: task for task in vtab_tasks().values() if task.data not in ONE_FORM}
OFFICIAL = [(data, split) for data, task in TASKS.items() for split in list(task.official_sizes)]


@pytest.fixture(scope="module")
def both(records: Path, originals: Path) -> dict[str, tuple[dict[str, Examples], dict[str, Examples]]]:
    """Official splits by dataset: out of records, out of original files."""
    found = {}
    for data, task in TASKS.items():
        folder = find_tfds(FIXTURES / "tfrecord" if data == "sun397" else records, task.tfds)
        assert folder is not None, data
        found[data] = (read_tfds(folder, data, list(task.official_sizes)), read_originals(task, originals))
    return found


def read_originals(task: VtabTask, root: Path) -> dict[str, Examples]:
    place = find_original(task.data, root)
    assert place is not None, task.name
    return read_original(task.data, place)


Both = dict[str, tuple[dict[str, Examples], dict[str, Examples]]]


def test_every_dataset_is_compared_or_the_reason_is_given(both: Both) -> None:
    assert set(both) | set(ONE_FORM) == {task.data for task in vtab_tasks().values()}
    assert len(both) == 14


def test_no_more_is_claimed_than_is_shown_here(both: Both) -> None:
    claimed = {task.data for task in vtab_tasks().values() if task.selection.startswith("the authors'")}
    assert claimed == set(both)
    assert "ours" in vtab_tasks()["caltech101"].card.notes


@pytest.mark.parametrize(("data", "split"), OFFICIAL)
def test_examples_and_their_order_are_the_same(both: Both, data: str, split: str) -> None:
    recorded, original = both[data][0][split], both[data][1][split]
    assert len(recorded) > 0
    assert list(recorded.keys) == list(original.keys)
    assert is_record_order(original.keys, split)
    assert set(recorded.fields) == set(original.fields)
    for name in recorded.fields:
        assert np.array_equal(recorded.fields[name], original.fields[name]), name
    assert recorded.own == original.own == ""


@pytest.mark.parametrize(("data", "split"), OFFICIAL)
def test_pixels_are_the_same(both: Both, data: str, split: str) -> None:
    recorded, original = both[data][0][split], both[data][1][split]
    for i in range(len(recorded)):
        one, other = (np.asarray(decode_rgb(part.open(i)), int) for part in (recorded, original))
        assert one.shape == other.shape
        # SUN397's builder encodes its images again; all others keep files and pixels as they are.
        assert np.abs(one - other).max() <= (12 if data == "sun397" else 0)


@pytest.mark.parametrize("name", [task.name for task in vtab_tasks().values() if task.data not in ONE_FORM])
def test_the_labels_of_every_task_are_the_same(both: Both, name: str) -> None:
    task = vtab_tasks()[name]
    for split in list(task.official_sizes):
        recorded, original = (form[split].fields[task.rule.field] for form in both[task.data])
        try:
            labels = task.rule(recorded, task.classes).tolist()
        except DataError as error:
            # Two fakes have values that no real example has: a depth of 0 in CLEVR, a class 0 in Pets.
            assert task.data in ("clevr", "pets")
            with pytest.raises(DataError, match="none of the") as other:
                task.rule(original, task.classes)
            assert str(other.value) == str(error)
        else:
            assert labels == task.rule(original, task.classes).tolist()


def test_the_order_is_not_that_of_the_files(both: Both) -> None:
    """So that the tests above could fail: records are seldom in the order of their keys."""
    splits = [part for _, original in both.values() for part in original.values() if len(part) > 2]
    sorted_ones = [part for part in splits if list(part.keys) == sorted(part.keys)]
    assert len(splits) >= 20
    assert len(sorted_ones) <= len(splits) // 3


def test_sun397s_order_under_its_true_names() -> None:
    rows = [line.split() for line in (FIXTURES / "sun397_order.txt").read_text().splitlines()]
    assert len(rows) == 73
    for split in ("train", "validation", "test"):
        recorded = [key for part, key in rows if part == split]
        names = sorted(recorded)
        assert [names[i] for i in record_order(names, split)] == recorded
        assert recorded != names


def test_classes_are_those_of_tfds(records: Path) -> None:
    for data in ("dtd", "eurosat", "resisc45"):
        folder = find_tfds(records, TASKS[data].tfds)
        assert folder is not None
        assert list(class_names(data)) == (folder / "label.labels.txt").read_text().split()
    assert len(class_names("caltech101")) == 102
    assert len(class_names("sun397")) == 397


def test_caltechs_fake_is_read(originals: Path) -> None:
    """Two images of each of three classes: all of them are for training."""
    found = read_originals(vtab_tasks()["caltech101"], originals)
    assert sorted(found["train"].keys) == [
        f"{name}/image_000{k}.jpg" for name in ("accordion", "airplanes", "anchor") for k in (1, 2)
    ]
    assert found["train"].fields["label"].tolist() == [
        class_names("caltech101").index(key.partition("/")[0]) for key in found["train"].keys
    ]
    assert is_record_order(found["train"].keys, "train")
    assert "drawn here" in found["train"].own


def test_a_split_that_no_task_names_is_not_read(records: Path) -> None:
    """CLEVR's test split has no objects, Retinopathy's sample no labels."""
    folder = find_tfds(records, "clevr")
    assert folder is not None
    assert list(read_tfds(folder, "clevr", ["train", "validation"])) == ["train", "validation"]
    without = read_tfds(folder, "clevr", ["test"])["test"]
    assert without.fields["objects"].tolist() == [0] * 5
    assert np.isinf(without.fields["closest"]).all()
