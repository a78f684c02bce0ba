"""The page of a search for copies among images: what was found, the pairs to look at, the images to drop."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path

from unseen.core.errors import UnseenError
from unseen.data.duplicates import DuplicatePair, DuplicateReport, ImageSet, Kind
from unseen.reports.blocks import Section, Table, TableCell
from unseen.reports.page import Page
from unseen.reports.pictures import thumbnail
from unseen.reports.wording import counted, listed
from unseen.results.export import to_json

#: Pairs that are shown with their pictures, of each kind; a picture takes about 4 kB.
_MOST_PAIRS = 60
_PICTURE = 112


def write_copies_page(report: DuplicateReport, path: Path | str, *, how: str = "", classes: Sequence[str] = ()) -> Path:
    """Write the page of a report.

    Args:
        report: what was found.
        path: the file to write.
        how: a sentence on where candidates came from.
        classes: names of the classes of its images, for copies under two labels.
    """
    page = Page(
        [_found(report, how, classes), _dropped(report)],
        "Copies among images",
        counts=[f"{figure} {label}" for figure, label in _tiles(report)],
        data={"files": {"csv": drop_list(report), "json": to_json(report.to_dict())}},
    )
    return page.write(path)


def drop_list(report: DuplicateReport) -> str:
    """The images to drop as lines of name, split, kind and what it is a copy of, with tabs between."""
    text = io.StringIO()
    writer = csv.writer(text, delimiter="\t", lineterminator="\n")
    writer.writerow(["image", "split", "kind", "copy of", "its split"])
    for image, pair in report.reasons:
        other, set_of_other = _other(report, image, pair)
        row = [report.images.names[image], report.images.split_of(image), pair.kind.value]
        writer.writerow([*row, set_of_other.names[other], set_of_other.split_of(other)])
    return text.getvalue()


def _other(report: DuplicateReport, image: int, pair: DuplicatePair) -> tuple[int, ImageSet]:
    if report.against is not None:
        return pair.second, report.against
    return (pair.second if pair.first == image else pair.first), report.images


def _tiles(report: DuplicateReport) -> list[tuple[str, str]]:
    counts = [counted(len(report.images), "image"), counted(len(report.pairs), "pair")]
    counts += [counted(len(report.drop), "image to drop", "images to drop")]
    counts += [counted(len(report.conflicts), "pair under two labels", "pairs under two labels")] * bool(
        report.conflicts
    )
    return [(number, label) for number, _, label in (text.partition(" ") for text in counts)]


def _found(report: DuplicateReport, how: str, classes: Sequence[str]) -> Section:
    crossing = [f"{n:,} of {one} have a copy in {other}" for (one, other), n in report.between_splits.items()]
    return Section(
        title="What was found",
        anchor="found",
        answer=[("", report.summary)],
        prose=[how] if how else [],
        points=[
            *([("Between splits", f"{listed(crossing)}.")] if crossing else []),
            *(
                [("Not readable", f"{counted(len(report.unreadable), 'image')} could not be opened.")]
                * bool(report.unreadable)
            ),
        ],
        tables=[
            *([_pairs(report, report.conflicts, "Copies under two labels", classes)] if report.conflicts else []),
            *(
                _pairs(
                    report,
                    own,
                    f"{kind.value.capitalize()}: {counted(len(own), 'pair')}",
                    classes,
                    folded=kind is Kind.EXACT,
                )
                for kind in Kind
                if (own := [pair for pair in report.pairs if pair.kind is kind])
            ),
        ],
    )


def _pairs(
    report: DuplicateReport,
    pairs: Sequence[DuplicatePair],
    caption: str,
    classes: Sequence[str],
    *,
    folded: bool = False,
) -> Table:
    other = report.against or report.images
    step = max(1, -(-len(pairs) // _MOST_PAIRS))
    shown = pairs[::step]
    rows = [
        [
            _image(report.images, pair.first, classes),
            _image(other, pair.second, classes if report.against is None else ()),
            TableCell(pair.kind.value, pair.kind.value),
            TableCell("–" if pair.correlation is None else f"{pair.correlation:.3f}", pair.correlation),
            TableCell("–" if pair.similarity is None else f"{pair.similarity:.3f}", pair.similarity),
        ]
        for pair in shown
    ]
    cut = f", {len(shown)} of them shown" if step > 1 else ""
    columns = ["image", "its copy", "kind", "pixels agree", "features agree"]
    return Table(f"{caption}{cut}", columns, rows, numeric=(3, 4), folded=folded)


def _image(images: ImageSet, place: int, classes: Sequence[str]) -> TableCell:
    label = classes[images.labels[place]] if len(classes) and len(images.labels) else ""
    note = " · ".join(text for text in (images.split_of(place), label) if text)
    return TableCell(images.names[place], images.names[place], note=note, picture=_picture(images, place))


def _picture(images: ImageSet, place: int) -> str:
    if images.open is None:
        return ""
    try:
        return thumbnail(images.open(place), _PICTURE)
    except (UnseenError, OSError):
        return ""


def _dropped(report: DuplicateReport) -> Section:
    rows = []
    for image, pair in report.reasons[:2000]:
        other, source = _other(report, image, pair)
        cells = [report.images.names[image], report.images.split_of(image), pair.kind.value, source.names[other]]
        rows.append([TableCell(text, text) for text in cells])
    cut = (
        f" The first {len(rows):,} are listed; all are in the file behind CSV." if len(report.drop) > len(rows) else ""
    )
    return Section(
        title="Images to drop",
        anchor="drop",
        prose=[
            f"{counted(len(report.drop), 'image')} to leave out so that no picture is there twice"
            + (f" and none is in {report.against.name}" if report.against else "")
            + f".{cut}"
        ],
        tables=[Table("To drop", ["image", "split", "kind", "copy of"], rows, folded=len(rows) > 20)] if rows else [],
    )
