"""Objects where names are asked for: a study holds them under the names of their content, for as long as it lives."""

from __future__ import annotations

import weakref
from importlib import import_module
from pathlib import Path
from typing import Any

_SCHEME = "object:"


def name_objects(owner: object, given: Any, key: str) -> Any:
    """What was given for the models or datasets of a study, objects replaced by names; values of a file stay."""
    if not isinstance(given, list | tuple):
        return (_name(owner, given, key),) if _is_object(given, key) else given
    return [_name(owner, one, key) for one in given]


def _is_object(value: Any, key: str) -> bool:
    """Whether it may be a model or a dataset, and nothing that a TOML file can hold."""
    if isinstance(value, str | Path | bytes | int | float | dict | None):
        return False
    if key == "models":
        return callable(value) or type(value).__name__ == "Backbone"
    if isinstance(value, tuple):
        return len(value) == 2 and not any(isinstance(part, str | Path) for part in value)
    return not isinstance(value, list) and (hasattr(value, "__getitem__") or hasattr(value, "splits"))


def _name(owner: object, value: Any, key: str) -> Any:
    if isinstance(value, Path):
        return str(value)
    if not _is_object(value, key) and not (isinstance(value, str) and value.startswith(_SCHEME)):
        return value
    objects = import_module(f"unseen.{'backbones' if key == 'models' else 'data'}.objects")
    if isinstance(value, str):  # of another study that may end before this one
        if objects.hold_again(value):
            weakref.finalize(owner, objects.release, value)
        return value
    if key == "models":
        name = objects.hold(objects.as_backbone(value))
    else:
        name = objects.hold(value if hasattr(value, "splits") else objects.as_dataset(value))
    weakref.finalize(owner, objects.release, name)
    return name
