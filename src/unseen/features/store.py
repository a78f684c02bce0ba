"""The feature store: features extracted once, found by everything that changes a number.

    <root>/<model>/<dataset>/<split>/<digest of the key>/manifest.json, part-00000.safetensors, ...

Reading takes no lock and writes nothing, so it works on a read-only disk. Each part is read once per process
to compare its sha256 with the manifest's before a row of it is given out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Literal

from unseen.core.errors import CorruptPartError, StoreError, UnknownNameError
from unseen.core.files import explained, sync_folder
from unseen.core.records import FeatureKey
from unseen.features.manifest import (
    DIGEST,
    LOCKS,
    MANIFEST,
    PART,
    Manifest,
    entry_folder,
    folder_name,
    load_manifest,
    lock_file,
    part_name,
)
from unseen.features.part import Check, FloatArray, IntArray, noted, open_part
from unseen.features.rows import StoredFeatures, open_features
from unseen.features.writer import FeatureWriter, Written, take_lock, write_part_file

_DIGEST_DIGITS = 4


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of the store, as a listing shows it.

    Attributes:
        manifest: None where it cannot be read, or where a writer was stopped before it could write one.
        problem: why the manifest cannot be read, or "".
        nbytes: bytes of all its files.
        modified: when the manifest was last written, or the folder where there is none.
    """

    path: Path
    manifest: Manifest | None
    problem: str
    nbytes: int
    modified: datetime

    @property
    def digest(self) -> str:
        return self.path.name

    @property
    def state(self) -> Literal["complete", "partial", "damaged"]:
        if self.manifest is None:
            return "damaged" if self.problem else "partial"
        return self.manifest.state

    def to_dict(self) -> dict[str, Any]:
        """Plain values for a JSON listing; the key's fields are there where the manifest can be read."""
        values: dict[str, Any] = {"id": self.digest, "state": self.state}
        if self.manifest is not None:
            kept = self.manifest
            values |= kept.key.to_dict()
            values |= {"images": kept.total, "covered": kept.covered, "rows": kept.rows, "skipped": len(kept.skipped)}
            values |= {"dim": kept.dim, "dtype": kept.dtype, "parts": len(kept.parts)}
        values |= {"bytes": self.nbytes, "modified": self.modified.isoformat(timespec="seconds")}
        return values | {"path": str(self.path), "problem": self.problem}


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that `verify` found. The message names the file, what is wrong with it and how to repair it."""

    path: Path
    message: str

    def __str__(self) -> str:
        return self.message


class FeatureStore:
    """Stored features under one folder, `home() / "features"`; it need not exist yet."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def find(self, key: FeatureKey, *, check: Check = "sha256") -> StoredFeatures | None:
        """The features of `key` if they are complete, else None.

        Args:
            check: "sha256" compares all bytes with the manifest, once per process; "size" trusts the disk with
                them and compares sizes, headers and indices only.

        Raises:
            CorruptPartError: they are there, but their bytes are not those that were written.
            StoreError: the manifest is damaged or of a newer schema.
        """
        folder = entry_folder(self.root, key)
        manifest = load_manifest(folder)
        return open_features(folder, manifest, check) if manifest is not None and manifest.complete else None

    def open(self, key: FeatureKey, *, check: Check = "sha256") -> StoredFeatures:
        """The features of `key`, which must be complete; see `find`."""
        if (stored := self.find(key, check=check)) is not None:
            return stored
        folder = entry_folder(self.root, key)
        manifest = load_manifest(folder)
        found = f"only {manifest.covered} of {manifest.total} images are there" if manifest else "there are none"
        raise StoreError(
            f"no complete features of {key.model!r} ({key.layer}) on {key.dataset!r} {key.split!r} in {folder}: "
            f"{found}. Extract them, or run the extraction again to go on."
        )

    def writer(
        self,
        key: FeatureKey,
        *,
        total: int,
        part_size: int,
        timeout: float | None = None,
        on_wait: Callable[[], None] | None = None,
        verify: bool = True,
    ) -> FeatureWriter:
        """A writer of the features of `key`, to be used in a `with` block, which holds the entry's lock.

        Whoever holds several at once opens them in the order of `key.digest`, so that two processes never wait
        for one another.

        Args:
            total: images in the split.
            part_size: images per part, for an entry that is new; see `FeatureWriter.part_size`.
            timeout: seconds to wait for another writer of this key; None waits as long as it takes.
            on_wait: called once where there is one to wait for.
            verify: whether to read the parts that are there before going on behind them; without it they are taken
                for what the manifest says, as who adds one part among many does.
        """
        return FeatureWriter(
            entry_folder(self.root, key),
            lock_file(self.root, key.digest),
            key,
            total=total,
            part_size=part_size,
            timeout=timeout,
            on_wait=on_wait,
            verify=verify,
        )

    def write_part_file(
        self, key: FeatureKey, part_size: int, first: int, features: FloatArray, labels: IntArray, index: IntArray
    ) -> Written | None:
        """Put the file of a part of an entry in place that was begun and lacks it, for a writer to list.

        Returns:
            What the writer wants to know; None where the file is not wanted, or the entry is new.
        """
        folder = entry_folder(self.root, key)
        manifest = load_manifest(folder, known=True)
        if manifest is None or manifest.part_size != part_size or first < manifest.covered:
            return None
        return write_part_file(folder / part_name(first // part_size), features, labels, index)

    def holds(self, key: FeatureKey) -> bool:
        """Whether the features of `key` are complete, as far as their manifest says."""
        manifest = load_manifest(entry_folder(self.root, key))
        return manifest is not None and manifest.complete

    def missing(self, key: FeatureKey, *, total: int, part_size: int) -> tuple[int, list[int]]:
        """Images per part, and the first image of each part of `key` that is neither listed nor lies there loose.

        It takes no lock: a part that comes meanwhile is told as missing, which does no harm.
        """
        folder = entry_folder(self.root, key)
        manifest = load_manifest(folder)
        if manifest is None:
            return part_size, list(range(0, total, part_size))
        if manifest.complete:
            return manifest.part_size, []
        size, loose = manifest.part_size, noted(folder)
        return size, [first for first in range(manifest.covered, total, size) if first // size not in loose]

    def entries(self) -> Iterator[Entry]:
        """Everything in the store, in the order of its folders; damaged entries too."""
        for folder in sorted(self.root.glob("*/*/*/*")):
            if DIGEST.fullmatch(folder.name) and folder.relative_to(self.root).parts[0] != LOCKS:
                # Another process may be removing it.
                with suppress(FileNotFoundError):
                    yield _entry(folder)

    def manifests(self, model: str, dataset: str = "*", split: str = "*") -> Iterator[Manifest]:
        """The manifests of one model that can be read; of one dataset and split where they are named."""
        names = [name if name == "*" else folder_name(name) for name in (dataset, split)]
        for folder in sorted((self.root / folder_name(model)).glob("/".join([*names, "*"]))):
            with suppress(StoreError):
                if DIGEST.fullmatch(folder.name) and (found := load_manifest(folder, known=True)) is not None:
                    yield found

    def select(self, pattern: str) -> list[Entry]:
        """Entries whose model or dataset is `pattern` or fits it (`timm:*`), or whose digest begins with it.

        Of a digest at least four digits are asked for, so that a slip of the finger does not choose many.

        Raises:
            UnknownNameError: there are none.
        """
        entries = list(self.entries())
        if chosen := [entry for entry in entries if _fits(entry, pattern)]:
            return chosen
        known = {name for entry in entries for name in _names(entry)}
        hint = "" if entries else f"The store in {self.root} is empty."
        raise UnknownNameError("stored features", pattern, known, hint=hint)

    def verify(self, entry: Entry | None = None) -> list[Problem]:
        """Read every byte of `entry`, or of all, and say what is not as it was written; empty where all is well.

        An entry that is partial is no problem: the next extraction goes on from there.
        """
        if entry is None:
            return [problem for each in self.entries() for problem in self.verify(each)]
        kept = entry.manifest
        if kept is None:
            return [Problem(entry.path / MANIFEST, entry.problem)] if entry.problem else []
        problems = []
        for part in kept.parts:
            try:
                open_part(entry.path, part, dim=kept.dim, dtype=kept.dtype, reading="again")
            except CorruptPartError as error:
                problems.append(Problem(entry.path / part.file, str(error)))
        return problems

    def remove(self, entries: Iterable[Entry]) -> int:
        """Remove `entries` from the disk and return the bytes that they took.

        Raises:
            StoreError: one of them is being written, or cannot be removed.
        """
        return sum(self._remove(entry) for entry in entries)

    def _remove(self, entry: Entry) -> int:
        lock = take_lock(lock_file(self.root, entry.digest), timeout=0)
        try:
            if not entry.path.exists():  # somebody else was faster
                return 0
            with explained(entry.path):
                # The manifest first: whoever is killed here leaves files that no manifest lists, which are nobody's.
                (entry.path / MANIFEST).unlink(missing_ok=True)
                sync_folder(entry.path)
                for path in entry.path.iterdir():
                    path.unlink()
                entry.path.rmdir()
            for folder in entry.path.parents[:3]:
                with suppress(OSError):  # not empty: other entries live there
                    folder.rmdir()
        finally:
            lock.release()
        return entry.nbytes


def _entry(folder: Path) -> Entry:
    manifest, problem = None, ""
    files = {}
    for path in folder.iterdir():
        with suppress(FileNotFoundError):  # a temporary file of a writer at work
            files[path.name] = path.stat()
    try:
        manifest = load_manifest(folder)
    except StoreError as error:
        problem = str(error)
    if manifest is None and not problem and any(PART.fullmatch(name) for name in files):
        problem = f"{folder} holds parts but no {MANIFEST}. Remove it with `unseen features rm {folder.name}`."
    # The folder's own time moves whenever a temporary file comes and goes.
    modified = files.get(MANIFEST, folder.stat()).st_mtime
    size = sum(status.st_size for status in files.values())
    return Entry(folder, manifest, problem, size, datetime.fromtimestamp(modified, UTC))


def _names(entry: Entry) -> tuple[str, ...]:
    return (entry.digest, *((entry.manifest.key.model, entry.manifest.key.dataset) if entry.manifest else ()))


def _fits(entry: Entry, pattern: str) -> bool:
    if len(pattern) >= _DIGEST_DIGITS and entry.digest.startswith(pattern):
        return True
    return any(name == pattern or fnmatchcase(name, pattern) for name in _names(entry))
