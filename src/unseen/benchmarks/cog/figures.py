"""The figures of the paper by name, from stored results: the charts of `unseen cog chart`.

Paper:      Sariyildiz et al., ICCV 2021: Fig. 1a, 2, 3, 4; supplement: Fig. B to G
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from unseen.benchmarks.cog.analysis import (
    ALL,
    ConceptScore,
    LevelScore,
    answer,
    concept_scores,
    control_sentence,
    level_scores,
    measure_fall,
    order_levels,
    settings,
    slope_sentence,
    slopes,
    statements,
    trend_sentences,
)
from unseen.benchmarks.cog.charts import (
    control_chart,
    distance_chart,
    few_shot_charts,
    finetune_chart,
    images_chart,
    kin_chart,
    levels_chart,
    ranking_chart,
    rankings_chart,
    relative_charts,
)
from unseen.benchmarks.cog.details import CogDetails
from unseen.benchmarks.cog.domains import SEEN, given_domain
from unseen.benchmarks.cog.tables import Picture, ratios
from unseen.concepts import (
    Levels,
    corpus_information,
    imagenet_1k,
    imagenet_21k,
    load_wordnet,
    similarity_matrix,
)
from unseen.core.errors import DataError, UnknownNameError, UsageError
from unseen.core.names import Name
from unseen.core.records import ModelCard, Result
from unseen.data import Dataset
from unseen.reports.charts import Chart, Panels
from unseen.reports.theme import REFERENCE, Key, series_keys
from unseen.reports.wording import family, is_reference, short_names
from unseen.results import Group, only

#: A chart, and sentences on what it shows.
Drawn = tuple[Chart, list[str]]

#: The largest number of models with sentences of their own; more are summarised.
FEW = 6
_EXAMPLES_PER_LEVEL = 2
_KIN = 6


@dataclass(frozen=True)
class Request:
    """What a figure shows.

    Attributes:
        results: results of CoG and of its fine-tuning, of one study.
        cards: cards of the models.
        baseline: the model that others are compared with; by default the first one that was trained.
        models: names, ids or patterns of the models to show; by default all.
        category: category of models, such as "self-supervision"; by default all.
        levels: levels of few-shot charts; by default the first, the middle and the last, and "all" for every one.
        seen: the seen concepts if there are runs with several: in1k or in1k-blurred.
        setting: NAME=VALUE, if a study has several settings.
        picture: returns pictures of classes.
        file: levels written by `unseen cog levels`.
        concept: name or id of the concept whose kin is shown.
        data: a dataset for the pictures of `file` and for kin.
    """

    results: Sequence[Result] = ()
    cards: Mapping[str, ModelCard] | None = None
    baseline: str | None = None
    models: Sequence[str] = ()
    category: str | None = None
    levels: Sequence[str] = ()
    seen: str | None = None
    setting: Sequence[str] = ()
    picture: Picture = lambda dataset, name: ""
    file: Path | None = None
    concept: str | None = None
    data: Dataset | None = None

    def groups(self, benchmark: str = "cog") -> list[Group]:
        """Return the settings of a benchmark.

        Raises:
            DataError: there are no results.
        """
        found = settings([r for r in self.results if r.ok and self._has_seen(r)], benchmark)
        if not found:
            what, command = ("CoG results", "run") if benchmark == "cog" else ("results of fine-tuning", "finetune")
            raise DataError(f"there are no {what} of that study yet. Make some with: unseen cog {command}")
        return found

    def _has_seen(self, result: Result) -> bool:
        if self.seen is None:
            return True
        name, wanted = Name.parse(result.cell.dataset), self.seen.removeprefix("imagenet:")
        if (name.scheme, name.rest) == ("imagenet", "cog"):
            return name.options.get("seen", "in1k") == wanted
        return given_domain(result.cell.dataset) != SEEN or name.rest == wanted

    @cached_property
    def group(self) -> Group:
        """The group of results that is shown."""
        return only(self.groups(), self.setting)

    @cached_property
    def scores(self) -> list[LevelScore]:
        return level_scores(self.group.results)

    @cached_property
    def concepts(self) -> list[ConceptScore]:
        return concept_scores(self.group.results)

    def keys(self, models: Sequence[str], base: str = "") -> dict[str, Key]:
        """Return the legend entries of the requested models and of `base`."""
        cards = self.cards or {}
        names = short_names(models, cards)
        every = series_keys(models, names, cards)
        chosen = [m for m in every if _matches(m, every[m].label, self.models)]
        if self.models and not chosen:
            raise UnknownNameError("model with results", ", ".join(self.models), models)
        groups = {m: key.group or family(m, cards) for m, key in every.items()}
        if self.category is not None:
            chosen = [m for m in chosen if groups[m] == self.category]
            if not chosen:
                raise UnknownNameError("category of models", self.category, sorted(set(groups.values())))
        chosen += [base] if base and base not in chosen else []
        return {m: replace(key, group=groups[m]) for m, key in series_keys(chosen, names, cards).items()}

    def base(self, models: Sequence[str]) -> str:
        """Return the id of the baseline."""
        if self.baseline is None:
            trained = [model for model in models if not is_reference(model)] or list(models)
            return next((model for model in trained if family(model, self.cards or {}) == REFERENCE), trained[0])
        names = short_names(models, self.cards or {})
        found = [model for model in models if self.baseline in (model, names[model])]
        if not found:
            raise UnknownNameError("model with results", self.baseline, models)
        return found[0]

    def shown(self, *, relative: bool = False) -> tuple[dict[str, Key], str]:
        """Return the legend entries of the models to show, and the baseline, "" for charts without one."""
        models = list(dict.fromkeys(score.model for score in self.scores))
        base = self.base(models) if relative else ""
        return self.keys(models, base), base


def draw(kind: str, request: Request) -> Drawn:
    """Return the figure of a name, and sentences on what it shows.

    Raises:
        UnknownNameError: an unknown kind, model or category.
        DataError: there are no results for it.
    """
    if kind not in FIGURES:
        raise UnknownNameError("chart", kind, FIGURES)
    return FIGURES[kind](request)


def _panels(charts: Mapping[str, Chart], columns: int) -> Chart:
    """Return one chart, or several side by side."""
    if len(charts) == 1:
        return next(iter(charts.values()))
    return Panels(charts=list(charts.values()), titles=list(charts), columns=columns)


def _draw_levels(request: Request) -> Drawn:
    keys, _ = request.shown()
    trained = trained_models(keys)
    fall = measure_fall(request.concepts, trained)
    sentences = [answer(fall, None, control_sentence(request.scores, trained))] if fall else []
    if len(keys) <= FEW:
        sentences += trend_sentences(request.scores, request.concepts, {m: k.label for m, k in keys.items()})
    return levels_chart(request.scores, keys), sentences


def _draw_relative(request: Request) -> Drawn:
    keys, base = request.shown(relative=True)
    pairs = [(base, model) for model in keys if model != base]
    names = {m: k.label for m, k in keys.items()}
    sentences = statements(request.scores, names, pairs) if len(pairs) <= FEW else []
    charts = relative_charts(request.scores, keys, base) or {"": levels_chart(request.scores, keys, base)}
    return _panels(charts, 2), sentences


def _draw_few_shot(request: Request, *, relative: bool = False) -> Drawn:
    keys, base = request.shown(relative=relative)
    known = order_levels(s.level for s in request.scores if not s.control)
    unseen = [level for level in known if level != SEEN]
    chosen = list(request.levels) or list(dict.fromkeys((unseen[0], unseen[len(unseen) // 2], unseen[-1])))
    chosen = known if chosen == ["all"] else chosen
    for level in chosen:
        if level not in known:
            raise UnknownNameError("level with results", level, known)
    return _panels(few_shot_charts(request.scores, keys, chosen, base), 3), []


def _draw_controls(request: Request) -> Drawn:
    keys, _ = request.shown()
    if not any(s.control for s in request.scores):
        raise DataError("that study has no control levels. Run it with --controls 15.")
    return control_chart(request.scores, keys), [control_sentence(request.scores, trained_models(keys))]


def _draw_rankings(request: Request) -> Drawn:
    """Draw one model on levels cut by several measures: groups that differ in these alone."""
    groups = request.groups()
    if any(set(group.differs) - {"measure", "rerank"} for group in groups):
        raise UsageError(
            f"these runs differ in more than how concepts are ranked ({', '.join(groups[0].differs)}); file runs that "
            "differ in --measure and --rerank alone under a study of their own with --study."
        )
    base = request.base(list(dict.fromkeys(r.cell.model for g in groups for r in g.results)))
    lines: dict[str, list[LevelScore]] = {}
    controls: list[float] = []
    for group in groups:
        own = [s for s in level_scores(group.results) if s.model == base and s.shots == ALL]
        measure, rerank = group.setting.get("measure", ""), group.setting.get("rerank", "")
        lines[f"{measure}, re-ranked by {rerank}" if rerank else str(measure)] = [s for s in own if not s.control]
        controls += [s.mean for s in own if s.control]
    name = short_names([base], request.cards or {})[base]
    sentences = [f"{ranking}: " + ", ".join(f"{s.level} {s.text}" for s in own) for ranking, own in lines.items()]
    return rankings_chart(lines, controls, name), sentences


def _draw_distance(request: Request) -> Drawn:
    keys, _ = request.shown()
    concepts = [s for s in request.concepts if s.model in keys]
    lines = slopes(concepts)
    if not lines:
        raise DataError("a line through concepts needs three unseen ones or more with accuracies of their own.")
    sentences = [f"{slope_sentence(keys[model].label, line)}." for model, line in lines.items()]
    return distance_chart(concepts, lines, keys, lambda s: request.picture(s.dataset, s.name)), sentences


def _draw_finetuning(request: Request) -> Drawn:
    group = only(request.groups("cog-finetune"), request.setting)
    models = list(dict.fromkeys(r.cell.model for r in group.results))
    names = {model: key.label for model, key in request.keys(models).items()}
    found = ratios(group, request.groups(), names)
    if not found:
        raise DataError("no frozen probes on the same concepts are in that study; `unseen cog finetune` makes both.")
    sentences = [f"{r.name}, {r.frozen.level}: frozen / fine-tuned {r.ratio.value:.3f}" for r in found]
    return finetune_chart(found), sentences


def _draw_ranking(request: Request) -> Drawn:
    if request.file is not None:
        return _draw_level_file(request, Levels.load(request.file))
    first = request.concepts[0].model if request.concepts else ""
    own = [s for s in request.concepts if s.model == first and s.level != SEEN]
    own.sort(key=lambda s: (-s.similarity, s.concept))
    examples = _examples([s.level for s in own])
    rows = [
        {"name": s.name, "value": s.similarity, "level": s.level}
        | {"picture": request.picture(s.dataset, s.name) if place in examples else ""}
        for place, s in enumerate(own)
    ]
    account = CogDetails.of(request.group.results[0]).domains
    left = account.funnel[-1].left - len(own) if account.funnel else 0
    sentences = [f"{left} eligible concepts fell between levels and are not drawn."] if left > 0 else []
    return ranking_chart(rows, account.measure, account.seen), sentences


def _draw_level_file(request: Request, levels: Levels) -> Drawn:
    ranked = [(c.similarity, c.id, level.name) for level in levels.levels for c in level.concepts]
    ranked += [(c.similarity, c.id, "") for gap in levels.gaps for c in gap]
    known = sorted((-similarity, one, level) for similarity, one, level in ranked if similarity is not None)
    if not known:
        raise DataError("those levels hold no similarities, so they have no ranking to draw.")
    examples = _examples([level for *_, level in known])
    pictures = _class_pictures(request)
    rows = [
        {"name": _label(one), "value": -negative, "level": level}
        | {"picture": pictures(one) if place in examples else ""}
        for place, (negative, one, level) in enumerate(known)
    ]
    gaps = sum(not level for *_, level in known)
    sentence = f"{len(known):,} eligible concepts in {len(levels.levels)} levels; {gaps:,} fell into gaps."
    return ranking_chart(rows, levels.measure, "the nearest seen concept"), [sentence]


def _draw_kin(request: Request) -> Drawn:
    if not request.concept:
        raise UsageError("whose kin? Give a concept, such as --concept 'tiger cat'.")
    wordnet = load_wordnet()
    wnid = wordnet.find(request.concept)
    # Of several senses the one that ImageNet has pictures of: a leopard, not its pelt.
    senses = [] if request.concept == wnid else [wnid, *wordnet.senses(request.concept)]
    wnid = next((s for known in (imagenet_1k(), imagenet_21k()) for s in senses if s in set(known)), wnid)
    classes = [one for one in request.data.wnids if one] if request.data is not None else imagenet_21k()
    ids = [one for one in classes if one in wordnet and one != wnid]
    similar = similarity_matrix(wordnet, [wnid], ids, "lin", ic=corpus_information(wordnet))[0]
    pictures = _class_pictures(request)
    kin: dict[str, dict[str, Any]] = {}
    for i in _evenly_spaced(similar, _KIN):
        name = _label(ids[i]) if _label(ids[i]) not in kin else f"{_label(ids[i])} ({ids[i]})"
        value = float(similar[i])
        kin[name] = {"name": name, "value": value, "shown": f"{value:.2f}", "picture": pictures(ids[i])}
    sentences = [f"{name}: {row['value']:.3f}" for name, row in kin.items()]
    return kin_chart(_label(wnid), list(kin.values()), "Lin"), sentences


#: Every figure by its name.
FIGURES: Mapping[str, Callable[[Request], Drawn]] = {
    "kin": _draw_kin,
    "ranking": _draw_ranking,
    "levels": _draw_levels,
    "relative": _draw_relative,
    "few-shot": _draw_few_shot,
    "few-shot-relative": lambda request: _draw_few_shot(request, relative=True),
    "distance": _draw_distance,
    "controls": _draw_controls,
    "rankings": _draw_rankings,
    "images": lambda request: (images_chart(request.concepts), []),
    "finetune": _draw_finetuning,
}


def trained_models(models: Mapping[str, object]) -> list[str]:
    """Return the models whose weights are not random; all, if every model has random weights."""
    return [model for model in models if not is_reference(model)] or list(models)


def _matches(model: str, label: str, patterns: Sequence[str]) -> bool:
    return not patterns or any(fnmatchcase(model, p) or fnmatchcase(label.lower(), p.lower()) for p in patterns)


def _examples(levels: Sequence[str]) -> set[int]:
    """Return places of a ranking that get a picture: a few of every level, evenly along it."""
    found: set[int] = set()
    for level in {level for level in levels if level}:
        places = [place for place, other in enumerate(levels) if other == level]
        found |= {places[round(mark)] for mark in np.linspace(0, len(places) - 1, 2 * _EXAMPLES_PER_LEVEL + 1)[1::2]}
    return found


def _class_pictures(request: Request) -> Callable[[str], str]:
    """Return a function from a WordNet id to the picture of that class of the dataset, "" if there is none."""
    data = request.data
    if data is None:
        return lambda one: ""
    names = {one: name for one, name in zip(data.wnids, data.class_names, strict=False) if one}
    return lambda one: request.picture(data.id, names[one]) if one in names else ""


def _label(identifier: str) -> str:
    wordnet = load_wordnet()
    return wordnet.label(identifier) if identifier in wordnet else identifier


def _evenly_spaced(values: npt.NDArray[np.float64], count: int) -> list[int]:
    """Return indices of some values, from the greatest to the least, as evenly spaced as possible."""
    found: list[int] = []
    for target in np.linspace(values.max(), values.min(), min(count, len(values))):
        order = np.argsort(np.abs(values - target), kind="stable")
        found.append(next(int(i) for i in order if int(i) not in found))
    return sorted(found, key=lambda i: -values[i])
