"""The contents of a page: sections of prose, figures and tables, as plain values.

A section builder makes the section of one benchmark from the material, or returns None. It knows neither HTML nor
files; the page knows neither benchmarks nor metrics. The page escapes all texts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Generic, Protocol, TypeVar

from unseen.core.identity import Values
from unseen.core.records import Cell, DatasetCard, ModelCard, Result
from unseen.reports.charts import Chart
from unseen.reports.theme import Key as Key
from unseen.reports.theme import series_keys, to_spec, without_legends
from unseen.reports.wording import short_names
from unseen.results.table import Table as Table
from unseen.results.table import TableCell as TableCell
from unseen.stats import Candidate, Interval


@dataclass(frozen=True)
class Material:
    """Everything that a page is made from.

    Attributes:
        results: the newest of each cell, including failures.
        cards, dataset_cards: cards of models and datasets, by id; those without one are shown by their id.
        picture: gives a small picture of a class, by dataset and class name, as a data: address; "" if there is none.
        command: gives the command that computes a cell again; "" if it is unknown.
        papers: gives what to cite for a cell, beside its model and dataset.
        options: by benchmark, the options of the study that change no number, such as what to prefer.
    """

    results: Sequence[Result]
    cards: Mapping[str, ModelCard] = field(default_factory=dict)
    dataset_cards: Mapping[str, DatasetCard] = field(default_factory=dict)
    picture: Callable[[str, str], str] = lambda dataset, name: ""
    command: Callable[[Cell], str] = lambda cell: ""
    papers: Callable[[Cell], Sequence[str]] = lambda cell: ()
    options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @cached_property
    def keys(self) -> Mapping[str, Key]:
        """Return one name, colour and symbol per model, for every chart and table of a page."""
        models = list(dict.fromkeys(result.cell.model for result in self.results))
        return series_keys(models, short_names(models, self.cards), self.cards)

    @property
    def names(self) -> dict[str, str]:
        """Return the short name per model."""
        return {model: key.label for model, key in self.keys.items()}

    @cached_property
    def dataset_names(self) -> dict[str, str]:
        """Return the short name per dataset."""
        return short_names({result.cell.dataset for result in self.results}, self.dataset_cards)

    def legend(self, models: Iterable[str]) -> list[Key]:
        """Return the legend entries of some models, in the order of the page; none if there is one model only."""
        own = set(models)
        found = [key for model, key in self.keys.items() if model in own]
        return found if len(found) > 1 else []


@dataclass(frozen=True)
class Figure:
    """A chart.

    Attributes:
        spec: a chart of `unseen.reports.charts`, or a Vega-Lite specification with its data inside; stored as the
            latter. A chart whose series are models has no legend: the section has one for all its charts.
        description: alternative text: what the chart shows, in words. The values of the chart if "".
        wide: whether it has a row for itself.
        folded: whether the page hides it until the reader opens the folded figures of the section.
    """

    title: str
    spec: Chart | Mapping[str, Any]
    description: str = ""
    caption: str = ""
    wide: bool = False
    folded: bool = False

    def __post_init__(self) -> None:
        if isinstance(self.spec, Chart):
            spec = to_spec(self.spec)
            object.__setattr__(self, "description", self.description or f"{self.title}: {self.spec.words()}.")
            object.__setattr__(self, "spec", without_legends(spec) if self.spec.shows_models else spec)

    @property
    def vega(self) -> Mapping[str, object]:
        """Return the Vega-Lite specification."""
        assert isinstance(self.spec, Mapping)
        return self.spec


@dataclass(frozen=True)
class Headline:
    """The answer to one question, in a sentence, at the top of a page and in the output of the demo.

    Attributes:
        question: a few words, such as "Unseen concepts".
        text: the sentence, with its confidence interval.
        sure: "significant", "statistically tied", or another word or two on the evidence.
        clear: whether the statement is significant.
    """

    question: str
    text: str
    sure: str = ""
    clear: bool = False


@dataclass(frozen=True, eq=False)
class Standing:
    """The value of a model in one question, for the comparison over all questions.

    Attributes:
        question: what is measured, the same for all models; heads a row of the comparison.
        candidate: the value, a share between 0 and 1, with its interval, and its outcomes per image if they are known.
        cells: ids of the cells that it comes from.
    """

    question: str
    model: str
    candidate: Candidate
    cells: Sequence[str] = ()

    @property
    def interval(self) -> Interval:
        assert self.candidate.interval is not None
        return self.candidate.interval

    @property
    def value(self) -> float:
        return self.interval.value


@dataclass(frozen=True)
class Section:
    """One part of the page.

    Attributes:
        anchor: the end of its address; unique in the page.
        answer: the conclusion, set large and first; pairs of (lead, text), leads may be empty.
        prose: paragraphs.
        points: pairs of (lead, text): a list whose leads are set in bold.
        headlines: sentences for the top of the page.
        standings: the value of each model, for the comparison over all questions.
    """

    title: str
    anchor: str
    prose: Sequence[str] = ()
    points: Sequence[tuple[str, str]] = ()
    legend: Sequence[Key] = ()
    figures: Sequence[Figure] = ()
    tables: Sequence[Table] = ()
    tone: str = ""
    answer: Sequence[tuple[str, str]] = ()
    headlines: Sequence[Headline] = ()
    standings: Sequence[Standing] = ()


def plain_table(
    caption: str, columns: Sequence[str], rows: Iterable[Sequence[str | int | None]], *, folded: bool | None = None
) -> Table:
    """Return a table of texts and counts, which sort as the values do; None is a dash. It is folded if it is long."""

    def cell(value: str | int | None) -> TableCell:
        return TableCell(f"{value:,}", value) if isinstance(value, int) else TableCell(value or "")

    cells = [[cell(value) for value in row] for row in rows]
    return Table(caption, columns, cells, folded=len(cells) > _LONG if folded is None else folded)


#: Rows from which on a table of texts is folded.
_LONG = 12


class SectionBuilder(Protocol):
    """Make the section of one benchmark from the material of the page; `SectionSpec` is one."""

    def __call__(self, material: Material, benchmark: str) -> Section | None: ...


# ---- declarative sections --------------------------------------------------------------------------------------------

S = TypeVar("S")


@dataclass(frozen=True)
class Text:
    """A paragraph of a section.

    Attributes:
        lead: set in bold before the text; the paragraph is then an item of a list.
        answer: whether it is the conclusion, set large and first.
    """

    text: str
    lead: str = ""
    answer: bool = False


#: What a block contributes to a section; a string is a paragraph.
Part = Figure | Table | Text | Headline | Standing
#: A function from what is known of a setting to parts of the section.
Block = Callable[[S], Part | str | Iterable[Part | str] | None]


def _parts(found: Part | str | Iterable[Part | str] | None) -> list[Part]:
    listed = [] if found is None else [found] if isinstance(found, Part | str) else found
    return [Text(part) if isinstance(part, str) else part for part in listed]


def folded(block: Block[S]) -> Block[S]:
    """Return a block whose tables are hidden until the reader opens them."""
    return lambda setting: [replace(part, folded=True) for part in _parts(block(setting)) if isinstance(part, Table)]


def _name(part: Part, words: str) -> Part:
    """Return a part whose title contains the words of its setting; paragraphs without a lead stay unchanged."""
    if isinstance(part, Text) and not part.lead and not part.answer:
        return part
    title = _TITLES[type(part)]
    changed: Values = {title: " · ".join(filter(None, (getattr(part, title), words)))}
    return replace(part, **changed)


#: The field with the title of a part.
_TITLES = {Text: "lead", Figure: "title", Table: "caption", Headline: "question", Standing: "question"}
#: Figures of a section that a reader sees without opening the others.
_OPEN_FIGURES = 2


def assemble(title: str, anchor: str, parts: Iterable[Part], legend: Sequence[Key] = ()) -> Section:
    """Return the section of some parts, each kind in the order of its parts; empty and repeated texts are skipped.

    All figures but the first two are folded, so that a reader sees every section within two screens.
    """
    found: dict[type, list[Any]] = {kind: [] for kind in _TITLES}
    for part in parts:
        found[type(part)].append(part)
    texts = [text for text in found[Text] if text.text]
    opened = [figure for figure in found[Figure] if not figure.folded][:_OPEN_FIGURES]
    return Section(
        title=title,
        anchor=anchor,
        answer=[(text.lead, text.text) for text in texts if text.answer],
        prose=list(dict.fromkeys(text.text for text in texts if not text.answer and not text.lead)),
        points=[(text.lead, text.text) for text in texts if not text.answer and text.lead],
        headlines=found[Headline],
        standings=found[Standing],
        legend=legend,
        figures=[figure if figure in opened else replace(figure, folded=True) for figure in found[Figure]],
        tables=found[Table],
    )


@dataclass(frozen=True)
class SectionSpec(Generic[S]):
    """A section of the page, declared: what it is called, its settings, and its blocks in order.

    An instance is a `SectionBuilder`: a benchmark names it as "module:NAME" in `BenchmarkInfo.section`.

        SECTION = SectionSpec(
            title="Probe: top-1 accuracy by level",
            settings=probe_settings,
            blocks=(
                lambda s: Text(answer(s), answer=True),
                lambda s: Figure("Top-1 by level", Lines(rows=s.rows, keys=s.keys, x="level", y=Axis("top-1"))),
                folded(lambda s: s.tables),
            ),
        )

    Attributes:
        settings: from the material and the name of the benchmark to the settings that do not compare and are shown one
            after the other: the words that distinguish one ("" for a single one), and what its blocks receive. No
            setting, no section.
        blocks: of each setting.
        common: blocks of all settings together, after those of the settings; they receive the list of settings.
        models: models of a setting, for the legend.
    """

    title: str
    settings: Callable[[Material, str], Sequence[tuple[str, S]]]
    blocks: Sequence[Block[S]]
    common: Sequence[Block[Sequence[S]]] = ()
    models: Callable[[S], Iterable[str]] = lambda setting: ()

    def __call__(self, material: Material, benchmark: str) -> Section | None:
        found = list(self.settings(material, benchmark))
        if not found:
            return None
        parts = [_name(part, words) for words, each in found for block in self.blocks for part in _parts(block(each))]
        if len(found) > 1:
            named = "; ".join(f"({number}) {words}" for number, (words, _) in enumerate(found, 1))
            about = f"These are results of {len(found)} settings, which do not compare and are shown separately"
            parts.insert(0, Text(f"{about}: {named}."))
        settings = [setting for _, setting in found]
        parts += [part for block in self.common for part in _parts(block(settings))]
        legend = material.legend(model for setting in settings for model in self.models(setting))
        return assemble(self.title, benchmark, parts, legend)
