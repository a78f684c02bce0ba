"""The heavyweight search: a hundred random settings of fine-tuning, judged on the validation images.

Paper:      Zhai et al., 2019 [P], Appendix I
Implements: batch size, schedule in epochs or steps, flips, colour, five crops, six evaluation views, weight decay, SGD
            or Adam with their learning rates, all drawn independently
Differs:    [P] prints the range of SGD's learning rate as [0.001, 0.0]; here it is [0.001, 1]. Sizes of views scale
            with the input of the model. On request the worse half is given up after a third and two thirds of the
            training time, as in successive halving; [P] trains every setting to its end
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from unseen.finetuning.train import FinetuneOptions

TRIALS = 100
#: Shares of the training time after which a search that prunes gives up the worse half.
RUNGS = (1 / 3, 2 / 3)
_CROPS = ("resize", "resize-crop", "shortest-crop", "inception", "pad-crop")
_EPOCHS = (100, 200, 300, 400, 500)
_STEPS = (2500, 5000, 10_000, 20_000, 40_000)
#: What enters the network, and the shortest side that it is cut out of where there is a crop.
_EVALUATION = {224: 256, 320: 352, 384: 448}


def draw_settings(count: int, *, images: int, size: int, longest: int = 0, seed: int = 0) -> list[dict[str, Any]]:
    """Settings out of the space of Appendix I. Setting `k` depends on `seed` and `k` alone.

    Args:
        images: how many there are to train on, for schedules in epochs.
        size: the model's own input.
        longest: no schedule is longer than so many steps; 0 for no limit.
    """
    drawn = [_draw(np.random.default_rng([seed, k]), images, size) for k in range(count)]
    return [{**setting, "steps": min(setting["steps"], longest or setting["steps"])} for setting in drawn]


def _draw(rng: np.random.Generator, images: int, size: int) -> dict[str, Any]:
    batch = _one(rng, (128, 256, 512))
    epochs, steps = _one(rng, _EPOCHS), _one(rng, _STEPS)
    in_epochs, flip, colour, cut = (bool(rng.integers(2)) for _ in range(4))
    crop, shown = _one(rng, _CROPS), _one(rng, tuple(_EVALUATION))
    optimizer = _one(rng, ("sgd", "adam"))
    return {
        "batch_size": batch,
        "schedule": "epochs" if in_epochs else "steps",
        **({"epochs": epochs} if in_epochs else {}),
        "steps": math.ceil(epochs * images / batch) if in_epochs else steps,
        "flip": flip,
        "colour": colour,
        "crop": crop,
        "eval_size": round(shown * size / 224),
        "eval_resize": round(_EVALUATION[shown] * size / 224) if cut else 0,
        "weight_decay": _log_uniform(rng, 1e-5, 1e-1),
        "optimizer": optimizer,
        "learning_rate": _log_uniform(rng, *((1e-3, 1.0) if optimizer == "sgd" else (1e-5, 1e-2))),
    }


def _one(rng: np.random.Generator, values: Sequence[Any]) -> Any:
    return values[int(rng.integers(len(values)))]


def _log_uniform(rng: np.random.Generator, low: float, high: float) -> float:
    return float(math.exp(rng.uniform(math.log(low), math.log(high))))


def heavy_options(setting: Mapping[str, Any], basis: FinetuneOptions) -> FinetuneOptions:
    """The options that a setting of the search stands for."""
    from dataclasses import replace

    from unseen.finetuning.views import EvalView, TrainView

    return replace(
        basis,
        optimizer=setting["optimizer"],
        weight_decay=float(setting["weight_decay"]),
        train_view=TrainView(setting["crop"], flip=bool(setting["flip"]), colour=bool(setting["colour"])),
        eval_view=EvalView(int(setting["eval_size"]), int(setting["eval_resize"])),
    )
