"""Writing an entry part by part, under a lock, so that a kill at any moment loses at most the part in hand.

The order of steps is what makes it safe: a part is renamed into place before the manifest lists it, and a manifest
stops listing a part before its file goes. So what the manifest lists is there and whole, always.

Parts may come in any order, from many processes, each of which takes the lock for as long as it writes: a part ahead of
its turn lies loose, with a note, until those before it are there. Whoever brings the last one closes the manifest.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
from filelock import FileLock, Timeout

from unseen.core.errors import CorruptPartError, StoreError
from unseen.core.files import TEMPORARY_SUFFIX, explained, make_folder, sync_folder, write_whole
from unseen.core.records import FeatureKey
from unseen.features.manifest import (
    NOTE,
    PART,
    PROVENANCE,
    Manifest,
    Part,
    Skipped,
    load_manifest,
    part_name,
    save_manifest,
)
from unseen.features.part import (
    FloatArray,
    IntArray,
    LoosePart,
    encode_part,
    load_note,
    note_file,
    noted,
    open_part,
    save_note,
)

_ADDRESS = re.compile(r" (?:object )?at 0x[0-9a-fA-F]+")
_POLL_SECONDS = 0.2
#: Loose parts, at least, that are worth a new manifest before the last has come.
_FEW = 8


def take_lock(path: Path, *, timeout: float | None = None, on_wait: Callable[[], None] | None = None) -> FileLock:
    """The lock file `path`, held.

    Args:
        timeout: seconds to wait for another holder; None waits as long as it takes.
        on_wait: called once where there is somebody to wait for.

    Raises:
        StoreError: somebody else still held it after `timeout`, or the lock file cannot be written.
    """
    make_folder(path.parent)
    # Not bound to a thread: an extraction may open a writer in one thread and write from another.
    lock = FileLock(path, thread_local=False)
    with explained(path):
        try:
            lock.acquire(timeout=0)
        except Timeout:
            if on_wait is not None:
                on_wait()
            _wait_for(lock, path, timeout)
    return lock


def _wait_for(lock: FileLock, path: Path, timeout: float | None) -> None:
    try:
        lock.acquire(timeout=-1 if timeout is None else timeout, poll_interval=_POLL_SECONDS)
    except Timeout:
        waited = f", and has not finished within {timeout:g} s" if timeout else ""
        raise StoreError(
            f"another process is writing the features {path.stem}{waited}. "
            "Wait for it to end, or stop it: what it has written is kept."
        ) from None
    except RuntimeError as error:  # filelock's word for waiting for oneself
        raise StoreError(f"this thread is writing the features {path.stem} already: {error}") from error


class FeatureWriter:
    """Writes one entry; made by `FeatureStore.writer` and used in a `with` block.

    Inside the block the entry is locked. Leaving it before `finish` keeps the parts written so far: the next writer
    goes on behind them.

    Attributes:
        path: the entry's folder.
        discarded: what was there but could not be kept, one sentence each, for the user to read; usually empty.
    """

    def __init__(
        self,
        folder: Path,
        lock_path: Path,
        key: FeatureKey,
        *,
        total: int,
        part_size: int,
        timeout: float | None = None,
        on_wait: Callable[[], None] | None = None,
        verify: bool = True,
    ) -> None:
        if total < 0 or part_size < 1:
            raise StoreError(f"total must be at least 0 and part_size at least 1, not {total} and {part_size}.")
        self.path = folder
        self.discarded: tuple[str, ...] = ()
        self._lock_path = lock_path
        self._manifest = Manifest(key, total=total, part_size=part_size)
        self._timeout = timeout
        self._on_wait = on_wait
        self._verify = verify
        self._lock: FileLock | None = None

    @property
    def key(self) -> FeatureKey:
        return self._manifest.key

    @property
    def complete(self) -> bool:
        """Nothing is left to do: it was finished here, earlier, or by somebody else while we waited."""
        return self._manifest.complete

    @property
    def next_index(self) -> int:
        """Images that whole, verified parts cover: the first image of the next part."""
        return self._manifest.covered

    @property
    def part_size(self) -> int:
        """Images per part. Of an entry begun earlier it is the size that it was begun with, which goes on."""
        return self._manifest.part_size

    @property
    def missing(self) -> list[int]:
        """The first image of each part that is still to be written."""
        loose = noted(self.path)
        starts = range(self.next_index, self._manifest.total, self.part_size)
        return [first for first in starts if first // self.part_size not in loose]

    def __enter__(self) -> Self:
        self._lock = take_lock(self._lock_path, timeout=self._timeout, on_wait=self._on_wait)
        try:
            self._begin()
        except BaseException:
            self._lock.release()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def write_part(
        self,
        features: FloatArray,
        labels: IntArray,
        index: IntArray,
        skipped: Sequence[Skipped] = (),
        *,
        first: int | None = None,
        written: Written | None = None,
    ) -> None:
        """Write a part: the images from `first` on, `part_size` of them or up to the end.

        Args:
            written: what `write_part_file` said where the file is in place already.
            first: `next_index` by default; a multiple of `part_size` behind it where a part comes before its turn.
            features: (n, d), float16 or float32.
            labels: (n,) class index per row.
            index: (n,) position of each image in the split, ascending.
            skipped: the images of the part that have no row.

        Raises:
            StoreError: the rows are not those of the next part, or not like the rows before them.
            DiskFullError: no room; everything before this part is whole.
        """
        manifest = self._open_manifest()
        first = self.next_index if first is None else first
        if first < self.next_index or first % self.part_size or first >= manifest.total:
            raise StoreError(f"no part that is to be written begins at image {first}.")
        last = min(first + self.part_size, manifest.total) - 1
        skipped = tuple(
            # A message such as "cannot identify <BytesIO object at 0x7f12>" would differ at each run.
            Skipped(int(image.index), image.name, _ADDRESS.sub("", image.reason))
            for image in sorted(skipped, key=lambda image: image.index)
        )
        _check_arrays(features, labels, index)
        _check_images(first, last, index, skipped)
        dim, dtype = (features.shape[1], features.dtype.name) if len(features) else (0, "")
        _check_kind(manifest, dim, dtype)
        number = first // self.part_size
        path = self.path / part_name(number)
        if written is None or not path.is_file():  # somebody who began anew may have cleared it away
            written = write_part_file(path, features, labels, index)
        part = Part(path.name, first, last, rows=len(features), bytes=written[0], sha256=written[1], skipped=skipped)
        if self._verify and number == len(manifest.parts):
            self._save(*self._gathered(_with_part(manifest, LoosePart(part, dim, dtype))))
        else:
            save_note(self.path, number, LoosePart(part, dim, dtype))

    def gather(self, *, due: bool = False) -> None:
        """Take loose parts whose turn has come into the manifest.

        Args:
            due: only where they are all that is missing, or many: a manifest of thousands of parts is long to write.
        """
        if due and not self._is_due():
            return
        manifest, notes = self._gathered(self._open_manifest())
        if notes:
            self._save(manifest, notes)

    def finish(self, provenance: Mapping[str, Any] | None = None) -> None:
        """Mark the entry complete.

        Args:
            provenance: how the features were made: versions, seconds, notes; JSON values. It goes to a file of its
                own, because it may differ between an uninterrupted run and a resumed one; the manifest may not.

        Raises:
            StoreError: images are missing, or the provenance is not JSON.
        """
        manifest = self._open_manifest()
        if self.next_index != manifest.total:
            raise StoreError(f"cannot finish {self.path}: {self.next_index} of {manifest.total} images are covered.")
        try:
            text = json.dumps(dict(provenance or {}), indent=1, sort_keys=True)
        except (TypeError, ValueError) as error:
            raise StoreError(f"the provenance of {self.path} is not made of JSON values: {error}.") from error
        self._clear(keep=[part.file for part in manifest.parts])
        write_whole(self.path / PROVENANCE, [text.encode() + b"\n"])
        self._save(dataclasses.replace(manifest, state="complete"))

    def _open_manifest(self) -> Manifest:
        if self._lock is None:
            raise StoreError("a feature writer is used inside its `with` block only.")
        if self.complete:
            raise StoreError(f"{self.path} is complete already: ask `writer.complete` before writing.")
        return self._manifest

    def _save(self, manifest: Manifest, notes: Sequence[int] = ()) -> None:
        """Save the manifest; then the notes of parts that it lists now may go."""
        save_manifest(self.path, manifest)
        self._manifest = manifest
        with explained(self.path):
            for number in notes:
                note_file(self.path, number).unlink(missing_ok=True)

    def _is_due(self) -> bool:
        there, every = len(self._manifest.parts), -(-self._manifest.total // self.part_size)
        step = min(max(_FEW, there // _FEW), every - there)
        if not note_file(self.path, there + step - 1).is_file() and not note_file(self.path, every - 1).is_file():
            return False
        return all(note_file(self.path, number).is_file() for number in range(there, there + step))

    def _gathered(self, manifest: Manifest) -> tuple[Manifest, list[int]]:
        """The manifest with the loose parts that follow it, and their numbers."""
        notes: list[int] = []
        while (loose := load_note(self.path, len(manifest.parts))) is not None and loose.part.first == manifest.covered:
            _check_kind(manifest, loose.dim, loose.dtype)
            notes.append(len(manifest.parts))
            manifest = _with_part(manifest, loose)
        return manifest, notes

    def _begin(self) -> None:
        """Take up what is there: keep the parts that verify, in order, and clear away the rest."""
        found = load_manifest(self.path, known=not self._verify)
        if found is None:
            make_folder(self.path)
            if lost := [name for name in self._clear(keep=()) if PART.fullmatch(name)]:
                self.discarded = (f"{len(lost)} part(s) in {self.path}, which had no manifest, are done again.",)
            self._save(self._manifest)
            return
        if found.key != self.key or found.total != self._manifest.total:
            raise StoreError(
                f"{self.path} is of a split of {found.total} images, not of {self._manifest.total}, though the key is "
                f"the same. Remove it with `unseen features rm {self.path.name}` and extract again."
            )
        if found.complete or not self._verify:
            self._manifest = found
            return
        whole = self._verified(found)
        # The manifest lets go of a part before its file goes.
        if len(whole) < len(found.parts):
            known = any(part.rows for part in whole)
            dim, dtype = (found.dim, found.dtype) if known else (0, "")
            self._save(dataclasses.replace(found, parts=whole, dim=dim, dtype=dtype))
        else:
            self._manifest = found
        loose = self._verified_notes(sorted(number for number in noted(self.path) if number >= len(whole)))
        self._clear(keep=[part.file for part in (*whole, *loose)], notes=[note_name(part) for part in loose])
        self.gather()

    def _verified(self, manifest: Manifest) -> tuple[Part, ...]:
        for number, part in enumerate(manifest.parts):
            try:
                open_part(self.path, part, dim=manifest.dim, dtype=manifest.dtype)
            except CorruptPartError as error:
                lost = len(manifest.parts) - number
                self.discarded = (f"{lost} part(s) from {part.file} on are done again: {error}",)
                return manifest.parts[:number]
        return manifest.parts

    def _verified_notes(self, numbers: Sequence[int]) -> list[Part]:
        """Loose parts whose bytes are those that were written."""
        found = []
        for number in numbers:
            if (loose := load_note(self.path, number)) is None:
                continue
            with contextlib.suppress(CorruptPartError):
                open_part(self.path, loose.part, dim=loose.dim, dtype=loose.dtype)
                found.append(loose.part)
        return found

    def _clear(self, keep: Sequence[str], notes: Sequence[str] = ()) -> list[str]:
        """Remove what killed writers left, temporary files and a part that nothing lists; return the names."""
        with explained(self.path):
            stale = [
                path
                for path in sorted(self.path.iterdir())
                if path.name.endswith(TEMPORARY_SUFFIX)
                or (PART.fullmatch(path.name) and path.name not in keep)
                or (NOTE.fullmatch(path.name) and path.name not in notes)
            ]
            for path in stale:
                path.unlink()
            if stale:
                sync_folder(self.path)
        return [path.name for path in stale]


#: Bytes and sha256 of a file.
Written = tuple[int, str]


def write_part_file(path: Path, features: FloatArray, labels: IntArray, index: IntArray) -> Written:
    """Write a part file, whole or not at all. Equal rows give equal bytes, so it takes no lock to do so twice."""
    blocks = encode_part(features, labels, index)
    return sum(len(block) for block in blocks), write_whole(path, blocks)


def note_name(part: Part) -> str:
    return part.file.replace(".safetensors", ".json")


def _with_part(manifest: Manifest, loose: LoosePart) -> Manifest:
    dim, dtype = (loose.dim, loose.dtype) if loose.part.rows else (manifest.dim, manifest.dtype)
    return dataclasses.replace(manifest, parts=(*manifest.parts, loose.part), dim=dim, dtype=dtype)


def _check_kind(manifest: Manifest, dim: int, dtype: str) -> None:
    if dtype and manifest.dtype and (dim, dtype) != (manifest.dim, manifest.dtype):
        raise StoreError(f"rows of {dim} {dtype} do not fit those before: {manifest.dim} {manifest.dtype}.")


def _check_arrays(features: FloatArray, labels: IntArray, index: IntArray) -> None:
    if features.ndim != 2 or features.dtype.name not in ("float16", "float32"):
        raise StoreError(f"features must be (n, d) of float16 or float32, not {features.dtype} {features.shape}.")
    for name, array in (("labels", labels), ("index", index)):
        if array.shape != (len(features),) or array.dtype.name != "int64":
            raise StoreError(f"{name} must be ({len(features)},) of int64, not {array.dtype} {array.shape}.")


def _check_images(first: int, last: int, index: IntArray, skipped: Sequence[Skipped]) -> None:
    """Each image of the part is there once: with a row, in order, or skipped."""
    ascending = bool(np.all(index[1:] > index[:-1]))
    covered = np.sort(np.concatenate([index, np.array([image.index for image in skipped], np.int64)]))
    if not ascending or not np.array_equal(covered, np.arange(first, last + 1)):
        span = f"{covered[0]} to {covered[-1]}" if len(covered) else "none"
        raise StoreError(
            f"the next part covers each of the images {first} to {last} once, with ascending indices or as skipped; "
            f"it was given {len(index)} rows and {len(skipped)} skipped images ({span})."
        )
