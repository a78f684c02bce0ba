"""Where a key's features lie: `<root>/<model>/<dataset>/<split>/<digest>/`.

The three upper names are for people: short, safe on any file system, and different for different ids. The last one,
the digest of the whole key, is what tells entries apart.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from unseen.core.records import FeatureKey

MANIFEST = "manifest.json"
PROVENANCE = "provenance.json"
LOCKS = ".locks"
DIGEST = re.compile(r"[0-9a-f]{16}")
PART = re.compile(r"part-\d{5,}\.safetensors")

_PLAIN = re.compile(r"[a-z0-9][a-z0-9._-]{0,59}")
_LOOKS_ENCODED = re.compile(r"-[0-9a-f]{8}")
_RESERVED = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?")  # names that Windows keeps for itself
_LONGEST = 60


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
