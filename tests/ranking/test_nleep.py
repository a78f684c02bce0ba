"""N-LEEP against loops over the parameters of scikit-learn's mixture."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.decomposition import PCA
from sklearn.mixture import GaussianMixture

from unseen.ranking import find_score, leep, nleep, score_value
from unseen.ranking.cards import variant_of
from unseen.ranking.inputs import stratified_folds
from unseen.ranking.scores.nleep import SMOOTHINGS, mixture_posterior
from unseen.ranking.spectrum import principal_components

#: The mixture's seed that follows from seed 0.
START = int(np.random.SeedSequence(0).spawn(1)[0].generate_state(1)[0])


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
    reduced /= np.sqrt(reduced.var(axis=0).mean())
    mixture = GaussianMixture(15, covariance_type="diag", random_state=START).fit(reduced)
    posterior = naive_posterior(reduced, mixture.weights_, mixture.means_, mixture.covariances_)
    np.testing.assert_allclose(mixture_posterior(7 * reduced, 15, START), posterior, atol=1e-6)
    assert nleep(features, labels, held_out=False) == pytest.approx(leep(posterior, labels), abs=1e-6)


@settings(max_examples=10, deadline=None)
@given(st.integers(1, 30), st.integers(1, 6), st.integers(0, 5))
def test_a_mixture_of_any_shape_has_finite_posteriors(components: int, dimensions: int, seed: int) -> None:
    generator = np.random.default_rng(seed)
    rows = generator.normal(size=(30, dimensions)) * 10.0 ** generator.integers(-4, 4)
    rows[5:10] = rows[5]  # duplicates, which leave components without variance
    posterior = mixture_posterior(rows, components, seed)
    assert posterior.shape == (30, components)
    np.testing.assert_allclose(posterior.sum(axis=1), 1.0, atol=1e-4)


def test_held_out_images_by_loops(small: tuple) -> None:
    """Every image judged by counts of the other folds, at the smoothing that the other folds' images like best."""
    features, labels = small
    reduced = principal_components(features, energy=0.8)
    posterior = mixture_posterior(reduced, 15, START)
    folds = stratified_folds(labels, 5, 0)
    logs = np.zeros((len(SMOOTHINGS), len(labels)))
    for fold in range(5):
        train, held = np.flatnonzero(folds != fold), np.flatnonzero(folds == fold)
        theta, other = posterior[train], posterior[held]
        for a, weight in enumerate(SMOOTHINGS):
            for i, image in enumerate(held):
                chance = 0.0
                for v in range(15):
                    own = sum(theta[j, v] for j in range(len(train)) if labels[train[j]] == labels[image])
                    share = np.mean(labels[train] == labels[image])
                    chance += other[i, v] * (own + weight * share) / (theta[:, v].sum() + weight)
                logs[a, image] = np.log(chance)
    expected = [logs[logs[:, folds != fold].mean(axis=1).argmax(), i] for i, fold in enumerate(folds)]
    assert nleep(features, labels) == pytest.approx(np.mean(expected), abs=1e-6)


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


def test_seeds_give_other_starts_of_the_mixture(small: tuple) -> None:
    assert len({nleep(*small, seed=seed, held_out=False) for seed in range(4)}) == 4


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
    assert said == ["N-LEEP: 20 images are too few for 15 Gaussians (5 per class); 10 were fitted"]
    nleep(features, labels, tell=said.append)
    assert len(said) == 1


def test_the_name_of_a_variant_contains_its_energy_and_its_gaussians(small: tuple) -> None:
    features, labels = small
    assert variant_of("nleep-pca5-20x") == (5, 20) and variant_of("nleep-pca50-2x") == (50, 2)
    card = find_score("nleep-pca50-2x")
    assert (card.id, card.name) == ("nleep-pca50-2x", "N-LEEP, PCA 50 %, 2 per class")
    expected = nleep(features, labels, energy=0.5, components_per_class=2, seed=3)
    assert score_value(card, labels, features=features, seed=3) == expected
    for name in ("nleep", "nleep-pca0-2x", "nleep-pca50-0x", "nleep-pca100-2x", "nleep-pca50-2x ", "a-nleep-pca50-2x"):
        assert variant_of(name) is None
