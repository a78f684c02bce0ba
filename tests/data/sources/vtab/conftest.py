"""Small replicas of the datasets, written in the formats in which they are shipped.

Every picture is of one grey, which tells which annotation it belongs to: so a test can check that image and label still
belong together after all reading, shuffling and cutting.
"""

from __future__ import annotations

import gzip
import io
import json
import pickle
import shutil
import struct
import tarfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from PIL import Image
from scipy.io import savemat

from unseen.core.wire import masked_crc32c

#: From the grey of a picture to the class that it should get.
Truth = dict[int, int]
Writer = Callable[[Path], Truth]

#: Depths with every bound of CLEVR's bins, a little below and a little above, and the class each belongs to.
CLEVR_DEPTHS = (
    *((0.5, 0), (8.0, 0), (8.0001, 1), (8.5, 1), (8.5001, 2), (9.0, 2), (9.0001, 3)),
    *((9.5, 3), (9.5001, 4), (10.0, 4), (10.0001, 5), (99.0, 5)),
)
#: The same for KITTI; None is a street without a vehicle.
KITTI_DEPTHS = ((-3.0, 0), (2.0, 0), (8.0, 0), (8.001, 1), (20.0, 1), (20.001, 2), (80.0, 2), (None, 3))


def grey(value: int, size: int = 16) -> Image.Image:
    return Image.new("RGB", (size, size), (value, value, value))


def save(path: Path, value: int, size: int = 16) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    grey(value, size).save(path, quality=100) if path.suffix != ".png" else grey(value, size).save(path)


def class_folders(root: Path, classes: Mapping[str, int], per_class: int, extension: str = ".jpg") -> Truth:
    """Folders of some of the classes; the number of a class does not depend on which others are there."""
    truth: Truth = {}
    for name, label in classes.items():
        for number in range(per_class):
            value = len(truth)
            save(root / name / f"image_{number:04d}{extension}", value)
            truth[value] = label
    return truth


def write_caltech101(root: Path) -> Truth:
    (root / "101_ObjectCategories" / "notes.txt").parent.mkdir(parents=True)
    return class_folders(
        root / "101_ObjectCategories", {"accordion": 0, "BACKGROUND_Google": 4, "Faces": 37, "yin_yang": 101}, 40
    )


def write_eurosat(root: Path) -> Truth:
    return class_folders(root / "2750", {"AnnualCrop": 0, "Forest": 1, "SeaLake": 9}, 20)


def write_resisc45(root: Path) -> Truth:
    return class_folders(root / "NWPU-RESISC45", {"airplane": 0, "airport": 1, "wetland": 44}, 20)


def write_sun397(root: Path) -> Truth:
    truth: Truth = {}
    for label, name in ((0, "a/abbey"), (2, "a/airport_terminal"), (94, "c/church/indoor"), (95, "c/church/outdoor")):
        for number in range(20):
            value = len(truth)
            save(root / "SUN397" / name / f"sun_{number:04d}.jpg", value)
            part = ("tr", "va", "te")[number % 3]
            with (root / f"sun397_tfds_{part}.txt").open("a") as lines:
                lines.write(f"/{name}/sun_{number:04d}.jpg\n")
            truth[value] = label
    return truth


def write_cifar100(root: Path) -> Truth:
    folder, truth = root / "cifar-100-python", {}
    folder.mkdir(parents=True)
    for split, count, first in (("train", 40, 0), ("test", 10, 40)):
        values = np.arange(first, first + count)
        labels = (values * 7 % 100).tolist()
        rows = np.repeat(values[:, None], 3072, axis=1).astype(np.uint8)
        content = {
            b"data": rows,
            b"fine_labels": labels,
            b"coarse_labels": [0] * count,
            b"filenames": [b"x.png"] * count,
        }
        (folder / split).write_bytes(pickle.dumps(content, protocol=2))
        truth |= dict(zip(values.tolist(), labels, strict=True))
    names = [f"name{k}".encode() for k in range(100)]
    (folder / "meta").write_bytes(pickle.dumps({b"fine_label_names": names}, protocol=2))
    return truth


def write_cifar100_binary(root: Path) -> Truth:
    truth: Truth = {}
    (root / "cifar-100-binary").mkdir(parents=True)
    for split, count, first in (("train", 40, 0), ("test", 10, 40)):
        values = np.arange(first, first + count)
        rows = np.repeat(values[:, None], 3074, axis=1).astype(np.uint8)
        rows[:, 0], rows[:, 1] = 7, values * 3 % 100  # the coarse label must not be read
        (root / "cifar-100-binary" / f"{split}.bin").write_bytes(rows.tobytes())
        truth |= dict(zip(values.tolist(), (values * 3 % 100).tolist(), strict=True))
    return truth


def write_svhn(root: Path) -> Truth:
    truth: Truth = {}
    root.mkdir(parents=True, exist_ok=True)
    for split, count, first in (("train", 40, 0), ("test", 12, 40)):
        values = np.arange(first, first + count)
        digits = values % 10
        stored = np.where(digits == 0, 10, digits)  # the digit 0 is class 10 in the file
        images = np.broadcast_to(values.astype(np.uint8), (32, 32, 3, count))
        savemat(root / f"{split}_32x32.mat", {"X": images, "y": stored[:, None].astype(np.uint8)}, do_compression=True)
        truth |= dict(zip(values.tolist(), digits.tolist(), strict=True))
    return truth


def write_dtd(root: Path) -> Truth:
    truth: Truth = {}
    lists: dict[str, list[str]] = {"train1": [], "val1": [], "test1": []}
    for label, name in ((0, "banded"), (3, "bubbly"), (46, "zigzagged")):
        for number in range(12):
            value = len(truth)
            save(root / "dtd" / "images" / name / f"{name}_{number:04d}.jpg", value)
            lists[("train1", "val1", "test1")[number % 3]].append(f"{name}/{name}_{number:04d}.jpg")
            truth[value] = label
    (root / "dtd" / "labels").mkdir()
    for name, lines in lists.items():
        (root / "dtd" / "labels" / f"{name}.txt").write_text("\n".join(lines) + "\n")
    return truth


def write_flowers102(root: Path) -> Truth:
    count = 30
    labels = np.arange(count) % 102 + 1
    truth: Truth = {}
    for number in range(1, count + 1):
        save(root / "flowers-102" / "jpg" / f"image_{number:05d}.jpg", number)
        truth[number] = int(labels[number - 1]) - 1
    numbers = np.random.default_rng(0).permutation(count) + 1
    sets = {"trnid": numbers[:10][None], "valid": numbers[10:15][None], "tstid": numbers[15:][None]}
    savemat(root / "flowers-102" / "setid.mat", sets)
    savemat(root / "flowers-102" / "imagelabels.mat", {"labels": labels[None].astype(np.uint8)})
    return truth


def write_pets(root: Path) -> Truth:
    truth: Truth = {}
    breeds = ["Abyssinian", "american_bulldog", "Yorkshire_terrier"]
    lines: dict[str, list[str]] = {"trainval": [], "test": []}
    for label, breed in enumerate(breeds):
        for number in range(15):
            value = len(truth)
            save(root / "images" / f"{breed}_{number}.jpg", value)
            lines["trainval" if number < 10 else "test"].append(f"{breed}_{number} {label + 1} 1 1")
            truth[value] = label
    (root / "annotations").mkdir()
    (root / "annotations" / "trainval.txt").write_text(
        "#Image CLASS-ID SPECIES BREED ID\n" + "\n".join(lines["trainval"])
    )
    (root / "annotations" / "test.txt").write_text("\n".join(lines["test"]) + "\n")
    return truth


def write_camelyon(root: Path) -> Truth:
    truth: Truth = {}
    root.mkdir(parents=True, exist_ok=True)
    first = 0
    for split, count in (("train", 12), ("valid", 6), ("test", 8)):
        values = np.arange(first, first + count)
        labels = values % 2
        with h5py.File(root / f"camelyonpatch_level_2_split_{split}_x.h5", "w") as file:
            file["x"] = np.broadcast_to(values[:, None, None, None], (count, 96, 96, 3)).astype(np.uint8)
        with h5py.File(root / f"camelyonpatch_level_2_split_{split}_y.h5", "w") as file:
            file["y"] = labels.reshape(count, 1, 1, 1).astype(np.uint8)
        truth |= dict(zip(values.tolist(), labels.tolist(), strict=True))
        first += count
    return truth


def write_clevr(root: Path, *, task: str) -> Truth:
    truth: Truth = {}
    for short in ("train", "val"):
        scenes = []
        for number in range(24):
            depth, bin_ = CLEVR_DEPTHS[number % len(CLEVR_DEPTHS)]
            count = 3 + number % 8
            value = len(truth)
            name = f"CLEVR_{short}_{number:06d}.png"
            save(root / "CLEVR_v1.0" / "images" / short / name, value)
            depths = [depth, *(depth + 0.7 * k for k in range(1, count))]
            objects = [{"pixel_coords": [10, 20, d], "shape": "cube", "size": "small"} for d in depths[::-1]]
            scenes.append({"image_filename": name, "image_index": number, "split": short, "objects": objects})
            truth[value] = bin_ if task == "distance" else count - 3
        path = root / "CLEVR_v1.0" / "scenes" / f"CLEVR_{short}_scenes.json"
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps({"info": {}, "scenes": scenes}))
    return truth


def write_dsprites(root: Path, *, task: str) -> Truth:
    """Every orientation and position; one lit pixel row per picture tells which it is."""
    classes = np.zeros((80, 6), np.int64)
    classes[:, 3], classes[:, 4] = np.arange(80) % 40, np.arange(80) % 32
    images = np.zeros((80, 64, 64), np.uint8)
    for number in range(80):
        images[number].reshape(-1)[: 4 * number + 4] = 1  # as many lit pixels as its number says
    root.mkdir(parents=True, exist_ok=True)
    path = root / "dsprites_ndarray_co1sh3sc6or40x32y32_64x64"
    with h5py.File(path.with_suffix(".hdf5"), "w") as file:
        file.create_dataset("imgs", data=images)
        file.create_dataset("latents/classes", data=classes)
    of = (lambda o, x: x // 2) if task == "location" else (lambda o, x: int(o / 2.5))
    return {number: of(int(classes[number, 3]), int(classes[number, 4])) for number in range(80)}


def write_kitti(root: Path) -> Truth:
    truth: Truth = {}
    lines, order = [], []
    for number in range(48):
        depth, label = KITTI_DEPTHS[number % len(KITTI_DEPTHS)]
        save(root / "training" / "image_2" / f"{number:06d}.png", number)
        person = "Pedestrian 0.00 0 -0.20 712.40 143.00 810.73 307.92 1.89 0.48 1.20 1.84 1.47 1.41 0.01"
        rest = "DontCare -1 -1 -10 503.89 169.71 590.61 190.13 -1 -1 -1 -1000 -1000 -1000 -10"
        rows = [person, rest]
        if depth is not None:
            for kind, z in (("Van", depth + 9), (("Car", "Truck", "Van")[number % 3], depth)):
                rows.append(f"{kind} 0.00 0 1.85 387.63 181.54 423.81 203.12 1.67 1.87 3.69 -16.53 2.39 {z} 1.57")
        path = root / "training" / "label_2" / f"{number:06d}.txt"
        path.parent.mkdir(exist_ok=True)
        path.write_text("\n".join(rows) + "\n")
        truth[number] = label
        order.append(number + 1)
        lines.append(f"2011_09_26 2011_09_26_drive_{number // 4:04d}_sync {number:010d}")
    (root / "mapping").mkdir()
    (root / "mapping" / "train_rand.txt").write_text(",".join(map(str, order)) + "\n")
    (root / "mapping" / "train_mapping.txt").write_text("\n".join(lines) + "\n")
    return truth


def write_smallnorb(root: Path, *, task: str, packed: bool = False) -> Truth:
    truth: Truth = {}
    root.mkdir(parents=True, exist_ok=True)
    for stem, count in (
        ("smallnorb-5x46789x9x18x6x2x96x96-training", 36),
        ("smallnorb-5x01235x9x18x6x2x96x96-testing", 40),
    ):
        values = np.arange(len(truth), len(truth) + count)
        pairs = np.empty((count, 2, 96, 96), np.uint8)
        pairs[:, 0], pairs[:, 1] = values[:, None, None], 255  # the second camera must not be read
        info = np.column_stack([values % 10, values % 9, 2 * (values % 18), values % 6]).astype("<i4")
        for name, magic, array in (
            ("dat", 0x1E3D4C55, pairs),
            ("cat", 0x1E3D4C54, (values % 5).astype("<i4")),
            ("info", 0x1E3D4C54, info),
        ):
            sizes = [*array.shape, *[1] * max(0, 3 - array.ndim)]
            data = struct.pack(f"<ii{len(sizes)}i", magic, array.ndim, *sizes) + array.tobytes()
            path = root / f"{stem}-{name}.mat"
            if packed:
                path.with_name(path.name + ".gz").write_bytes(gzip.compress(data))
            else:
                path.write_bytes(data)
        truth |= {int(v): int(v % (18 if task == "azimuth" else 9)) for v in values}
    return truth


def record(data: bytes) -> bytes:
    head = struct.pack("<Q", len(data))
    return head + struct.pack("<I", masked_crc32c(head)) + data + struct.pack("<I", masked_crc32c(data))


def example(features: Mapping[str, Any]) -> bytes:
    """A tf.train.Example, made by Google's own protobuf library from the message definition."""
    message = _example_class()()
    for name, value in features.items():
        feature = message.features.feature[name]
        if isinstance(value, bytes):
            feature.bytes_list.value.append(value)
        elif np.asarray(value).dtype.kind == "f":
            feature.float_list.value.extend(np.asarray(value, np.float32).reshape(-1).tolist())
        else:
            feature.int64_list.value.extend(np.asarray(value, np.int64).reshape(-1).tolist())
    data: bytes = message.SerializeToString()
    return data


def _example_class() -> Any:
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    field = descriptor_pb2.FieldDescriptorProto
    pool = descriptor_pool.DescriptorPool()
    file = descriptor_pb2.FileDescriptorProto(name="example.proto", package="t", syntax="proto3")
    for name, kind in (
        ("BytesList", field.TYPE_BYTES),
        ("FloatList", field.TYPE_FLOAT),
        ("Int64List", field.TYPE_INT64),
    ):
        file.message_type.add(name=name).field.add(name="value", number=1, type=kind, label=field.LABEL_REPEATED)
    feature = file.message_type.add(name="Feature")
    feature.oneof_decl.add(name="kind")
    for number, name in enumerate(("BytesList", "FloatList", "Int64List"), 1):
        feature.field.add(
            name=name.lower().replace("list", "_list"),
            number=number,
            type=field.TYPE_MESSAGE,
            type_name=f".t.{name}",
            label=field.LABEL_OPTIONAL,
            oneof_index=0,
        )
    features = file.message_type.add(name="Features")
    entry = features.nested_type.add(name="FeatureEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, type=field.TYPE_STRING, label=field.LABEL_OPTIONAL)
    entry.field.add(name="value", number=2, type=field.TYPE_MESSAGE, type_name=".t.Feature", label=field.LABEL_OPTIONAL)
    features.field.add(
        name="feature",
        number=1,
        type=field.TYPE_MESSAGE,
        type_name=".t.Features.FeatureEntry",
        label=field.LABEL_REPEATED,
    )
    whole = file.message_type.add(name="Example")
    whole.field.add(
        name="features", number=1, type=field.TYPE_MESSAGE, type_name=".t.Features", label=field.LABEL_OPTIONAL
    )
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("t.Example"))


def encoded(image: Image.Image, form: str = "png") -> bytes:
    stream = io.BytesIO()
    image.save(stream, form)
    return stream.getvalue()


def write_dmlab(root: Path) -> Truth:
    truth: Truth = {}
    root.mkdir(parents=True, exist_ok=True)
    for split, count in (("train", 20), ("validation", 10), ("test", 10)):
        for shard in range(2):
            data = b""
            for _ in range(count // 2):
                value = len(truth)
                image = encoded(Image.new("RGB", (48, 36), (value,) * 3), "jpeg")
                data += record(example({"image": image, "filename": b"f", "label": value % 6}))
                truth[value] = value % 6
            (root / f"dmlab-{split}.tfrecord-{shard:05d}-of-00002").write_bytes(data)
    return truth


#: Task to the writer of its replica.
WRITERS: dict[str, Writer] = {
    "caltech101": write_caltech101,
    "cifar100": write_cifar100,
    "dtd": write_dtd,
    "flowers102": write_flowers102,
    "pets": write_pets,
    "sun397": write_sun397,
    "svhn": write_svhn,
    "camelyon": write_camelyon,
    "eurosat": write_eurosat,
    "resisc45": write_resisc45,
    "clevr-count": lambda root: write_clevr(root, task="count"),
    "clevr-distance": lambda root: write_clevr(root, task="distance"),
    "dmlab": write_dmlab,
    "dsprites-location": lambda root: write_dsprites(root, task="location"),
    "dsprites-orientation": lambda root: write_dsprites(root, task="orientation"),
    "kitti-distance": write_kitti,
    "smallnorb-azimuth": lambda root: write_smallnorb(root, task="azimuth"),
    "smallnorb-elevation": lambda root: write_smallnorb(root, task="elevation"),
}


class Replicas:
    """What the tests need of this file."""

    writers = WRITERS
    clevr_depths = CLEVR_DEPTHS
    kitti_depths = KITTI_DEPTHS
    write_cifar100_binary = staticmethod(write_cifar100_binary)
    write_smallnorb = staticmethod(write_smallnorb)
    record = staticmethod(record)
    example = staticmethod(example)
    encoded = staticmethod(encoded)
    grey = staticmethod(grey)
    save = staticmethod(save)

    @staticmethod
    def value(image: Image.Image, task: str) -> int:
        """Which annotation a picture of a replica belongs to."""
        pixels = np.asarray(image.convert("RGB"))
        if task.startswith("dsprites"):
            assert set(np.unique(pixels)) <= {0, 255}
            return int((pixels[..., 0] > 0).sum()) // 4 - 1
        return round(float(pixels.mean()))


@pytest.fixture(scope="session")
def records(golden_data: Path) -> Path:
    """TFDS records of 14 datasets, written by TFDS' own builders from its fake data."""
    return golden_data / "tfds" / "records"


@pytest.fixture(scope="session")
def originals(golden_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The fakes themselves, in the layout of each dataset; two that come packed are unpacked."""
    root = tmp_path_factory.mktemp("originals")
    for folder in (golden_data / "tfds" / "originals").iterdir():
        if folder.name not in ("sun397", "caltech101"):
            (root / folder.name).symlink_to(folder)
    source = golden_data / "tfds" / "originals"
    shutil.copytree(source / "sun397", root / "sun397", copy_function=shutil.copyfile)
    (root / "sun397").chmod(0o755)
    with tarfile.open(root / "sun397" / "SUN397.tar.gz") as archive:
        members = [member for member in archive if member.name.strip("/")]
        archive.extractall(root / "sun397", members, filter="data")
    with tarfile.open(source / "caltech101" / "caltech-101" / "101_ObjectCategories.tar.gz") as archive:
        archive.extractall(root / "caltech101", filter="data")
    (root / "caltech101" / "3_ObjectCategories").rename(root / "caltech101" / "101_ObjectCategories")
    return root


@pytest.fixture(scope="session")
def replicas() -> type[Replicas]:
    return Replicas
