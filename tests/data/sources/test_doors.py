"""Data as others write it: torchvision's and Hugging Face's datasets, webdataset's shards, Kaggle's tables, zips."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from unseen.core.errors import DataError, UnseenError
from unseen.core.extras import ensure_torchvision
from unseen.data import load_dataset
from unseen.data.adapters import as_dataset, label_object
from unseen.data.load import resolve_dataset


def picture(number: int) -> Image.Image:
    return Image.fromarray(np.random.default_rng(number).integers(0, 256, (20, 30, 3), dtype=np.uint8))


def class_folders(path: Path, classes: int = 3, per_class: int = 6) -> Path:
    for label in range(classes):
        (path / f"class{label}").mkdir(parents=True)
        for number in range(per_class):
            picture(100 * label + number).save(path / f"class{label}" / f"{number:03d}.png")
    return path


@pytest.fixture
def kaggle(tmp_path: Path) -> Path:
    """A competition as it is unpacked: ids without an ending in a table, images beside it."""
    (tmp_path / "train_images").mkdir()
    rows = ["image_id,label"]
    for i in range(20):
        picture(i).save(tmp_path / "train_images" / f"id_{i:03d}.jpg")
        rows.append(f"id_{i:03d},{'cat' if i % 2 else 'dog'}")
    (tmp_path / "train.csv").write_text("\n".join(rows) + "\n")
    return tmp_path / "train.csv"


def test_a_kaggle_table(kaggle: Path) -> None:
    loaded = load_dataset(resolve_dataset(str(kaggle), Path()))
    assert list(loaded.class_names) == ["cat", "dog"]
    assert {name: len(split) for name, split in loaded.splits.items()} == {"train": 16, "test": 4}
    assert "column 'image_id'" in loaded.card.notes and ".jpg" in loaded.card.notes
    split = loaded.split("train")
    first = split.names[0]
    assert loaded.class_names[split.labels[0]] == ("cat" if int(first[3:6]) % 2 else "dog")
    with Image.open(kaggle.parent / "train_images" / first) as expected:
        np.testing.assert_array_equal(np.asarray(split.open(0).convert("RGB")), np.asarray(expected.convert("RGB")))
    before = loaded.revision
    picture(99).save(kaggle.parent / "train_images" / first)
    assert load_dataset(f"csv:{kaggle}").revision != before


def test_columns_of_tables(kaggle: Path) -> None:
    folder = kaggle.parent
    ids = [f"id_{i:03d}" for i in range(20)]
    several = [f"{name},{'a b' if i % 3 else 'b'}" for i, name in enumerate(ids)]
    (folder / "multi.csv").write_text("\n".join(["id,tags", *several]))
    loaded = load_dataset(f"csv:{folder}/multi.csv?label=tags&pick=a")
    assert list(loaded.class_names) == ["a", "not a"]
    piped = [f"{name};{'x|y' if i % 2 else 'y'}" for i, name in enumerate(ids)]
    (folder / "piped.csv").write_text("\n".join(["image;label", *piped]))
    both = load_dataset(f"csv:{folder}/piped.csv")
    assert both.target == "several" and list(both.class_names) == ["x", "y"]
    assert sum(split.targets.sum() for split in both.splits.values()) == 30
    (folder / "age.csv").write_text("\n".join(["image,age", *(f"{n},{i / 7:.3f}" for i, n in enumerate(ids))]))
    ages = load_dataset(f"csv:{folder}/age.csv?label=age")
    assert ages.target == "number" and sorted(np.concatenate([s.targets for s in ages.splits.values()]))[1] == 0.143
    ranges = load_dataset(f"csv:{folder}/age.csv?label=age&bins=4")
    assert len(ranges.class_names) == 4 and ranges.class_names[0].startswith("1: 0 to 0.67")
    counts = np.bincount(np.concatenate([split.labels for split in ranges.splits.values()]))
    assert counts.tolist() == [5, 5, 5, 5]
    hot = [f"{name},{i % 3 == 0:d},{i % 3 == 1:d},{i % 3 == 2:d}" for i, name in enumerate(ids)]
    (folder / "hot.csv").write_text("\n".join(["image_id,healthy,rust,scab", *hot]))
    assert list(load_dataset(f"csv:{folder}/hot.csv").class_names) == ["healthy", "rust", "scab"]
    bare = [f"train_images/{name}.jpg,{i % 2}" for i, name in enumerate(ids)]
    (folder / "bare.csv").write_text("\n".join(bare))
    assert sum(len(split) for split in load_dataset(f"csv:{folder}/bare.csv").splits.values()) == 20
    own = [f"{name},{i % 2},{'test' if i > 14 else 'train'}" for i, name in enumerate(ids)]
    (folder / "own.csv").write_text("\n".join(["image,label,part", *own]))
    assert len(load_dataset(f"csv:{folder}/own.csv?split=part").split("test")) == 5


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("a,b\n1,2\n", "which column holds the images"),
        ("image,label\n", "no rows"),
        ("image,label\nx.jpg,1,2\n", "3 cells"),
        ("image,image\nx.jpg,1\n", "a column twice"),
        ("image,label\n../../etc/passwd.jpg,1\n", "outside the folder"),
        ("image,label\n/etc/passwd.jpg,1\n", "outside the folder"),
        ("image,label\nnothing.jpg,1\n", "Give root=FOLDER"),
    ],
)
def test_bad_tables_are_told(tmp_path: Path, text: str, what: str) -> None:
    (tmp_path / "bad.csv").write_text(text)
    with pytest.raises(DataError, match=what):
        load_dataset(f"csv:{tmp_path}/bad.csv")


def test_parquet_with_images_inside(tmp_path: Path, kaggle: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    files = sorted((kaggle.parent / "train_images").iterdir())
    rows = [{"image": {"bytes": f.read_bytes(), "path": f.name}, "label": i % 2} for i, f in enumerate(files)]
    parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "shard.parquet")
    loaded = load_dataset(resolve_dataset(str(tmp_path / "shard.parquet"), Path()))
    assert sum(len(split) for split in loaded.splits.values()) == 20
    assert loaded.split("train").open(0).size == (30, 20)
    (tmp_path / "bad.parquet").write_bytes(b"PAR1 nonsense")
    with pytest.raises(DataError, match="Parquet"):
        load_dataset(f"parquet:{tmp_path}/bad.parquet")


def test_a_zip_is_its_folder(tmp_path: Path) -> None:
    folder = class_folders(tmp_path / "photos")
    with zipfile.ZipFile(tmp_path / "photos.zip", "w") as archive:
        for path in sorted(folder.rglob("*.png")):
            archive.write(path, f"photos/{path.relative_to(folder)}")
        archive.writestr("__MACOSX/photos/class0/._000.png", b"litter")
    zipped = load_dataset(resolve_dataset(str(tmp_path / "photos.zip"), Path()))
    unzipped = load_dataset(f"folder:{folder}")
    assert list(zipped.class_names) == list(unzipped.class_names)
    assert len(zipped.split("train")) == len(unzipped.split("train"))
    inside = {n: zipped.split(s).open(i) for s in zipped.splits for i, n in enumerate(zipped.split(s).names)}
    for path in sorted(folder.rglob("*.png")):
        with Image.open(path) as expected:
            found = inside[f"photos/{path.relative_to(folder)}"]
            np.testing.assert_array_equal(np.asarray(found), np.asarray(expected))
    with zipfile.ZipFile(tmp_path / "split.zip", "w") as archive:
        for split in ("train", "test"):
            for path in sorted(folder.rglob("*.png")):
                archive.write(path, f"{split}/{path.relative_to(folder)}")
    assert {n: len(s) for n, s in load_dataset(f"zip:{tmp_path}/split.zip").splits.items()} == {"train": 18, "test": 18}
    damaged = bytearray((tmp_path / "photos.zip").read_bytes())
    damaged[200:400] = bytes(200)
    (tmp_path / "damaged.zip").write_bytes(damaged)
    with pytest.raises((DataError, OSError)):
        for split in load_dataset(f"zip:{tmp_path}/damaged.zip").splits.values():
            for i in range(len(split)):
                split.open(i).load()
    (tmp_path / "no.zip").write_bytes(b"PK nonsense")
    with pytest.raises(DataError, match="as a zip file"):
        load_dataset(f"zip:{tmp_path}/no.zip")


def test_shards_that_webdataset_wrote(tmp_path: Path, home: Path) -> None:
    webdataset = pytest.importorskip("webdataset")
    pattern = str(tmp_path / "pets-%03d.tar")
    with webdataset.ShardWriter(pattern, maxcount=8, verbose=0) as sink:
        for i in range(20):
            sink.write({"__key__": f"sample{i:04d}", "png": picture(i), "cls": i % 4})
    name = f"wds:{tmp_path}/pets-{{000..002}}.tar"
    loaded = load_dataset(name)
    assert list(loaded.class_names) == ["0", "1", "2", "3"]
    every = {n: (split.labels[i], split.open(i)) for split in loaded.splits.values() for i, n in enumerate(split.names)}
    assert len(every) == 20
    for i in range(20):
        label, image = every[f"pets-{i // 8:03d}.tar/sample{i:04d}"]
        assert label == i % 4
        np.testing.assert_array_equal(np.asarray(image), np.asarray(picture(i)))
    assert any((home / "archives").iterdir()), "indexed once"
    with webdataset.TarWriter(str(tmp_path / "eval.tar")) as sink:
        for i in range(6):
            sink.write({"__key__": f"e{i}", "jpg": picture(i), "json": {"label": f"kind {i % 2}"}})
    assert list(load_dataset(f"wds:{tmp_path}/eval.tar").class_names) == ["kind 0", "kind 1"]
    with webdataset.TarWriter(str(tmp_path / "held.tar")) as sink:
        for i in range(6):
            sink.write({"__key__": f"h{i}", "jpg": picture(i), "cls": i % 2})
    tested = load_dataset(f"{name}?test=held.tar")
    assert len(tested.split("train")) == 20 and len(tested.split("test")) == 6
    with pytest.raises(DataError, match=r"pets-003\.tar' is not there"):
        load_dataset(f"wds:{tmp_path}/pets-{{000..003}}.tar")


def test_datasets_of_torchvision(tmp_path: Path) -> None:
    ensure_torchvision()
    from torchvision import datasets, transforms

    fake = datasets.FakeData(size=24, image_size=(3, 16, 16), num_classes=3, transform=transforms.ToTensor())
    whole, labels = label_object(fake)
    assert labels is not None
    for i in (0, 5, 23):
        expected = fake[i]
        # The dataset's own transform is left aside, so images are exact.
        np.testing.assert_array_equal(
            np.asarray(whole.split("all").open(i)), np.uint8(np.rint(expected[0].permute(1, 2, 0).numpy() * 255))
        )
        assert labels[i] == expected[1]
    folder = class_folders(tmp_path / "photos")
    theirs = datasets.ImageFolder(str(folder), transform=transforms.RandomHorizontalFlip())
    whole, labels = label_object(theirs)
    assert list(whole.class_names) == theirs.classes == ["class0", "class1", "class2"]
    np.testing.assert_array_equal(labels, theirs.targets)
    assert whole.split("all").names[0] == theirs.samples[0][0]
    from torch.utils.data import Subset

    part, own = label_object(Subset(theirs, [17, 3, 4]))
    assert part.split("all").names[0] == theirs.samples[17][0] and own is not None and own.tolist() == [2, 0, 0]


def test_a_dataset_whose_images_are_normalised_already_is_told(tmp_path: Path) -> None:
    import torch
    from torch.utils.data import TensorDataset

    with pytest.raises(UnseenError, match=r"floats in \[0, 1\]"):
        as_dataset(TensorDataset(torch.randn(8, 3, 16, 16), torch.arange(8) % 2))
    ready = as_dataset(TensorDataset(torch.rand(8, 3, 16, 16), torch.arange(8) % 2))
    assert list(ready.class_names) == ["0", "1"]


def test_datasets_of_hugging_face(tmp_path: Path) -> None:
    library: Any = pytest.importorskip("datasets")
    features = library.Features({"image": library.Image(), "label": library.ClassLabel(names=["cat", "dog"])})
    rows = {"image": [picture(i) for i in range(20)], "label": [i % 2 for i in range(20)]}
    held = library.Dataset.from_dict(rows, features=features)
    whole, labels = label_object(held)
    assert list(whole.class_names) == ["cat", "dog"]
    assert labels is not None and labels.tolist() == held["label"]
    for i in (0, 7, 19):
        np.testing.assert_array_equal(np.asarray(whole.split("all").open(i)), np.asarray(held[i]["image"]))
    held.save_to_disk(str(tmp_path / "saved"))
    saved = load_dataset(f"hf:{tmp_path}/saved?test=0.3")
    assert {n: len(s) for n, s in saved.splits.items()} == {"train": 14, "test": 6}
    both = library.DatasetDict({"train": held.select(range(12)), "test": held.select(range(12, 20))})
    both.save_to_disk(str(tmp_path / "both"))
    own = load_dataset(f"hf:{tmp_path}/both")
    assert {n: len(s) for n, s in own.splits.items()} == {"train": 12, "test": 8}
    np.testing.assert_array_equal(np.asarray(own.split("test").open(0)), np.asarray(held[12]["image"]))
    assert len(as_dataset(both).split("test")) == 8
    with pytest.raises(DataError, match="no split 'dev'"):
        load_dataset(f"hf:{tmp_path}/both?split=dev")


def test_offline_is_told_at_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pytest.importorskip("datasets")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    from unseen.core import extras

    extras.reachable.cache_clear()
    try:
        with pytest.raises(DataError, match=r"cannot be reached\. In the cache"):
            load_dataset("hf:missing/nothing")
    finally:
        extras.reachable.cache_clear()
