"""Zero-shot methods beside loops over single images, in one run; and the whole grid of ESZSL.

The loops are what the papers' pseudo-code says and public re-implementations do: one image, one step, in numpy. Both
sides get the same images in CUB's size (7057 x 2048 features, 150 classes, 312 attributes), the same learning rate and
at most as many passes; compared are the seconds until the loop's loss is reached to 1 %, and the accuracy on unseen
classes. Both sides have the same number of threads: with one (the default) CPU time is compared, which a busy machine
does not stretch; with more the clock, since threads that wait for one another count as busy. Both are shown.
A second peer is the style of public re-implementations: a product per image and class, ALE's step for every class that
violates, SJE's projection standardised before its scores. Both sides make the same whole passes over images in AWA1's
size (256 dimensions, 40 classes, 85 attributes); compared is CPU time.
The grid of ESZSL is timed in AWA2's size: 49 pairs of exponents on three folds of classes.

    python bench/zsl.py [--quick] [--threads N] [--peer loop|public|both] [--methods ALE DEVISE SJE LATEM]
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

from tables import Table
from unseen.metrics import mean_per_class_accuracy
from unseen.zeroshot import ALE, DEVISE, ESZSL, LATEM, SJE
from unseen.zeroshot.problem import Fold, Images, Problem
from unseen.zeroshot.protocol import tune

#: In the first pass most images of a batch name the same class as the worst (89 % of 64, on 1,500 images). Many steps
#: forget that; with the few of --quick it costs 20 points on unseen classes, and batches of 16 lose nothing.
QUICK_BATCH = {"SJE": 16}
#: ALE's loss after a pass hangs on the size of a step in the fourth place only (64 to 256 images were tried).
BATCH = {"ALE": 256}
LEAST_SPEEDUP, MOST_LOSS, MOST_POINTS, MOST_SECONDS = 28.0, 1.01, 1.0, 20.0
RATES = {"ALE": 0.01, "DEVISE": 0.1, "SJE": 0.1, "LATEM": 0.1}
MAPS = 2
#: What is asked for against the style of public re-implementations, per pass.
LEAST_PUBLIC = {"ALE": 10.0, "DEVISE": 10.0, "SJE": 50.0}
PUBLIC_IMAGES, PUBLIC_PASSES = 4000, 3
RATIOS = Table("", "loop, s", "its loss", "ours, s", "passes", "our loss", "ratio by the clock", "by CPU time")


def make(n: int, d: int, classes: int, attributes: int, unseen: int, seed: int = 0) -> tuple[np.ndarray, ...]:
    """Features driven by attributes, rectified and of length 1, as pooled features are; a tenth of the labels is wrong,
    so that no loss ends at 0, where a hundredth of it would mean nothing."""
    rng = np.random.default_rng(seed)
    S = rng.random((classes + unseen, attributes)) ** 2
    S /= np.linalg.norm(S, axis=1, keepdims=True)
    told = (S - S.mean(0)) / S.std() @ rng.normal(size=(attributes, d)) / np.sqrt(attributes)
    means = told + 0.5 * rng.normal(size=told.shape)

    def draw(y: np.ndarray) -> np.ndarray:
        X = np.maximum(means[y] + 1.5 * rng.normal(size=(len(y), d)), 0)
        return (X / np.linalg.norm(X, axis=1, keepdims=True)).astype(np.float32)

    y, y_new = np.resize(np.arange(classes), n), np.resize(np.arange(classes, classes + unseen), max(20 * unseen, 500))
    X, X_new = draw(y), draw(y_new)
    wrong = rng.random(n) < 0.1
    y = np.where(wrong, rng.integers(0, classes, n), y)
    return X, y, S, X_new, y_new


def harmonic(k: int) -> float:
    return float((1 / np.arange(1, k + 1)).sum())


def loop_bilinear(kind: str, X: np.ndarray, y: np.ndarray, S: np.ndarray, epochs: int) -> np.ndarray:
    """ALE, DEVISE or SJE, one image at a time."""
    rng, rate = np.random.default_rng(1), RATES[kind]
    W = np.zeros((X.shape[1], S.shape[1]), X.dtype)
    classes = len(S)
    for _ in range(epochs):
        for i in rng.permutation(len(X)):
            x, right = X[i], y[i]
            scores = S @ (x @ W)
            weight, wrong = 0.0, -1
            if kind == "SJE":
                margins = scores + 1
                margins[right] = scores[right]
                wrong = int(margins.argmax())
                weight = float(wrong != right)
            else:
                draws = 0
                for c in rng.permutation(classes) if kind == "ALE" else range(classes):
                    if c == right:
                        continue
                    draws += 1
                    if 1 + scores[c] - scores[right] > 0:
                        wrong, weight = int(c), harmonic((classes - 1) // draws) if kind == "ALE" else 1.0
                        break
            if weight:
                W -= np.outer(rate * weight * x, S[wrong] - S[right])
    return W


def loop_public(kind: str, X: np.ndarray, y: np.ndarray, S: np.ndarray, epochs: int) -> np.ndarray:
    """Passes of ALE, DEVISE or SJE as public re-implementations write it: classes one by one, in columns."""
    from sklearn.preprocessing import scale

    columns, classes = np.ascontiguousarray(S.T), np.arange(len(S))
    weights = np.concatenate([[0.0], np.cumsum(1 / np.arange(1, len(S)))])
    rng = np.random.default_rng(1)
    W = rng.random((X.shape[1], len(columns)))
    W /= np.linalg.norm(W, axis=0)
    for i in np.concatenate([rng.permutation(len(X)) for _ in range(epochs)]):
        x, right = X[i], y[i]
        projected = np.dot(x, W)
        if kind == "SJE":
            projected = scale(projected)
        own = np.dot(projected, columns[:, right])
        margins = np.zeros(len(S))
        others = classes[classes != right]
        for place, c in enumerate(others):
            margins[c] = 1 + np.dot(projected, columns[:, c]) - own
            if kind != "SJE" and margins[c] > 0:
                step = weights[len(others) // (place + 1)] if kind == "ALE" else 1.0
                apart = columns[:, right] - columns[:, c]
                W += RATES[kind] * step * np.dot(x[:, None], apart[None, :])
                if kind == "DEVISE":
                    break
        if kind == "SJE" and (worst := int(np.argmax(margins))) != right:
            apart = columns[:, right] - columns[:, worst]
            W += RATES[kind] * np.dot(x[:, None], apart[None, :])
    return W


def compare_public(kind: str, data: tuple[np.ndarray, ...]) -> bool:
    """CPU seconds of the same whole passes on both sides."""
    X, y, S, *_ = data
    began = time.process_time()
    loop_public(kind, X.astype(np.float64), y, S[: int(y.max()) + 1], PUBLIC_PASSES)
    slow = time.process_time() - began
    method = {"ALE": ALE, "DEVISE": DEVISE, "SJE": SJE}[kind]
    began = time.process_time()
    method(learning_rate=RATES[kind], epochs=PUBLIC_PASSES).fit(X, y, S)
    quick = time.process_time() - began
    held = slow / quick >= LEAST_PUBLIC[kind]
    said = f"public style {slow:6.2f} s of CPU, ours {quick:6.3f} s"
    print(f"  {kind:7s} {said}  {slow / quick:6.1f}x, at least {LEAST_PUBLIC[kind]:.0f}{'' if held else '  MISSED'}")
    return held


def loop_latem(X: np.ndarray, y: np.ndarray, S: np.ndarray, epochs: int) -> np.ndarray:
    rng, rate = np.random.default_rng(1), RATES["LATEM"]
    W = (rng.standard_normal((MAPS, X.shape[1], S.shape[1])) / np.sqrt(X.shape[1])).astype(X.dtype)
    for _ in range(epochs):
        for i in rng.permutation(len(X)):
            x, right = X[i], y[i]
            wrong = (right + int(rng.integers(1, len(S)))) % len(S)
            projected = [x @ w for w in W]
            of_right, of_wrong = [p @ S[right] for p in projected], [p @ S[wrong] for p in projected]
            a, b = int(np.argmax(of_right)), int(np.argmax(of_wrong))
            if 1 + of_wrong[b] - of_right[a] > 0:
                if a == b:
                    W[a] -= np.outer(rate * x, S[wrong] - S[right])
                else:
                    W[b] -= np.outer(rate * x, S[wrong])
                    W[a] += np.outer(rate * x, S[right])
    return W


def loss(kind: str, method: Any, X: np.ndarray, y: np.ndarray, S: np.ndarray) -> float:
    """Return the mean over images of the loss that a method minimises."""
    scores = method.scores(X, S).astype(np.float64)
    own = np.arange(len(y)), y
    margins = 1 + scores - scores[own][:, None]
    margins[own] = 0
    hinges = np.maximum(margins, 0)
    if kind == "SJE":
        return float(hinges.max(1).mean())
    if kind == "ALE":
        ranks = (margins > 0).sum(1)
        weights = np.concatenate([[0.0], np.cumsum(1 / np.arange(1, len(S)))])[ranks] / np.maximum(ranks, 1)
        return float((weights * hinges.sum(1)).mean())
    return float(hinges.sum(1).mean()) / (len(S) - 1 if kind == "LATEM" else 1)


class Seconds(NamedTuple):
    cpu: float
    wall: float

    def __str__(self) -> str:
        return f"{self.cpu:6.2f} s of CPU, {self.wall:6.2f} s"


def timed(function: Callable[[], object]) -> tuple[Seconds, object]:
    """Seconds, and what came of it."""
    cpu, wall = time.process_time(), time.perf_counter()
    value = function()
    return Seconds(time.process_time() - cpu, time.perf_counter() - wall), value


def compare(kind: str, data: tuple[np.ndarray, ...], epochs: int, batch: int, *, by_clock: bool) -> bool:
    X, y, S, X_new, y_new = data
    seen = int(y.max()) + 1
    trained = S[:seen].astype(np.float32)
    makers: dict[str, Callable[[int], object]] = {
        "ALE": lambda e: ALE(learning_rate=RATES[kind], epochs=e, batch_size=batch),
        "DEVISE": lambda e: DEVISE(learning_rate=RATES[kind], epochs=e),
        "SJE": lambda e: SJE(learning_rate=RATES[kind], epochs=e, batch_size=batch),
        "LATEM": lambda e: LATEM(learning_rate=RATES[kind], epochs=e, maps=MAPS),
    }
    if kind == "LATEM":
        slow, learned = timed(lambda: loop_latem(X, y, trained, epochs))
    else:
        slow, learned = timed(lambda: loop_bilinear(kind, X, y, trained, epochs))
    method: Any = makers[kind](1).fit(X, y, S)
    method.W_ = learned
    theirs = loss(kind, method, X, y, trained), mean_per_class_accuracy(y_new, method.predict(X_new, S[seen:]) + seen)
    for passes in range(1, epochs + 1):  # until the loop's loss is reached; each try is a whole fit
        quick, method = timed(lambda passes=passes: makers[kind](passes).fit(X, y, S))
        ours = loss(kind, method, X, y, trained), mean_per_class_accuracy(y_new, method.predict(X_new, S[seen:]) + seen)
        if ours[0] <= MOST_LOSS * theirs[0]:
            break
    wanted = LEAST_SPEEDUP if len(X) > 5000 else LEAST_SPEEDUP / 6  # with --quick the fixed costs weigh
    by_cpu, by_wall = slow.cpu / quick.cpu, slow.wall / quick.wall
    ratio, lag = by_wall if by_clock else by_cpu, 100 * (theirs[1] - ours[1])
    held = ratio >= wanted and ours[0] <= MOST_LOSS * theirs[0] and lag <= MOST_POINTS
    said = f"loop {slow}, loss {theirs[0]:8.4f}, accuracy {100 * theirs[1]:5.1f} %"
    mine = f"ours {quick} ({passes} passes), loss {ours[0]:8.4f}, accuracy {100 * ours[1]:5.1f} %"
    times = f"{by_cpu:5.1f}x by CPU time, {by_wall:5.1f}x by the clock"
    print(f"  {kind:7s} {said} | {mine} | {times}{'' if held else '  MISSED'}", flush=True)
    shown = f"{slow.wall:.1f}", f"{theirs[0]:.4g}", f"{quick.wall:.2f}", passes, f"{ours[0]:.4g}"
    RATIOS.add(kind, *shown, f"{by_wall:.0f}x", f"{by_cpu:.0f}x")
    return held


def eszsl_grid(images: int, d: int) -> bool:
    """49 pairs on three folds of 27 training and 13 validation classes."""
    X, y, S, X_new, y_new = make(images, d, 40, 85, 10)
    rng = np.random.default_rng(0)
    folds = []
    for _ in range(3):
        order = rng.permutation(40)
        folds.append(Fold(np.sort(order[13:]), np.sort(order[:13])))
    names = [str(i) for i in range(50)]
    problem = Problem(Images(X, y), Images(X_new, y_new), Images(X[:40], np.arange(40)), S, names, folds)
    grid = [{"gamma": g, "lam": lam} for g in range(-3, 4) for lam in range(-3, 4)]
    taken, found = timed(lambda: tune(ESZSL(), problem, grid))
    held = taken.cpu < MOST_SECONDS
    best = max(trial["value"] for trial in found.trials)
    print(
        f"ESZSL, {len(grid)} pairs x 3 folds, {images} x {d}: {taken.cpu:.1f} s of CPU (at most {MOST_SECONDS:.0f}); "
        f"{best:.3f}"
    )
    return held


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a tenth of the images, half of the dimensions")
    parser.add_argument("--epochs", type=int, default=6, help="passes of the loop")
    parser.add_argument("--peer", default="both", choices=("loop", "public", "both"))
    parser.add_argument("--methods", nargs="*", default=list(RATES), choices=list(RATES))
    parser.add_argument("--threads", type=int, default=1, help="of linear algebra, on both sides")
    arguments = parser.parse_args()
    with threadpool_limits(arguments.threads, user_api="blas"):
        return measure(arguments)


def measure(arguments: argparse.Namespace) -> int:
    n, d = (1500, 1024) if arguments.quick else (7057, 2048)
    print(
        f"{n} x {d} features, 150 classes, 312 attributes, {arguments.epochs} passes; at least {LEAST_SPEEDUP:.0f}x, "
        f"loss within 1 %, accuracy within {MOST_POINTS:.0f} point"
    )
    held = []
    if arguments.peer != "public":
        data = make(n, d, 150, 312, 50)
        batches = QUICK_BATCH if arguments.quick else BATCH
        clock = arguments.threads > 1
        held += [compare(k, data, arguments.epochs, batches.get(k, 64), by_clock=clock) for k in arguments.methods]
        RATIOS.show()
        held.append(eszsl_grid(2400 if arguments.quick else 23527, d))
    if arguments.peer != "loop":
        print(f"{PUBLIC_IMAGES} x 256 features, 40 classes, 85 attributes, {PUBLIC_PASSES} passes")
        small = make(PUBLIC_IMAGES, 256, 40, 85, 10)
        held += [compare_public(kind, small) for kind in arguments.methods if kind in LEAST_PUBLIC]
    print("all targets held" if all(held) else "A TARGET WAS MISSED")
    return 0 if all(held) else 1


if __name__ == "__main__":
    sys.exit(main())
