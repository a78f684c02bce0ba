"""f-CLSWGAN: features of unseen classes from a Wasserstein network that a classifier keeps honest.

Paper:      Xian, Lorenz, Schiele & Akata, "Feature generating networks for zero-shot learning", CVPR 2018 [P]
Shapes:     X (n, d) features, scaled to [0, 1]; S (c, a) class embeddings; z (n, a) noise; G: (a + a) -> h -> d, a
            leaky ReLU within and a ReLU at its end; D: (d + a) -> h -> 1
Implements: [P] Eq. (2), L_WGAN = E D(x, s) - E D(G(z, s), s) - lambda E (|grad D(x', s)| - 1)^2, x' between real and
            generated; Eq. (3), L_CLS = -E log p(y | G(z, s)) by softmax regression on training images; Eq. (4),
            min_G max_D L_WGAN + beta L_CLS. `fit` learns the generator. `_prepare(S)` trains softmax regression on real
            images of candidates that were trained on and on generated ones of the others
Differs:    hidden layers of 256 units, not 4096, so that a CPU learns it in a minute at 256 dimensions. An epoch is a
            pass of G over the images, as in [P], and forty steps of G at least: with few images a number of passes
            alone would leave G where it began. The gradient of D with respect to an image, which the penalty needs, is
            written out: it costs one product where differentiating twice costs four. [P] generates several times as
            many points of an unseen class as a training class has images; here a point counts `weight` times, which is
            the same balance. Softmax regression is solved to its minimum where [P] takes some epochs of Adam
Expected:   [P] Table 2, softmax, PS: H: CUB 49.7, SUN 39.4, AWA1 59.6
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from itertools import chain, islice, repeat
from typing import TYPE_CHECKING, Any, ClassVar, Literal
from zlib import crc32

import numpy as np

from unseen.core.errors import MissingExtraError
from unseen.zeroshot.compatibility import EarlyStoppedMethod
from unseen.zeroshot.logistic import fit_logistic, predict_logistic
from unseen.zeroshot.method import FloatArray, IntArray, one_hot, parameters

if TYPE_CHECKING:
    import torch
    from torch import Tensor
    from torch.optim import Optimizer

_SLOPE = 0.2  # of the leaky ReLU
_LEAST_STEPS = 40  # of G in an epoch


@parameters
class FCLSWGAN(EarlyStoppedMethod, key="f-CLSWGAN"):
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

    epochs: int = 5
    samples: int = 100
    weight: float = 10.0
    learning_rate: float = 1e-3
    hidden: int = 256
    batch_size: int = 64
    real: int = 100
    l2: float = 1e-3
    device: str = "auto"
    seed: int = 0
    beta: float = 0.01
    penalty: float = 10.0
    critic_steps: int = 5

    tuned_by: ClassVar[Literal["zsl", "H"]] = "H"
    scoring_params = ("samples", "weight", "l2")

    def _path(self, X: FloatArray, y: IntArray, S: FloatArray, epochs: int) -> Iterator[None]:
        self.low_ = X.min(0).astype(np.float32)
        self.range_ = np.maximum(X.max(0) - self.low_, 1e-6).astype(np.float32)
        order = np.random.default_rng(self.seed).permutation(len(y))
        rows = np.sort(np.concatenate([order[y[order] == c][: self.real] for c in range(len(S))]))
        self.images_, self.labels_ = self._scaled(X[rows]), y[rows]
        scaled = self._scaled(X)
        judge = fit_logistic(scaled, one_hot(y, len(S), np.float32), "softmax", self.l2).astype(np.float32)
        with torch_training(self.device, self.seed) as (device, random, torch):
            arrays = scaled, S.astype(np.float32), y, judge[:-1], judge[-1]
            yield from self._train([torch.from_numpy(part).to(device) for part in arrays], epochs, random)

    def _train(self, data: list[Tensor], epochs: int, random: torch.Generator) -> Iterator[None]:
        """Yield the generator after each epoch; `data` are images, embeddings, labels, weights and bias of Eq. (3)."""
        import torch

        images, embeddings, labels, W, bias = data
        (n, d), a, h = images.shape, embeddings.shape[1], self.hidden
        g1, g2, d1, d2 = (linear(*size, random).to(images.device) for size in ((2 * a, h), (h, d), (d + a, h), (h, 1)))
        G = torch.nn.Sequential(g1, torch.nn.LeakyReLU(_SLOPE), g2, torch.nn.ReLU())
        adams = [
            torch.optim.Adam(net.parameters(), self.learning_rate, betas=(0.5, 0.999))
            for net in (torch.nn.Sequential(d1, d2), G)
        ]

        def generate(s: Tensor) -> Tensor:
            found: Tensor = G(torch.cat([torch.randn(len(s), a, generator=random).to(s.device), s], 1))
            return found

        def critic(x: Tensor, s: Tensor) -> tuple[Tensor, Tensor]:
            """Return the output of D for each image, and its gradient with respect to the image."""
            inner = d1(torch.cat([x, s], 1))
            slopes = torch.where(inner > 0, 1.0, _SLOPE) * d2.weight[0]
            return d2(torch.nn.functional.leaky_relu(inner, _SLOPE))[:, 0], slopes @ d1.weight[:, :d]

        def step(loss: Tensor, adam: Optimizer) -> None:
            adam.zero_grad()
            torch.autograd.backward(loss)
            adam.step()

        passes = (torch.split(torch.randperm(n, generator=random), self.batch_size) for _ in repeat(None))
        endless = chain.from_iterable(passes)
        for _epoch in range(epochs):
            for _ in range(max(-(-n // self.batch_size), _LEAST_STEPS)):
                for rows in islice(endless, self.critic_steps):
                    x, s = images[rows], embeddings[labels[rows]]
                    with torch.no_grad():
                        fake = generate(s)
                    mix = torch.rand(len(x), 1, generator=random).to(x.device)
                    output = critic(torch.cat([x, fake]), torch.cat([s, s]))[0].view(2, -1).mean(1)
                    flat = ((critic(mix * x + (1 - mix) * fake, s)[1].norm(dim=1) - 1) ** 2).mean()
                    step(output[1] - output[0] + self.penalty * flat, adams[0])  # Eq. (2)
                label = labels[next(endless)]
                fake = generate(embeddings[label])
                wrong = torch.nn.functional.cross_entropy(fake @ W + bias, label)  # Eq. (3)
                step(self.beta * wrong - critic(fake, embeddings[label])[0].mean(), adams[1])  # Eq. (4)
            self.generator_ = deepcopy(G).cpu()
            self.classifier_: tuple[object, FloatArray] | None = None
            yield

    def _scaled(self, X: FloatArray) -> FloatArray:
        return np.asarray((X.astype(np.float32) - self.low_) / self.range_)

    def _generated(self, s: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Return (n, d): one generated feature vector for each row of the embeddings s."""
        import torch

        noise = rng.standard_normal(s.shape).astype(np.float32)
        return np.asarray(self.generator_(torch.from_numpy(np.concatenate([noise, s], 1))).detach())

    def _classifier(self, S: FloatArray) -> FloatArray:
        """Return (d + 1, c) weights of softmax regression among the candidates, trained once for each S."""
        key = self.samples, self.weight, self.l2, S.shape, S.tobytes()
        if self.classifier_ is None or self.classifier_[0] != key:
            self.classifier_ = key, self._trained_classifier(S)
        return self.classifier_[1]

    def _trained_classifier(self, S: FloatArray) -> FloatArray:
        seen = self._seen_rows(S)
        column = np.full(len(self.classes_), -1)
        column[seen[seen >= 0]] = np.flatnonzero(seen >= 0)
        rows = np.flatnonzero(column[self.labels_] >= 0)
        points, labels = [self.images_[rows]], [column[self.labels_[rows]]]
        for row in np.flatnonzero(seen < 0):
            s = S[row].astype(np.float32)
            # The samples of a class depend on its embedding alone, not on the other candidates or their order.
            rng = np.random.default_rng([self.seed, crc32(s.tobytes())])
            points.append(self._generated(np.tile(s, (self.samples, 1)), rng))
            labels.append(np.full(self.samples, row))
        y = np.concatenate(labels)
        counts = np.where(seen[y] >= 0, 1.0, self.weight)
        return fit_logistic(np.concatenate(points), one_hot(y, len(S), np.float32), "softmax", self.l2, counts=counts)

    def _scores(self, X: FloatArray, S: FloatArray) -> FloatArray:
        return predict_logistic(self._scaled(X), self._classifier(S))


def linear(before: int, after: int, random: torch.Generator) -> torch.nn.Linear:
    """Return a linear layer with weights in Glorot's range, the same on every device, and biases 0."""
    import torch

    layer = torch.nn.Linear(before, after, device="meta").to_empty(device="cpu")
    reach = (6 / (before + after)) ** 0.5
    with torch.no_grad():
        layer.weight.copy_((2 * torch.rand(before, after, generator=random) - 1).T * reach)
        layer.bias.zero_()
    return layer


@contextmanager
def torch_training(device: str, seed: int) -> Iterator[tuple[str, torch.Generator, Any]]:
    """Yield the name of the device, a seeded generator of random numbers, and torch.

    A CPU uses one thread: sums over several threads have another order, and other bits, on another machine.
    """
    try:
        import torch
    except ImportError:
        raise MissingExtraError("generative zero-shot methods (torch)", "torch") from None
    chosen = ("cuda" if torch.cuda.is_available() else "cpu") if device == "auto" else device
    threads = torch.get_num_threads()
    torch.set_num_threads(1 if chosen == "cpu" else threads)
    try:
        yield chosen, torch.Generator().manual_seed(seed), torch
    finally:
        torch.set_num_threads(threads)
