"""N-LEEP and its mixture against scikit-learn and against EM written out."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.decomposition import PCA
from sklearn.mixture import GaussianMixture

from unseen.core.errors import DataError
from unseen.ranking import find_score, fit_mixture, leep, nleep, score_terms
from unseen.ranking.cards import variant_of
from unseen.ranking.gmm import Mixture, _full_step
from unseen.ranking.inputs import stratified_folds
from unseen.ranking.scores.nleep import SMOOTHINGS, _seeds, nleep_parts
from unseen.ranking.spectrum import principal_components


def naive_posterior(rows: np.ndarray, weights: np.ndarray, means: np.ndarray, variances: np.ndarray) -> np.ndarray:
    """Eq. (6), one density at a time."""
    found = np.zeros((len(rows), len(weights)))
    for i, row in enumerate(rows):
        for k, weight in enumerate(weights):
            density = weight
            for x, m, v in zip(row, means[k], variances[k], strict=True):
                density *= np.exp(-((x - m) ** 2) / (2 * v)) / np.sqrt(2 * np.pi * v)
            found[i, k] = density
        found[i] /= found[i].sum()
    return found


def test_score_from_the_fitted_mixture_by_loops(small: tuple) -> None:
    features, labels = small
    reduced = principal_components(features, energy=0.8)
    mixture = fit_mixture(reduced, 15, seed=_seeds(0, 1)[0])
    values = [t.double().numpy() for t in (mixture.log_weights.exp(), mixture.means, mixture.variances)]
    posterior = naive_posterior(reduced / mixture.scale, values[0], values[1], values[2])
    np.testing.assert_allclose(mixture.posterior(reduced), posterior, atol=1e-9)
    assert nleep(features, labels, held_out=False, starts=1) == pytest.approx(leep(posterior, labels), abs=1e-6)


def test_held_out_images_by_loops(small: tuple) -> None:
    """Every image judged by counts of the other folds, at the smoothing that the other folds' images like best."""
    features, labels = small
    reduced = principal_components(features, energy=0.8)
    folds = stratified_folds(labels, 5, 0)
    logs = np.zeros((len(SMOOTHINGS), len(labels)))
    for fold in range(5):
        train, held = np.flatnonzero(folds != fold), np.flatnonzero(folds == fold)
        mixture = fit_mixture(reduced[train], 15, seed=_seeds(0, 1)[0])
        theta, other = mixture.posterior(reduced[train]), mixture.posterior(reduced[held])
        for a, weight in enumerate(SMOOTHINGS):
            for i, image in enumerate(held):
                chance = 0.0
                for v in range(15):
                    own = sum(theta[j, v] for j in range(len(train)) if labels[train[j]] == labels[image])
                    share = np.mean(labels[train] == labels[image])
                    chance += other[i, v] * (own + weight * share) / (theta[:, v].sum() + weight)
                logs[a, image] = np.log(chance)
    expected = [logs[logs[:, folds != fold].mean(axis=1).argmax(), i] for i, fold in enumerate(folds)]
    np.testing.assert_allclose(nleep_parts(features, labels, starts=1), expected, atol=1e-6)
    assert nleep(features, labels, starts=1) == pytest.approx(np.mean(expected), abs=1e-6)


def test_shuffled_labels_are_at_chance_where_images_are_few(cloud: Callable[..., tuple]) -> None:
    """60 classes of 4 images in 100 dimensions, as emoji have them: in-sample scores do not notice the shuffle."""
    generator = np.random.default_rng(0)
    labels = np.repeat(np.arange(60), 4)
    features = 1.2 * generator.normal(size=(60, 100))[labels] + generator.normal(size=(240, 100))
    shuffled = generator.permutation(labels)
    chance = -np.log(60)
    assert 0.9 * -chance <= -nleep(features, shuffled) <= 1.3 * -chance
    assert nleep(features, labels) > nleep(features, shuffled)
    assert nleep(features, shuffled, held_out=False) > 0.3 * chance  # which is the fault of scores on their own images


def test_the_score_is_finite_for_all_images() -> None:
    generator = np.random.default_rng(0)
    for labels in (np.array([0] * 19 + [1]), np.repeat(np.arange(10), 2), np.arange(20) % 19):
        features = generator.normal(size=(20, 3)) * 10.0 ** generator.integers(-3, 4)
        features[:5] = features[0]
        assert np.isfinite(nleep(features, labels))


def test_starts_are_averaged_and_options_act(small: tuple) -> None:
    one = [nleep(*small, starts=1, seed=seed, held_out=False) for seed in range(4)]
    assert len(set(one)) == 4
    assert np.std([nleep(*small, starts=8, seed=s, held_out=False) for s in range(4)]) < np.std(one)
    assert nleep(*small, smoothing=1e6) == pytest.approx(-entropy(small[1]), abs=0.05)
    assert nleep(*small, smoothing=0.01) != nleep(*small, smoothing=3.0)


def entropy(labels: np.ndarray) -> float:
    shares = np.bincount(labels) / len(labels)
    return float(-(shares * np.log(shares)).sum())


@pytest.mark.parametrize("margin", [20.0, 1e9])
def test_one_step_of_em_written_out(monkeypatch: pytest.MonkeyPatch, margin: float) -> None:
    """Both ways of a step: over the pairs that carry weight, and over all of them."""
    monkeypatch.setattr("unseen.ranking.gmm._SPARSE_SHARE", 1.0 if margin < 1e9 else 0.0)
    generator = np.random.default_rng(0)
    rows = generator.normal(size=(40, 3))
    means = torch.from_numpy(generator.normal(size=(2, 3))).float()
    variances = torch.tensor([[1.0, 2.0, 0.5], [0.7, 0.6, 1.5]])
    start = Mixture(torch.tensor([0.3, 0.7]).log(), means, variances, 1.0)
    share = naive_posterior(rows, np.array([0.3, 0.7]), means.double().numpy(), variances.double().numpy())
    x = torch.from_numpy(rows).float()
    sums, pairs = _full_step(x, start)
    steps = [sums.maximise(40, 1.0)]
    assert (pairs is None) == (margin == 1e9)
    if pairs is not None:
        steps.append(pairs.step(start).maximise(40, 1.0))
    for stepped in steps:
        for k in range(2):
            total = sum(share[i, k] for i in range(40))
            mean = sum(share[i, k] * rows[i] for i in range(40)) / total
            variance = sum(share[i, k] * (rows[i] - mean) ** 2 for i in range(40)) / total
            assert float(stepped.log_weights[k].exp()) == pytest.approx(total / 40, abs=1e-5)
            np.testing.assert_allclose(stepped.means[k], mean, atol=1e-5)
            np.testing.assert_allclose(stepped.variances[k], variance, atol=1e-5)


def test_score_and_likelihood_are_as_good_as_scikit_learn_s(cloud: Callable[..., tuple]) -> None:
    features, labels = cloud(0.9, images=1500, dimensions=40, classes=10)
    reduced = PCA(n_components=0.8, svd_solver="full").fit_transform(features)
    theirs = [GaussianMixture(50, covariance_type="diag", random_state=s).fit(reduced) for s in range(3)]
    ours = [fit_mixture(reduced, 50, seed=s) for s in range(3)]
    scale = reduced.shape[1] * np.log([m.scale for m in ours])
    found = np.mean([m.log_likelihood for m in ours] - scale)
    assert found == pytest.approx(np.mean([m.score(reduced) for m in theirs]), abs=0.1)
    expected = [leep(m.predict_proba(reduced), labels) for m in theirs]
    # Starts differ, and so do scores: by about a tenth from seed to seed, on both sides.
    assert nleep(features, labels, held_out=False) == pytest.approx(np.mean(expected), rel=0.1)


def test_principal_components_are_those_of_scikit_learn(small: tuple) -> None:
    features = small[0]
    reference = PCA(n_components=0.8, svd_solver="full").fit_transform(features)
    ours = principal_components(features, energy=0.8)
    assert ours.shape == reference.shape
    np.testing.assert_allclose(np.abs(ours), np.abs(reference), atol=1e-8)
    assert principal_components(features, energy=1.0).shape == features.shape


def test_few_images_cap_the_components_and_say_so(small: tuple) -> None:
    features, labels = small
    said: list[str] = []
    nleep(features[:20], labels[:20], tell=said.append)
    assert said == ["N-LEEP: 16 images are too few for 15 Gaussians (5 per class); 8 were fitted"]
    nleep(features, labels, tell=said.append)
    assert len(said) == 1


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 30), st.integers(1, 6), st.integers(0, 5))
def test_a_mixture_of_any_shape_has_finite_posteriors(components: int, dimensions: int, seed: int) -> None:
    generator = np.random.default_rng(seed)
    rows = generator.normal(size=(30, dimensions)) * 10.0 ** generator.integers(-4, 4)
    rows[5:10] = rows[5]  # duplicates, which leave components without variance
    mixture = fit_mixture(rows, components, seed=seed)
    posterior = mixture.posterior(rows)
    assert posterior.shape == (30, components)
    np.testing.assert_allclose(posterior.sum(axis=1), 1.0, atol=1e-4)


def test_same_seed_same_mixture_and_blocks_change_nothing(small: tuple, monkeypatch: pytest.MonkeyPatch) -> None:
    first = fit_mixture(small[0], 6, seed=4)
    assert torch.equal(first.means, fit_mixture(small[0], 6, seed=4).means)
    monkeypatch.setattr("unseen.ranking.gmm._BLOCK_BYTES", 4 * 6 * 7)
    np.testing.assert_allclose(
        first.posterior(small[0]), fit_mixture(small[0], 6, seed=4).posterior(small[0]), atol=1e-3
    )


def test_more_components_than_rows_are_refused(small: tuple) -> None:
    with pytest.raises(DataError, match="61 Gaussians"):
        fit_mixture(small[0], 61)


def test_the_name_of_a_variant_contains_its_energy_and_its_gaussians(small: tuple) -> None:
    features, labels = small
    assert variant_of("nleep-pca5-20x") == (5, 20) and variant_of("nleep-pca50-2x") == (50, 2)
    card = find_score("nleep-pca50-2x")
    assert (card.id, card.name) == ("nleep-pca50-2x", "N-LEEP, PCA 50 %, 2 per class")
    expected = nleep(features, labels, energy=0.5, components_per_class=2, starts=1, seed=3)
    assert score_terms(card, labels, features=features, seed=3) == (expected,)
    for name in ("nleep", "nleep-pca0-2x", "nleep-pca50-0x", "nleep-pca100-2x", "nleep-pca50-2x ", "a-nleep-pca50-2x"):
        assert variant_of(name) is None
