"""`unseen audit`: which classes of a dataset were seen in training, and which of its images are copies."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from unseen.cli.options import HomeOption, JsonOption
from unseen.cli.tables import count

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from unseen.concepts import Audit, AuditRow

_STYLES = {
    "seen": "bold red",
    "descendant of seen": "red",
    "ancestor of seen": "yellow",
    "unseen": "green",
    "not matched": "dim",
}
_MOST_SENSES = 6
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
    mapping: Annotated[Path | None, typer.Option(help="Classes settled by hand: class<TAB>wnid per line.")] = None,
    write_mapping: Annotated[
        Path | None,
        typer.Option(help="Write all classes to this file, the doubtful ones to be settled; ?wnids=FILE takes it."),
    ] = None,
    as_json: JsonOption = False,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Write everything to this JSON file.")] = None,
    chart: Annotated[Path | None, typer.Option(help="Draw similarities to this .html, .svg, .png or .pdf.")] = None,
    noun: Annotated[str, typer.Option(help="What the summary calls the classes, such as 'test classes'.")] = "classes",
    flagged: Annotated[bool, typer.Option("--flagged", help="List the flagged classes only.")] = False,
    images: Annotated[
        str | None,
        typer.Option("--images", metavar="DATA", help="Look for copies among images instead.", rich_help_panel=_COPIES),
    ] = None,
    against: Annotated[
        str | None,
        typer.Option(
            metavar="DATA|STORE", help="Copies in another dataset, or in stored features.", rich_help_panel=_COPIES
        ),
    ] = None,
    model: Annotated[
        str | None, typer.Option(help="Whose features find candidates; a packaged one.", rich_help_panel=_COPIES)
    ] = None,
    threshold: Annotated[
        float | None, typer.Option(min=-1.0, max=1.0, help="Least cosine of a candidate.", rich_help_panel=_COPIES)
    ] = None,
    crops: Annotated[
        bool, typer.Option("--crops/--no-crops", help="Crops too: most of the work.", rich_help_panel=_COPIES)
    ] = True,
    drop: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the images to drop.", rich_help_panel=_COPIES)
    ] = None,
    page: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write a page with the pairs.", rich_help_panel=_COPIES)
    ] = None,
    home: HomeOption = None,
) -> None:
    """Say for every class whether a model trained on the seen classes has seen it; or which images are copies."""
    if images is not None:
        _refuse_class_options(data or classes, mapping, write_mapping, chart, flagged)
        from unseen.cli.image_audit import audit_image_copies

        audit_image_copies(
            images,
            against=against,
            model=model,
            crops=crops,
            threshold=threshold,
            drop=drop,
            page=page,
            as_json=as_json,
            out=out,
            home=home,
        )
        return
    _refuse_image_options(against, model, threshold, drop, page)
    from unseen.concepts import audit_classes, load_wordnet, read_mapping, read_seen

    wordnet = load_wordnet()
    names, wnids = _classes(classes or data or "")
    seen_name, seen_ids = read_seen(seen, wordnet)
    settled = read_mapping(mapping) if mapping is not None else None
    result = audit_classes(names, seen_ids, mapping=settled, wnids=wnids, seen_name=seen_name, noun=noun)
    if as_json:
        from unseen.cli.tables import print_json

        print_json(result.to_dict())
    else:
        _print_rows(result.flagged if flagged else result.rows, wordnet.label)
        _print_doubts(result)
        _print_summary(result)
    _write_files(result, out, chart, write_mapping)


def _refuse_class_options(*given: object) -> None:
    from unseen.core.errors import UsageError

    if any(given):
        raise UsageError(
            "--images looks for copies among images; DATA, --classes, --mapping, --write-mapping, --chart and "
            "--flagged are about classes. Ask for one at a time."
        )


def _refuse_image_options(*given: object) -> None:
    from unseen.core.errors import UsageError

    if any(value is not None for value in given):
        raise UsageError("--against, --model, --threshold, --drop and --page go with --images DATA.")


def _classes(value: str) -> tuple[list[str], Sequence[str | None]]:
    """Class names, and their wnids where a dataset knows them."""
    from unseen.concepts import read_class_list
    from unseen.core.errors import UsageError

    if value and Path(value).is_file():
        return read_class_list(value), ()
    if not value or (":" not in value and not Path(value).is_dir()):
        raise UsageError(
            f"{value!r} is neither a file nor a dataset. Give a file with one class per line, or a dataset such as "
            "packaged:emoji or folder:PATH (unseen ls datasets)."
        )
    from unseen.data import load_dataset
    from unseen.data.load import resolve_dataset

    dataset = load_dataset(resolve_dataset(value, Path.cwd()))
    return list(dataset.class_names), dataset.wnids


def _print_rows(rows: Sequence[AuditRow], label: Callable[[str], str]) -> None:
    from rich.text import Text

    from unseen.cli.tables import print_table

    lines = []
    for row in rows:
        match, style = row.match, _STYLES[row.relation]
        kin = ", ".join(label(wnid) for wnid in row.kin[:3] if wnid != match.wnid)
        kin += f" and {len(row.kin) - 3} more" if len(row.kin) > 3 else ""
        lines.append(
            (
                Text(match.name, style=style),
                f"{match.wnid} {label(match.wnid)}" if match.wnid else "",
                match.how + (" ?" if match.ambiguous else ""),
                Text(row.relation + (f": {kin}" if kin else ""), style=style),
                label(row.nearest) if row.nearest else "",
                f"{row.similarity:.2f}" if row.similarity is not None else "",
            )
        )
    columns = ("Class", "synset", "match", "relation", "nearest seen", "Lin")
    print_table(
        columns, lines, numeric=("Lin",), prose=("Class", "synset", "relation", "nearest seen"), keep=("relation",)
    )


def _print_doubts(audit: Audit) -> None:
    """Classes whose name has a seen sense besides the chosen one, and classes for a person to settle."""
    from rich.text import Text

    from unseen.cli.tables import console

    out = console()
    for row in audit.rows:
        if (sense := row.other_sense_seen) is not None:
            said = (
                f"{row.match.name}: another sense is seen, {sense.wnid} {', '.join(sense.lemmas)}: {sense.definition}"
            )
            out.print(Text(said, style="yellow"))
    doubtful = sorted((row for row in audit.rows if row.match.ambiguous), key=lambda row: not row.verdict_in_doubt)
    if not doubtful:
        return
    out.print(Text("\nAmbiguous classes, the chosen sense first; settle them in a file for --mapping:", style="bold"))
    for row in doubtful:
        matters = "; another sense changes the verdict" if row.verdict_in_doubt else ""
        out.print(Text(f"{row.match.name}: {row.match.reason}{matters}"))
        for sense in row.senses[:_MOST_SENSES]:
            said = f"  {sense.wnid} {', '.join(sense.lemmas)}: {sense.definition} [{sense.relation}]"
            out.print(Text(said, style=_STYLES[sense.relation]))
        if len(row.senses) > _MOST_SENSES:
            out.print(Text(f"  and {len(row.senses) - _MOST_SENSES} more", style="dim"))


def _print_summary(audit: Audit) -> None:
    from rich.text import Text

    from unseen.cli.tables import console

    out = console()
    counts = ", ".join(f"{count} {relation}" for relation, count in audit.counts.items())
    how = {kind: sum(row.match.how == kind for row in audit.rows) for kind in ("qualified", "head", "none")}
    out.print(Text(f"\nRelations: {counts}."))
    if any(how.values()) or any(row.match.ambiguous for row in audit.rows):
        out.print(
            Text(
                f"Matches to check: {sum(row.match.ambiguous for row in audit.rows)} ambiguous, "
                f"{how['qualified']} without a qualifier of their name, {how['head']} by a part of their name (then "
                f"the class is a kind of the synset), {how['none']} not matched."
            )
        )
    out.print(Text(audit.summary, style="bold"))


def _write_files(audit: Audit, out: Path | None, chart: Path | None, mapping: Path | None) -> None:
    if out is not None:
        from unseen.core.files import write_whole
        from unseen.results.export import to_json

        write_whole(out, to_json(audit.to_dict()) + "\n")
        typer.echo(f"Written to {out}.", err=True)
    if mapping is not None:
        from unseen.concepts import write_mapping

        typer.echo(
            f"{count(write_mapping(audit, mapping), 'doubtful class', 'doubtful classes')} written to {mapping}.",
            err=True,
        )
    if chart is not None:
        from unseen.reports.audit import audit_chart
        from unseen.reports.charts import save_chart

        typer.echo(f"Drawn to {save_chart(audit_chart(audit), chart)}.", err=True)
