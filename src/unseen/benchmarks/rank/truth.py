"""Ground truth of NeuCRaB: what a checkpoint reaches on a task when it is fine-tuned, hyper-parameters swept.

Paper:      Li et al., "Ranking neural checkpoints" (NeuCRaB), section 2, Eq. (1), CVPR 2021 [P]
Implements: the evaluation procedure G: replace the head, fine-tune everything, sweep, accuracy on the test images; and
            early-stopped fine-tuning as a score (section 3.1). Training starts from a linear probe of the frozen
            features (Kumar et al., "Fine-tuning can distort pretrained features", ICLR 2022), and that probe, which is
            no step at all, is one of the settings and the start that an early stop leaves only for what is better than
            it by more than chance (`finetuning.early_stop`). Adam: the head of a probe has large weights where features
            differ little, and steps of SGD in proportion to them lose the network
Differs:    [P] takes the best test accuracy of the sweep. Here a setting is chosen by validation images (the dataset's
            own, or a stratified fifth of the training images), and its test accuracy is reported, the mean of several
            seeds: test labels choose nothing. Early-stopped fine-tuning is scored on validation images, since a score
            must not touch test labels
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from torch import nn

from unseen.benchmarks.rank.candidates import CheckpointRanking
from unseen.benchmarks.workbench import Workbench
from unseen.core.records import Cell, Result
from unseen.data import Dataset, Split
from unseen.data.subset import hold_out
from unseen.finetuning.feeding import CACHE_BYTES
from unseen.finetuning.train import FinetuneOptions, FinetuneResult, finetune
from unseen.finetuning.views import TrainView
from unseen.ranking import finetune_flops
from unseen.ranking.cards import ScoreCard

#: The file that keeps the state of one run of a cell, so that a killed one goes on where it was.
StateFile = Callable[..., Path]


def truth_result(cell: Cell, bench: Workbench, state: StateFile) -> Result:
    """Fine-tune with every setting, choose by validation accuracy, report test accuracy."""
    dataset = bench.dataset(cell.dataset)
    size = bench.backbone(cell.model).preprocessing.size
    train, validation, test = (_resized(s, size) for s in (*_held_out(dataset, cell), dataset.split("test")))
    skipped: dict[str, str] = {}
    seed = int(cell.parameters["seed"])
    how = FinetuneOptions(device=bench.how.device, start="probe", optimizer="adam")

    def trial(steps: int, rate: float, seed: int, head: nn.Linear | None) -> tuple[dict[str, Any], nn.Linear]:
        run = state(steps, rate, seed)
        found = _train(cell, bench, train, test, steps, rate, run, seed, how, held_out=validation, head=head)
        skipped.update(_skipped(found, train, test))
        told = {
            "steps": steps,
            "learning_rate": rate,
            "seed": seed,
            "stopped_at": found.stopped_at,
            "validation": found.held_out,
            "test": found.top1,
            "seconds": found.seconds,
        }
        return told, found.head

    rates = cell.parameters["learning_rates"]
    alone, head = trial(0, rates[0], seed, None)  # the probe alone, which all others start from
    settings = product(cell.parameters["steps"], rates)
    sweep = [alone, *(trial(steps, rate, seed, head)[0] for steps, rate in settings)]
    best = max(sweep, key=lambda one: one["validation"])  # the first of equals, so the shortest
    seeds = range(seed + 1, seed + int(cell.parameters["truth_seeds"]))
    # Chance has no part in the probe: there is nothing to train again.
    again = [trial(best["steps"], best["learning_rate"], other, head)[0] for other in seeds] if best["steps"] else []
    classes = len(dataset.class_names)
    return Result(
        cell,
        metrics={
            "top1": float(np.mean([one["test"] for one in [best, *again]])),
            "validation": float(np.mean([one["validation"] for one in [best, *again]])),
            "probe_top1": sweep[0]["test"],
        },
        seconds=sum(one["seconds"] for one in [*sweep, *again]),
        sweep=(*sweep, *again),
        details={"classes": classes, "chance": 1 / classes, **({"skipped": skipped} if skipped else {})},
    )


def early_result(cell: Cell, bench: Workbench, dataset: Dataset, card: ScoreCard, state: StateFile) -> Result:
    """Validation accuracy after the few epochs of a score that trains the network itself."""
    train, validation = _held_out(dataset, cell)
    batch = int(cell.parameters["batch_size"])
    steps = max(1, round(card.epochs * len(train) / batch))
    rate = float(cell.parameters["early_learning_rate"])
    how = FinetuneOptions(device=bench.how.device)
    seed = int(cell.parameters["seed"])
    found = _train(cell, bench, train, validation, steps, rate, state(steps, rate), seed, how)
    flops = finetune_flops(float(bench.card(cell.model).flops or 0), steps * batch, 1.0)
    skipped = _skipped(found, train, validation)
    return Result(
        cell,
        metrics={"score": found.top1},
        seconds=found.seconds,
        details={
            "terms": [found.top1],
            "gflops": flops / 1e9,
            **_sizes(cell, bench, train),
            **({"skipped": skipped} if skipped else {}),
        },
    )


def _sizes(cell: Cell, bench: Workbench, train: Split) -> dict[str, Any]:
    """What the paper's count of operations is made from."""
    card = bench.card(cell.model)
    classes = len(bench.dataset(cell.dataset).class_names)
    return {"images": len(train), "dimensions": card.feature_dim, "classes": classes, "flops": card.flops}


def _resized(split: Split, size: int) -> Split:
    """The split with images that are decoded and resized, as training shows them, once instead of in every trial."""
    if len(split) * size * size * 3 > CACHE_BYTES:
        return split
    kept: dict[int, Image.Image] = {}

    def opened(i: int) -> Image.Image:
        if i not in kept:
            kept[i] = TrainView().base(split.open(i), size)
        return kept[i]

    return Split(split.names, split.labels, opened, fingerprint=split.fingerprint)


def _held_out(dataset: Dataset, cell: Cell) -> tuple[Split, Split]:
    return hold_out(dataset.split("train"), dataset.splits.get("val"), seed=int(cell.parameters["seed"]))


def _train(
    cell: Cell,
    bench: Workbench,
    train: Split,
    shown: Split,
    steps: int,
    rate: float,
    checkpoint: Path,
    seed: int,
    how: FinetuneOptions,
    **more: Any,
) -> FinetuneResult:
    return finetune(
        bench.backbone(cell.model),
        train,
        shown,
        classes=len(bench.dataset(cell.dataset).class_names),
        steps=steps,
        learning_rate=rate,
        batch_size=int(cell.parameters["batch_size"]),
        seed=seed,
        checkpoint=checkpoint,
        options=how,
        **more,
    )


def _skipped(found: FinetuneResult, train: Split, shown: Split) -> dict[str, str]:
    """Images that could not be read, by name: the trainer knows them by their place."""
    names = {"train": train.names, "test": shown.names}
    places = ((*place.split(":"), reason) for place, reason in found.skipped.items())
    return {names[part][int(number)]: reason for part, number, reason in places}


def with_truth(ranking: CheckpointRanking, results: Iterable[Result]) -> CheckpointRanking:
    """The ranking with what fine-tuning some of its candidates reached, and whether that confirms the first of them."""
    found = {result.cell.model: result for result in results}
    reached = {model: result.metrics["top1"] for model, result in found.items() if result.ok}
    candidates = tuple(replace(c, finetuned=reached.get(c.model, math.nan)) for c in ranking.candidates)
    notes = [f"fine-tuning {model} failed: {result.error}" for model, result in found.items() if not result.ok]
    if not reached:
        return replace(ranking, candidates=candidates, notes=(*ranking.notes, *notes))
    best = max(reached, key=lambda model: reached[model])
    listing = ", ".join(f"{model} {100 * value:.1f} %" for model, value in reached.items())
    chosen = ranking.choice.model if ranking.choice is not None else ""
    verdict = "which confirms it" if best == chosen else f"so that {best} is the better choice"
    said = f" Fine-tuned on the training images and tested: {listing}; {verdict}."
    choice = next(c for c in candidates if c.model == best)
    text = ranking.recommendation + said
    return replace(ranking, candidates=candidates, choice=choice, recommendation=text, notes=(*ranking.notes, *notes))
