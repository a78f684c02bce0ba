"""`unseen cog run` and `unseen cog finetune`: what they add to the options of their benchmarks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from unseen.cli.options import Draft, study_command

if TYPE_CHECKING:
    from unseen.core.records import Result
    from unseen.results import Group

DEFAULT_DATA = "packaged:emoji"
DEFAULT_MODELS = (
    "packaged:efficientnet-lite0",
    "packaged:efficientnet-lite1",
    "packaged:efficientnet-lite2",
    "random:tf_efficientnet_lite0",
)


def _prepare(draft: Draft) -> None:
    """Data as it was asked for become datasets whose classes have ids: see `imagenet_data` and `data_with_ids`."""
    from unseen.cli.cog.data import data_with_ids, imagenet_data

    (options,) = draft.benchmarks.values()
    found = [imagenet_data(name, options, draft.home) for name in draft.data]
    draft.data = [data_with_ids(name, options, draft.home) for name in found]
    if all(name.startswith("imagenet:") for name in found):
        draft.extraction.setdefault("truncated", "accept")  # images that end early, as the authors do


def _prepare_finetuning(draft: Draft) -> None:
    """Frozen probes on the same domains are planned first, for the comparison."""
    from dataclasses import fields

    from unseen.benchmarks.cog.domains import DomainRecipe

    _prepare(draft)
    (options,) = draft.benchmarks.values()
    shared = {f.name for f in fields(DomainRecipe)} | {"seeds"}
    frozen = {"seeds": "22,", **{name: value for name, value in options.items() if name in shared}}
    draft.benchmarks = {"cog": frozen, **draft.benchmarks}


def show_levels(results: Sequence[Result]) -> None:
    """Levels with the most images as a table, trend and slope in words, setting by setting; then what failed."""
    from unseen.benchmarks.cog.analysis import settings
    from unseen.cli.results import show_results

    for group in settings(results):
        _show_setting(group)
    if failed := [result for result in results if not result.ok]:
        show_results(failed)


def _show_setting(group: Group) -> None:
    from rich.text import Text

    from unseen.benchmarks.cog import analysis
    from unseen.benchmarks.cog.domains import CONTROL
    from unseen.benchmarks.cog.section import trend_sentences
    from unseen.cli.tables import console, print_table
    from unseen.reports.wording import short_names

    scores = analysis.level_scores(group.results)
    shown = [s for s in scores if s.shots == analysis.ALL and not s.level.startswith(CONTROL)]
    if not shown:
        return
    levels = analysis.order_levels(s.level for s in shown)
    models = list(dict.fromkeys(s.model for s in shown))
    best = {level: max(s.mean for s in shown if s.level == level) for level in levels}
    cells = {(s.model, s.level): s for s in shown}
    rows: list[list[str | Text]] = []
    for model in models:
        row = [cells.get((model, level)) for level in levels]
        texts = [Text(s.text, style="bold" if s.mean == best[s.level] else "") if s else Text("") for s in row]
        rows.append([model, *texts])
    title = "top-1 (%) with all images, by level" + (f" · {group.words}" if group.words else "")
    images = max(s.images for s in shown)
    caption = f"In brackets: 95 % interval over the {images:,} test images of a level." if images else ""
    print_table(["model", *levels], rows, title=title, caption=caption, numeric=levels)
    names = short_names(models, {})
    lines = analysis.slopes(analysis.concept_scores(group.results))
    said = trend_sentences(scores, names) + [f"{analysis.slope_sentence(names[m], line)}." for m, line in lines.items()]
    for sentence in said:
        console().print(sentence, soft_wrap=True, markup=False)


RUN = study_command(
    "cog",
    data=(DEFAULT_DATA,),
    models=DEFAULT_MODELS,
    title="Concept generalization",
    defaults={"shots": ["1", "2", "4", "8", "16", "32", "64", "128", "all"], "levels": None},
    prepare=_prepare,
    show=show_levels,
)
FINETUNE = study_command(
    "cog-finetune",
    data=(DEFAULT_DATA,),
    models=DEFAULT_MODELS[:1],
    title="Fine-tuning against frozen features",
    defaults={"levels": None},
    prepare=_prepare_finetuning,
)
