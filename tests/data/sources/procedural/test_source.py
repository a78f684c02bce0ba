"""`procedural:*` as datasets: labels by VTAB's rules, splits that never overlap, features shared by the two tasks."""

from __future__ import annotations

import numpy as np
import pytest

from unseen.core.errors import UnknownNameError, UsageError
from unseen.data import dataset_cards, load_dataset
from unseen.data.sources.procedural import sprites

SMALL = "train=60&val=20&test=40"


def test_cards_are_listed() -> None:
    cards = {card.id: card for card in dataset_cards() if card.group == "procedural"}
    assert [cards[f"procedural:{n}"].classes for n in ("sprites-location", "sprites-orientation")] == [16, 16]
    assert [cards[f"procedural:{n}"].classes for n in ("shapes-count", "shapes-distance")] == [8, 6]


def test_default_sizes_are_vtab_1k() -> None:
    data = load_dataset("procedural:sprites-location")
    assert {name: len(split) for name, split in data.splits.items()} == {"train": 800, "val": 200, "test": 1000}
    assert set(np.unique(data.split("train").labels)) == set(range(16))


@pytest.mark.parametrize("name", ["sprites-location", "shapes-count"])
def test_no_image_is_in_two_splits(name: str) -> None:
    data = load_dataset(f"procedural:{name}?{SMALL}")
    images = [split.open(i).tobytes() for split in data.splits.values() for i in range(len(split))]
    assert len(set(images)) == len(images) == 120


def test_labels_follow_from_what_is_drawn() -> None:
    location = load_dataset(f"procedural:sprites-location?{SMALL}").split("test")
    orientation = load_dataset(f"procedural:sprites-orientation?{SMALL}").split("test")
    for i in range(20):
        picture = np.asarray(location.open(i))
        assert np.array_equal(picture, np.asarray(orientation.open(i)))
        # Find the factors of the picture by trying all orientations and scales at every place where it may be.
        found = [
            (shape, scale, turn, x)
            for shape in range(3)
            for scale in range(6)
            for turn in range(40)
            for x, y in [_place(picture, shape, scale, turn)]
            if x is not None and np.array_equal(sprites.render_sprites([[shape, scale, turn, x, y]])[0], picture)
        ]
        assert len(found) == 1
        assert location.labels[i] == found[0][3] // 2
        assert orientation.labels[i] == int(found[0][2] / 2.5)


def _place(picture: np.ndarray, shape: int, scale: int, turn: int) -> tuple[int | None, int | None]:
    stamp = sprites._stamps()[shape, scale, turn]
    if int(stamp.sum()) != int(picture.sum()):
        return None, None
    rows, columns = np.nonzero(picture.any(axis=1))[0], np.nonzero(picture.any(axis=0))[0]
    own_rows, own_columns = np.nonzero(stamp.any(axis=1))[0], np.nonzero(stamp.any(axis=0))[0]
    x, y = int(columns[0] - own_columns[0]), int(rows[0] - own_rows[0])
    return (x, y) if 0 <= x < 32 and 0 <= y < 32 else (None, None)


def test_the_two_tasks_of_a_pair_share_features_and_fingerprint() -> None:
    for first, second in (("sprites-location", "sprites-orientation"), ("shapes-count", "shapes-distance")):
        a, b = load_dataset(f"procedural:{first}?{SMALL}"), load_dataset(f"procedural:{second}?{SMALL}")
        assert a.features_id == b.features_id
        for split in a.splits:
            assert a.split(split).fingerprint == b.split(split).fingerprint
        assert not np.array_equal(a.split("train").labels, b.split("train").labels)


def test_another_seed_is_another_dataset() -> None:
    a, b = load_dataset(f"procedural:shapes-count?{SMALL}"), load_dataset(f"procedural:shapes-count?{SMALL}&seed=1")
    assert a.features_id != b.features_id
    assert a.split("train").fingerprint != b.split("train").fingerprint
    again = load_dataset(f"procedural:shapes-count?{SMALL}")
    assert a.split("test").open(3).tobytes() == again.split("test").open(3).tobytes()


def test_bad_names_and_sizes_are_explained() -> None:
    with pytest.raises(UnknownNameError, match="sprites-location"):
        load_dataset("procedural:sprites-lokation")
    with pytest.raises(UsageError, match="0 images"):
        load_dataset("procedural:sprites-location?train=0&val=0&test=0")
    with pytest.raises(UsageError, match="no option"):
        load_dataset("procedural:sprites-location?tset=3")
