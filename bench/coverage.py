"""How often intervals cover the true value, and how often `decide` reports a difference between equal candidates.

    python bench/coverage.py                   all tables, 2,000 repetitions per cell: about fifteen minutes of one core
    python bench/coverage.py --table shares    one table: shares, other, tests or real
    python bench/coverage.py --repetitions 200

Simulated images have a probability of being right that varies between images (and classes); seeds share it, with an
intraclass correlation of 0.6, so that the outcomes of several seeds on one image are correlated. In the long-tailed
sets the size of a class is inversely proportional to its rank, and rare classes are harder. Real features: a probe is
trained for five seeds, its outcomes on all test images are the population, and test sets are sampled from it with
replacement.

Exits with 1 if an interval over test images covers less than 93 %, if it covers more than 97 % without a reason, or if
more than 6 % of the comparisons of equal candidates are significant. With fewer repetitions the limits are wider by 2.5
standard errors of the counted share.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from unseen import stats

LEAST, MOST, FALSE = 0.93, 0.97, 0.06
ACCURACIES = (0.5, 0.8, 0.95, 0.99)
IMAGES = (10, 30, 100, 1000)
PER_CLASS = (2, 3, 5, 20)
SEEDS = (1, 5)
_CORRELATION = 0.6
_CLASS_SPREAD = 5.0  # sum of the parameters of the Beta distribution of class accuracies

FloatArray = npt.NDArray[np.float64]
Draw = Callable[[np.random.Generator], tuple[stats.Interval, float]]

FEW_ERRORS = "fewer than 10 wrong (or right) images are expected: a discrete distribution"
FEW_PER_CLASS = "few images per class: their variance is shrunk towards that of all images"
FEW_DIFFERENT = "the models differ on fewer than 10 expected images: a discrete distribution"
RARE = "the variance of rare classes is assumed, not estimated"
TIES = "rank correlations are discrete"
FEW_FREEDOM = "10 images count as 6 degrees of freedom, since squared errors can have heavy tails"
FEW_CLASSES = "few classes: their variance is shrunk towards the largest possible one"


@dataclass(frozen=True)
class Coverage:
    """The share of intervals that cover the true value, out of those with limits."""

    covered: float
    repetitions: int
    shown: float

    @property
    def text(self) -> str:
        return f"{100 * self.covered:.1f}" if self.shown else "none"

    def problem(self, reason: str) -> bool:
        """Whether it is outside of the limits."""
        if not self.shown:
            return False
        slack = 0.0 if self.repetitions >= 2000 else 2.5 * math.sqrt(LEAST * (1 - LEAST) / self.repetitions)
        return self.covered < LEAST - slack or (self.covered > MOST + slack and not reason)


def coverage(draw: Draw, repetitions: int, seed: int) -> Coverage:
    """Count intervals that cover the true value."""
    rng = np.random.default_rng(seed)
    found = [draw(rng) for _ in range(repetitions)]
    known = [(interval, truth) for interval, truth in found if interval.known]
    covered = float(np.mean([truth in interval for interval, truth in known])) if known else math.nan
    return Coverage(covered, len(known), len(known) / repetitions)


# ---- simulated outcomes ---------------------------------------------------------------------------------------------


def outcomes(rng: np.random.Generator, chance: FloatArray, seeds: int) -> FloatArray:
    """(seeds, n) outcomes of images that are right with these probabilities, on average."""
    if seeds == 1:
        return (rng.random((1, len(chance))) < chance).astype(np.float64)
    sharpness = (1 - _CORRELATION) / _CORRELATION
    inside = np.clip(chance, 1e-9, 1 - 1e-9)
    own = rng.beta(sharpness * inside, sharpness * (1 - inside))
    return (rng.random((seeds, len(chance))) < own).astype(np.float64)


def balanced(images: int, per_class: int) -> npt.NDArray[np.int64]:
    """Labels of classes of one size."""
    return np.repeat(np.arange(max(images // per_class, 1)), per_class)


def long_tailed(images: int) -> npt.NDArray[np.int64]:
    """Labels of classes whose sizes are inversely proportional to their rank."""
    classes = max(4, round(1.5 * math.sqrt(images)))
    sizes = 1 / np.arange(1, classes + 1)
    return np.repeat(np.arange(classes), np.maximum(np.round(images * sizes / sizes.sum()), 1).astype(int))


def class_accuracies(rng: np.random.Generator, accuracy: float, classes: int, harder: bool) -> FloatArray:
    """Accuracies of classes: sampled around a mean, or falling with the rank of the class."""
    if harder:
        return np.asarray(np.clip(accuracy + (1 - accuracy) * np.linspace(0.9, -0.9, classes), 0, 1))
    return rng.beta(_CLASS_SPREAD * accuracy, _CLASS_SPREAD * (1 - accuracy), classes)


def draw_accuracy(images: int, accuracy: float, seeds: int) -> Draw:
    chance = np.full(images, accuracy)
    return lambda rng: (stats.accuracy_interval(outcomes(rng, chance, seeds)), accuracy)


def draw_per_class(labels: npt.NDArray[np.int64], accuracy: float, seeds: int, harder: bool = False) -> Draw:
    def draw(rng: np.random.Generator) -> tuple[stats.Interval, float]:
        own = class_accuracies(rng, accuracy, labels.max() + 1, harder)
        return stats.per_class_interval(outcomes(rng, own[labels], seeds), labels), float(own.mean())

    return draw


def draw_harmonic(labels: npt.NDArray[np.int64], accuracy: float, seeds: int) -> Draw:
    """Unseen classes at a third of the accuracy of seen ones."""

    def draw(rng: np.random.Generator) -> tuple[stats.Interval, float]:
        parts, truths = [], []
        for level in (accuracy, accuracy / 3):
            own = class_accuracies(rng, level, labels.max() + 1, harder=False)
            parts.append(stats.per_class_interval(outcomes(rng, own[labels], seeds), labels))
            truths.append(own.mean())
        return stats.harmonic_mean_interval(*parts), float(2 * truths[0] * truths[1] / sum(truths))

    return draw


def draw_area(labels: npt.NDArray[np.int64], accuracy: float) -> Draw:
    """AUSUC where leads of seen and unseen images are normal, 1.5 apart; its expectation is exact."""
    apart = 0.5 * math.erfc(-1.5 / math.sqrt(2) / math.sqrt(2))

    def draw(rng: np.random.Generator) -> tuple[stats.Interval, float]:
        classes, truths, hits = labels.max() + 1, [], []
        for _ in range(2):
            own = class_accuracies(rng, accuracy, classes, harder=False)
            hits.append(rng.random(len(labels)) < own[labels])
            truths.append(own.mean())
        leads = np.concatenate([rng.normal(size=len(labels)), rng.normal(1.5, size=len(labels))])
        names = np.concatenate([labels, labels + classes])
        found = stats.seen_unseen_area_interval(leads, np.concatenate(hits), names, names >= classes)
        return found, float(truths[0] * truths[1] * apart)

    return draw


def draw_tasks(images: int, accuracy: float, seeds: int) -> Draw:
    """The mean over seven tasks of the median over seeds; accuracies of tasks vary around the mean."""

    def draw(rng: np.random.Generator) -> tuple[stats.Interval, float]:
        own = rng.beta(_CLASS_SPREAD * accuracy, _CLASS_SPREAD * (1 - accuracy), 7)
        runs = [outcomes(rng, np.full(images, a), seeds) for a in own]
        parts = [stats.accuracy_interval(stats.median_outcomes(run)) for run in runs]
        return stats.mean_of_intervals(parts), float(own.mean())

    return draw


def two_models(
    rng: np.random.Generator, images: int, pair: tuple[float, float], seeds: int
) -> tuple[FloatArray, FloatArray]:
    """Outcomes of two models that agree on most images: 80 % have one difficulty for both."""
    common, shared = rng.random(images), rng.random(images) < 0.8
    found = []
    for accuracy in pair:
        difficulty = np.where(shared, common, rng.random(images))
        again = np.where(
            rng.random((seeds, images)) < (0.7 if seeds > 1 else 1.0), difficulty, rng.random((seeds, images))
        )
        found.append((again < accuracy).astype(np.float64))
    return found[0], found[1]


def draw_difference(images: int, accuracy: float, seeds: int) -> Draw:
    """A difference of 5 points (of 2 at an accuracy of 99 %)."""
    gap = 0.02 if accuracy > 0.95 else 0.05

    def draw(rng: np.random.Generator) -> tuple[stats.Interval, float]:
        return stats.paired_difference(*two_models(rng, images, (accuracy, accuracy - gap), seeds)), gap

    return draw


def draw_precision(images: int, share: float, labels: int = 4, population: int = 200_000) -> Draw:
    """Mean average precision of labels of one share; the truth is that of a large sample."""
    rng = np.random.default_rng(7)
    truth = rng.random(population) < share
    scores = rng.normal(size=population) + 1.5 * truth
    order = np.argsort(-scores)
    hits = np.cumsum(truth[order])
    exact = float((hits / np.arange(1, population + 1))[truth[order]].mean())

    def draw(rng: np.random.Generator) -> tuple[stats.Interval, float]:
        wanted = rng.random((images, labels)) < share
        given = rng.normal(size=wanted.shape) + 1.5 * wanted
        return stats.mean_average_precision_interval(wanted, given), exact

    return draw


def draw_r_squared(images: int, value: float, heavy: bool) -> Draw:
    def draw(rng: np.random.Generator) -> tuple[stats.Interval, float]:
        predicted = rng.normal(size=images)
        noise = rng.standard_t(5, images) / math.sqrt(5 / 3) if heavy else rng.normal(size=images)
        return stats.r_squared_interval(predicted + noise * math.sqrt((1 - value) / value), predicted), value

    return draw


def draw_correlation(points: int, rho: float, kind: str) -> Draw:
    truth = {"pearson": rho, "spearman": 6 / np.pi * np.arcsin(rho / 2), "kendall": 2 / np.pi * np.arcsin(rho)}[kind]

    def draw(rng: np.random.Generator) -> tuple[stats.Interval, float]:
        x, y = rng.normal(size=(2, points))
        return stats.correlation_interval(x, rho * x + math.sqrt(1 - rho**2) * y, kind=kind), float(truth)  # type: ignore[arg-type]

    return draw


def draw_slope(points: int, uneven: bool) -> Draw:
    """Concepts without a trend: accuracies over 10 images each, of equal or of increasing variance."""

    def draw(rng: np.random.Generator) -> tuple[stats.Interval, float]:
        x = rng.beta(1, 4, points) if uneven else rng.random(points)
        y = rng.normal(size=points) * (0.2 + x) if uneven else rng.binomial(10, 0.85, points) / 10
        return stats.slope_interval(x, y), 0.0

    return draw


def draw_new_classes(classes: int, accuracy: float) -> Draw:
    """The mean over sampled classes, for a claim about new classes."""

    def draw(rng: np.random.Generator) -> tuple[stats.Interval, float]:
        own = class_accuracies(rng, accuracy, classes, harder=False)
        return stats.accuracy_interval(rng.binomial(20, own) / 20), accuracy

    return draw


# ---- tables ---------------------------------------------------------------------------------------------------------


@dataclass
class Report:
    """Rows of Markdown and what is outside of the limits."""

    repetitions: int
    problems: list[str]
    number: int = 0

    def covered(self, name: str, draw: Draw, reason: str) -> Coverage:
        self.number += 1
        found = coverage(draw, self.repetitions, self.number)
        if found.problem(reason):
            self.problems.append(f"{name}: covers {found.text} %")
        return found


def share_rows() -> Iterator[tuple[str, int, int, Callable[[float], Draw], Callable[[float], str]]]:
    """Name, images, seeds, what to draw by accuracy, and why the coverage may exceed 97 %."""

    def few(images: float) -> Callable[[float], str]:
        return lambda accuracy: FEW_ERRORS if images * min(accuracy, 1 - accuracy) < 10 else ""

    def differing(images: int) -> Callable[[float], str]:
        return lambda accuracy: FEW_DIFFERENT if images * 0.4 * accuracy * (1 - accuracy) < 10 else ""

    def either(first: Callable[[float], str], second: str) -> Callable[[float], str]:
        return lambda accuracy: first(accuracy) or second

    for seeds in SEEDS:
        for n in IMAGES:
            yield "accuracy", n, seeds, lambda a, n=n, s=seeds: draw_accuracy(n, a, s), few(n)
        for size in PER_CLASS:
            for n in (n for n in IMAGES if n >= 2 * size):
                labels = balanced(n, size)
                title = f"per-class accuracy, {size} images per class"
                why = either(few(n), FEW_PER_CLASS if size <= 5 else "")
                yield title, n, seeds, lambda a, y=labels, s=seeds: draw_per_class(y, a, s), why
        for n in IMAGES[1:]:
            labels = long_tailed(n)
            title = "per-class accuracy, long-tailed"
            yield title, n, seeds, lambda a, y=labels, s=seeds: draw_per_class(y, a, s, True), either(few(n), RARE)
        for n in IMAGES[1:]:
            labels = balanced(n, 5)
            title = "harmonic mean, 5 images per class"
            yield (
                title,
                n,
                seeds,
                lambda a, y=labels, s=seeds: draw_harmonic(y, a, s),
                either(few(n / 3), FEW_PER_CLASS),
            )
        for n in IMAGES:
            title = "paired difference of two models"
            yield title, n, seeds, lambda a, n=n, s=seeds: draw_difference(n, a, s), differing(n)
    for n in IMAGES[1:]:
        labels = balanced(n, 5)
        yield "AUSUC, 5 images per class", n, 1, lambda a, y=labels: draw_area(y, a), either(few(n), FEW_PER_CLASS)
    for n in IMAGES[:3]:
        yield (
            "mean over 7 tasks of the median of 3 seeds",
            n,
            3,
            lambda a, n=n: draw_tasks(n, a, 3),
            either(few(n), "the median of correlated seeds varies less than one seed"),
        )


def shares_table(report: Report) -> list[str]:
    """Coverage of statistics between 0 and 1."""
    lines = [
        "| interval over test images | images | seeds | 0.5 | 0.8 | 0.95 | 0.99 | why above 97 % |",
        "|---" * 8 + "|",
    ]
    for title, images, seeds, make, why in share_rows():
        found = [report.covered(f"{title}, {images}, {seeds}, {a}", make(a), why(a)) for a in ACCURACIES]
        reasons = dict.fromkeys(why(a) for a, c in zip(ACCURACIES, found, strict=True) if c.covered > MOST)
        cells = " | ".join(c.text for c in found)
        lines.append(f"| {title} | {images:,} | {seeds} | {cells} | {'; '.join(filter(None, reasons))} |")
        print(lines[-1], file=sys.stderr, flush=True)
    return lines


def other_rows() -> Iterator[tuple[str, str, str, Draw, str]]:
    """Statistic, data, points, what to draw, and why the coverage may exceed 97 %."""
    for n in (5, 10, 30, 100):
        for value, heavy in ((0.1, False), (0.9, False), (0.5, True)):
            data = f"R² {value}, {'heavy-tailed' if heavy else 'normal'} errors"
            yield "R²", data, f"{n} images", draw_r_squared(n, value, heavy), FEW_FREEDOM if n == 10 else ""
    for kind in ("pearson", "spearman", "kendall"):
        for n in (5, 10, 30, 100):
            for rho in (0.0, 0.8):
                why = "" if kind == "pearson" else TIES
                yield (
                    f"{kind.capitalize()}'s correlation",
                    f"normal, {rho}",
                    f"{n} points",
                    draw_correlation(n, rho, kind),
                    why,
                )
    for n in (30, 100, 300):
        for share in (0.1, 0.3):
            data = f"4 labels, {share:.0%} of the images each"
            yield "mean average precision", data, f"{n} images", draw_precision(n, share), ""
    for n in (12, 20, 39, 200):
        for uneven in (False, True):
            data = "no trend, " + ("skewed similarities, unequal variances" if uneven else "binomial accuracies")
            yield "slope (new concepts)", data, f"{n} concepts", draw_slope(n, uneven), ""
    for n in (10, 50):
        for accuracy in (0.5, 0.8):
            data = f"accuracy {accuracy}, 20 images per class"
            yield "mean over classes (new classes)", data, f"{n} classes", draw_new_classes(n, accuracy), FEW_CLASSES


def other_table(report: Report) -> list[str]:
    lines = ["| interval | simulated data | over | covers % | why above 97 %, or no interval |", "|---" * 5 + "|"]
    for title, data, points, draw, why in other_rows():
        found = report.covered(f"{title}, {data}, {points}", draw, why)
        note = why if found.shown and found.covered > MOST else ""
        if not found.shown:
            note = draw(np.random.default_rng(0))[0].reason
        lines.append(f"| {title} | {data} | {points} | {found.text} | {note} |")
        print(lines[-1], file=sys.stderr, flush=True)
    return lines


def significant(
    images: int, seeds: int, values: tuple[float, ...], repetitions: int, seed: int
) -> tuple[float, float, float]:
    """How often `decide` reports any significant pair, any single best candidate, and the first as the single best."""
    rng = np.random.default_rng(seed)
    counts = np.zeros(3)
    for _ in range(repetitions):
        common, shared = rng.random(images), rng.random(images) < 0.8
        given = {}
        for place, value in enumerate(values):
            own = np.where(shared, common, rng.random(images))
            again = np.where(
                rng.random((seeds, images)) < (0.7 if seeds > 1 else 1.0), own, rng.random((seeds, images))
            )
            given[str(place)] = again < value
        found = stats.decide(given)
        pairs = any(difference.significant for difference in found.pairs.values())
        counts += pairs, found.best is not None, found.best == "0"
    return tuple(float(count) for count in counts / repetitions)  # type: ignore[return-value]


def tests_table(report: Report) -> list[str]:
    """False positives among equal candidates, and the power to find one that is 5 points better."""
    lines = [
        "| candidates | images | seeds | accuracy | false positives % | a wrong single best % | power at +5 points % |"
    ]
    lines.append("|---" * 7 + "|")
    settings = [(2, n, s, a) for n in (30, 100, 1000) for s in SEEDS for a in (0.5, 0.8, 0.94)]
    settings += [(5, n, s, 0.8) for n in (100, 1000) for s in SEEDS]
    for candidates, images, seeds, accuracy in settings:
        report.number += 1
        count, equal = report.repetitions, (accuracy,) * candidates
        false, single, _ = significant(images, seeds, equal, count, report.number)
        better = (accuracy + 0.05, *equal[1:])
        *_, power = significant(images, seeds, better, count // 4, report.number + 10_000)
        slack = 0.0 if count >= 2000 else 2.5 * math.sqrt(0.05 * 0.95 / count)
        if max(false, single) > FALSE + slack:
            report.problems.append(f"{candidates} equal candidates, {images} images: {false:.1%} significant")
        numbers = f"{100 * false:.1f} | {100 * single:.1f} | {100 * power:.0f}"
        lines.append(f"| {candidates} | {images:,} | {seeds} | {accuracy} | {numbers} |")
        print(lines[-1], file=sys.stderr, flush=True)
    return lines


# ---- real features --------------------------------------------------------------------------------------------------


def real_population(task: str, folder: Path | None) -> tuple[FloatArray, FloatArray, npt.NDArray[np.int64]]:
    """(5, n) outcomes of a ridge probe on few training images, of one on projected features, and the labels."""
    from probe_sets import load

    data = load(task, "lite0", folder)
    features = np.concatenate([data.train, data.test]).astype(np.float64)
    features /= np.linalg.norm(features, axis=1, keepdims=True)
    labels = np.unique(np.concatenate([data.train_labels, data.test_labels]), return_inverse=True)[1]
    rng = np.random.default_rng(0)
    order = rng.permutation(len(labels))
    rest, test = order[: len(order) // 2], order[len(order) // 2 :]
    projected = features @ rng.normal(size=(features.shape[1], 48))
    right: list[list[FloatArray]] = [[], []]
    for seed in range(5):
        chosen = np.random.default_rng([1, seed]).choice(rest, len(rest) // 2, replace=False)
        targets = np.eye(labels.max() + 1)[labels[chosen]]
        for place, rows in enumerate((features, projected / np.linalg.norm(projected, axis=1, keepdims=True))):
            x = np.hstack([rows[chosen], np.ones((len(chosen), 1))])
            weights = x.T @ np.linalg.solve(x @ x.T + 0.1 * np.eye(len(x)), targets)
            said = (np.hstack([rows[test], np.ones((len(test), 1))]) @ weights).argmax(axis=1)
            right[place].append((said == labels[test]).astype(np.float64))
    return np.stack(right[0]), np.stack(right[1]), labels[test]


def real_table(report: Report, folder: Path | None) -> list[str]:
    """Coverage where outcomes are those of probes on real features."""
    lines = [
        "| real features | statistic | test images | seeds | true value % | covers % | why above 97 % |",
        "|---" * 7 + "|",
    ]
    for task, title in (("emoji", "emoji, EfficientNet-Lite0"), ("grocery", "groceries, EfficientNet-Lite0")):
        first, second, labels = real_population(task, folder)
        members = [np.flatnonzero(labels == c) for c in np.unique(labels)]
        for seeds in SEEDS:
            a, b = first[:seeds], second[:seeds]
            cells: list[tuple[str, int, float, Draw, str]] = []
            for n in IMAGES[:3]:

                def accuracy(rng: np.random.Generator, n: int = n, a: FloatArray = a) -> tuple[stats.Interval, float]:
                    return stats.accuracy_interval(a[:, rng.integers(a.shape[1], size=n)]), float(a.mean())

                def difference(
                    rng: np.random.Generator, n: int = n, a: FloatArray = a, b: FloatArray = b
                ) -> tuple[stats.Interval, float]:
                    rows = rng.integers(a.shape[1], size=n)
                    return stats.paired_difference(a[:, rows], b[:, rows]), float((a.mean(0) - b.mean(0)).mean())

                wrong = n * (1 - a.mean())
                cells.append(("accuracy", n, float(a.mean()), accuracy, FEW_ERRORS if wrong < 10 else ""))
                gap = float(a.mean() - b.mean())
                odd = n * float(np.abs(a - b).mean())
                cells.append(("paired difference", n, gap, difference, FEW_DIFFERENT if odd < 10 else ""))
            for size in PER_CLASS[:3]:
                truth = float(np.mean([a[:, rows].mean() for rows in members]))

                def per_class(
                    rng: np.random.Generator, size: int = size, a: FloatArray = a, truth: float = truth
                ) -> tuple[stats.Interval, float]:
                    rows = np.concatenate([rng.choice(own, size) for own in members])  # noqa: B023
                    return stats.per_class_interval(a[:, rows], labels[rows]), truth  # noqa: B023

                title_of = f"per-class accuracy, {size} images per class"
                cells.append((title_of, size * len(members), truth, per_class, FEW_PER_CLASS))
            for name, n, truth, draw, why in cells:
                found = report.covered(f"{title}, {name}, {n}, {seeds}", draw, why)
                note = why if found.covered > MOST else ""
                lines.append(f"| {title} | {name} | {n:,} | {seeds} | {100 * truth:.1f} | {found.text} | {note} |")
                print(lines[-1], file=sys.stderr, flush=True)
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=2000)
    parser.add_argument("--table", choices=("shares", "other", "tests", "real"))
    parser.add_argument("--home", type=Path, default=None, help="where features are stored")
    options = parser.parse_args()
    report = Report(options.repetitions, [])
    tables: dict[str, Callable[[], list[str]]] = {
        "shares": lambda: shares_table(report),
        "other": lambda: other_table(report),
        "tests": lambda: tests_table(report),
        "real": lambda: real_table(report, options.home),
    }
    for name, make in tables.items():
        if options.table in (None, name):
            print("\n".join(make()), end="\n\n", flush=True)
    for problem in report.problems:
        print(problem, file=sys.stderr)
    return 1 if report.problems else 0


if __name__ == "__main__":
    sys.exit(main())
