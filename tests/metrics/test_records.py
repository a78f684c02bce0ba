"""What metrics give back does not change in anybody's hands."""

from __future__ import annotations

import dataclasses
import pkgutil
from importlib import import_module

import pytest

from unseen import metrics

KINDS = [
    kind
    for module in pkgutil.iter_modules(metrics.__path__, "unseen.metrics.")
    for kind in vars(import_module(module.name)).values()
    if dataclasses.is_dataclass(kind) and isinstance(kind, type) and kind.__module__ == module.name
]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_records_are_frozen(kind: type) -> None:
    record = object.__new__(kind)
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(record, dataclasses.fields(kind)[0].name, 1)
