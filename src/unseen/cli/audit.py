"""`unseen audit`: which classes of a dataset were seen in training, and which of its images are copies."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from unseen.cli.options import HomeOption, JsonOption
from unseen.core.errors import UsageError

_COPIES = "Copies among images"


def audit(
    data: Annotated[
        str | None,
        typer.Argument(metavar="DATA", help="A file with one class per line, or a dataset (packaged:emoji, photos/)."),
    ] = None,
    classes: Annotated[
        str | None, typer.Option("--classes", "--data", metavar="DATA", help="The same, as an option.")
    ] = None,
    seen: Annotated[str, typer.Option(help="imagenet-1k, imagenet-21k, or a file of wnids or names.")] = "imagenet-1k",
    mapping: Annotated[Path | None, typer.Option(help="Ids that you chose: class<TAB>wnid per line.")] = None,
    write_mapping: Annotated[
        Path | None,
        typer.Option(
            help="Write all classes with their ids to this file, to edit doubtful ones; ?wnids=FILE reads it."
        ),
    ] = None,
    as_json: JsonOption = False,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Write everything to this JSON file.")] = None,
    chart: Annotated[Path | None, typer.Option(help="Draw similarities to this .html, .svg, .png or .pdf.")] = None,
    noun: Annotated[str, typer.Option(help="What the summary calls the classes, such as 'test classes'.")] = "classes",
    flagged: Annotated[bool, typer.Option("--flagged", help="List the flagged classes only.")] = False,
    images: Annotated[
        str | None,
        typer.Option(
            "--images",
            metavar="DATA",
            help="Search for copies among the images of DATA instead.",
            rich_help_panel=_COPIES,
        ),
    ] = None,
    against: Annotated[
        str | None,
        typer.Option(
            metavar="DATA|STORE", help="Search in another dataset, or in stored features.", rich_help_panel=_COPIES
        ),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(help="Model whose features find candidates; a packaged one by default.", rich_help_panel=_COPIES),
    ] = None,
    threshold: Annotated[
        float | None, typer.Option(min=-1.0, max=1.0, help="Least cosine of a candidate.", rich_help_panel=_COPIES)
    ] = None,
    crops: Annotated[
        bool,
        typer.Option(
            "--crops/--no-crops", help="Search for crops too, which takes most of the time.", rich_help_panel=_COPIES
        ),
    ] = True,
    drop: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the images to drop.", rich_help_panel=_COPIES)
    ] = None,
    page: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write a page with the pairs.", rich_help_panel=_COPIES)
    ] = None,
    home: HomeOption = None,
) -> None:
    """State for every class whether a model trained on the seen classes has seen it; or list copies among images."""
    from unseen.cli.audits import CopySearch, Output, audit_class_list, audit_image_copies  # imports numpy

    output = Output(as_json, out, chart, write_mapping, drop, page)
    if images is not None:
        if data or classes or mapping or write_mapping or chart or flagged:
            raise UsageError(
                "--images searches for copies among images; DATA, --classes, --mapping, --write-mapping, --chart and "
                "--flagged are about classes. Give one at a time."
            )
        audit_image_copies(images, CopySearch(against, model, threshold, crops), output, home)
        return
    if any(value is not None for value in (against, model, threshold, drop, page)):
        raise UsageError("--against, --model, --threshold, --drop and --page go with --images DATA.")
    audit_class_list(classes or data or "", seen, mapping, output, noun=noun, flagged=flagged)
