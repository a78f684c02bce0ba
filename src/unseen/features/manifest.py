"""The manifest of an entry: what its parts are, and whether they are all there.

`manifest.json` follows from the key and the images alone. It holds no time, version or host name, so an extraction
that was interrupted and resumed leaves the same bytes as one that was not. How and when the features were made
stands in `provenance.json` beside it.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from unseen.core.errors import StoreError
from unseen.core.files import write_whole
from unseen.core.guard import read_patiently
from unseen.core.identity import canonical_json, digest
from unseen.core.records import FeatureKey
from unseen.features.layout import MANIFEST, PART

SCHEMA = 1
State = Literal["partial", "complete"]


@dataclass(frozen=True, slots=True)
class Skipped:
    """An image that has no row, and why.

    Attributes:
        index: position of the image in its split.
        name: the split's name for it, a relative path where there is one.
        reason: one line. It must be the same each time the image is tried.
    """

    index: int
    name: str
    reason: str


@dataclass(frozen=True, slots=True)
class Part:
    """One part file, for the images `first` to `last` of the split, both included.

    Attributes:
        rows: images that have a row; the others are in `skipped`.
        bytes: size of the file.
    """

    file: str
    first: int
    last: int
    rows: int
    bytes: int
    sha256: str
    skipped: tuple[Skipped, ...] = ()


@dataclass(frozen=True, slots=True)
class Manifest:
    """What an entry holds.

    Attributes:
        total: images in the split.
        part_size: images per part; the last part may have fewer.
        dim: length of a row; 0 until an image has had one.
        dtype: "float16" or "float32"; "" until an image has had a row.
    """

    key: FeatureKey
    total: int
    part_size: int
    dim: int = 0
    dtype: str = ""
    state: State = "partial"
    parts: tuple[Part, ...] = ()

    @property
    def complete(self) -> bool:
        return self.state == "complete"

    @property
    def covered(self) -> int:
        """Images that whole parts cover, which is where the next part begins."""
        return self.parts[-1].last + 1 if self.parts else 0

    @property
    def rows(self) -> int:
        return sum(part.rows for part in self.parts)

    @property
    def skipped(self) -> tuple[Skipped, ...]:
        return tuple(image for part in self.parts for image in part.skipped)

    def to_dict(self) -> dict[str, Any]:
        return {
            "schema": SCHEMA,
            "state": self.state,
            "digest": self.key.digest,
            "key": self.key.to_dict(),
            "total": self.total,
            "part_size": self.part_size,
            "rows": self.rows,
            "dim": self.dim,
            "dtype": self.dtype,
            "parts": [dataclasses.asdict(part) for part in self.parts],
        }


def save_manifest(folder: Path, manifest: Manifest) -> None:
    """Write `manifest` durably, with the sha256 of its own content as its last field."""
    values = manifest.to_dict()
    values["sha256"] = _checksum(values)
    write_whole(folder / MANIFEST, [json.dumps(values, indent=1).encode() + b"\n"])


def load_manifest(folder: Path) -> Manifest | None:
    """The manifest in `folder`, or None where there is none.

    Raises:
        StoreError: it is not whole, not of this folder, or of a schema that this version does not know.
    """
    path = folder / MANIFEST
    try:
        content = read_patiently(path.read_bytes, path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise StoreError(f"cannot read {path}: {error.strerror or error}.") from error
    try:
        values = json.loads(content)
        schema = values["schema"]
    except (ValueError, KeyError, TypeError) as error:
        raise _damaged(path, f"it is no manifest ({type(error).__name__}: {error})") from error
    if not isinstance(schema, int) or schema > SCHEMA:
        raise StoreError(
            f"{path} has schema {schema!r}, and this version of unseen knows up to {SCHEMA}: a newer version wrote it. "
            "Upgrade with: pip install --upgrade unseen"
        )
    try:
        return _from_dict(values, folder)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise _damaged(path, str(error) if type(error) is ValueError else f"{type(error).__name__}: {error}") from error


def _from_dict(values: Mapping[str, Any], folder: Path) -> Manifest:
    """A manifest of schema 1, refused by `ValueError` where it contradicts itself."""
    if values.get("sha256") != _checksum(values):
        raise ValueError("its content does not fit its own sha256")
    # Of the stored values, not of the record built from them: a field added to the record later changes nothing here.
    if not digest(values["key"]) == values["digest"] == folder.name:
        raise ValueError(f"it belongs to the key {values['digest']}, not to this folder")
    manifest = Manifest(
        key=FeatureKey.from_dict(values["key"]),
        total=values["total"],
        part_size=values["part_size"],
        dim=values["dim"],
        dtype=values["dtype"],
        state=values["state"],
        parts=tuple(
            Part(**{**part, "skipped": tuple(Skipped(**image) for image in part["skipped"])})
            for part in values["parts"]
        ),
    )
    _check_types(manifest)
    _check_coverage(manifest)
    return manifest


def _check_types(manifest: Manifest) -> None:
    counts = [manifest.total, manifest.part_size, manifest.dim]
    counts += [count for part in manifest.parts for count in (part.first, part.last, part.rows, part.bytes)]
    counts += [image.index for image in manifest.skipped]
    texts = [manifest.state, *(text for part in manifest.parts for text in (part.file, part.sha256))]
    texts += [text for image in manifest.skipped for text in (image.name, image.reason)]
    if any(type(count) is not int or count < -1 for count in counts) or any(type(text) is not str for text in texts):
        raise ValueError("a count is no whole number, or a name no text")
    if manifest.dtype not in (
        ("float16", "float32") if any(part.rows for part in manifest.parts) else ("", "float16", "float32")
    ):
        raise ValueError(f"its rows are of {manifest.dtype!r}")


def _check_coverage(manifest: Manifest) -> None:
    """Parts follow one another without a gap, and cover everything where the entry is complete."""
    begin = 0
    for part in manifest.parts:
        if part.first != begin or part.last != min(begin + manifest.part_size, manifest.total) - 1:
            raise ValueError(f"{part.file} covers the images {part.first} to {part.last}, out of order")
        if not PART.fullmatch(part.file) or part.rows + len(part.skipped) != part.last - part.first + 1:
            raise ValueError(f"the record of {part.file!r} does not add up")
        begin = part.last + 1
    if manifest.complete and begin != manifest.total:
        raise ValueError(f"it says complete, but covers {begin} of {manifest.total} images")


def _checksum(values: Mapping[str, Any]) -> str:
    content = {name: value for name, value in values.items() if name != "sha256"}
    return hashlib.sha256(canonical_json(content).encode()).hexdigest()


def _damaged(path: Path, reason: str) -> StoreError:
    return StoreError(
        f"{path} is damaged: {reason}. Remove the entry with `unseen features rm {path.parent.name}` and extract again."
    )
