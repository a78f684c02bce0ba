"""The protocol: tuning on classes that are not tested, refitting, metrics, calibration; the real splits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import FrozenInstanceError, replace
from time import perf_counter

import numpy as np
import pytest

from unseen.core.errors import DataError
from unseen.metrics import harmonic_mean, mean_per_class_accuracy, seen_unseen_curve, seen_unseen_outcomes
from unseen.zeroshot import ESZSL, CMTStar, Problem, evaluate_method
from unseen.zeroshot.catalogue import GROUPS
from unseen.zeroshot.problem import Fold, Images
from unseen.zeroshot.protocol import Tuning, tune

GRID = [{"gamma": g, "lam": lam} for g in (-2, 0, 2) for lam in (-1, 1)]


def test_metrics_are_those_of_a_plain_fit(small_problem: Problem) -> None:
    found = evaluate_method("ESZSL", small_problem, grid=GRID)
    method = ESZSL(**found.best).fit(small_problem.train.X, small_problem.train.y, small_problem.S)
    new, old = small_problem.test_unseen, small_problem.test_seen
    assert found.metrics["zsl"] == mean_per_class_accuracy(new.y, method.predict(new.X, small_problem.S[20:]) + 20)
    ts = mean_per_class_accuracy(new.y, method.predict(new.X, small_problem.S))
    tr = mean_per_class_accuracy(old.y, method.predict(old.X, small_problem.S))
    assert found.metrics["ts"] == pytest.approx(ts)
    assert found.metrics["tr"] == pytest.approx(tr)
    assert found.metrics["H"] == pytest.approx(harmonic_mean(ts, tr))
    assert set(found.per_class) == {f"class {i}" for i in range(20, 25)}
    assert found.calibration == 0


def test_tuning_never_sees_the_test_images(small_problem: Problem) -> None:
    spoiled = replace(
        small_problem, test_unseen=Images(small_problem.test_unseen.X[::-1].copy(), small_problem.test_unseen.y)
    )
    a = tune(ESZSL(), small_problem, GRID)
    b = tune(ESZSL(), spoiled, GRID)
    assert a.trials == b.trials
    by_hand = []
    for fold in small_problem.folds:
        train, val = small_problem.train.of(fold.train), small_problem.train.of(fold.val)
        fitted = ESZSL(**GRID[2]).fit(train.X, train.y, small_problem.S)
        by_hand.append(mean_per_class_accuracy(val.y, fold.val[fitted.predict(val.X, small_problem.S[fold.val])]))
    np.testing.assert_allclose(a.trials[2]["values"], by_hand)
    assert a.best() == GRID[int(np.argmax([t["value"] for t in a.trials]))]
    assert a.best([1]) == GRID[int(np.argmax([t["values"][1] for t in a.trials]))]


def test_what_else_is_measured(small_problem: Problem) -> None:
    found = evaluate_method("ESZSL", small_problem, grid=GRID)
    method = ESZSL(**found.best).fit(small_problem.train.X, small_problem.train.y, small_problem.S)
    new, old = small_problem.test_unseen, small_problem.test_seen
    tops = {}
    for side, images in (("ts", new), ("tr", old)):
        order = np.argsort(-method.scores(images.X, small_problem.S), axis=1, kind="stable")
        for k in (5, 10):
            hit = np.array([label in row[:k] for label, row in zip(images.y, order, strict=True)])
            tops[side, k] = np.mean([hit[images.y == c].mean() for c in np.unique(images.y)])
            assert found.metrics[f"{side}_top{k}"] == pytest.approx(tops[side, k])
    assert found.metrics["H_top5"] == pytest.approx(harmonic_mean(tops["ts", 5], tops["tr", 5]))
    for name in ("zsl", "ts", "tr", "H"):
        assert found.intervals[name].value == pytest.approx(found.metrics[name])
        assert found.metrics[name] in found.intervals[name]
    # A constant of 0 gives ts and tr, one that is great enough zsl and 0.
    X, y = np.concatenate([new.X, old.X]), np.concatenate([new.y, old.y])
    known, classes = np.isin(np.arange(25), small_problem.seen), np.arange(25)
    outcomes = seen_unseen_outcomes(method.scores(X, small_problem.S), y, classes, known)
    curve = seen_unseen_curve(*outcomes, y, known[y])
    at = int(np.searchsorted(curve.gamma, 0.0))
    assert curve.ts[at] == pytest.approx(found.metrics["ts"])
    assert curve.tr[at] == pytest.approx(found.metrics["tr"])
    assert curve.ts[-1] == pytest.approx(found.metrics["zsl"])
    assert found.metrics["AUSUC"] == pytest.approx(curve.area)
    assert 0 < curve.area < found.metrics["zsl"]


def test_a_method_may_be_tuned_by_h(small_problem: Problem) -> None:
    """A fifth of the images of each training class is held out; both kinds stand among all classes of the fold."""
    grid = [{"epochs": 3, "novelty": n, "quantile": q} for n in ("gaussian", "loop") for q in (0.01, 0.5)]
    method = CMTStar()
    found = tune(method, small_problem, grid)
    fold = small_problem.folds[1]
    train, new = small_problem.train.of(fold.train), small_problem.train.of(fold.val)
    held = np.zeros(len(train), bool)
    for c in fold.train:
        held[np.flatnonzero(train.y == c)[: (train.y == c).sum() // 5]] = True
    for place, setting in enumerate(grid):
        fitted = CMTStar(**setting).fit(train.X[~held], train.y[~held], small_problem.S)
        among = np.sort(np.concatenate([fold.train, fold.val]))
        shares = [
            mean_per_class_accuracy(y, among[fitted.predict(X, small_problem.S[among])])
            for X, y in ((new.X, new.y), (train.X[held], train.y[held]))
        ]
        assert found.trials[place]["values"][1] == pytest.approx(harmonic_mean(*shares))


def test_calibrated_stacking_trades_tr_for_ts(small_problem: Problem) -> None:
    plain = evaluate_method("ALE", small_problem, grid="quick")
    strong = evaluate_method("ALE", small_problem, grid="quick", calibration=1e6)
    tuned = evaluate_method("ALE", small_problem, grid="quick", calibration="auto")
    assert strong.metrics["tr"] == 0
    assert strong.metrics["ts"] == pytest.approx(strong.metrics["zsl"])
    assert tuned.calibration != 0
    assert tuned.metrics["H"] > plain.metrics["H"] - 0.05
    assert tuned.metrics["zsl"] == plain.metrics["zsl"]


def test_without_seen_test_images_there_is_no_h(small_problem: Problem) -> None:
    found = evaluate_method("SAE", replace(small_problem, test_seen=Images(np.empty((0, 64)), np.empty(0, np.int64))))
    assert "H" not in found.metrics
    assert "ts" in found.metrics


def test_another_dataset_over_the_same_classes(small_problem: Problem) -> None:
    other = replace(
        small_problem, test_unseen=Images(small_problem.test_unseen.X[:50], small_problem.test_unseen.y[:50])
    )
    found = evaluate_method("SAE", small_problem, test=other)
    assert 0.2 < found.metrics["zsl"] <= 1
    renamed = replace(other, class_names=[f"x{i}" for i in range(25)])
    with pytest.raises(DataError, match="same classes"):
        evaluate_method("SAE", small_problem, test=renamed)


def test_a_problem_is_checked(small_problem: Problem) -> None:
    both = Images(small_problem.test_unseen.X, small_problem.test_unseen.y - 10)
    with pytest.raises(DataError, match="disjoint"):
        replace(small_problem, test_unseen=both)
    with pytest.raises(DataError, match="not a training class"):
        replace(small_problem, folds=[Fold(np.arange(10), np.arange(19, 23))])
    with pytest.raises(DataError, match="trained and validated"):
        replace(small_problem, folds=[Fold(np.arange(10), np.arange(8, 12))])
    with pytest.raises(DataError, match="not finite"):
        replace(small_problem, S=np.where(np.arange(25)[:, None] == 2, np.nan, small_problem.S))
    with pytest.raises(DataError, match="as many embeddings"):
        replace(small_problem, S=small_problem.S[:-1])
    with pytest.raises(DataError, match="no test_unseen images"):
        replace(small_problem, test_unseen=Images(np.empty((0, 64)), np.empty(0, np.int64)))


def test_features_are_scaled_by_what_training_knows(small_problem: Problem) -> None:
    unit = small_problem.normalised("l2")
    np.testing.assert_allclose(np.linalg.norm(unit.test_seen.X, axis=1), 1, rtol=1e-5)
    standard = small_problem.normalised("standard")
    np.testing.assert_allclose(standard.train.X.mean(0), 0, atol=1e-4)
    assert small_problem.normalised("none") is small_problem


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "split"),
    [*((name, "PS") for name in ("AWA2", "CUB", "SUN", "AWA1", "APY")), ("AWA2", "SS"), ("APY", "SS")],
)
def test_all_methods_on_the_real_splits(real_problem: Callable[..., Problem], name: str, split: str) -> None:
    """Real attributes, class lists and folds; features made for them. tr >> ts, as in Table 6 of the paper."""
    problem = real_problem(name, split)
    chance = 1 / len(problem.unseen)
    for method in GROUPS["all"]:
        found = evaluate_method(method, problem, grid="quick").metrics
        assert found["zsl"] > max(2 * chance, chance + 0.05), (method, found)
        assert found["ts"] <= found["zsl"] + 1e-9 or method in GROUPS["transductive"], (method, found)
        if split == "PS" and method not in (*GROUPS["transductive"], "CMT*"):  # which gives up tr for ts
            assert found["tr"] > max(1.3 * found["ts"], found["ts"] + 0.05), (method, found)
            assert 0 <= found["H"] <= 1


def test_the_constant_is_the_best_percentile_of_the_leads(small_problem: Problem) -> None:
    """By hand: how far the best seen class leads on each image of a fold; 0 and the percentiles of that are tried."""
    folds = []
    for fold in small_problem.folds:
        train, new = small_problem.train.of(fold.train), small_problem.train.of(fold.val)
        held = np.zeros(len(train), bool)
        for c in fold.train:
            held[np.flatnonzero(train.y == c)[: (train.y == c).sum() // 5]] = True
        fitted = ESZSL().fit(train.X[~held], train.y[~held], small_problem.S)
        among = np.union1d(fold.train, fold.val)
        scores = [fitted.scores(X, small_problem.S[among]).astype(np.float64) for X in (new.X, train.X[held])]
        folds.append((among, np.isin(among, fold.train), scores, (new.y, train.y[held])))
    leads = [row[old].max() - row[~old].max() for _, old, scores, _ in folds for part in scores for row in part]

    def mean_h(constant: float) -> float:
        found = []
        for among, old, scores, labels in folds:
            best = [among[(part - constant * old).argmax(1)] for part in scores]
            found.append(harmonic_mean(*(mean_per_class_accuracy(y, b) for y, b in zip(labels, best, strict=True))))
        return float(np.mean(found))

    tried = sorted({0.0, *np.percentile(leads, range(101))})
    found = evaluate_method("ESZSL", small_problem, grid=[{"gamma": 0}], calibration="auto")
    assert found.calibration == pytest.approx(max(tried, key=mean_h), abs=1e-6)


def test_what_was_tried_cannot_be_changed_afterwards() -> None:
    tuning = Tuning(({"lam": 1, "value": 0.5, "values": [0.5]},), ({"lam": 1},))
    assert tuning.best() == {"lam": 1}
    with pytest.raises(FrozenInstanceError):
        tuning.grid = ({"lam": 2},)  # type: ignore[misc]


def test_seconds_are_of_this_run(small_problem: Problem) -> None:
    began = perf_counter()
    found = evaluate_method("ESZSL", small_problem, grid=GRID).seconds
    assert 0 < found <= perf_counter() - began
