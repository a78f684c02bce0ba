"""The manifest of an entry: which parts it has, and whether they cover every image; the settings of an extraction.

`manifest.json` follows from the key and the images alone. It holds no time, version or host name, so an extraction
that was interrupted and resumed leaves the same bytes as one that was not. `provenance.json` beside it records how and
when the features were made.

The features of a key are in `<root>/<model>/<dataset>/<split>/<digest>/`. The three upper names are for people: short,
safe on any file system, and different for different ids. The last one, the digest of the whole key, identifies the
entry.

This module imports no deep-learning library, so that help and plans are fast.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal, get_type_hints

import msgspec

from unseen.backbones.load import RuntimeName
from unseen.core.errors import StoreError, UsageError
from unseen.core.files import write_whole
from unseen.core.guard import read_patiently
from unseen.core.identity import Natural, Positive, canonical_json, check_options, digest, option
from unseen.core.records import FeatureKey, Preprocessing

SCHEMA = 1
MANIFEST = "manifest.json"
PROVENANCE = "provenance.json"
LOCKS = ".locks"
DIGEST = re.compile(r"[0-9a-f]{16}")
PART = re.compile(r"part-\d{5,}\.safetensors")

_PLAIN = re.compile(r"[a-z0-9][a-z0-9._-]{0,59}")
_LOOKS_ENCODED = re.compile(r"-[0-9a-f]{8}")
_RESERVED = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?")  # names that Windows reserves
_LONGEST = 60
State = Literal["partial", "complete"]
Dtype = Annotated[str, msgspec.Meta(pattern=r"\A(float16|float32)?\Z")]
Count = Annotated[int, msgspec.Meta(ge=0)]


class Skipped(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An image without a row, and the reason.

    Attributes:
        index: position of the image in its split.
        name: the split's name for it, a relative path if it has one.
        reason: one line. It must be the same each time the image is tried.
    """

    index: Count
    name: str
    reason: str


class Part(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One part file, for the images `first` to `last` of the split, both included.

    Attributes:
        rows: images that have a row; the others are in `skipped`.
        bytes: size of the file.
    """

    file: str
    first: Count
    last: Count
    rows: Count
    bytes: Count
    sha256: str
    skipped: tuple[Skipped, ...] = ()


@dataclass(frozen=True, slots=True)
class Manifest:
    """The content of an entry.

    Attributes:
        total: images in the split.
        part_size: images per part; the last part may have fewer.
        dim: length of a row; 0 until a part has rows.
        dtype: "float16" or "float32"; "" until a part has rows.
    """

    key: FeatureKey
    total: Count
    part_size: Count
    dim: Count = 0
    dtype: Dtype = ""
    state: State = "partial"
    parts: tuple[Part, ...] = ()

    @property
    def complete(self) -> bool:
        return self.state == "complete"

    @property
    def covered(self) -> int:
        """Number of images that the parts cover."""
        return sum(part.last - part.first + 1 for part in self.parts)

    @property
    def rows(self) -> int:
        return sum(part.rows for part in self.parts)

    @property
    def skipped(self) -> tuple[Skipped, ...]:
        return tuple(image for part in self.parts for image in part.skipped)

    @property
    def missing(self) -> list[int]:
        """First image of each part that is still to be written."""
        present = {part.first for part in self.parts}
        return [first for first in range(0, self.total, self.part_size) if first not in present]

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
            "parts": msgspec.to_builtins(self.parts),
        }


_FIELDS = get_type_hints(Manifest, include_extras=True)


def save_manifest(folder: Path, manifest: Manifest) -> None:
    """Write `manifest` durably, with the sha256 of its own content as its last field."""
    values = manifest.to_dict()
    values["sha256"] = _checksum(values)
    write_whole(folder / MANIFEST, [json.dumps(values, indent=1).encode() + b"\n"])


def load_manifest(folder: Path) -> Manifest | None:
    """Return the manifest in `folder`, or None if there is none.

    Raises:
        StoreError: it is damaged, belongs to another folder, or has a schema that this version does not know.
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
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise _damaged(path, f"it is not a manifest ({type(error).__name__}: {error})") from error
    if not isinstance(schema, int) or schema > SCHEMA:
        raise StoreError(
            f"{path} has schema {schema!r}, and this version of unseen knows up to {SCHEMA}: a newer version wrote it. "
            "Upgrade with: pip install --upgrade unseen"
        )
    try:
        return _from_dict(values, folder)
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError, msgspec.ValidationError) as error:
        raise _damaged(path, str(error) if type(error) is ValueError else f"{type(error).__name__}: {error}") from error


def _from_dict(values: Mapping[str, Any], folder: Path) -> Manifest:
    """Return a manifest of schema 1; raise `ValueError` if it contradicts itself."""
    if values.get("sha256") != _checksum(values):
        raise ValueError("its content does not match its own sha256")
    # Compare the stored values, not the record built from them: a field added to the record later changes nothing here.
    if not digest(values["key"]) == values["digest"] == folder.name:
        raise ValueError(f"it belongs to the key {values['digest']}, not to this folder")
    fields = {name: msgspec.convert(values[name], kind) for name, kind in _FIELDS.items() if name != "key"}
    manifest = Manifest(FeatureKey.from_dict(values["key"]), **fields)
    _check_parts(manifest)
    return manifest


def _check_parts(manifest: Manifest) -> None:
    """Raise `ValueError` unless parts follow one another without a gap, up to the last image of a complete entry."""
    begin = 0
    for part in manifest.parts:
        if part.first != begin or part.last != min(begin + manifest.part_size, manifest.total) - 1:
            raise ValueError(f"{part.file} covers the images {part.first} to {part.last}, out of order")
        if not PART.fullmatch(part.file) or part.rows + len(part.skipped) != part.last - part.first + 1:
            raise ValueError(f"the record of {part.file!r} does not add up")
        begin = part.last + 1
    if manifest.rows and not manifest.dtype:
        raise ValueError("it has rows without a dtype")
    if manifest.complete and begin != manifest.total:
        raise ValueError(f"its state is complete, but it covers {begin} of {manifest.total} images")


def _checksum(values: Mapping[str, object]) -> str:
    content = {name: value for name, value in values.items() if name != "sha256"}
    return hashlib.sha256(canonical_json(content).encode()).hexdigest()


def _damaged(path: Path, reason: str) -> StoreError:
    return StoreError(
        f"{path} is damaged: {reason}. Remove the entry with `unseen features rm {path.parent.name}` and extract again."
    )


def entry_folder(root: Path, key: FeatureKey) -> Path:
    """Return the folder that holds the features of `key`."""
    return root / folder_name(key.model) / folder_name(key.dataset) / folder_name(key.split) / key.digest


def lock_file(root: Path, digest: str) -> Path:
    """Return the lock file of an entry. It is outside the entry, so that removing the entry keeps the lock in force."""
    return root / LOCKS / f"{digest}.lock"


def part_name(number: int) -> str:
    return f"part-{number:05d}.safetensors"


def folder_name(text: str) -> str:
    """Return a readable folder name for an id; different ids have different names, also if case does not count.

    Plain lower-case words stay unchanged. Anything else (`timm:resnet50`, `folder:/data/Pets?labels=breed`) has
    its other characters replaced by `-` and eight digits of its sha256 added: `timm-resnet50-7e8a95fe`. A long id
    keeps its beginning and its end.
    """
    plain = _PLAIN.fullmatch(text) and not text.endswith(".") and not _RESERVED.fullmatch(text)
    if plain and not _LOOKS_ENCODED.fullmatch(text[-9:]):
        return text
    slug = re.sub(r"[^A-Za-z0-9._]+", "-", text).strip("-.")
    if len(slug) > _LONGEST:
        slug = f"{slug[:18]}--{slug[-(_LONGEST - 20) :]}"
    tail = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{slug}-{tail}" if slug else f"id-{tail}"


# ---- settings --------------------------------------------------------------------------------------------------------

Truncated = Literal["refuse", "accept"]
Precision = Literal["fp32", "bf16", "fp16"]

_DEVICE = re.compile(r"auto|cpu|mps|cuda(:\d+)?")


@dataclass(frozen=True)
class Extraction:
    """How to extract. The defaults suit any machine; numbers agree across devices because fp32 is one of them."""

    device: str = option("auto", neutral="devices agree to 1e-4", help="Device: auto, cpu, cuda, cuda:1 or mps.")
    runtime: RuntimeName = option("auto", help="auto is onnx on the CPU (openvino in bf16) and torch elsewhere.")
    precision: Precision = option("fp32", help="Precision of the computation.")
    dtype: Literal["float32", "float16"] = option(
        "float32", help="Type of stored features; float16 needs half the disk."
    )
    workers: Natural = option(0, neutral="images are independent", help="Threads; 0 means one per core.")
    batch_size: Natural = option(
        0, neutral="images are independent", help="Images per batch; 0 means 8 on the CPU, 128 elsewhere."
    )
    part_size: Positive = option(
        1024, neutral="parts are joined", help="Images per part file; an interruption loses one part."
    )
    truncated: Truncated = option("refuse", help="accept keeps images whose file ends early, as ImageNet-CoG does.")
    graphs: Path | None = option(None, neutral="a cache", help="Folder for exported graphs; under the home by default.")

    def __post_init__(self) -> None:
        check_options(self)
        if not _DEVICE.fullmatch(self.device):
            raise UsageError(f"device {self.device!r} is none of auto, cpu, cuda, cuda:NUMBER, mps.")


def tf_preprocessing(own: Preprocessing, *, centred: bool = False) -> Preprocessing:
    """Return the preprocessing of the authors of VTAB: both sides resized as TensorFlow 1 does.

    Args:
        own: of the model; its size, mean and deviation are kept, because they belong to its weights.
        centred: values in [-1, 1] instead, for a network that is trained from scratch.
    """
    resized = replace(own, resize=own.size, mode="squash", interpolation="tf-bilinear")
    return replace(resized, mean=(0.5, 0.5, 0.5), std=(0.5, 0.5, 0.5)) if centred else resized
