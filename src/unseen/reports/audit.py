"""Audits: the chart of leaked classes, and the page of copies among images."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path

from unseen.concepts import Audit, Relation, load_wordnet
from unseen.core.errors import UnseenError
from unseen.data.duplicates import DuplicatePair, DuplicateReport, ImageSet, Kind
from unseen.reports.blocks import Section, Table, TableCell, plain_table
from unseen.reports.charts import Axis, Chart, Dots, Scatter
from unseen.reports.page import Page, thumbnail
from unseen.reports.theme import FILE_WIDTH, NEUTRAL, PALETTE, SYMBOLS, Key, Spec, to_spec
from unseen.reports.wording import counted, listed
from unseen.results.export import to_json

#: The largest number of classes with a row each; more are shown by their rank.
_MOST_NAMES = 120
#: Pairs that are shown with their pictures, of each kind; a picture takes about 4 kB.
_MOST_PAIRS = 60
#: Rows of the list of images to drop.
_MOST_ROWS = 2_000
_PICTURE = 112
_COLOURS = {
    Relation.SEEN: PALETTE[1],
    Relation.DESCENDANT: PALETTE[4],
    Relation.ANCESTOR: PALETTE[3],
    Relation.UNSEEN: PALETTE[2],
}


def audit_chart(audit: Audit) -> Spec:
    """Return a chart with one point per matched class: similarity to its nearest seen concept, coloured by relation.

    Classes that were not matched have no similarity; the title states how many there are.
    """
    wordnet = load_wordnet()
    found = [(row.similarity, row) for row in audit.rows if row.similarity is not None and row.match.wnid]
    rows = [
        {
            "rank": rank,
            "class": row.match.name,
            "synset": f"{row.match.wnid} {wordnet.label(row.match.wnid or '')}",
            "relation": str(row.relation),
            "nearest": wordnet.label(row.nearest or ""),
            "value": round(similarity, 4),
        }
        for rank, (similarity, row) in enumerate(sorted(found, key=lambda each: (-each[0], each[1].match.name)), 1)
    ]
    keys = [Key(str(each), _COLOURS[each], symbol) for each, symbol in zip(_COLOURS, SYMBOLS, strict=False)]
    axis = Axis("Lin similarity to the nearest seen concept", kind="number", include=(0.0, 1.0))
    tooltip = {name: name for name in ("class", "synset", "relation", "nearest", "value")}
    chart: Chart = Dots(rows=rows, series="relation", keys=keys, y="class", x=axis, tooltip=tooltip)
    if len(rows) > _MOST_NAMES:
        ranks = Axis("classes, nearest first", kind="number")
        chart = Scatter(rows=rows, series="relation", keys=keys, x="rank", x_axis=ranks, y=axis, tooltip=tooltip)
    seen, unmatched = audit.counts[Relation.SEEN], audit.counts[Relation.UNKNOWN]
    headline = f"{seen} of {len(audit.rows)} {audit.noun} seen in training"
    headline += f"; {unmatched} not matched" if unmatched else ""
    title = {"text": headline, "subtitle": audit.seen_name, "subtitleColor": NEUTRAL}
    return {**to_spec(chart), "width": FILE_WIDTH, "title": title}


# ---- copies among images ---------------------------------------------------------------------------------------------


def write_copies_page(report: DuplicateReport, path: Path | str, *, how: str = "", classes: Sequence[str] = ()) -> Path:
    """Write the page of a report.

    Args:
        report: the copies that were found.
        path: the file to write.
        how: a sentence on the origin of the candidates.
        classes: names of the classes of its images, for copies under two labels.
    """
    counts = [counted(len(report.images), "image"), counted(len(report.pairs), "pair")]
    counts.append(counted(len(report.drop), "image to drop", "images to drop"))
    if report.conflicts:
        counts.append(counted(len(report.conflicts), "pair under two labels", "pairs under two labels"))
    files = {"csv": drop_list(report), "json": to_json(report.to_dict())}
    sections = [_found(report, how, classes), _dropped(report)]
    return Page(sections, "Copies among images", counts, {"files": files}).write(path)


def drop_list(report: DuplicateReport) -> str:
    """Return the images to drop as lines of name, split, kind and what it is a copy of, with tabs between."""
    text = io.StringIO()
    writer = csv.writer(text, delimiter="\t", lineterminator="\n")
    writer.writerows([["image", "split", "kind", "copy of", "its split"], *_reasons(report)])
    return text.getvalue()


def _reasons(report: DuplicateReport) -> Sequence[Sequence[str]]:
    """Return the name, the split and the kind of every image to drop, and the name and the split of its original."""
    images, rows = report.images, []
    for image, pair in report.reasons:
        source = report.against or images
        other = pair.first if report.against is None and pair.second == image else pair.second
        own = images.names[image], images.split_of(image), pair.kind.value
        rows.append((*own, source.names[other], source.split_of(other)))
    return rows


def _found(report: DuplicateReport, how: str, classes: Sequence[str]) -> Section:
    crossing = [f"{n:,} of {one} have a copy in {other}" for (one, other), n in report.between_splits.items()]
    points = [("Between splits", f"{listed(crossing)}.")] if crossing else []
    if report.unreadable:
        points.append(("Not readable", f"{counted(len(report.unreadable), 'image')} could not be opened."))
    tables = [_pairs(report, report.conflicts, "Copies under two labels", classes)]
    for kind in Kind:
        own = [pair for pair in report.pairs if pair.kind is kind]
        caption = f"{kind.value.capitalize()}: {counted(len(own), 'pair')}"
        tables.append(_pairs(report, own, caption, classes, folded=kind is Kind.EXACT))
    return Section(
        title="What was found",
        anchor="found",
        answer=[("", report.summary)],
        prose=[how] if how else [],
        points=points,
        tables=[table for table in tables if table.rows],
    )


def _pairs(
    report: DuplicateReport,
    pairs: Sequence[DuplicatePair],
    caption: str,
    classes: Sequence[str],
    *,
    folded: bool = False,
) -> Table:
    shown = pairs[:: max(1, -(-len(pairs) // _MOST_PAIRS))]
    rows = [
        [
            _image(report.images, pair.first, classes),
            _image(report.against or report.images, pair.second, () if report.against else classes),
            TableCell(pair.kind.value),
            *(TableCell("–" if v is None else f"{v:.3f}", v) for v in (pair.correlation, pair.similarity)),
        ]
        for pair in shown
    ]
    cut = f", {len(shown)} of them shown" if len(shown) < len(pairs) else ""
    columns = ["image", "its copy", "kind", "pixels agree", "features agree"]
    return Table(f"{caption}{cut}", columns, rows, folded=folded)


def _image(images: ImageSet, place: int, classes: Sequence[str]) -> TableCell:
    label = classes[images.labels[place]] if len(classes) and len(images.labels) else ""
    note = " · ".join(filter(None, (images.split_of(place), label)))
    picture = ""
    if images.open is not None:
        try:
            picture = thumbnail(images.open(place), _PICTURE)
        except (UnseenError, OSError):  # a row without a picture is better than none
            picture = ""
    return TableCell(images.names[place], note=note, picture=picture)


def _dropped(report: DuplicateReport) -> Section:
    rows = [row[:-1] for row in _reasons(report)[:_MOST_ROWS]]
    text = f"Drop {counted(len(report.drop), 'image')} to keep every picture once"
    text += f", and none that is in {report.against.name}" if report.against else ""
    cut = f" The table lists the first {len(rows):,}; the CSV file lists all." if len(report.drop) > len(rows) else ""
    table = plain_table("To drop", ["image", "split", "kind", "copy of"], rows)
    return Section("Images to drop", "drop", prose=[f"{text}.{cut}"], tables=[table] if rows else [])
