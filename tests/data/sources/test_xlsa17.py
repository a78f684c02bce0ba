"""The xlsa17 release: real splits against Table 1 of the paper, both MATLAB formats, and rubbish."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from PIL import Image
from scipy.io import savemat

from unseen.benchmarks.zsl.published import KNOWN_SPLITS, table
from unseen.core.errors import DataError, UsageError
from unseen.data import load_dataset
from unseen.data.matlab import read_matlab
from unseen.data.sources.features import FeatureDataset
from unseen.data.sources.xlsa17 import NAMES
from unseen.data.sources.xlsa17.splits import read_attribute_splits, read_classes, read_folds, standard_split

CLASSES = [f"{i:03d}.bird" for i in range(8)]
Write = Callable[..., Path]


def content() -> dict[str, dict[str, Any]]:
    """Eight classes of six images: the first six are seen, four images of each for training and two for testing."""
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(1, 9), 6)
    place = np.tile(np.arange(6), 8)
    seen = labels <= 6
    files = np.array([[f"/somewhere/else/{CLASSES[c - 1]}/{i}.png"] for i, c in enumerate(labels)], dtype=object)
    return {
        "res101": {
            "features": rng.random((5, 48)).astype(np.float32),
            "labels": labels[:, None].astype(np.uint8),
            "image_files": files,
        },
        "att_splits": {
            "att": rng.random((4, 8)),
            "allclasses_names": np.array([[name] for name in CLASSES], dtype=object),
            "trainval_loc": np.flatnonzero(seen & (place < 4))[:, None] + 1,
            "test_seen_loc": np.flatnonzero(seen & (place >= 4))[:, None] + 1,
            "test_unseen_loc": np.flatnonzero(~seen)[:, None] + 1,
        },
    }


def write_hdf5(path: Path, variables: dict[str, Any]) -> None:
    """As MATLAB 7.3 does: axes reversed, cells as references to arrays of UTF-16 codes, 512 bytes of text first."""
    with h5py.File(path, "w", userblock_size=512) as file:
        for name, value in variables.items():
            if value.dtype == object:
                cells = file.create_dataset(name, value.T.shape, h5py.ref_dtype)
                for index, text in np.ndenumerate(value.T):
                    codes = np.array([[ord(c)] for c in text], np.uint16)
                    inner = file.create_dataset(f"#refs#/{name}{'_'.join(map(str, index))}", data=codes)
                    cells[index] = inner.ref
            else:
                file.create_dataset(name, data=value.T)
    head = b"MATLAB 7.3 MAT-file, Platform: GLNXA64".ljust(512, b" ")
    with path.open("r+b") as stream:
        stream.write(head)


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Writes a release and gives its root; `write(att_splits={...}, res101={...})` replaces variables."""

    def make(modern: bool = False, lists: dict[str, list[str]] | None = None, **changes: dict[str, Any]) -> Path:
        folder = tmp_path / "xlsa17" / "CUB"
        folder.mkdir(parents=True, exist_ok=True)
        for file, variables in content().items():
            kept = {k: v for k, v in {**variables, **changes.get(file, {})}.items() if v is not None}
            (write_hdf5 if modern else savemat)(folder / f"{file}.mat", kept)
        names = {
            "testclasses": CLASSES[6:],
            "trainvalclasses": CLASSES[:6],
            **{f"trainclasses{n}": [c for c in CLASSES[:6] if c not in CLASSES[2 * n - 2 : 2 * n]] for n in (1, 2, 3)},
            **{f"valclasses{n}": CLASSES[2 * n - 2 : 2 * n] for n in (1, 2, 3)},
        }
        for name, classes in {**names, **(lists or {})}.items():
            (folder / f"{name}.txt").write_text("\n".join(classes) + "\n")
        return tmp_path / "xlsa17"

    return make


def load(root: Path, **options: Any) -> FeatureDataset:
    loaded = load_dataset("xlsa17:CUB", root=str(root), **options)
    assert isinstance(loaded, FeatureDataset)
    return loaded


@pytest.mark.parametrize("name", NAMES)
def test_the_real_splits_have_the_counts_of_table_1(golden_data: Path, name: str) -> None:
    folder = golden_data / "gbu" / name
    splits = read_attribute_splits(folder / "att_splits.mat")
    row = "aPY" if name == "APY" else name
    wanted = {column: int(table(1).value(row, column) or 0) for column in table(1).columns}
    assert splits.attributes.shape == (wanted["classes"], wanted["attributes"])
    assert splits.images == wanted["images"]
    assert len(splits.locs["trainval"]) == wanted["ps_train"]
    assert len(splits.locs["test_seen"]) == wanted["ps_test_seen"]
    assert len(splits.locs["test_unseen"]) == wanted["ps_test_unseen"]
    np.testing.assert_allclose(np.linalg.norm(splits.attributes, axis=1), 1, rtol=1e-6)
    unseen = read_classes(folder / "testclasses.txt", splits.class_names)
    assert len(unseen) == wanted["test_classes"]
    folds = read_folds(folder, splits.class_names, read_classes(folder / "trainvalclasses.txt", splits.class_names))
    assert [len(f.train) for f in folds] == [wanted["train_classes"]] * 3
    assert [len(f.val) for f in folds] == [wanted["val_classes"]] * 3
    # SS has the same total: what it trains and tests on adds up to all images.
    assert wanted["ss_train"] + wanted["ss_test"] == splits.images


@pytest.mark.parametrize("name", NAMES)
def test_the_real_splits_load_as_datasets(golden_data: Path, tmp_path: Path, name: str) -> None:
    """The labels are not in the file: any that the splits allow will do."""
    real = golden_data / "gbu" / name
    splits = read_attribute_splits(real / "att_splits.mat")
    folder = tmp_path / name
    folder.mkdir()
    for file in real.iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
    labels = np.zeros(splits.images, np.int64)
    seen = read_classes(real / "trainvalclasses.txt", splits.class_names)
    unseen = read_classes(real / "testclasses.txt", splits.class_names)
    for loc, classes in (("trainval", seen), ("test_seen", seen), ("test_unseen", unseen)):
        labels[splits.locs[loc]] = np.resize(classes, len(splits.locs[loc]))
    features = np.random.default_rng(0).random((3, splits.images)).astype(np.float32)
    savemat(folder / "res101.mat", {"features": features, "labels": labels[:, None] + 1})
    loaded = load_dataset(f"xlsa17:{name}", root=str(tmp_path))
    assert isinstance(loaded, FeatureDataset)
    assert {split: len(part) for split, part in loaded.splits.items()} == {k: len(v) for k, v in splits.locs.items()}
    given = loaded.given_features["res101"]()[loaded.split("test_unseen").feature_rows]
    np.testing.assert_array_equal(given, features.T[splits.locs["test_unseen"]])


@pytest.mark.parametrize("modern", [False, True], ids=["v5", "v7.3"])
def test_both_formats_say_the_same(write: Write, modern: bool) -> None:
    data = load(write(modern=modern))
    assert list(data.class_names) == CLASSES
    assert {name: len(split) for name, split in data.splits.items()} == {
        "trainval": 24,
        "test_seen": 12,
        "test_unseen": 12,
    }
    np.testing.assert_allclose(data.attributes, content()["att_splits"]["att"].T)
    features = content()["res101"]["features"].T
    np.testing.assert_array_equal(
        data.given_features["res101"]()[data.split("trainval").feature_rows],
        features[[i for i in range(36) if i % 6 < 4]],
    )
    assert data.split("test_unseen").labels.tolist() == [6] * 6 + [7] * 6
    assert [fold.val.tolist() for fold in data.folds] == [[0, 1], [2, 3], [4, 5]]
    assert data.split("trainval").names[0] == "/somewhere/else/000.bird/0.png"


def test_the_standard_split_goes_by_classes(write: Write) -> None:
    root = write()
    lists = root / "standard_split" / "CUB"
    lists.mkdir(parents=True)
    for file in (root / "CUB").glob("*classes*.txt"):
        (lists / file.name).write_text(file.read_text())
    data = load(root, split="SS")
    assert {name: len(split) for name, split in data.splits.items()} == {"trainval": 36, "test_unseen": 12}
    assert data.protocol == "SS"


@pytest.mark.parametrize("name", NAMES)
def test_the_standard_split_comes_with_the_package(golden_data: Path, name: str) -> None:
    """Counts of Table 1; on AWA1 the real labels give its images too, and each list is of classes that there are."""
    row = "aPY" if name == "APY" else name
    splits = read_attribute_splits(golden_data / "gbu" / name / "att_splits.mat")
    classes = len(splits.class_names)
    test, folds = standard_split(name, splits.class_names, Path("none"))
    assert len(test) == table(1).value(row, "test_classes")
    for fold in folds:
        assert np.array_equal(np.union1d(fold.train, fold.val), np.setdiff1d(np.arange(classes), test))
        assert not np.intersect1d(fold.train, fold.val).size
    if name == "AWA1":
        with np.load(golden_data / "gbu" / "AWA1" / "lampert2009_256d.npz") as stored:
            labels = stored["labels"].astype(np.int64) - 1
        tested = np.isin(labels, test)
        assert (~tested).sum() == table(1).value("AWA1", "ss_train")
        assert tested.sum() == table(1).value("AWA1", "ss_test")
    assert splits.digest == KNOWN_SPLITS[row]


def test_the_standard_split_says_what_it_needs(write: Write) -> None:
    with pytest.raises(DataError, match="standard_split/CUB"):
        load(write(), split="SS")


def test_images_are_found_below_any_folder(write: Write, tmp_path: Path) -> None:
    root = write()
    with pytest.raises(DataError, match="images=FOLDER"):
        load(root).split("trainval").open(0)
    for i in range(48):
        file = tmp_path / "photos" / CLASSES[i // 6] / f"{i}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (2, 2), (i, 0, 0)).save(file)
    data = load(root, images=str(tmp_path / "photos"))
    assert data.split("test_unseen").open(0).getpixel((0, 0)) == (36, 0, 0)
    with pytest.raises(DataError, match="does not hold"):
        load(root, images=str(tmp_path))


ATT, RES = content()["att_splits"], content()["res101"]
RUBBISH = [
    ("swapped attributes", {"att_splits": {"att": ATT["att"].T}}, "axes are swapped"),
    ("swapped features", {"res101": {"features": RES["features"].T}}, "axes of the features are swapped"),
    ("locs from 0", {"att_splits": {"trainval_loc": ATT["trainval_loc"] - 1}}, "count images from 1"),
    ("shared locs", {"att_splits": {"test_seen_loc": ATT["trainval_loc"][:12]}}, "disjoint"),
    ("a gap", {"att_splits": {"test_unseen_loc": ATT["test_unseen_loc"] + 1}}, "1..N"),
    ("another class count", {"att_splits": {"att": np.ones((4, 7))}}, "do not belong together"),
    ("no variable", {"att_splits": {"test_seen_loc": None}}, "no variable 'test_seen_loc'"),
    ("features missing", {"res101": {"features": np.full((5, 48), np.nan, np.float32)}}, "not finite numbers"),
    ("labels from 0", {"res101": {"labels": RES["labels"] - 1}}, "labels from 0 to 7"),
    ("a class with no image", {"res101": {"labels": np.where(RES["labels"] == 3, 4, RES["labels"])}}, "no image"),
    ("a trained test class", {"res101": {"labels": np.r_[[[8]], RES["labels"][1:]]}}, "not unseen"),
    ("too few labels", {"res101": {"labels": RES["labels"][:-1], "image_files": None}}, "47 images"),
]


@pytest.mark.parametrize("modern", [False, True], ids=["v5", "v7.3"])
@pytest.mark.parametrize(("changes", "said"), [case[1:] for case in RUBBISH], ids=[case[0] for case in RUBBISH])
def test_rubbish_in(write: Write, changes: dict[str, Any], said: str, modern: bool) -> None:
    root = write(modern=modern, **changes)
    with pytest.raises(DataError, match=said):
        load(root).given_features["res101"]()


@pytest.mark.parametrize("modern", [False, True], ids=["v5", "v7.3"])
def test_a_file_that_was_cut_short(write: Write, modern: bool) -> None:
    root = write(modern=modern)
    path = root / "CUB" / "att_splits.mat"
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(DataError, match=r"cut short|truncated"):
        load(root)


def test_class_lists_are_checked(write: Write) -> None:
    with pytest.raises(DataError, match="not among the 8 class names"):
        load(write(lists={"valclasses1": ["eagle"]}))
    with pytest.raises(DataError, match=r"valclasses2.*not a training class"):
        load(write(lists={"valclasses2": CLASSES[5:7]}))


def test_names_and_folders(write: Write, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="AWA1"):
        load_dataset("xlsa17:AWA3", root=str(tmp_path))
    with pytest.raises(DataError, match="UNSEEN_XLSA17"):
        load_dataset("xlsa17:CUB", root=str(tmp_path / "nowhere"))
    root = write()
    (root / "CUB" / "res101.mat").unlink()
    with pytest.raises(DataError, match=r"no .*res101.mat"):
        load(root)


def test_structures_are_refused(tmp_path: Path) -> None:
    savemat(tmp_path / "a.mat", {"att": {"field": 1}})
    with pytest.raises(DataError, match="is a struct"):
        read_matlab(tmp_path / "a.mat", ("att",))
    with h5py.File(tmp_path / "b.mat", "w") as file:
        file.create_group("att")
    with pytest.raises(DataError, match="structure"):
        read_matlab(tmp_path / "b.mat", ("att",))
