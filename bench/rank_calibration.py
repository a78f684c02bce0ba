"""Measure how often the interval of `unseen rank` covers the accuracy on new images: real features, few per class.

    python bench/rank_features.py --folder FOLDER                        features, once
    python bench/rank_calibration.py --folder FOLDER                     all conditions: half an hour of one core
    python bench/rank_calibration.py --folder FOLDER --only photos       conditions whose name contains a text
    python bench/rank_calibration.py --table                             the table of docs/evidence/rank.md

A data set is a sample of the images of a task. `unseen.benchmarks.rank.expected` estimates the accuracy from it, and
the probe that was fitted on all of its images is tested on all other images of the task, classes weighted by their
shares in the task. The error of this test is added to the interval, because it has a few hundred images only. Equal
candidates are the same features with independent noise: a significant difference between them is a false positive.
Rows go to FOLDER/calibration.json after every ten data sets, so that a run that was stopped continues, and their
summary to bench/rank_calibration.json.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rank_features import LITE, load
from tables import Table

SUMMARY = Path(__file__).with_name("rank_calibration.json")
SMALL = f"{LITE}?size=96"


@dataclass(frozen=True)
class Condition:
    """How data sets are sampled.

    Attributes:
        task, classes: classes are sampled for every data set.
        per_class: images per class, or their mean.
        kind: "exact", "random" (counts vary by chance), "tail" (shares up to `ratio` to 1), "copies" (a third of the
            images are re-encoded copies of others), "frames" (five views of every photograph, with groups), "shift"
            (train on the dataset's training split, test on its test split, which is from other places).
        noise: standard deviation of noise on the features, in units of theirs, so that accuracies stay below 100 %.
        pairs: whether two equal candidates are compared.
        sets: data sets in the table.
    """

    task: str
    classes: int
    per_class: int
    kind: str = "exact"
    model: str = LITE
    noise: float = 0.0
    pairs: bool = False
    sets: int = 200
    ratio: float = 25.0

    def sample(self, folder: Path, seed: int) -> Sample:
        rng = np.random.default_rng([seed, 7])
        stored = load(folder, self.task, self.model)
        x, y, split = stored["features"].astype(np.float32), stored["labels"], stored["split"]
        names, counts = np.unique(y, return_counts=True)
        names = names[counts >= 2 * min(self.per_class, 3)]
        chosen = np.flatnonzero(np.isin(y, rng.permutation(names)[: self.classes]))
        x, y, split = x[chosen], y[chosen], split[chosen]
        x = x + np.float32(self.noise * x.std()) * rng.normal(size=x.shape).astype(np.float32)
        return SAMPLERS.get(self.kind, _plain)(self, folder, (x, y, split, chosen), rng)


@dataclass(frozen=True)
class Sample:
    """A data set (features, labels, groups), and the images that test the probe, with the share of each class."""

    features: np.ndarray
    labels: np.ndarray
    test: np.ndarray
    test_labels: np.ndarray
    shares: dict[int, float]
    groups: np.ndarray | None = None


Rows = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def _per_class(y: np.ndarray, counts: dict[int, int], rng: np.random.Generator) -> np.ndarray:
    return np.concatenate([rng.permutation(np.flatnonzero(y == c))[:k] for c, k in counts.items()])


def _shares(y: np.ndarray) -> dict[int, float]:
    names, counts = np.unique(y, return_counts=True)
    return dict(zip(names.tolist(), (counts / counts.sum()).tolist(), strict=True))


def _plain(own: Condition, _folder: Path, rows: Rows, rng: np.random.Generator) -> Sample:
    x, y, *_ = rows
    names = np.unique(y)
    if own.kind == "exact":
        taken = _per_class(y, dict.fromkeys(names.tolist(), own.per_class), rng)
    else:
        taken = rng.permutation(len(y))[: own.per_class * len(names)]
    rest = np.setdiff1d(np.arange(len(y)), taken)
    return Sample(x[taken], y[taken], x[rest], y[rest], _shares(y))


def _tail(own: Condition, _folder: Path, rows: Rows, rng: np.random.Generator) -> Sample:
    """Sample classes of unequal shares; new images have the same shares."""
    x, y, *_ = rows
    names = np.unique(y)
    weights = own.ratio ** (-rng.permutation(len(names)) / (len(names) - 1))
    weights /= weights.sum()
    wanted = rng.multinomial(own.per_class * len(names), weights)
    most = {c: int(0.7 * (y == c).sum()) for c in names.tolist()}
    counts = {c: min(int(k), most[c]) for c, k in zip(names.tolist(), wanted, strict=True)}
    taken = _per_class(y, counts, rng)
    rest = np.setdiff1d(np.arange(len(y)), taken)
    return Sample(x[taken], y[taken], x[rest], y[rest], dict(zip(names.tolist(), weights.tolist(), strict=True)))


def _copies(own: Condition, folder: Path, rows: Rows, rng: np.random.Generator) -> Sample:
    """Replace a third of the images by re-encoded copies of others."""
    x, y, _, chosen = rows
    taken = rng.permutation(len(y))[: own.per_class * own.classes]
    kept, rest = taken[: 2 * len(taken) // 3], np.setdiff1d(np.arange(len(y)), taken)
    doubled = rng.permutation(kept)[: len(taken) - len(kept)]
    again = load(folder, f"{own.task}-copies", own.model)["features"][chosen[doubled]].astype(np.float32)
    copies = again + np.float32(0.02 * x.std()) * rng.normal(size=again.shape).astype(np.float32)
    labels = np.concatenate([y[kept], y[doubled]])
    return Sample(np.concatenate([x[kept], copies]), labels, x[rest], y[rest], _shares(y))


def _frames(own: Condition, folder: Path, rows: Rows, rng: np.random.Generator) -> Sample:
    """Take five views of every photograph, as groups; test on the other photographs."""
    x, y, _, chosen = rows
    taken = _per_class(y, dict.fromkeys(np.unique(y).tolist(), own.per_class), rng)
    rest = np.setdiff1d(np.arange(len(y)), taken)
    frames = load(folder, f"{own.task}-frames")["features"].astype(np.float32)
    views = (5 * chosen[taken][:, None] + np.arange(5)).ravel()
    return Sample(frames[views], np.repeat(y[taken], 5), x[rest], y[rest], _shares(y), np.repeat(taken, 5))


def _shift(own: Condition, _folder: Path, rows: Rows, rng: np.random.Generator) -> Sample:
    x, y, split, _ = rows
    train, test = np.flatnonzero(split == 0), np.flatnonzero(split == 2)
    taken = rng.permutation(train)[: own.per_class * own.classes]
    return Sample(x[taken], y[taken], x[test], y[test], _shares(y[test]))


SAMPLERS: dict[str, Callable[[Condition, Path, Rows, np.random.Generator], Sample]] = {
    "tail": _tail,
    "copies": _copies,
    "frames": _frames,
    "shift": _shift,
}

CONDITIONS = {
    "photos, exactly 2 of 95 classes": Condition("photos", 95, 2, model=SMALL),
    "photos, exactly 3 of 95 classes": Condition("photos", 95, 3, model=SMALL),
    "photos, about 3 of 95 classes": Condition("photos", 95, 3, "random", SMALL, sets=300),
    "photos, exactly 5 of 40 classes": Condition("photos", 40, 5, model=SMALL, noise=0.5),
    "photos, exactly 10 of 30 classes": Condition("photos", 30, 10, model=SMALL, noise=0.8),
    "photos, about 8 of 2 classes": Condition("photos", 2, 8, "random", SMALL, noise=2.5),
    "emoji, exactly 2 of 100 classes": Condition("emoji", 100, 2),
    "emoji, exactly 3 of 100 classes": Condition("emoji", 100, 3),
    "emoji, about 3 of 100 classes": Condition("emoji", 100, 3, "random"),
    "grocery, about 7 of 14 classes": Condition("grocery", 14, 7, "random", noise=0.5, pairs=True),
    "grocery, about 30 of 14 classes": Condition("grocery", 14, 30, "random", noise=0.8, pairs=True),
    "grocery, about 30 of 2 classes": Condition("grocery", 2, 30, "random", noise=1.5, pairs=True),
    "shapes (count), about 30 of 8 classes": Condition("count", 8, 30, "random"),
    "sprites (location), about 30 of 16 classes": Condition("location", 16, 30, "random"),
    "photos, long tail, mean 4 of 95 classes": Condition("photos", 95, 4, "tail", SMALL, ratio=10.0),
    "grocery, long tail, mean 20 of 14 classes": Condition("grocery", 14, 20, "tail", noise=0.8),
    "grocery, a third copies, 300 images": Condition("grocery", 14, 21, "copies", noise=0.0),
    "photos, frames in groups, 5 x 4 of 20 classes": Condition("photos", 20, 4, "frames"),
    "grocery, shifted test images (other shops)": Condition("grocery", 14, 30, "shift"),
}


def one(own: Condition, folder: Path, seed: int) -> dict[str, Any]:
    """Return the estimate and the truth of one data set."""
    from unseen.benchmarks.rank import expected
    from unseen.benchmarks.rank.details import RankDetails
    from unseen.probes import solvers
    from unseen.stats import decide

    sample, kept = own.sample(folder, seed), []
    original = solvers.solve

    def solve(*arguments: Any) -> Any:
        kept.append(original(*arguments))
        return kept[-1]

    solvers.solve = solve  # the fit on all images, beside the folds, is the probe that is tested
    try:
        found = expected.cross_validated(sample.features, sample.labels, "class", seed=seed, groups=sample.groups)
    finally:
        solvers.solve = original
    value, size = expected.expect(found)
    known = found.outcomes[np.isfinite(found.outcomes)]
    interval = expected.expected_interval(value, size, known)
    truth, error = tested(kept[0][0].model, sample)
    side = (interval.high - value) if truth > value else (value - interval.low)
    row = {"value": value, "truth": truth, "raw": float(known.mean()), "half": (interval.high - interval.low) / 2}
    row["covered"] = bool(abs(truth - value) <= np.hypot(side, 1.96 * error) + 1e-9)
    row["copies"] = found.copies
    if own.pairs:
        rng = np.random.default_rng([seed, 8])
        pair = {}
        for name in "ab":
            noise = 0.7 * sample.features.std() * rng.normal(size=sample.features.shape)
            each = expected.cross_validated(
                (sample.features + noise).astype(np.float32), sample.labels, "class", seed=seed
            )
            mean, images = expected.expect(each)
            written = expected.written_hits(each.outcomes, np.arange(len(each.outcomes)), len(each.outcomes))
            units = len(np.unique(each.groups))
            pair[name] = RankDetails(hits=written, expected=mean, size=images, units=units)
        row["significant"] = decide(expected.estimates(pair), seed=seed).best is not None
    return row


def tested(model: Any, sample: Sample) -> tuple[float, float]:
    """Return the accuracy on the other images, classes weighted by their shares, and its standard error."""
    import torch

    names = np.unique(sample.labels)
    unit = sample.test / np.linalg.norm(sample.test, axis=1, keepdims=True)
    predicted = names[model.scores(torch.from_numpy(unit)).argmax(dim=1).numpy()]
    total = weight = variance = 0.0
    for c in names.tolist():
        rows = sample.test_labels == c
        if rows.any():
            accuracy, share = float((predicted[rows] == c).mean()), sample.shares.get(c, 0.0)
            total, weight = total + share * accuracy, weight + share
            variance += share**2 * accuracy * (1 - accuracy) / rows.sum()
    return total / weight, float(np.sqrt(variance)) / weight


def run(folder: Path, only: str, sets: int) -> None:
    import torch

    torch.set_num_threads(1)
    stored = folder / "calibration.json"
    counts: dict[str, list[dict[str, Any]]] = json.loads(stored.read_text()) if stored.is_file() else {}
    for name, own in CONDITIONS.items():
        if only not in name:
            continue
        rows, began = counts.setdefault(name, []), time.process_time()
        for seed in range(len(rows), min(sets or own.sets, own.sets)):
            rows.append({k: round(v, 4) if isinstance(v, float) else v for k, v in one(own, folder, seed).items()})
            if len(rows) % 10 == 0:
                stored.write_text(json.dumps(counts))
        stored.write_text(json.dumps(counts))
        found = {name: summary(counts[name]) for name in CONDITIONS if counts.get(name)}
        SUMMARY.write_text(json.dumps(found, indent=1) + "\n")
        print(name, summary(rows), f"{time.process_time() - began:.0f} s", flush=True)


def summary(rows: list[dict[str, Any]]) -> dict[str, float]:
    """Return the numbers of one condition, in percent and points."""
    value, truth, raw, half = (np.array([row[key] for row in rows]) for key in ("value", "truth", "raw", "half"))
    found = {
        "sets": len(rows),
        "accuracy": 100 * truth.mean(),
        "before": 100 * (raw - truth).mean(),
        "bias": 100 * (value - truth).mean(),
        "half": 100 * half.mean(),
        "covered": 100 * np.mean([row["covered"] for row in rows]),
        "copies": np.mean([row["copies"] for row in rows]),
    }
    if "significant" in rows[0]:
        found["significant"] = 100 * np.mean([row["significant"] for row in rows])
    return {key: round(float(each), 1) for key, each in found.items()}


def table() -> Table:
    """Return the table of docs/evidence/rank.md."""
    found = Table(
        "data sets", "n", "accuracy (%)", "bias of plain folds", "bias", "half width", "covers", "significant"
    )
    for name, s in json.loads(SUMMARY.read_text()).items():
        significant = f"{s['significant']:.1f} %" if "significant" in s else ""
        numbers = (f"{s['accuracy']:.1f}", f"{s['before']:+.1f}", f"{s['bias']:+.1f}", f"{s['half']:.1f}")
        found.add(name, f"{s['sets']:.0f}", *numbers, f"{s['covered']:.1f} %", significant)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, help="of bench/rank_features.py")
    parser.add_argument("--only", default="", help="a part of the names of conditions")
    parser.add_argument("--sets", type=int, default=0, help="fewer data sets per condition")
    parser.add_argument("--table", action="store_true")
    options = parser.parse_args()
    if not options.table:
        run(options.folder, options.only, options.sets)
    table().show()


if __name__ == "__main__":
    main()
