"""The feature store: features extracted once, found by everything that changes a number.

    <root>/<model>/<dataset>/<split>/<digest of the key>/manifest.json, part-00000.safetensors, ...

Reading takes no lock and writes nothing, so it works on a read-only disk. Each part is read once per process
to compare its sha256 with the manifest's before any of its rows is returned.

Writing takes the lock of the entry. A part is renamed into place before its description is written, and the manifest
lists all parts before their descriptions are removed. So a part with a description, or in a manifest, is whole, and
killing the process at any moment loses at most the part it is working on. Parts can be added by many processes in any
order; the process that adds the last one completes the entry.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

from unseen.core.errors import CorruptPartError, StoreError, UnknownNameError
from unseen.core.files import TEMPORARY_SUFFIX, explained, make_folder, sync_folder, write_whole
from unseen.core.records import FeatureKey
from unseen.features.manifest import (
    DIGEST,
    LOCKS,
    MANIFEST,
    PART,
    PROVENANCE,
    Manifest,
    entry_folder,
    folder_name,
    load_manifest,
    lock_file,
    save_manifest,
)
from unseen.features.part import (
    DESCRIPTION,
    Check,
    Description,
    PartLayers,
    PartRows,
    description_file,
    find_parts,
    missing_parts,
    open_part,
    save_description,
    with_parts,
    write_part_file,
)
from unseen.features.rows import StoredFeatures

if TYPE_CHECKING:
    from filelock import AcquireReturnProxy

_DIGEST_DIGITS = 4
_POLL_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of the store, as a listing shows it.

    Attributes:
        manifest: None if it cannot be read, or if a writer was stopped before it could write one.
        problem: why the manifest cannot be read, or "".
        nbytes: bytes of all its files.
        modified: when the manifest was last written, or the folder if there is none.
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
    def names(self) -> tuple[str, ...]:
        """The digest, and if known the model and the dataset."""
        return (self.digest, *((self.manifest.key.model, self.manifest.key.dataset) if self.manifest else ()))

    @property
    def state(self) -> Literal["complete", "partial", "damaged"]:
        if self.manifest is None:
            return "damaged" if self.problem else "partial"
        return self.manifest.state

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for a JSON listing, with the fields of the key if the manifest can be read."""
        values: dict[str, Any] = {"id": self.digest, "state": self.state}
        if (found := self.manifest) is not None:
            values |= found.key.to_dict()
            values |= {"images": found.total, "covered": found.covered, "rows": found.rows}
            values |= {"skipped": len(found.skipped), "dim": found.dim, "dtype": found.dtype, "parts": len(found.parts)}
        values |= {"bytes": self.nbytes, "modified": self.modified.isoformat(timespec="seconds")}
        return values | {"path": str(self.path), "problem": self.problem}


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem that `verify` found. The message names the file, the fault and how to repair it."""

    path: Path
    message: str

    def __str__(self) -> str:
        return self.message


class FeatureStore:
    """Stored features under one folder, `home() / "features"`; it need not exist yet."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def find(self, key: FeatureKey) -> StoredFeatures | None:
        """Return the features of `key` if they are complete, else None.

        Raises:
            CorruptPartError: a part is missing, or its bytes differ from those that were written.
            StoreError: the manifest is damaged or of a newer schema.
        """
        folder = entry_folder(self.root, key)
        manifest = load_manifest(folder)
        return StoredFeatures.open(folder, manifest) if manifest is not None and manifest.complete else None

    def open(self, key: FeatureKey) -> StoredFeatures:
        """Return the features of `key`, which must be complete; see `find`."""
        if (stored := self.find(key)) is not None:
            return stored
        folder = entry_folder(self.root, key)
        manifest = find_parts(folder)
        found = f"only {manifest.covered} of {manifest.total} images are there" if manifest else "there are none"
        raise StoreError(
            f"no complete features of {key.model!r} ({key.layer}) on {key.dataset!r} {key.split!r} in {folder}: "
            f"{found}. Extract them, or run the extraction again to resume."
        )

    def writer(
        self,
        key: FeatureKey,
        *,
        total: int,
        part_size: int,
        timeout: float | None = None,
        on_wait: Callable[[], None] | None = None,
        exclusive: bool = True,
    ) -> FeatureWriter:
        """Return a writer of the features of `key`. Use it in a `with` block, which holds the entry's lock.

        To hold several writers at once, open them in the order of `key.digest`, so that two processes never wait
        for one another.

        Args:
            total: images in the split.
            part_size: images per part of a new entry; see `FeatureWriter.part_size`.
            timeout: seconds to wait for another writer of this key; None waits without limit.
            on_wait: called once if another writer holds the lock.
            exclusive: verify all bytes of existing parts, and remove files of killed writers. False only compares
                sizes and removes nothing, because other processes may be adding parts.
        """
        if total < 0 or part_size < 1:
            raise StoreError(f"total must be at least 0 and part_size at least 1, not {total} and {part_size}.")
        folder, lock = entry_folder(self.root, key), lock_file(self.root, key.digest)
        return FeatureWriter(folder, Manifest(key, total, part_size), lock, timeout, on_wait, exclusive)

    def add_part(self, key: FeatureKey, rows: PartRows, *, total: int, part_size: int) -> None:
        """Store one part, unless the entry is complete, has the part already, or was begun with another part size.

        The long step, writing the file, happens before the lock is taken: several processes can add parts at once.
        """
        folder = entry_folder(self.root, key)
        manifest = load_manifest(folder)
        if manifest is None:
            with self.writer(key, total=total, part_size=part_size, exclusive=False) as writer:
                manifest = writer.manifest
        if manifest.complete or manifest.part_size != part_size or rows.first not in missing_parts(folder, manifest):
            return
        try:
            description = write_part_file(folder, rows, manifest)
        except StoreError:
            if self.holds(key):  # completed by another process, which removes temporary files
                return
            raise
        with take_lock(lock_file(self.root, key.digest)):
            present = load_manifest(folder)
            # Another process may have completed the entry, or removed a file without a description.
            if present is not None and not present.complete and (folder / description.part.file).is_file():
                save_description(folder, description)

    def add_layers(
        self,
        keys: Mapping[str, FeatureKey],
        part: PartLayers,
        *,
        total: int,
        part_size: int,
        provenance: Mapping[str, object],
    ) -> None:
        """Store the rows of a part, if any, and complete the entries that have all their parts."""
        for layer, key in keys.items():
            if layer in part:
                self.add_part(key, part[layer], total=total, part_size=part_size)
            self.complete(key, total=total, part_size=part_size, provenance=provenance)

    def complete(self, key: FeatureKey, *, total: int, part_size: int, provenance: Mapping[str, object]) -> None:
        """Complete an entry if all of its parts are stored."""
        folder = entry_folder(self.root, key)
        manifest = load_manifest(folder) or Manifest(key, total, part_size)
        if manifest.complete or missing_parts(folder, manifest):
            return
        with self.writer(key, total=total, part_size=part_size, exclusive=False) as writer:
            if not writer.complete and not writer.missing:
                writer.finish(provenance)

    def holds(self, key: FeatureKey) -> bool:
        """Return whether the features of `key` are complete according to their manifest."""
        manifest = load_manifest(entry_folder(self.root, key))
        return manifest is not None and manifest.complete

    def missing(self, key: FeatureKey, *, total: int, part_size: int) -> tuple[int, list[int]]:
        """Return the images per part, and the first image of each part of `key` that is not stored.

        It takes no lock: a part that another process adds at the same time may be reported as missing.
        """
        folder = entry_folder(self.root, key)
        manifest = load_manifest(folder) or Manifest(key, total, part_size)
        return manifest.part_size, missing_parts(folder, manifest)

    def folders(self) -> list[Path]:
        """Return the folder of every entry, sorted."""
        found = sorted(self.root.glob("*/*/*/*"))
        return [path for path in found if DIGEST.fullmatch(path.name) and path.relative_to(self.root).parts[0] != LOCKS]

    def entries(self, folders: Iterable[Path] | None = None) -> Iterator[Entry]:
        """Yield every entry of the store, or those in some folders, including damaged ones, in their order."""
        for folder in self.folders() if folders is None else folders:
            with suppress(FileNotFoundError):  # another process may be removing it
                yield _entry(folder)

    def manifests(self, model: str, dataset: str = "*", split: str = "*") -> Iterator[Manifest]:
        """Yield the readable manifests of one model, optionally of one dataset and split."""
        names = [name if name == "*" else folder_name(name) for name in (dataset, split)]
        for folder in sorted((self.root / folder_name(model)).glob("/".join([*names, "*"]))):
            with suppress(StoreError):
                if DIGEST.fullmatch(folder.name) and (found := load_manifest(folder)) is not None:
                    yield found

    def select(self, pattern: str) -> list[Entry]:
        """Return the entries whose model or dataset matches `pattern` (`timm:*`), or whose digest begins with it.

        A digest needs at least four digits, so that a typing error does not select many entries.

        Raises:
            UnknownNameError: no entry matches.
        """
        entries = list(self.entries())
        digits = len(pattern) >= _DIGEST_DIGITS
        if chosen := [
            entry
            for entry in entries
            if (digits and entry.digest.startswith(pattern))
            or any(name == pattern or fnmatchcase(name, pattern) for name in entry.names)
        ]:
            return chosen
        known = {name for entry in entries for name in entry.names}
        hint = "" if entries else f"The store in {self.root} is empty."
        raise UnknownNameError("stored features", pattern, known, hint=hint)

    def verify(self, entry: Entry | None = None) -> list[Problem]:
        """Read every byte of `entry`, or of all entries, and return the files that differ from what was written.

        A partial entry is no problem: the next extraction resumes it.
        """
        if entry is None:
            return [problem for each in self.entries() for problem in self.verify(each)]
        manifest = entry.manifest
        if manifest is None:
            return [Problem(entry.path / MANIFEST, entry.problem)] if entry.problem else []
        problems = []
        for part in manifest.parts:
            try:
                open_part(entry.path, part, dim=manifest.dim, dtype=manifest.dtype, check="again")
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
        with take_lock(lock_file(self.root, entry.digest), timeout=0):
            if not entry.path.exists():  # another process has removed it
                return 0
            with explained(entry.path):
                # The manifest first: a kill after this leaves files without a manifest, which no reader uses.
                (entry.path / MANIFEST).unlink(missing_ok=True)
                sync_folder(entry.path)
                for path in entry.path.iterdir():
                    path.unlink()
                entry.path.rmdir()
            for folder in entry.path.parents[:3]:
                with suppress(OSError):  # not empty: it has other entries
                    folder.rmdir()
        return entry.nbytes


@dataclass(eq=False)
class FeatureWriter:
    """Write one entry; made by `FeatureStore.writer` and used in a `with` block.

    Inside the block the entry is locked. Leaving it before `finish` keeps the parts written so far: the next writer
    resumes from them.

    Attributes:
        path: the entry's folder.
        manifest: the entry with the parts that are stored.
        lock_path, timeout, on_wait, exclusive: see `FeatureStore.writer`.
        discarded: parts that were found but could not be used, one sentence each, to show to the user; usually empty.
    """

    path: Path
    manifest: Manifest
    lock_path: Path
    timeout: float | None
    on_wait: Callable[[], None] | None
    exclusive: bool
    discarded: tuple[str, ...] = ()
    _lock: AcquireReturnProxy | None = None

    @property
    def complete(self) -> bool:
        """Whether the entry is complete, by this writer or by another."""
        return self.manifest.complete

    @property
    def missing(self) -> list[int]:
        """First image of each part that is still to be written."""
        return self.manifest.missing

    @property
    def next_index(self) -> int:
        """First image of the first missing part; `total` if none is missing."""
        return next(iter(self.missing), self.manifest.total)

    @property
    def part_size(self) -> int:
        """Images per part. An entry that was begun earlier keeps its size."""
        return self.manifest.part_size

    def __enter__(self) -> Self:
        self._lock = take_lock(self.lock_path, timeout=self.timeout, on_wait=self.on_wait)
        try:
            self._begin()
        except BaseException:
            self._lock.lock.release()
            raise
        return self

    def __exit__(self, *_error: object) -> None:
        if self._lock is not None:
            self._lock.lock.release()
            self._lock = None

    def write(self, rows: PartRows) -> None:
        """Write a part: the images from `rows.first` on, `part_size` of them or up to the end.

        Raises:
            StoreError: the rows are not those of a missing part, or differ in length or type from other parts.
            DiskFullError: the disk is full; every other part is intact.
        """
        manifest = self._open_manifest()
        if rows.first not in self.missing:
            raise StoreError(f"no missing part begins at image {rows.first}.")
        description = write_part_file(self.path, rows, manifest)
        save_description(self.path, description)
        known = [Description(part, manifest.dim, manifest.dtype) for part in manifest.parts]
        self.manifest = with_parts(manifest, [*known, description])

    def finish(self, provenance: Mapping[str, object] | None = None) -> None:
        """Mark the entry complete.

        Args:
            provenance: how the features were made: versions, seconds, notes; JSON values. They go to a separate file
                because they may differ between an uninterrupted run and a resumed one; the manifest may not.

        Raises:
            StoreError: images are missing, or the provenance is not JSON.
        """
        manifest = self._open_manifest()
        if self.missing:
            raise StoreError(f"cannot finish {self.path}: {manifest.covered} of {manifest.total} images are covered.")
        try:
            text = json.dumps(dict(provenance or {}), indent=1, sort_keys=True)
        except (TypeError, ValueError) as error:
            raise StoreError(f"the provenance of {self.path} is not made of JSON values: {error}.") from error
        save_manifest(self.path, manifest)
        self._clear(keep=[part.file for part in manifest.parts])
        write_whole(self.path / PROVENANCE, [text.encode() + b"\n"])
        self.manifest = replace(manifest, state="complete")
        save_manifest(self.path, self.manifest)

    def _open_manifest(self) -> Manifest:
        if self._lock is None:
            raise StoreError("a feature writer is used inside its `with` block only.")
        if self.complete:
            raise StoreError(f"{self.path} is complete already: check `writer.complete` before writing.")
        return self.manifest

    def _begin(self) -> None:
        """Create the entry, or resume from its valid parts and remove the rest."""
        listed = load_manifest(self.path)
        if listed is None:
            make_folder(self.path)
            if lost := [name for name in self._clear(keep=()) if PART.fullmatch(name)]:
                self.discarded = (f"{len(lost)} part(s) in {self.path} had no manifest and are extracted again.",)
            save_manifest(self.path, self.manifest)
            return
        if listed.key != self.manifest.key or listed.total != self.manifest.total:
            raise StoreError(
                f"{self.path} is of a split of {listed.total} images, not of {self.manifest.total}, though the key is "
                f"the same. Remove it with `unseen features rm {self.path.name}` and extract again."
            )
        found = find_parts(self.path) or listed
        self.manifest = found if found.complete else self._verified(found)
        if self.complete or not self.exclusive:
            return
        parts = self.manifest.parts
        if not set(listed.parts) <= set(parts):  # the manifest stops listing a part before its file is removed
            for part in parts:
                save_description(self.path, Description(part, self.manifest.dim, self.manifest.dtype))
            save_manifest(self.path, replace(listed, parts=(), dim=0, dtype=""))
        self._clear(keep={*(part.file for part in parts), *(description_file(self.path, part).name for part in parts)})

    def _verified(self, manifest: Manifest) -> Manifest:
        """Return the manifest with its valid parts, and report the others in `discarded`."""
        valid = []
        check: Check = "sha256" if self.exclusive else "size"
        for part in manifest.parts:
            try:
                open_part(self.path, part, dim=manifest.dim, dtype=manifest.dtype, check=check)
            except CorruptPartError as error:
                self.discarded += (f"{part.file} is extracted again: {error}",)
            else:
                valid.append(Description(part, manifest.dim, manifest.dtype))
        return with_parts(manifest, valid)

    def _clear(self, keep: Collection[str]) -> list[str]:
        """Remove temporary files, and parts and descriptions that are not in `keep`; return the names."""
        with explained(self.path):
            stale = [
                path
                for path in sorted(self.path.iterdir())
                if path.name.endswith(TEMPORARY_SUFFIX)
                or ((PART.fullmatch(path.name) or DESCRIPTION.fullmatch(path.name)) and path.name not in keep)
            ]
            for path in stale:
                path.unlink()
            if stale:
                sync_folder(self.path)
        return [path.name for path in stale]


def take_lock(
    path: Path, *, timeout: float | None = None, on_wait: Callable[[], None] | None = None
) -> AcquireReturnProxy:
    """Acquire the lock file `path`; a `with` block releases it.

    Args:
        timeout: seconds to wait for another holder; None waits without limit.
        on_wait: called once if another process holds it.

    Raises:
        StoreError: another process still held it after `timeout`, or the lock file cannot be written.
    """
    make_folder(path.parent)
    from filelock import FileLock, Timeout  # imports asyncio

    # Not bound to a thread: an extraction may open a writer in one thread and write from another.
    lock = FileLock(path, thread_local=False)
    with explained(path):
        with suppress(Timeout):
            return lock.acquire(timeout=0)
        if on_wait is not None:
            on_wait()
        try:
            return lock.acquire(timeout=-1 if timeout is None else timeout, poll_interval=_POLL_SECONDS)
        except Timeout:
            waited = f", and has not finished within {timeout:g} s" if timeout else ""
            raise StoreError(
                f"another process is writing the features {path.stem}{waited}. "
                "Wait for it to end, or stop it: the parts that it has written are kept."
            ) from None
        except RuntimeError as error:  # filelock's error for a thread that waits for itself
            raise StoreError(f"this thread is writing the features {path.stem} already: {error}") from error


def _entry(folder: Path) -> Entry:
    manifest, problem, files = None, "", {}
    for path in folder.iterdir():
        with suppress(FileNotFoundError):  # a temporary file of an active writer
            files[path.name] = path.stat()
    try:
        manifest = find_parts(folder)
    except StoreError as error:
        problem = str(error)
    if manifest is None and not problem and any(PART.fullmatch(name) for name in files):
        problem = f"{folder} holds parts but no {MANIFEST}. Remove it with `unseen features rm {folder.name}`."
    # The folder's own time changes whenever a temporary file is written.
    modified = files.get(MANIFEST, folder.stat()).st_mtime
    size = sum(status.st_size for status in files.values())
    return Entry(folder, manifest, problem, size, datetime.fromtimestamp(modified, UTC))
