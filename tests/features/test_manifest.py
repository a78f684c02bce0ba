"""Manifests with a correct checksum that contradict themselves."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from unseen.core.errors import StoreError
from unseen.features import FeatureStore
from unseen.features.manifest import MANIFEST, entry_folder, load_manifest

pytestmark = pytest.mark.usefixtures("without_flushing")

Change = Callable[[dict[str, Any]], object]


@pytest.fixture
def entry(store: FeatureStore, store_process: ModuleType) -> Path:
    """An entry of three parts: images 0 to 3, 4 to 7 and 8 to 9, of which 5 has no row."""
    sample = store_process.Sample(10, 4, bad=frozenset({5}))
    sample.write(store)
    return entry_folder(store.root, sample.key)


def rewritten(folder: Path, change: Change) -> Path:
    """The entry with another manifest, whose own sha256 is right."""
    values = json.loads((folder / MANIFEST).read_bytes())
    change(values)
    values.pop("sha256", None)
    text = json.dumps(values, sort_keys=True, separators=(",", ":"))
    values["sha256"] = hashlib.sha256(text.encode()).hexdigest()
    (folder / MANIFEST).write_text(json.dumps(values))
    return folder


def part(number: int, **fields: object) -> Change:
    return lambda values: values["parts"][number].update(fields)


def whole(**fields: object) -> Change:
    return lambda values: values.update(fields)


@pytest.mark.parametrize(
    "change",
    [
        # Counts and names that are none.
        *(whole(**{name: wrong}) for name in ("total", "part_size", "dim") for wrong in ("10", 10.0, None, True, -2)),
        *(part(0, **{name: wrong}) for name in ("first", "last", "rows", "bytes") for wrong in ("3", 3.0, True, -2)),
        *(part(1, skipped=[{"index": index, "name": "5.png", "reason": "bad"}]) for index in ("5", 5.0, -2)),
        *(part(1, skipped=[{"index": 5, "name": name, "reason": reason}]) for name, reason in ((5, ""), ("", None))),
        part(0, file=3),
        part(0, sha256=7),
        whole(state=1),
        # Rows of a kind that no part may have.
        *(whole(dtype=dtype) for dtype in ("", "float64", "int8", None)),
        # Parts that leave a gap, overlap, or are not of the size that they should be.
        part(0, first=1),
        part(1, first=3),
        part(1, first=3, rows=4),
        part(1, first=5),
        part(0, last=4, rows=5),
        part(0, last=2, rows=3),
        part(2, last=10, rows=3),
        part(2, last=8, rows=1),
        lambda values: values["parts"].reverse(),
        lambda values: values["parts"].insert(0, values["parts"][0]),
        whole(part_size=5),
        # Rows that do not add up.
        part(0, rows=3),
        part(0, rows=5),
        part(1, rows=4),
        part(1, skipped=[]),
        *(part(0, file=name) for name in ("../part-00000.safetensors", "part-0.safetensors", "part-00000.json", "")),
        # Complete, and images are missing or too many.
        whole(total=11),
        whole(total=9),
        lambda values: values["parts"].pop(),
        whole(parts=[]),
        whole(parts=[], total=-1),
        # Of another key.
        whole(digest="0" * 16),
        whole(digest="f" * 16),
        lambda values: values["key"].update(layer="logits"),
        # Fields that are gone or unknown.
        part(0, colour="red"),
        *((lambda values, name=name: values.pop(name)) for name in ("key", "total", "parts", "dtype", "state")),
        lambda values: values["parts"][1].pop("rows"),
        whole(parts=7),
        whole(key=[]),
    ],
)
def test_a_manifest_that_contradicts_itself_is_damaged(entry: Path, change: Change) -> None:
    with pytest.raises(StoreError, match=r"manifest\.json is damaged.*unseen features rm"):
        load_manifest(rewritten(entry, change))


@pytest.mark.parametrize("digest", ["0" * 16, "f" * 16])
def test_a_manifest_of_another_folder_is_damaged(entry: Path, digest: str) -> None:
    moved = entry.rename(entry.with_name(digest))
    with pytest.raises(StoreError, match="not to this folder"):
        load_manifest(moved)


def test_what_may_be_otherwise(entry: Path) -> None:
    """The rewriting itself harms nothing, and an entry need not be complete."""
    assert load_manifest(rewritten(entry, lambda values: None)) is not None
    found = load_manifest(rewritten(entry, lambda values: (values["parts"].pop(), values.update(state="partial"))))
    assert found is not None and not found.complete
    assert (found.covered, found.rows, [image.index for image in found.skipped]) == (8, 7, [5])
    for dtype in ("", "float16", "float32"):
        without = load_manifest(rewritten(entry, whole(parts=[], state="partial", dtype=dtype)))
        assert without is not None and (without.covered, without.rows) == (0, 0)


@pytest.mark.parametrize("schema", [2, "1", None, 1.0, [1]])
def test_another_schema_asks_for_an_upgrade(entry: Path, schema: object) -> None:
    with pytest.raises(StoreError, match="Upgrade with"):
        load_manifest(rewritten(entry, whole(schema=schema)))


def test_a_manifest_that_is_no_file(entry: Path) -> None:
    (entry / MANIFEST).unlink()
    (entry / MANIFEST).mkdir()
    with pytest.raises(StoreError, match=r"cannot read .*manifest\.json: Is a directory\.$"):
        load_manifest(entry)


def test_the_error_states_the_reason(entry: Path) -> None:
    with pytest.raises(StoreError, match=r"damaged: the record of 'part-00000\.safetensors' does not add up"):
        load_manifest(rewritten(entry, part(0, rows=3)))
    with pytest.raises(StoreError, match="damaged: KeyError: 'total'"):
        load_manifest(rewritten(entry, lambda values: values.pop("total")))
