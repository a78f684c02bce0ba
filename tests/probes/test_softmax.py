"""Losses and gradients of a fit against autograd, in memory and streamed."""

import numpy as np
import pytest
import torch

from unseen.probes.rows import FeatureSet
from unseen.probes.softmax import Table, principal


def reference(weights, rows, labels):
    """Loss, gradient and mean P(1 - P) of one fit, by autograd in float64."""
    weights = weights.double().requires_grad_()
    scores = rows.double() @ weights.T
    loss = torch.nn.functional.cross_entropy(scores, labels)
    loss.backward()
    chances = torch.softmax(scores, 1)
    return loss.item(), weights.grad, (chances * (1 - chances)).mean(0).detach()


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("normalize", [True, False])
def test_every_kind_of_table_equals_autograd(larger, streamed, normalize):
    features = FeatureSet(larger.train, "rows", normalize=normalize, memory_limit=0 if streamed else 1 << 30)
    numbers = np.flatnonzero(np.arange(2400) % 7)
    labels = torch.from_numpy(larger.train_labels)[numbers]
    frame = principal(features)
    written = frame.write(features.take(numbers))
    table = Table(features if streamed else written, frame, numbers, labels, 1.0)
    weights = torch.randn(12, 49, generator=torch.Generator().manual_seed(1))
    folds = np.arange(len(numbers)) % 3
    for fold in range(3):
        seen, held = folds != fold, np.flatnonzero(folds == fold)
        value, gradient, variance = reference(weights, written[seen], labels[seen])
        found = table.loss(seen)(weights)
        assert found[0] == pytest.approx(value, rel=1e-5)
        torch.testing.assert_close(found[1].double(), gradient, rtol=1e-3, atol=1e-5)
        torch.testing.assert_close(found[2].double(), variance, rtol=1e-3, atol=1e-6)
        expected = torch.stack([weights, 2 * weights]) @ written[held].T
        torch.testing.assert_close(
            table.scores(torch.stack([weights, 2 * weights]), held), expected, rtol=1e-3, atol=1e-3
        )


def test_principal_coordinates_are_orthonormal_and_diagonal(larger):
    features = larger.rows.features
    frame = principal(features)
    rows = frame.write(features.tensor)
    torch.testing.assert_close(frame.basis.T @ frame.basis, torch.eye(48), atol=1e-5, rtol=0)
    torch.testing.assert_close(rows.T @ rows / len(rows), torch.diag(frame.spectrum), atol=1e-5, rtol=0)
