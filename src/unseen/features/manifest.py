"""The manifest of an entry: what its parts are, and whether they are all there.

`manifest.json` follows from the key and the images alone. It holds no time, version or host name, so an extraction
that was interrupted and resumed leaves the same bytes as one that was not. How and when the features were made
stands in `provenance.json` beside it.

A key's features lie in `<root>/<model>/<dataset>/<split>/<digest>/`. The three upper names are for people: short, safe
on any file system, and different for different ids. The last one, the digest of the whole key, tells entries apart.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from unseen.core.errors import StoreError
from unseen.core.files import write_whole
from unseen.core.guard import read_patiently
from unseen.core.identity import canonical_json, digest
from unseen.core.records import FeatureKey

SCHEMA = 1
MANIFEST = "manifest.json"
PROVENANCE = "provenance.json"
LOCKS = ".locks"
DIGEST = re.compile(r"[0-9a-f]{16}")
PART = re.compile(r"part-\d{5,}\.safetensors")
NOTE = re.compile(r"part-\d{5,}\.json")  # of a part that the manifest has not reached

_PLAIN = re.compile(r"[a-z0-9][a-z0-9._-]{0,59}")
_LOOKS_ENCODED = re.compile(r"-[0-9a-f]{8}")
_RESERVED = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?")  # names that Windows keeps for itself
_LONGEST = 60
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


def load_manifest(folder: Path, *, known: bool = False) -> Manifest | None:
    """The manifest in `folder`, or None where there is none.

    Args:
        known: whether the one that this process has read last will do where its file is the same.

    Raises:
        StoreError: it is not whole, not of this folder, or of a schema that this version does not know.
    """
    path = folder / MANIFEST
    try:
        stamp = read_patiently(lambda: _stamp(path), path) if known else None
        if stamp is not None and _KNOWN.get(path, (None, None))[0] == stamp:
            return _KNOWN[path][1]
        content = read_patiently(path.read_bytes, path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise StoreError(f"cannot read {path}: {error.strerror or error}.") from error
    manifest = _parsed(path, content)
    if stamp is not None:
        while len(_KNOWN) >= _MOST_KNOWN:
            _KNOWN.pop(next(iter(_KNOWN)))
        _KNOWN[path] = stamp, manifest
    return manifest


#: Manifests that were read, by file and stamp.
_KNOWN: dict[Path, tuple[tuple[int, int, int], Manifest]] = {}
_MOST_KNOWN = 16


def _stamp(path: Path) -> tuple[int, int, int]:
    status = path.stat()
    return status.st_ino, status.st_mtime_ns, status.st_size


def _parsed(path: Path, content: bytes) -> Manifest:
    try:
        values = json.loads(content)
        schema = values["schema"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise _damaged(path, f"it is no manifest ({type(error).__name__}: {error})") from error
    if not isinstance(schema, int) or schema > SCHEMA:
        raise StoreError(
            f"{path} has schema {schema!r}, and this version of unseen knows up to {SCHEMA}: a newer version wrote it. "
            "Upgrade with: pip install --upgrade unseen"
        )
    try:
        return _from_dict(values, path.parent)
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
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


def entry_folder(root: Path, key: FeatureKey) -> Path:
    """The folder that holds the features of `key`."""
    return root / folder_name(key.model) / folder_name(key.dataset) / folder_name(key.split) / key.digest


def lock_file(root: Path, digest: str) -> Path:
    """The lock of an entry. It stands outside the entry, so that removing the entry leaves the lock in force."""
    return root / LOCKS / f"{digest}.lock"


def part_name(number: int) -> str:
    return f"part-{number:05d}.safetensors"


def folder_name(text: str) -> str:
    """A readable folder name for an id; different ids have different names, also where case does not count.

    Plain lower-case words stay as they are. Anything else (`timm:resnet50`, `folder:/data/Pets?labels=breed`) has
    its other characters replaced by `-` and eight digits of its sha256 added: `timm-resnet50-7e8a95fe`. Of a long id
    the beginning and the end are kept.
    """
    plain = _PLAIN.fullmatch(text) and not text.endswith(".") and not _RESERVED.fullmatch(text)
    if plain and not _LOOKS_ENCODED.fullmatch(text[-9:]):
        return text
    slug = re.sub(r"[^A-Za-z0-9._]+", "-", text).strip("-.")
    if len(slug) > _LONGEST:
        slug = f"{slug[:18]}--{slug[-(_LONGEST - 20) :]}"
    tail = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{slug}-{tail}" if slug else f"id-{tail}"
