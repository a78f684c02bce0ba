"""Base of generative methods: a generator learned on seen classes, and a classifier of generated points.

Shapes:     X (n, d) features; S (c, a) class embeddings; points (m, q) what the classifier is trained on
Implements: features are scaled to [0, 1] by the training images, and `fit` learns the generator from these alone.
            Candidates come later: `_prepare(S)` draws points of every candidate class, real images of those that were
            trained on and generated ones of the others, trains softmax regression on them, and keeps it for the next
            call with the same candidates
Differs:    the papers draw several times as many points of an unseen class as a training class has images; here a
            generated point counts `weight` times, which is the same balance at the cost of few. Softmax regression is
            solved by L-BFGS to its minimum where the papers take some epochs of Adam
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal
from zlib import crc32

import numpy as np

from unseen.core.errors import MissingExtraError
from unseen.zeroshot.compatibility import EarlyStoppedMethod
from unseen.zeroshot.logistic import fit_logistic, predict_logistic
from unseen.zeroshot.method import FloatArray, IntArray, one_hot, parameters

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class TrainingImages:
    """Training data of a generator on its device, with its random number generator.

    Attributes:
        images: (n, d) features in [0, 1].
        labels: (n,) rows of `embeddings`.
    """

    images: torch.Tensor
    labels: torch.Tensor
    embeddings: torch.Tensor
    random: torch.Generator
    device: str

    def batches(self, size: int) -> Iterator[tuple[torch.Tensor, torch.Tensor, torch.Tensor]]:
        """Yield features, embeddings and labels of each batch of one pass in a new order."""
        import torch

        for rows in torch.split(torch.randperm(len(self.images), generator=self.random), size):
            labels = self.labels[rows]
            yield self.images[rows], self.embeddings[labels], labels

    def noise(self, *shape: int) -> torch.Tensor:
        import torch

        return torch.randn(*shape, generator=self.random).to(self.device)


@parameters
class GenerativeMethod(EarlyStoppedMethod):
    """Base of methods that draw points of unseen classes and classify among them.

    Subclasses implement `_train`, which yields layers after each epoch, `_generated` and, if the classifier does not
    use the features themselves, `_encoded`.

    Args:
        epochs: how long the generator is trained.
        samples: points per unseen class.
        weight: what a point of an unseen class counts against one of a training image.
        learning_rate: of Adam.
        hidden: units of the hidden layers.
        batch_size: images per step.
        real: images of each training class that the last classifier is trained on, at most.
        l2: weight decay of that classifier.
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

    tuned_by: ClassVar[Literal["zsl", "H"]] = "H"
    scoring_params = ("samples", "weight", "l2")

    def _train(self, data: TrainingImages, epochs: int) -> Iterator[tuple[int, Layers]]:
        """Yield the number of each epoch and the layers that are needed afterwards."""
        raise NotImplementedError

    def _path(self, X: FloatArray, y: IntArray, S: FloatArray, epochs: int) -> Iterator[tuple[int, Any]]:
        self.low_ = X.min(0).astype(np.float32)
        self.range_ = np.maximum(X.max(0) - self.low_, 1e-6).astype(np.float32)
        self._remember(X, y)
        with torch_training(self.device, self.seed) as (device, random, torch):
            images, labels, embeddings = (
                torch.from_numpy(part).to(device) for part in (self._scaled(X), y, S.astype(np.float32))
            )
            yield from self._train(TrainingImages(images, labels, embeddings, random, device), epochs)

    def _keep(self, learned: Layers) -> None:
        self.weights_ = learned.arrays()

    def _remember(self, X: FloatArray, y: IntArray) -> None:
        """Keep `real` images of each training class, sampled by the seed."""
        order = np.random.default_rng(self.seed).permutation(len(y))
        kept = [order[y[order] == c][: self.real] for c in range(int(y.max()) + 1)]
        rows = np.sort(np.concatenate(kept))
        self.images_, self.labels_ = X[rows].astype(np.float32), y[rows]

    def _scaled(self, X: FloatArray) -> FloatArray:
        return np.asarray((X.astype(np.float32) - self.low_) / self.range_)

    def _generated(self, s: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Return (n, q): one generated point for each row of the embeddings s."""
        raise NotImplementedError

    def _encoded(self, X: FloatArray, rng: np.random.Generator | None) -> FloatArray:
        """Return (n, q) codes of images: sampled with an `rng` (training), else their means (test)."""
        return self._scaled(X)

    def _prepare(self, S: FloatArray) -> FloatArray:
        """Return (q + 1, c) weights of softmax regression among the candidates."""
        seen = self._seen_rows(S)
        points, labels = [], []
        column = {int(c): i for i, c in enumerate(seen) if c >= 0}
        if column:
            codes = self._encoded(self.images_, np.random.default_rng(self.seed))
            rows = np.flatnonzero(np.isin(self.labels_, list(column)))
            points.append(codes[rows])
            labels.append(np.asarray([column[int(c)] for c in self.labels_[rows]], np.int64))
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
        return predict_logistic(self._encoded(X.astype(np.float32), None), self.prepare(S))


class Layers:
    """Linear layers for torch and, once learned, for numpy: weights sampled by a seed, the same on every device."""

    def __init__(self, sizes: dict[str, tuple[int, int]], generator: torch.Generator, device: str) -> None:
        import torch

        self.tensors: dict[str, torch.Tensor] = {}
        for name, (before, after) in sizes.items():
            reach = (6 / (before + after)) ** 0.5  # Glorot's range
            weights = (2 * torch.rand(before, after, generator=generator) - 1) * reach
            self.tensors[f"{name}.weight"] = weights.to(device).requires_grad_()
            self.tensors[f"{name}.bias"] = torch.zeros(after, device=device).requires_grad_()

    def __call__(self, name: str, x: torch.Tensor) -> torch.Tensor:
        return x @ self.tensors[f"{name}.weight"] + self.tensors[f"{name}.bias"]

    def parameters(self) -> list[torch.Tensor]:
        return list(self.tensors.values())

    def arrays(self) -> dict[str, FloatArray]:
        """Return a copy of every weight."""
        return {name: value.detach().cpu().numpy().copy() for name, value in self.tensors.items()}


def linear(weights: dict[str, FloatArray], name: str, x: FloatArray) -> FloatArray:
    """Apply one layer of `Layers.arrays()` in numpy."""
    return np.asarray(x @ weights[f"{name}.weight"] + weights[f"{name}.bias"])


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
