"""Successive halving: all candidates on a few hundred images, the best and its rivals on more.

Paper:      Jamieson & Talwalkar, "Non-stochastic best arm identification and hyperparameter optimization", AISTATS 2016
Differs:    not half of the candidates go, but those that together come first in at most RISK of the draws of a round
            (`leads`), and none that cannot be told apart from the best. What that leaves to chance is said. It is the
            chance of the images drawn: a candidate that needs more images than a round has to show its strength is
            not covered.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from time import perf_counter

from unseen.benchmarks.rank.candidates import Candidate, CheckpointRanking
from unseen.benchmarks.workbench import Workbench
from unseen.core.errors import UnseenError
from unseen.features.speed import measure_speed
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
#: Share of a budget that the first round may take, and what is kept of the rest for the unforeseen.
_FIRST_SHARE, _RESERVE = 0.2, 0.1
_LONGEST = 1.0


@dataclass(frozen=True)
class Dropped:
    """Candidates that a round dropped, and the chance that the best was among them."""

    candidates: tuple[Candidate, ...]
    images: int
    chance: float


def first_size(images: int, classes: int) -> int:
    """Images of the first round."""
    return min(images, max(FIRST, PER_CLASS * classes))


def is_worth_it(candidates: int, images: int, classes: int) -> bool:
    """Whether rounds save anything: few candidates, or images that are soon through, are scored at once."""
    return candidates >= LEAST_CANDIDATES and images >= LEAST_GROWTH * first_size(images, classes)


def drop(ranking: CheckpointRanking) -> Dropped:
    """Who is dropped after a round: never all but the last of several equals, nor what failed."""
    losers: list[Candidate] = []
    chance = 0.0
    for candidate in reversed([c for c in ranking.candidates if not c.error]):
        share = 0.0 if candidate.same_as else candidate.best_share
        if candidate.may_be_best or not chance + share <= RISK:
            break
        losers.append(candidate)
        chance += share
    return Dropped(tuple(reversed(losers)), ranking.images, chance)


def next_size(size: int, images: int) -> int:
    """Images of the next round; all of them where the round after it would not be far."""
    grown = GROWTH * size
    return images if grown * 1.5 >= images else grown


def size_within(seconds: float, rate: float, candidates: int, images: int) -> int:
    """Images per candidate that fit into the time left, at so many seconds per image and candidate."""
    fits = int(max(seconds, 0.0) * (1 - _RESERVE) / max(rate * candidates, 1e-9))
    return min(images, fits)


@dataclass(frozen=True)
class Pilot:
    """What a few images of every checkpoint tell of the time that all will take.

    Attributes:
        size: images of the first round.
        short: what to say where the budget is too small for it.
        loading: seconds to load all checkpoints.
        rate: seconds per image and checkpoint of the extraction alone.
    """

    size: int
    short: str = ""
    loading: float = 0.0
    rate: float = 0.0

    def rate_after(self, spent: float, size: int, candidates: int) -> float:
        """Seconds per image and candidate of a round, scoring included, less what loading takes, whatever its size.

        A round of few images is mostly loading, and what is left of it tells little: never below what was measured.
        """
        return max(max(spent - self.loading, 0.3 * spent) / (size * candidates), self.rate)


def pilot(
    budget: float, bench: Workbench, dataset: str, split: str, models: Sequence[str], classes: int, *, began: float
) -> Pilot:
    """The first round of a budget, from the speed of each checkpoint on a few images.

    Args:
        budget: seconds for the whole, from `began` (of `perf_counter`) on.
    """
    images = bench.dataset(dataset).split(split)
    per_image = measured = 0.0
    start = perf_counter()
    for model in models:
        try:
            seconds = min(_LONGEST, 0.05 * budget / len(models))
            measured += seconds + min(0.5, seconds)  # a warm-up before
            how = {"device": bench.how.device, "graphs": bench.how.graphs, "precision": bench.how.precision}
            per_image += 1 / measure_speed(bench.backbone(model), images, seconds=seconds, **how)  # type: ignore[arg-type]
        except UnseenError:
            continue  # it will fail again, and be reported, when it is ranked
    loading = max(perf_counter() - start - measured, 0.0)
    left = budget - (perf_counter() - began)
    # Fewer than two images per class say nothing: better late than meaningless.
    least = min(len(images), 2 * classes + 1 if classes > 1 else FEWEST)
    fits = int(max(_FIRST_SHARE * left - loading, 0.0) / per_image) if per_image > 0 else len(images)
    late = fits < least and loading + least * per_image > (1 - _RESERVE) * left
    short = " (more time is needed for two images of every class)" if late else ""
    return Pilot(min(max(fits, least), len(images)), short, loading, per_image / max(len(models), 1))


def with_dropped(ranking: CheckpointRanking, rounds: Sequence[Dropped]) -> CheckpointRanking:
    """The ranking with the candidates that rounds before it dropped, behind those that went on, and what that risks."""
    if not rounds:
        return ranking
    ranked = [c for c in ranking.candidates if not c.error]
    last = [replace(c, may_be_best=False, dropped_after=r.images) for r in reversed(rounds) for c in r.candidates]
    last = [replace(c, rank=number) for number, c in enumerate(last, start=len(ranked) + 1)]
    notes = [
        f"{counted(len(r.candidates), 'candidate')} dropped after {r.images} images: the chance that the best is among "
        f"them is {_percent(r.chance)}"
        for r in rounds
    ]
    return replace(ranking, candidates=(*ranked, *last, *ranking.failed), notes=(*notes, *ranking.notes))


def _percent(chance: float) -> str:
    return f"{100 * chance:.1f} %" if chance >= 0.001 else "below 0.1 %"
