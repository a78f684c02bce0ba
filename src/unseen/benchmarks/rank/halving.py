"""Successive halving: all candidates on a few hundred images, those that may be the best on more.

Paper:      Jamieson & Talwalkar, "Non-stochastic best arm identification and hyperparameter optimization", AISTATS 2016
Differs:    instead of half of the candidates, a round drops those that together come first in at most RISK of the
            samples of its decision (`stats.decide`), and none that is statistically tied with the best. The ranking
            states this probability. It covers the choice of images only, not a candidate that needs more images than
            a round has.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from time import perf_counter

from unseen.benchmarks.rank.candidates import Candidate, CheckpointRanking
from unseen.benchmarks.workbench import Workbench
from unseen.core.errors import UnseenError
from unseen.features.extraction import measure_speed
from unseen.ranking.ridge import FEWEST
from unseen.reports.wording import counted

#: Chance of dropping the best that one round may take.
RISK = 0.02
FIRST = 200
#: Images of a class that the first round has at least.
PER_CLASS = 4
GROWTH = 3
#: Candidates and images (of the first round's) from which halving is worth it.
LEAST_CANDIDATES, LEAST_GROWTH = 5, 3.0
#: Share of a budget that the first round may take, and the share of the rest that is kept in reserve.
_FIRST_SHARE, _RESERVE = 0.2, 0.1
#: Seconds that the speed of one checkpoint is measured.
_SHORTEST, _LONGEST = 1e-3, 1.0


@dataclass(frozen=True)
class Dropped:
    """Candidates that a round dropped, and the chance that the best was among them."""

    candidates: tuple[Candidate, ...]
    images: int
    chance: float


def first_size(images: int, classes: int) -> int:
    """Return the number of images of the first round."""
    return min(images, max(FIRST, PER_CLASS * classes))


def is_worth_it(candidates: int, images: int, classes: int) -> bool:
    """Return whether rounds save time: few candidates or few images are scored at once."""
    return candidates >= LEAST_CANDIDATES and images >= LEAST_GROWTH * first_size(images, classes)


def drop(ranking: CheckpointRanking) -> Dropped:
    """Return the candidates to drop after a round: none that may be the best, none that failed."""
    losers: list[Candidate] = []
    chance = 0.0
    for candidate in reversed(ranking.ranked):
        share = 0.0 if candidate.same_as else candidate.best_share
        if candidate.may_be_best or not chance + share <= RISK:
            break
        losers.append(candidate)
        chance += share
    return Dropped(tuple(reversed(losers)), ranking.images, chance)


def next_size(size: int, images: int) -> int:
    """Return the number of images of the next round; all of them if few would remain."""
    grown = GROWTH * size
    return images if grown * 1.5 >= images else grown


def size_within(seconds: float, rate: float, candidates: int, images: int) -> int:
    """Return the number of images per candidate that fit into the remaining time."""
    fits = int(max(seconds, 0.0) * (1 - _RESERVE) / max(rate * candidates, 1e-9))
    return min(images, fits)


@dataclass(frozen=True)
class Pilot:
    """The expected time of a ranking, measured on a few images.

    Attributes:
        size: images of the first round.
        short: a remark if the budget is too small for it.
        loading: seconds to load all checkpoints.
        rate: seconds per image and checkpoint of the extraction alone.
    """

    size: int
    short: str = ""
    loading: float = 0.0
    rate: float = 0.0

    def rate_after(self, spent: float, size: int, candidates: int) -> float:
        """Return the seconds per image and candidate of a round, with scoring and without loading.

        A round of few images is mostly loading; the result is never below the measured rate of the extraction.
        """
        return max(max(spent - self.loading, 0.3 * spent) / (size * candidates), self.rate)


def pilot(budget: float, bench: Workbench, dataset: str, split: str, models: Sequence[str], classes: int) -> Pilot:
    """Plan the first round of a budget (seconds from now) from the speed of each checkpoint on a few images."""
    images, how = bench.dataset(dataset).split(split), bench.how
    per_image = measured = 0.0
    start = perf_counter()
    seconds = min(_LONGEST, max(0.05 * budget / len(models), _SHORTEST))
    for model in models:
        with suppress(UnseenError):  # it fails again, and is reported, when it is ranked
            measured += seconds + min(0.5, seconds)  # with the warm-up
            network, settings = bench.backbone(model), {"device": how.device, "precision": how.precision}
            per_image += 1 / measure_speed(network, images, seconds=seconds, graphs=how.graphs, **settings)
    loading = max(perf_counter() - start - measured, 0.0)
    left = budget - (perf_counter() - start)
    # Fewer than two images per class are useless: the budget is exceeded instead.
    least = min(len(images), 2 * classes + 1 if classes > 1 else FEWEST)
    fits = int(max(_FIRST_SHARE * left - loading, 0.0) / per_image) if per_image > 0 else len(images)
    late = fits < least and loading + least * per_image > (1 - _RESERVE) * left
    short = " (more time is needed for two images of every class)" if late else ""
    return Pilot(min(max(fits, least), len(images)), short, loading, per_image / max(len(models), 1))


def with_dropped(ranking: CheckpointRanking, rounds: Sequence[Dropped]) -> CheckpointRanking:
    """Return the ranking with the candidates that earlier rounds dropped at the end, and the risk as a note."""
    last = [replace(c, may_be_best=False, dropped_after=r.images) for r in reversed(rounds) for c in r.candidates]
    last = [replace(c, rank=number) for number, c in enumerate(last, start=len(ranking.ranked) + 1)]
    notes = []
    for r in rounds:
        chance = f"{100 * r.chance:.1f} %" if r.chance >= 0.001 else "below 0.1 %"
        dropped = f"{counted(len(r.candidates), 'candidate')} dropped after {r.images} images"
        notes.append(f"{dropped}: the chance that the best is among them is {chance}")
    candidates = (*ranking.ranked, *last, *ranking.failed)
    return replace(ranking, candidates=candidates, notes=(*notes, *ranking.notes))
