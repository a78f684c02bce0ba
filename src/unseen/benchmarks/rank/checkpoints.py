"""Which checkpoint should I fine-tune? A labelled set, a list of checkpoints, an order with its confidence.

    images ─► features (from the store when there) ─► scores, on all images and on half-samples ─► mean ranks ─► answer

A checkpoint that cannot be loaded, or whose features cannot be scored, does not stop the others: it is in the answer
with its reason.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import numpy.typing as npt

from unseen.backbones import ModelName
from unseen.benchmarks.rank.combine import Combined, combine, recommend
from unseen.benchmarks.rank.protocol import softmax
from unseen.benchmarks.rank.records import Candidate, CheckpointRanking
from unseen.benchmarks.rank.scores import ScoreCache, ScoreRecord, half_samples, score_candidate
from unseen.benchmarks.workbench import Workbench
from unseen.core.errors import DataError, DiskFullError, UnseenError, UsageError
from unseen.core.files import home as home_folder
from unseen.core.identity import digest
from unseen.data import Dataset, load_dataset
from unseen.data.subset import select
from unseen.features import Extraction, Progress, extract
from unseen.ranking.cards import ScoreCard, find_score

#: What the tool ranks by where nobody says otherwise; docs/rank.md has the experiment behind the choice.
DEFAULT_SCORES = ("nleep", "logme", "gbc")
RESAMPLES = 40
#: Images that a budget's rate is measured on, and the share of it that scoring may take.
_RATE_IMAGES = 48
_SCORING_SHARE = 0.3


def rank_checkpoints(
    data: str | Dataset,
    models: Sequence[str],
    *,
    scores: Sequence[str] = DEFAULT_SCORES,
    top: int = 1,
    layers: Sequence[str] = ("pooled",),
    split: str = "train",
    budget: float | None = None,
    resamples: int = RESAMPLES,
    seed: int = 0,
    home: Path | str | None = None,
    how: Extraction | None = None,
    progress: Progress | None = None,
) -> CheckpointRanking:
    """Rank checkpoints for a labelled set, best first.

    Args:
        data: a dataset, or its name, such as "folder:photos".
        models: names of checkpoints; one that stands twice is taken once.
        scores: ids of `unseen ls scores` that work on features.
        top: how many checkpoints the recommendation names.
        layers: layers to score; each (checkpoint, layer) is a candidate, extracted in one pass per checkpoint.
        split: whose images are scored.
        budget: seconds for the whole; images are subsampled, by class, to fit.
        resamples: half-samples behind the confidence.
        seed: of subsamples and of scores that draw.
        home: where features and scores are kept.
        how: settings of the extraction.
        progress: told of extractions.

    Raises:
        UsageError: no model, an unknown score, or one that needs training.
        DataError: fewer than two classes, or no more images than classes.
    """
    began = perf_counter()
    cards = _cards(scores)
    names, notes = _distinct(models)
    dataset = load_dataset(data) if isinstance(data, str) else data
    _check(dataset, split)
    bench = Workbench(home_folder(home), how=how, progress=progress)
    total = len(dataset.split(split))
    if budget is not None:
        dataset, said = _within(budget, began, bench, dataset, split, names, layers)
        notes += said
    scored = [
        pair for name in names for pair in _score_model(bench, name, dataset, split, layers, cards, resamples, seed)
    ]
    combined = combine([record for _, record in scored if record is not None], [card.id for card in cards])
    ordered = _ordered([candidate for candidate, record in scored if record is not None], combined)
    resampled = len(combined.draws)
    return CheckpointRanking(
        dataset=dataset.id,
        candidates=(*ordered, *(candidate for candidate, record in scored if record is None)),
        scores=tuple(card.id for card in cards),
        counted=combined.counted,
        images=len(dataset.split(split)),
        total=total,
        classes=len(np.unique(dataset.split(split).labels)),
        resamples=resampled,
        seconds=perf_counter() - began,
        recommendation=recommend(ordered, combined.counted, resampled, top),
        notes=(*notes, *combined.notes),
    )


def _cards(scores: Sequence[str]) -> list[ScoreCard]:
    cards = [find_score(name) for name in dict.fromkeys(scores)]
    if not cards:
        raise UsageError("rank by at least one score, such as nleep. List them with: unseen ls scores.")
    for card in cards:
        if card.needs_training:
            raise UsageError(
                f"{card.id} trains every checkpoint, which ranking is there to avoid. Choose scores that work on "
                "features; unseen ls scores lists them."
            )
    return cards


def _check(dataset: Dataset, split: str) -> None:
    labels = dataset.split(split).labels
    classes = len(np.unique(labels))
    if classes < 2:
        raise DataError(
            f"{dataset.id!r}, split {split!r}: {len(labels)} images, {classes} class found; ranking needs at least "
            "two classes. Put the images of each class into a folder of their own."
        )
    if len(labels) <= classes:
        raise DataError(
            f"{dataset.id!r}, split {split!r}: {len(labels)} images of {classes} classes; ranking needs more images "
            "than classes. Add images, or take fewer classes (?classes=N)."
        )


def _distinct(models: Sequence[str]) -> tuple[list[str], list[str]]:
    """Each model once, and a note for every one that stood twice."""
    if not models:
        raise UsageError("name at least one checkpoint to rank, such as packaged:efficientnet-lite0 or timm:resnet50.")
    names, notes, seen = [], [], set()
    for name in models:
        known = str(ModelName.parse(name))
        if known in seen:
            notes.append(f"{name} was named twice and is ranked once")
        else:
            seen.add(known)
            names.append(name)
    return names, notes


def _score_model(
    bench: Workbench,
    name: str,
    dataset: Dataset,
    split: str,
    layers: Sequence[str],
    cards: Sequence[ScoreCard],
    resamples: int,
    seed: int,
) -> list[tuple[Candidate, dict[str, ScoreRecord] | None]]:
    """Every layer of one model as a candidate; one that failed has no record."""
    try:
        backbone = bench.backbone(name)
        head = any(card.needs_head for card in cards) and backbone.has_head
        began = perf_counter()
        wanted = list(dict.fromkeys([*layers, *(["logits"] if head else [])]))
        stored = extract(backbone, dataset, split, bench.store, layers=wanted, how=bench.how, progress=bench.progress)
        extraction = perf_counter() - began
        card = bench.card(name)
        probabilities = softmax(stored["logits"].features.to_array()) if head else None
        found: list[tuple[Candidate, dict[str, ScoreRecord] | None]] = []
        for layer in layers:
            features = stored[layer]
            labels = dataset.split(split).labels[features.index]
            inputs: dict[str, npt.NDArray[Any]] = {"features": features.features.to_array()}
            inputs |= {"probabilities": probabilities} if probabilities is not None else {}
            key = digest([features.key.digest, digest(labels.tolist()), seed])
            cache = ScoreCache(bench.home / "ranking" / f"{key}.json")
            samples = half_samples(labels, resamples, seed)
            records, seconds = score_candidate(cards, inputs, labels, cache, samples=samples, seed=seed)
            found.append((_candidate(name, layer, records, features, card, extraction, seconds), records))
            extraction = 0.0  # one pass served all layers
    except DiskFullError:
        raise
    except Exception as error:  # noqa: BLE001 - one checkpoint must not end the ranking of the others
        reason = str(error) if isinstance(error, UnseenError) else f"{type(error).__name__}: {error}"
        return [(Candidate(model=name, layer=layer, error=reason), None) for layer in layers]
    return [
        (candidate, record)
        if record and any(r.terms for r in record.values())
        else (_all_failed(candidate, record), None)
        for candidate, record in found
    ]


def _all_failed(candidate: Candidate, records: dict[str, ScoreRecord] | None) -> Candidate:
    return replace(candidate, error=next(r.error for r in (records or {}).values()))


def _candidate(
    name: str, layer: str, records: dict[str, ScoreRecord], stored: Any, card: Any, extraction: float, seconds: float
) -> Candidate:
    notes = [note for record in records.values() for note in record.notes]
    if stored.skipped:
        notes.append(f"{len(stored.skipped)} images could not be read and were left out")
    return Candidate(
        model=name,
        layer=layer,
        extraction_seconds=extraction,
        scoring_seconds=seconds,
        parameters=card.parameters,
        flops=card.flops,
        dimensions=stored.dim,
        notes=tuple(notes),
    )


def _ordered(candidates: Sequence[Candidate], combined: Combined) -> list[Candidate]:
    """Candidates by mean rank, with their scores, intervals and shares filled in."""
    resampled = len(combined.draws) > 0
    shares = combined.first_shares if resampled else np.full(len(candidates), np.nan)
    bounds = np.quantile(combined.draws, [0.025, 0.975], axis=0) if resampled else np.full((2, len(candidates)), np.nan)
    order = sorted(range(len(candidates)), key=lambda i: (combined.mean_ranks[i], -np.nan_to_num(shares[i]), i))
    found = []
    for place, i in enumerate(order, start=1):
        values = {name: column[i] for name, column in combined.scores.items() if np.isfinite(column[i])}
        found.append(
            replace(
                candidates[i],
                rank=place,
                scores=values,
                mean_rank=float(combined.mean_ranks[i]),
                low=float(bounds[0, i]),
                high=float(bounds[1, i]),
                first_share=float(shares[i]),
            )
        )
    return found


def _within(
    budget: float,
    began: float,
    bench: Workbench,
    dataset: Dataset,
    split: str,
    names: Sequence[str],
    layers: Sequence[str],
) -> tuple[Dataset, list[str]]:
    """The dataset, or as many of its images, by class, as the budget allows: rates are measured on a few images."""
    images = len(dataset.split(split))
    few = select(dataset, limit=_RATE_IMAGES)
    per_image = 0.0
    for name in names:
        try:
            backbone = bench.backbone(name)
            extract(backbone, few, split, bench.store, layers=layers, how=bench.how)  # export and load, untimed
            other = select(dataset, limit=_RATE_IMAGES, seed=1)
            start = perf_counter()
            extract(backbone, other, split, bench.store, layers=layers, how=bench.how)
            per_image += (perf_counter() - start) / len(other.split(split))
        except UnseenError:
            continue  # it will fail again, and be reported, when it is ranked
    left = (budget - (perf_counter() - began)) * (1 - _SCORING_SHARE)
    classes = len(np.unique(dataset.split(split).labels))
    fits = int(left / per_image) if per_image > 0 else images
    if fits >= images:
        return dataset, []
    # Fewer than two images per class say nothing: better late than meaningless.
    kept = max(fits, min(images, 2 * classes + 1))
    note = f"{kept} of {images} images, by class, to fit {budget:.0f} s"
    if kept > fits:
        note += " (more time is needed for two images of every class)"
    return select(dataset, limit=kept), [note]
