"""Loss and gradient against autograd, in memory and streamed."""

import numpy as np
import pytest
import torch

from unseen.probes.rotation import compress, rotate_all
from unseen.probes.rows import FeatureSet
from unseen.probes.softmax import SoftmaxLoss, memory_blocks, streamed_blocks, with_ones


def reference(weights, features, labels):
    weights = weights.double().requires_grad_()
    scores = features.double() @ weights.T
    loss = torch.nn.functional.cross_entropy(scores, labels)
    loss.backward()
    probabilities = torch.softmax(scores, 1)
    accuracy = float((scores.argmax(1) == labels).double().mean())
    variance = (probabilities * (1 - probabilities)).mean(0)
    return loss.item(), weights.grad, variance.detach(), accuracy


def test_in_memory_equals_autograd(larger):
    data = larger.rows
    features = with_ones(data.features.tensor)
    weights = torch.randn(data.classes, features.shape[1], generator=torch.Generator().manual_seed(0))
    loss = SoftmaxLoss(memory_blocks(features, data.labels), len(features))
    found = loss(weights, curvature=True)
    value, gradient, variance, accuracy = reference(weights, features, data.labels)
    assert found.loss == pytest.approx(value, rel=1e-6)
    torch.testing.assert_close(found.gradient.double(), gradient, rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(found.variance.squeeze(1).double(), variance, rtol=1e-4, atol=1e-7)
    assert loss.accuracy_and_loss(weights) == (pytest.approx(accuracy), pytest.approx(value, rel=1e-6))


@pytest.mark.parametrize("normalize", [True, False])
def test_streamed_rows_in_rotated_coordinates_equal_autograd(larger, workers, normalize):
    features = FeatureSet(larger.train, "rows", normalize=normalize, memory_limit=0)
    labels = torch.from_numpy(larger.train_labels)
    rotation = workers.run(rotate_all, features, workers)
    rows = np.arange(0, len(labels), 3)
    weights = torch.randn(12, 49, generator=torch.Generator().manual_seed(1))
    loss = SoftmaxLoss(streamed_blocks(features, labels, rows), len(rows), basis=rotation.basis)
    found = loss(weights, curvature=True)
    inside = with_ones(features.take(rows)) @ rotation.basis
    value, gradient, variance, accuracy = reference(weights, inside, labels[rows])
    assert found.loss == pytest.approx(value, rel=1e-5)
    torch.testing.assert_close(found.gradient.double(), gradient, rtol=1e-3, atol=1e-5)
    torch.testing.assert_close(found.variance.squeeze(1).double(), variance, rtol=1e-3, atol=1e-6)
    assert loss.accuracy_and_loss(weights) == (pytest.approx(accuracy), pytest.approx(value, rel=1e-5))


def test_rotation_is_orthonormal_and_diagonal(larger, workers):
    features = larger.rows.features
    rotation = workers.run(rotate_all, features, workers)
    identity = torch.eye(len(rotation.spectrum))
    torch.testing.assert_close(rotation.basis.T @ rotation.basis, identity, atol=1e-5, rtol=0)
    moments = rotation.rows.T @ rotation.rows / len(rotation.rows)
    torch.testing.assert_close(moments, torch.diag(rotation.spectrum), atol=1e-5, rtol=0)
    torch.testing.assert_close(rotation.rows @ rotation.basis.T, with_ones(features.tensor), atol=1e-5, rtol=0)


def test_few_rows_are_compressed_without_loss():
    rows = torch.randn(10, 40, generator=torch.Generator().manual_seed(0))
    inside, basis, spectrum = compress(rows)
    assert inside.shape == (10, 10)
    torch.testing.assert_close(inside @ basis.T, rows, atol=1e-5, rtol=0)
    torch.testing.assert_close(inside.square().mean(0), spectrum, atol=1e-4, rtol=1e-4)


def test_few_images_of_many_dimensions_rotate_into_as_many(make_sample, workers):
    sample = make_sample(60, 100, 4)
    rotation = workers.run(rotate_all, sample.rows.features, workers)
    assert rotation.rows.shape == (60, 60)
    torch.testing.assert_close(
        rotation.rows @ rotation.basis.T, with_ones(sample.rows.features.tensor), atol=1e-5, rtol=0
    )
