"""`unseen features`: list, verify and remove stored features."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from unseen.cli.options import HomeOption, JsonOption
from unseen.cli.parser import Command, Group
from unseen.cli.tables import count, say

if TYPE_CHECKING:
    from unseen.features import Entry, FeatureStore

features_commands = typer.Typer(
    name="features", cls=Group, help="List, verify and remove stored features.", no_args_is_help=True
)

_PATTERN_HELP = "A model or dataset, with * for any characters, or the beginning of an entry's id."
_STYLES = {"partial": "yellow", "damaged": "red"}


@features_commands.command("ls", cls=Command)
def list_features(as_json: JsonOption = False, home: HomeOption = None) -> None:
    """List what is stored, with sizes."""
    entries = list(_store(home).entries())
    if as_json:
        from unseen.cli.tables import print_json

        print_json([entry.to_dict() for entry in entries])
        return
    if not entries:
        say(f"No features are stored in {_store(home).root}.")
        return
    _print_table(entries)
    say(f"Total: {_total(entries)}.")


@features_commands.command("verify", cls=Command)
def verify_features(
    pattern: Annotated[str | None, typer.Argument(help=_PATTERN_HELP + " Everything, if left out.")] = None,
    home: HomeOption = None,
) -> None:
    """Read every byte and compare it with what was written; leaves with code 2 where something is wrong."""
    from rich.console import Console
    from rich.progress import track

    from unseen.core.errors import CorruptPartError

    store = _store(home)
    entries = list(store.entries()) if pattern is None else store.select(pattern)
    console = Console(stderr=True)
    problems = []
    for entry in track(entries, "verifying", console=console, transient=True, disable=not console.is_terminal):
        problems += store.verify(entry)
    for problem in problems:
        say(str(problem))
    if problems:
        raise CorruptPartError(f"{count(len(problems), 'problem')} in {_total(entries)}.")
    say(f"All is well: {_total(entries)}.")


@features_commands.command("rm", cls=Command)
def remove_features(
    pattern: Annotated[str | None, typer.Argument(help=_PATTERN_HELP)] = None,
    everything: Annotated[bool, typer.Option("--all", help="Remove all stored features.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    home: HomeOption = None,
) -> None:
    """Remove stored features, after showing which and asking."""
    from unseen.core.errors import UsageError

    if (pattern is None) == (not everything):
        raise UsageError("say what to remove: a PATTERN (a model, a dataset, an entry's id), or --all, not both.")
    store = _store(home)
    entries = list(store.entries()) if pattern is None else store.select(pattern)
    if not entries:
        say(f"No features are stored in {store.root}.")
        return
    _print_table(entries)
    if not yes and not _confirmed(_total(entries)):
        say("Nothing was removed.")
        return
    store.remove(entries)
    say(f"Removed {_total(entries)}.")


def _store(home: Path | None) -> FeatureStore:
    from unseen.core.files import home as find_home
    from unseen.features import FeatureStore

    return FeatureStore(find_home(home) / "features")


def _confirmed(what: str) -> bool:
    from unseen.core.errors import UsageError

    try:
        return typer.confirm(f"Remove {what}?")
    except typer.Abort:
        raise UsageError("nothing was removed: there was no answer. Add --yes to remove without being asked.") from None


def _print_table(entries: list[Entry]) -> None:
    from rich.text import Text

    from unseen.cli.tables import print_table
    from unseen.core.files import format_size

    columns = ("id", "model", "dataset", "split", "layer", "rows", "skipped", "dim", "size", "state")
    rows = []
    for entry in entries:
        *described, state = _described(entry)
        cells = [entry.digest[:8], *described, format_size(entry.nbytes), state]
        rows.append([Text(cell, style=_STYLES.get(entry.state, "")) for cell in cells])
    numeric = ("rows", "skipped", "dim", "size")
    print_table(columns, rows, numeric=numeric, prose=("state",), keep=("model", "dataset", "split", "size", "state"))


def _described(entry: Entry) -> list[str]:
    """Model, dataset, split, layer, rows, skipped, dim, state. Folder names stand in for a manifest that is lost."""
    kept = entry.manifest
    if kept is None:
        model, dataset, split = entry.path.parts[-4:-1]
        return [model, dataset, split, "?", "?", "?", "?", entry.state]
    key = kept.key
    state = entry.state if kept.complete else f"partial, {kept.covered:,} of {kept.total:,} images"
    counts = [f"{kept.rows:,}", f"{len(kept.skipped):,}", f"{kept.dim:,}"]
    return [key.model, key.dataset, key.split, key.layer, *counts, state]


def _total(entries: list[Entry]) -> str:
    from unseen.core.files import format_size

    rows = sum(entry.manifest.rows for entry in entries if entry.manifest is not None)
    stored = count(len(entries), "entry", "entries")
    return f"{stored}, {count(rows, 'row')}, {format_size(sum(entry.nbytes for entry in entries))}"
