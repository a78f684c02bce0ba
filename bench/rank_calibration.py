"""Measure how often the interval of `unseen rank` covers the accuracy on new images: real features, few per class.

    python bench/rank_features.py --folder FOLDER                        features, once
    python bench/rank_calibration.py --folder FOLDER                     all conditions: half an hour of one core
    python bench/rank_calibration.py --folder FOLDER --only photos       conditions whose name contains a text
    python bench/rank_calibration.py --folder FOLDER --choose            constants without each task; the summary
    python bench/rank_calibration.py --table                             the table of docs/evidence/rank.md

A data set is a sample of the images of a task. `unseen.benchmarks.rank.expected` estimates the accuracy from it, and
the probe that was fitted on all of its images is tested on all other images of the task, classes weighted by their
shares in the task. The error of this test is added to the interval, because it has a few hundred images only. Equal
candidates are the same features with independent noise: a significant difference between them is a false positive.
The constants of the width are chosen on the conditions of all real tasks but one, and tested on that one. Rows go to
FOLDER after every twenty data sets, so that a run that was stopped continues, and their summary to
bench/rank_calibration.json.
"""

from __future__ import annotations

import argparse
import json
import pickle
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rank_features import load
from tables import Table

SUMMARY = Path(__file__).with_name("rank_calibration.json")
#: Coverage that the constants are chosen for.
TARGET = 0.95


@dataclass(frozen=True)
class Condition:
    """How data sets are sampled.

    Attributes:
        task, classes: classes are sampled for every data set.
        per_class: images per class, or their mean.
        kind: "exact", "random" (counts vary by chance), "tail" (shares up to `ratio` to 1), "copies" (a third of the
            images are re-encoded copies of others), "frames" (five views of every photograph, with groups), "shift"
            (train on the dataset's training split, test on its test split, which is from other places), "clouds"
            (simulated, `noise` in units of the distance of their centres).
        noise: standard deviation of noise on the features, in units of theirs, so that accuracies stay below 100 %.
        pairs: whether two equal candidates are compared.
        sets: data sets in the table.
    """

    task: str
    classes: int
    per_class: int
    kind: str = "exact"
    noise: float = 0.0
    pairs: bool = False
    sets: int = 200
    ratio: float = 25.0

    def sample(self, folder: Path, seed: int) -> Sample:
        rng = np.random.default_rng([seed, 7])
        if self.kind == "clouds":
            return _clouds(self, rng)
        stored = load(folder, self.task)
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
    again = load(folder, f"{own.task}-copies")["features"][chosen[doubled]].astype(np.float32)
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


def _clouds(own: Condition, rng: np.random.Generator) -> Sample:
    """Sample normal clouds around random centres, in 64 dimensions."""
    centres = 2.0 * rng.normal(size=(own.classes, 64))
    y = np.repeat(np.arange(own.classes), own.per_class)
    test = np.repeat(np.arange(own.classes), 20)
    shift = 2.0 * own.noise
    x, rest = (centres[of] + shift * rng.normal(size=(len(of), 64)) for of in (y, test))
    return Sample(x.astype(np.float32), y, rest.astype(np.float32), test, _shares(test))


SAMPLERS: dict[str, Callable[[Condition, Path, Rows, np.random.Generator], Sample]] = {
    "tail": _tail,
    "copies": _copies,
    "frames": _frames,
    "shift": _shift,
}

CONDITIONS = {
    "photos, exactly 2 of 50 classes": Condition("photos", 50, 2),
    "photos, exactly 3 of 50 classes": Condition("photos", 50, 3),
    "photos, about 3 of 95 classes": Condition("photos", 95, 3, "random", sets=300),
    "photos, exactly 5 of 30 classes": Condition("photos", 30, 5, noise=0.5),
    "photos, exactly 10 of 20 classes": Condition("photos", 20, 10, noise=0.8),
    "photos, about 8 of 2 classes": Condition("photos", 2, 8, "random", noise=2.5),
    "grocery, about 8 of 2 classes": Condition("grocery", 2, 8, "random", noise=2.0),
    "emoji, exactly 2 of 100 classes": Condition("emoji", 100, 2),
    "emoji, exactly 3 of 50 classes": Condition("emoji", 50, 3),
    "emoji, about 3 of 50 classes": Condition("emoji", 50, 3, "random"),
    "grocery, about 7 of 14 classes": Condition("grocery", 14, 7, "random", noise=0.5, pairs=True),
    "grocery, about 30 of 14 classes": Condition("grocery", 14, 30, "random", noise=0.8),
    "grocery, about 30 of 2 classes": Condition("grocery", 2, 30, "random", noise=1.5, pairs=True),
    "shapes (count), about 30 of 8 classes": Condition("count", 8, 30, "random", pairs=True),
    "sprites (location), about 30 of 16 classes": Condition("location", 16, 30, "random"),
    "photos, long tail, mean 4 of 50 classes": Condition("photos", 50, 4, "tail", ratio=10.0),
    "grocery, long tail, mean 15 of 14 classes": Condition("grocery", 14, 15, "tail", noise=0.8),
    "grocery, a third copies, 294 images": Condition("grocery", 14, 21, "copies"),
    "photos, frames in groups, 5 x 4 of 20 classes": Condition("photos", 20, 4, "frames"),
    "simulated clouds, exactly 3 of 40 classes": Condition("clouds", 40, 3, "clouds", noise=1.9),
    "grocery, shifted test images (other shops)": Condition("grocery", 14, 20, "shift"),
}


def one(own: Condition, folder: Path, seed: int) -> dict[str, Any]:
    """Return the outcomes and the truth of one data set."""
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
    truth, error = tested(kept[0][0].model, sample)
    row = {"found": found, "truth": truth, "error": error}
    if own.pairs:
        rng = np.random.default_rng([seed, 8])
        pair = {}
        for name in "ab":
            noise = 0.7 * sample.features.std() * rng.normal(size=sample.features.shape)
            each = expected.cross_validated(
                (sample.features + noise).astype(np.float32), sample.labels, "class", seed=seed
            )
            mean, images = expected.expect(each)
            written = expected.packed(each.outcomes, np.arange(len(each.outcomes)), len(each.outcomes))
            units = len(np.unique(each.groups))
            pair[name] = RankDetails(outcomes=written, expected=mean, size=images, units=units)
        row["significant"] = decide(expected.estimates(pair), seed=seed).best is not None
    return row


def tested(model: Any, sample: Sample) -> tuple[float, float]:
    """Return the accuracy on the other images, classes weighted by their shares, and its standard error."""
    import torch

    names = np.unique(sample.labels)
    unit = sample.test / np.linalg.norm(sample.test, axis=1, keepdims=True)
    predicted = names[model.scores(torch.from_numpy(unit)).argmax(dim=1).numpy()]
    tested = [c for c in names.tolist() if (sample.test_labels == c).any()]
    right, count = (
        np.array([float(found[sample.test_labels == c].sum()) for c in tested])
        for found in (predicted == sample.test_labels, np.ones(len(predicted)))
    )
    shares = np.array([sample.shares.get(c, 0.0) for c in tested])
    shares /= shares.sum()
    # 100 % of few images is no certainty: the accuracy of a class is shrunk towards that of all images.
    whole = (right.sum() + 1) / (count.sum() + 2)
    smooth = (right + 2 * whole) / (count + 2)
    return float(shares @ (right / count)), float(np.sqrt(shares**2 @ (smooth * (1 - smooth) / count)))


def run(folder: Path, only: str, sets: int) -> None:
    import torch

    torch.set_num_threads(1)
    for name, own in CONDITIONS.items():
        if only not in name:
            continue
        stored = _stored(folder, name)
        rows, began = pickle.loads(stored.read_bytes()) if stored.is_file() else [], time.process_time()
        for seed in range(len(rows), min(sets or own.sets, own.sets)):
            rows.append(one(own, folder, seed))
            if len(rows) % 20 == 0:
                stored.write_bytes(pickle.dumps(rows))
        stored.write_bytes(pickle.dumps(rows))
        print(name, len(rows), f"{time.process_time() - began:.0f} s", flush=True)


def _stored(folder: Path, name: str) -> Path:
    return folder / f"calibration-{''.join(c if c.isalnum() else '-' for c in name)}.pickle"


# ---- constants, chosen without the task that they are tested on ------------------------------------------------------

#: Constants of the width that are tried (`unseen.benchmarks.rank.expected.spread`).
WIDTHS = [
    (constant, errors, few, per_class)
    for constant in np.arange(0.8, 1.31, 0.05).round(2)
    for errors in (0.0, 0.2, 0.4, 0.6)
    for few in (0.0, 20.0, 30.0, 40.0, 50.0)
    for per_class in (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
]


def needed(row: dict[str, Any]) -> tuple[float, float, float]:
    """Return the smallest factor on the standard error at which the interval covers the truth, value and half width.

    The error of the measured truth is added to the interval. The half width is that of a factor of 1.
    """
    from unseen.benchmarks.rank import expected

    found, truth, error = row["found"], row["truth"], row["error"]
    known = found.outcomes[np.isfinite(found.outcomes)]
    kept, factor = expected.spread, 1.0
    expected.spread = lambda *_: factor
    try:
        low, high, width = 0.2, 5.0, 0.0
        while high > 1.04 * low:
            value, size = expected.expect(found)
            interval = expected.expected_interval(value, size, known)
            width = width or (interval.high - interval.low) / 2
            side = interval.high - value if truth > value else value - interval.low
            inside = abs(truth - value) <= np.hypot(side, 1.96 * error) + 1e-9
            low, high = (low, factor) if inside else (factor, high)
            factor = (low * high) ** 0.5
    finally:
        expected.spread = kept
    return factor, value, width


def summarise(folder: Path) -> None:
    """Choose the width on all real tasks but one, for every task, and store what it gives on the one left out."""
    from unseen.benchmarks.rank import expected

    rows = {n: pickle.loads(f.read_bytes()) for n in CONDITIONS if (f := _stored(folder, n)).is_file()}
    found = {n: np.array([needed(row) for row in own]) for n, own in rows.items()}
    images = {n: np.array([np.isfinite(row["found"].outcomes).sum() for row in own]) for n, own in rows.items()}
    classes = {n: np.array([row["found"].index.max() + 1 for row in own]) for n, own in rows.items()}

    def factors(name: str, width: tuple[float, ...]) -> np.ndarray:
        shapes = zip(images[name], images[name] / classes[name], found[name][:, 1], strict=True)
        return np.array([expected.spread(*shape, width) for shape in shapes])

    covered = {(n, w): float(np.mean(found[n][:, 0] <= factors(n, w))) for n in rows for w in (*WIDTHS, expected.WIDTH)}

    def best(names: list[str]) -> tuple[float, ...]:
        return min(WIDTHS, key=lambda w: sum(_loss(covered[n, w]) for n in names))

    judged = [n for n, own in CONDITIONS.items() if n in rows and own.kind not in ("shift", "clouds")]
    summary: dict[str, Any] = {"": {"all": best(judged), "shipped": expected.WIDTH}}
    for name, own in rows.items():
        task = CONDITIONS[name].task
        width = best([n for n in judged if CONDITIONS[n].task != task])
        truth = np.array([row["truth"] for row in own])
        raw = np.array([np.nanmean(row["found"].outcomes) for row in own])
        summary[name] = {
            "sets": len(own),
            "accuracy": 100 * truth.mean(),
            "before": 100 * (raw - truth).mean(),
            "bias": 100 * (found[name][:, 1] - truth).mean(),
            "half": 100 * (found[name][:, 2] * factors(name, width)).mean(),
            "covered": 100 * covered[name, width],
            "shipped": 100 * covered[name, expected.WIDTH],
            "copies": np.mean([row["found"].copies for row in own]),
            "constants": width,
        }
        if "significant" in own[0]:
            summary[name]["significant"] = 100 * np.mean([row["significant"] for row in own])
        print(name, {k: np.round(v, 2) for k, v in summary[name].items()}, flush=True)
    print(summary[""])
    SUMMARY.write_text(json.dumps(summary, indent=1, default=float) + "\n")


def _loss(covered: float) -> float:
    """Return the squared distance from 95 %; the distance from 90 to 97 % counts more than all others together."""
    outside = max(0.90 - covered, covered - 0.97, 0.0)
    return (covered - TARGET) ** 2 + 100 * outside


def table() -> Table:
    """Return the table of docs/evidence/rank.md."""
    found = Table(
        "data sets",
        "n",
        "accuracy (%)",
        "bias of plain folds",
        "bias",
        "half width",
        "covers",
        "shipped",
        "significant",
    )
    for name, s in json.loads(SUMMARY.read_text()).items():
        if name:
            significant = f"{s['significant']:.1f} %" if "significant" in s else ""
            numbers = (f"{s['accuracy']:.1f}", f"{s['before']:+.1f}", f"{s['bias']:+.1f}", f"{s['half']:.1f}")
            covers = (f"{s['covered']:.1f} %", f"{s['shipped']:.1f} %")
            found.add(name, f"{s['sets']:.0f}", *numbers, *covers, significant)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, help="of bench/rank_features.py")
    parser.add_argument("--only", default="", help="a part of the names of conditions")
    parser.add_argument("--sets", type=int, default=0, help="fewer data sets per condition")
    parser.add_argument("--choose", action="store_true", help="choose the constants, and store the summary")
    parser.add_argument("--table", action="store_true")
    options = parser.parse_args()
    if options.choose:
        summarise(options.folder)
    elif not options.table:
        run(options.folder, options.only, options.sets)
    if options.choose or options.table:
        table().show()


if __name__ == "__main__":
    main()
