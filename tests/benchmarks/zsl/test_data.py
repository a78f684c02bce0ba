"""Zero-shot runs from files to tables: mixed runs, own features, ImageNet splits, a look at the data."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from dataclasses import replace
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import h5py
import numpy as np
import pytest
from scipy.io import loadmat, savemat

from unseen.benchmarks.zsl.analysis import settings
from unseen.benchmarks.zsl.published import printed_value
from unseen.benchmarks.zsl.section import look_figures
from unseen.cli import main
from unseen.core.errors import DataError, UnknownNameError, UsageError
from unseen.core.records import Result
from unseen.data import load_dataset
from unseen.data.load import expand_datasets
from unseen.results import FILE_NAME, ResultsDatabase
from unseen.study import Study, write_report

RunZsl = Callable[..., list[Result]]


def _imagenet_tree() -> ModuleType:
    spec = spec_from_file_location("imagenet_tree", Path(__file__).parents[2] / "imagenet_tree.py")
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules.setdefault("imagenet_tree", module_from_spec(spec))
    if not hasattr(module, "make_imagenet"):
        spec.loader.exec_module(module)
    return module


def test_compare_after_mixed_runs_drops_nothing(release: Path, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """PS with --robustness, SS, another dataset, and --test-on: each is shown apart, and Table 4 as a table."""
    shutil.copytree(release / "AWA1", release / "AWA2")
    lists = release / "standard_split" / "AWA1"
    lists.mkdir(parents=True)
    for file in (release / "AWA1").glob("*classes*.txt"):
        (lists / file.name).write_text(file.read_text())
    one, two = (f"xlsa17:{name}?root={release}" for name in ("AWA1", "AWA2"))
    methods = ["--methods", "SAE,SAE-reverse,ESZSL,GFZSL,GFZSL-tran", "--grid", "quick", "--home", str(home)]
    for more in (
        [one, "--robustness"],
        [one, "--split", "SS"],
        [two],
        [one, "--test-on", two],
        [two, "--test-on", one],
    ):
        assert main(["zsl", "run", *more, *methods]) == 0
    told = capsys.readouterr()
    assert "1/20 SAE: zsl" in told.err, "each method says that it is done"
    assert main(["zsl", "compare", "--home", str(home)]) == 0
    out = " ".join(capsys.readouterr().out.split())
    for words in (
        "split PS, parameters chosen on all folds, methods inductive",
        "split PS, parameters chosen on one fold, methods inductive",
        "split SS, parameters chosen on all folds, methods inductive",
        f"test_on {two}",
        f"test_on {one}",
        "SS against PS: ZSL (%)",
        "AWA1:AWA1, AWA1:AWA2, AWA2:AWA2, AWA2:AWA1",
        "transductive beside inductive (%)",
    ):
        assert words in out or all(word in out for word in words.split(", ")), words
    with ResultsDatabase(home / FILE_NAME, read_only=True) as database:
        stored = list(database.latest(benchmark="zsl"))
    assert len(stored) == 5 * 4 + 5 * 4
    shown = [r for group in settings(stored) for r in group.results]
    assert len(shown) == len(stored)
    assert {r.cell.id for r in shown} == {r.cell.id for r in stored}


@pytest.mark.parametrize("ending", ["mat", "npy", "npz", "h5"])
def test_own_features_stand_under_the_name_of_their_file(release: Path, run_zsl: RunZsl, ending: str) -> None:
    rng = np.random.default_rng(1)
    folder = release / "AWA1"
    old = loadmat(folder / "res101.mat")
    rows = (old["features"].T @ rng.normal(size=(24, 16))).astype(np.float32)
    file = folder / f"vit.{ending}"
    if ending == "mat":
        savemat(file, {"features": rows.T})
    elif ending == "npy":
        np.save(file, rows)
    elif ending == "npz":
        np.savez(file, features=rows, labels=old["labels"].ravel())
        (folder / "res101.mat").unlink()  # labels are in the file
    else:
        with h5py.File(file, "w") as stored:
            stored["features"] = rows
    name = f"xlsa17:AWA1?features=vit.{ending}&root={release}"
    data = load_dataset(name)
    np.testing.assert_allclose(data.given_features["vit"]()[90:], rows[90:], rtol=1e-6)  # type: ignore[attr-defined]
    [result] = run_zsl(name, "xlsa17:vit", methods="ESZSL", grid="quick")
    assert result.error == ""
    assert result.details["feature_dimensions"] == 16
    assert printed_value(result, "zsl") is None
    with pytest.raises(UnknownNameError, match="xlsa17:vit"):
        run_zsl(name, "xlsa17:res101", methods="ESZSL")


def test_own_features_are_checked(release: Path) -> None:
    folder = release / "AWA1"
    np.save(folder / "short.npy", np.zeros((119, 4), np.float32))
    np.save(folder / "swapped.npy", np.zeros((4, 120), np.float32))
    np.save(folder / "words.npy", np.array(["a"] * 120))
    (folder / "broken.npz").write_bytes(b"PK\x03\x04rubbish")
    for name, said in (
        ("short.npy", "119 rows of features and 120 labels"),
        ("swapped.npy", "axes of the features are swapped"),
        ("words.npy", r"shape \(120,\)"),
    ):
        with pytest.raises(DataError, match=said):
            load_dataset(f"xlsa17:AWA1?features={name}&root={release}").given_features[name[:-4]]()  # type: ignore[attr-defined]
    with pytest.raises(DataError, match="cannot be read"):
        load_dataset(f"xlsa17:AWA1?features=broken.npz&root={release}")
    with pytest.raises(UsageError, match=r"ends in \.mat"):
        load_dataset(f"xlsa17:AWA1?features=vit.csv&root={release}")
    with pytest.raises(DataError, match="there is no"):
        load_dataset(f"xlsa17:AWA1?features=vit.npy&root={release}")


def test_all_is_the_five_datasets(home: Path, capsys: pytest.CaptureFixture[str], golden_data: Path) -> None:
    assert main(["zsl", "run", f"xlsa17:all?root={golden_data / 'gbu'}", "--dry-run", "--home", str(home)]) == 2
    assert "SUN" in capsys.readouterr().err, "the features of the first are not there"


def test_imagenet_splits_from_images_to_page(run_zsl: RunZsl, tmp_path: Path, small_model: str) -> None:
    """Folders named by WordNet ids, some of them of ImageNet-1K: those are for training, others are not."""
    tree = _imagenet_tree().make_imagenet(tmp_path, seen=12, others=40, short=0, images=4)
    name, results = f"folder:{tree.in21k}?test=0.4", []
    for split in ("all", "3-hops"):
        asked = {"methods": ["SAE", "ESZSL"], "embedding": "wordnet", "grid": "quick"}
        results += run_zsl(name, small_model, split=split, **asked)
    assert [r.error for r in results] == [""] * 4
    everything, near = results[0], results[2]
    assert (everything.details["seen_classes"], everything.details["unseen_classes"]) == (12, 40)
    assert 2 <= near.details["unseen_classes"] < 40
    for key in ("zsl_top5", "zsl_top10", "ts", "ts_top5", "ts_top10", "tr_top5", "H_top10", "zsl_top10_low"):
        assert key in everything.metrics
    page = write_report(results, tmp_path / "page.html", title="zsl").read_text()
    for measure in ("ZSL", "ZSL top-5", "ZSL top-10", "ts", "ts top-5", "ts top-10"):
        assert f"ImageNet splits, {measure} " in page


def test_a_look_at_the_data(release: Path, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["zsl", "look", f"xlsa17:AWA1?root={release}", "--home", str(home)]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "63 (19,832)" in out, "the number of the paper's Table 1 in brackets"


def test_the_page_shows_the_data(release: Path, run_zsl: RunZsl, tmp_path: Path) -> None:
    """Fig. 2: images per class and t-SNE, from the results alone."""
    results = run_zsl(f"xlsa17:AWA1?root={release}", "xlsa17:res101", methods=["ESZSL", "SAE"], grid="quick")
    look = results[0].details["look"]
    assert look["counts"] == [10] * 12
    assert sorted(set(look["labels"])) == [9, 10, 11]
    assert len(look["x"]) == len(look["y"]) == len(look["labels"]) == 30
    page = write_report(results, tmp_path / "page.html", title="zsl").read_text()
    assert "Images per class: AWA1" in page
    assert "AWA1: t-SNE of xlsa17:res101" in page
    twice = [replace(r, cell=replace(r.cell, dataset=r.cell.dataset.replace("AWA1", "AWA2"))) for r in results]
    titles = [figure.title for figure in look_figures([*results, *twice])]
    both = (
        ("Images per class: AWA1", "AWA1: t-SNE of xlsa17:res101"),
        ("Images per class: AWA2", "AWA2: t-SNE of xlsa17:res101"),
    )
    assert titles == [title for pair in both for title in pair]


def test_all_is_the_five_datasets_in_studies_and_python() -> None:
    names = [f"xlsa17:{name}?root=/data&split=SS" for name in ("SUN", "CUB", "AWA1", "AWA2", "APY")]
    assert expand_datasets("xlsa17:all?root=/data&split=SS") == names
    for given in ("xlsa17:all?root=/data&split=SS", ["xlsa17:all?root=/data&split=SS"]):
        table = {"models": ["xlsa17:res101"], "datasets": given, "benchmarks": {"zsl": {"split": "SS"}}}
        assert list(Study.parse(table).datasets) == names
    assert expand_datasets("xlsa17:CUB") == ["xlsa17:CUB"]
    assert expand_datasets("folder:all") == ["folder:all"]
