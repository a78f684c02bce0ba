"""The page: one HTML file that holds its text, charts, scripts and data, and asks the network for nothing.

A content security policy inside the file makes the browser hold it to that. The same results give the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import date as Date
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unseen.core.files import write_whole
from unseen.core.identity import canonical_json
from unseen.core.records import Cell, DatasetCard, ModelCard, Result
from unseen.core.registry import load_object
from unseen.reports.blocks import Material, Section, SectionBuilder
from unseen.reports.charts import javascript, script_json
from unseen.reports.provenance import problems_section, provenance_section
from unseen.reports.wording import counted, duration
from unseen.results.comparability import SEED
from unseen.results.export import long_rows, to_csv, to_json

if TYPE_CHECKING:
    from jinja2 import Template

#: Characters of a detail's JSON; a page with a thousand cells stays small.
_LARGEST_DETAIL = 600


def write_page(
    results: Sequence[Result],
    path: Path | str,
    *,
    sections: Callable[[str], str],
    title: str,
    cards: Mapping[str, ModelCard] | None = None,
    dataset_cards: Mapping[str, DatasetCard] | None = None,
    picture: Callable[[str, str], str] | None = None,
    date: Date | None = None,
) -> Path:
    """Write the page of some results, whole or not at all.

    Args:
        results: the newest of each cell, failures among them, in any order.
        path: the file to write; its folder is made.
        sections: gives the "module:function" that makes the section of a benchmark.
        title: the heading.
        cards, dataset_cards: what is known of models and datasets, by id.
        picture: gives a small picture of a class, by dataset and class name, as a data: address.
        date: the day to put on it; none by default, so that the same results give the same page.

    Returns:
        The path of the page.

    Raises:
        StoreError: the file cannot be written.
    """
    ordered = _ordered(results)
    material = Material(ordered, dict(cards or {}), dict(dataset_cards or {}))
    material = replace(material, picture=picture) if picture else material
    built = build_sections(material, sections)
    return write_sections(built, path, title=title, tiles=_tiles(ordered), exports=_exports(ordered, title), date=date)


def write_sections(
    sections: Sequence[Section],
    path: Path | str,
    *,
    title: str,
    tiles: Sequence[tuple[str, str]] = (),
    exports: Mapping[str, Any] | None = None,
    date: Date | None = None,
) -> Path:
    """Write a page of sections, whole or not at all.

    Args:
        sections: in the order of the page.
        path: the file to write; its folder is made.
        title: the heading.
        tiles: numbers at the top: (figure, what it counts).
        exports: texts to download: "csv" and "json", and the "stem" of their file names; no buttons without them.
        date: the day to put on it.

    Raises:
        StoreError: the file cannot be written.
    """
    page = _template().render(
        title=title,
        date=f"{date.day} {date:%B %Y}" if date else "",
        tiles=tiles,
        sections=sections,
        specs=script_json({f"{s.anchor}-{n}": f.spec for s in sections for n, f in enumerate(s.figures)}),
        exports=script_json(dict(exports or {})),
        downloads=[kind for kind in ("csv", "json") if kind in (exports or {})],
        style=_read("style.css"),
        script=_read("page.js"),
        vega=javascript() if any(section.figures for section in sections) else "",
    )
    target = Path(path)
    write_whole(target, page.encode())
    return target


def build_sections(material: Material, sections: Callable[[str], str]) -> list[Section]:
    """All sections in the order of the page: one per benchmark, then what went wrong, then provenance."""
    found = []
    for benchmark in sorted({result.cell.benchmark for result in material.results}):
        builder: SectionBuilder = load_object(sections(benchmark))
        section = builder(material, benchmark)
        if section is not None:
            found.append(section)
    if not material.results:
        found.append(
            Section("No results yet", "empty", prose=["Run a study, and this page will show what came of it."])
        )
    return [*found, problems_section(material), provenance_section(material)]


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


def _tiles(results: Sequence[Result]) -> list[tuple[str, str]]:
    """The numbers at the top: (figure, what it counts)."""
    failed = sum(not result.ok for result in results)
    seeds = {canonical_json(r.cell.parameters[SEED]) for r in results if SEED in r.cell.parameters}
    counts = [
        counted(len({result.cell.model for result in results}), "model"),
        counted(len({result.cell.dataset for result in results}), "dataset"),
        counted(len(results), "cell"),
    ]
    counts += [counted(len(seeds), "seed")] if seeds else []
    counts += [counted(failed, "failed cell")] if failed else []
    tiles = [(number, label) for number, _, label in (text.partition(" ") for text in counts)]
    return [*tiles, (duration(sum(result.seconds for result in results)), "of evaluation")] if results else tiles


def _exports(results: Sequence[Result], title: str) -> dict[str, Any]:
    """The data to download, as texts: CSV in long form, JSON with one object per cell."""
    stem = "".join(c if c.isalnum() else "-" for c in title.lower()).strip("-") or "results"
    rows = [row for result in results for row in long_rows(result)]
    objects = [
        {
            **result.to_dict(),
            "cell": {"id": result.cell.id, **result.cell.to_dict()},
            "details": {name: value for name, value in result.details.items() if _is_small(value)},
        }
        for result in results
    ]
    return {"stem": stem, "csv": to_csv(rows), "json": to_json(objects, indent=None)}


def _is_small(value: Any) -> bool:
    """Whether a detail may travel with the page; lists of every concept or image stay in the database."""
    return len(to_json(value, indent=None)) <= _LARGEST_DETAIL


def _read(name: str) -> str:
    return (files("unseen.reports") / name).read_text(encoding="utf-8")


@cache
def _template() -> Template:
    from jinja2 import Environment, StrictUndefined

    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=StrictUndefined)
    return environment.from_string(_read("template.html"))
