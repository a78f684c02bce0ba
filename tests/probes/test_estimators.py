"""The scikit-learn contract, and what the estimators add to it."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

from unseen.core.errors import DataError, UnknownNameError
from unseen.probes import KnnProbe, LinearProbe, NearestMeanProbe, RidgeProbe

ALL = [
    LinearProbe(),
    LinearProbe("paper", trials=4, epochs=30),
    RidgeProbe(),
    KnnProbe(),
    NearestMeanProbe(),
]


@pytest.mark.parametrize("probe", ALL, ids=lambda probe: f"{type(probe).__name__}-{getattr(probe, 'solver', '')}")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
def test_scikit_learn_contract(probe):
    check_estimator(probe)


@pytest.mark.parametrize("probe", ALL, ids=lambda probe: f"{type(probe).__name__}-{getattr(probe, 'solver', '')}")
def test_learns_predicts_and_travels(sample, probe):
    fitted = clone(probe).fit(sample.train, sample.train_labels)
    assert fitted.score(sample.test, sample.test_labels) > 0.5
    probabilities = fitted.predict_proba(sample.test)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0)
    np.testing.assert_array_equal(fitted.classes_[probabilities.argmax(1)], fitted.predict(sample.test))
    again = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(again.predict(sample.test), fitted.predict(sample.test))


def test_the_whole_sweep_is_kept(sample):
    probe = LinearProbe("paper", trials=5, epochs=3).fit(sample.train, sample.train_labels)
    assert [set(trial.parameters) for trial in probe.trials_] == [{"lr", "wd"}] * 5
    assert probe.best_params_ in [dict(trial.parameters) for trial in probe.trials_]
    assert probe.coef_.shape == (8, 24) and probe.intercept_.shape == (8,)


def test_works_inside_pipelines_and_searches(sample):
    pipeline = make_pipeline(StandardScaler(), RidgeProbe())
    assert cross_val_score(pipeline, sample.train, sample.train_labels, cv=3).mean() > 0.4
    search = GridSearchCV(KnnProbe(), {"temperature": [0.05, 0.5]}, cv=2).fit(sample.train, sample.train_labels)
    assert search.best_params_["temperature"] in (0.05, 0.5)


class Store:
    """Rows that are not an array."""

    def __init__(self, table):
        self._table, self.shape, self.dtype = table, table.shape, table.dtype

    def __getitem__(self, rows):
        return self._table[rows]

    def __len__(self):
        return len(self._table)

    def __array__(self, dtype=None, copy=None):
        return np.array(self._table, dtype)


@pytest.mark.parametrize("probe", [LinearProbe(memory_limit=0), RidgeProbe(), KnnProbe(), NearestMeanProbe()])
def test_stores_and_maps_are_read_like_arrays(sample, tmp_path, probe):
    table = sample.train.astype(np.float16)
    table.tofile(tmp_path / "rows")
    mapped = np.memmap(tmp_path / "rows", np.float16, "r", shape=table.shape)
    if isinstance(probe, LinearProbe):
        probe.memory_limit = 1 << 20
    expected = clone(probe).fit(table, sample.train_labels).predict(sample.test)
    for rows in (mapped, Store(table)):
        fitted = clone(probe).fit(rows, sample.train_labels)
        np.testing.assert_array_equal(fitted.predict(Store(sample.test)), expected)
    with pytest.raises(DataError, match="expecting 24 features"):
        fitted.predict(Store(sample.test[:, :5]))


def test_bad_input_is_our_own_error(sample):
    broken = sample.train.copy()
    broken[3, 1] = np.inf
    with pytest.raises(DataError, match="infinity"):
        LinearProbe().fit(broken, sample.train_labels)
    with pytest.raises(DataError, match="one class"):
        LinearProbe().fit(sample.train, np.ones(400))
    with pytest.raises(DataError, match="inconsistent numbers"):
        LinearProbe().fit(Store(sample.train), sample.train_labels[:5])
    with pytest.raises(UnknownNameError, match="logistic"):
        LinearProbe("fist").fit(sample.train, sample.train_labels)
