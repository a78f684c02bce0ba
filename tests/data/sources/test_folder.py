"""Folders: layouts, litter, links, lists, tables, and everything that can be wrong with them."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from unseen.core.errors import DataError, UsageError
from unseen.data import decode_rgb, load_dataset

MakeFolder = Callable[[Mapping[str, int]], Path]


def test_a_folder_per_class(make_folder: MakeFolder) -> None:
    root = make_folder({"cat": 10, "dog": 5, "a b": 4})
    dataset = load_dataset(f"folder:{root}")
    assert list(dataset.class_names) == ["a b", "cat", "dog"]
    assert list(dataset.splits) == ["train", "test"]
    assert (len(dataset.splits["train"]), len(dataset.splits["test"])) == (15, 4)
    assert dataset.wnids == ()
    every = [*dataset.splits["train"].names, *dataset.splits["test"].names]
    assert sorted(every) == sorted(p.relative_to(root).as_posix() for p in root.rglob("*.png"))
    for split in dataset.splits.values():
        assert list(split.names) == sorted(split.names)
        for i, name in enumerate(split.names):
            assert name.split("/")[0] == dataset.class_names[split.labels[i]]
            with Image.open(root / name) as image:
                assert decode_rgb(split.open(i)).tobytes() == image.tobytes()


def test_shares_and_seed(make_folder: MakeFolder) -> None:
    root = make_folder({"cat": 20, "dog": 10})
    dataset = load_dataset(f"folder:{root}?test=0.3&val=0.1&seed=3")
    counts = {name: np.bincount(split.labels).tolist() for name, split in dataset.splits.items()}
    assert counts == {"train": [12, 6], "val": [2, 1], "test": [6, 3]}
    assert dataset.id == f"folder:{root}?seed=3&test=0.3&val=0.1"
    again = load_dataset(f"folder:{root}", seed=3, test=0.3, val=0.1)
    other = load_dataset(f"folder:{root}", seed=4, test=0.3, val=0.1)
    assert list(again.splits["test"].names) == list(dataset.splits["test"].names)
    assert list(other.splits["test"].names) != list(dataset.splits["test"].names)
    assert list(load_dataset(f"folder:{root}?test=0").splits) == ["train"]


def test_a_smaller_version(make_folder: MakeFolder) -> None:
    root = make_folder({"cat": 20, "dog": 10})
    dataset = load_dataset(f"folder:{root}?per_class=2&seed=1")
    assert {name: np.bincount(s.labels).tolist() for name, s in dataset.splits.items()} == {
        "train": [2, 2],
        "test": [2, 2],
    }
    assert dataset.features_id == f"folder:{root}?per_class=2&seed=1"
    assert len(load_dataset(f"folder:{root}?limit=6").splits["train"]) == 6


@pytest.mark.parametrize("held_out", ["val", "valid", "validation", "Val", "VALIDATION", "dev", "Eval"])
def test_train_val_and_test_folders(make_folder: MakeFolder, held_out: str) -> None:
    root = make_folder({"train/cat": 3, "train/dog": 2, f"{held_out}/dog": 1, "test/cat": 2, "test/dog": 1, "notes": 1})
    dataset = load_dataset(f"folder:{root}")
    assert {name: split.labels.tolist() for name, split in dataset.splits.items()} == {
        "train": [0, 0, 0, 1, 1],
        "val": [1],
        "test": [0, 0, 1],
    }
    assert dataset.splits["val"].names == [f"{held_out}/dog/000.png"]
    with pytest.raises(UsageError, match=r"brings its own split .* leave out test="):
        load_dataset(f"folder:{root}?test=0.2")


def test_without_a_test_folder_the_held_out_one_is_tested_on(make_folder: MakeFolder) -> None:
    dataset = load_dataset(f"folder:{make_folder({'train/cat': 3, 'train/dog': 2, 'val/cat': 1})}")
    assert {name: len(split) for name, split in dataset.splits.items()} == {"train": 5, "test": 1}


def test_with_a_train_folder_alone_it_is_split(make_folder: MakeFolder) -> None:
    dataset = load_dataset(f"folder:{make_folder({'train/cat': 5, 'train/dog': 5})}")
    assert {name: len(split) for name, split in dataset.splits.items()} == {"train": 8, "test": 2}


def test_a_class_may_be_called_train(make_folder: MakeFolder) -> None:
    dataset = load_dataset(f"folder:{make_folder({'train': 5, 'plane': 5})}")
    assert list(dataset.class_names) == ["plane", "train"]


@pytest.mark.parametrize(
    ("train", "test"), [("Train", "Test"), ("training", "testing"), ("TRAIN", "eval"), ("train", "dev")]
)
def test_split_folders_of_any_name_are_no_classes(make_folder: MakeFolder, train: str, test: str) -> None:
    root = make_folder({f"{train}/cat": 3, f"{train}/dog": 2, f"{test}/cat": 2, f"{test}/dog": 1})
    dataset = load_dataset(f"folder:{root}")
    assert list(dataset.class_names) == ["cat", "dog"]
    assert {name: split.labels.tolist() for name, split in dataset.splits.items()} == {
        "train": [0, 0, 0, 1, 1],
        "test": [0, 0, 1],
    }
    assert dataset.record.clean


def test_dev_and_eval_folders_are_validation_and_test(make_folder: MakeFolder) -> None:
    root = make_folder({"train/cat": 2, "train/dog": 2, "dev/cat": 1, "eval/dog": 1})
    assert {n: list(s.names) for n, s in load_dataset(f"folder:{root}").splits.items() if n != "train"} == {
        "val": ["dev/cat/000.png"],
        "test": ["eval/dog/000.png"],
    }


@pytest.mark.parametrize(
    ("folders", "message"),
    [
        ({"Test": 3, "Train": 3}, "'Test', 'Train' are named like splits.*layout=classes"),
        ({"cat": 3, "dog": 3, "test": 3}, "'test' are named like splits"),
        ({"test/cat": 3, "test/dog": 3}, "'test' are named like splits"),
        ({"train": 3, "val": 3, "plane": 3}, "'train', 'val' are named like splits"),
        ({"train/cat": 3, "train/dog": 3, "bird": 3}, "'bird' lies beside it.*layout=splits.*layout=classes"),
        ({"train/cat": 3, "Train/cat": 3}, "both name the train split"),
        ({"train/cat": 2, "train/dog": 2, "val/cat": 1, "valid/cat": 1}, "'val' and 'valid' both name the val split"),
    ],
)
def test_classes_that_are_named_like_splits_are_refused(
    make_folder: MakeFolder, folders: Mapping[str, int], message: str
) -> None:
    root = make_folder(folders)
    with pytest.raises(DataError, match=message):
        load_dataset(f"folder:{root}")


def test_an_option_says_that_they_are_classes(make_folder: MakeFolder) -> None:
    root = make_folder({"test": 3, "train": 3, "val/old": 2})
    dataset = load_dataset(f"folder:{root}?layout=classes")
    assert list(dataset.class_names) == ["test", "train", "val"] and dataset.record.clean
    with pytest.raises(DataError, match="layout=splits is wrong"):
        load_dataset(f"folder:{root}?layout=splits")


def test_unlabelled_test_images_are_recorded(make_folder: MakeFolder) -> None:
    """Kaggle's layout: class folders in train, and test images without any."""
    root = make_folder({"train/cat": 5, "train/dog": 5, "test": 4})
    dataset = load_dataset(f"folder:{root}")
    assert {name: len(split) for name, split in dataset.splits.items()} == {"train": 8, "test": 2}
    assert dataset.record.notes == ("4 images of test/ were not used: they are in no class folder.",)


def test_folders_beside_the_splits_and_loose_images_are_recorded(make_folder: MakeFolder) -> None:
    root = make_folder(
        {"train/cat": 2, "train/dog": 2, "test/cat": 1, "test/dog": 1, "extra/cat": 3, "train": 1, ".": 1}
    )
    dataset = load_dataset(f"folder:{root}")
    assert {name: len(split) for name, split in dataset.splits.items()} == {"train": 4, "test": 2}
    assert set(dataset.record.notes) == {
        f"1 image of the folder {str(root)!r} are in no class folder and were not used.",
        "3 images of extra/ were not used: the folder is not a split.",
        "1 image of train/ are in no class folder and were not used.",
    }


def test_nested_folders_are_never_merged_silently(make_folder: MakeFolder) -> None:
    root = make_folder({"a/abbey": 3, "a/airport": 2, "b/bank/indoor": 2, "b/bank/outdoor": 2, "b/bar": 2})
    with pytest.raises(DataError, match=r"'a' has no images of its own.*layout=nested.*'a/abbey'.*layout=classes"):
        load_dataset(f"folder:{root}")
    nested = load_dataset(f"folder:{root}?layout=nested&test=0")
    assert list(nested.class_names) == ["a/abbey", "a/airport", "b/bank/indoor", "b/bank/outdoor", "b/bar"]
    train = nested.split("train")
    assert all(
        name.startswith(nested.class_names[label] + "/") for name, label in zip(train.names, train.labels, strict=True)
    )
    merged = load_dataset(f"folder:{root}?layout=classes&test=0")
    assert list(merged.class_names) == ["a", "b"] and merged.record.clean


def test_nested_classes_inside_splits(make_folder: MakeFolder) -> None:
    folders = {f"{split}/{name}": 2 for split in ("train", "test") for name in ("a/abbey", "a/airport", "b/bar")}
    root = make_folder(folders)
    with pytest.raises(DataError, match=r"layout=nested.*layout=splits"):
        load_dataset(f"folder:{root}")
    nested = load_dataset(f"folder:{root}?layout=nested")
    assert list(nested.class_names) == ["a/abbey", "a/airport", "b/bar"] and len(nested.split("test")) == 6
    assert list(load_dataset(f"folder:{root}?layout=splits").class_names) == ["a", "b"]


def test_sub_folders_of_a_class_with_images_belong_to_it_and_are_recorded(make_folder: MakeFolder) -> None:
    dataset = load_dataset(f"folder:{make_folder({'cat': 2, 'dog': 2, 'dog/holiday': 2, 'dog/home': 2})}")
    assert list(dataset.class_names) == ["cat", "dog"]
    assert dataset.record.notes == ("Images in sub-folders of the class folders 'dog' belong to these classes.",)


def test_a_link_out_of_a_class_folder_is_not_followed(make_folder: MakeFolder) -> None:
    root = make_folder({"alpha": 4, "beta": 3, "gamma": 4})
    (root / "beta" / "loop").symlink_to(root, target_is_directory=True)
    (root / "beta" / "other").symlink_to(root / "alpha", target_is_directory=True)
    (root / "whole").symlink_to(root, target_is_directory=True)
    dataset = load_dataset(f"folder:{root}?test=0")
    assert list(dataset.class_names) == ["alpha", "beta", "gamma"]
    assert np.bincount(dataset.split("train").labels).tolist() == [4, 3, 4]
    (note,) = dataset.record.notes
    assert note == "Links inside class folders, or to a folder above, were not followed: beta/loop and 2 more."


def test_links_to_class_folders_are_followed_inside_splits(make_folder: MakeFolder, tmp_path: Path) -> None:
    root = make_folder({"train/cat": 2, "train/dog": 2, "test/cat": 1})
    (root / "test" / "dog").symlink_to(root / "train" / "dog", target_is_directory=True)
    dataset = load_dataset(f"folder:{root}")
    assert list(dataset.split("test").names) == ["test/cat/000.png", "test/dog/000.png", "test/dog/001.png"]
    assert dataset.record.clean


def test_litter_is_left_out_and_other_files_are_counted(make_folder: MakeFolder) -> None:
    root = make_folder({"cat": 2, "dog": 2, ".git": 1, "__MACOSX": 1, "dog/deep/er": 1})
    for name in (".DS_Store", ".hidden.png", "Thumbs.db", "desktop.ini"):
        (root / "cat" / name).write_bytes(b"x")
    (root / "cat" / "notes.txt").write_text("two cats")
    (root / "cat" / "figure.eps").write_text("%!PS")
    (root / "README.md").write_text("pets")
    dataset = load_dataset(f"folder:{root}?test=0")
    assert list(dataset.splits["train"].names) == [
        "cat/000.png",
        "cat/001.png",
        "dog/000.png",
        "dog/001.png",
        "dog/deep/er/000.png",
    ]
    assert dataset.card.notes == "2 files without an image's extension were left out"
    assert "2 files in class folders do not have the ending of an image (.eps, .txt)." in dataset.record.notes


def test_rubbish_with_an_image_name_stays_and_fails_when_opened(make_folder: MakeFolder) -> None:
    root = make_folder({"cat": 1, "dog": 1})
    (root / "cat" / "empty.jpg").touch()
    (root / "cat" / "text.PNG").write_text("not an image")
    (root / "cat" / "gone.gif").symlink_to(root / "nowhere")
    train = load_dataset(f"folder:{root}?test=0").splits["train"]
    assert len(train) == 5
    failures = {}
    for i, name in enumerate(train.names):
        try:
            decode_rgb(train.open(i))
        except (DataError, OSError) as error:
            failures[name] = type(error)
    assert failures == {"cat/empty.jpg": DataError, "cat/gone.gif": FileNotFoundError, "cat/text.PNG": DataError}
    assert len(train.fingerprint) == 32


def test_links_are_followed_and_loops_are_cut(make_folder: MakeFolder, tmp_path: Path) -> None:
    root = make_folder({"cat": 2, "dog": 1})
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    Image.new("RGB", (2, 2)).save(elsewhere / "x.png")
    (root / "bird").symlink_to(elsewhere, target_is_directory=True)
    (root / "cat" / "link.png").symlink_to(elsewhere / "x.png")
    (root / "cat" / "loop").symlink_to(root / "cat", target_is_directory=True)
    (elsewhere / "up").symlink_to(elsewhere, target_is_directory=True)
    train = load_dataset(f"folder:{root}?test=0").splits["train"]
    assert list(train.names) == ["bird/x.png", "cat/000.png", "cat/001.png", "cat/link.png", "dog/000.png"]


def test_a_pipe_is_no_image(make_folder: MakeFolder) -> None:
    root = make_folder({"cat": 1, "dog": 1})
    os.mkfifo(root / "cat" / "pipe.png")
    assert len(load_dataset(f"folder:{root}?test=0").splits["train"]) == 2


def test_unicode_and_awkward_names(make_folder: MakeFolder) -> None:
    root = make_folder({"Ångström": 2, "猫 & 犬": 2, "what?": 2, "100%": 2})
    dataset = load_dataset(f"folder:{root}?test=0")
    assert list(dataset.class_names) == sorted(["Ångström", "猫 & 犬", "what?", "100%"])
    assert load_dataset(dataset.id).splits["train"].fingerprint == dataset.splits["train"].fingerprint


def test_the_order_is_that_of_whole_paths(make_folder: MakeFolder) -> None:
    names = load_dataset(f"folder:{make_folder({'a': 1, 'a b': 1, 'B': 1, 'a-b': 1})}?test=0").splits["train"].names
    assert list(names) == sorted(names) == ["B/000.png", "a b/000.png", "a-b/000.png", "a/000.png"]


def test_what_changes_the_fingerprint(make_folder: MakeFolder) -> None:
    root = make_folder({"cat": 2, "dog": 2})
    large = root / "cat" / "000.png"
    large.write_bytes(bytes(100_000))

    def fingerprint() -> str:
        return load_dataset(f"folder:{root}?test=0").splits["train"].fingerprint

    first = fingerprint()
    assert fingerprint() == first
    os.utime(large, (1, 1))
    assert fingerprint() == first  # a copy with other dates is the same
    for position in (0, 16_000, 99_999):
        content = bytearray(100_000)
        content[position] = 1
        large.write_bytes(content)
        assert fingerprint() != first
    large.write_bytes(bytes(100_001))
    assert fingerprint() != first
    large.write_bytes(bytes(100_000))
    assert fingerprint() == first
    (root / "dog" / "001.png").rename(root / "cat" / "002.png")
    assert fingerprint() != first


def test_wnids_and_names(make_folder: MakeFolder) -> None:
    root = make_folder({"n02123045": 2, "n02084071": 2})
    (root / "words.txt").write_text("n00000001\tentity\nn02123045\ttabby, tabby cat\nn02084071\tdog\n")
    dataset = load_dataset(f"folder:{root}")
    assert dataset.wnids == list(dataset.class_names) == ["n02084071", "n02123045"]
    named = load_dataset(f"folder:{root}?names=words.txt")
    assert named.class_names == ["dog", "tabby, tabby cat"]
    assert named.features_id == dataset.id  # the same images under other names
    (root / "map.txt").write_text("n02084071\tn02085620\n")
    assert load_dataset(f"folder:{root}?wnids=map.txt").wnids == ["n02085620", None]
    (root / "map.txt").write_text("n02084071\tdog\n")
    with pytest.raises(DataError, match="'n02084071' has 'dog', which is no WordNet id"):
        load_dataset(f"folder:{root}?wnids=map.txt")
    (root / "map.txt").write_text("bird\tn02085620\n")
    with pytest.raises(DataError, match="says nothing of any class"):
        load_dataset(f"folder:{root}?wnids=map.txt")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("okapi\tn02439032\n", r"line 1: 'okapi' has n02439032, which is not a noun of WordNet"),
        ("okapi\tn02439398\nemmu\tn01519873\n", r"a class that the data do not have: 'emmu' \(did you mean 'emu'\?\)"),
        ("okapi\tn02439398\nokapi\tn02439398\n", "line 2: the class 'okapi' is on line 1 already"),
        ("okapi n02439398\nsnow leopart n02128757\n", r"'snow leopart' \(did you mean 'snow leopard'\?\)"),
        ("okapi\tn0243903\n", "which is no WordNet id such as"),
    ],
)
def test_a_wrong_mapping_shrinks_nothing(make_folder: MakeFolder, text: str, message: str) -> None:
    root = make_folder({"okapi": 2, "emu": 2, "snow leopard": 2})
    (root / "map.tsv").write_text(text)
    with pytest.raises(DataError, match=message):
        load_dataset(f"folder:{root}?wnids=map.tsv")


@pytest.mark.parametrize("ending", ["txt", "csv"])
def test_class_names_with_spaces_in_a_mapping(make_folder: MakeFolder, ending: str) -> None:
    root = make_folder({"okapi": 2, "emu": 2, "snow leopard": 2})
    lines = ["okapi n02439398 # the animal", "snow leopard n02128757", "emu ?"]
    if ending == "csv":
        lines = ["class,wnid", "okapi,n02439398", "snow leopard,n02128757", "emu,?"]
    (root / f"map.{ending}").write_text("\n".join(lines))
    assert load_dataset(f"folder:{root}?wnids=map.{ending}").wnids == [None, "n02439398", "n02128757"]


def test_lists_are_tables(make_folder: MakeFolder) -> None:
    root = make_folder({"x": 5, "with space": 1})
    (root / "train.txt").write_text("\ufeffx/000.png ant\n\nx/001.png bee\nwith space/000.png ant\n", encoding="utf-8")
    (root / "val.txt").write_text("x/002.png\tant\n")
    (root / "test.txt").write_text("x/003.png ant\nx/004.png bee\n")
    dataset = load_dataset(f"csv:{root}/train.txt?val={root}/val.txt&test={root}/test.txt&root={root}")
    assert dataset.class_names == ["ant", "bee"]
    found = {name: (list(split.names), split.labels.tolist()) for name, split in dataset.splits.items()}
    assert found == {
        "train": (["x/000.png", "x/001.png", "with space/000.png"], [0, 1, 0]),
        "val": (["x/002.png"], [0]),
        "test": (["x/003.png", "x/004.png"], [0, 1]),
    }
    assert decode_rgb(dataset.splits["test"].open(0)).size == (4, 4)
    with pytest.raises(UsageError, match="has no option 'train'"):
        load_dataset(f"folder:{root}?train=train.txt&test=0.2")
    for text, message in (("", "no rows"), ("y/000.png 0\n", "first image 'y/000.png' is not in")):
        (root / "train.txt").write_text(text)
        with pytest.raises(DataError, match=message):
            load_dataset(f"csv:{root}/train.txt?root={root}")


def test_a_folder_of_hugging_face_is_loaded_by_its_own_source(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    features = datasets.Features({"image": datasets.Image(), "label": datasets.ClassLabel(names=["a", "b"])})
    rows = {"image": [Image.new("RGB", (8, 8), (30 * k, 0, 0)) for k in range(4)], "label": [0, 1, 0, 1]}
    split = datasets.Dataset.from_dict(rows, features=features)
    for name, saved in (("several", datasets.DatasetDict({"train": split, "test": split})), ("one", split)):
        saved.save_to_disk(tmp_path / name)
        with pytest.raises(DataError, match=rf"save_to_disk` wrote. Load it as hf:.*{name}"):
            load_dataset(f"folder:{tmp_path / name}")
    assert len(load_dataset(f"hf:{tmp_path / 'several'}").split("train")) == 4


def test_what_is_missing_is_named(make_folder: MakeFolder, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="does not exist"):
        load_dataset(f"folder:{tmp_path}/nowhere")
    with pytest.raises(UsageError, match="which folder"):
        load_dataset("folder:")
    root = make_folder({"cat": 2, "dog": 0})
    with pytest.raises(DataError, match="the class 'dog' is empty"):
        load_dataset(f"folder:{root}")
    with pytest.raises(DataError, match="has no sub-folders"):
        load_dataset(f"folder:{root / 'dog'}")
    (root / "dog" / "0.tar").write_bytes(b"")
    with pytest.raises(DataError, match=r"tar files and no class folders. Load shards of webdataset as wds:"):
        load_dataset(f"folder:{root / 'dog'}")
    with pytest.raises(DataError, match="is a file, not a folder"):
        load_dataset(f"folder:{root / 'cat' / '000.png'}")
    with pytest.raises(UsageError, match=r"option test='1.5' should be a share"):
        load_dataset(f"folder:{root}?test=1.5")
    with pytest.raises(UsageError, match=r"no option 'sed'. Did you mean 'seed'"):
        load_dataset(f"folder:{root}?sed=1")


def test_a_class_that_cannot_be_learned_is_named(make_folder: MakeFolder) -> None:
    root = make_folder({"train/cat": 2, "test/cat": 1, "test/dog": 1})
    with pytest.raises(DataError, match="has the class 'dog', which 'train' has not"):
        load_dataset(f"folder:{root}")
