"""`unseen.compare`: several models on the same images, each against each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from unseen.api.holding import STUDY, holding, name_models, run, workbench
from unseen.api.probing import answer_of
from unseen.api.shown import Answer, percent
from unseen.core.errors import UsageError
from unseen.features import Extraction, Progress
from unseen.metrics import Comparison, paired_bootstrap

_CLEAR = 0.05


@dataclass(frozen=True, eq=False, repr=False)
class Contest(Answer):
    """Models in the order of their accuracy, with the difference of each to the best on the same test images.

    Attributes:
        evaluations: by label, best first: what `unseen.evaluate` gives for each.
    """

    evaluations: Mapping[str, Any]

    percent: ClassVar[tuple[str, ...]] = ("top1", "top1_low", "top1_high", "lrap", "lrap_low", "lrap_high")

    @property
    def metric(self) -> str:
        """What models are compared by: top1; r2 of numbers, lrap of several labels."""
        return str(next(iter(self.evaluations.values())).compared)

    @property
    def scores(self) -> dict[str, float]:
        """`metric` by label."""
        return {label: each.score.value for label, each in self.evaluations.items()}

    @property
    def top1(self) -> dict[str, float]:
        """Accuracy by label."""
        return {label: each.top1 for label, each in self.evaluations.items()}

    def __getitem__(self, label: str) -> Any:
        return self.evaluations[label]

    @cached_property
    def _behind(self) -> dict[str, Comparison]:
        best, *others = self.evaluations
        first = self.evaluations[best].image_scores
        return {label: paired_bootstrap(first, self.evaluations[label].image_scores) for label in others}

    def difference(self, first: str, second: str) -> Comparison:
        """How much better the first is than the second, on the same images."""
        return paired_bootstrap(self.evaluations[first].image_scores, self.evaluations[second].image_scores)

    def headline(self) -> str:
        (best, own), *others = self.evaluations.items()
        shares = self.metric != "r2"
        text = f"{best} has {percent(own.score.value) if shares else f'R² {own.score.value:.3f}'}"
        if not others:
            return text
        second = others[0][0]
        lead, tests = self._behind[second], len(others)
        # As many comparisons as models that might have come second: Bonferroni's bound.
        word = "clearly" if lead.p_value * tests < _CLEAR else "not clearly"
        gap = lead.difference
        if not shares:
            return f"{text}, {word} ahead of {second} ({gap.value:+.3f} [{gap.low:+.3f}, {gap.high:+.3f}])"
        bounds = f"[{100 * gap.low:+.1f}, {100 * gap.high:+.1f}]"
        return f"{text}, {word} ahead of {second} ({100 * gap.value:+.1f} points {bounds})"

    def _text(self, name: str, value: Any) -> str:
        if name.startswith("behind") and value is not None and self.metric != "r2":
            return percent(value)
        return super()._text(name, value)

    def rows(self) -> list[dict[str, Any]]:
        found = []
        for label, each in self.evaluations.items():
            name, own = self.metric, each.score
            row = {"model": label, name: own.value, f"{name}_low": own.low, f"{name}_high": own.high}
            if label in self._behind:
                lead = self._behind[label]
                row |= {"behind": lead.difference.value, "behind_low": lead.difference.low}
                row |= {"behind_high": lead.difference.high, "p": lead.p_value}
            found.append(row)
        return found


def compare(
    models: Mapping[str, Any] | Sequence[Any],
    data: Any,
    test: Any = None,
    *,
    seeds: int | Sequence[int] = 1,
    study: str = STUDY,
    home: Path | str | None = None,
    how: Extraction | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> Contest:
    """Evaluate several models on the same images, and compare them image by image.

    Args:
        models: by label, or a list; as `evaluate` takes them, patterns such as `timm:*dino*` among them.
        data, test: as `evaluate` takes them.
        seeds, study, home, how, progress: as for `evaluate`.
        **options: of the probe benchmark.

    Raises:
        UnseenError: no model, or one that cannot be had.
    """
    bench = workbench(home, how, progress)
    with holding() as holder:
        named = name_models(holder, models)
        if not named:
            raise UsageError("name at least one model to compare.")
        dataset = holder.dataset(data, test)
        results = run(
            study, list(dict.fromkeys(named.values())), dataset, {"probe": {"seeds": seeds, **options}}, bench
        )
        classes = tuple(bench.dataset(dataset).class_names)
    found = {
        label: answer_of(name, dataset, [result for result in results if result.cell.model == name], classes)
        for label, name in named.items()
    }
    return Contest(dict(sorted(found.items(), key=lambda item: -item[1].score.value)))
