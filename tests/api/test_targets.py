"""Images with a number or several labels each: from a table, objects, the command line and a study, to the page."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from sklearn.metrics import average_precision_score, r2_score
from typer.testing import CliRunner

import unseen
from unseen.core.errors import DataError, UsageError

MODEL = "random:test_efficientnet?size=64"
TAGS = ("red", "light", "framed")


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Kaggle-like folder: pictures that are light to a degree, red, framed, or neither."""
    folder = tmp_path_factory.mktemp("kaggle")
    (folder / "train").mkdir()
    rng, rows = np.random.default_rng(1), ["image_id,brightness,tags,red,light,framed"]
    for i in range(120):
        light, has = rng.random(), [rng.random() < 0.4, False, rng.random() < 0.3]
        has[1] = light > 0.6
        pixels = np.clip(rng.normal(60 + 150 * light, 12, (40, 40, 3)), 0, 255).astype(np.uint8)
        pixels[10:30, 10:30, 1:] //= 1 + 3 * has[0]
        pixels[:4] = pixels[-4:] = pixels[:4] if not has[2] else 0
        Image.fromarray(pixels).save(folder / "train" / f"p{i:03d}.png")
        names = "|".join(tag for tag, own in zip(TAGS, has, strict=True) if own)
        rows.append(f"p{i:03d},{40 * light:.2f},{names},{int(has[0])},{int(has[1])},{int(has[2])}")
    (folder / "train.csv").write_text("\n".join(rows) + "\n")
    return folder / "train.csv"


def pixels(batch: np.ndarray) -> np.ndarray:
    return batch[:, 8::32, 8::32].reshape(len(batch), -1).astype(np.float32)


def test_a_number(table: Path, tmp_path: Path) -> None:
    name = f"csv:{table}?label=brightness"
    found = unseen.evaluate(pixels, name, home=tmp_path)
    data = unseen.load_dataset(name)
    assert data.target == "number" and "holds numbers" in data.card.notes
    # By hand: features, a wide ridge of scikit-learn's, the same images.
    from sklearn.linear_model import RidgeCV

    features = unseen.extract(pixels, name, home=tmp_path)
    train, test = features.of("train"), features.of("test")
    theirs = RidgeCV(np.logspace(-3, 7, 40)).fit(train.features.astype(np.float64), train.labels)
    assert found.r2 == pytest.approx(r2_score(test.labels, theirs.predict(test.features.astype(np.float64))), abs=0.02)
    assert found.r2 in found.interval and found.r2 > 0.8
    assert found.metrics["mae_low"] <= found.metrics["mae"] <= found.metrics["mae_high"]
    assert "R²" in repr(found) and "r2" in found._repr_html_()
    assert np.mean(found.correct) == pytest.approx(found.r2, abs=0.01)  # half precision
    assert json.loads(found.save(tmp_path / "a.json").read_text())["rows"][0]["spearman"] > 0.8
    contest = unseen.compare(
        {"pixels": pixels, "one": lambda batch: batch[:, 0, 0].astype(np.float32)}, name, home=tmp_path
    )
    assert contest.metric == "r2" and next(iter(contest.scores)) == "pixels" and "R²" in repr(contest)


@pytest.mark.parametrize("columns", ["tags", "columns of 0 and 1"])
def test_several_labels(table: Path, tmp_path: Path, columns: str) -> None:
    name = f"csv:{table}?label=tags"
    if columns != "tags":
        rows = [line.split(",") for line in table.read_text().splitlines()]
        path = table.parent / "hot.csv"
        path.write_text("\n".join(",".join([row[0], *row[3:]]) for row in rows) + "\n")
        name = f"csv:{path}"
    data = unseen.load_dataset(name)
    assert data.target == "several" and set(TAGS) <= set(data.class_names)
    found = unseen.evaluate(pixels, name, home=tmp_path, seeds=2)
    assert 0.75 < found.mean_average_precision <= 1 and set(found.per_label) == set(TAGS)
    assert found.metrics["map_low"] <= found.metrics["map"] <= found.metrics["map_high"]
    assert found.mean_average_precision == pytest.approx(np.mean(list(found.per_label.values())))
    assert len(found.rows()) == 2 and "mean average precision" in repr(found)
    features = unseen.extract(pixels, name, home=tmp_path, split="test")
    assert features.labels is not None and features.labels.shape == (len(features), 3)
    # One label by itself, as classes: the same images can be told as well.
    own = features.labels[:, list(data.class_names).index("light")]
    assert average_precision_score(own, features.features.mean(1)) > 0.9
    assert "|" in {**features.rows()[0]}["label"] or features.labels[0].sum() < 2


def test_objects(table: Path, tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.read_csv(table)
    frame["image_id"] = [str(table.parent / "train" / f"{one}.png") for one in frame["image_id"]]
    paths = list(frame["image_id"])
    number = unseen.evaluate(pixels, (paths, frame["brightness"].to_numpy()), home=tmp_path)
    assert number.r2 == pytest.approx(
        unseen.evaluate(
            pixels, frame[["image_id", "brightness"]].rename(columns={"brightness": "label"}), home=tmp_path
        ).r2
    )
    hot = unseen.evaluate(pixels, (paths, frame[list(TAGS)].to_numpy()), home=tmp_path)
    assert list(hot.per_label) == ["0", "1", "2"] and hot.mean_average_precision > 0.7
    groups = [tuple(filter(None, str(tags).split("|"))) if tags == tags else () for tags in frame["tags"]]
    named = unseen.evaluate(pixels, (paths, groups), home=tmp_path)
    assert set(named.per_label) == set(TAGS)
    datasets = pytest.importorskip("datasets")
    features = datasets.Features(
        {"image": datasets.Image(), "labels": datasets.List(datasets.ClassLabel(names=list(TAGS)))}
    )
    rows = {"image": paths, "labels": [[TAGS.index(tag) for tag in group] for group in groups]}
    held = unseen.evaluate(pixels, datasets.Dataset.from_dict(rows, features=features), home=tmp_path)
    assert list(held.per_label) == list(TAGS)


def test_shuffled_numbers_give_nothing(table: Path, tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.read_csv(table)
    paths = [table.parent / "train" / f"{one}.png" for one in frame["image_id"]]
    shuffled = np.random.default_rng(0).permutation(frame["brightness"].to_numpy())
    assert unseen.evaluate(pixels, (paths, shuffled), home=tmp_path).r2 < 0.25


def test_the_command_and_the_page(table: Path, tmp_path: Path) -> None:
    from unseen.cli.application import application

    for label, metric, shown in (("brightness", "r2", "R²"), ("tags", "map", "mAP")):
        name = f"csv:{table}?label={label}"
        run = ["probe", name, "--models", MODEL, "--seeds", "1", "--home", str(tmp_path / "home")]
        done = CliRunner().invoke(application, run)
        assert done.exit_code == 0, done.output
        assert shown in done.stdout
        page = (tmp_path / "home" / "reports").glob("*.html")
        text = max(page, key=lambda path: path.stat().st_mtime).read_text()
        assert {"r2": "share of variance explained", "map": "mean average precision"}[metric] in text
        told = CliRunner().invoke(application, [*run, "--json"])
        assert metric in told.stdout and "top1" not in told.stdout


def test_a_study_of_all_three_kinds(table: Path, tmp_path: Path) -> None:
    names = [f"csv:{table}?label=brightness", f"csv:{table}?label=tags", f"csv:{table}?label=tags&pick=red"]
    study = unseen.Study("kinds", (MODEL,), tuple(names), {"probe": {"seeds": 1}})
    outcome = unseen.run_study(study, tmp_path)
    assert [(r.ok, r.cell.benchmark) for r in outcome.results] == [
        (True, "regression"), (True, "multilabel"), (True, "probe"),
    ]  # fmt: skip
    assert unseen.run_study(study, tmp_path).evaluated == 0
    text = outcome.page.read_text()
    assert "Regression: R²" in text and "Multilabel: mean average precision" in text


@pytest.mark.parametrize(
    ("options", "benchmarks", "reason"),
    [
        ("label=brightness", {"cog": {}}, "a number per image.*bins=5"),
        ("label=tags", {"vtab": {}}, "several labels per image.*pick=LABEL"),
        ("label=tags", {"probe": {"shots": [4]}}, "shots are of classes"),
        ("label=brightness", {"probe": {"solver": "knn"}}, "solver knn"),
        ("label=tags&pick=red", {"regression": {}}, "one class per image"),
        ("label=tags&target=number", {"probe": {}}, "holds numbers, but also"),
        ("label=brightness&classes=2", {"probe": {}}, "no classes to choose from"),
    ],
)
def test_what_does_not_fit_is_said_at_once(
    table: Path, tmp_path: Path, options: str, benchmarks: dict[str, Any], reason: str
) -> None:
    study = unseen.Study("odd", (MODEL,), (f"csv:{table}?{options}",), benchmarks)
    with pytest.raises((DataError, UsageError), match=reason):
        unseen.plan_study(study, tmp_path)


def test_another_number_is_another_result(table: Path, tmp_path: Path) -> None:
    before = unseen.load_dataset(f"csv:{table}?label=brightness").revision
    (table.parent / "other.csv").write_text(table.read_text().replace("p000,", "p000,1", 1))
    after = unseen.load_dataset(f"csv:{table.parent}/other.csv?label=brightness").revision
    assert before != after
    whole = unseen.load_dataset(f"csv:{table}?label=red&target=number")
    assert whole.target == "number" and unseen.load_dataset(f"csv:{table}?label=red").target == "class"
