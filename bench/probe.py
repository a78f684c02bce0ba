"""Probes side by side in one run: the ordinary loop, scikit-learn, `paper` and `logistic`.

    OMP_NUM_THREADS=1 python bench/probe.py                    a drawn set, groceries and emoji: an hour on one core
    OMP_NUM_THREADS=1 python bench/probe.py --trials 3         the same with a shorter search, seconds scaled up to it
    OMP_NUM_THREADS=1 python bench/probe.py --quick            a small drawn set, two seeds: a minute or two
    OMP_NUM_THREADS=1 python bench/probe.py --fits             beside LogisticRegressionCV, and five seeds beside one
    python bench/probe.py --data folder:PATH                   any dataset, by name
    python bench/probe.py --kept --docs docs/evidence/probes.md         write the tables of the last run that wrote any

Contenders get the same seeds and the same tuning, validation and final rows. "Ordinary" is the published protocol as
one would write it: an nn.Linear, optim.SGD, autograd, one trial after the other. Features of datasets are extracted
where the store does not have them yet, and that is not timed. Seconds are CPU time, which other work on the machine
moves less than wall time. Exits with 1 where a target is missed.
"""

from __future__ import annotations

import argparse
import json
import math
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import optuna
import torch
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV
from torch import Tensor, nn

from probe_sets import Figures, joined, keep_options, kept_figures, write_docs
from unseen.benchmarks.workbench import Workbench
from unseen.core.files import home
from unseen.metrics import over_seeds
from unseen.probes import SEEDS, Draw, Protocol, Settings, draw_rows, evaluate_probe

FloatArray = npt.NDArray[np.float32]
IntArray = npt.NDArray[np.int64]
STRENGTHS = np.logspace(-4, 4, 9)
DATASETS = ["packaged:grocery", "packaged:emoji?classes=200"]
MODELS = ["packaged:efficientnet-lite0"]
# Contender, beside whom, at least how many times faster, at least how many points more.
TARGETS = (
    ("logistic", "ordinary", 20.0, -math.inf),
    ("logistic", "paper", 0.0, 0.5),
    ("paper", "ordinary", 1.8, -0.3),
)
#: Trainings of the published protocol.
TRAININGS = 31
SEARCHED = ("paper", "ordinary")


class Features(NamedTuple):
    """One feature set with its labels."""

    name: str
    train: FloatArray
    train_labels: IntArray
    test: FloatArray
    test_labels: IntArray


class Timing(NamedTuple):
    """Seconds per seed, scaled to thirty trials, test accuracies in percent, and the trials that were run."""

    name: str
    seconds: float
    accuracies: list[float]
    trials: int = 0


def synthetic(images: int, dimensions: int, classes: int, tests: int, *, seed: int = 0) -> Features:
    """Rectified features with a power-law spectrum, classes in ten families, and images that show two classes.

    The spectrum is that of a convolutional network's pooled features, and classes differ most in its first directions.
    One image in five is a blend of two classes of a family, labelled with the heavier one. So no classifier is perfect,
    and longer training stops paying at some point.
    """
    generator = np.random.default_rng(seed)
    scale = (1.0 + np.arange(dimensions)) ** -0.65
    turn = np.linalg.qr(generator.standard_normal((dimensions, dimensions)))[0].astype(np.float32)
    families = generator.standard_normal((10, dimensions))
    own = generator.standard_normal((classes, dimensions))
    means = 1.25 * (families[np.arange(classes) % 10] + own) * scale * (1.0 + np.arange(dimensions)) ** -0.4
    offset = 0.5 * generator.standard_normal(dimensions) * scale

    def draw(count: int) -> tuple[FloatArray, IntArray]:
        labels = np.arange(count) % classes
        other = (labels + 10 * generator.integers(1, max(classes // 10, 2), count)) % classes
        share = np.where(generator.random(count) < 0.2, generator.uniform(0.35, 0.5, count), 0.0)[:, None]
        spread = np.exp(0.3 * generator.standard_normal((count, 1)))
        hidden = offset + (1 - share) * means[labels] + share * means[other]
        hidden += spread * scale * generator.standard_normal((count, dimensions))
        return np.maximum(hidden.astype(np.float32) @ turn, 0.0), labels

    return Features(f"synthetic {images} x {dimensions}, {classes} classes", *draw(images), *draw(tests))


def stored(model: str, name: str, bench: Workbench) -> Features:
    """Features of a dataset, its validation images among those to train on."""
    return Features(f"{name}, {model}", *joined(bench, model, name))


def unit(features: FloatArray) -> Tensor:
    """Rows of unit length."""
    return torch.nn.functional.normalize(torch.from_numpy(features))


def hits(scores: Tensor, labels: Tensor, top: int) -> float:
    """How many of the labels are among the highest scores."""
    return float((scores.topk(top, dim=1).indices == labels[:, None]).any(1).sum().item())


def ordinary_training(
    features: Tensor, labels: Tensor, held: Tensor, held_labels: Tensor, classes: int, lr: float, wd: float, epochs: int
) -> float:
    """One training as one would write it; the accuracy on held-out rows after the last epoch, in percent.

    Loss, top-1 and top-5 are kept per batch, and for the held-out rows per epoch, as the published script keeps them.
    """
    model = nn.Linear(features.shape[1], classes)
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9, weight_decay=wd)
    criterion = nn.CrossEntropyLoss()
    batch, log = min(1024, len(labels)), list[tuple[float, ...]]()
    for epoch in range(epochs):
        running, finite = [0.0, 0.0, 0.0], True
        for chosen in torch.randperm(len(labels)).split(batch):
            output, wanted = model(features[chosen]), labels[chosen]
            loss = criterion(output, wanted)
            if not torch.isfinite(loss):
                finite = False
                break
            running[0] += loss.item() * len(chosen)
            running[1] += hits(output, wanted, 1)
            running[2] += hits(output, wanted, min(5, classes))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        found = [0.0, 0.0, 0.0]
        with torch.no_grad():
            for rows, wanted in zip(held.split(batch), held_labels.split(batch), strict=True):
                output = model(rows)
                found[0] += criterion(output, wanted).item() * len(rows)
                found[1] += hits(output, wanted, 1)
                found[2] += hits(output, wanted, min(5, classes))
        log.append((*(value / len(labels) for value in running), *(value / len(held) for value in found)))
        for group in optimizer.param_groups:
            group["lr"] = lr * 0.5 * (1.0 + math.cos(math.pi * epoch / epochs))
        if not finite:
            break
    return 100.0 * log[-1][4]


def ordinary(data: Features, draw: Draw, protocol: Protocol) -> float:
    """The published search and final fit, the ordinary way."""
    torch.manual_seed(draw.seed)
    train, test = unit(data.train), unit(data.test)
    labels, test_labels = torch.from_numpy(data.train_labels), torch.from_numpy(data.test_labels)
    classes = int(labels.max()) + 1
    tuning, held, final = (torch.from_numpy(rows) for rows in (draw.tuning, draw.validation, draw.final))
    parts = (train[tuning], labels[tuning], train[held], labels[held])

    def objective(trial: optuna.Trial) -> float:
        lr = trial.suggest_float("lr", 1e-1, 1e2, log=True)
        wd = trial.suggest_float("wd", 1e-12, 1e-4, log=True)
        return ordinary_training(*parts, classes, lr, wd, protocol.epochs)

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    sampler = optuna.samplers.TPESampler(multivariate=True, seed=draw.seed)
    study = optuna.create_study(sampler=sampler, direction="maximize")
    study.optimize(objective, n_trials=protocol.trials)
    best = study.best_params
    return ordinary_training(
        train[final], labels[final], test, test_labels, classes, best["lr"], best["wd"], protocol.epochs
    )


def scikit_learn(data: Features, draw: Draw, protocol: Protocol) -> float:
    """LogisticRegression over nine values of C on the same rows, then on all of them."""
    train, test = unit(data.train).numpy(), unit(data.test).numpy()
    labels = data.train_labels
    scores = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        for strength in STRENGTHS:
            model = LogisticRegression(C=strength, max_iter=1000).fit(train[draw.tuning], labels[draw.tuning])
            scores.append(model.score(train[draw.validation], labels[draw.validation]))
        model = LogisticRegression(C=STRENGTHS[int(np.argmax(scores))], max_iter=1000)
        model.fit(train[draw.final], labels[draw.final])
    return 100.0 * float(model.score(test, data.test_labels))


def time_reference(
    name: str, run: Callable[[Features, Draw, Protocol], float], data: Features, seeds: tuple[int, ...], p: Protocol
) -> Timing:
    """One seed after the other, as a script would."""
    began = time.process_time()
    found = [run(data, draw_rows(data.train_labels, seed=seed)[0], p) for seed in seeds]
    return Timing(name, (time.process_time() - began) / len(seeds), found)


def time_ours(solver: str, data: Features, seeds: tuple[int, ...], protocol: Protocol) -> Timing:
    """All seeds in one call."""
    began = time.process_time()
    found = evaluate_probe(
        data.train,
        data.train_labels,
        data.test,
        data.test_labels,
        solver=solver,  # type: ignore[arg-type]
        seeds=seeds,
        settings=Settings(protocol=protocol),
    )
    return Timing(solver, (time.process_time() - began) / len(seeds), [100 * record.top1 for record in found])


def few_shot(classes: int = 200, shots: int = 5, dimensions: int = 768, *, seed: int = 0) -> Features:
    """Five rectified rows per class around a random mean, and ten to test."""
    generator = np.random.default_rng(seed)
    means = 0.24 * generator.standard_normal((classes, dimensions))

    def sample(count: int) -> tuple[FloatArray, IntArray]:
        labels = np.repeat(np.arange(classes), count)
        rows = means[labels] + generator.standard_normal((len(labels), dimensions))
        return np.maximum(rows, 0.0).astype(np.float32), labels

    return Features(f"few-shot {classes} x {shots} x {dimensions}", *sample(shots), *sample(10))


def compare_fits(data: Features, *, whole_search: bool = True) -> bool:
    """Compare one seed of `logistic` with scikit-learn and five seeds with one; return whether the targets hold.

    Args:
        whole_search: compare with LogisticRegressionCV (10 penalties, 5 folds); else with one LogisticRegression.
    """
    one, five = (time_ours("logistic", data, SEEDS[:count], Protocol()) for count in (1, 5))
    train, test = unit(data.train).numpy(), unit(data.test).numpy()
    began = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if whole_search:
            model = LogisticRegressionCV(Cs=10, cv=5, tol=1e-4, max_iter=400).fit(train, data.train_labels)
        else:
            model = LogisticRegression(C=100, tol=1e-4, max_iter=400).fit(train, data.train_labels)
    taken = time.process_time() - began
    accuracy = 100.0 * float(np.mean(model.predict(test) == data.test_labels))
    speed, seeds = taken / one.seconds, 5 * five.seconds / one.seconds
    name, wanted = ("LogisticRegressionCV", 8.0) if whole_search else ("one LogisticRegression", 0.0)
    print(
        f"{data.name}: logistic {one.seconds:.2f} CPU s, {one.accuracies[0]:.1f} %; {name} {taken:.2f} CPU s,", end=" "
    )
    print(
        f"{accuracy:.1f} %: {speed:.1f}x (at least {wanted:g}x); five seeds {seeds:.1f}x one seed (at most 2x)",
        flush=True,
    )
    return speed >= wanted and seeds <= 2 and one.accuracies[0] >= accuracy


def peak_gemm() -> float:
    """The best of several large float32 matrix products, in GFLOP/s."""
    left, right = torch.randn(2048, 2048), torch.randn(2048, 2048)
    best = math.inf
    for _ in range(12):
        began = time.process_time()
        left @ right
        best = min(best, time.process_time() - began)
    return 2 * 2048**3 / best / 1e9


def useful_gflop(data: Features, seed: int, protocol: Protocol) -> float:
    """Matrix products that one run of the protocol cannot do without: forward and backward of every batch."""
    draw = draw_rows(data.train_labels, seed=seed)[0]
    per_row = 4 * data.train.shape[1] * len(np.unique(data.train_labels))
    rows = protocol.epochs * (protocol.trials * len(draw.tuning) + len(draw.final))
    return rows * per_row / 1e9


def compare(data: Features, seeds: tuple[int, ...], protocol: Protocol, skip: list[str]) -> dict[str, Timing]:
    """Time all contenders on one set, and print them beside one another."""
    classes = len(np.unique(data.train_labels))
    sizes = f"{len(data.train)} x {data.train.shape[1]} train, {len(data.test)} test, {classes} classes"
    print(f"\n{data.name}: {sizes}, {len(seeds)} seeds", flush=True)
    contenders: dict[str, Callable[[], Timing]] = {
        "logistic": lambda: time_ours("logistic", data, seeds, protocol),
        "paper": lambda: time_ours("paper", data, seeds, protocol),
        "scikit-learn": lambda: time_reference("scikit-learn", scikit_learn, data, seeds, protocol),
        "ordinary": lambda: time_reference("ordinary", ordinary, data, seeds, protocol),
    }
    found: dict[str, Timing] = {}
    for name, run in contenders.items():
        if name not in skip:
            timing = run()
            scale = TRAININGS / (protocol.trials + 1) if name in SEARCHED else 1.0
            found[name] = timing._replace(seconds=scale * timing.seconds, trials=protocol.trials)
            print(f"  ran {name}: {found[name].seconds:.2f} s per seed", flush=True)
    print(f"  {'':14}{'s / seed':>10}{'test %':>9}{'std':>7}{'vs ordinary':>13}{'vs sklearn':>12}{'points':>9}")
    for name, timing in found.items():
        summary = over_seeds(timing.accuracies)
        line = f"  {name:14}{timing.seconds:10.2f}{summary.mean:9.2f}{summary.std:7.2f}"
        line += f"{found['ordinary'].seconds / timing.seconds:12.1f}x" if "ordinary" in found else f"{'-':>13}"
        line += f"{found['scikit-learn'].seconds / timing.seconds:11.1f}x" if "scikit-learn" in found else f"{'-':>12}"
        if "ordinary" in found:
            line += f"{summary.mean - over_seeds(found['ordinary'].accuracies).mean:+9.2f}"
        print(line)
    if "paper" in found:
        speed = useful_gflop(data, seeds[0], Protocol(trials=TRAININGS - 1)) / found["paper"].seconds
        print(f"  paper: {speed:.0f} GFLOP/s of useful products; peak of this machine now: {peak_gemm():.0f} GFLOP/s")
    return found


def table(title: str, found: dict[str, Timing]) -> list[str]:
    """The same as lines of Markdown."""
    lines = [f"| {title} | seeds | trials | CPU s per seed | test % | ordinary takes |", "|---|---|---|---|---|---|"]
    for name, timing in found.items():
        times = f"{found['ordinary'].seconds / timing.seconds:.1f}x" if "ordinary" in found else "-"
        searched = name in SEARCHED and timing.trials
        trials = timing.trials if searched else "-"
        lines.append(
            f"| {name} | {len(timing.accuracies)} | {trials} | {timing.seconds:.1f} | {np.mean(timing.accuracies):.2f} "
            f"| {times} |"
        )
    return [*lines, ""]


def check(found: dict[str, Timing], name: str, other: str, times: float, points: float) -> bool:
    """Whether one contender is as fast and as right as it should be, beside another.

    A small test set cannot tell 0.3 points apart. So a contender may also fall short of its points by no more than
    twice the standard error of the mean difference over the seeds, which is printed.
    """
    if not {name, other} <= found.keys():
        return True
    ratio = found[other].seconds / found[name].seconds
    if any(one in SEARCHED and found[one].trials < TRAININGS - 1 for one in (name, other)):
        points = -math.inf  # a shorter search says nothing of accuracy
    both = zip(found[name].accuracies, found[other].accuracies, strict=False)  # of the first seeds, as many as both ran
    apart = over_seeds([one - two for one, two in both])
    noise = 2 * apart.standard_error if len(found[name].accuracies) > 1 else 0.0
    met = ratio >= times and apart.mean >= points - noise
    wanted = f"at least {times:g}x" + (f", {points:+} points or more" if math.isfinite(points) else "")
    said = f"{ratio:.1f}x, {apart.mean:+.2f} points (noise of the seeds: {noise:.2f})"
    print(f"  {'met' if met else 'MISSED'}: {name} against {other}, {wanted}: {said}", flush=True)
    return met


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a small synthetic set, two seeds, twelve trials")
    parser.add_argument("--data", nargs="*", help="datasets by name, such as folder:PATH; default: groceries and emoji")
    parser.add_argument("--models", nargs="+", default=MODELS, help="models by name")
    parser.add_argument("--no-synthetic", action="store_true", help="leave the synthetic set out")
    parser.add_argument("--trials", type=int, default=TRAININGS - 1, help="of the search; seconds are scaled to 30")
    parser.add_argument("--home", type=Path, default=None, help="where features are kept")
    parser.add_argument("--seeds", type=int, default=len(SEEDS), help="how many of the published seeds")
    parser.add_argument("--fits", action="store_true", help="compare single fits with LogisticRegressionCV instead")
    keep_options(parser, __file__)
    parser.add_argument("--skip", nargs="*", default=[], help="contenders to leave out")
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.fits:
        bench = Workbench(home(options.home))
        real = [stored(options.models[0], name, bench) for name in options.data or DATASETS[:1]]
        held = [
            *map(compare_fits, (*real, few_shot())),
            compare_fits(synthetic(20_000, 1024, 100, 5000), whole_search=False),
        ]
        raise SystemExit(0 if all(held) else 1)
    figures = kept_figures(options, lambda: measure(options))
    found = {name: {one: Timing(**known) for one, known in own.items()} for name, own in figures.items()}
    if options.docs:
        write_docs(options.docs, "protocol", [line for name, own in found.items() for line in table(name, own)])
    met = [check(own, *target) for own in found.values() for target in TARGETS]
    raise SystemExit(0 if all(met) else 1)


def measure(options: argparse.Namespace) -> Figures:
    """Timings by set and contender; those of earlier runs stay where a run leaves contenders out for a page."""
    protocol = Protocol(trials=12 if options.quick else options.trials)
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads, peak GEMM {peak_gemm():.0f} GFLOP/s")
    names = options.data if options.data is not None else [] if options.quick else DATASETS
    bench = Workbench(home(options.home))
    sets = [stored(model, name, bench) for name in names for model in options.models]
    if not options.no_synthetic:
        sets.append(synthetic(2400, 512, 40, 2000) if options.quick else synthetic(6000, 1280, 100, 5000))
    figures: Figures = json.loads(options.save.read_text()) if options.docs and options.save.exists() else {}
    seeds = SEEDS[: 2 if options.quick else options.seeds]
    for data in sets:
        found = compare(data, seeds, protocol, options.skip)
        figures.setdefault(data.name, {}).update({name: timing._asdict() for name, timing in found.items()})
    return figures


if __name__ == "__main__":
    main()
