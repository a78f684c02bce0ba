"""CADA-VAE: two variational auto-encoders, of images and of class embeddings, with one latent space.

Paper:      Schoenfeld, Ebrahimi, Sinha, Darrell & Akata, "Generalized zero- and few-shot learning via aligned
            variational autoencoders", CVPR 2019 [P]
Shapes:     X (n, d) features, scaled to [0, 1]; S (c, a) class embeddings; latent (n, q) mean and log-variance
Implements: [P] Eq. (2), both auto-encoders with an l1 reconstruction and beta KL; Eq. (3), L_CA: each decoder rebuilds
            its side from the code of the other; Eqs. (4), (5), L_DA: the Wasserstein distance of the two codes; their
            sum, Eq. (6). The weights grow with training as in the supplement: beta to 0.25 until 93 % of the epochs,
            L_CA to 2.37 from 21 to 75 %, L_DA to 8.13 from 6 to 22 %. Softmax regression on codes, those of unseen
            classes sampled from their embeddings
Differs:    the reconstruction of images counts 2048 / d, so that it weighs against the other terms as in [P], whose
            features have 2048 dimensions. Hidden layers of 1024 units instead of 1560, 1660, 1450 and 665, steps of
            256 images instead of 50 and 25 passes instead of 100, so that a CPU learns it in a minute at 256 dimensions
Expected:   [P] Table 3, H: CUB 52.4, SUN 40.6, AWA1 64.1, AWA2 63.9
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from unseen.core.records import MethodCard
from unseen.zeroshot.generative import GenerativeMethod, Layers, TrainingImages, linear
from unseen.zeroshot.method import FloatArray, Grid, ZeroShotMethod, parameters

if TYPE_CHECKING:
    from torch import Tensor

#: Greatest weight, and the shares of all epochs between which it grows to that.
_DIMENSIONS = 2048
_BETA, _CROSS, _ALIGNMENT = (0.25, 0.0, 0.93), (2.37, 0.21, 0.75), (8.13, 0.06, 0.22)


@parameters
class CADAVAE(GenerativeMethod):
    """Cross- and distribution-aligned variational auto-encoders.

    Args:
        epochs: passes over the images; the schedule of the losses stretches with them.
        samples: codes per unseen class.
        weight: what a code of an unseen class counts against one of a training image.
        latent: dimensions of the code.
        learning_rate: of Adam.
        hidden: units of the hidden layers.
        batch_size: images per step.
        real: images of each training class that the last classifier is trained on, at most.
        l2: weight decay of that classifier.
        device: "auto", "cpu", "cuda" ...
        seed: of weights, noise and the order of images.
    """

    epochs: int = 25
    weight: float = 2.0
    latent: int = 64
    hidden: int = 1024
    batch_size: int = 256

    card = MethodCard(
        id="CADA-VAE",
        name="Aligned variational auto-encoders",
        group="zero-shot, generative",
        citation="Schoenfeld et al., CVPR 2019",
    )
    version = 2
    grid = Grid(weight=(1.0, 2.0, 3.0, 4.0, 6.0, 10.0), l2=(1e-4, 1e-3, 1e-2))
    quick_grid = Grid(weight=(1.0, 2.0, 4.0))

    #: The schedule goes by the share of all epochs: one run does not serve two numbers of them.
    _grid_scores = ZeroShotMethod._grid_scores

    def _train(self, data: TrainingImages, epochs: int) -> Iterator[tuple[int, Layers]]:
        import torch

        d, a = data.images.shape[1], data.embeddings.shape[1]
        net = Layers(self._sizes(d, a), data.random, data.device)
        share = {"x": _DIMENSIONS / d, "s": 1.0}
        adam = torch.optim.Adam(net.parameters(), self.learning_rate, amsgrad=True)

        def encode(side: str, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            inner = torch.relu(net(f"{side}.in", x))
            mean, log_var = net(f"{side}.mean", inner), net(f"{side}.log_var", inner)
            return mean, log_var, mean + (0.5 * log_var).exp() * data.noise(*mean.shape)

        def decode(side: str, z: Tensor) -> Tensor:
            return net(f"{side}.out", torch.relu(net(f"{side}.back", z)))

        for epoch in range(1, epochs + 1):
            beta, cross, align = (_weight(w, (epoch - 1) / epochs) for w in (_BETA, _CROSS, _ALIGNMENT))
            for x, s, _ in data.batches(self.batch_size):
                sides = {"x": x, "s": s}
                codes = {side: encode(side, value) for side, value in sides.items()}
                loss = torch.zeros((), device=data.device)
                for side, value in sides.items():
                    mean, log_var, z = codes[side]
                    loss = loss + share[side] * (decode(side, z) - value).abs().sum()
                    loss = loss + beta * 0.5 * (mean**2 + log_var.exp() - 1 - log_var).sum()  # Eq. (2)
                    other = codes["s" if side == "x" else "x"][2]
                    loss = loss + cross * share[side] * (decode(side, other) - value).abs().sum()  # Eq. (3)
                (mean, log_var, _), (mean_s, log_var_s, _) = codes["x"], codes["s"]
                apart = (mean - mean_s) ** 2 + ((0.5 * log_var).exp() - (0.5 * log_var_s).exp()) ** 2
                loss = loss + align * (apart.sum(1) + 1e-12).sqrt().sum()  # Eqs. (4), (5), (6)
                adam.zero_grad()
                torch.autograd.backward(loss)
                adam.step()
            yield epoch, net

    def _sizes(self, d: int, a: int) -> dict[str, tuple[int, int]]:
        sizes: dict[str, tuple[int, int]] = {}
        for side, width in (("x", d), ("s", a)):
            sizes |= {f"{side}.in": (width, self.hidden), f"{side}.mean": (self.hidden, self.latent)}
            sizes |= {f"{side}.log_var": (self.hidden, self.latent), f"{side}.back": (self.latent, self.hidden)}
            sizes |= {f"{side}.out": (self.hidden, width)}
        return sizes

    def _code(self, side: str, x: FloatArray, rng: np.random.Generator | None) -> FloatArray:
        inner = np.maximum(linear(self.weights_, f"{side}.in", x), 0)
        mean = linear(self.weights_, f"{side}.mean", inner)
        if rng is None:
            return mean
        deviation = np.exp(0.5 * linear(self.weights_, f"{side}.log_var", inner))
        return np.asarray(mean + deviation * rng.standard_normal(mean.shape).astype(np.float32))

    def _encoded(self, X: FloatArray, rng: np.random.Generator | None) -> FloatArray:
        return self._code("x", self._scaled(X), rng)

    def _generated(self, s: FloatArray, rng: np.random.Generator) -> FloatArray:
        return self._code("s", s, rng)


def _weight(schedule: tuple[float, float, float], done: float) -> float:
    most, start, end = schedule
    return most * min(max((done - start) / (end - start), 0.0), 1.0)
