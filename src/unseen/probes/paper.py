"""The `paper` solver: SGD tuned by Optuna's tree-structured Parzen estimator, as published.

Paper:      Sariyildiz et al., "Concept generalization in visual representation learning", ICCV 2021, Section 3.4.3 and
            supplement B.2; details from the authors' released source
Implements: per seed, a multivariate TPE sampler seeded with it, 30 trials of (lr, wd), the objective being the
            validation top-1 after the last epoch; then the best setting trained again on all of train. One random
            stream, seeded with the run's seed, gives initial weights and batches and runs on from trial to trial: the
            same numbers, trial by trial, as a plain script after `torch.manual_seed(seed)`.
Differs:    only in that several runs (seeds, shots) are searched at the same time. A trial whose loss stops being
            finite ends there and counts with the accuracy of the weights it has, as published; the stream of later
            trials is the one after a full training.
Expected:   CoG Figure 3; bench/probe.py sets it beside the protocol written the ordinary way
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

from unseen.core.errors import DataError
from unseen.core.extras import import_extra
from unseen.probes.outcome import Fit, Trial, accuracy, each_draw, training_accuracy
from unseen.probes.rows import LabelledRows, Workers
from unseen.probes.sampling import Draw
from unseen.probes.sgd import Setting, TrainingRows, train
from unseen.probes.solvers import Settings

if TYPE_CHECKING:
    import optuna

_STARTUP = 10  # random trials before the estimator sets in: Optuna's default


def fit_paper(data: LabelledRows, draws: Sequence[Draw], workers: Workers, settings: Settings) -> list[Fit]:
    """Tune and fit one classifier per draw, several draws at the same time."""
    if not all(len(draw.validation) for draw in draws):
        raise DataError(
            "every class has a single training image, so none can be held out for the search of `paper`. Give "
            "validation features or more images per class, or use another solver: `logistic`, `ridge`, `knn` or `ncm`."
        )
    studies = {draw: _quiet_study(draw.seed) for draw in draws}
    protocol, limit = settings.protocol, settings.memory_limit // len(draws)

    def search(data: LabelledRows, draw: Draw, _settings: Settings) -> Fit:
        study, stream = studies[draw], torch.Generator().manual_seed(draw.seed)
        rows, trials = TrainingRows(data, draw.tuning, limit), []
        for _ in range(protocol.trials):
            trial = study.ask()
            lr = trial.suggest_float("lr", protocol.lowest_lr, protocol.highest_lr, log=True)
            wd = trial.suggest_float("wd", protocol.lowest_wd, protocol.highest_wd, log=True)
            trained = train(rows, Setting(lr, wd), protocol, stream)
            found = accuracy(trained.model, data, draw.validation)
            study.tell(trial, found)
            error = "" if trained.stopped_at is None else f"loss not finite in epoch {trained.stopped_at}"
            trials.append(Trial(dict(trial.params), found, error=error))
        rows = TrainingRows(data, draw.final, limit)
        final = train(rows, Setting(**study.best_params), protocol, stream)
        reached, note = training_accuracy(final.model, data, draw.final), ""
        if final.stopped_at is not None:
            note = f"the loss of the final fit was not finite in epoch {final.stopped_at}; {reached}"
        elif accuracy(final.model, data, draw.final) < study.best_value:
            held = f"{100 * study.best_value:.1f} % on held-out ones"
            note = f"the final fit has not settled: {reached}, where the search had {held}"
        return Fit(final.model, tuple(trials), dict(study.best_params), note=note)

    return each_draw(search)(data, draws, workers, settings)


def _quiet_study(seed: int) -> optuna.Study:
    """Return a study that maximises accuracy, without a line in the log."""
    library: Any = import_extra("optuna", "search")
    verbosity = library.logging.get_verbosity()
    library.logging.set_verbosity(library.logging.WARNING)
    try:
        sampler = library.samplers.TPESampler(multivariate=True, seed=seed, n_startup_trials=_STARTUP)
        study: optuna.Study = library.create_study(sampler=sampler, direction="maximize")
        return study
    finally:
        library.logging.set_verbosity(verbosity)
