"""DAP and IAP against Bayes' rule written out, with the classifiers of scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from unseen.zeroshot import DAP, IAP
from unseen.zeroshot.problem import Problem


def combined(present: np.ndarray, has: np.ndarray, S: np.ndarray) -> np.ndarray:
    """Eq. (12), one image, class and attribute at a time; attributes are made binary at their mean over classes."""
    prior = has.mean(0)
    found = np.zeros((len(present), len(S)))
    for i, c in np.ndindex(found.shape):
        for m, p in enumerate(present[i]):
            found[i, c] += np.log(p / prior[m]) if S[c, m] else np.log((1 - p) / (1 - prior[m]))
    return found


@pytest.mark.parametrize("kind", [DAP, IAP])
def test_scores_are_bayes_rule(small_problem: Problem, kind: type) -> None:
    X, y, S = small_problem.train.X.astype(np.float64), small_problem.train.y, small_problem.S
    x, l2 = small_problem.test_unseen.X[:10].astype(np.float64), 1e-3
    has = S[:20] > S[:20].mean(0)
    fit = lambda labels: LogisticRegression(C=1 / (l2 * len(X)), tol=1e-8, max_iter=5000).fit(X, labels)  # noqa: E731
    if kind is DAP:
        present = np.stack([fit(column[y]).predict_proba(x)[:, 1] for column in has.T], axis=1)
    else:
        present = fit(y).predict_proba(x) @ has  # Eq. (13)
    wanted = combined(present, has, S[20:] > S[:20].mean(0))
    np.testing.assert_allclose(kind(l2=l2).fit(X, y, S).scores(x, S[20:]), wanted, atol=0.02 * np.abs(wanted).max())


@pytest.mark.parametrize("kind", [DAP, IAP])
@pytest.mark.parametrize("value", [0.0, 1.0])
def test_an_attribute_of_all_classes_tells_nothing(small_problem: Problem, kind: type, value: float) -> None:
    X, y, S = small_problem.train.X.astype(np.float64), small_problem.train.y, small_problem.S
    more = np.column_stack([S, np.full(len(S), value)])
    x = small_problem.test_unseen.X
    found, wanted = (kind().fit(X, y, s).scores(x, s[20:]) for s in (more, S))
    np.testing.assert_allclose(found - found[:, :1], wanted - wanted[:, :1], atol=0.01 * np.abs(wanted).max())
