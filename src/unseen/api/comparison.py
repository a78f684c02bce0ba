"""`unseen.compare`: several models on the same images, in pairs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Unpack

from unseen.api.answer import Answer, percent
from unseen.api.evaluation import Evaluation, ProbeSettings, make_evaluation
from unseen.api.objects import STUDY, Data, Model, NamedObjects, run, workbench
from unseen.core.errors import UsageError
from unseen.core.identity import Values
from unseen.core.run_record import RunRecord
from unseen.features import Extraction, Progress
from unseen.stats import Decision, Difference, decide


@dataclass(frozen=True, eq=False, repr=False)
class Contest(Answer):
    """Models in the order of their accuracy, with the difference of each to the best on the same test images.

    Attributes:
        evaluations: by label, best first: the result of `unseen.evaluate` for each.
    """

    evaluations: Mapping[str, Evaluation]

    percent: ClassVar[tuple[str, ...]] = ("top1", "top1_low", "top1_high", "lrap", "lrap_low", "lrap_high")

    @property
    def metric(self) -> str:
        """The metric that models are compared by: top1; r2 for numbers, lrap for several labels."""
        return next(iter(self.evaluations.values())).compared

    @property
    def scores(self) -> dict[str, float]:
        """`metric` by label."""
        return {label: each.score.value for label, each in self.evaluations.items()}

    @property
    def top1(self) -> dict[str, float]:
        """Accuracy by label."""
        return {label: each.top1 for label, each in self.evaluations.items()}

    @property
    def record(self) -> RunRecord:
        """What the evaluations received, used and dropped, merged over models."""
        return RunRecord.merged({label: each.record for label, each in self.evaluations.items()})

    def __getitem__(self, label: str) -> Evaluation:
        return self.evaluations[label]

    @cached_property
    def decision(self) -> Decision:
        """Which models differ significantly, and which may be the best; every output uses the same decision."""
        return decide({label: each.candidate for label, each in self.evaluations.items()})

    def difference(self, first: str, second: str) -> Difference:
        """Return how much better the first model is than the second, on the same images."""
        return self.decision.pairs[first, second]

    def headline(self) -> str:
        (best, own), *others = self.evaluations.items()
        shares = self.metric != "r2"
        text = f"{best} has {percent(own.score.value) if shares else f'R² {own.score.value:.3f}'}"
        if not others:
            return text
        second = others[0][0]
        gap = self.difference(best, second)
        word = "significantly ahead of" if gap.significant else "statistically tied with"
        if not shares:
            return f"{text}, {word} {second} ({gap.value:+.3f} [{gap.low:+.3f}, {gap.high:+.3f}])"
        bounds = f"[{100 * gap.low:+.1f}, {100 * gap.high:+.1f}]"
        return f"{text}, {word} {second} ({100 * gap.value:+.1f} points {bounds})"

    def _text(self, name: str, value: Any) -> str:
        if name.startswith("behind") and value is not None and self.metric != "r2":
            return percent(value)
        return super()._text(name, value)

    def rows(self) -> list[Values]:
        found = []
        best = next(iter(self.evaluations))
        for label, each in self.evaluations.items():
            name, own = self.metric, each.score
            row = {"model": label, name: own.value, f"{name}_low": own.low, f"{name}_high": own.high}
            if label != best:
                gap = self.difference(best, label)
                row |= {"behind": gap.value, "behind_low": gap.low, "behind_high": gap.high}
                row |= {"p": gap.adjusted_p, "significant": gap.significant}
            found.append(row | {"possibly_best": label in self.decision.possibly_best})
        return found


def compare(
    models: Mapping[str, Model] | Sequence[Model],
    data: Data,
    test: Data | None = None,
    *,
    seeds: int | Sequence[int] = 1,
    study: str = STUDY,
    home: Path | str | None = None,
    how: Extraction | None = None,
    progress: Progress | None = None,
    **options: Unpack[ProbeSettings],
) -> Contest:
    """Evaluate several models on the same images, and compare them image by image.

    Args:
        models: by label, or a list, as for `evaluate`; patterns such as `timm:*dino*` are expanded.
        data, test: as for `evaluate`.
        seeds, study, home, how, progress: as for `evaluate`.
        **options: of the probe benchmark.

    Raises:
        UnseenError: no model, or one that cannot be loaded.
    """
    bench = workbench(home, how, progress)
    with NamedObjects() as objects:
        named = objects.models(models)
        if not named:
            raise UsageError("name at least one model to compare.")
        dataset = objects.dataset(data, test)
        results, classes = run(study, list(named.values()), dataset, {"seeds": seeds, **options}, bench)
    found = {
        label: make_evaluation(name, dataset, [result for result in results if result.cell.model == name], classes)
        for label, name in named.items()
    }
    return Contest(dict(sorted(found.items(), key=lambda item: -item[1].score.value)))
