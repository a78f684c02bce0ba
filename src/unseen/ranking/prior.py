"""A prior over checkpoints from earlier tasks: which candidates to evaluate first, and the risk of skipping the others.

Model:      y_ct = m_t + s_t (a_c + e_ct): accuracy of checkpoint c on task t, with a checkpoint effect a_c ~ N(0, v_a)
            and residuals e_ct with variance v_e; a checkpoint without results has a_c ~ N(b log(parameters), v_s)
Estimation: empirical Bayes. Tasks are standardised over their checkpoints (repeatedly, because tasks have different
            ones); v_e and v_a by the method of moments; a_c is shrunk by v_a / (v_a + v_e / n_c)
Risk:       a new task is simulated as a_c + the residuals of a random earlier task, all checkpoints together, because
            tasks favour families of checkpoints. Normal residuals were too optimistic on VTAB (docs/evidence/rank.md)
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from unseen.core.arrays import FloatArray
from unseen.core.errors import DataError
from unseen.core.guard import guarded
from unseen.core.names import as_number

#: Accuracy by (checkpoint, task).
History = Mapping[tuple[str, str], float]

_SAMPLES = 20_000
_ROUNDS = 20
#: Tasks and checkpoints that a prior needs, and checkpoints of known size that a regression on it needs.
FEWEST_TASKS, FEWEST_CHECKPOINTS, _FEWEST_SIZES = 3, 3, 5
#: Share of the residual variance that is sampled independently per checkpoint.
_INDEPENDENT = 0.1


@dataclass(frozen=True, eq=False)
class Prior:
    """Standardised accuracy that candidates are expected to have on a new task.

    Attributes:
        models: the candidates.
        mean, variance: (c,) posterior of each candidate's effect.
        residuals: (tasks, c) of earlier tasks; 0 for a candidate without results on one.
        noise: (c,) variance of the residuals that are sampled independently.
        known: how many candidates have results on earlier tasks.
    """

    models: tuple[str, ...]
    mean: FloatArray
    variance: FloatArray
    residuals: FloatArray
    noise: FloatArray
    known: int

    def order(self) -> list[str]:
        """Return the candidates, highest expectation first; ties keep the order of `models`."""
        return [self.models[i] for i in np.argsort(-self.mean, kind="stable")]

    def best_shares(self, seed: int = 0) -> dict[str, float]:
        """Return the probability of each candidate to be the best on a new task."""
        generator = np.random.default_rng(seed)
        shape = (_SAMPLES, len(self.models))
        sampled = self.mean + generator.standard_normal(shape) * np.sqrt(self.variance + self.noise)
        sampled += self.residuals[generator.integers(0, len(self.residuals), _SAMPLES)]
        counts = np.bincount(sampled.argmax(axis=1), minlength=len(self.models))
        return dict(zip(self.models, (counts / _SAMPLES).tolist(), strict=True))


def fit_prior(history: History, models: Sequence[str], sizes: Mapping[str, float] | None = None) -> Prior:
    """Fit the prior of some candidates.

    Args:
        history: accuracies on earlier tasks, in any unit that is the same within a task; also of checkpoints that are
            no candidates.
        models: the candidates; those without results get the mean of all checkpoints, or of checkpoints of their size.
        sizes: numbers of parameters, as far as they are known.

    Raises:
        DataError: fewer than three tasks with three checkpoints each.
    """
    tasks = [task for task, n in Counter(task for _, task in history).items() if n >= FEWEST_CHECKPOINTS]
    names = list(dict.fromkeys([*models, *(model for model, _ in history)]))
    values = np.array([[history.get((model, task), np.nan) for model in names] for task in tasks])
    if len(tasks) < FEWEST_TASKS:
        raise DataError(
            f"a prior needs {FEWEST_TASKS} earlier tasks with {FEWEST_CHECKPOINTS} checkpoints each; there are "
            f"{len(tasks)}. Add results with --prior FILE (model, task, accuracy)."
        )
    found = ~np.isnan(values)
    counts = found.sum(axis=0)
    effect = np.zeros(len(names))
    for _ in range(_ROUNDS):  # standardise each task on the scale of the checkpoints that it has
        scaled = np.array([_on_scale(row, effect) for row in values])
        effect = np.nansum(scaled, axis=0) / np.maximum(counts, 1)
        effect -= effect[counts > 0].mean()
    residuals = np.where(found, scaled - effect, 0.0)
    freedom = max(int(found.sum()) - int((counts > 0).sum()) - len(tasks) + 1, 1)
    within = float((residuals**2).sum() / freedom)
    own = effect[counts > 0]
    between = max(float(own.var(ddof=1)) - within * float((1 / counts[counts > 0]).mean()), 1e-6)
    trend, left = _size_trend(names, effect, counts, sizes or {}, between)
    shrink = between / (between + within / np.maximum(counts, 1))
    mean = np.where(counts > 0, shrink * effect, trend)
    variance = np.where(counts > 0, between * (1 - shrink), left)
    # A residual of n results is smaller than that of a new task; one of a candidate without results is unknown.
    residuals = residuals * np.sqrt(np.maximum(counts, 2) / (np.maximum(counts, 2) - 1))
    noise = np.where(counts > 0, _INDEPENDENT * within, within)
    chosen = [names.index(model) for model in models]
    return Prior(
        tuple(models),
        mean[chosen],
        variance[chosen],
        residuals[:, chosen],
        noise[chosen],
        int((counts[chosen] > 0).sum()),
    )


def shortlist(prior: Prior, first: int) -> tuple[tuple[str, ...], float]:
    """Return the `first` candidates of the prior, and the probability that the best is among the others."""
    kept = tuple(prior.order()[:first])
    shares = prior.best_shares()
    return kept, 1 - sum(shares[model] for model in kept)


def read_history(path: Path) -> tuple[dict[tuple[str, str], float], dict[str, float]]:
    """Read accuracies on earlier tasks, and numbers of parameters, from a CSV file.

    Its columns are model, task, accuracy and, if known, parameters. `unseen results --csv` writes such a file too: its
    columns dataset and top1 serve as task and accuracy. Rows without a number are skipped; repeated rows, such as
    seeds, are averaged.

    Raises:
        DataError: the file cannot be read, or lacks a column.
    """
    sums: dict[tuple[str, str], list[float]] = {}
    sizes: dict[str, float] = {}
    with guarded(path, "a table of accuracies"), path.open(newline="", encoding="utf-8") as file:
        rows = csv.DictReader(file)
        fields = rows.fieldnames or ()
        task = "task" if "task" in fields else "dataset"
        accuracy = "accuracy" if "accuracy" in fields else "top1"
        if missing := {"model", task, accuracy} - set(fields):
            raise DataError(
                f"{path} has no column {', '.join(sorted(missing))}; it has: {', '.join(fields) or 'none'}."
            )
        for row in rows:
            value, size = as_number(row[accuracy] or ""), as_number(row.get("parameters") or "")
            if value is not None and np.isfinite(value):
                sums.setdefault((row["model"] or "", row[task] or ""), []).append(value)
            if size is not None and 0 < size < np.inf:
                sizes[row["model"] or ""] = size
    return {key: float(np.mean(values)) for key, values in sums.items()}, sizes


def _on_scale(row: FloatArray, effect: FloatArray) -> FloatArray:
    """Return a task with mean and standard deviation of 1 relative to the effects of its checkpoints."""
    spread = float(np.nanstd(row))
    centre = float(effect[~np.isnan(row)].mean())
    return (row - float(np.nanmean(row))) / (spread or 1.0) + centre


def _size_trend(
    names: Sequence[str], effect: FloatArray, counts: FloatArray, sizes: Mapping[str, float], between: float
) -> tuple[FloatArray, FloatArray]:
    """Return the expected effect of every checkpoint by its size, and the variance that remains."""
    logs = np.array([np.log(sizes[name]) if sizes.get(name) else np.nan for name in names])
    used = ~np.isnan(logs) & (counts > 0)
    unknown = np.zeros(len(names)), np.full(len(names), between)
    if used.sum() < _FEWEST_SIZES or float(np.ptp(logs[used])) == 0:
        return unknown
    slope, intercept = np.polyfit(logs[used], effect[used], 1)
    trend = np.where(np.isnan(logs), 0.0, intercept + slope * np.nan_to_num(logs))
    left = float(((effect[used] - trend[used]) ** 2).sum() / (used.sum() - 2))
    return (trend, np.where(np.isnan(logs), between, left)) if left < between else unknown
