"""Checkpoints of a fine-tuning: weights, optimiser, random state and place, whole or not there at all.

The file is torch's own format, read back with `weights_only`, so that it cannot run code. It carries the digest of all
that the training depends on: a checkpoint of another training is refused, not continued.
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import torch

from unseen.core.errors import CheckpointError, DiskFullError, StoreError
from unseen.core.files import write_whole
from unseen.core.guard import guarded

VERSION = 1


def save_state(path: Path, identity: str, state: dict[str, Any]) -> None:
    """Write `state` beside `path`, flush it to the disk, then put it in the place of the old one.

    Raises:
        DiskFullError: it cannot be written; the checkpoint before is untouched.
    """
    buffer = io.BytesIO()
    torch.save({"version": VERSION, "identity": identity, **state}, buffer)
    try:
        write_whole(path, buffer.getvalue())
    except StoreError as error:
        raise DiskFullError(
            f"the checkpoint could not be kept: {error} The one before is whole: make room, or choose another folder "
            "with --home or UNSEEN_HOME, and run the same command to go on."
        ) from error


def load_state(path: Path, identity: str) -> dict[str, Any] | None:
    """What `save_state` wrote, or None where there is no file.

    Raises:
        CheckpointError: the file is of another training, of another version, or not a checkpoint.
    """
    if not path.exists():
        return None
    with guarded(path, "a checkpoint of a fine-tuning", error=CheckpointError, advice="Remove it to begin anew."):
        state: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
        found, version = state["identity"], state["version"]
    if version != VERSION:
        raise CheckpointError(f"{path} has version {version}; this release reads {VERSION}. Remove it to begin anew.")
    if found != identity:
        raise CheckpointError(
            f"{path} belongs to another training ({found}, not {identity}): its model, data or settings differ. Remove "
            "it to begin anew, or give this training a path of its own."
        )
    return state
