"""f-CLSWGAN: features of unseen classes from a Wasserstein network that a classifier keeps honest.

Paper:      Xian, Lorenz, Schiele & Akata, "Feature generating networks for zero-shot learning", CVPR 2018 [P]
Shapes:     X (n, d) features, scaled to [0, 1]; S (c, a) class embeddings; z (n, a) noise; G: (a + a) -> h -> d, a
            leaky ReLU within and a ReLU at its end; D: (d + a) -> h -> 1
Implements: [P] Eq. (2), L_WGAN = E D(x, s) - E D(G(z, s), s) - lambda E (|grad D(x', s)| - 1)^2, x' between real and
            generated; Eq. (3), L_CLS = -E log p(y | G(z, s)) by softmax regression on training images; Eq. (4),
            min_G max_D L_WGAN + beta L_CLS; softmax regression on real and generated features
Differs:    hidden layers of 512 units, not 4096, so that a CPU learns it in a minute at 256 dimensions; an epoch is one
            pass of D over the images, with a step of G after every five of D
Expected:   [P] Table 2, softmax, PS: H: CUB 49.7, SUN 39.4, AWA1 59.6
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np

from unseen.core.records import MethodCard
from unseen.zeroshot.generative import GenerativeMethod, Layers, linear, torch_training
from unseen.zeroshot.logistic import fit_logistic
from unseen.zeroshot.method import FloatArray, Grid, IntArray, one_hot

_SLOPE = 0.2  # of the leaky ReLU


class FCLSWGAN(GenerativeMethod):
    """Feature generating network.

    Args:
        epochs: passes of the critic over the images.
        samples: generated features per unseen class.
        weight: what a generated feature counts against a real one.
        learning_rate: of Adam, for both networks.
        beta: weight of the classification loss.
        penalty: lambda, weight of the gradient penalty.
        critic_steps: of D for one of G.
        hidden: units of the hidden layers.
        batch_size: images per step.
        real: images of each training class that the last classifier is trained on, at most.
        l2: weight decay of the classifiers.
        device: "auto", "cpu", "cuda" ...
        seed: of weights, noise and the order of images.
    """

    card: ClassVar[MethodCard] = MethodCard(
        id="f-CLSWGAN",
        name="Feature generating network",
        group="zero-shot, generative",
        citation="Xian et al., CVPR 2018",
    )
    version: ClassVar[int] = 1
    grid: ClassVar[Grid] = {
        "epochs": (15, 40),
        "weight": (1.0, 2.0, 3.0, 4.0, 6.0, 10.0, 20.0),
        "l2": (1e-4, 1e-3),
    }
    quick_grid: ClassVar[Grid] = {"weight": (1.0, 3.0, 6.0, 10.0)}

    weights_: dict[str, FloatArray]
    low_: FloatArray
    range_: FloatArray

    def __init__(
        self,
        epochs: int = 15,
        samples: int = 300,
        weight: float = 6.0,
        learning_rate: float = 5e-4,
        beta: float = 0.01,
        penalty: float = 10.0,
        critic_steps: int = 5,
        hidden: int = 512,
        batch_size: int = 256,
        real: int = 200,
        l2: float = 1e-3,
        device: str = "auto",
        seed: int = 0,
    ) -> None:
        self.epochs = epochs
        self.samples = samples
        self.weight = weight
        self.learning_rate = learning_rate
        self.beta = beta
        self.penalty = penalty
        self.critic_steps = critic_steps
        self.hidden = hidden
        self.batch_size = batch_size
        self.real = real
        self.l2 = l2
        self.device = device
        self.seed = seed

    def _path(self, X: FloatArray, y: IntArray, S: FloatArray, epochs: int) -> Iterator[tuple[int, Any]]:
        self.low_ = X.min(0).astype(np.float32)
        self.range_ = np.maximum(X.max(0) - self.low_, 1e-6).astype(np.float32)
        self._remember(X, y)
        scaled = self._scaled(X)
        judge = fit_logistic(scaled, one_hot(y, len(S), np.float32), "softmax", self.l2).astype(np.float32)
        (d, a), h = (X.shape[1], S.shape[1]), self.hidden
        with torch_training(self.device, self.seed) as (device, random, torch):
            G = Layers({"G1": (2 * a, h), "G2": (h, d)}, random, device)
            D = Layers({"D1": (d + a, h), "D2": (h, 1)}, random, device)
            adams = [torch.optim.Adam(net.parameters(), self.learning_rate, betas=(0.5, 0.999)) for net in (D, G)]
            images, labels = torch.from_numpy(scaled).to(device), torch.from_numpy(y).to(device)
            embeddings = torch.from_numpy(S.astype(np.float32)).to(device)
            W, bias = (torch.from_numpy(part).to(device) for part in (judge[:-1], judge[-1]))
            leaky = torch.nn.functional.leaky_relu

            def draw(count: int) -> Any:
                return torch.randn(count, a, generator=random).to(device)

            def generate(s: Any) -> Any:
                return torch.relu(G("G2", leaky(G("G1", torch.cat([draw(len(s)), s], 1)), _SLOPE)))

            def critic(x: Any, s: Any) -> Any:
                return D("D2", leaky(D("D1", torch.cat([x, s], 1)), _SLOPE))[:, 0]

            step = 0
            for epoch in range(1, epochs + 1):
                for rows in torch.randperm(len(images), generator=random).split(self.batch_size):
                    x, s, label = images[rows], embeddings[labels[rows]], labels[rows]
                    with torch.no_grad():
                        fake = generate(s)
                    mix = torch.rand(len(x), 1, generator=random).to(device)
                    between = (mix * x + (1 - mix) * fake).requires_grad_()
                    (slope,) = torch.autograd.grad(critic(between, s).sum(), between, create_graph=True)
                    flat = ((slope.norm(dim=1) - 1) ** 2).mean()
                    loss = critic(fake, s).mean() - critic(x, s).mean() + self.penalty * flat  # Eq. (2)
                    adams[0].zero_grad()
                    loss.backward()
                    adams[0].step()
                    step += 1
                    if step % self.critic_steps == 0:
                        fake = generate(s)
                        wrong = torch.nn.functional.cross_entropy(fake @ W + bias, label)  # Eq. (3)
                        loss = self.beta * wrong - critic(fake, s).mean()  # Eq. (4)
                        adams[1].zero_grad()
                        loss.backward()
                        adams[1].step()
                yield epoch, G

    def _keep(self, learned: Layers) -> None:
        self.weights_ = learned.arrays()

    def _scaled(self, X: FloatArray) -> FloatArray:
        return np.asarray((X.astype(np.float32) - self.low_) / self.range_)

    def _encoded(self, X: FloatArray, rng: np.random.Generator | None) -> FloatArray:
        return self._scaled(X)

    def _generated(self, s: FloatArray, rng: np.random.Generator) -> FloatArray:
        noise = rng.standard_normal(s.shape).astype(np.float32)
        inner = linear(self.weights_, "G1", np.concatenate([noise, s], 1))
        return np.maximum(linear(self.weights_, "G2", np.maximum(inner, _SLOPE * inner)), 0)
