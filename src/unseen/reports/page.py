"""The page: one HTML file that holds its text, charts, scripts and data, and asks the network for nothing.

A content security policy inside the file makes the browser hold it to that. The same results give the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date as Date
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unseen.core.files import write_whole
from unseen.core.identity import canonical_json
from unseen.core.records import Cell, DatasetCard, ModelCard, Result
from unseen.core.registry import load_object
from unseen.reports.blocks import Headline, Material, Section, SectionBuilder
from unseen.reports.overview import overview_section, ranking
from unseen.reports.provenance import PackedResults, provenance_section, result_data
from unseen.reports.record_section import problems_section
from unseen.reports.theme import Pictures, javascript, packed, script_json
from unseen.reports.wording import counted, typeset

if TYPE_CHECKING:
    from jinja2 import Template


#: Settings of one benchmark whose answers a page opens with; the section has them all.
_SETTINGS = 4


@dataclass(frozen=True)
class Page:
    """A page before it is written.

    Attributes:
        sections: in its order.
        title: the heading.
        counts: what it is made of, such as "4 models".
        data: results for the browser, or the "files" to download, texts by their ending.
        order: models, best first, for "the best k".
        date: the day to put on it.
    """

    sections: Sequence[Section]
    title: str
    counts: Sequence[str] = ()
    data: PackedResults | Mapping[str, Any] = field(default_factory=dict)
    order: Sequence[str] = ()
    date: Date | None = None

    @property
    def headlines(self) -> list[tuple[str, Headline]]:
        """The answers in the order of the page, each with the anchor of its section; of many settings the first few."""
        return [(section.anchor, headline) for section in self.sections for headline in section.headlines[:_SETTINGS]]

    def write(self, path: Path | str) -> Path:
        """Write it, whole or not at all.

        Raises:
            StoreError: the file cannot be written.
        """
        pictures = Pictures()
        # Vega replaces the container's label by the description of the chart.
        specs = {
            f"{s.anchor}-{n}": {**f.vega, "description": f.description}
            for s in self.sections
            for n, f in enumerate(s.figures)
        }
        drawn = packed(pictures.taken_out(specs)) if specs else ""
        if isinstance(self.data, PackedResults):
            ids, data = self.data.ids, self.data.text
        else:
            ids, data = (), packed(dict(self.data)) if self.data else ""
        cells = {each: place for place, each in enumerate(ids)}
        page = _template().render(
            title=self.title,
            date=f"{self.date.day} {self.date:%B %Y}" if self.date else "",
            counts=self.counts,
            headlines=self.headlines,
            sections=self.sections,
            places=lambda ids: " ".join(str(cells[each]) for each in ids if each in cells),
            picture=pictures.number,
            has_cells=bool(cells),
            has_data=bool(data),
            models=len(self.order),
            style=_read("style.css"),
            vega=javascript() if specs else "",
            script=f"(() => {{{_read('page.js')}{_read('cells.js')}}})();",
            page=script_json({"stem": _stem(self.title), "order": list(self.order)}),
            specs=drawn,
            data=data,
            pictures=lambda: packed(list(pictures.numbers)) if pictures.numbers else "",
        )
        target = Path(path)
        write_whole(target, page.encode())
        return target


def make_page(
    results: Sequence[Result],
    *,
    sections: Callable[[str], str],
    title: str,
    cards: Mapping[str, ModelCard] | None = None,
    dataset_cards: Mapping[str, DatasetCard] | None = None,
    picture: Callable[[str, str], str] | None = None,
    command: Callable[[Cell], str] | None = None,
    papers: Callable[[Cell], Sequence[str]] | None = None,
    order: Sequence[str] = (),
    date: Date | None = None,
) -> Page:
    """The page of some results.

    Args:
        results: the newest of each cell, failures among them, in any order.
        sections: gives the "module:function" that makes the section of a benchmark.
        title: the heading.
        cards, dataset_cards: what is known of models and datasets, by id.
        picture: gives a small picture of a class, by dataset and class name, as a data: address.
        command: gives the command that computes a cell anew.
        papers: gives what to cite for a cell, beside its model and dataset.
        order: benchmarks in the order of their sections; others follow by name.
        date: the day to put on it; none by default, so that the same results give the same page.
    """
    ordered = _ordered(results)
    given = {"picture": picture, "command": command, "papers": papers}
    material = Material(ordered, dict(cards or {}), dict(dataset_cards or {}))
    material = replace(material, **{name: value for name, value in given.items() if value})  # type: ignore[arg-type]
    built = build_sections(material, sections, order)
    standings = [standing for section in built for standing in section.standings]
    ranked = ranking(standings) if len({standing.model for standing in standings}) > 1 else []
    return Page(built, title, _counts(ordered), result_data(material), ranked, date)


def write_page(results: Sequence[Result], path: Path | str, **options: Any) -> Path:
    """Write the page of some results, whole or not at all; `options` are those of `make_page`.

    Raises:
        StoreError: the file cannot be written.
    """
    return make_page(results, **options).write(path)


def build_sections(material: Material, sections: Callable[[str], str], order: Sequence[str] = ()) -> list[Section]:
    """All sections in the order of the page: the comparison, one per benchmark, what went wrong, provenance."""
    found = []
    places = {name: place for place, name in enumerate(order)}
    named = {result.cell.benchmark for result in material.results}
    for benchmark in sorted(named, key=lambda name: (places.get(name, len(places)), name)):
        builder: SectionBuilder = load_object(sections(benchmark))
        section = builder(material, benchmark)
        if section is not None:
            found.append(section)
    if not material.results:
        found.append(
            Section("No results yet", "empty", prose=["Run a study, and this page will show what came of it."])
        )
    several = len({standing.model for section in found for standing in section.standings}) > 1
    overview = overview_section(found, material) if several else None
    first = [overview] if overview else []
    return [*first, *found, problems_section(material), provenance_section(material)]


def _ordered(results: Sequence[Result]) -> list[Result]:
    """The order of the page, whatever that of arrival: older revisions before newer ones, so that these still count."""
    last = {(name, digest): place for place, r in enumerate(results) for name, digest in _revisions(r.cell)}
    times: dict[str, list[int]] = {}
    for (name, _), place in sorted(last.items(), key=lambda item: item[1]):
        times.setdefault(name, []).append(place)

    def key(result: Result) -> tuple[Any, ...]:
        cell = result.cell
        ages = [times[name].index(last[name, digest]) - len(times[name]) for name, digest in _revisions(cell)]
        return *ages, cell.benchmark, cell.dataset, cell.model, canonical_json(dict(cell.parameters)), cell.version

    return sorted(results, key=key)


def _revisions(cell: Cell) -> tuple[tuple[str, str], tuple[str, str]]:
    weights, _, data = cell.revision.partition("+")
    return (f"model {cell.model}", weights), (f"dataset {cell.dataset}", data)


def _counts(results: Sequence[Result]) -> list[str]:
    """What the page is made of."""
    failed = sum(not result.ok for result in results)
    counts = [
        counted(len({result.cell.model for result in results}), "model"),
        counted(len({result.cell.dataset for result in results}), "dataset"),
        counted(len(results), "cell"),
    ]
    counts += [counted(failed, "failed cell")] if failed else []
    return counts


def _stem(title: str) -> str:
    """How files that are saved from the page begin."""
    return "-".join("".join(c if c.isalnum() else " " for c in title.lower()).split())[:60].strip("-") or "results"


def _read(name: str) -> str:
    return (files("unseen.reports") / name).read_text(encoding="utf-8")


@cache
def _template() -> Template:
    from jinja2 import Environment, StrictUndefined

    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=StrictUndefined)
    environment.filters["typeset"] = typeset
    return environment.from_string(_read("template.html"))
