"""Losses and gradients of all folds against autograd, in memory, turned and streamed."""

import numpy as np
import pytest
import torch

from unseen.probes.coordinates import principal
from unseen.probes.rows import FeatureSet
from unseen.probes.softmax import LEFT_OUT, FoldLoss, MemoryTable, StreamedTable


def reference(weights, rows, labels, seen):
    """Loss, gradient and mean P(1 - P) of one fit, by autograd in float64."""
    weights = weights.double().requires_grad_()
    scores = rows[seen].double() @ weights.T
    loss = torch.nn.functional.cross_entropy(scores, labels[seen])
    loss.backward()
    chances = torch.softmax(scores, 1)
    return loss.item(), weights.grad, (chances * (1 - chances)).mean(0).detach()


@pytest.mark.parametrize("kind", ["turned", "raw", "streamed"])
@pytest.mark.parametrize("normalize", [True, False])
def test_every_kind_of_table_equals_autograd(larger, kind, normalize):
    limit = 0 if kind == "streamed" else 1 << 30
    features = FeatureSet(larger.train, "rows", normalize=normalize, memory_limit=limit)
    labels = torch.from_numpy(larger.train_labels)
    frame = principal(features)
    written = frame.write(features.read(0, 2400))
    table = {
        "turned": lambda: MemoryTable(written[None]),
        "raw": lambda: MemoryTable(features.read(0, 2400)[None], frame),
        "streamed": lambda: StreamedTable(features, torch.ones(2400, dtype=torch.bool), frame),
    }[kind]()
    folds = torch.from_numpy((np.arange(2400) % 3).astype(np.int8))
    folds[::7] = LEFT_OUT
    weights = torch.randn(3, 12, 49, generator=torch.Generator().manual_seed(1))
    loss = FoldLoss(table, labels[None], folds[None], 3, 12)
    found = loss(weights)
    for fit in range(3):
        seen = (folds != fit) & (folds != LEFT_OUT)
        value, gradient, variance = reference(weights[fit], written, labels, seen)
        assert float(found.loss[fit]) == pytest.approx(value, rel=1e-5)
        torch.testing.assert_close(found.gradient[fit].double(), gradient, rtol=1e-3, atol=1e-5)
        torch.testing.assert_close(found.variance[fit].double(), variance, rtol=1e-3, atol=1e-6)
    held = {int(row): scores[0, k] for _, rows, scores in loss.held_scores(weights[None]) for k, row in enumerate(rows)}
    assert sorted(held) == torch.nonzero(folds >= 0)[:, 0].tolist()
    for row in (1, 500, 2399):
        torch.testing.assert_close(held[row], weights[int(folds[row])] @ written[row], rtol=1e-3, atol=1e-3)


def test_half_precision_rows_are_summed_in_single(larger):
    features = FeatureSet(larger.train, "rows")
    frame = principal(features)
    written = frame.write(features.read(0, 2400))
    folds, labels = torch.full((1, 2400), -1, dtype=torch.int8), torch.from_numpy(larger.train_labels)[None]
    weights = torch.randn(1, 12, 49, generator=torch.Generator().manual_seed(1))
    whole, half = (FoldLoss(MemoryTable(t[None]), labels, folds, 1, 12)(weights) for t in (written, written.half()))
    assert half.gradient.dtype == torch.float32
    assert float(half.loss[0]) == pytest.approx(float(whole.loss[0]), rel=1e-3)


def test_principal_coordinates_are_orthonormal_and_diagonal(larger):
    features = larger.rows.features
    frame = principal(features)
    rows = frame.write(features.tensor)
    torch.testing.assert_close(frame.basis.T @ frame.basis, torch.eye(48), atol=1e-5, rtol=0)
    torch.testing.assert_close(rows.T @ rows / len(rows), torch.diag(frame.spectrum), atol=1e-5, rtol=0)
