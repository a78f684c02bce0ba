"""What a page is made of: sections of prose, figures and tables, as plain values.

A section builder looks at the material and says what it has to say, or None. It knows neither HTML nor files; the
page knows neither benchmarks nor metrics. Whatever text it holds is escaped by the page.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Protocol

from unseen.core.records import Cell, DatasetCard, ModelCard, Result
from unseen.reports.charts import legend_of, model_keys, model_names


@dataclass(frozen=True)
class Material:
    """All that a page can be made from.

    Attributes:
        results: the newest of each cell, failures among them.
        cards, dataset_cards: what is known of models and datasets, by id; those missing are shown by their id.
        picture: gives a small picture of a class, by dataset and class name, as a data: address; "" where there is
            none.
        command: gives the command that computes a cell anew; "" where it is not known.
        papers: gives what to cite for a cell, beside its model and dataset.
    """

    results: Sequence[Result]
    cards: Mapping[str, ModelCard] = field(default_factory=dict)
    dataset_cards: Mapping[str, DatasetCard] = field(default_factory=dict)
    picture: Callable[[str, str], str] = lambda dataset, name: ""
    command: Callable[[Cell], str] = lambda cell: ""
    papers: Callable[[Cell], Sequence[str]] = lambda cell: ()

    #: One name, colour and symbol per model, everywhere; the name alone; the legend entries of some models.
    keys = cached_property(model_keys)
    names = property(model_names)
    legend = legend_of


@dataclass(frozen=True)
class Figure:
    """A chart.

    Attributes:
        spec: a Vega-Lite specification with its data inside, as `charts.to_spec` gives it.
        description: what it shows, in words, for those who cannot see it.
        wide: whether it takes a row of its own.
        folded: whether it is shown, and drawn, only when asked for: together with the others of its section.
    """

    title: str
    spec: Mapping[str, Any]
    description: str
    caption: str = ""
    wide: bool = False
    folded: bool = False


@dataclass(frozen=True)
class Key:
    """One entry of the legend that the figures of a section share.

    Attributes:
        key: what the marks have as their `model`; with the pointer on the entry, charts and tables show it alone.
        group: what the legend lists it under; marks may have it as their `group`.
    """

    label: str
    colour: str
    symbol: str = "●"
    key: str = ""
    group: str = ""


@dataclass(frozen=True)
class TableCell:
    """One cell of a table.

    Attributes:
        sort: what the column is sorted by; None sorts last.
        note: a second, smaller line.
        hint: shown on hover.
        picture: a data: address of a small picture to show before the text.
        cells: ids of the cells that the number comes from; a click shows them.
    """

    text: str
    sort: float | str | None = None
    best: bool = False
    note: str = ""
    hint: str = ""
    picture: str = ""
    cells: Sequence[str] = ()


@dataclass(frozen=True)
class Headline:
    """The answer to one question, in a sentence: what a page opens with, and what the demo prints.

    Attributes:
        question: a few words, such as "Unseen concepts".
        text: the sentence, with its interval.
        sure: how sure that is, in a word or two.
        clear: whether it is sure enough to act on.
    """

    question: str
    text: str
    sure: str = ""
    clear: bool = False


@dataclass(frozen=True)
class Standing:
    """Where a model stands in one question, as a share between 0 and 1 with its 95 % interval.

    Attributes:
        question: what is measured, the same for all models; heads a row of the comparison.
        cells: ids of the cells that it comes from.
    """

    question: str
    model: str
    value: float
    low: float
    high: float
    cells: Sequence[str] = ()


@dataclass(frozen=True)
class Table:
    """A table whose columns can be sorted.

    Attributes:
        numeric: positions of columns that are set flush right.
        row_keys: one per row, or none: charts highlight the marks whose `model` is the key under the pointer.
        folded: whether it is shown only when asked for.
    """

    caption: str
    columns: Sequence[str]
    rows: Sequence[Sequence[TableCell]]
    numeric: Collection[int] = ()
    row_keys: Sequence[str] = ()
    folded: bool = False


@dataclass(frozen=True)
class Section:
    """One part of the page.

    Attributes:
        anchor: the end of its address; unique in the page.
        answer: what the section comes to, set large and first; pairs of (lead, text), leads may be empty.
        prose: paragraphs.
        points: pairs of (lead, text): a list whose leads are set in bold.
        headlines: what the page opens with.
        standings: where each model stands, for the comparison over all questions.
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

    @property
    def legend_groups(self) -> list[tuple[str, list[Key]]]:
        """The legend by group, in order of appearance."""
        found: dict[str, list[Key]] = {}
        for key in self.legend:
            found.setdefault(key.group, []).append(key)
        return list(found.items())

    @classmethod
    def joined(
        cls,
        parts: Sequence[tuple[str, Section]],
        *,
        title: str,
        anchor: str,
        prose: Sequence[str] = (),
        legend: Sequence[Key] = (),
        tables: Sequence[Table] = (),
    ) -> Section:
        """One section of several settings, shown one after the other, each with the words that tell it apart.

        Args:
            parts: pairs of (words, section); words are empty where there is one setting only.
            prose, legend, tables: what goes for all of them; tables come last.
        """

        def named(text: str, words: str) -> str:
            return f"{text} · {words}" if words and text else text or words

        told = [f"These are results of {len(parts)} settings, which do not compare and are shown apart: "]
        told[0] += "; ".join(f"({number}) {words}" for number, (words, _) in enumerate(parts, 1)) + "."
        said = dict.fromkeys(text for _, part in parts for text in part.prose)
        return cls(
            title=title,
            anchor=anchor,
            prose=[*(told if len(parts) > 1 else []), *said, *(text for text in prose if text)],
            answer=[(named(lead, words), text) for words, part in parts for lead, text in part.answer],
            points=[(named(lead, words), text) for words, part in parts for lead, text in part.points],
            headlines=[replace(h, question=named(h.question, words)) for words, part in parts for h in part.headlines],
            standings=[replace(s, question=named(s.question, words)) for words, part in parts for s in part.standings],
            legend=legend,
            figures=[replace(f, title=named(f.title, words)) for words, part in parts for f in part.figures],
            tables=[
                *(replace(t, caption=named(t.caption, words)) for words, part in parts for t in part.tables),
                *tables,
            ],
        )


class SectionBuilder(Protocol):
    """Makes the section of one benchmark from all material (it takes the results that are its own)."""

    def __call__(self, material: Material, benchmark: str) -> Section | None: ...
