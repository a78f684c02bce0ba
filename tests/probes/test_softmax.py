"""Losses and gradients of all folds against autograd, in memory, turned and streamed."""

import numpy as np
import pytest
import torch

from unseen.probes.coordinates import MemoryTable, StreamedTable, principal
from unseen.probes.rows import FeatureSet
from unseen.probes.softmax import LEFT_OUT, ApartLoss, FoldLoss


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


@pytest.mark.parametrize("fits", [2, 5])
@pytest.mark.parametrize("shared", [True, False])
def test_fits_over_their_own_rows_equal_autograd(fits, shared):
    generator = torch.Generator().manual_seed(3)
    draws, count, classes = 3, 240, 60
    rows = torch.randn(1 if shared else draws, count, 33, generator=generator)
    labels = torch.randint(0, classes, (draws, count), generator=generator)
    folds = torch.randint(0, fits, (draws, count), generator=generator).to(torch.int8)
    weights = torch.randn(draws * fits, classes, 33, generator=generator)
    loss = FoldLoss(MemoryTable(rows), labels, folds, fits, classes)
    apart = loss.apart()
    assert isinstance(apart, ApartLoss)
    found = apart(weights)
    for place in range(draws * fits):
        draw, fit = divmod(place, fits)
        own = rows[0 if shared else draw]
        value, gradient, variance = reference(weights[place], own, labels[draw], folds[draw] != fit)
        assert float(found.loss[place]) == pytest.approx(value, rel=1e-5)
        torch.testing.assert_close(found.gradient[place].double(), gradient, rtol=1e-3, atol=1e-5)
        torch.testing.assert_close(found.variance[place].double(), variance, rtol=1e-3, atol=1e-6)
    assert len(apart(weights, False).variance) == 0
    # Alone and in company, the same bits.
    first = FoldLoss(MemoryTable(rows[:1]), labels[:1], folds[:1], fits, classes).apart()(weights[:fits])
    assert torch.equal(first.gradient, found.gradient[:fits]) and torch.equal(first.loss, found.loss[:fits])


def test_fits_are_evaluated_together_where_one_by_one_is_not_faster():
    rows, labels = torch.randn(1, 100, 5), torch.arange(100)[None] % 50
    folds = (torch.arange(100)[None] % 5).to(torch.int8)
    kept = FoldLoss(MemoryTable(rows), labels, folds, 5, 50)
    assert isinstance(kept.apart(), ApartLoss)
    some = folds.clone()
    some[0, 3] = LEFT_OUT
    for other in (
        FoldLoss(MemoryTable(rows), labels, some, 5, 50),
        FoldLoss(MemoryTable(rows), labels, folds.clamp_max(0), 1, 50),
        FoldLoss(MemoryTable(rows), labels % 10, folds, 5, 10),
        FoldLoss(MemoryTable(rows.half()), labels, folds, 5, 50),
    ):
        assert other.apart() is other
