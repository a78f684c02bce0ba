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

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from torch import nn

from unseen.benchmarks.rank.details import RankDetails, RankParameters
from unseen.benchmarks.workbench import Workbench
from unseen.core.records import Cell, Result
from unseen.core.run_record import Dropped, RunRecord, split_record
from unseen.core.search_record import search_record
from unseen.data import Dataset, Split
from unseen.data.subset import hold_out
from unseen.finetuning.data import CACHE_BYTES
from unseen.finetuning.train import FinetuneOptions, FinetuneResult, finetune
from unseen.finetuning.views import TrainView
from unseen.ranking import finetune_flops
from unseen.ranking.cards import ScoreCard

#: Return the file with the training state of one run of a cell, from which an interrupted run resumes.
StateFile = Callable[..., Path]


def truth_result(cell: Cell, bench: Workbench, state: StateFile) -> Result:
    """Fine-tune with every setting, choose by validation accuracy, report test accuracy."""
    dataset = bench.dataset(cell.dataset)
    size = bench.backbone(cell.model).preprocessing.size
    train, validation, test = (_resized(s, size) for s in (*_held_out(dataset, cell), dataset.split("test")))
    lost = RunRecord()
    options = RankParameters.read(cell.parameters)
    seed, rates = options.seed, options.learning_rates
    how = FinetuneOptions(device=bench.how.device, start="probe", optimizer="adam")

    def trial(steps: int, rate: float, seed: int, head: nn.Linear | None) -> tuple[dict[str, Any], nn.Linear]:
        nonlocal lost
        run = state(steps, rate, seed)
        found = _train(cell, bench, train, test, steps, rate, run, seed, how, held_out=validation, head=head)
        lost = lost.merge(_record(dataset, {"train": train, "val": validation, "test": test}, found.dropped))
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

    alone, head = trial(0, rates[0], seed, None)  # the probe alone, which all others start from
    settings = product(options.steps, rates)
    sweep = [alone, *(trial(steps, rate, seed, head)[0] for steps, rate in settings)]
    best = max(sweep, key=lambda one: one["validation"])  # the first of equals, so the shortest
    seeds = range(seed + 1, seed + options.truth_seeds)
    # The probe does not depend on the seed.
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
        details=RankDetails(classes=classes, chance=1 / classes).to_dict(),
        record=lost.merge(search_record(sweep, _setting(best))),  # runs with other seeds are no candidates
    )


def _setting(trial: Mapping[str, Any]) -> dict[str, Any]:
    """Return the hyper-parameters of a candidate: without a step, no learning rate is used."""
    return {name: trial[name] for name in ("steps", "learning_rate") if trial["steps"] or name == "steps"}


def early_result(cell: Cell, bench: Workbench, dataset: Dataset, card: ScoreCard, state: StateFile) -> Result:
    """Return the validation accuracy after the few epochs of a score that trains the network."""
    train, validation = _held_out(dataset, cell)
    options = RankParameters.read(cell.parameters)
    batch, rate = options.batch_size, float(options.early_learning_rate or 0)
    steps = max(1, round(card.epochs * len(train) / batch))
    how = FinetuneOptions(device=bench.how.device)
    found = _train(cell, bench, train, validation, steps, rate, state(steps, rate), options.seed, how)
    flops = finetune_flops(float(bench.card(cell.model).flops or 0), steps * batch, 1.0)
    shown = [replace(one, split="val") if one.split == "test" else one for one in found.dropped]
    return Result(
        cell,
        metrics={"score": found.top1},
        seconds=found.seconds,
        details=RankDetails(
            terms=(float(found.top1),),
            gflops=flops / 1e9,
            images=len(train),
            dimensions=bench.card(cell.model).feature_dim,
            classes=len(bench.dataset(cell.dataset).class_names),
            flops=bench.card(cell.model).flops,
        ).to_dict(),
        record=_record(dataset, {"train": train, "val": validation}, shown),
    )


def _record(dataset: Dataset, images: Mapping[str, Split], lost: Sequence[Dropped]) -> RunRecord:
    """Return the record of a training; without a split "val", validation images are a part of "train"."""
    if "val" in dataset.splits:
        return split_record(images, lost)
    images = {name: dataset.split(name) for name in images if name != "val"}
    return split_record(images, [replace(one, split="train") if one.split == "val" else one for one in lost])


def _resized(split: Split, size: int) -> Split:
    """Return the split with images that are decoded and resized once instead of in every trial."""
    if len(split) * size * size * 3 > CACHE_BYTES:
        return split
    kept: dict[int, Image.Image] = {}

    def opened(i: int) -> Image.Image:
        if i not in kept:
            kept[i] = TrainView().base(split.open(i), size)
        return kept[i]

    return Split(split.names, split.labels, opened, fingerprint=split.fingerprint)


def _held_out(dataset: Dataset, cell: Cell) -> tuple[Split, Split]:
    return hold_out(dataset.split("train"), dataset.splits.get("val"), seed=RankParameters.read(cell.parameters).seed)


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
        batch_size=RankParameters.read(cell.parameters).batch_size,
        seed=seed,
        checkpoint=checkpoint,
        options=how,
        **more,
    )
