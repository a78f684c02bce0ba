"""`unseen results verify`, `repair` and `rerun`: whether stored results are what was computed, and can be again."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from unseen.cli.options import HomeOption, JsonOption
from unseen.cli.tables import count, say

if TYPE_CHECKING:
    from unseen.api.rerun import Rerun


def verify(as_json: JsonOption = False, home: HomeOption = None) -> None:
    """Check the digest of every stored result and the structure of the database; exit with code 2 on damage."""
    from unseen.cli.tables import print_json
    from unseen.core.errors import StoreError
    from unseen.core.files import home as home_folder
    from unseen.results import FILE_NAME, ResultsDatabase

    with ResultsDatabase(home_folder(home) / FILE_NAME, read_only=True) as database:
        found, path = database.verify(), database.path
    total = count(found.checked, "result")
    if as_json:
        invalid = [{"id": number, "problem": problem} for number, problem in found.invalid.items()]
        values = {"checked": found.checked, "without_digest": found.unsealed, "invalid": invalid}
        print_json({**values, "structure": list(found.structure)})
    else:
        for number, problem in found.invalid.items():
            say(f"result {number}: {problem}")
        for line in found.structure:
            say(f"structure: {line}")
        if found.unsealed:
            say(f"{found.unsealed:,} of {total} were stored by an earlier version, without a digest to compare with.")
    if found.invalid or found.structure:
        structure = ", and the structure of the file is damaged" if found.structure else ""
        raise StoreError(
            f"invalid results in {path}: {len(found.invalid):,} of {found.checked:,}{structure}. `unseen results "
            "repair` copies the valid ones into a new database; running the study again computes the others."
        )
    if not as_json:
        say(f"No damage found: {total} in {path}.")


def repair(home: HomeOption = None) -> None:
    """Copy all valid results of a damaged database into a new one. The damaged file is kept under another name.

    Stop runs that use this home first. Nothing is changed if no damage is found.
    """
    from unseen.core.errors import StoreError
    from unseen.core.files import home as home_folder
    from unseen.results import FILE_NAME, ResultsDatabase
    from unseen.results.repair import repair as repair_file

    path = home_folder(home) / FILE_NAME
    try:
        with ResultsDatabase(path, read_only=True) as database:
            found = database.verify()
    except StoreError:
        found = None  # it cannot even be opened or read
    if found is not None and not found.invalid and not found.structure:
        say(f"No damage found: {count(found.checked, 'result')} in {path}. Nothing was changed.")
        return
    done = repair_file(path)
    for number, problem in done.lost.items():
        say(f"result {number} was not copied: {problem}")
    say(f"{count(done.kept, 'valid result')} copied into {path}. The damaged file is {done.backup}.")


def rerun(
    identifier: Annotated[
        str, typer.Argument(metavar="ID", help="Number of a result, or the id of its cell (at least 4 digits of it).")
    ],
    files: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Where files lie that options of the result name.")
    ] = None,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:1 or mps: where networks run.")] = "auto",
    as_json: JsonOption = False,
    home: HomeOption = None,
) -> None:
    """Compute a stored result again in a temporary home, and compare every metric; exit with code 3 if one differs.

    Features are extracted again. If a metric differs, what else has changed is listed: versions, device, weights, data.
    """
    from unseen.api.rerun import rerun as compute
    from unseen.cli.progress import ConsoleProgress
    from unseen.cli.tables import console, print_json
    from unseen.core.errors import CellsFailedError
    from unseen.core.files import home as home_folder
    from unseen.results import FILE_NAME, ResultsDatabase

    with ResultsDatabase(home_folder(home) / FILE_NAME, read_only=True) as database:
        _, stored = database.find(identifier)
    progress = None if as_json else ConsoleProgress(console(error=True))
    done = compute(stored, home=home, files=files, device=device, progress=progress)
    if as_json:
        print_json(_as_json(done))
    else:
        _print(done)
    if not done.identical:
        raise CellsFailedError(f"the result of cell {stored.cell.id} is not the stored one.")


def _as_json(done: Rerun) -> dict[str, object]:
    return {
        "cell": done.stored.cell.id,
        "identical": done.identical,
        "metrics": {name: {"stored": old, "now": new} for name, (old, new) in done.metrics().items()},
        "errors": {"stored": done.stored.error, "now": done.now.error},
        "conditions": {name: {"stored": old, "now": new} for name, (old, new) in done.conditions().items()},
    }


def _print(done: Rerun) -> None:
    cell, stored = done.stored.cell, done.stored
    say(f"{cell.benchmark} · {cell.model} · {cell.dataset}, stored {stored.recorded[:10]}, computed again:")
    differing = done.metrics()
    if done.identical:
        say(f"Every metric is identical ({', '.join(stored.metrics) or 'none: it fails as it did'}).")
    for name in dict.fromkeys([*stored.metrics, *done.now.metrics]) if not done.identical else ():
        old, new = differing.get(name, (stored.metrics.get(name), stored.metrics.get(name)))
        if name not in differing:
            say(f"  {name}: identical, {old!r}")
        elif old is None or new is None:
            say(f"  {name}: {'stored only' if new is None else 'new'}, {old if new is None else new!r}")
        else:
            say(f"  {name}: stored {old!r}, now {new!r}, difference {new - old:+.3g}")
    if stored.error != done.now.error:
        say(f"  error: stored {stored.error or 'none'!r}, now {done.now.error or 'none'!r}")
    changed = done.conditions()
    say("What has changed:" if changed else "Versions, device, weights and data are the same.")
    for name, (before, now) in changed.items():
        say(f"  {name}: {before or 'none'}, now {now or 'none'}")
