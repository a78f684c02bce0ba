"""Ground truth of NeuCRaB: what a checkpoint reaches on a task when it is fine-tuned, hyper-parameters swept.

Paper:      Li et al., "Ranking neural checkpoints" (NeuCRaB), section 2, Eq. (1), CVPR 2021 [P]
Implements: the evaluation procedure G: replace the head, fine-tune everything, sweep, accuracy on the test images
Differs:    [P] takes the best test accuracy of the sweep. Here a setting is chosen by validation images (the dataset's
            own, or a stratified fifth of the training images), and its test accuracy is reported: test labels choose
            nothing
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from unseen.core.errors import DataError
from unseen.data import Dataset, Split
from unseen.data.subset import stratified_split

if TYPE_CHECKING:
    from unseen.backbones import Backbone

VALIDATION = 0.2


@dataclass(frozen=True)
class Truth:
    """What fine-tuning reached.

    Attributes:
        top1: test accuracy of the setting that validation chose.
        validation: its validation accuracy.
        sweep: every setting with both accuracies and its time.
        seconds: of the whole sweep.
    """

    top1: float
    validation: float
    sweep: tuple[Mapping[str, Any], ...]
    seconds: float


def fine_tuned_truth(
    backbone: Backbone,
    dataset: Dataset,
    *,
    steps: Sequence[int],
    learning_rates: Sequence[float],
    batch_size: int,
    seed: int,
) -> Truth:
    """Fine-tune with every setting, choose by validation accuracy, report test accuracy."""
    train, validation = hold_out(dataset, seed)
    test = dataset.split("test")
    both = join(validation, test)
    trials: list[dict[str, Any]] = []
    for count in steps:
        for rate in learning_rates:
            predictions, seconds = _train(backbone, dataset, train, both, count, rate, batch_size, seed)
            trials.append(
                {
                    "steps": count,
                    "learning_rate": rate,
                    "validation": _accuracy(predictions[: len(validation)], validation),
                    "test": _accuracy(predictions[len(validation) :], test),
                    "seconds": seconds,
                }
            )
    best = max(trials, key=lambda trial: trial["validation"])  # the first of equals
    return Truth(best["test"], best["validation"], tuple(trials), sum(trial["seconds"] for trial in trials))


def early_stopped(
    backbone: Backbone, dataset: Dataset, *, epochs: int, learning_rate: float, batch_size: int, seed: int
) -> tuple[float, float, int]:
    """Validation accuracy after a few epochs of fine-tuning, its seconds and the images that it trained on.

    Section 3.1 of [P], which scores on the task's test set; a score must not touch test labels.
    """
    train, validation = hold_out(dataset, seed)
    steps = max(1, round(epochs * len(train) / batch_size))
    predictions, seconds = _train(backbone, dataset, train, validation, steps, learning_rate, batch_size, seed)
    return _accuracy(predictions, validation), seconds, steps * batch_size


def hold_out(dataset: Dataset, seed: int) -> tuple[Split, Split]:
    """Training and validation images: the dataset's own validation split, or a stratified fifth of train."""
    train = dataset.split("train")
    if "val" in dataset.splits:
        return train, dataset.split("val")
    parts = stratified_split(train.names, train.labels, test=VALIDATION, seed=seed)
    if not len(parts["test"]):
        raise DataError(f"{dataset.id!r} has no class of two training images, so none can be held out for validation.")
    return train.take(parts["train"]), train.take(parts["test"])


def join(first: Split, second: Split) -> Split:
    """Two splits one after the other."""
    count = len(first)
    return Split(
        names=[*first.names, *second.names],
        labels=np.concatenate([first.labels, second.labels]),
        open=lambda i: first.open(i) if i < count else second.open(i - count),
        fingerprint=f"{first.fingerprint}+{second.fingerprint}",
    )


def _train(
    backbone: Backbone,
    dataset: Dataset,
    train: Split,
    shown: Split,
    steps: int,
    rate: float,
    batch_size: int,
    seed: int,
) -> tuple[Any, float]:
    from unseen.finetuning.train import finetune

    result = finetune(
        backbone,
        train,
        shown,
        classes=len(dataset.class_names),
        steps=steps,
        learning_rate=rate,
        batch_size=batch_size,
        seed=seed,
    )
    return result.predictions, result.seconds


def _accuracy(predictions: Any, split: Split) -> float:
    readable = predictions >= 0
    return float(np.mean(predictions[readable] == split.labels[readable])) if readable.any() else 0.0
