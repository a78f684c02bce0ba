"""`features:FILE`: files of arrays as datasets, and refusals of damaged or mismatched files."""

from __future__ import annotations

import io
import mmap
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from unseen.cli import main
from unseen.core.errors import DataError, UnseenError
from unseen.data import load_dataset
from unseen.data.sources.features import FeatureDataset

rng = np.random.default_rng(0)
LABELS = np.repeat(np.arange(6), 10)
FEATURES = (LABELS[:, None] % np.arange(2, 10) + 0.1 * rng.normal(size=(60, 8))).astype(np.float32)
NAMES = np.array(["red fox", "barn owl", "crème brûlée", "river otter", "oak", "tulip"])
SPLIT = np.where(LABELS >= 4, "test_unseen", np.where(np.arange(60) % 10 < 8, "trainval", "test_seen"))
FULL: dict[str, Any] = {
    "features": FEATURES,
    "labels": LABELS,
    "class_names": NAMES,
    "attributes": rng.uniform(size=(6, 5)),
    "descriptions": np.array([[f"a {name}", "" if i else "with a tail"] for i, name in enumerate(NAMES)]),
    "split": SPLIT,
    "folds": np.eye(3, 6, dtype=int) + np.eye(3, 6, 1, dtype=int),
}
Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """`write("npz", labels=...)` writes the arrays with changes; None removes one."""

    def make(ending: str = "npz", **changes: Any) -> Path:
        arrays = {name: value for name, value in {**FULL, **changes}.items() if value is not None}
        path = tmp_path / f"own.{ending}"
        if ending == "npz":
            np.savez_compressed(path, **arrays)
        else:
            with h5py.File(path, "w") as file:
                for name, value in arrays.items():
                    text = np.asarray(value).dtype.kind == "U"
                    file.create_dataset(name, data=np.asarray(value, object) if text else value)
        return path

    return make


def load(path: Path, **options: Any) -> FeatureDataset:
    found = load_dataset(f"features:{path}", **options)
    assert isinstance(found, FeatureDataset)
    return found


@pytest.mark.parametrize("ending", ["npz", "h5"])
def test_every_array_of_the_layout_is_read(write: Write, ending: str) -> None:
    data = load(write(ending))
    assert list(data.class_names) == NAMES.tolist()
    assert {name: len(split) for name, split in data.splits.items()} == {
        "trainval": 32, "test_seen": 8, "test_unseen": 20,
    }  # fmt: skip
    rows = data.given_features["own"]()[data.split("test_unseen").feature_rows]
    np.testing.assert_array_equal(rows, FEATURES[SPLIT == "test_unseen"])
    np.testing.assert_array_equal(data.attributes, FULL["attributes"])
    assert data.descriptions[0] == ["a red fox", "with a tail"] and data.descriptions[2] == ["a crème brûlée"]
    assert [fold.val.tolist() for fold in data.folds] == [[0, 1], [1, 2], [2, 3]]
    assert data.folds[0].train.tolist() == [2, 3]


def test_an_npy_file_has_labels_beside_it(tmp_path: Path) -> None:
    np.save(tmp_path / "own.npy", FEATURES)
    np.save(tmp_path / "labels.npy", LABELS)
    (tmp_path / "labels.txt").write_text("\n".join(NAMES[LABELS]) + "\n", encoding="utf-8")
    numbered, named = (load(tmp_path / "own.npy", labels=str(tmp_path / f"labels.{kind}")) for kind in ("npy", "txt"))
    assert {name: len(split) for name, split in numbered.splits.items()} == {"train": 48, "test": 12}
    assert list(numbered.class_names) == list("012345") and sorted(NAMES) == list(named.class_names)
    with pytest.raises(DataError, match=r"no array 'labels'.*labels=FILE"):
        load(tmp_path / "own.npy")


def test_samples_keep_the_rows_of_their_images(write: Write) -> None:
    data = load(write(split=None, folds=None), per_class=3, seed=1)
    for split in data.splits.values():
        assert split.feature_rows is not None
        np.testing.assert_array_equal(LABELS[split.feature_rows], split.labels)
    joined = load_dataset(f"features:{write(split=None, folds=None)}?as=test").split("test")
    assert sorted(joined.feature_rows) == list(range(60))  # type: ignore[arg-type]


def test_the_revision_follows_the_content(write: Write) -> None:
    first = load(write()).revision
    assert load(write()).revision == first
    assert load(write(features=FEATURES + 1)).revision != first
    assert load(write(attributes=FULL["attributes"] + 1)).revision != first


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"features": None}, "no array 'features'"),
        ({"labels": None}, "no array 'labels'"),
        ({"labels": LABELS[:-1]}, "60 rows of features and 59 labels"),
        ({"features": FEATURES.T}, "axes of the features are swapped"),
        ({"labels": LABELS + 1}, "labels go from 1 to 6.*subtract 1"),
        ({"labels": np.array(["red foxx", *NAMES[LABELS[1:]]])}, "'red foxx'.*red fox"),
        ({"attributes": FULL["attributes"][:4]}, r"shape \(4, 5\) and there are 6 class names"),
        ({"class_names": NAMES[[0, 0, 1, 2, 3, 4]]}, "occurs twice"),
        ({"split": np.where(LABELS > 3, "tset", "train")}, "'tset'.*train, val, test are possible"),
        ({"split": np.where(np.arange(60) % 2, "test_unseen", "trainval")}, "test classes are not unseen"),
        ({"split": SPLIT[:-1]}, r"split has shape \(59,\)"),
        ({"folds": np.full((3, 6), 2)}, "folds must be 0 or 1"),
        ({"split": None}, "folds need a split"),
        ({"class_names": np.arange(6)}, "class_names must be texts"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("ending", ["npz", "h5"])
def test_arrays_that_do_not_belong_together(write: Write, changes: dict[str, Any], words: str, ending: str) -> None:
    with pytest.raises(DataError, match=f"(?s){words}"):
        load(write(ending, **changes))


def test_features_are_checked_when_they_are_read(write: Write) -> None:
    broken = FEATURES.copy()
    broken[7, 3] = np.nan
    with pytest.raises(DataError, match="not finite numbers, first in row 7"):
        load(write(features=broken)).given_features["own"]()
    with pytest.raises(DataError, match="must be numbers"):
        load(write(features=FEATURES.astype(str))).given_features["own"]()


def test_damaged_and_hostile_files(write: Write, tmp_path: Path) -> None:
    whole = write().read_bytes()
    for name, content in {
        "cut.npz": whole[: len(whole) // 2], "empty.npz": b"", "text.npz": b"features", "cut.npy": b"\x93NUMPY\x01",
        "flipped.npz": whole[:3000] + bytes(200) + whole[3200:], "text.h5": b"\x89HDF\r\n\x1a\n" + bytes(64),
    }.items():  # fmt: skip
        (tmp_path / name).write_bytes(content)
        with pytest.raises(UnseenError):
            load(tmp_path / name).given_features[name.partition(".")[0]]()
    np.savez(tmp_path / "pickle.npz", features=FEATURES, labels=np.array([{}] * 60, object))
    with pytest.raises(DataError, match=r"(?i)pickle"):
        load(tmp_path / "pickle.npz")
    stream = io.BytesIO()
    np.save(stream, np.zeros((60, 1 << 18), np.uint64))
    with zipfile.ZipFile(tmp_path / "bomb.npz", "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        archive.writestr("features.npy", stream.getvalue())
    with pytest.raises(DataError, match="no file of its size"):
        load(tmp_path / "bomb.npz")
    with pytest.raises(UnseenError, match=r"no such file|No such file"):
        load(tmp_path / "missing.npz")


def test_probe_and_rank_need_no_model(
    write: Write, home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two models in one file are two candidates."""
    noise = rng.normal(size=FEATURES.shape).astype(np.float32)
    own = {"split": None, "folds": None, "features": None, "features_clear": FEATURES, "features_noise": noise}
    path = write(**own)
    monkeypatch.chdir(path.parent)
    assert main(["probe", "own.npz", "--seeds", "1", "--home", str(home)]) == 0
    shown = capsys.readouterr().out
    assert "clear" in shown and "noise" in shown
    assert main(["rank", f"features:{path}", "--home", str(home)]) == 0
    assert "clear" in capsys.readouterr().out.splitlines()[-2]
    assert main(["probe", str(path), "--models", "features:cler", "--home", str(home)]) == 2
    assert "features:clear" in capsys.readouterr().err


def test_zsl_look_prints_the_interpretation(write: Write, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["zsl", "look", str(write(other=np.zeros(3))), "--home", str(home)]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    for words in (
        "features 60 x 8", "attributes 6 x 5", "ignored: other", "models features:own", "6 classes ('red fox' first)",
        "trainval 32, test_seen 8, test_unseen 20", "3 folds of classes", "1 to 2 descriptions per class",
    ):  # fmt: skip
        assert words in shown, words


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", ["stored npz", "compressed npz", "columns", "npy", "h5"])
def test_features_are_memory_mapped(tmp_path: Path, kind: str, dtype: type) -> None:
    rows, path = FEATURES.astype(dtype), tmp_path / f"own.{kind.rpartition(' ')[2]}"
    if kind == "npy":
        np.save(path, rows)
        np.save(tmp_path / "labels.npy", LABELS)
    elif kind == "h5":
        with h5py.File(path, "w") as file:
            file.create_dataset("features", data=rows, chunks=(7, 3), compression="gzip")
            file.create_dataset("labels", data=LABELS)
    else:
        path = tmp_path / "own.npz"
        rows = np.asfortranarray(rows) if kind == "columns" else rows
        (np.savez_compressed if kind.startswith("compressed") else np.savez)(path, features=rows, labels=LABELS)
    name = f"features:{path}" + (f"?labels={tmp_path}/labels.npy" if kind == "npy" else "")
    found = load_dataset(name).given_features["own"]()  # type: ignore[attr-defined]
    np.testing.assert_array_equal(found, rows)
    base: Any = found
    while isinstance(base, np.ndarray):
        assert not base.flags.writeable
        base = base.base
    assert isinstance(base, mmap.mmap)


MEMORY = """
import resource, sys
import numpy as np
from pathlib import Path
from unseen.benchmarks.workbench import Workbench
from unseen.benchmarks.zsl.protocol import ZslBenchmark
from unseen.zeroshot.protocol import evaluate_method

name = f"features:{sys.argv[1]}"
bench, options = Workbench(Path(sys.argv[2])), ZslBenchmark(methods=("SAE",), split="PS")
import unseen.zeroshot.protocol as protocol
protocol._BLOCK_FEATURES = 1_000_000
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
problem = options.assemble(options.inputs(bench, "features:large", name))[0]
found = evaluate_method("SAE", problem, grid=[{"lam": 1.0}])
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before, len(problem.test_unseen))
"""


@pytest.mark.slow
def test_test_images_are_not_loaded_as_a_whole(tmp_path: Path) -> None:
    """256 MB of features, of which 2 MB are of seen classes, take less than half of that with the libraries."""
    labels = np.concatenate([np.repeat(np.arange(8), 60), np.repeat(np.arange(8, 12), 15_880)])
    features = np.random.default_rng(0).random((len(labels), 1000), np.float32)
    split = np.where(labels >= 8, "test_unseen", "trainval")
    attributes = np.random.default_rng(1).random((12, 5))
    np.savez(tmp_path / "large.npz", features=features, labels=labels, split=split, attributes=attributes)
    command = [sys.executable, "-c", MEMORY, str(tmp_path / "large.npz"), str(tmp_path)]
    grown, tested = map(int, subprocess.run(command, capture_output=True, check=True, text=True).stdout.split())
    assert tested == 63_520
    assert grown < 127_000, f"{grown:,} kB"
