"""The default solver: scikit-learn's optimum, the same bits, flat memory, and an honest estimate."""

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import normalize

from unseen.probes import LinearProbe, Settings, draw_rows, evaluate_probe
from unseen.probes.logistic import PENALTIES, RAISED_ROWS, default_penalty, fit_logistic
from unseen.probes.rows import FeatureSet, LabelledRows, Workers
from unseen.probes.sampling import draw_folds
from unseen.probes.solvers import MEMORY_LIMIT


def fit(data, draws, workers, **options):
    return fit_logistic(data, draws, workers, Settings(**options))


def scikit_learn(features, labels, penalty):
    """The same optimum: unit rows, the penalty a share of the centred rows' mean square, the bias free."""
    trace = (features - features.mean(0)).astype(np.float64) ** 2
    strength = 1.0 / (penalty * trace.sum(1).mean() * len(labels))
    return LogisticRegression(C=strength, solver="newton-cholesky", tol=1e-8).fit(features.astype(np.float64), labels)


@pytest.mark.parametrize(("name", "shots"), [("sample", "all"), ("sample", 3), ("larger", "all"), ("larger", 4)])
def test_equals_scikit_learn(request, workers, name, shots):
    data = request.getfixturevalue(name)
    draw = draw_rows(data.train_labels, seed=22, shots=[shots])[0]
    found = fit(data.rows, [draw], workers, tolerance=1e-7)[0]
    features, labels = normalize(data.train)[draw.final], data.train_labels[draw.final]
    theirs = scikit_learn(features, labels, found.best["regularization"])
    test = normalize(data.test)
    mine = found.model.scores(torch.from_numpy(test)).numpy()
    expected = test @ theirs.coef_.T + theirs.intercept_
    mine, expected = (scores - scores.mean(1, keepdims=True) for scores in (mine, expected))
    assert np.abs(mine - expected).max() < 0.02 * np.abs(expected).max()
    assert (mine.argmax(1) == expected.argmax(1)).mean() > 0.995


def test_left_out_accuracies_are_those_of_scikit_learn_on_the_same_folds(sample, workers):
    draw = draw_rows(sample.train_labels, seed=22)[0]
    found = fit(sample.rows, [draw], workers, tolerance=1e-7)[0]
    features, labels = normalize(sample.train), sample.train_labels
    folds, fits = draw_folds(labels, 22)
    trace = (features - features.mean(0)).astype(np.float64) ** 2
    for place in (0, 4, 7):
        right = 0
        for fold in range(fits):
            seen = folds != fold
            strength = 1.0 / (PENALTIES[place] * trace.sum(1).mean() * seen.sum())
            model = LogisticRegression(C=strength, solver="newton-cholesky", tol=1e-8).fit(features[seen], labels[seen])
            right += (model.predict(features[~seen]) == labels[~seen]).sum()
        assert found.trials[place].accuracy == pytest.approx(right / 400, abs=0.0051)


@pytest.mark.parametrize("limit", [0, MEMORY_LIMIT])
@pytest.mark.parametrize("name", ["sample", "larger"])
def test_same_bits_twice_and_with_any_number_of_threads(request, name, limit):
    data = request.getfixturevalue(name)
    labels = torch.from_numpy(data.train_labels)
    rows = LabelledRows(FeatureSet(data.train, "rows", memory_limit=limit), labels, data.rows.classes)
    draws = [draw for seed in (22, 37) for draw in draw_rows(data.train_labels, seed=seed, shots=[2, "all"])]
    found = []
    for threads in (1, 2, 2):
        with Workers(threads) as workers:
            found.append(fit(rows, draws, workers, memory_limit=limit))
    for fits in found[1:]:
        for first, other in zip(found[0], fits, strict=True):
            assert torch.equal(first.model.weights, other.model.weights)
            assert first.trials == other.trials


@pytest.mark.parametrize("limit", [0, MEMORY_LIMIT])
@pytest.mark.parametrize("shots", [2, "all"])
def test_a_seed_does_not_depend_on_its_company(larger, workers, shots, limit):
    labels = torch.from_numpy(larger.train_labels)
    rows = LabelledRows(FeatureSet(larger.train, "rows", memory_limit=limit), labels, 12)
    draws = [draw_rows(larger.train_labels, seed=seed, shots=[shots])[0] for seed in (22, 37)]
    both = fit(rows, draws, workers, memory_limit=limit)
    alone = fit(rows, draws[1:], workers, memory_limit=limit)
    assert torch.equal(both[1].model.weights, alone[0].model.weights)


def test_the_default_tolerance_is_converged(larger):
    loose, tight = (
        evaluate_probe(*larger, seeds=(22,), settings=Settings(tolerance=tolerance))[0] for tolerance in (1e-5, 1e-7)
    )
    assert loose.top1 == pytest.approx(tight.top1, abs=0.005)
    assert (loose.predictions == tight.predictions).mean() > 0.99


def test_streamed_rows_give_the_same_answer(larger):
    inside = evaluate_probe(*larger, seeds=2, shots=(4, "all"))
    outside = evaluate_probe(*larger, seeds=2, shots=(4, "all"), memory_limit=0)
    for one, other in zip(inside, outside, strict=True):
        assert one.best == other.best
        assert (one.predictions == other.predictions).mean() > 0.99
        assert one.expected == pytest.approx(other.expected, abs=0.002)


def test_turning_the_features_changes_nothing(sample):
    turn = np.linalg.qr(np.random.default_rng(0).standard_normal((24, 24)))[0].astype(np.float32)
    plain = evaluate_probe(*sample, seeds=1)[0]
    turned = evaluate_probe(sample.train @ turn, sample.train_labels, sample.test @ turn, sample.test_labels, seeds=1)
    assert (plain.predictions == turned[0].predictions).mean() > 0.99


def test_one_image_per_class_takes_the_default_penalty(sample):
    found = evaluate_probe(*sample, shots=1, seeds=2)
    assert [dict(record.best) for record in found] == [{"regularization": default_penalty(8, 8)}] * 2
    assert found[0].expected is None and not found[0].trials


def test_the_default_penalty_falls_with_rows_and_classes_and_stays_on_the_path():
    assert default_penalty(10, 5) == pytest.approx(4e-3)
    assert default_penalty(300, 150) == pytest.approx(0.2 / 45_000)
    assert default_penalty(2, 1) == PENALTIES[0] and default_penalty(10**6, 1000) == PENALTIES[-1]


def rectified(sample):
    return np.abs(sample.train), sample.train_labels, np.abs(sample.test), sample.test_labels


def test_features_without_negative_values_are_raised_where_rows_are_not_few(sample):
    train, labels, test, wanted = rectified(sample)
    raised = train**0.75, labels, test**0.75, wanted
    few, everything = evaluate_probe(train, labels, test, wanted, shots=(2, "all"), seeds=1)
    as_they_are = evaluate_probe(train, labels, test, wanted, shots=(2, "all"), seeds=1, settings=Settings(power=1.0))
    by_hand = evaluate_probe(*raised, seeds=1, settings=Settings(power=1.0))[0]
    assert few.train_size < RAISED_ROWS <= everything.train_size
    assert few.log_loss == as_they_are[0].log_loss
    assert everything.log_loss == pytest.approx(by_hand.log_loss, rel=1e-4)
    assert everything.log_loss != pytest.approx(as_they_are[1].log_loss, rel=1e-3)


def test_signed_rows_and_square_roots_are_not_raised(sample):
    train, labels, test, wanted = rectified(sample)
    for rows, how in (
        ((sample.train, sample.test), {}),
        ((train, test), {"square_root": True}),
    ):
        first, second = (
            evaluate_probe(rows[0], labels, rows[1], wanted, seeds=1, settings=settings, **how)[0]
            for settings in (Settings(), Settings(power=1.0))
        )
        assert first.log_loss == second.log_loss


def test_a_probe_that_raised_its_rows_raises_those_that_it_is_shown(sample):
    train, labels, test, wanted = rectified(sample)
    probe = LinearProbe(seed=22).fit(train, labels)
    assert probe.power_ == 0.75
    rows = test**0.75 / np.linalg.norm(test**0.75, axis=1, keepdims=True)
    np.testing.assert_array_equal(
        probe.classes_[(rows @ probe.coef_.T + probe.intercept_).argmax(1)], probe.predict(test)
    )
    record = evaluate_probe(train, labels, test, wanted, seeds=(22,))[0]
    assert (record.predictions == probe.predict(test)).mean() > 0.99
    outside = evaluate_probe(train, labels, test, wanted, seeds=(22,), memory_limit=0)[0]
    assert outside.log_loss == pytest.approx(record.log_loss, rel=1e-3)


def test_few_shots_look_at_no_other_image(sample):
    """Labels of images that were not drawn may be anything."""
    draw = draw_rows(sample.train_labels, seed=22, shots=[3])[0]
    spoilt = np.random.default_rng(0).permutation(sample.train_labels)
    with Workers(1) as workers:
        plain = fit(sample.rows, [draw], workers)[0]
        labels = torch.from_numpy(spoilt)
        labels[draw.final] = sample.rows.labels[draw.final]
        other = fit(LabelledRows(sample.rows.features, labels, 8), [draw], workers)[0]
    assert torch.equal(plain.model.weights, other.model.weights)


def test_a_validation_split_of_the_dataset_chooses_and_joins_the_final_fit(sample):
    parts = sample.train[:300], sample.train_labels[:300], sample.test, sample.test_labels
    held = {"validation_features": sample.train[300:], "validation_labels": sample.train_labels[300:]}
    joined = evaluate_probe(*parts, **held, seeds=1)[0]
    assert joined.train_size == 400 and joined.validation_size == 100
    place = [dict(trial.parameters) for trial in joined.trials].index(dict(joined.best))
    # The trial is a classifier of the training part alone; the unit of the penalty is the mean square of all rows.
    features = normalize(sample.train)
    trace = ((features - features.mean(0)).astype(np.float64) ** 2).sum(1).mean()
    strength = 1.0 / (joined.best["regularization"] * trace * 300)
    theirs = LogisticRegression(C=strength, tol=1e-8, max_iter=1000).fit(features[:300], sample.train_labels[:300])
    found = theirs.score(features[300:], sample.train_labels[300:])
    assert found == pytest.approx(joined.trials[place].accuracy, abs=0.011)
    few = evaluate_probe(*parts, **held, seeds=1, shots=2)[0]
    assert few.train_size == 16 and few.validation_size == 100


def test_the_estimate_is_right_on_average(make_sample):
    data = make_sample(2000, 24, 8, separation=0.8)
    found = evaluate_probe(*data, shots=20, seeds=20)
    gaps = [record.top1 - record.expected for record in found]
    assert abs(np.mean(gaps)) < 0.02
    inside = [record.top1 in record.expected_interval() for record in found]
    assert np.mean(inside) >= 0.85
    few = evaluate_probe(*data, shots=3, seeds=1)[0]
    assert few.expected_shots == 2


def test_temperature_mends_overconfidence(make_sample):
    data = make_sample(1200, 48, 12)
    record = evaluate_probe(*data, seeds=1, shots=8)[0]
    with Workers(1) as workers:
        raw = fit(data.rows, [draw_rows(data.train_labels, seed=22, shots=[8])[0]], workers)[0].model
    scores = torch.from_numpy(normalize(data.test)) @ raw.weights.T + raw.bias
    untouched = torch.nn.functional.cross_entropy(scores, torch.from_numpy(data.test_labels))
    assert record.log_loss < float(untouched)


def test_an_unsettled_fit_is_noted_with_its_training_accuracy(sample, monkeypatch):
    monkeypatch.setattr("unseen.probes.logistic.ITERATIONS", 2)
    record = evaluate_probe(*sample, seeds=1, settings=Settings(tolerance=1e-9))[0]
    assert "did not converge" in record.note and "% of its own training images" in record.note
    assert any(trial.note == "not converged" for trial in record.trials)
