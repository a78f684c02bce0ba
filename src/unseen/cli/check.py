"""`unseen check`: sanity checks of a dataset and its models."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

from rich.text import Text
from typer import Argument, Option

from unseen.backbones.load import check_backbone, expand_models, resolve_model
from unseen.benchmarks.audit import MODEL, SEEN_SETS, Check, run_checks
from unseen.benchmarks.workbench import Workbench
from unseen.cli.application import HomeOption, JsonOption, split_names
from unseen.cli.tables import ConsoleProgress, console, count, print_json, print_table, say
from unseen.core.errors import CellsFailedError, UnknownNameError
from unseen.core.files import home as home_folder
from unseen.data.load import resolve_dataset
from unseen.reports.wording import short_names

_STYLES = {"pass": "green", "warning": "yellow", "fail": "bold red", "skipped": "dim"}


def check(
    data: Annotated[str, Argument(metavar="DATA", help="A dataset with class labels (photos/, packaged:grocery).")],
    models: Annotated[
        list[str] | None,
        Option("--models", metavar="MODEL ...", help="Model names or checkpoint paths; packaged Lite0 by default."),
    ] = None,
    seen: Annotated[
        str, Option(metavar="SET", help="Training classes of the models: imagenet-1k or imagenet-21k.")
    ] = "imagenet-1k",
    copies: Annotated[
        bool, Option("--copies/--no-copies", help="Search for copies between training and test images.")
    ] = True,
    as_json: JsonOption = False,
    home: HomeOption = None,
) -> None:
    """Check a dataset and its models with controls of known outcome, before you trust a number.

    Shuffled labels must score at chance, random weights lower than trained ones. Also checks the
    majority class, copies between training and test images, unreadable images, class balance and leaks.

    Exit with 3 if a check fails.
    """
    here = Path.cwd()
    if seen not in SEEN_SETS:
        raise UnknownNameError("set of seen classes", seen, SEEN_SETS)
    expanded = [each for name in split_names(models) for each in expand_models(name)]
    names = list(dict.fromkeys(resolve_model(name, here) for name in expanded)) or [MODEL]
    for name in names:
        check_backbone(name)
    screen = console(error=True)
    bench = Workbench(home_folder(home), progress=ConsoleProgress(screen))
    found = []
    for each in run_checks(bench, resolve_dataset(data, here), names, seen=seen, copies=copies):
        screen.print(f"{each.status:>8}  {each.name}  {each.model}".rstrip(), soft_wrap=True)
        found.append(each)
    if as_json:
        print_json([asdict(each) for each in found])
    else:
        _print_checks(found, f"Sanity checks of {data}", names)
    failed = [each for each in found if each.status == "fail"]
    if failed:
        raise CellsFailedError(
            f"{len(failed)} of {len(found)} checks failed. The first: {failed[0].name}: {failed[0].found}."
        )
    if not as_json:
        say(f"No check failed; {count(sum(each.status == 'warning' for each in found), 'warning')}.")


def _print_checks(found: Sequence[Check], title: str, models: Sequence[str]) -> None:
    """Print a table; the column of models only if there are several, that of meanings only if a check did not pass."""
    columns: dict[str, list[str | Text]] = {
        "check": [each.name for each in found],
        "result": [Text(each.status, _STYLES[each.status]) for each in found],
        "model": [short_names(models, {}).get(each.model, "") for each in found] if len(models) > 1 else [],
        "found": [each.found for each in found],
        "what it means": [each.meaning for each in found] if any(each.meaning for each in found) else [],
    }
    shown = {heading: texts for heading, texts in columns.items() if texts}
    rows = zip(*shown.values(), strict=True)
    print_table(list(shown), rows, title=title, prose=("check", "found", "what it means"), keep=list(shown))
