"""f-CLSWGAN against the losses of its paper, written out, with the same draws and by autograd."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy, leaky_relu, relu

from unseen.zeroshot import FCLSWGAN
from unseen.zeroshot.f_clswgan import linear, torch_training
from unseen.zeroshot.logistic import fit_logistic

N, D, A, H = 24, 6, 4, 8
Weights = dict[str, torch.Tensor]


@pytest.fixture
def images() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Every feature goes from 0 to 1, so that scaling leaves it as it is."""
    rng = np.random.default_rng(0)
    X, y, S = rng.random((N, D)), np.arange(N) % 5, rng.random((5, A))
    X = (X - X.min(0)) / (X.max(0) - X.min(0))
    return X.astype(np.float32), y, S


def drawn(sizes: dict[str, tuple[int, int]], random: torch.Generator) -> Weights:
    """Glorot & Bengio (2010): uniform, as far as the root of 6 / (inputs + outputs); biases 0."""
    weights: Weights = {}
    for name, (before, after) in sizes.items():
        reach = np.sqrt(6 / (before + after))
        weights[name] = (torch.rand(before, after, generator=random) * 2 * reach - reach).requires_grad_()
        weights[f"{name} bias"] = torch.zeros(after, requires_grad=True)
    return weights


def layer(weights: Weights, name: str, x: torch.Tensor) -> torch.Tensor:
    return x @ weights[name] + weights[f"{name} bias"]


def step(loss: torch.Tensor, adam: torch.optim.Adam) -> None:
    adam.zero_grad()
    loss.backward()
    adam.step()


def same(found: torch.nn.Sequential, wanted: Weights, atol: float) -> None:
    for number, name in ((0, "G1"), (2, "G2")):
        np.testing.assert_allclose(found[number].weight.detach().T, wanted[name].detach(), atol=atol)
        np.testing.assert_allclose(found[number].bias.detach(), wanted[f"{name} bias"].detach(), atol=atol)


def test_f_clswgan_takes_the_steps_of_its_paper(
    images: tuple[np.ndarray, np.ndarray, np.ndarray], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Eqs. (2) to (4) of its paper; the gradient penalty by differentiating twice."""
    monkeypatch.setattr("unseen.zeroshot.f_clswgan._LEAST_STEPS", 1)
    X, y, S = images
    epochs, beta = 3, 0.5
    method = FCLSWGAN(epochs=epochs, beta=beta, critic_steps=2, hidden=H, learning_rate=0.01, device="cpu", seed=3)
    method.fit(X, y, S)
    random = torch.Generator().manual_seed(3)
    G = drawn({"G1": (2 * A, H), "G2": (H, D)}, random)
    critic = drawn({"D1": (D + A, H), "D2": (H, 1)}, random)
    adams = [torch.optim.Adam(net.values(), 0.01, betas=(0.5, 0.999)) for net in (critic, G)]
    judge = torch.from_numpy(fit_logistic(X, np.eye(5)[y], "softmax", method.l2)).float()
    truth, s_all = torch.from_numpy(y), torch.from_numpy(S.astype(np.float32)[y])

    def generate(s: torch.Tensor) -> torch.Tensor:
        z = torch.randn(len(s), A, generator=random)
        return relu(layer(G, "G2", leaky_relu(layer(G, "G1", torch.cat([z, s], 1)), 0.2)))

    def says(x: torch.Tensor, s: torch.Tensor) -> torch.Tensor:
        return layer(critic, "D2", leaky_relu(layer(critic, "D1", torch.cat([x, s], 1)), 0.2))[:, 0]

    for _ in range(epochs):
        for _ in range(2):
            rows = torch.randperm(N, generator=random)
            x, s = torch.from_numpy(X)[rows], s_all[rows]
            fake = generate(s).detach()
            mix = torch.rand(N, 1, generator=random)
            between = (mix * x + (1 - mix) * fake).requires_grad_()
            (slope,) = torch.autograd.grad(says(between, s).sum(), between, create_graph=True)
            step(says(fake, s).mean() - says(x, s).mean() + 10 * ((slope.norm(dim=1) - 1) ** 2).mean(), adams[0])
        rows = torch.randperm(N, generator=random)
        fake = generate(s_all[rows])
        wrong = cross_entropy(fake @ judge[:-1] + judge[-1], truth[rows])
        step(beta * wrong - says(fake, s_all[rows]).mean(), adams[1])
    same(method.generator_, G, atol=1e-4)


def test_first_weights_fill_the_range_of_glorot() -> None:
    layer = linear(40, 60, torch.Generator().manual_seed(0))
    weights, reach = layer.weight.detach().numpy(), np.sqrt(6 / 100)
    assert 0.99 * reach < weights.max() <= reach
    assert -reach <= weights.min() < -0.99 * reach
    assert weights.std() == pytest.approx(reach / np.sqrt(3), rel=0.05)
    assert not layer.bias.any()


def test_training_on_a_cpu_has_one_thread_and_gives_the_others_back() -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        with torch_training("cpu", 0):
            assert torch.get_num_threads() == 1
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_an_epoch_of_f_clswgan_is_a_pass_of_its_generator(
    images: tuple[np.ndarray, np.ndarray, np.ndarray], monkeypatch: pytest.MonkeyPatch
) -> None:
    """24 images in steps of 10 are three steps of G, unless the minimum is higher."""
    found = {}
    for least in (1, 3, 4):
        monkeypatch.setattr("unseen.zeroshot.f_clswgan._LEAST_STEPS", least)
        method = FCLSWGAN(epochs=1, batch_size=10, critic_steps=1, hidden=H, device="cpu").fit(*images)
        found[least] = method.generator_[0].weight.detach().numpy()
    np.testing.assert_array_equal(found[1], found[3])
    assert not np.array_equal(found[3], found[4])
