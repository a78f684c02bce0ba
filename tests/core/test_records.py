"""Records: to JSON and back, and digests that mean the same everywhere."""

from __future__ import annotations

import json
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from unseen.core.identity import canonical_json, digest
from unseen.core.records import Cell, FeatureKey, ModelCard, Preprocessing

KEY = FeatureKey(
    model="timm:resnet50",
    weights="abc",
    layer="pooled",
    preprocessing=Preprocessing(),
    precision="fp32",
    runtime="onnx",
    dataset="folder:x",
    split="train",
    fingerprint="def",
)


def test_a_feature_key_survives_json() -> None:
    assert FeatureKey.from_dict(json.loads(json.dumps(KEY.to_dict()))) == KEY


def test_a_digest_is_pinned() -> None:
    """A digest that moves would orphan every stored feature."""
    assert KEY.digest == "99d4ed9103e0a4a2"
    assert digest({"b": 1, "a": [1.5, None, "é"]}) == digest({"a": [1.5, None, "é"], "b": 1})


def test_every_field_of_the_key_counts() -> None:
    changed = [
        replace(KEY, **{name: "other"})
        for name in ("model", "weights", "layer", "precision", "runtime", "dataset", "split", "fingerprint")
    ]
    changed += [replace(KEY, preprocessing=p) for p in (Preprocessing(size=225), Preprocessing(mode="squash"))]
    assert len({key.digest for key in (KEY, *changed)}) == len(changed) + 1


def test_a_cell_is_known_by_its_parameters_and_revision() -> None:
    cell = Cell("probe", "m", "d", {"seed": 1, "shots": "all"})
    assert cell.id == Cell("probe", "m", "d", {"shots": "all", "seed": 1}).id
    assert len({cell.id, replace(cell, revision="x").id, Cell("probe", "m", "d", {"seed": 2, "shots": "all"}).id}) == 3


def test_cards_ignore_keys_of_the_future() -> None:
    values = ModelCard("a:b", name="B").to_dict() | {"invented_later": 3}
    assert ModelCard.from_dict(values) == ModelCard("a:b", name="B")


@given(st.dictionaries(st.text(), st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()))
def test_canonical_json_is_one_string_per_value(value: dict[str, object]) -> None:
    assert canonical_json(value) == canonical_json(dict(reversed(value.items())))
    assert json.loads(canonical_json(value)) == value
