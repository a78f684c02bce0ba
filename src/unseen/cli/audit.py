"""`unseen audit`: which classes of a dataset were seen in training, and which of its images are copies."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from rich.progress import Progress
from rich.text import Text
from typer import Argument, Option

from unseen.backbones.load import resolve_model
from unseen.benchmarks import Workbench
from unseen.benchmarks.audit import MODEL, audit_images, classify_images
from unseen.benchmarks.workbench import given_models
from unseen.cli.application import HomeOption, JsonOption
from unseen.cli.tables import ConsoleProgress, console, print_json, print_table, say
from unseen.concepts import (
    Answers,
    Audit,
    AuditRow,
    ClassMapping,
    audit_classes,
    load_wordnet,
    read_class_list,
    read_mapping,
    read_seen,
)
from unseen.core.errors import MissingExtraError, UsageError
from unseen.core.files import home as home_folder
from unseen.core.files import write_whole
from unseen.core.identity import to_json
from unseen.core.run_record import counted
from unseen.data import load_dataset
from unseen.data.duplicates import THRESHOLD, DuplicateReport, copy_groups
from unseen.data.load import resolve_dataset

_COPIES = "Copies among images"
_STYLES = {
    "seen": "bold red",
    "descendant of seen": "red",
    "ancestor of seen": "yellow",
    "unseen": "green",
    "not matched": "dim",
}
_MOST_SENSES, _MOST_PAIRS, _MOST_UNREADABLE = 6, 20, 5


@dataclass(frozen=True)
class Output:
    """Where findings go.

    Attributes:
        as_json: print JSON instead of tables.
        out: file for the JSON.
        mapping: file for classes with their ids.
        drop: file for images to drop.
        groups: file for all images, with a group that copies share.
    """

    as_json: bool
    out: Path | None
    mapping: Path | None
    drop: Path | None
    groups: Path | None

    def write(self, values: Mapping[str, object], print_tables: Callable[[], None]) -> None:
        """Print the findings, and write the JSON file."""
        if self.as_json:
            print_json(values)
        else:
            print_tables()
        if self.out is not None:
            write_whole(self.out, to_json(values) + "\n")
            say(f"Written to {self.out}.", error=True)


# ---- classes ---------------------------------------------------------------------------------------------------------


def audit_class_list(data: str, seen: str, mapping: Path | None, output: Output, *, bench: Workbench | None) -> None:
    """Audit the classes of a file or dataset; print and write the findings.

    Args:
        bench: classifies images of the dataset; None to match by names alone.
    """
    wordnet = load_wordnet()
    names, wnids = _classes(data)
    seen_name, seen_ids = read_seen(seen, wordnet)
    known = read_mapping(mapping) if mapping is not None else {}
    settled = [name in known or bool(wnids and wnids[k]) for k, name in enumerate(names)]
    answers = answers_for(bench, data, seen) if bench is not None and not all(settled) else None
    audit = audit_classes(names, seen_ids, mapping=known, wnids=wnids, answers=answers, seen_name=seen_name)

    def print_tables() -> None:
        _print_rows(audit.rows, wordnet.label)
        _print_doubts(audit, wordnet.label)
        _print_summary(audit)

    output.write(audit.to_dict(), print_tables)
    if output.mapping is not None:
        made = ClassMapping(audit.rows)
        made.write(output.mapping)
        say(f"All classes written to {output.mapping}; {len(made.doubtful)} of them have a ? to replace.", error=True)


def answers_for(bench: Workbench, data: str, seen: str) -> Answers | None:
    """Return what the packaged model answers for images of each class; None without images, or for other seen sets."""
    name = resolve_dataset(data, Path.cwd())
    if seen.lower() != "imagenet-1k" or Path(data).is_file() or given_models(name):
        return None
    try:
        return classify_images(bench, name)
    except MissingExtraError as error:
        say(f"The images were not classified, names alone decide: {error}", error=True)
        return None


def _classes(data: str) -> tuple[list[str], Sequence[str | None]]:
    """Return class names, and their WordNet ids if the dataset has them."""
    if data and Path(data).is_file():
        return read_class_list(data), ()
    if not data or (":" not in data and not Path(data).is_dir()):
        raise UsageError(
            f"{data!r} is neither a file nor a dataset. Give a file with one class per line, or a dataset such as "
            "packaged:emoji or folder:PATH (unseen ls datasets)."
        )
    dataset = load_dataset(resolve_dataset(data, Path.cwd()))
    return list(dataset.class_names), dataset.wnids


def _print_rows(rows: Sequence[AuditRow], label: Callable[[str], str]) -> None:
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
    prose = ("Class", "synset", "relation", "nearest seen")
    print_table(columns, lines, numeric=("Lin",), prose=prose, keep=("relation",))


def _print_doubts(audit: Audit, label: Callable[[str], str]) -> None:
    """Print classes that may mean or look like another seen concept, and ambiguous classes with their senses."""
    for row in audit.rows:
        if (sense := row.other_sense_seen) is not None:
            words = f"{sense.wnid} {', '.join(sense.lemmas)}: {sense.definition}"
            say(f"{row.match.name}: another sense is seen, {words}", "yellow")
        if row.looks_like is not None:
            wnid, share = row.looks_like
            say(f"{row.match.name}: looks like {label(wnid)!r} ({wnid}), {share:.0%} of the answers", "yellow")
    doubtful = sorted((row for row in audit.rows if row.match.ambiguous), key=lambda row: not row.verdict_in_doubt)
    if doubtful:
        say("\nAmbiguous classes, the chosen sense first; settle them in a file for --mapping:", "bold")
    for row in doubtful:
        matters = "; another sense changes the verdict" if row.verdict_in_doubt else ""
        say(f"{row.match.name}: {row.match.reason}{matters}")
        for sense in row.senses[:_MOST_SENSES]:
            words = f"  {sense.wnid} {', '.join(sense.lemmas)}: {sense.definition} [{sense.relation}]"
            say(words, _STYLES[sense.relation])
        if len(row.senses) > _MOST_SENSES:
            say(f"  and {len(row.senses) - _MOST_SENSES} more", "dim")


def _print_summary(audit: Audit) -> None:
    relations = ", ".join(f"{number} {relation}" for relation, number in audit.counts.items())
    say(f"\nRelations: {relations}.")
    how = {kind: sum(row.match.how == kind for row in audit.rows) for kind in ("qualified", "head", "none")}
    ambiguous = sum(row.match.ambiguous for row in audit.rows)
    if ambiguous or any(how.values()):
        say(
            f"Matches to check: {ambiguous} ambiguous, {how['qualified']} without a qualifier of their name, "
            f"{how['head']} by a part of their name (then the class is a kind of the synset), {how['none']} not "
            "matched."
        )
    say(audit.summary, "bold")


# ---- copies among images ---------------------------------------------------------------------------------------------


def audit_image_copies(
    data: str, against: str | None, model: str, threshold: float, output: Output, home: Path | None
) -> None:
    """Search for copies, print the findings, and write the list of images to drop and the JSON."""
    screen = console(error=True)
    bench = Workbench(home_folder(home), progress=ConsoleProgress(screen))
    bar = Progress(console=screen, transient=True, disable=not screen.is_terminal)
    task = bar.add_task("comparing pictures", total=None)

    def advance(done: int, total: int) -> None:
        bar.start()  # not before: extraction has its own bar
        bar.update(task, completed=done, total=total)

    model = resolve_model(model, Path.cwd())
    try:
        report = audit_images(bench, data, against, model=model, progress=advance, threshold=threshold)
    finally:
        bar.stop()
    method = (
        f"Equal files by content; further candidates by cosine similarity of {model} features (at least "
        f"{threshold:g}), each confirmed by the correlation of its pixels ({report.compared:,} candidates compared)."
    )
    output.write({**report.to_dict(), "method": method}, lambda: _print_copies(report, method))
    if output.drop is not None:
        _write_rows(output.drop, [("image", "split", "copy of", "its split"), *report.drop_rows()], "\t")
        say(f"{counted(len(report.drop), 'image')} to drop written to {output.drop}.", error=True)
    if output.groups is not None:
        images, classes = report.images, bench.dataset(report.images.name).class_names
        labels = [classes[label] for label in images.images.primary_labels.tolist()]
        rows = zip(images.names, labels, copy_groups(images, report.pairs), strict=True)
        _write_rows(output.groups, [("image", "label", "group"), *rows], ",")
        text = f"{output.groups} has a group for each image: use csv:{output.groups}?root={data}&group=group"
        say(f"{text}, and no split or fold divides copies.", error=True)


def _write_rows(path: Path, rows: Iterable[Sequence[object]], delimiter: str) -> None:
    text = io.StringIO()
    csv.writer(text, delimiter=delimiter, lineterminator="\n").writerows(rows)
    write_whole(path, text.getvalue())


def _print_copies(report: DuplicateReport, method: str) -> None:
    rows = [
        [
            pair.kind,
            report.images.names[pair.first],
            report.images.split_of(pair.first),
            report.other.names[pair.second],
            report.other.split_of(pair.second),
            f"{pair.correlation:.3f}",
        ]
        for pair in report.pairs[:_MOST_PAIRS]
    ]
    if rows:
        columns = ["kind", "image", "split", "copy", "its split", "pixels agree"]
        print_table(columns, rows, numeric=("pixels agree",), prose=("image", "copy"))
    if len(report.pairs) > len(rows):
        say(f"and {len(report.pairs) - len(rows):,} more pairs: --output writes them.")
    for name, reason in list(report.unreadable.items())[:_MOST_UNREADABLE]:
        say(f"could not be opened: {name}: {reason}")
    say(report.summary, "bold")
    say(method)


# ---- the command -----------------------------------------------------------------------------------------------------


def audit(
    data: Annotated[
        str | None,
        Argument(metavar="DATA", help="A file with one class per line, or a dataset (packaged:emoji, photos/)."),
    ] = None,
    classes: Annotated[
        str | None, Option("--classes", "--data", metavar="DATA", help="The classes, like the argument DATA.")
    ] = None,
    seen: Annotated[str, Option(help="imagenet-1k, imagenet-21k, or a file of wnids or names.")] = "imagenet-1k",
    mapping: Annotated[Path | None, Option(help="Ids that you chose: class<TAB>wnid per line.")] = None,
    write_mapping: Annotated[
        Path | None,
        Option(help="Write all classes with their ids to this file, to edit doubtful ones; ?wnids=FILE reads it."),
    ] = None,
    as_json: JsonOption = False,
    out: Annotated[Path | None, Option("--output", metavar="FILE", help="Write all findings as JSON.")] = None,
    no_images: Annotated[
        bool, Option("--no-images", help="Match by names alone; do not classify images of each class.")
    ] = False,
    images: Annotated[
        str | None,
        Option(
            "--images",
            metavar="DATA",
            help="Search for copies among the images of DATA instead.",
            rich_help_panel=_COPIES,
        ),
    ] = None,
    against: Annotated[
        str | None,
        Option(metavar="DATA", help="Search in another dataset.", rich_help_panel=_COPIES),
    ] = None,
    model: Annotated[
        str | None,
        Option(help="Model whose features find candidates; a packaged one by default.", rich_help_panel=_COPIES),
    ] = None,
    threshold: Annotated[
        float | None, Option(min=-1.0, max=1.0, help="Least cosine of a candidate.", rich_help_panel=_COPIES)
    ] = None,
    drop: Annotated[
        Path | None, Option(metavar="FILE", help="Write the images to drop.", rich_help_panel=_COPIES)
    ] = None,
    groups: Annotated[
        Path | None,
        Option(metavar="FILE", help="Write a table in which copies share a group.", rich_help_panel=_COPIES),
    ] = None,
    home: HomeOption = None,
) -> None:
    """State for every class whether a model trained on the seen classes has seen it; or list copies among images."""
    output = Output(as_json, out, write_mapping, drop, groups)
    if images is not None:
        if data or classes or mapping or write_mapping:
            raise UsageError(
                "--images searches for copies among images; DATA, --classes, --mapping and --write-mapping are about "
                "classes. Give one at a time."
            )
        if groups is not None and against is not None:
            raise UsageError("--groups is about the copies within one dataset: leave out --against.")
        least = THRESHOLD if threshold is None else threshold
        audit_image_copies(images, against, model or MODEL, least, output, home)
        return
    if any(value is not None for value in (against, model, threshold, drop, groups)):
        raise UsageError("--against, --model, --threshold, --drop and --groups go with --images DATA.")
    bench = None if no_images else Workbench(home_folder(home), progress=ConsoleProgress(console(error=True)))
    audit_class_list(classes or data or "", seen, mapping, output, bench=bench)
