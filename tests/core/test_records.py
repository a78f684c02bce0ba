"""Records: to JSON and back, and digests that mean the same everywhere."""

from __future__ import annotations

import json
from dataclasses import FrozenInstanceError, fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unseen.core.identity import canonical_json, digest
from unseen.core.records import Cell, DatasetCard, FeatureKey, MethodCard, ModelCard, Preprocessing, Result

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


def test_a_result_survives_json_but_for_when_it_was_filed() -> None:
    result = Result(
        Cell("probe", "m", "d", {"seed": 1}, "w+d", "1"),
        {"top1": 0.5},
        seconds=2.0,
        sweep=({"c": 1.0},),
        details={"classes": 3},
        environment={"unseen": "1"},
        recorded="2026-11-17",
    )
    written = result.to_dict()
    assert sorted(written) == ["cell", "details", "environment", "error", "metrics", "record", "seconds", "sweep"]
    assert Result.from_dict(json.loads(json.dumps(written))) == result
    assert Result.from_dict(written).recorded == ""
    assert result.ok and not replace(result, error="no").ok


def test_records_are_frozen() -> None:
    cell = Cell("probe", "m", "d")
    for record in (Preprocessing(), ModelCard("a"), DatasetCard("a"), MethodCard("a"), KEY, cell, Result(cell)):
        before = record.to_dict()
        for field in fields(record):
            with pytest.raises(FrozenInstanceError):
                setattr(record, field.name, "x")
        assert record.to_dict() == before
        assert not hasattr(record, "__dict__"), "many are held at once"


def test_names_of_what_is_kept_on_the_way() -> None:
    cell = Cell("vtab", "m", "d", {"seed": 1, "size": 1000}, "w+d", "1")
    name = cell.name_of("search", 1)
    assert name == replace(cell, parameters={"size": 1000, "seed": 1}).name_of("search", 1)
    others = [cell.name_of("training", 1), cell.name_of("search", 2), cell.name_of("search"), cell.id]
    others += [replace(cell, **{f: "x"}).name_of("search", 1) for f in ("benchmark", "model", "dataset", "revision")]
    others += [replace(cell, version="2").name_of("search", 1), cell.name_of("search", 1, without=("seed",))]
    assert len({name, *others}) == 1 + len(others)
    other_seed = replace(cell, parameters={"seed": 2, "size": 1000})
    assert other_seed.name_of("search", without=("seed",)) == cell.name_of("search", without=("seed",))
    assert cell.data == "d"
