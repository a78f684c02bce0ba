"""Where `unseen` keeps what it makes: features, results, exported graphs, reports.

One folder, `UNSEEN_HOME` if set, otherwise `unseen` in the user's data folder (`XDG_DATA_HOME`).
"""

from __future__ import annotations

import os
from pathlib import Path


def home(path: str | os.PathLike[str] | None = None) -> Path:
    """The folder to work in: `path` if given, else `UNSEEN_HOME`, else the user's data folder."""
    if path is not None:
        return Path(path).expanduser()
    if chosen := os.environ.get("UNSEEN_HOME"):
        return Path(chosen).expanduser()
    base = os.environ.get("XDG_DATA_HOME")
    return (Path(base) if base else Path.home() / ".local" / "share") / "unseen"
