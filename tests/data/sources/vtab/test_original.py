"""All 19 tasks from small replicas of the files that their authors ship."""

from __future__ import annotations

import os
import pickle
import shutil
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from unseen.core.errors import DataError
from unseen.data import load_dataset
from unseen.data.sources.vtab import load_task, vtab_task, vtab_tasks
from unseen.data.sources.vtab.original_readers import split_by_drive

TASKS = [name for name in vtab_tasks() if name != "retinopathy"]  # its photographs need the processing of TFDS


@pytest.mark.parametrize("name", TASKS)
def test_labels_images_and_splits_of_every_task(name: str, tmp_path: Path, replicas: Any) -> None:
    truth = replicas.writers[name](tmp_path)
    task = vtab_task(name)
    data = load_task(task, tmp_path, size="full", kinds=("original",))
    assert list(data.splits) == ["train", "val", "test"]
    assert len(data.class_names) == task.classes
    seen: list[int] = []
    for split in data.splits.values():
        assert len(split) > 0
        for i in range(len(split)):
            value = replicas.value(split.open(i), name)
            assert split.labels[i] == truth[value], (split.names[i], value)
            seen.append(value)
    assert len(seen) == len(set(seen)), "an image is in two splits"
    assert sorted(seen) == sorted(truth), "an image is lost"


@pytest.mark.parametrize("name", TASKS)
def test_vtab_1k_is_a_part_of_the_whole_and_always_the_same(name: str, tmp_path: Path, replicas: Any) -> None:
    replicas.writers[name](tmp_path)
    first = load_dataset(f"vtab:{name}", root=tmp_path)
    again = load_dataset(f"vtab:{name}", root=tmp_path)
    whole = load_dataset(f"vtab:{name}", root=tmp_path, size="full")
    for split in ("train", "val", "test"):
        assert first.split(split).fingerprint == again.split(split).fingerprint
        assert set(first.split(split).names) <= set(whole.split(split).names)
    assert len(first.split("train")) <= 800
    assert len(first.split("val")) <= 200


def test_the_published_shares_of_each_split() -> None:
    """Sizes that follow from the shares in the table are the published ones."""
    whole = {"cifar100": 50_000, "svhn": 73_257, "caltech101": 3_060, "pets": 3_680, "clevr-count": 70_000}
    for name, count in whole.items():
        task = vtab_task(name)
        percent = int(task.splits["train"].rpartition(":")[2].rstrip("%]"))
        assert round(count * percent / 100) == task.sizes[0]
        assert count - round(count * percent / 100) == task.sizes[1]
    for name, count in {"eurosat": 27_000, "resisc45": 31_500, "dsprites-location": 737_280}.items():
        assert sum(vtab_task(name).sizes) == count


def test_tasks_on_the_same_images_share_features(tmp_path: Path, replicas: Any) -> None:
    replicas.writers["clevr-count"](tmp_path)
    replicas.writers["smallnorb-azimuth"](tmp_path)
    for first, second in (("clevr-count", "clevr-distance"), ("smallnorb-azimuth", "smallnorb-elevation")):
        a, b = (load_dataset(f"vtab:{name}", root=tmp_path) for name in (first, second))
        assert a.features_id == b.features_id
        assert a.split("test").fingerprint == b.split("test").fingerprint
        assert not np.array_equal(a.split("test").labels, b.split("test").labels)


def test_caltech_trains_on_thirty_of_each_class(tmp_path: Path, replicas: Any) -> None:
    replicas.writers["caltech101"](tmp_path)
    data = load_task(vtab_task("caltech101"), tmp_path, size="full")
    together = np.concatenate([data.split("train").labels, data.split("val").labels])
    assert np.unique(together, return_counts=True)[1].tolist() == [30] * 4
    assert np.unique(data.split("test").labels, return_counts=True)[1].tolist() == [10] * 4


def test_caltech_takes_the_training_images_that_a_list_names(tmp_path: Path, replicas: Any) -> None:
    truth = replicas.writers["caltech101"](tmp_path)
    wanted = [f"{name}/image_{k:04d}.jpg" for name in ("accordion", "BACKGROUND_Google") for k in range(3, 13)]
    (tmp_path / "caltech101_train.txt").write_text("\n".join(wanted) + "\n")
    data = load_task(vtab_task("caltech101"), tmp_path, size="full")
    assert sorted([*data.split("train").names, *data.split("val").names]) == sorted(wanted)
    assert len(data.split("test")) == len(truth) - len(wanted)
    assert "caltech101_train.txt" in data.card.notes
    (tmp_path / "caltech101_train.txt").write_text("accordion/image_9999.jpg\n")
    with pytest.raises(DataError, match=r"line 1: there is no image 'accordion/image_9999\.jpg'"):
        load_task(vtab_task("caltech101"), tmp_path)


def test_caltech_draws_as_tfds_does_from_a_sorted_listing(tmp_path: Path, replicas: Any) -> None:
    replicas.writers["caltech101"](tmp_path)
    data = load_task(vtab_task("caltech101"), tmp_path, size="full")
    state, expected = np.random.RandomState(1234), set()
    for name in sorted(["accordion", "BACKGROUND_Google", "Faces", "yin_yang"]):
        files = [f"image_{k:04d}.jpg" for k in range(40)]
        expected |= {f"{name}/{file}" for file in state.choice(files, 30, replace=False)}
    assert {*data.split("train").names, *data.split("val").names} == expected
    assert "drawn here" in data.card.notes


def test_a_folder_of_no_class_is_named(tmp_path: Path, replicas: Any) -> None:
    replicas.writers["eurosat"](tmp_path)
    replicas.save(tmp_path / "2750" / "Desert" / "Desert_1.jpg", 3)
    with pytest.raises(DataError, match="'Desert' is none of the 10 classes"):
        load_task(vtab_task("eurosat"), tmp_path)


@pytest.mark.parametrize(
    ("task", "inside"),
    [
        ("caltech101", "caltech101"),
        ("clevr-count", "clevr"),
        ("dtd", "dtd"),
        ("pets", "oxford-iiit-pet"),
        ("camelyon", "pcam"),
        ("eurosat", "eurosat"),
        ("cifar100", ""),
        ("flowers102", ""),
        ("svhn", ""),
        ("sun397", ""),
    ],
)
def test_the_folders_that_torchvision_makes(task: str, inside: str, tmp_path: Path, replicas: Any) -> None:
    replicas.writers[task](tmp_path / inside)
    assert len(load_task(vtab_task(task), tmp_path).split("test")) > 0


def test_kitti_where_torchvision_puts_it(tmp_path: Path, replicas: Any) -> None:
    replicas.writers["kitti-distance"](tmp_path / "Kitti" / "raw")
    assert len(load_task(vtab_task("kitti-distance"), tmp_path).split("test")) > 0


def test_cifar_as_binary_files(tmp_path: Path, replicas: Any) -> None:
    truth = replicas.write_cifar100_binary(tmp_path)
    for split in load_task(vtab_task("cifar100"), tmp_path).splits.values():
        for i in range(len(split)):
            assert split.labels[i] == truth[replicas.value(split.open(i), "cifar100")]
    path = tmp_path / "cifar-100-binary" / "train.bin"
    path.write_bytes(path.read_bytes()[:-5])
    with pytest.raises(DataError, match="no whole number of images"):
        load_task(vtab_task("cifar100"), tmp_path)


def test_kitti_out_of_its_archives(tmp_path: Path, replicas: Any) -> None:
    truth = replicas.writers["kitti-distance"](tmp_path / "unpacked")
    packed = tmp_path / "packed"
    packed.mkdir()
    for name, folder in (
        ("data_object_image_2.zip", "training/image_2"),
        ("data_object_label_2.zip", "training/label_2"),
        ("devkit_object.zip", "mapping"),
    ):
        with zipfile.ZipFile(packed / name, "w") as archive:
            for path in sorted((tmp_path / "unpacked" / folder).iterdir()):
                archive.write(path, f"{folder}/{path.name}")
    one, other = (load_task(vtab_task("kitti-distance"), tmp_path / name) for name in ("unpacked", "packed"))
    for split in one.splits:
        assert list(one.split(split).names) == list(other.split(split).names)
        found = other.split(split)
        assert [truth[replicas.value(found.open(i), "")] for i in range(len(found))] == found.labels.tolist()
    (packed / "devkit_object.zip").write_bytes(b"not an archive")
    with pytest.raises(DataError, match=r"devkit_object\.zip cannot be read"):
        load_task(vtab_task("kitti-distance"), packed)


def test_a_cifar_pickle_that_would_run_code_is_refused(tmp_path: Path, replicas: Any) -> None:
    replicas.writers["cifar100"](tmp_path)

    class Evil:
        def __reduce__(self) -> tuple[Any, ...]:
            return os.system, ("echo gotcha",)

    (tmp_path / "cifar-100-python" / "train").write_bytes(pickle.dumps(Evil()))
    with pytest.raises(DataError, match="refused"):
        load_task(vtab_task("cifar100"), tmp_path)


def test_class_names_where_the_files_have_them(tmp_path: Path, replicas: Any) -> None:
    replicas.writers["cifar100"](tmp_path)
    replicas.writers["svhn"](tmp_path)
    assert load_task(vtab_task("cifar100"), tmp_path).class_names[42] == "name42"
    assert list(load_task(vtab_task("svhn"), tmp_path).class_names) == [str(d) for d in range(10)]


def test_packed_smallnorb(tmp_path: Path, replicas: Any) -> None:
    truth = replicas.write_smallnorb(tmp_path, task="azimuth", packed=True)
    data = load_task(vtab_task("smallnorb-azimuth"), tmp_path)
    split = data.split("val")
    assert [truth[replicas.value(split.open(i), "")] for i in range(len(split))] == split.labels.tolist()


def test_truncated_smallnorb_is_explained(tmp_path: Path, replicas: Any) -> None:
    replicas.write_smallnorb(tmp_path, task="azimuth", packed=False)
    path = tmp_path / "smallnorb-5x46789x9x18x6x2x96x96-training-dat.mat"
    path.write_bytes(path.read_bytes()[:-1000])
    with pytest.raises(DataError, match="cannot read"):
        load_task(vtab_task("smallnorb-azimuth"), tmp_path)
    path.write_bytes(b"not a matrix at all")
    with pytest.raises(DataError, match="begins with"):
        load_task(vtab_task("smallnorb-azimuth"), tmp_path)


def test_kitti_without_the_mapping_says_what_to_get(tmp_path: Path, replicas: Any) -> None:
    replicas.writers["kitti-distance"](tmp_path)
    (tmp_path / "mapping").rename(tmp_path / "elsewhere")
    with pytest.raises(DataError, match=r"devkit_object\.zip"):
        load_task(vtab_task("kitti-distance"), tmp_path)


def test_kitti_keeps_a_drive_together_and_draws_as_published() -> None:
    drives = [f"drive{i // 7:03d}" for i in range(400)]
    splits = split_by_drive(drives)
    owners = {split: {drives[i] for i in images} for split, images in splits.items()}
    assert not owners["train"] & owners["test"]
    assert not owners["train"] & owners["validation"]
    assert not owners["validation"] & owners["test"]
    # The published draw: NumPy's old global generator, seeded with 123, test first.
    state = np.random.RandomState(123)
    names = sorted(set(drives))
    expected = set(state.choice(names, 5, replace=False))
    assert owners["test"] == expected
    assert owners["validation"] == set(state.choice(sorted(set(names) - expected), 5, replace=False))


def test_sun397_by_its_published_lists(tmp_path: Path, replicas: Any) -> None:
    replicas.writers["sun397"](tmp_path)
    names = sorted(str(p.relative_to(tmp_path / "SUN397")) for p in (tmp_path / "SUN397").rglob("*.jpg"))
    for part, chosen in (("tr", names[:50]), ("va", names[50:60]), ("te", names[60:])):
        (tmp_path / f"sun397_tfds_{part}.txt").write_text("".join(f"/{name}\n" for name in chosen))
    data = load_task(vtab_task("sun397"), tmp_path, size="full")
    assert sorted(data.split("train").names) == names[:50]
    assert sorted(data.split("val").names) == names[50:60]
    (tmp_path / "sun397_tfds_va.txt").unlink()
    with pytest.raises(DataError, match=r"sun397_tfds_va.txt is not beside .*in the repository tensorflow/datasets"):
        load_task(vtab_task("sun397"), tmp_path)


def test_retinopathy_is_read_from_records_and_not_from_photographs(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="photographs, which TFDS prepares"):
        load_task(vtab_task("retinopathy"), tmp_path)


def test_packed_camelyon_says_to_unpack(tmp_path: Path) -> None:
    (tmp_path / "camelyonpatch_level_2_split_train_x.h5.gz").write_bytes(b"")
    with pytest.raises(DataError, match="unpack it first"):
        load_task(vtab_task("camelyon"), tmp_path)


def test_links_of_an_hdf5_file_are_not_followed(tmp_path: Path, replicas: Any) -> None:
    h5py = pytest.importorskip("h5py")
    replicas.writers["dsprites-location"](tmp_path)
    path = tmp_path / "dsprites_ndarray_co1sh3sc6or40x32y32_64x64.hdf5"
    shutil.copy(path, tmp_path / "other.hdf5")
    with h5py.File(path, "a") as file:
        del file["latents"]
        file["latents"] = h5py.ExternalLink("other.hdf5", "/latents")
    with pytest.raises(DataError, match="is in another file, which is not followed"):
        load_task(vtab_task("dsprites-location"), tmp_path)


def test_nothing_there_tells_all_ways_to_get_it(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"101_ObjectCategories.*data\.caltech\.edu.*UNSEEN_VTAB"):
        load_dataset("vtab:caltech101", root=tmp_path)


@pytest.mark.parametrize(
    ("task", "path", "line"),
    [
        ("dtd", "dtd/labels/test1.txt", "banded/../../../secret.jpg"),
        ("pets", "annotations/test.txt", "../../secret 1 1 1"),
        ("sun397", "sun397_tfds_te.txt", "/a/abbey/../../../secret.jpg"),
    ],
)
def test_lists_cannot_lead_out_of_their_folder(task: str, path: str, line: str, tmp_path: Path, replicas: Any) -> None:
    replicas.writers[task](tmp_path)
    (tmp_path / path).write_text(line + "\n")
    with pytest.raises(DataError, match=r"leads out of|none of the (47|397) classes"):
        load_task(vtab_task(task), tmp_path)
