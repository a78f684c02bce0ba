"""SGD by hand against torch's own, step by step."""

import math

import numpy as np
import pytest
import torch

from unseen.probes import Protocol
from unseen.probes.outcome import accuracy
from unseen.probes.rows import FeatureSet, LabelledRows
from unseen.probes.sgd import Setting, TrainingRows, _Trainer, train

SETTINGS = [Setting(0.3, 1e-4), Setting(3.0, 1e-2), Setting(10.0, 1e-9)]


def stream(seed):
    return torch.Generator().manual_seed(seed)


def ordinary(data, rows, setting, protocol, seed):
    """nn.Linear, optim.SGD and autograd on torch's own stream."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = torch.nn.Linear(data.features.dimension, data.classes)
        optimizer = torch.optim.SGD(model.parameters(), lr=setting.lr, momentum=0.9, weight_decay=setting.wd)
        chosen = torch.from_numpy(rows)
        for epoch in range(protocol.epochs):
            for batch in chosen[torch.randperm(len(rows))].split(min(protocol.batch_size, len(rows))):
                optimizer.zero_grad()
                scores = model(data.features.tensor[batch])
                torch.nn.functional.cross_entropy(scores, data.labels[batch]).backward()
                optimizer.step()
            optimizer.param_groups[0]["lr"] = setting.lr * 0.5 * (1 + math.cos(math.pi * epoch / protocol.epochs))
        return model, torch.rand(3)


@pytest.mark.parametrize("setting", SETTINGS)
def test_equals_optim_sgd_and_leaves_the_stream_where_it_does(sample, setting):
    data, protocol = sample.rows, Protocol(epochs=8, batch_size=96)
    rows, generator = np.arange(0, 400, 2), stream(22)
    result = train(TrainingRows(data, rows), setting, protocol, generator)
    model, after = ordinary(data, rows, setting, protocol, 22)
    torch.testing.assert_close(result.model.weights, model.weight.detach(), atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(result.model.bias, model.bias.detach(), atol=1e-5, rtol=1e-5)
    assert result.stopped_at is None
    assert torch.equal(torch.rand(3, generator=generator), after)


def test_schedule_runs_the_first_two_epochs_at_the_full_rate():
    protocol = Protocol()
    factors = [protocol.factor(epoch) for epoch in range(100)]
    assert factors[:2] == [1.0, 1.0]
    assert factors[2] == pytest.approx(0.5 * (1 + math.cos(math.pi / 100)))
    assert factors[99] == pytest.approx(0.5 * (1 + math.cos(math.pi * 98 / 100)))


def test_each_epoch_has_its_own_order(sample):
    data, rows = sample.rows, np.arange(400)
    training = TrainingRows(data, rows)
    trainer = _Trainer(training, SETTINGS[0], Protocol(), stream(1))
    seen, batches = [], training.batches
    training.batches = lambda order, buffer: (seen.append(order.clone()), batches(order, buffer))[1]
    trainer.run_epoch(0)
    trainer.run_epoch(1)
    assert not torch.equal(seen[0], seen[1])
    assert torch.equal(seen[0].sort()[0], torch.arange(400))


def test_a_training_that_diverges_stops_with_the_weights_it_has():
    generator = np.random.default_rng(0)
    features = (1e3 * generator.standard_normal((60, 4))).astype(np.float32)
    rows = FeatureSet(features, "rows", normalize=False)
    data = LabelledRows(rows, torch.from_numpy(np.arange(60) % 3), 3)
    streams = stream(0), stream(0)
    wild, calm = (
        train(TrainingRows(data, np.arange(60)), Setting(lr, 0.0), Protocol(epochs=5), own)
        for lr, own in zip((1e37, 1e-3), streams, strict=True)
    )
    assert torch.equal(*(torch.rand(3, generator=own) for own in streams)), "both leave the stream alike"
    assert wild.stopped_at is not None
    assert calm.stopped_at is None
    assert torch.isfinite(calm.model.weights).all()
    assert 0.0 <= accuracy(wild.model, data, np.arange(60)) <= 1.0


def test_streamed_rows_train_to_the_same_weights_and_leave_the_stream_alike(larger):
    labels = torch.from_numpy(larger.train_labels)
    streamed = LabelledRows(FeatureSet(larger.train, "rows", memory_limit=0), labels, 12)
    rows = np.random.default_rng(0).permutation(2400)[:2000]
    protocol, found = Protocol(epochs=20, batch_size=256), []
    for data, limit in ((larger.rows, 1 << 30), (streamed, 0)):
        generator = stream(5)
        model = train(TrainingRows(data, rows, limit), SETTINGS[0], protocol, generator).model
        found.append((model.weights, torch.rand(1, generator=generator)))
    assert torch.equal(found[0][0], found[1][0])
    assert torch.equal(found[0][1], found[1][1])


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("batch_size", [16, 64])
def test_few_rows_in_their_span_train_to_the_same_weights(make_sample, setting, batch_size):
    """Weight decay works on what the initial weights have outside the span, too."""
    wide = make_sample(60, 100, 4)
    rows, protocol = np.arange(40), Protocol(epochs=6, batch_size=batch_size)
    training = TrainingRows(wide.rows, rows)
    assert training.basis is not None and training.basis.shape == (100, 40)
    found = train(training, setting, protocol, stream(3)).model
    model, _ = ordinary(wide.rows, rows, setting, protocol, 3)
    torch.testing.assert_close(found.weights, model.weight.detach(), atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(found.bias, model.bias.detach(), atol=1e-4, rtol=1e-4)
