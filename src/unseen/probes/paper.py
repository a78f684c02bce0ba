"""The `paper` solver: SGD tuned by Optuna's tree-structured Parzen estimator, as published.

Paper:      Sariyildiz et al., "Concept generalization in visual representation learning", ICCV 2021, Section 3.4.3 and
            supplement B.2; details from the authors' released source
Implements: per seed, a multivariate TPE sampler seeded with it, 30 trials of (lr, wd), the objective being the
            validation top-1 after the last epoch; then the best setting trained again on all of train. One random
            stream, seeded with the run's seed, gives initial weights and batches and runs on from trial to trial: the
            same numbers, trial by trial, as a plain script after `torch.manual_seed(seed)`.
Differs:    only in how the work is laid out. The sampler's first ten trials are random draws that depend on nothing,
            so they train side by side, each from where the stream will stand, and several runs (seeds, shots) advance
            at the same time; each run asks and tells its sampler in the published order. A trial whose loss stops
            being finite ends there and counts with the accuracy of the weights it has, as published; the stream of
            later trials is the one after a full training.
Expected:   CoG Figure 3; bench/probe.py sets it beside the protocol written the ordinary way
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from unseen.core.errors import DataError
from unseen.core.extras import import_extra
from unseen.probes.outcome import Fit, LinearModel, Trial, accuracy, training_accuracy
from unseen.probes.rows import LabelledRows
from unseen.probes.sampling import Draw
from unseen.probes.sgd import Setting, Trained, TrainingRows, skip_training, train
from unseen.probes.solvers import Protocol, Settings
from unseen.probes.workers import Workers

if TYPE_CHECKING:
    import optuna

_STARTUP = 10  # random trials before the estimator sets in: Optuna's default


@dataclass(frozen=True, eq=False)
class _Outcome:
    """A training, its validation accuracy (None for the final fit), and its time."""

    trained: Trained
    accuracy: float | None
    seconds: float


def fit_paper(data: LabelledRows, draws: Sequence[Draw], workers: Workers, settings: Settings) -> list[Fit]:
    """Tune and fit one classifier per draw; the draws advance side by side."""
    if not all(len(draw.validation) for draw in draws):
        raise DataError(
            "every class has a single training image, so none can be held out for the search of `paper`. Give "
            "validation features or more images per class, or use another solver: `logistic`, `ridge`, `knn` or `ncm`."
        )
    runs = [_Run(data, draw, settings.protocol, settings.memory_limit // len(draws)) for draw in draws]
    owners: dict[Future[_Outcome], tuple[_Run, int]] = {}

    def enqueue(run: _Run) -> None:
        for place, setting in enumerate(run.next_settings()):
            owners[workers.submit(run.work, setting, run.next_stream())] = (run, place)

    for run in runs:
        enqueue(run)
    while owners:
        done, _ = wait(owners, return_when=FIRST_COMPLETED)
        for future in sorted(done, key=lambda f: runs.index(owners[f][0])):
            run, place = owners.pop(future)
            if run.receive(place, future.result()):
                enqueue(run)
    return [run.result() for run in runs]


class _Run:
    """One search: the sampler, the outcomes of its trials, and the settings to train next."""

    def __init__(self, data: LabelledRows, draw: Draw, protocol: Protocol, memory_limit: int) -> None:
        self.data, self.draw, self.protocol, self.memory_limit = data, draw, protocol, memory_limit
        self.study = _quiet_study(draw.seed)
        self.stream = torch.Generator().manual_seed(draw.seed)
        self.trials: list[Trial] = []
        self.seconds = 0.0
        self.model: LinearModel | None = None
        self.stopped_at: int | None = None
        self._asked: list[optuna.trial.Trial] = []
        self._found: dict[int, _Outcome] = {}
        self._lock, self._kept = threading.Lock(), dict[bool, TrainingRows]()

    @property
    def _is_tuned(self) -> bool:
        return len(self.trials) >= self.protocol.trials

    def next_settings(self) -> list[Setting]:
        """Return the settings to train next, side by side; none if the run is finished."""
        self._found.clear()
        if self.model is not None:
            return []
        if self._is_tuned:
            self._asked = []
            return [Setting(**self.study.best_params)]
        left = self.protocol.trials - len(self.trials)
        began = time.perf_counter()
        self._asked = [self.study.ask() for _ in range(1 if self.trials else min(_STARTUP, left))]
        settings = [self._suggest(trial) for trial in self._asked]
        self.seconds += time.perf_counter() - began
        return settings

    def next_stream(self) -> torch.Generator:
        """Return the random stream of the next training, at the state that the trainings before it leave."""
        own = torch.Generator()
        own.set_state(self.stream.get_state())
        shape = (self.data.classes, self.data.features.dimension)
        skip_training(self.stream, len(self.draw.tuning), *shape, self.protocol.epochs)
        return own

    def work(self, setting: Setting, stream: torch.Generator) -> _Outcome:
        """Train and validate, on a worker."""
        began = time.perf_counter()
        trained = train(self._rows(), setting, self.protocol, stream)
        found = None if self._is_tuned else accuracy(trained.model, self.data, self.draw.validation)
        return _Outcome(trained, found, time.perf_counter() - began)

    def _rows(self) -> TrainingRows:
        """Return the rows of this stage, made once for all its trials."""
        with self._lock:
            if self._is_tuned not in self._kept:
                chosen = self.draw.final if self._is_tuned else self.draw.tuning
                self._kept = {self._is_tuned: TrainingRows(self.data, chosen, self.memory_limit)}
            return self._kept[self._is_tuned]

    def receive(self, place: int, outcome: _Outcome) -> bool:
        """Store an outcome; return whether all of this round are complete."""
        self._found[place] = outcome
        self.seconds += outcome.seconds
        if not self._asked:
            self.model, self.stopped_at = outcome.trained.model, outcome.trained.stopped_at
            return True
        if len(self._found) < len(self._asked):
            return False
        for position, trial in enumerate(self._asked):
            found = self._found[position]
            assert found.accuracy is not None
            self.study.tell(trial, found.accuracy)
            stopped = found.trained.stopped_at
            error = "" if stopped is None else f"loss not finite in epoch {stopped}"
            self.trials.append(Trial(dict(trial.params), found.accuracy, error=error))
        return True

    def result(self) -> Fit:
        assert self.model is not None
        return Fit(self.model, tuple(self.trials), dict(self.study.best_params), self.seconds, note=self._note())

    def _note(self) -> str:
        """Return a note if the final fit is worse on its own rows than the search was on held-out ones."""
        assert self.model is not None
        reached = training_accuracy(self.model, self.data, self.draw.final)
        if self.stopped_at is not None:
            return f"the loss of the final fit was not finite in epoch {self.stopped_at}; {reached}"
        best = self.study.best_value
        if accuracy(self.model, self.data, self.draw.final) >= best:
            return ""
        return f"the final fit has not settled: {reached}, where the search had {100 * best:.1f} % on held-out ones"

    def _suggest(self, trial: optuna.trial.Trial) -> Setting:
        protocol = self.protocol
        return Setting(
            lr=trial.suggest_float("lr", protocol.lowest_lr, protocol.highest_lr, log=True),
            wd=trial.suggest_float("wd", protocol.lowest_wd, protocol.highest_wd, log=True),
        )


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
