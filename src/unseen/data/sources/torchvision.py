"""`torchvision:NAME?root=FOLDER`: the datasets of torchvision, from files that are there already.

Nothing is downloaded unless `download=true`. Other options go to the dataset as they are (`FakeData?size=60`).
Test images are its own where it has some (`train=`, or `split=` with test, val), else a share of each class, `test=`.
"""

from __future__ import annotations

import inspect
from dataclasses import replace
from pathlib import Path
from typing import Any

from unseen.core.errors import DataError, UnknownNameError
from unseen.core.extras import ensure_torchvision
from unseen.core.guard import guarded
from unseen.core.names import Name, Options
from unseen.data.adapters import read_torch
from unseen.data.dataset import Dataset
from unseen.data.load import DatasetSource
from unseen.data.user_data import Division, divide


class TorchvisionSource(DatasetSource):
    """Loads `torchvision:NAME`."""

    pattern, hint = (
        "torchvision:NAME?root=FOLDER",
        "a dataset of torchvision, from its files (download=true fetches them)",
    )
    paths = ("root",)

    def load(self, name: str, options: Options) -> Dataset:
        kind = _dataset_class(name)
        allowed = inspect.signature(kind).parameters
        division, _ = Division.read(options)
        arguments = {key: _value(value) for key in allowed if (value := options.text(key)) is not None}
        options.finish()
        if "root" in arguments:
            arguments["root"] = str(Path(options.text("root") or "").expanduser())
        elif "root" in allowed and allowed["root"].default is inspect.Parameter.empty:
            raise DataError(f"torchvision:{name} needs root=FOLDER, where its files are.")
        made = {split: _made(kind, name, {**arguments, **own}) for split, own in _variants(allowed, arguments).items()}
        own_id = Name.parse(options.dataset).without("test", "val", "seed", "classes", "limit", "per_class")
        parts = {split: replace(read_torch(found), title=name, id=f"{own_id}#{split}") for split, found in made.items()}
        return divide(parts, division, group="torchvision", ordered=True)


def _dataset_class(name: str) -> Any:
    ensure_torchvision()
    from torchvision import datasets

    known = [each for each in datasets.__all__ if isinstance(getattr(datasets, each), type)]
    if name not in known:
        raise UnknownNameError("torchvision dataset", name, known)
    return getattr(datasets, name)


def _variants(allowed: Any, given: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the arguments of each split that a dataset has."""
    if "train" in allowed and "train" not in given:
        return {"train": {"train": True}, "test": {"train": False}}
    if "split" in allowed and "split" not in given:
        return {"train": {"split": "train"}, "test": {"split": "test"}}
    return {"train": {}}


def _made(kind: Any, name: str, arguments: dict[str, Any]) -> Any:
    with guarded(f"torchvision:{name}", "a dataset of torchvision"):
        return kind(**arguments)


def _value(text: str) -> Any:
    """Return an option's text as the number, truth value or word that it is."""
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    if text.lstrip("-").isdecimal():
        return int(text)
    if "," in text and all(part.isdecimal() for part in text.split(",")):
        return tuple(int(part) for part in text.split(","))
    return text
