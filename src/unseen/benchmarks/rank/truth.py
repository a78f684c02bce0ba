"""Ground truth of NeuCRaB: what a checkpoint reaches on a task when it is fine-tuned, hyper-parameters swept.

Paper:      Li et al., "Ranking neural checkpoints" (NeuCRaB), section 2, Eq. (1), CVPR 2021 [P]
Implements: the evaluation procedure G: replace the head, fine-tune everything, sweep, accuracy on the test images; and
            early-stopped fine-tuning as a score (section 3.1). Training starts from a linear probe of the frozen
            features (Kumar et al., "Fine-tuning can distort pretrained features", ICLR 2022), and that probe, which is
            no step at all, is one of the settings and the start that an early stop leaves only for what is better than
            it by more than chance (`finetuning.train`). Adam: the head of a probe has large weights where features
            differ little, and steps of SGD in proportion to them lose the network
Differs:    [P] takes the best test accuracy of the sweep. Here a setting is chosen by validation images (the dataset's
            own, or a stratified fifth of the training images), and its test accuracy is reported, the mean of several
            seeds: test labels choose nothing. Early-stopped fine-tuning is scored on validation images, since a score
            must not touch test labels
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import product
from pathlib import Path

import numpy as np
from PIL import Image
from torch import nn

from unseen.benchmarks.rank.details import RankDetails, RankParameters
from unseen.benchmarks.rank.expected import packed
from unseen.benchmarks.workbench import Workbench
from unseen.core.identity import Values
from unseen.core.records import Cell, Result
from unseen.core.run_record import Dropped, RunRecord, search_record, split_record
from unseen.data import Dataset, Split
from unseen.data.subset import hold_out
from unseen.finetuning.data import CACHE_BYTES
from unseen.finetuning.train import FinetuneOptions, FinetuneResult, finetune
from unseen.finetuning.views import TrainView
from unseen.ranking.cards import ScoreCard, finetune_flops

#: Return the file with the training state of one run of a cell, from which an interrupted run resumes.
StateFile = Callable[..., Path]


def truth_result(cell: Cell, bench: Workbench, state: StateFile) -> Result:
    """Fine-tune with every setting, choose by validation accuracy, report test accuracy."""
    dataset, options = bench.dataset(cell.dataset), RankParameters.read(cell.parameters)
    size, classes = bench.backbone(cell.model).preprocessing.size, len(dataset.class_names)
    train, validation = hold_out(dataset.split("train"), dataset.splits.get("val"), seed=options.seed)
    images = {"train": train, "val": validation, "test": dataset.split("test")}
    resized = {name: _resized(split, size) for name, split in images.items()}
    rows: list[Values] = []
    lost: dict[Dropped, None] = {}

    def trial(steps: int, rate: float, seed: int, head: nn.Linear | None = None) -> FinetuneResult:
        found = finetune(
            bench.backbone(cell.model),
            resized["train"],
            resized["test"],
            held_out=resized["val"],
            classes=classes,
            steps=steps,
            learning_rate=rate,
            batch_size=options.batch_size,
            seed=seed,
            checkpoint=state(steps, rate, seed),
            head=head,
            options=FinetuneOptions(
                device=bench.how.device, start="probe", optimizer="adam", clip=0.0, backbone_rate=1.0
            ),
        )
        lost.update(dict.fromkeys(found.dropped))
        row = {"steps": steps, "learning_rate": rate, "seed": seed, "stopped_at": found.stopped_at}
        rows.append(row | {"validation": found.held_out, "test": found.top1, "seconds": found.seconds})
        return replace(found, module=found.head)  # the network is not needed any more

    settings = [(0, options.learning_rates[0]), *product(options.steps, options.learning_rates)]
    probe = trial(*settings[0], options.seed)  # all other trials start from it
    sweep = [probe, *(trial(steps, rate, options.seed, probe.head) for steps, rate in settings[1:])]
    candidates = list(rows)
    place = max(range(len(sweep)), key=lambda i: sweep[i].held_out)  # the first of equals, so the shortest
    (steps, rate), seeds = settings[place], range(options.seed + 1, options.seed + options.truth_seeds)
    best = [sweep[place], *(trial(steps, rate, seed, probe.head) for seed in seeds if steps)]  # a probe has no seeds
    wanted = images["test"].labels
    right = [np.where(each.predictions < 0, np.nan, each.predictions == wanted) for each in (probe, *best)]
    probe_outcomes, outcomes = (
        packed(each, np.arange(len(wanted)), len(wanted)) for each in (right[0], np.mean(right[1:], axis=0))
    )
    # Without a step, no learning rate is used; runs with other seeds are not candidates.
    search = search_record(candidates, {"steps": steps} | ({"learning_rate": rate} if steps else {}))
    return Result(
        cell,
        metrics={
            "top1": float(np.mean([each.top1 for each in best])),
            "validation": float(np.mean([each.held_out for each in best])),
            "probe_top1": probe.top1,
        },
        seconds=sum(row["seconds"] for row in rows),
        sweep=tuple(rows),
        details=RankDetails(
            classes=classes, chance=1 / classes, outcomes=outcomes, probe_outcomes=probe_outcomes
        ).to_dict(),
        record=_record(dataset, images, list(lost)).merge(search),
    )


def early_result(cell: Cell, bench: Workbench, dataset: Dataset, card: ScoreCard, state: StateFile) -> Result:
    """Return the validation accuracy after the few epochs of a score that trains the network."""
    options, model = RankParameters.read(cell.parameters), bench.card(cell.model)
    train, validation = hold_out(dataset.split("train"), dataset.splits.get("val"), seed=options.seed)
    steps, rate = max(1, round(card.epochs * len(train) / options.batch_size)), float(options.early_learning_rate or 0)
    classes = len(bench.dataset(cell.dataset).class_names)
    found = finetune(
        bench.backbone(cell.model),
        train,
        validation,
        classes=classes,
        steps=steps,
        learning_rate=rate,
        batch_size=options.batch_size,
        seed=options.seed,
        checkpoint=state(steps, rate),
        options=FinetuneOptions(device=bench.how.device),
    )
    lost = [replace(one, split="val") if one.split == "test" else one for one in found.dropped]
    details = RankDetails(
        gflops=finetune_flops(float(model.flops or 0), steps * options.batch_size, 1.0) / 1e9,
        images=len(train),
        dimensions=model.feature_dim,
        classes=classes,
        flops=model.flops,
    )
    return Result(
        cell,
        metrics={"score": found.top1},
        seconds=found.seconds,
        details=details.to_dict(),
        record=_record(dataset, {"train": train, "val": validation}, lost),
    )


def _record(dataset: Dataset, images: Mapping[str, Split], lost: Sequence[Dropped]) -> RunRecord:
    """Return the record of a training; without a split "val", validation images are a part of "train"."""
    if "val" in dataset.splits:
        return split_record(images, lost)
    images = {name: dataset.split(name) for name in images if name != "val"}
    return split_record(images, [replace(one, split="train") if one.split == "val" else one for one in lost])


def _resized(split: Split, size: int) -> Split:
    """Return the split with images that are decoded and resized once instead of in every trial."""

    @lru_cache(maxsize=CACHE_BYTES // (3 * size * size))
    def opened(i: int) -> Image.Image:
        return TrainView().base(split.open(i), size)

    return Split(split.names, split.labels, opened, fingerprint=split.fingerprint)
