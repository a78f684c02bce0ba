"""f-CLSWGAN: features of unseen classes from a Wasserstein network that a classifier keeps honest.

Paper:      Xian, Lorenz, Schiele & Akata, "Feature generating networks for zero-shot learning", CVPR 2018 [P]
Shapes:     X (n, d) features, scaled to [0, 1]; S (c, a) class embeddings; z (n, a) noise; G: (a + a) -> h -> d, a
            leaky ReLU within and a ReLU at its end; D: (d + a) -> h -> 1
Implements: [P] Eq. (2), L_WGAN = E D(x, s) - E D(G(z, s), s) - lambda E (|grad D(x', s)| - 1)^2, x' between real and
            generated; Eq. (3), L_CLS = -E log p(y | G(z, s)) by softmax regression on training images; Eq. (4),
            min_G max_D L_WGAN + beta L_CLS; softmax regression on real and generated features
Differs:    hidden layers of 256 units, not 4096, so that a CPU learns it in a minute at 256 dimensions. An epoch is a
            pass of G over the images, as in [P], and forty steps of G at least: with few images a number of passes
            alone would leave G where it began. The gradient of D with respect to an image, which the penalty needs, is
            written out: it costs one product where differentiating twice costs four
Expected:   [P] Table 2, softmax, PS: H: CUB 49.7, SUN 39.4, AWA1 59.6
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, islice, repeat
from typing import TYPE_CHECKING

import numpy as np

from unseen.core.records import MethodCard
from unseen.zeroshot.generative import GenerativeMethod, Layers, TrainingImages, linear
from unseen.zeroshot.logistic import fit_logistic
from unseen.zeroshot.method import FloatArray, Grid, one_hot, parameters

if TYPE_CHECKING:
    from torch import Tensor
    from torch.optim import Optimizer

_SLOPE = 0.2  # of the leaky ReLU
_LEAST_STEPS = 40  # of G in an epoch


@parameters
class FCLSWGAN(GenerativeMethod):
    """Feature generating network.

    Args:
        epochs: passes of the generator over the images.
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

    beta: float = 0.01
    penalty: float = 10.0
    critic_steps: int = 5

    card = MethodCard(
        id="f-CLSWGAN",
        name="Feature generating network",
        group="zero-shot, generative",
        citation="Xian et al., CVPR 2018",
    )
    version = 3  # the quick grid has a weight of 1
    grid = Grid(epochs=(3, 8), weight=(1.0, 3.0, 6.0, 10.0, 20.0, 40.0), l2=(1e-4, 1e-3))
    quick_grid = Grid(weight=(1.0, 3.0, 10.0))

    def _train(self, data: TrainingImages, epochs: int) -> Iterator[tuple[int, Layers]]:
        import torch

        (n, d), (classes, a), h = data.images.shape, data.embeddings.shape, self.hidden
        truth = one_hot(data.labels.cpu().numpy(), classes, np.float32)
        judge = fit_logistic(data.images.cpu().numpy(), truth, "softmax", self.l2).astype(np.float32)
        W, bias = (torch.from_numpy(part).to(data.device) for part in (judge[:-1], judge[-1]))
        G = Layers({"G1": (2 * a, h), "G2": (h, d)}, data.random, data.device)
        D = Layers({"D1": (d + a, h), "D2": (h, 1)}, data.random, data.device)
        adams = [torch.optim.Adam(net.parameters(), self.learning_rate, betas=(0.5, 0.999)) for net in (D, G)]
        leaky = torch.nn.functional.leaky_relu

        def generate(s: Tensor) -> Tensor:
            return torch.relu(G("G2", leaky(G("G1", torch.cat([data.noise(len(s), a), s], 1)), _SLOPE)))

        def critic(x: Tensor, s: Tensor) -> tuple[Tensor, Tensor]:
            """Return the output of D for each image, and its gradient with respect to the image."""
            inner = D("D1", torch.cat([x, s], 1))
            slopes = torch.where(inner > 0, 1.0, _SLOPE) * D.tensors["D2.weight"][:, 0]
            return D("D2", leaky(inner, _SLOPE))[:, 0], slopes @ D.tensors["D1.weight"][:d].T

        def step(loss: Tensor, adam: Optimizer) -> None:
            adam.zero_grad()
            torch.autograd.backward(loss)
            adam.step()

        endless = chain.from_iterable(data.batches(self.batch_size) for _ in repeat(None))
        for epoch in range(1, epochs + 1):
            for _ in range(max(-(-n // self.batch_size), _LEAST_STEPS)):
                for x, s, _ in islice(endless, self.critic_steps):
                    with torch.no_grad():
                        fake = generate(s)
                    mix = torch.rand(len(x), 1, generator=data.random).to(data.device)
                    output = critic(torch.cat([x, fake]), torch.cat([s, s]))[0].view(2, -1).mean(1)
                    flat = ((critic(mix * x + (1 - mix) * fake, s)[1].norm(dim=1) - 1) ** 2).mean()
                    step(output[1] - output[0] + self.penalty * flat, adams[0])  # Eq. (2)
                _, s, label = next(endless)
                fake = generate(s)
                wrong = torch.nn.functional.cross_entropy(fake @ W + bias, label)  # Eq. (3)
                step(self.beta * wrong - critic(fake, s)[0].mean(), adams[1])  # Eq. (4)
            yield epoch, G

    def _generated(self, s: FloatArray, rng: np.random.Generator) -> FloatArray:
        noise = rng.standard_normal(s.shape).astype(np.float32)
        inner = linear(self.weights_, "G1", np.concatenate([noise, s], 1))
        return np.maximum(linear(self.weights_, "G2", np.maximum(inner, _SLOPE * inner)), 0)
