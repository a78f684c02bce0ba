"""What the store has of smaller draws of the same images: which is taken, and that layers are never mixed up."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from unseen.features import Extraction, FeatureStore, NoProgress, Skipped, extract
from unseen.features.extraction import ExtractionJob
from unseen.features.part import PartRows

pytestmark = pytest.mark.usefixtures("without_flushing")

HOW = Extraction(part_size=4, batch_size=2, workers=1)


class Interrupting(NoProgress):
    """Ends the work once six images are through."""

    images = 0

    def advance(self, images: int, skipped: int) -> None:
        self.images += images
        if self.images >= 6:
            raise KeyboardInterrupt


def values(found: Any) -> list[float]:
    return found.features.to_array()[:, 0].tolist()


def kept(world: Any, store: FeatureStore, draw: Any, layer: str, rows: dict[int, float], total: int) -> None:
    """Features of a draw, as another extraction may have left them; images without a row are skipped."""
    key = ExtractionJob(world.backbone, draw, "train", (layer,), HOW).describe(store).keys[layer]
    index = np.array(sorted(rows), np.int64)
    features = np.array([[rows[i]] for i in sorted(rows)], np.float32)
    skipped = [Skipped(i, f"{i}.png", "bad") for i in range(total) if i not in rows]
    with store.writer(key, total=total, part_size=4) as writer:
        writer.write(PartRows(writer.next_index, features, np.zeros(len(index), np.int64), index, skipped))
        writer.finish()


def test_the_largest_draw_that_is_there_is_taken(world: Any, store: FeatureStore) -> None:
    whole = world.dataset(range(12))
    few, more, most = (world.dataset(places, "draw") for places in ([7, 2], [2, 5, 9], [1, 2, 3, 4]))
    kept(world, store, few, "pooled", {0: -7, 1: -2}, 2)
    kept(world, store, more, "pooled", {0: -2, 1: -5, 2: -9}, 3)
    found = extract(world.backbone, whole, "train", store, how=HOW, smaller=[few, most, more])["pooled"]
    assert values(found) == [-i if i in (2, 5, 9) else i for i in range(12)]
    assert found.provenance["images"] == 9


def test_images_of_another_folder_are_no_draw(world: Any, store: FeatureStore) -> None:
    other = world.dataset([3, 40], "draw")
    kept(world, store, other, "pooled", {0: -3, 1: -40}, 2)
    found = extract(world.backbone, world.dataset(range(6)), "train", store, how=HOW, smaller=[other])["pooled"]
    assert values(found) == [*range(6)]


@pytest.mark.parametrize(
    ("pooled", "logits", "known"),
    [
        ({0: -1, 1: -2, 2: -3}, {0: -10, 1: -20, 2: -30}, (1, 2, 3)),
        ({0: -1, 1: -2, 2: -3}, {0: -10, 1: -20}, ()),
        ({0: -1, 1: -2}, {0: -10, 1: -20, 2: -30}, ()),
        ({0: -1, 2: -3}, {0: -10, 1: -20}, ()),
        ({0: -1, 1: -2}, {0: -10, 2: -30}, ()),
        ({0: -1, 1: -2, 2: -3}, None, ()),
    ],
)
def test_layers_that_do_not_know_the_same_images_are_not_joined(
    world: Any, store: FeatureStore, pooled: dict[int, float], logits: dict[int, float] | None, known: tuple[int, ...]
) -> None:
    draw, whole = world.dataset([1, 2, 3], "draw"), world.dataset(range(5))
    kept(world, store, draw, "pooled", pooled, 3)
    if logits is not None:
        kept(world, store, draw, "logits", logits, 3)
    found = extract(world.backbone, whole, "train", store, layers=("pooled", "logits"), how=HOW, smaller=[draw])
    assert values(found["pooled"]) == [-i if i in known else i for i in range(5)]
    assert values(found["logits"]) == [-10 * i if i in known else 10 * i for i in range(5)]
    assert found["logits"].index.tolist() == found["pooled"].index.tolist() == [*range(5)]


def test_what_was_known_is_counted_over_the_parts_that_were_missing(world: Any, store: FeatureStore) -> None:
    whole, draw = world.dataset(range(12)), world.dataset([1, 6, 11], "draw")
    with pytest.raises(KeyboardInterrupt):
        extract(world.backbone, whole, "train", store, how=HOW, progress=Interrupting())
    kept(world, store, draw, "pooled", {0: -1, 1: -6, 2: -11}, 3)
    found = extract(world.backbone, whole, "train", store, how=HOW, smaller=[draw])["pooled"]
    assert values(found) == [-i if i in (6, 11) else i for i in range(12)]
    assert found.provenance["images"] == 6, "eight were missing, of which two were known"
