"""The figures of the paper, from stored results: on the page, and by name in `unseen cog chart`.

Paper:      Sariyildiz et al., ICCV 2021: Fig. 1a (kin of a concept), 2 (the ranking), 3 (levels), 4 (few-shot);
            supplement: Fig. B (fine-tuning), C (controls and other measures), D to G
Beyond:     every concept against its distance, with a line per model
Bars are 95 % confidence intervals over test images.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import cached_property, partial
from pathlib import Path

import numpy as np

from unseen.benchmarks.cog.analysis import (
    ALL,
    FEW,
    ConceptScore,
    Fall,
    LevelScore,
    Line,
    Ratio,
    answer,
    concept_scores,
    control_sentence,
    level_scores,
    measure_fall,
    order_levels,
    order_shots,
    ratios,
    relative_to,
    settings,
    slopes,
    trend_sentences,
)
from unseen.benchmarks.cog.details import CogDetails
from unseen.benchmarks.cog.domains import SEEN
from unseen.concepts import (
    Levels,
    corpus_information,
    imagenet_1k,
    imagenet_21k,
    load_wordnet,
    similarity_matrix,
)
from unseen.core.errors import DataError, UnknownNameError, UsageError
from unseen.core.identity import Values
from unseen.core.records import ModelCard, Result
from unseen.data import Dataset
from unseen.reports.charts import Axis, Bars, Chart, Lines, Panels, Scatter, Strip, interval_fields
from unseen.reports.theme import REFERENCE, Key, series_keys
from unseen.reports.wording import family, is_reference, short_names
from unseen.results import Group, only

#: Returns a picture of a class of a dataset; "" if there is none.
Picture = Callable[[str, str], str]
#: A chart, and sentences on what it shows.
Drawn = tuple[Chart, Sequence[str]]

_KIN = 6
_HEIGHT = 300
_TOOLTIP = {
    "name": "model",
    "level": "level",
    "shots": "images per concept",
    "shown": "top-1 (%)",
    "images": "test images",
    "difference": "difference (points)",
}
_CONCEPT_TOOLTIP = {
    "concept": "concept",
    "nearest": "nearest seen",
    "similarity": "similarity",
    "value": "accuracy",
    "name": "model",
    "level": "level",
}


@dataclass(frozen=True)
class View:
    """The results of one setting, and the models to show.

    Attributes:
        keys: legend entries by model.
        scores, concepts: scores of these models, and perhaps of others.
        picture: returns a picture of a class of a dataset.
        baseline: the model that others are compared with; "" for none.
        datasets: names of datasets by id, for captions.
        few_shot: levels of few-shot charts; by default the first, the middle and the last.
    """

    group: Group
    keys: Mapping[str, Key]
    scores: Sequence[LevelScore]
    concepts: Sequence[ConceptScore]
    picture: Picture = lambda dataset, name: ""
    baseline: str = ""
    datasets: Mapping[str, str] = field(default_factory=dict)
    few_shot: Sequence[str] = ()

    @classmethod
    def of(cls, group: Group, keys: Mapping[str, Key], picture: Picture) -> View:
        """Return the view of the models that have a legend entry."""
        own = [result for result in group.results if result.cell.model in keys]
        return cls(group, keys, level_scores(own), concept_scores(own), picture)

    @property
    def names(self) -> dict[str, str]:
        return {model: key.label for model, key in self.keys.items()}

    @property
    def trained(self) -> list[str]:
        """The models whose weights are not random; all, if every model has random weights."""
        return [model for model in self.keys if not is_reference(model)] or list(self.keys)

    @property
    def reference(self) -> str:
        """The model that others are compared with by default."""
        return next((model for model in self.trained if self.keys[model].group == REFERENCE), self.trained[0])

    @property
    def levels(self) -> list[str]:
        """The seen concepts and the levels, without controls."""
        return order_levels(score.level for score in self.scores if not score.control)

    @cached_property
    def lines(self) -> dict[str, Line]:
        return slopes(self.concepts)

    @property
    def controls(self) -> str:
        """A sentence on the control levels; "" if there are none."""
        return control_sentence(self.scores, self.trained)

    @cached_property
    def fall(self) -> Fall | None:
        return measure_fall(self.concepts, self.trained)


def spread(levels: Sequence[str]) -> list[str]:
    """Return the first, the middle and the last level."""
    return list(dict.fromkeys((levels[0], levels[len(levels) // 2], levels[-1])))


# ---- charts ----------------------------------------------------------------------------------------------------------


def _level_charts(view: View) -> dict[str, Chart]:
    """Return top-1 by level with all images (Fig. 3a, D)."""
    own = _whole(view)
    return {"": _lines(view, own, "level")} if own else {}


def _relative_charts(view: View) -> dict[str, Chart]:
    """Return differences to the baseline by level; of many models by category, on one scale (Fig. 3b to 3e)."""
    own = _whole(view)
    if not own:
        return {}
    categories: dict[str, dict[str, Key]] = defaultdict(dict)
    for model, key in view.keys.items():
        if model != view.baseline:
            categories[key.group if len(view.keys) > FEW else ""][model] = key
    base, span = {view.baseline: view.keys[view.baseline]}, list(_lines(view, own, "level").ends())
    every = categories or {"": {}}
    views = {name: replace(view, keys={**members, **base}) for name, members in every.items()}
    return {name: _lines(each, own, "level", include=span) for name, each in views.items()}


def _whole(view: View) -> list[LevelScore]:
    """Return the scores with all images, without controls."""
    return [score for score in view.scores if score.shots == ALL and not score.control]


def _few_shot_charts(view: View) -> dict[str, Chart]:
    """Return top-1 over images per concept by level, on one scale (Fig. 4, F), or relative to the baseline (Fig. G)."""
    if len(order_shots(view.scores)) < 2:
        return {}
    own = {level: [s for s in view.scores if s.level == level] for level in view.few_shot or spread(view.levels)}
    span = [end for part in own.values() for end in _lines(view, part, "shots").ends()]
    return {level: _lines(view, part, "shots", f" on {level}", span) for level, part in own.items()}


def _lines(view: View, scores: Sequence[LevelScore], x: str, on: str = "", include: Sequence[float] = ()) -> Lines:
    """Return one line per model over levels or over shots; of differences if the view has a baseline."""
    scores = [score for score in scores if score.model in view.keys]
    if view.baseline:
        y = Axis(f"points over {view.names[view.baseline]}{on}", "points", include)
        rows = [
            {**_row(view, score), **interval_fields(gap, 100), "difference": f"{100 * gap.value:+.2f}"}
            for score, gap in relative_to(scores, view.baseline)
        ]
    else:
        y = Axis(f"top-1{on}" if on else "top-1 accuracy", include=include)
        rows = [{**_row(view, score), **interval_fields(score.interval)} for score in scores]
    axis = Axis(kind="names")
    if x == "shots":
        axis = Axis("images per concept", "names", order=[str(shots) for shots in reversed(order_shots(scores))])
    return Lines(rows=rows, keys=[*view.keys.values()], x=x, x_axis=axis, y=y, tooltip=_TOOLTIP, height=_HEIGHT)


def _row(view: View, score: LevelScore) -> Values:
    return {
        "model": score.model,
        "group": view.keys[score.model].group,
        "name": view.keys[score.model].label,
        "level": score.level,
        "shots": str(score.shots),
        "shown": score.text,
        "images": score.images,
    }


def _image_charts(view: View) -> dict[str, Chart]:
    """Return training images per concept, concepts sorted, one line per level (supplement, Fig. E)."""
    rows: list[Values] = []
    own = [score for score in view.concepts if score.model == view.concepts[0].model]
    for level in order_levels(score.level for score in own):
        counts = sorted((score.train_images for score in own if score.level == level), reverse=True)
        # Every fifth of a thousand concepts gives the same line.
        places = range(0, len(counts), max(1, len(counts) // 200))
        rows += [{"level": level, "concepts": i + 1, "value": counts[i]} for i in places]
    chart = Lines(
        rows=rows,
        series="level",
        x="concepts",
        x_axis=Axis("concepts, from most to fewest images", "number"),
        y=Axis("training images", "number"),
        points=False,
        steps=True,
        height=_HEIGHT,
    )
    return {"": chart} if rows else {}


def _distance_charts(view: View) -> dict[str, Chart]:
    """Return accuracy per unseen concept over its similarity to the nearest seen one.

    Every model has a line; the points are those of the first model, because those of all would hide each other.
    """
    models = [model for model in view.keys if model in view.lines]
    first = [score for score in view.concepts if score.level != SEEN and models and score.model == models[0]]
    rows: list[Values] = [
        {"concept": one.name, "level": one.level, "similarity": round(one.similarity, 4), "nearest": one.nearest}
        | {"model": one.model, "group": view.keys[one.model].group, "name": view.keys[one.model].label}
        | {"value": round(one.accuracy, 4)}
        for one in sorted(first, key=lambda one: (-one.similarity, one.concept))
    ]
    if not rows:
        return {}
    fits = [
        {"model": m, "group": view.keys[m].group, "name": view.keys[m].label, "similarity": x}
        | {"value": view.lines[m].intercept + view.lines[m].slope.value * x}
        for m in models
        for x in (rows[-1]["similarity"], rows[0]["similarity"])
    ]
    chart = Scatter(
        rows=rows,
        keys=[view.keys[model] for model in models],
        x="similarity",
        x_axis=Axis("similarity to the nearest seen concept", "number"),
        y=Axis("accuracy on the concept"),
        lines=fits,
        tooltip=_CONCEPT_TOOLTIP,
        height=340,
    )
    return {"": chart}


def finetune_chart(found: Sequence[Ratio]) -> Lines | None:
    """Return frozen accuracy relative to fine-tuned, by level (supplement, Fig. B)."""
    rows = [
        {"model": r.frozen.model, "name": r.name, "level": r.frozen.level, "shown": f"{r.ratio.value:.3f}"}
        | interval_fields(r.ratio)
        for r in found
    ]
    axis = Axis("frozen / fine-tuned top-1", "number")
    return Lines(rows=rows, x="level", y=axis, rule=1.0) if rows else None


def _ranking_chart(
    ranked: Iterable[tuple[float, str, str]], name: Callable[[str], str], picture: Callable[[str], str], y: str
) -> Strip:
    """Return concepts by similarity to the seen ones, levels in colour, gaps in grey, with a few pictures (Fig. 2).

    Args:
        ranked: similarity, id and level ("" in a gap) of each concept.
        name, picture: of an id.
        y: title of the similarity.
    """
    rows = [
        {"name": name(concept), "value": value, "level": level, "picture": "", "id": concept}
        for value, concept, level in sorted(ranked, key=lambda item: (-item[0], item[1]))
    ]
    for level in dict.fromkeys(row["level"] for row in rows if row["level"]):
        own = [row for row in rows if row["level"] == level]
        for row in (own[len(own) // 4], own[3 * len(own) // 4]):
            row["picture"] = picture(str(row["id"]))
    return Strip(rows=rows, section="level", between="left out", x="eligible concepts, the most similar first", y=y)


# ---- figures by name -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Request:
    """The results, and the choices of the user.

    Attributes:
        results: of the benchmarks `cog` and `cog-finetune`.
        cards: model cards by id.
        baseline: name or id of the model that others are compared with; by default the first one that was trained.
        models: names, ids or patterns of the models to show; by default all.
        levels: levels of few-shot charts; by default the first, the middle and the last, and "all" for every one.
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
    levels: Sequence[str] = ()
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
        found = settings(self.results, benchmark)
        if not found:
            what, command = ("CoG results", "run") if benchmark == "cog" else ("results of fine-tuning", "finetune")
            raise DataError(f"there are no {what} of that study yet. Make some with: unseen cog {command}")
        return found

    def view(self, *, relative: bool = False) -> View:
        """Return the results to show, with a baseline if the chart is `relative` to one."""
        view = self.every_model(only(self.groups(), self.setting))
        base = self.base(view) if relative else ""
        unseen = [level for level in view.levels if level != SEEN]
        levels = view.levels if self.levels == ["all"] else list(self.levels) or spread(unseen or view.levels)
        if unknown := set(levels).difference(view.levels):
            raise UnknownNameError("level with results", min(unknown), view.levels)
        return replace(view, keys=self.chosen(view.keys, base), baseline=base, few_shot=levels)

    def every_model(self, group: Group) -> View:
        """Return the results of all models, whose legend entries have their categories."""
        models, cards = list(group.by_model()), self.cards or {}
        keys = series_keys(models, short_names(models, cards), cards)
        categories = {model: replace(key, group=family(model, cards)) for model, key in keys.items()}
        return View.of(group, categories, self.picture)

    def chosen(self, keys: Mapping[str, Key], base: str = "") -> dict[str, Key]:
        """Return the legend entries of the requested models and of `base`."""
        own = {model: key for model, key in keys.items() if self._matches(model, key)}
        if not own:
            raise UnknownNameError("model", ", ".join(self.models), keys)
        return own | ({base: keys[base]} if base else {})

    def _matches(self, model: str, key: Key) -> bool:
        label = key.label.lower()
        return not self.models or any(fnmatchcase(model, p) or fnmatchcase(label, p.lower()) for p in self.models)

    def base(self, view: View) -> str:
        """Return the id of the baseline."""
        if self.baseline is None:
            return view.reference
        for model, name in view.names.items():
            if self.baseline in (model, name):
                return model
        raise UnknownNameError("model with results", self.baseline, view.names)

    def class_picture(self, identifier: str) -> str:
        """Return the picture of the class of `data` with a WordNet id; "" if there is none."""
        if self.data is None or identifier not in self.data.wnids:
            return ""
        return self.picture(self.data.id, self.data.class_names[self.data.wnids.index(identifier)])


def _draw_view(figure: CogFigure, request: Request) -> Drawn:
    """Return the charts of a figure side by side, and its sentences."""
    view = request.view(relative=figure.relative)
    charts = figure.charts(view)
    if not charts:
        raise DataError(figure.missing)
    panels = Panels(charts=list(charts.values()), titles=list(charts))
    return panels if len(charts) > 1 else panels.charts[0], figure.sentences(view)


def _level_sentences(view: View) -> list[str]:
    sentences = [text] if (text := answer(view.fall, None, view.controls)) else []
    return sentences + _trend_sentences(view)


def _trend_sentences(view: View) -> list[str]:
    return trend_sentences(view.scores, view.concepts, view.names)


def _draw_rankings(request: Request) -> Drawn:
    """Draw one model on levels cut by several measures, with the mean of random draws (supplement, Fig. C)."""
    groups = request.groups()
    if any(set(group.differs) - {"measure", "rerank"} for group in groups):
        raise UsageError(
            f"these runs differ in more than how concepts are ranked ({', '.join(groups[0].differs)}); file runs that "
            "differ in --measure and --rerank alone under a study of their own with --study."
        )
    view = request.every_model(groups[0])
    base = request.base(view)
    rows: list[Values] = []
    sentences: list[str] = []
    controls: list[float] = []
    for group in groups:
        own = [s for s in level_scores(group.results) if s.model == base and s.shots == ALL]
        measure, rerank = group.setting.get("measure", ""), group.setting.get("rerank", "")
        name = f"{measure}, re-ranked by {rerank}" if rerank else str(measure)
        ranked = [score for score in own if not score.control]
        rows += [{"ranking": name, "level": s.level, "shown": s.text, **interval_fields(s.interval)} for s in ranked]
        sentences.append(f"{name}: " + ", ".join(f"{s.level} {s.text}" for s in ranked))
        controls += [score.mean for score in own if score.control]
    chart = Lines(
        rows=rows,
        series="ranking",
        x="level",
        y=Axis(f"top-1 of {view.names[base]}"),
        rule=sum(controls) / len(controls) if controls else None,
        band=(min(controls), max(controls)) if controls else None,
        band_text=f"{len(controls)} random draws",
        height=_HEIGHT,
    )
    return chart, sentences


def _draw_finetuning(request: Request) -> Drawn:
    group = only(request.groups("cog-finetune"), request.setting)
    names = {model: key.label for model, key in request.chosen(request.every_model(group).keys).items()}
    found = ratios(group, request.groups(), names)
    chart = finetune_chart(found)
    if chart is None:
        raise DataError("no frozen probes on the same concepts are in that study; `unseen cog finetune` makes both.")
    return chart, [f"{r.name}, {r.frozen.level}: frozen / fine-tuned {r.ratio.value:.3f}" for r in found]


def _draw_ranking(request: Request) -> Drawn:
    if request.file is not None:
        levels = Levels.load(request.file)
        ranked = [(c.similarity, c.id, level.name) for level in levels.levels for c in level.concepts]
        ranked += [(c.similarity, c.id, "") for gap in levels.gaps for c in gap]
        known = [(similarity, one, level) for similarity, one, level in ranked if similarity is not None]
        if not known:
            raise DataError("those levels hold no similarities, so they have no ranking to draw.")
        gaps = sum(not level for *_, level in known)
        sentence = f"{len(known):,} eligible concepts in {len(levels.levels)} levels; {gaps:,} fell into gaps."
        title = f"{levels.measure} similarity to the nearest seen concept"
        return _ranking_chart(known, _label, request.class_picture, title), [sentence]
    view = request.view()
    own = {s.concept: s for s in view.concepts if s.level != SEEN}
    account = CogDetails.of(view.group.results[0]).domains
    chart = _ranking_chart(
        [(s.similarity, s.concept, s.level) for s in own.values()],
        lambda concept: own[concept].name,
        lambda concept: view.picture(own[concept].dataset, own[concept].name),
        f"{account.measure} similarity to {account.seen}",
    )
    return chart, []


def _draw_kin(request: Request) -> Drawn:
    """Draw concepts by their similarity to one, the nearest first (Fig. 1a)."""
    if not request.concept:
        raise UsageError("whose kin? Give a concept, such as --concept 'tiger cat'.")
    wordnet = load_wordnet()
    wnid = wordnet.find(request.concept)
    # Of several senses the one that ImageNet has pictures of: a leopard, not its pelt.
    senses = [] if request.concept == wnid else [wnid, *wordnet.senses(request.concept)]
    wnid = next((s for known in (imagenet_1k(), imagenet_21k()) for s in senses if s in set(known)), wnid)
    classes = request.data.wnids if request.data is not None else imagenet_21k()
    ids = {wordnet.label(one): one for one in classes if one and one in wordnet and one != wnid}
    similar = similarity_matrix(wordnet, [wnid], list(ids.values()), "lin", ic=corpus_information(wordnet))[0]
    evenly = np.linspace(similar.max(), similar.min(), _KIN)
    chosen = np.unique(np.abs(similar[:, None] - evenly).argmin(axis=0))
    kin = sorted(((float(similar[i]), list(ids)[i]) for i in chosen), reverse=True)
    rows = [
        {"name": name, "value": value, "shown": f"{value:.2f}", "picture": request.class_picture(ids[name])}
        for value, name in kin
    ]
    axis = Axis(f"Lin similarity to {_label(wnid)}", "number", include=(0.0, 1.0), zero=True)
    chart = Bars(rows=rows, series="", x=axis, pictures="picture" if any(row["picture"] for row in rows) else "")
    return chart, [f"{row['name']}: {row['value']:.3f}" for row in rows]


@dataclass(frozen=True)
class CogFigure:
    """A figure of the results of one setting, on the page and for `unseen cog chart`.

    Attributes:
        charts: its charts by title; none if the results lack what it shows.
        sentences: what it shows in words.
        missing: what to do if there are no charts.
        relative: whether it compares with a baseline.
    """

    title: str
    charts: Callable[[View], Mapping[str, Chart]]
    sentences: Callable[[View], Sequence[str]] = lambda view: ()
    missing: str = ""
    caption: str = ""
    relative: bool = False
    wide: bool = False


_MORE_SHOTS = "few-shot charts need several numbers of shots. Run with --shots 1 2 4 all."
VIEW_FIGURES: Mapping[str, CogFigure] = {
    "levels": CogFigure(
        "Top-1 by level",
        _level_charts,
        _level_sentences,
        "that study has no results with all training images. Run it with --shots all.",
        wide=True,
    ),
    "relative": CogFigure(
        "Relative to a baseline",
        _relative_charts,
        missing="that study has no results with all training images. Run it with --shots all.",
        relative=True,
    ),
    "distance": CogFigure(
        "Every unseen concept against its distance",
        _distance_charts,
        _trend_sentences,
        "a line through concepts needs three unseen ones or more with accuracies of their own.",
        "A point per concept, of one model; a line per model. Point at a concept to see its name.",
        wide=True,
    ),
    "few-shot": CogFigure("Few-shot", _few_shot_charts, missing=_MORE_SHOTS),
    "few-shot-relative": CogFigure("Few-shot, relative", _few_shot_charts, missing=_MORE_SHOTS, relative=True),
    "images": CogFigure("Training images per concept", _image_charts, missing="no result has images per concept."),
}
#: Every figure by its name.
FIGURES: Mapping[str, Callable[[Request], Drawn]] = {
    "kin": _draw_kin,
    "ranking": _draw_ranking,
    "rankings": _draw_rankings,
    "finetune": _draw_finetuning,
    **{name: partial(_draw_view, figure) for name, figure in VIEW_FIGURES.items()},
}


def draw(kind: str, request: Request) -> Drawn:
    """Return the figure of a name, and sentences on what it shows.

    Raises:
        UnknownNameError: an unknown kind or model.
        DataError: there are no results for it.
    """
    if kind not in FIGURES:
        raise UnknownNameError("chart", kind, FIGURES)
    return FIGURES[kind](request)


def _label(identifier: str) -> str:
    wordnet = load_wordnet()
    return wordnet.label(identifier) if identifier in wordnet else identifier
