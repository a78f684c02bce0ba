"""`unseen features`: list, verify and remove stored features."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from unseen.cli.application import Command, Group, HomeOption, JsonOption
from unseen.cli.tables import confirm, count, print_json, print_table, say
from unseen.core.errors import CorruptPartError, UsageError
from unseen.core.files import format_size
from unseen.core.files import home as home_folder
from unseen.features import Entry, FeatureStore

features_commands = typer.Typer(
    name="features", cls=Group, help="List, verify and remove stored features.", no_args_is_help=True
)

_PATTERN_HELP = "A model or dataset, with * for any characters, or the beginning of the id of an entry"
#: Entries that a table lists.
_MOST = 1000
_STYLES = {"partial": "yellow", "damaged": "red"}


@features_commands.command("ls", cls=Command)
def list_features(as_json: JsonOption = False, home: HomeOption = None) -> None:
    """List stored features with their sizes."""
    store = _store(home)
    folders = store.folders()
    entries = list(store.entries(folders if as_json else folders[:_MOST]))
    if as_json:
        print_json([entry.to_dict() for entry in entries])
        return
    if not entries:
        say(f"No features are stored in {store.root}.")
        return
    _print_table(entries)
    if len(folders) > _MOST:
        say(f"These are the first {_MOST:,} of {len(folders):,} entries; --json lists all.")
    else:
        say(f"Total: {_total(entries)}.")


@features_commands.command("verify", cls=Command)
def verify_features(
    pattern: Annotated[str | None, Argument(help=_PATTERN_HELP + "; all entries by default.")] = None,
    home: HomeOption = None,
) -> None:
    """Read every byte and compare it with the stored checksums; exit with code 2 if one differs."""
    from rich.console import Console
    from rich.progress import track

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
    say(f"All checksums match: {_total(entries)}.")


@features_commands.command("rm", cls=Command)
def remove_features(
    pattern: Annotated[str | None, Argument(help=_PATTERN_HELP)] = None,
    everything: Annotated[bool, Option("--all", help="Remove all stored features.")] = False,
    yes: Annotated[bool, Option("--yes", "-y", help="Do not ask.")] = False,
    home: HomeOption = None,
) -> None:
    """List the selected features, ask, and remove them."""
    if (pattern is None) == (not everything):
        raise UsageError("give a PATTERN (a model, a dataset, the id of an entry), or --all, not both.")
    store = _store(home)
    entries = list(store.entries()) if pattern is None else store.select(pattern)
    if not entries:
        say(f"No features are stored in {store.root}.")
        return
    _print_table(entries)
    if not yes and not confirm(f"Remove {_total(entries)}?", "removed"):
        return
    store.remove(entries)
    say(f"Removed {_total(entries)}.")


def _store(home: Path | None) -> FeatureStore:
    return FeatureStore(home_folder(home) / "features")


def _print_table(entries: list[Entry]) -> None:
    from rich.text import Text

    columns = ("id", "model", "dataset", "split", "layer", "rows", "skipped", "dim", "size", "state")
    rows = []
    for entry in entries:
        *described, state = _described(entry)
        cells = [entry.digest[:8], *described, format_size(entry.nbytes), state]
        rows.append([Text(cell, style=_STYLES.get(entry.state, "")) for cell in cells])
    numeric = ("rows", "skipped", "dim", "size")
    print_table(columns, rows, numeric=numeric, prose=("state",), keep=("model", "dataset", "split", "size", "state"))


def _described(entry: Entry) -> list[str]:
    """Return model, dataset, split, layer, rows, skipped, dim, state; from folder names if the manifest is lost."""
    kept = entry.manifest
    if kept is None:
        return [*entry.path.parts[-4:-1], "?", "?", "?", "?", entry.state]
    key, counts = kept.key, (kept.rows, len(kept.skipped), kept.dim)
    state = entry.state if kept.complete else f"partial, {kept.covered:,} of {kept.total:,} images"
    return [key.model, key.dataset, key.split, key.layer, *map("{:,}".format, counts), state]


def _total(entries: list[Entry]) -> str:
    rows = sum(entry.manifest.rows for entry in entries if entry.manifest is not None)
    stored = count(len(entries), "entry", "entries")
    return f"{stored}, {count(rows, 'row')}, {format_size(sum(entry.nbytes for entry in entries))}"
