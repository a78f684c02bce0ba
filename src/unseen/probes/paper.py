"""The `paper` solver: SGD tuned by Optuna's tree-structured Parzen estimator, as published.

Paper:      Sariyildiz et al., "Concept generalization in visual representation learning", ICCV 2021, Section 3.4.3 and
            supplement B.2; details from the authors' released source
Implements: per seed, a multivariate TPE sampler seeded with it, 30 trials of (lr, wd), the objective being the
            validation top-1 after the last epoch; then the best setting trained again on all of train
Differs:    only in how the work is laid out. The sampler's first ten trials are random draws that depend on nothing,
            so they train side by side, and several runs (seeds, shots) advance at the same time; each run asks and
            tells its sampler in the published order. A trial whose loss stops being finite ends there and counts with
            the accuracy of the weights it has, as published.
Expected:   CoG Figure 3; bench/probe.py sets it beside the protocol written the ordinary way
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait

import optuna

from unseen.probes.draws import Draw
from unseen.probes.linear import LabelledRows, LinearModel
from unseen.probes.outcome import Fit, Trial
from unseen.probes.protocol import Protocol
from unseen.probes.sgd import Setting, Trained, accuracies, train
from unseen.probes.workers import Workers

_STARTUP = 10  # random trials before the estimator sets in: Optuna's default
_SIDE_BY_SIDE = 5  # a fixed width, so that results do not depend on the number of threads
_TUNING_STREAM, _FINAL_STREAM = 3, 4

_Outcome = tuple[list[Trained], list[float], float]


def fit_paper(data: LabelledRows, draws: Sequence[Draw], workers: Workers, protocol: Protocol) -> list[Fit]:
    """Tune and fit one classifier per draw; the draws advance side by side.

    Args:
        data: all rows that the draws speak of.
        draws: the runs.
        workers: threads to use.
        protocol: ranges, trials, epochs, batch size.
    """
    runs = [_Run(data, draw, protocol) for draw in draws]
    owners: dict[Future[_Outcome], tuple[_Run, int]] = {}

    def enqueue(run: _Run) -> None:
        for place, settings in enumerate(run.next_groups()):
            owners[workers.submit(run.work, settings)] = (run, place)

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
    """One search: asks the sampler, collects what the trials found, and knows what comes next."""

    def __init__(self, data: LabelledRows, draw: Draw, protocol: Protocol) -> None:
        self.data, self.draw, self.protocol = data, draw, protocol
        self.study = _quiet_study(draw.seed)
        self.trials: list[Trial] = []
        self.seconds = 0.0
        self.model: LinearModel | None = None
        self._asked: list[list[optuna.trial.Trial]] = []
        self._found: dict[int, _Outcome] = {}

    @property
    def _is_tuned(self) -> bool:
        return len(self.trials) >= self.protocol.trials

    def next_groups(self) -> list[list[Setting]]:
        """Settings to train next, in groups that go side by side; none where the run is finished."""
        self._found.clear()
        if self.model is not None:
            return []
        if self._is_tuned:
            self._asked = []
            return [[Setting(**self.study.best_params)]]
        left = self.protocol.trials - len(self.trials)
        count = min(_STARTUP, left) if not self.trials else 1
        began = time.perf_counter()
        asked = [self.study.ask() for _ in range(count)]
        settings = [self._suggest(trial) for trial in asked]
        self.seconds += time.perf_counter() - began
        starts = range(0, count, _SIDE_BY_SIDE)
        self._asked = [asked[start : start + _SIDE_BY_SIDE] for start in starts]
        return [settings[start : start + _SIDE_BY_SIDE] for start in starts]

    def work(self, settings: list[Setting]) -> _Outcome:
        """Train a group, on a worker."""
        began = time.perf_counter()
        if self._is_tuned:
            trained = train(self.data, self.draw.final, settings, self.protocol, [self.draw.seed, _FINAL_STREAM])
            values: list[float] = []
        else:
            trained = train(self.data, self.draw.tuning, settings, self.protocol, [self.draw.seed, _TUNING_STREAM])
            values = accuracies([t.model for t in trained], self.data, self.draw.validation)
        return trained, values, time.perf_counter() - began

    def receive(self, place: int, outcome: _Outcome) -> bool:
        """Take in a group's outcome; True once all groups of this round are in."""
        self._found[place] = outcome
        self.seconds += outcome[2]
        if not self._asked:
            self.model = outcome[0][0].model
            return True
        if len(self._found) < len(self._asked):
            return False
        for position, group in enumerate(self._asked):
            trained, values, _ = self._found[position]
            for trial, result, value in zip(group, trained, values, strict=True):
                self.study.tell(trial, value)
                stopped = result.stopped_at
                note = "" if stopped is None else f"loss not finite in epoch {stopped}"
                self.trials.append(Trial(dict(trial.params), value, note=note))
        return True

    def result(self) -> Fit:
        assert self.model is not None
        return Fit(self.model, tuple(self.trials), dict(self.study.best_params), self.seconds)

    def _suggest(self, trial: optuna.trial.Trial) -> Setting:
        protocol = self.protocol
        return Setting(
            lr=trial.suggest_float("lr", protocol.lowest_lr, protocol.highest_lr, log=True),
            wd=trial.suggest_float("wd", protocol.lowest_wd, protocol.highest_wd, log=True),
        )


def _quiet_study(seed: int) -> optuna.Study:
    """A study that maximises accuracy, created without a line in the log."""
    verbosity = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        sampler = optuna.samplers.TPESampler(multivariate=True, seed=seed, n_startup_trials=_STARTUP)
        return optuna.create_study(sampler=sampler, direction="maximize")
    finally:
        optuna.logging.set_verbosity(verbosity)
