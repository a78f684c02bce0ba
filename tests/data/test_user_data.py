"""One rule of drawing for every form of the same images, labels of every shape, and images without a label."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from unseen.core.errors import DataError
from unseen.core.extras import ensure_torchvision
from unseen.data import Dataset, load_dataset
from unseen.data.adapters import as_dataset, label_object


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """30 photographs of three classes, whose file names repeat from class to class."""
    root = tmp_path_factory.mktemp("forms") / "photos"
    random = np.random.default_rng(0)
    for name in ("cat", "dog", "emu"):
        (root / name).mkdir(parents=True)
        for i in range(10):
            pixels = random.integers(0, 256, (12, 10, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(root / name / f"{i:02d}.png")
    return root


def files_of(root: Path) -> list[Path]:
    return sorted(root.rglob("*.png"))


def held_out(dataset: Dataset) -> list[bytes]:
    """The pixels of the test images, in order."""
    split = dataset.split("test")
    return [np.asarray(split.open(i).convert("RGB")).tobytes() for i in range(len(split))]


def forms(root: Path, folder: Path) -> dict[str, Dataset]:
    import pandas

    ensure_torchvision()
    from torch.utils.data import Subset
    from torchvision.datasets import ImageFolder

    files = files_of(root)
    labels = [path.parent.name for path in files]
    shuffled = np.random.default_rng(1).permutation(len(files))
    frame = pandas.DataFrame({"image": [str(files[i]) for i in shuffled], "label": [labels[i] for i in shuffled]})
    (folder / "table.csv").write_text(
        "image,label\n" + "".join(f"photos/{p.relative_to(root)},{p.parent.name}\n" for p in files)
    )
    (folder / "photos").symlink_to(root, target_is_directory=True)
    with zipfile.ZipFile(folder / "photos.zip", "w") as archive:
        for path in files:
            archive.write(path, f"photos/{path.relative_to(root)}")
    theirs = ImageFolder(str(root))
    return {
        "ImageFolder": as_dataset(theirs),
        "Subset": as_dataset(Subset(theirs, shuffled.tolist())),
        "frame": as_dataset(frame),
        "paths": as_dataset((files, labels)),
        "relative texts": as_dataset(([str(files[i]) for i in shuffled], [labels[i] for i in shuffled])),
        "opened images": as_dataset(([Image.open(path) for path in files], labels)),
        "csv": load_dataset(f"csv:{folder}/table.csv"),
        "zip": load_dataset(f"zip:{folder}/photos.zip"),
    }


def test_every_form_of_a_folder_holds_out_the_same_images(photos: Path, tmp_path: Path) -> None:
    expected = load_dataset(f"folder:{photos}")
    for form, dataset in forms(photos, tmp_path).items():
        assert held_out(dataset) == held_out(expected), form
        assert dataset.split("test").labels.tolist() == expected.split("test").labels.tolist(), form
        assert list(dataset.class_names) == list(expected.class_names), form
        assert dataset.split("train").labels.tolist() == expected.split("train").labels.tolist(), form


@pytest.mark.parametrize("embedded", [False, True])
def test_hugging_face_holds_out_the_same_images(photos: Path, tmp_path: Path, embedded: bool) -> None:
    library: Any = pytest.importorskip("datasets")
    classes = ["cat", "dog", "emu"]
    features = library.Features({"image": library.Image(), "label": library.ClassLabel(names=classes)})
    files = files_of(photos)[::-1]
    images: list[Any] = [str(path) for path in files]
    if embedded:  # as the hub stores them: bytes and a bare file name
        images = [{"bytes": path.read_bytes(), "path": path.name} for path in files]
    rows = {"image": images, "label": [classes.index(path.parent.name) for path in files]}
    held = library.Dataset.from_dict(rows, features=features)
    expected = held_out(load_dataset(f"folder:{photos}"))
    assert held_out(as_dataset(held)) == expected
    assert held_out(as_dataset(held.shuffle(seed=3))) == expected
    held.save_to_disk(str(tmp_path / "saved"))
    assert held_out(load_dataset(f"hf:{tmp_path}/saved")) == expected


def test_arrays_are_drawn_by_their_pixels(photos: Path) -> None:
    """Arrays have no file: neither their order nor their type moves an image from train to test."""
    files = files_of(photos)
    arrays = [np.asarray(Image.open(path)) for path in files]
    labels = [path.parent.name for path in files]
    first = as_dataset((np.stack(arrays), labels))
    order = np.random.default_rng(2).permutation(len(files))
    again = as_dataset(([arrays[i] for i in order], [labels[i] for i in order]))
    assert held_out(first) == held_out(again)
    assert [len(split) for split in first.splits.values()] == [24, 6]


def test_smaller_draws_are_the_same_too(photos: Path, tmp_path: Path) -> None:
    from unseen.data.subset import hold_out, select

    by_path, by_object = load_dataset(f"folder:{photos}"), forms(photos, tmp_path)["ImageFolder"]
    for each in (2, 3):
        small = [select(data, per_class=each, seed=1).split("train") for data in (by_path, by_object)]
        assert list(small[0].sampling_keys) == list(small[1].sampling_keys)
    chosen = [hold_out(data.split("train"), None, seed=0)[1] for data in (by_path, by_object)]
    assert list(chosen[0].sampling_keys) == list(chosen[1].sampling_keys)


def pictures(count: int) -> list[Image.Image]:
    return [Image.new("RGB", (4, 4), (i, 3 * i % 256, 7)) for i in range(count)]


@pytest.mark.parametrize("shape", ["array", "tensor", "lists", "arrays"])
def test_labels_of_one_column_are_labels(shape: str) -> None:
    import torch

    flat = np.arange(20) % 2
    column: Any = {
        "array": flat[:, None],
        "tensor": torch.from_numpy(flat[:, None]),
        "lists": flat[:, None].tolist(),
        "arrays": list(flat[:, None]),
    }[shape]
    expected, found = (as_dataset((pictures(20), labels)) for labels in (flat, column))
    assert found.target == "class" and found.revision == expected.revision
    _, labels = label_object((pictures(20), column))
    assert labels is not None and labels.tolist() == flat.tolist()
    fractions = as_dataset((pictures(20), np.linspace(0.1, 1.3, 20)[:, None]))
    assert fractions.target == "number" and fractions.split("train").targets is not None


def test_images_without_a_label_are_left_out_and_recorded() -> None:
    rows = np.zeros((20, 3), np.int64)
    rows[:15, 0], rows[::2, 1], rows[::3, 2] = 1, 1, 1
    rows[[4, 11]] = 0
    dataset = as_dataset((pictures(20), rows))
    assert sum(len(split) for split in dataset.splits.values()) == 16
    assert all(split.targets is not None and split.targets.any(1).all() for split in dataset.splits.values())
    assert [(each.kind, each.name) for each in dataset.record.dropped] == [
        ("unlabelled", f"{i:08d}") for i in np.flatnonzero(~rows.any(1))
    ]
    assert dataset.record.findings() == ["4 images without a label"]
    assert len(dataset.class_names) == 3
    whole, labels = label_object((pictures(20), rows))
    assert len(whole.split("all")) == 20 and labels is not None and labels.shape == (20, 3)


def test_rows_of_a_table_without_a_label_are_recorded(tmp_path: Path) -> None:
    for i, picture in enumerate(pictures(12)):
        picture.save(tmp_path / f"{i:02d}.png")
    cells = ["cat", "dog"] * 5 + ["", " "]
    (tmp_path / "t.csv").write_text("image,label\n" + "".join(f"{i:02d}.png,{c}\n" for i, c in enumerate(cells)))
    dataset = load_dataset(f"csv:{tmp_path}/t.csv")
    assert list(dataset.class_names) == ["cat", "dog"]
    assert [each.name for each in dataset.record.dropped] == ["10.png", "11.png"]


def test_an_unlabelled_test_split_is_recorded_and_test_images_are_drawn() -> None:
    library: Any = pytest.importorskip("datasets")
    features = library.Features({"image": library.Image(), "label": library.ClassLabel(names=["cat", "dog"])})
    train = library.Dataset.from_dict({"image": pictures(20), "label": [0, 1] * 10}, features=features)
    test = library.Dataset.from_dict({"image": pictures(4), "label": [-1] * 4}, features=features)
    dataset = as_dataset(library.DatasetDict({"train": train, "test": test, "extra": train}))
    assert {name: len(split) for name, split in dataset.splits.items()} == {"train": 16, "test": 4}
    assert dataset.record.count("unlabelled") == 4
    assert dataset.record.notes == ("The splits 'extra' were not used: they are not train, val or test.",)


def test_a_class_without_training_images_is_named() -> None:
    with pytest.raises(DataError, match="the class 'emu' has images in test but none in train"):
        as_dataset((pictures(4), ["cat", "dog"] * 2), (pictures(2), ["cat", "emu"]))
