"""The heavyweight search: a hundred random settings of fine-tuning, judged on the validation images.

Paper:      Zhai et al., 2019 [P], Appendix I
Implements: batch size, schedule in epochs or steps, flips, colour, five crops, six evaluation views, weight decay, SGD
            or Adam with their learning rates, all drawn independently
Differs:    [P] prints the range of SGD's learning rate as [0.001, 0.0]; here it is [0.001, 1]. Sizes of views scale
            with the input of the model. Trials behind the median when the learning rate falls may be pruned
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from unseen.benchmarks.vtab.adapters import FinetuneAdapter
from unseen.benchmarks.vtab.sealed import Selection, select
from unseen.core.extras import import_extra
from unseen.core.identity import digest

TRIALS = 100
#: Trials before any is pruned.
_WARM = 10
_CROPS = ("resize", "resize-crop", "shortest-crop", "inception", "pad-crop")
_EPOCHS = (100, 200, 300, 400, 500)
_STEPS = (2500, 5000, 10_000, 20_000, 40_000)
_SIZES = (224, 320, 384)


def draw_setting(trial: Any, images: int, size: int) -> dict[str, Any]:
    """One setting out of the space of Appendix I.

    Args:
        trial: of Optuna.
        images: how many there are to train on, for schedules in epochs.
        size: the model's own input.
    """
    batch = trial.suggest_categorical("batch_size", (128, 256, 512))
    if trial.suggest_categorical("schedule", ("epochs", "steps")) == "epochs":
        steps = math.ceil(trial.suggest_categorical("epochs", _EPOCHS) * images / batch)
    else:
        steps = trial.suggest_categorical("steps", _STEPS)
    optimizer = trial.suggest_categorical("optimizer", ("sgd", "adam"))
    low, high = (1e-3, 1.0) if optimizer == "sgd" else (1e-5, 1e-2)
    return {
        "batch_size": batch,
        "steps": steps,
        "flip": trial.suggest_categorical("flip", (False, True)),
        "colour": trial.suggest_categorical("colour", (False, True)),
        "crop": trial.suggest_categorical("crop", _CROPS),
        "eval_crop": trial.suggest_categorical("eval_crop", (False, True)),
        "eval_size": round(trial.suggest_categorical("eval_size", _SIZES) * size / 224),
        "weight_decay": trial.suggest_float("weight_decay", 1e-5, 1e-1, log=True),
        "optimizer": optimizer,
        "learning_rate": trial.suggest_float(f"{optimizer}_rate", low, high, log=True),
    }


def heavy_search(
    adapter: FinetuneAdapter, storage: Path, *, name: str, trials: int = TRIALS, seed: int = 0, longest: int = 0
) -> Selection:
    """Run the search, or go on with it.

    Setting `k` depends on `seed` and `k` alone, so that a search that was killed draws what it would have drawn. Its
    trials are kept in an SQLite file that Optuna's own tools can open.

    Args:
        storage: the SQLite file.
        name: of the search, which covers all that its trials depend on.
        longest: no schedule is longer than so many steps; 0 for no limit.
    """
    optuna = import_extra("optuna", "search")
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    storage.parent.mkdir(parents=True, exist_ok=True)
    study = optuna.create_study(
        study_name=name,
        storage=f"sqlite:///{storage}",
        direction="maximize",
        load_if_exists=True,
        pruner=optuna.pruners.MedianPruner(n_startup_trials=_WARM),
    )
    finished = (optuna.trial.TrialState.COMPLETE, optuna.trial.TrialState.PRUNED)
    outcomes: list[dict[str, Any]] = []
    for index in range(trials):
        done = [t for t in study.trials if t.user_attrs.get("index") == index and t.state in finished]
        if done:
            outcomes.append(dict(done[-1].user_attrs))
            continue
        study.sampler = optuna.samplers.RandomSampler(seed=int(digest([seed, index], length=8), 16))
        outcomes.append(_run_trial(study, adapter, index, longest))
    return select(outcomes)


def _run_trial(study: Any, adapter: FinetuneAdapter, index: int, longest: int) -> dict[str, Any]:
    optuna = import_extra("optuna", "search")
    trial = study.ask()
    setting = draw_setting(trial, len(adapter.train), adapter.backbone.preprocessing.size)
    if longest:
        setting["steps"] = min(setting["steps"], longest)
    seen = 0

    def watch(_step: int, top1: float) -> None:
        nonlocal seen
        seen += 1
        trial.report(top1, seen)
        if trial.should_prune():
            raise optuna.TrialPruned

    try:
        outcome = adapter.trial(setting, adapter.heavy_options(setting), watch)
    except optuna.TrialPruned:
        outcome = {**setting, "accuracy": float("nan"), "state": "pruned"}
    for key, value in {**outcome, "index": index}.items():
        trial.set_user_attr(key, None if value != value else value)  # JSON knows no NaN
    if outcome["state"] == "pruned":
        study.tell(trial, state=optuna.trial.TrialState.PRUNED)
    else:
        study.tell(trial, outcome["accuracy"])
    return {**outcome, "index": index}
