"""Python, a `features:` dataset and `xlsa17` give the same numbers for the same arrays, with every method."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.io import savemat

import unseen
from unseen.cli import main
from unseen.results import FILE_NAME, ResultsDatabase
from unseen.zeroshot.catalogue import BUILT_IN

CLASSES = [
    "adder snake",
    "barn swallow",
    "river carp",
    "cod",
    "deer",
    "eel",
    "moth",
    "gull",
    "heron",
    "ibis bird",
    "rook bird",
    "seal",
]
_SLOW = ("f-CLSWGAN", "CMT", "CMT*", "SSE", "SYNC", "LATEM")


def arrays() -> dict[str, Any]:
    rng = np.random.default_rng(0)
    attributes = rng.uniform(0, 100, size=(12, 8))
    labels = np.repeat(np.arange(12), 8)
    means = (attributes / 50 - 1) @ rng.normal(size=(8, 16))
    features = np.maximum(means[labels] + rng.normal(size=(96, 16)), 0).astype(np.float32)
    place = np.tile(np.arange(8), 12)
    split = np.where(labels >= 9, "test_unseen", np.where(place < 6, "trainval", "test_seen"))
    folds = np.stack([np.isin(np.arange(12), range(3 * n, 3 * n + 3)) for n in range(3)])
    return {
        "features": features, "labels": labels, "attributes": attributes, "class_names": np.array(CLASSES),
        "split": split, "folds": folds.astype(int),
    }  # fmt: skip


def write_release(folder: Path, data: dict[str, Any]) -> None:
    folder.mkdir(parents=True)
    savemat(folder / "res101.mat", {"features": data["features"].T, "labels": data["labels"][:, None] + 1})
    locs = {f"{part}_loc": np.flatnonzero(data["split"] == part)[:, None] + 1 for part in np.unique(data["split"])}
    names = np.array([[name] for name in CLASSES], dtype=object)
    savemat(folder / "att_splits.mat", {"att": data["attributes"].T, "allclasses_names": names, **locs})
    lists = {"testclasses": CLASSES[9:], "trainvalclasses": CLASSES[:9]}
    for n, fold in enumerate(data["folds"], 1):
        lists[f"valclasses{n}"] = [name for name, own in zip(CLASSES, fold, strict=True) if own]
        lists[f"trainclasses{n}"] = [name for name in CLASSES[:9] if name not in lists[f"valclasses{n}"]]
    for name, classes in lists.items():
        (folder / f"{name}.txt").write_text("\n".join(classes) + "\n")


def stored(home: Path, dataset: str) -> dict[str, dict[str, float]]:
    with ResultsDatabase(home / FILE_NAME, read_only=True) as database:
        found = [r for r in database.latest(benchmark="zsl") if r.cell.dataset.startswith(dataset)]
    assert all(r.ok for r in found), [r.error for r in found]
    return {str(r.cell.parameters["method"]): dict(r.metrics) for r in found}


_QUICK = tuple(name for name in BUILT_IN if name not in _SLOW)


@pytest.mark.parametrize(
    ("methods", "calibration"),
    [
        (_QUICK, 0.0),
        (_QUICK, "auto"),
        pytest.param(_SLOW, 0.0, marks=pytest.mark.slow),
        pytest.param(("CMT*", "SSE", "SYNC"), "auto", marks=pytest.mark.slow),
    ],
    ids=["quick methods", "quick methods, auto", "slow methods", "slow methods, auto"],
)
def test_three_ways_give_equal_numbers(
    methods: tuple[str, ...], calibration: Any, tmp_path: Path, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = arrays()
    write_release(tmp_path / "AWA1", data)
    np.savez(tmp_path / "own.npz", **data)
    options = ["--methods", *methods, "--grid", "quick", "--calibration", str(calibration), "--home", str(home)]
    assert main(["zsl", "run", f"features:{tmp_path / 'own.npz'}", *options]) == 0
    assert main(["zsl", "run", f"xlsa17:AWA1?root={tmp_path}", *options]) == 0
    capsys.readouterr()
    by_file, by_release = stored(home, "features:"), stored(home, "xlsa17:")
    more: dict[str, Any] = {"methods": methods, "grid": "quick", "calibration": calibration}
    given = unseen.evaluate_zeroshot(
        data["features"], data["labels"], data["attributes"],
        class_names=CLASSES, split=data["split"], folds=data["folds"], **more,
    )  # fmt: skip
    named = unseen.evaluate_zeroshot(f"features:{tmp_path / 'own.npz'}", **more)
    assert set(by_file) == set(methods)
    for method in methods:
        for answer in (given, named):
            mine = dict(answer.results[method].metrics)
            assert by_file[method] == by_release[method] == mine, method


def test_sampled_splits_are_the_same(tmp_path: Path, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The test classes, test images and folds that Python samples are those of the command."""
    data = {name: value for name, value in arrays().items() if name not in ("split", "folds")}
    np.savez(tmp_path / "own.npz", **data)
    options = ["--methods", "ESZSL", "--share", "0.25", "--seed", "3", "--home", str(home)]
    assert main(["zsl", "run", f"features:{tmp_path / 'own.npz'}?seed=3", *options]) == 0
    capsys.readouterr()
    found = unseen.evaluate_zeroshot(
        data["features"], data["labels"], data["attributes"],
        class_names=CLASSES, methods="ESZSL", unseen=0.25, seed=3,
    )  # fmt: skip
    by_file = stored(home, "features:")["ESZSL"]
    assert by_file == found.results["ESZSL"].metrics


def test_an_embedding_may_be_given_for_a_dataset_by_name(tmp_path: Path) -> None:
    data = arrays()
    np.savez(tmp_path / "own.npz", **{name: value for name, value in data.items() if name != "attributes"})
    name = f"features:{tmp_path / 'own.npz'}"
    own = unseen.evaluate_zeroshot(name, embeddings=data["attributes"], methods="ESZSL", grid="quick")
    np.save(tmp_path / "table.npy", data["attributes"])
    file = unseen.evaluate_zeroshot(name, embeddings=str(tmp_path / "table.npy"), methods="ESZSL", grid="quick")
    assert own.top1 == file.top1
