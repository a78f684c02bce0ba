"""ImageNet-1K and the levels of ImageNet-CoG, over small ImageNets in their true layouts."""

from __future__ import annotations

import io
import json
import pickle
import random
import shutil
import tarfile
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.io import savemat

from unseen.core.errors import DataError, UnknownNameError, UsageError
from unseen.data import Dataset, dataset_cards, decode_rgb, load_dataset
from unseen.data.sources.imagenet.cog import Caps, balanced_rows, draw_images, read_levels
from unseen.data.sources.imagenet.source import find_in1k, read_val_labels

pytestmark = pytest.mark.usefixtures("home")


def image_lists(dataset: Dataset) -> dict[str, dict[str, list[str]]]:
    """Return the images of a loaded level by concept and split; as a JSON file they work as `split=FILE`."""
    lists: dict[str, dict[str, list[str]]] = {}
    for split in ("train", "test"):
        for name in dataset.split(split).names:
            lists.setdefault(name.partition("/")[0], {"train": [], "test": []})[split].append(name)
    return lists


LAYOUTS = ("folders", "tars", "one tar")
SMALL = {"train": 8, "test": 2, "min": 6}


@pytest.fixture
def levels(small_imagenets: Mapping[str, Any], tmp_path: Path) -> Path:
    """Seven levels of 40 concepts, none of them short, as `unseen cog levels` would write them."""
    tree = small_imagenets["folders"]
    whole = [wnid for wnid in tree.others if wnid not in tree.short]
    content = {
        "format": "unseen-levels/1",
        "columns": ["id", "similarity", "nearest"],
        # Concepts stand in the order of similarity, which is not that of the ids.
        "levels": [
            {"name": f"L{i + 1}", "concepts": [[w, 0.5, None] for w in reversed(whole[40 * i : 40 * i + 40])]}
            for i in range(7)
        ],
    }
    path = tmp_path / "levels.json"
    path.write_text(json.dumps(content))
    return path


def level(tree: Any, levels: Path, name: str = "cog-l1", **options: Any) -> Dataset:
    return load_dataset(f"imagenet:{name}", root=tree.in21k, levels=levels, **{**SMALL, **options})


def by_class(dataset: Dataset, split: str) -> list[int]:
    return np.bincount(dataset.split(split).labels, minlength=len(dataset.class_names)).tolist()


# The levels of ImageNet-CoG.


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_level(small_imagenets: Mapping[str, Any], levels: Path, layout: str) -> None:
    tree = small_imagenets[layout]
    dataset = level(tree, levels)
    wnids = sorted(read_levels(levels)["l1"])
    assert list(dataset.wnids) == wnids
    assert by_class(dataset, "test") == [2] * 40
    assert by_class(dataset, "train") == [min(tree.counts[wnid] - 2, 8) for wnid in wnids]
    train, test = dataset.split("train"), dataset.split("test")
    assert not set(train.names) & set(test.names)
    assert list(train.names) == sorted(train.names)
    for split in (train, test):
        assert [name.partition("/")[0] for name in split.names] == [wnids[label] for label in split.labels]
    assert "drawn by seed 0: 2 test, at most 8 train" in dataset.card.notes
    assert dataset.features_id == "imagenet:cog-l1?min=6&test=2&train=8"  # wherever the images are


def test_layouts_do_not_matter(small_imagenets: Mapping[str, Any], levels: Path) -> None:
    loaded = [level(small_imagenets[layout], levels, "cog-l2") for layout in LAYOUTS]
    for split in ("train", "test"):
        assert len({d.split(split).fingerprint for d in loaded}) == 1
        assert len({tuple(d.split(split).names) for d in loaded}) == 1
        pixels = [np.asarray(decode_rgb(d.split(split).open(17))) for d in loaded]
        assert pixels[0].shape == (16, 16, 3)
        assert (pixels[0] == pixels[1]).all()
        assert (pixels[0] == pixels[2]).all()
    assert len({d.card.notes for d in loaded}) == 1


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_corrupt_file_is_a_counted_skip(small_imagenets: Mapping[str, Any], levels: Path, layout: str) -> None:
    tree = small_imagenets[layout]
    dataset = level(tree, levels)
    where = {name: (split, i) for split in dataset.splits for i, name in enumerate(dataset.split(split).names)}
    split, i = where[tree.corrupt]
    with pytest.raises(DataError, match="not an image"):
        dataset.split(split).open(i)
    failed = 0
    for name in dataset.splits:
        for j in range(len(dataset.split(name))):
            try:
                decode_rgb(dataset.split(name).open(j))
            except DataError:
                failed += 1
    assert failed == 1


def test_the_draw_follows_the_seed_and_not_the_file_system(
    small_imagenets: Mapping[str, Any], levels: Path, tmp_path: Path
) -> None:
    tree = small_imagenets["folders"]
    first, other = level(tree, levels), level(tree, levels, seed=1)
    assert first.split("test").fingerprint != other.split("test").fingerprint
    assert by_class(first, "test") == by_class(other, "test")
    # The same files, written in another order, elsewhere.
    copies = [path for wnid in first.wnids for path in (tree.in21k / wnid).iterdir()]  # type: ignore[operator]
    random.Random(3).shuffle(copies)
    for path in copies:
        (tmp_path / "copy" / path.parent.name).mkdir(parents=True, exist_ok=True)
        shutil.copy(path, tmp_path / "copy" / path.parent.name / path.name)
    again = load_dataset("imagenet:cog-l1", root=tmp_path / "copy", levels=levels, **SMALL)
    assert again.split("train").fingerprint == first.split("train").fingerprint
    assert again.split("test").fingerprint == first.split("test").fingerprint


def test_a_changed_image_changes_the_fingerprint(
    small_imagenets: Mapping[str, Any], levels: Path, tmp_path: Path
) -> None:
    shutil.copytree(small_imagenets["folders"].in21k, tmp_path / "copy", copy_function=shutil.copy)
    root = tmp_path / "copy"
    before = load_dataset("imagenet:cog-l1", root=root, levels=levels, **SMALL)
    was = {split: before.split(split).fingerprint for split in before.splits}
    with (root / before.split("test").names[0]).open("ab") as file:
        file.write(b"x")
    after = load_dataset("imagenet:cog-l1", root=root, levels=levels, **SMALL)
    assert after.split("test").names == before.split("test").names
    assert after.split("test").fingerprint != was["test"]
    assert after.split("train").fingerprint == was["train"]


def test_any_number_of_levels_by_any_name(small_imagenets: Mapping[str, Any], levels: Path, tmp_path: Path) -> None:
    tree = small_imagenets["folders"]
    assert len(level(tree, levels, "cog-l7").class_names) == 40
    with pytest.raises(UnknownNameError, match="cog-l8"):
        level(tree, levels, "cog-l8")
    mine = tmp_path / "mine.json"
    mine.write_text(json.dumps({"Near": tree.others[:3], "far": list(tree.others[3:5])}))
    assert level(tree, mine, "cog-near").wnids == sorted(tree.others[:3])
    mine.write_text(json.dumps([tree.others[:3], tree.others[3:5]]))
    assert level(tree, mine, "cog-l2").wnids == sorted(tree.others[3:5])


def test_own_ontologies_need_no_wnids(tmp_path: Path, make_folder: Any) -> None:
    root = make_folder({"red shoe": 4, "blue": 5})
    file = tmp_path / "levels.json"
    file.write_text(json.dumps({"l1": ["red shoe", "blue"]}))
    dataset = load_dataset("imagenet:cog-l1", root=root, levels=file, train=3, test=1, min=3)
    assert list(dataset.class_names) == ["blue", "red shoe"]
    assert list(dataset.wnids) == [None, None]


def test_balanced_levels(small_imagenets: Mapping[str, Any], levels: Path) -> None:
    tree = small_imagenets["tars"]
    full, balanced = level(tree, levels), level(tree, levels, balanced=5)
    assert by_class(balanced, "train") == [5] * 40
    assert set(balanced.split("train").names) < set(full.split("train").names)
    assert balanced.split("test").fingerprint == full.split("test").fingerprint
    rows = balanced_rows(full.split("train").names, full.split("train").labels, 5)
    assert [full.split("train").names[i] for i in rows] == list(balanced.split("train").names)
    with pytest.raises(DataError, match="fewer than balanced=9 training images"):
        level(tree, levels, balanced=9)


def test_too_few_or_no_images(small_imagenets: Mapping[str, Any], tmp_path: Path) -> None:
    tree = small_imagenets["folders"]
    file = tmp_path / "levels.json"
    file.write_text(json.dumps({"L1": [*tree.others[:3], *tree.short]}))
    with pytest.raises(DataError, match=r"5 of the 8 concepts .* fewer than the 6 \+ 2 .*n\d{8} \(3\).* --counts"):
        level(tree, file)
    assert by_class(level(tree, file, min=1), "train")[-1] == 1
    with pytest.raises(DataError, match=r"fewer than the 732 \+ 50"):
        load_dataset("imagenet:cog-l1", root=tree.in21k, levels=file)
    file.write_text(json.dumps({"L1": [*tree.others[:3], "n99999998", "n99999999"]}))
    with pytest.raises(DataError, match=r"2 of the 5 concepts of level l1 are not in .*n99999998, n99999999"):
        level(tree, file)


def test_a_damaged_tar_is_named(small_imagenets: Mapping[str, Any], tmp_path: Path, levels: Path) -> None:
    shutil.copytree(small_imagenets["tars"].in21k, tmp_path / "tars")
    wnid = sorted(read_levels(levels)["l1"])[3]
    whole = (tmp_path / "tars" / f"{wnid}.tar").read_bytes()
    (tmp_path / "tars" / f"{wnid}.tar").write_bytes(whole[:3000])
    with pytest.raises(DataError, match=rf"{wnid}.tar is .* cut off at or after {wnid}_"):
        load_dataset("imagenet:cog-l1", root=tmp_path / "tars", levels=levels, **SMALL)


# The authors' lists.


def published(tree: Any, concepts: list[str], *, slash: bool) -> dict[str, dict[str, Any]]:
    """Image lists in the layout of the authors' file: arrays of paths, some with a slash in front."""
    lists = {}
    for wnid in concepts:
        names = [f"{'/' if slash else ''}{wnid}/{wnid}_{i}.JPEG" for i in range(tree.counts[wnid])]
        lists[wnid] = {"train": np.asarray(names[3:]), "test": np.asarray(names[:3])}
    return lists


@pytest.mark.parametrize("layout", LAYOUTS)
def test_published_lists(small_imagenets: Mapping[str, Any], levels: Path, layout: str, tmp_path: Path) -> None:
    tree = small_imagenets[layout]
    wnids = sorted(read_levels(levels)["l1"])
    (tmp_path / "split.pkl").write_bytes(pickle.dumps(published(tree, wnids, slash=True)))
    dataset = level(tree, levels, split=tmp_path / "split.pkl")
    assert by_class(dataset, "test") == [3] * 40
    assert by_class(dataset, "train") == [tree.counts[wnid] - 3 for wnid in wnids]
    assert "given lists" in dataset.card.notes
    assert np.asarray(decode_rgb(dataset.split("test").open(5))).shape == (16, 16, 3)


def test_published_levels(small_imagenets: Mapping[str, Any], tmp_path: Path) -> None:
    tree = small_imagenets["folders"]
    (tmp_path / "levels.pkl").write_bytes(pickle.dumps([np.asarray(tree.others[:4]), np.asarray(tree.others[4:9])]))
    assert level(tree, tmp_path / "levels.pkl", "cog-l2").wnids == sorted(tree.others[4:9])
    (tmp_path / "levels.pkl").write_bytes(pickle.dumps({0: list(tree.others[:4]), 1: list(tree.others[4:9])}))
    assert level(tree, tmp_path / "levels.pkl", "cog-l2").wnids == sorted(tree.others[4:9])
    (tmp_path / "levels.pkl").write_bytes(pickle.dumps(Path("/")))
    with pytest.raises(DataError, match="refused"):
        level(tree, tmp_path / "levels.pkl")


def test_a_draw_that_is_written_down_can_be_had_again(
    small_imagenets: Mapping[str, Any], levels: Path, tmp_path: Path
) -> None:
    drawn = level(small_imagenets["tars"], levels, seed=4)
    (tmp_path / "split.json").write_text(json.dumps(image_lists(drawn)))
    listed = level(small_imagenets["folders"], levels, split=tmp_path / "split.json")
    for split in ("train", "test"):
        assert listed.split(split).fingerprint == drawn.split(split).fingerprint


def test_lists_that_do_not_fit(small_imagenets: Mapping[str, Any], levels: Path, tmp_path: Path) -> None:
    tree = small_imagenets["folders"]
    wnids = sorted(read_levels(levels)["l1"])
    file = tmp_path / "split.json"

    def write(**changes: Any) -> None:
        lists = {w: {k: v.tolist() for k, v in p.items()} for w, p in published(tree, wnids, slash=False).items()}
        lists[wnids[0]] |= changes
        file.write_text(json.dumps(lists))

    write(test=[f"{wnids[0]}_0.JPEG", f"{wnids[0]}_999.JPEG"])
    dataset = level(tree, levels, split=file)
    assert "1 of them are not there" in dataset.card.notes
    with pytest.raises(FileNotFoundError, match="listed, but missing"):
        dataset.split("test").open(1)
    assert dataset.split("test").fingerprint
    for changes, message in (
        ({"test": [f"{wnids[0]}_999.JPEG"]}, "none of the 1 listed test images"),
        ({"test": [f"{wnids[0]}_5.JPEG"]}, "is to be trained and tested on"),
        ({"test": ["../../secret.JPEG"]}, "outside the folder"),
        ({"test": 3}, "not a list of file names"),
    ):
        write(**changes)
        with pytest.raises(DataError, match=message):
            level(tree, levels, split=file)
    file.write_text("{}")
    with pytest.raises(DataError, match="Was it made for other levels"):
        level(tree, levels, split=file)


# Draws.


@given(count=st.integers(0, 60), seed=st.integers(0, 5), train=st.integers(1, 30), test=st.integers(1, 10))
def test_draws_are_disjoint_capped_and_of_the_name_alone(count: int, seed: int, train: int, test: int) -> None:
    names = [f"n1/n1_{i}.JPEG" for i in range(count)]
    caps = Caps(train, test, 1)
    to_train, to_test = draw_images(names, caps, seed)
    assert len(to_test) == min(test, count)
    assert len(to_train) == min(train, max(count - test, 0))
    if count > test:
        assert caps.used(count) == (len(to_train), len(to_test))
    assert not set(to_train.tolist()) & set(to_test.tolist())
    backwards = draw_images(names[::-1], caps, seed)
    assert {names[i] for i in to_test} == {names[::-1][i] for i in backwards[1]}
    assert {names[i] for i in to_train} == {names[::-1][i] for i in backwards[0]}


def test_the_paper_caps() -> None:
    caps = Caps()
    assert caps.used(782) == (732, 50)
    assert caps.used(781) == (0, 0)
    assert caps.used(1350) == caps.used(2267) == (1300, 50)


def test_every_image_has_the_same_chance_to_be_tested_on() -> None:
    names = [f"n1/n1_{i}.JPEG" for i in range(20)]
    times = np.zeros(20)
    for seed in range(2000):
        times[draw_images(names, Caps(100, 5, 1), seed)[1]] += 1
    # 2000 draws of 5 out of 20: mean 500, standard deviation sqrt(2000 * 0.25 * 0.75) = 19.4.
    assert (abs(times - 500) < 5 * 19.4).all()


# ImageNet-1K.


@pytest.mark.parametrize("name", ["in1k", "in1k-blurred"])
def test_in1k_in_every_layout(small_imagenets: Mapping[str, Any], name: str) -> None:
    loaded = [load_dataset(f"imagenet:{name}", root=small_imagenets[layout].in1k) for layout in LAYOUTS]
    seen = small_imagenets["folders"].seen
    for dataset in loaded:
        assert tuple(dataset.wnids) == seen
        assert by_class(dataset, "test") == [2] * 60
        assert len(dataset.split("train")) == sum(small_imagenets["folders"].counts[wnid] for wnid in seen)
        assert dataset.features_id == f"imagenet:{name}"
        assert dataset.card.notes == "60 of the 1,000 classes"
        test = dataset.split("test")
        assert [n.split("/")[1] for n in test.names] == [seen[label] for label in test.labels]
    for split in ("train", "test"):
        assert len({d.split(split).fingerprint for d in loaded}) == 1
        pictures = [np.asarray(decode_rgb(d.split(split).open(33))) for d in loaded]
        assert all((picture == pictures[0]).all() for picture in pictures)


def test_class_names_are_words(small_imagenets: Mapping[str, Any]) -> None:
    dataset = load_dataset("imagenet:in1k", root=small_imagenets["folders"].in1k)
    assert dataset.class_names[0] == "tench"
    assert len(set(dataset.class_names)) == 60


@pytest.fixture
def heap(small_imagenets: Mapping[str, Any], tmp_path: Path) -> tuple[Path, dict[str, str]]:
    """A root of Kaggle's layout with all validation images in one folder and no labels; and the labels."""
    tree = small_imagenets["folders"]
    base = tmp_path / "in1k" / "ILSVRC" / "Data" / "CLS-LOC"
    (base / "val").mkdir(parents=True)
    (base / "train").symlink_to(tree.in1k / "train")
    labels = {}
    for path in (tree.in1k / "val").glob("*/*.JPEG"):
        shutil.copy(path, base / "val" / path.name)
        labels[path.stem] = path.parent.name
    return tmp_path / "in1k", dict(sorted(labels.items()))


def devkit(wnids: tuple[str, ...], labels: Mapping[str, str]) -> dict[str, bytes]:
    """Ground truth and meta.mat as the devkit has them: its numbers are not in the order of the wnids."""
    numbers = {wnid: 1 + (17 * i) % len(wnids) for i, wnid in enumerate(wnids)}
    rows = [(number, wnid) for wnid, number in numbers.items()] + [(len(wnids) + 1, "n00001740")]
    synsets = np.array(rows, [("ILSVRC2012_ID", "f8"), ("WNID", "U9")])
    meta = io.BytesIO()
    savemat(meta, {"synsets": synsets.reshape(-1, 1)})
    truth = "".join(f"{numbers[wnid]}\n" for wnid in labels.values())
    return {"ILSVRC2012_validation_ground_truth.txt": truth.encode(), "meta.mat": meta.getvalue()}


def write_labels(kind: str, root: Path, wnids: tuple[str, ...], labels: Mapping[str, str]) -> None:
    lines = {
        "LOC_val_solution.csv": [
            "ImageId,PredictionString",
            *(f"{n},{w} 1 2 3 4 {w} 5 6 7 8" for n, w in labels.items()),
        ],
        "val_map.txt": [f"{n}.JPEG {w}" for n, w in labels.items()],
    }
    if kind in lines:
        (root / kind).write_text("\n".join(lines[kind]) + "\n")
    else:
        write_devkit(root / "ILSVRC2012_devkit_t12.tar.gz", devkit(wnids, labels))


def write_devkit(path: Path, files: Mapping[str, bytes]) -> None:
    with tarfile.open(path, "w:gz") as archive:
        for name, data in files.items():
            member = tarfile.TarInfo(f"ILSVRC2012_devkit_t12/data/{name}")
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))


KINDS = ("LOC_val_solution.csv", "val_map.txt", "devkit.tar.gz")


@pytest.mark.parametrize("kind", KINDS)
def test_a_heap_of_validation_images(
    small_imagenets: Mapping[str, Any], heap: tuple[Path, dict[str, str]], kind: str
) -> None:
    root, labels = heap
    tree = small_imagenets["folders"]
    with pytest.raises(DataError, match=r"nothing in .* says what the validation images show"):
        load_dataset("imagenet:in1k", root=root)
    write_labels(kind, root, tree.seen, labels)
    sorted_into_folders = load_dataset("imagenet:in1k", root=tree.in1k).split("test")
    test = load_dataset("imagenet:in1k", root=root).split("test")
    assert list(test.names) == list(sorted_into_folders.names)
    assert test.fingerprint == sorted_into_folders.fingerprint
    i = 71
    assert (np.asarray(decode_rgb(test.open(i))) == np.asarray(decode_rgb(sorted_into_folders.open(i)))).all()


def test_labels_from_elsewhere_and_labels_that_do_not_fit(
    small_imagenets: Mapping[str, Any], heap: tuple[Path, dict[str, str]], tmp_path: Path
) -> None:
    root, labels = heap
    file = tmp_path / "elsewhere.txt"
    file.write_text("".join(f"{name}.JPEG {wnid}\n" for name, wnid in labels.items()))
    assert len(load_dataset("imagenet:in1k", root=root, val_labels=file).split("test")) == 120
    file.write_text("ILSVRC2012_val_00000001.JPEG n01440764\n")
    with pytest.raises(DataError, match=r"does not have .*val_00000002"):
        load_dataset("imagenet:in1k", root=root, val_labels=file)
    for text in ("one two three\n", "a.JPEG\n", "a.JPEG 0\n"):
        file.write_text(text)
        with pytest.raises(DataError, match="line 1: expected a file name and a wnid"):
            read_val_labels(file)
    csv = tmp_path / "x.csv"
    csv.write_text("ImageId,PredictionString\nILSVRC2012_val_00000001,dog\n")
    with pytest.raises(DataError, match="line 2: expected a file name and a wnid"):
        read_val_labels(csv)
    kit = tmp_path / "ILSVRC2012_devkit_t12.tar.gz"
    for files, message in (
        ({"ILSVRC2012_validation_ground_truth.txt": b"1\n2\n"}, "lacks .* or meta.mat"),
        ({"ILSVRC2012_validation_ground_truth.txt": b"1\n", "meta.mat": b"no mat file"}, "is no MATLAB file"),
    ):
        write_devkit(kit, files)
        with pytest.raises(DataError, match=message):
            read_val_labels(kit)


def test_fewer_classes_to_train_on_than_to_validate(
    small_imagenets: Mapping[str, Any], heap: tuple[Path, dict[str, str]], tmp_path: Path
) -> None:
    """Subsets such as ImageNet-100 keep all validation images: those of other classes are left out with a note."""
    tree, (_, labels) = small_imagenets["folders"], heap
    root = tmp_path / "some"
    (root / "train").mkdir(parents=True)
    for wnid in tree.seen[:10]:
        (root / "train" / wnid).symlink_to(tree.in1k / "train" / wnid)
    (root / "val").symlink_to(tree.in1k / "val")
    dataset = load_dataset("imagenet:in1k", root=root)
    assert by_class(dataset, "test") == [2] * 10
    assert dataset.card.notes == "10 of the 1,000 classes; 100 validation images of other classes were left out"
    fingerprint = dataset.split("test").fingerprint
    (root / "val").unlink()
    (root / "val").symlink_to(heap[0] / "ILSVRC" / "Data" / "CLS-LOC" / "val")
    write_labels("val_map.txt", root, tree.seen, labels)
    assert load_dataset("imagenet:in1k", root=root).split("test").fingerprint == fingerprint


def test_classes_without_images(small_imagenets: Mapping[str, Any], tmp_path: Path) -> None:
    root = tmp_path / "in1k"
    shutil.copytree(small_imagenets["folders"].in1k, root)
    shutil.rmtree(root / "val" / "n01440764")
    with pytest.raises(DataError, match=r"1 of 60 classes of .* have no validation image, such as n01440764"):
        load_dataset("imagenet:in1k", root=root)


# Roots, names and options.


def test_roots_of_the_environment(
    small_imagenets: Mapping[str, Any], levels: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = small_imagenets["tars"]
    for variable in ("UNSEEN_IMAGENET_1K", "UNSEEN_IMAGENET_21K", "UNSEEN_COG_LEVELS"):
        monkeypatch.delenv(variable, raising=False)
    with pytest.raises(UsageError, match=r"where is ImageNet-1K\? Write \?root=PATH, or set UNSEEN_IMAGENET_1K"):
        load_dataset("imagenet:in1k")
    with pytest.raises(DataError, match=r"no file of levels at .*cog-levels\.json.*unseen cog levels"):
        load_dataset("imagenet:cog-l1")
    monkeypatch.setenv("UNSEEN_IMAGENET_1K", str(tree.in1k))
    monkeypatch.setenv("UNSEEN_IMAGENET_21K", str(tree.in21k))
    assert len(load_dataset("imagenet:in1k").class_names) == 60
    home.mkdir(exist_ok=True)
    shutil.copy(levels, home / "cog-levels.json")
    by_default = load_dataset("imagenet:cog-l1?train=8&test=2&min=6")
    monkeypatch.setenv("UNSEEN_COG_LEVELS", str(levels))
    assert load_dataset("imagenet:cog-l1?train=8&test=2&min=6").id == by_default.id == by_default.features_id


def test_what_is_not_imagenet(tmp_path: Path, levels: Path) -> None:
    with pytest.raises(UnknownNameError, match="Did you mean 'in1k'"):
        load_dataset("imagenet:in2k", root=tmp_path)
    with pytest.raises(DataError, match=r"is not a root of ImageNet-1K. Expected are train/ and val/"):
        find_in1k(tmp_path)
    with pytest.raises(DataError, match="no such file or folder"):
        load_dataset("imagenet:in1k", root=tmp_path / "none")
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match=r"neither folders nor .tar files"):
        load_dataset("imagenet:cog-l1", root=tmp_path / "empty", levels=levels)
    with pytest.raises(UsageError, match=r"no option 'balance'. Did you mean 'balanced'"):
        load_dataset("imagenet:cog-l1", root=tmp_path, levels=levels, balance=3)
    (tmp_path / "heap.tar").write_bytes(b"\0" * 10240)
    with pytest.raises(DataError, match="holds 0 files, none at all, but no tar file per concept"):
        load_dataset("imagenet:cog-l1", root=tmp_path / "heap.tar", levels=levels)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("nonsense", "not valid JSON"),
        ("3", "holds no levels"),
        ("{}", "holds no levels"),
        ('{"format": "unseen-levels/1"}', "is damaged"),
        ('{"L1": 3}', "'L1' is not a list"),
        ('{"L1": ["../up"]}', "cannot be the name of a folder"),
        ('{"L1": ["n1", "n1"]}', "listed twice"),
    ],
)
def test_broken_levels(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "levels.json").write_text(content)
    with pytest.raises(DataError, match=message):
        read_levels(tmp_path / "levels.json")


def test_levels_as_the_concepts_room_writes_them(small_imagenets: Mapping[str, Any], tmp_path: Path) -> None:
    from unseen.concepts import random_levels

    drawn = random_levels(small_imagenets["folders"].others, draws=3, size=10, seed=1)
    drawn.save(tmp_path / "levels.json")
    assert read_levels(tmp_path / "levels.json") == {level.name.lower(): sorted(level.ids) for level in drawn.levels}


def test_cards() -> None:
    ids = [card.id for card in dataset_cards() if card.group == "imagenet"]
    levels = [f"imagenet:cog-l{i}" for i in range(1, 6)]
    assert ids == ["imagenet:in1k", "imagenet:in1k-blurred", "imagenet:cog", *levels]


def test_selection_works_on_top(small_imagenets: Mapping[str, Any], levels: Path) -> None:
    dataset = level(small_imagenets["tars"], levels, per_class=3, classes=5)
    assert by_class(dataset, "train") == [3] * 5
    assert dataset.features_id.startswith("imagenet:cog-l1?classes=5&min=6&per_class=3")


def test_the_helper_writes_what_it_says(imagenet_tree: ModuleType, tmp_path: Path) -> None:
    tree = imagenet_tree.make_imagenet(tmp_path, seen=3, others=8, short=2, images=4)
    assert (len(tree.seen), len(tree.others), len(tree.short)) == (3, 8, 2)
    assert {p.name: len(list(p.iterdir())) for p in tree.in21k.iterdir()} == tree.counts
    assert all(tree.counts[wnid] == 3 for wnid in tree.short)
