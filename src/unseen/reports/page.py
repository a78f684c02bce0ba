"""The page: one HTML file that contains its text, charts, scripts and data, and makes no request to the network.

A content security policy inside the file makes the browser enforce that. The same results give the same bytes.
"""

from __future__ import annotations

import base64
import io
import json
import lzma
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date as Date
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from unseen.core.errors import UnseenError
from unseen.core.files import write_whole
from unseen.core.identity import canonical_json
from unseen.core.records import Result
from unseen.core.registry import load_object
from unseen.data.decode import decode_rgb
from unseen.reports.blocks import Headline, Section, SectionBuilder
from unseen.reports.blocks import Material as Material
from unseen.reports.provenance import MOST_CELLS, PackedResults, pack, problems_section, provenance_section, result_data
from unseen.reports.scores import overview_section, ranking
from unseen.reports.wording import counted, typeset
from unseen.results.info import BENCHMARKS, info_of

if TYPE_CHECKING:
    from jinja2 import Template
    from PIL.Image import Image

    from unseen.data import Dataset, Split

#: Vega, Vega-Lite and Vega-Embed; `tools/build_vega.py` writes it.
BUNDLE = "vega.js.xz"
#: Settings of one benchmark whose answers stand at the top of a page; the section has them all.
_SETTINGS = 4
_PICTURE = re.compile(r'"(data:image/(?:jpeg|png);base64,[A-Za-z0-9+/=]+)"')


@dataclass(frozen=True)
class Page:
    """A page before it is written.

    Attributes:
        sections: in order.
        title: the heading.
        counts: what it contains, such as "4 models".
        data: results for the browser, or the "files" to download, texts by their ending.
        order: models, best first, for "the best k".
        date: the day to put on it.
        ending: a comment after the last tag.
    """

    sections: Sequence[Section]
    title: str
    counts: Sequence[str] = ()
    data: PackedResults | Mapping[str, Any] = field(default_factory=dict)
    order: Sequence[str] = ()
    date: Date | None = None
    ending: str = ""

    @property
    def headlines(self) -> list[tuple[str, Headline]]:
        """Return the answers in order, each with the anchor of its section; of many settings the first few."""
        return [(section.anchor, headline) for section in self.sections for headline in section.headlines[:_SETTINGS]]

    def write(self, path: Path | str) -> Path:
        """Write it, whole or not at all.

        Raises:
            StoreError: if the file cannot be written.
        """
        numbers: dict[str, int] = {}  # of pictures: the page contains each once, and names it by its number

        def number(address: str) -> int:
            return numbers.setdefault(address, len(numbers))

        # Vega replaces the container's label by the description of the chart.
        specs = {
            f"{section.anchor}-{place}": {**figure.vega, "description": figure.description}
            for section in self.sections
            for place, figure in enumerate(section.figures)
        }
        drawn = _PICTURE.sub(lambda found: f'"picture:{number(found[1])}"', _dense(specs))
        known = self.data if isinstance(self.data, PackedResults) else None
        data = known.text if known else pack(_dense(self.data)) if self.data else ""
        cells = {each: place for place, each in enumerate(known.ids if known else ())}
        stem = re.sub(r"[\W_]+", "-", self.title.lower())[:60].strip("-") or "results"
        page = _template().render(
            title=self.title,
            date=f"{self.date.day} {self.date:%B %Y}" if self.date else "",
            counts=self.counts,
            headlines=self.headlines,
            sections=self.sections,
            places=lambda ids: " ".join(str(cells[each]) for each in ids if each in cells),
            picture=number,
            has_cells=bool(cells),
            has_data=bool(data),
            models=len(self.order),
            style=_read("style.css"),
            vega=_vega() if specs else "",
            script=f"(() => {{{_read('page.js')}{_read('cells.js')}}})();",
            page=script_json({"stem": stem, "order": list(self.order)}),
            specs=pack(drawn) if specs else "",
            data=data,
            pictures=lambda: pack(_dense(list(numbers))) if numbers else "",
        )
        target = Path(path)
        write_whole(target, (page + self.ending).encode())
        return target


def make_page(material: Material, *, title: str, date: Date | None = None) -> Page:
    """Return the page of some results, in any order.

    Args:
        title: the heading.
        date: the day to put on it; none by default, so that the same results give the same page.
    """

    def order(result: Result) -> tuple[str, ...]:
        cell = result.cell
        parameters = canonical_json(dict(cell.parameters))
        return cell.benchmark, cell.dataset, cell.model, parameters, cell.version, result.recorded

    content = replace(material, results=sorted(material.results, key=order))
    results, built = content.results, build_sections(content)
    standings = [standing for section in built for standing in section.standings]
    ranked = ranking(standings) if len({standing.model for standing in standings}) > 1 else []
    counts = [
        counted(len({result.cell.model for result in results}), "model"),
        counted(len({result.cell.dataset for result in results}), "dataset"),
        counted(len(results), "cell"),
    ]
    failed = sum(not result.ok for result in results)
    counts += [counted(failed, "failed cell")] if failed else []
    return Page(built, title, counts, result_data(content) if len(results) <= MOST_CELLS else {}, ranked, date)


def build_sections(material: Material) -> list[Section]:
    """Return all sections in order: the comparison, one per benchmark, failures and run records, provenance."""
    found = []
    known = list(BENCHMARKS)
    benchmarks = {result.cell.benchmark for result in material.results}
    for benchmark in [*(name for name in known if name in benchmarks), *sorted(benchmarks - {*known})]:
        builder: SectionBuilder = load_object(info_of(benchmark).section)
        if (section := builder(material, benchmark)) is not None:
            found.append(section)
    if not material.results:
        found.append(Section("No results yet", "empty", prose=["Run a study to fill this page."]))
    overview = overview_section(found, material)
    first = [overview] if overview else []
    return [*first, *found, problems_section(material), provenance_section(material)]


# ---- pictures --------------------------------------------------------------------------------------------------------


def thumbnail(image: Image, size: int = 64) -> str:
    """Return an image as a JPEG whose longer side has at most `size` pixels, as a data: address of a few kB.

    Raises:
        DataError: if the pixels cannot be read.
    """
    small = decode_rgb(image, truncated="accept")
    small.thumbnail((size, size))
    stream = io.BytesIO()
    small.save(stream, "JPEG", quality=62, optimize=True)
    return "data:image/jpeg;base64," + base64.b64encode(stream.getvalue()).decode("ascii")


def class_pictures(load: Callable[[str], Dataset], size: int = 64) -> Callable[[str, str], str]:
    """Return a function from a dataset and a class to the picture of its first test image; "" if it cannot be opened.

    Args:
        load: gives a dataset by its name.
        size: longest side in pixels.
    """

    @cache
    def first_images(dataset: str) -> tuple[Split, dict[str, int]]:
        loaded = load(dataset)
        images = loaded.splits.get("test") or next(iter(loaded.splits.values()))
        labels, places = np.unique(images.labels, return_index=True)
        return images, {loaded.class_names[label]: int(place) for label, place in zip(labels, places, strict=True)}

    def picture(dataset: str, name: str) -> str:
        try:
            images, places = first_images(dataset)
            return thumbnail(images.open(places[name]), size) if name in places else ""
        except (UnseenError, OSError):  # a page without a picture is better than none
            return ""

    return picture


# ---- parts of the file -----------------------------------------------------------------------------------------------


def _dense(value: object) -> str:
    """Return strict JSON without white space."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def script_json(value: object) -> str:
    """Return JSON that is safe inside a <script> element: no text in it can close the element or open a comment."""
    text = json.dumps(value, ensure_ascii=True, allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _read(name: str) -> str:
    return (files("unseen.reports") / name).read_text(encoding="utf-8")


@cache
def _vega() -> str:
    """Return Vega, Vega-Lite and Vega-Embed as one script that sets `window.vegaEmbed`."""
    bundle = lzma.decompress((files("unseen.reports") / BUNDLE).read_bytes()).decode()
    # Its names stay inside; a closing tag in it would end the script of the page.
    return f"(() => {{{bundle}}})();".replace("</script", "<\\/script")


@cache
def _template() -> Template:
    from jinja2 import Environment, StrictUndefined

    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=StrictUndefined)
    environment.filters["typeset"] = typeset
    return environment.from_string(_read("template.html"))
