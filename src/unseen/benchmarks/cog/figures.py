"""The figures of the paper from stored results, by name: what `unseen cog chart` draws.

Paper:      Sariyildiz et al., ICCV 2021: Fig. 1a, 2, 3, 4; supplement: Fig. B to G
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy as np

from unseen.benchmarks.cog import analysis, charts, concept_charts
from unseen.benchmarks.cog.concept_charts import Placed
from unseen.benchmarks.cog.domains import CONTROL, SEEN, given_domain
from unseen.benchmarks.cog.falls import answer, controls_said, measure_fall
from unseen.benchmarks.cog.finetune_section import ratios
from unseen.benchmarks.cog.section import trend_sentences
from unseen.core.errors import DataError, UnknownNameError, UsageError
from unseen.core.names import Name
from unseen.core.records import ModelCard, Result
from unseen.reports.blocks import Key
from unseen.reports.charts import REFERENCE, series_keys
from unseen.reports.wording import family, is_reference, short_names
from unseen.results import Group, only

#: A chart, and what it shows in words.
Drawn = tuple[Any, list[str]]
#: Gives a picture of a class of a dataset, or "".
Picture = Callable[[str, str], str]

_EXAMPLES_PER_LEVEL = 2
_KIN = 6


@dataclass(frozen=True)
class Request:
    """What a figure is to show.

    Attributes:
        results: of CoG, and of its fine-tuning, of one study.
        cards: what is known of the models.
        baseline: the model that others are compared with; the first one that has learnt something, by default.
        models: names, ids or patterns of those to show; all, by default.
        category: of models, such as "self-supervision"; all, by default.
        levels: of few-shot charts; the first, the middle and the last, by default, and "all" for every one.
        seen: whose seen concepts, where there are runs with several: in1k or in1k-blurred.
        setting: NAME=VALUE, where a study holds several settings.
        picture: gives pictures of classes.
        file: levels as `unseen cog levels` writes them.
        concept: whose kin is drawn, a name or an id.
        data: a dataset for the pictures of `file` and for kin, by name.
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
    data: Any = None

    def groups(self, benchmark: str = "cog") -> list[Group]:
        kept = [r for r in self.results if r.ok and r.cell.benchmark == benchmark and self._has_seen(r)]
        return analysis.settings(kept, benchmark)

    def _has_seen(self, result: Result) -> bool:
        if self.seen is None:
            return True
        name, wanted = Name.parse(result.cell.dataset), self.seen.removeprefix("imagenet:")
        if (name.scheme, name.rest) == ("imagenet", "cog"):
            return name.options.get("seen", "in1k") == wanted
        return given_domain(result.cell.dataset) != SEEN or name.rest == wanted

    def group(self) -> Group:
        """The one group of results that is drawn."""
        groups = self.groups()
        if not groups:
            raise DataError("there are no CoG results of that study yet. Make some with: unseen cog run")
        return only(groups, self.setting)

    def keys(self, models: Sequence[str], base: str | None = None) -> dict[str, Key]:
        """Legend entries of the models that were asked for, and of `base`."""
        cards = self.cards or {}
        every = series_keys(models, short_names(models, cards), cards)
        chosen = [m for m in every if _chosen(m, every[m].label, self.models)]
        if self.models and not chosen:
            raise UnknownNameError("model with results", ", ".join(self.models), models)
        groups = {m: key.group or family(m, cards) for m, key in every.items()}
        if self.category is not None:
            chosen = [m for m in chosen if groups[m] == self.category]
            if not chosen:
                raise UnknownNameError("category of models", self.category, sorted(set(groups.values())))
        chosen += [base] if base is not None and base not in chosen else []
        kept = series_keys(chosen, short_names(models, cards), cards)
        return {m: replace(key, group=groups[m]) for m, key in kept.items()}

    def base(self, models: Sequence[str]) -> str:
        """The baseline, by its id or its name."""
        if self.baseline is None:
            learned = [model for model in models if not is_reference(model)] or list(models)
            return next((model for model in learned if family(model, self.cards or {}) == REFERENCE), learned[0])
        names = short_names(models, self.cards or {})
        found = [model for model in models if self.baseline in (model, names[model])]
        if not found:
            raise UnknownNameError("model with results", self.baseline, models)
        return found[0]


def draw(kind: str, request: Request) -> Drawn:
    """The figure that `kind` names, and what it shows in words.

    Raises:
        UnknownNameError: a kind, a model or a category that is not there.
        DataError: there is nothing to draw it from.
    """
    if kind not in FIGURES:
        raise UnknownNameError("chart", kind, FIGURES)
    return FIGURES[kind](request)


def _of_levels(request: Request) -> Drawn:
    scores, keys = _scores(request)
    results = request.group().results
    learned = [model for model in keys if not is_reference(model)] or list(keys)
    fall = measure_fall(analysis.concept_scores(results), learned)
    said = [answer(fall, None, controls_said(scores, learned))] if fall else []
    few = trend_sentences(scores, {m: k.label for m, k in keys.items()}) if len(keys) <= 6 else []
    return charts.levels_chart(scores, keys), [*said, *few]


def _of_relative(request: Request) -> Drawn:
    scores = analysis.level_scores(request.group().results)
    models = list(dict.fromkeys(score.model for score in scores))
    base = request.base(models)
    keys = request.keys(models, base)
    names = {m: k.label for m, k in keys.items()}
    pairs = [(base, model) for model in keys if model != base]
    said = analysis.statements(analysis.duels(request.group().results, pairs), names) if len(pairs) <= 6 else []
    if len(charts.by_category({m: k for m, k in keys.items() if m != base})) > 1:
        return charts.relative_grid(scores, keys, base), said
    return charts.relative_chart(scores, keys, base), said


def _of_few_shot(request: Request, relative: bool = False) -> Drawn:
    scores = analysis.level_scores(request.group().results)
    models = list(dict.fromkeys(score.model for score in scores))
    base = request.base(models) if relative else None
    keys = request.keys(models, base)
    there = [level for level in analysis.order_levels(s.level for s in scores) if not level.startswith(CONTROL)]
    unseen = [level for level in there if level != SEEN]
    chosen = list(request.levels) or list(dict.fromkeys((unseen[0], unseen[len(unseen) // 2], unseen[-1])))
    chosen = there if chosen == ["all"] else chosen
    for level in chosen:
        if level not in there:
            raise UnknownNameError("level with results", level, there)
    if len(chosen) == 1:
        return charts.few_shot_chart(scores, keys, chosen[0], base), []
    return charts.few_shot_grid(scores, keys, chosen, base), []


def _of_controls(request: Request) -> Drawn:
    scores, keys = _scores(request)
    learned = [model for model in keys if not is_reference(model)] or list(keys)
    if not any(s.level.startswith(CONTROL) for s in scores):
        raise DataError("that study has no control levels. Run it with --controls 15.")
    return charts.control_chart(scores, keys), [controls_said(scores, learned)]


def _of_rankings(request: Request) -> Drawn:
    """One model on levels cut by several measures: groups that differ in these alone."""
    groups = request.groups()
    if not groups:
        request.group()
    ranked_by = {"measure", "rerank"}
    alike = [g for g in groups if set(g.differs) <= ranked_by]
    if len(alike) != len(groups):
        raise UsageError(
            f"these runs differ in more than how concepts are ranked ({', '.join(groups[0].differs)}); file runs that "
            "differ in --measure and --rerank alone under a study of their own with --study."
        )
    base = request.base(list(dict.fromkeys(r.cell.model for g in groups for r in g.results)))
    lines, drawn = {}, []
    for group in groups:
        own = [s for s in analysis.level_scores(group.results) if s.model == base and s.shots == analysis.ALL]
        measure, rerank = group.setting.get("measure", ""), group.setting.get("rerank", "")
        name = f"{measure}, re-ranked by {rerank}" if rerank else str(measure)
        lines[name] = [s for s in own if not s.level.startswith(CONTROL)]
        drawn += [s.mean for s in own if s.level.startswith(CONTROL)]
    name = short_names([base], request.cards or {})[base]
    said = [f"{ranking}: " + ", ".join(f"{s.level} {s.text}" for s in own) for ranking, own in lines.items()]
    return charts.rankings_chart(lines, drawn, name), said


def _of_images(request: Request) -> Drawn:
    return charts.images_chart(analysis.concept_scores(request.group().results)), []


def _of_distance(request: Request) -> Drawn:
    _, keys = _scores(request)
    concepts = [s for s in analysis.concept_scores(request.group().results) if s.model in keys]
    lines = analysis.slopes(concepts)
    if not lines:
        raise DataError("a line through concepts needs three unseen ones or more with accuracies of their own.")
    said = [f"{analysis.slope_sentence(keys[model].label, line)}." for model, line in lines.items()]
    return concept_charts.distance_chart(concepts, lines, keys, lambda s: request.picture(s.dataset, s.name)), said


def _of_finetuning(request: Request) -> Drawn:
    tuned = request.groups("cog-finetune")
    if not tuned:
        raise DataError("there are no results of fine-tuning in that study yet. Make some with: unseen cog finetune")
    group = only(tuned, request.setting)
    models = list(dict.fromkeys(r.cell.model for r in group.results))
    names = {model: key.label for model, key in request.keys(models).items()}
    rows = ratios(group, request.groups(), names)
    if not rows:
        raise DataError("no frozen probes on the same concepts are in that study; `unseen cog finetune` makes both.")
    levels = analysis.order_levels(row["level"] for row in rows)
    said = [f"{row['name']}, {row['level']}: frozen / fine-tuned {row['ratio']:.3f}" for row in rows]
    return charts.finetune_chart(rows, levels), said


def _of_ranking(request: Request) -> Drawn:
    if request.file is not None:
        from unseen.concepts import Levels

        levels = Levels.load(request.file)
        ranked = _from_file(levels)
        places = _class_names(request.data)
        shown = _with_pictures(
            ranked, lambda one: request.picture(request.data.id, places[one]) if one in places else ""
        )
        named = [replace(one, name=_label(one.name)) for one in shown]
        eligible = sum(not one.level for one in ranked)
        said = [f"{len(ranked):,} eligible concepts in {len(levels.levels)} levels; {eligible:,} fell into gaps."]
        return concept_charts.ranking_chart(named, levels.measure, "the nearest seen concept"), said
    group = request.group()
    scores = analysis.concept_scores(group.results)
    first = scores[0].model if scores else ""
    own = sorted((s for s in scores if s.model == first and s.level != SEEN), key=lambda s: (-s.similarity, s.concept))
    datasets = {s.name: s.dataset for s in own}
    ranked = [Placed(s.name, s.similarity, s.level, s.nearest) for s in own]
    ranked = _with_pictures(ranked, lambda name: request.picture(datasets[name], name))
    account = group.results[0].details.get("domains", {})
    left = (account.get("funnel") or [{"left": len(own)}])[-1]["left"] - len(own)
    said = [f"{left} eligible concepts fell between levels and are not drawn."] if left > 0 else []
    return concept_charts.ranking_chart(ranked, account.get("measure", "lin"), account.get("seen", "seen")), said


def _of_kin(request: Request) -> Drawn:
    from unseen.concepts import corpus_information, imagenet_1k, imagenet_21k, load_wordnet, similarity_matrix

    if not request.concept:
        raise UsageError("whose kin? Give a concept, such as --concept 'tiger cat'.")
    wordnet = load_wordnet()
    wnid = wordnet.find(request.concept)
    # Of several senses the one that ImageNet has pictures of: a leopard, not its pelt.
    senses = [] if request.concept == wnid else [wnid, *wordnet.senses(request.concept)]
    wnid = next((s for known in (imagenet_1k(), imagenet_21k()) for s in senses if s in set(known)), wnid)
    places = _class_names(request.data)
    ids = [one for one in (list(places) or imagenet_21k()) if one in wordnet and one != wnid]
    similar = similarity_matrix(wordnet, [wnid], ids, "lin", ic=corpus_information(wordnet))[0]
    kin = [
        Placed(
            _label(ids[i]),
            float(similar[i]),
            "",
            picture=request.picture(request.data.id, places[ids[i]]) if places else "",
        )
        for i in _along(similar, _KIN)
    ]
    said = [f"{one.name}: {one.similarity:.3f}" for one in kin]
    return concept_charts.kin_chart(_label(wnid), kin, "Lin"), said


#: Every figure by its name.
FIGURES: Mapping[str, Callable[[Request], Drawn]] = {
    "kin": _of_kin,
    "ranking": _of_ranking,
    "levels": _of_levels,
    "relative": _of_relative,
    "few-shot": _of_few_shot,
    "few-shot-relative": lambda request: _of_few_shot(request, relative=True),
    "distance": _of_distance,
    "controls": _of_controls,
    "rankings": _of_rankings,
    "images": _of_images,
    "finetune": _of_finetuning,
}


def _scores(request: Request) -> tuple[list[analysis.LevelScore], dict[str, Key]]:
    scores = analysis.level_scores(request.group().results)
    return scores, request.keys(list(dict.fromkeys(score.model for score in scores)))


def _chosen(model: str, label: str, wanted: Sequence[str]) -> bool:
    return not wanted or any(fnmatchcase(model, each) or fnmatchcase(label.lower(), each.lower()) for each in wanted)


def _from_file(levels: Any) -> list[Placed]:
    found = [(c, level.name) for level in levels.levels for c in level.concepts if c.similarity is not None]
    found += [(c, "") for gap in levels.gaps for c in gap if c.similarity is not None]
    if not found:
        raise DataError("those levels hold no similarities, so they have no ranking to draw.")
    found.sort(key=lambda pair: (-pair[0].similarity, pair[0].id))
    return [Placed(c.id, c.similarity, name, c.nearest or "") for c, name in found]


def _with_pictures(ranked: Sequence[Placed], picture: Callable[[str], str]) -> list[Placed]:
    """A few concepts of every level get pictures: evenly along the level, as far as there are any."""
    wanted: set[int] = set()
    for level in dict.fromkeys(one.level for one in ranked if one.level):
        places = [place for place, one in enumerate(ranked) if one.level == level]
        marks = np.linspace(0, len(places) - 1, 2 * _EXAMPLES_PER_LEVEL + 1)[1::2]
        wanted |= {places[round(mark)] for mark in marks}
    return [replace(one, picture=picture(one.name)) if place in wanted else one for place, one in enumerate(ranked)]


def _class_names(data: Any) -> dict[str, str]:
    """Class by WordNet id, of a dataset that knows them."""
    return {i: name for i, name in zip(data.wnids, data.class_names, strict=False) if i} if data is not None else {}


def _label(identifier: str) -> str:
    from unseen.concepts import load_wordnet

    wordnet = load_wordnet()
    return wordnet.label(identifier) if identifier in wordnet else identifier


def _along(values: Any, count: int) -> list[int]:
    """Indices of so many values, from the greatest to the least, as evenly spaced as they can be had."""
    found: list[int] = []
    for target in np.linspace(values.max(), values.min(), min(count, len(values))):
        order = np.argsort(np.abs(values - target), kind="stable")
        found.append(next(int(i) for i in order if int(i) not in found))
    return sorted(found, key=lambda i: -values[i])
