"""Datasets of other libraries.

`hf:DATASET[@REV]`: datasets of the Hugging Face hub, or `hf:PATH`, a folder that `save_to_disk` has written. Options:
`config=NAME`; `split=NAME` (test images are sampled from it, `test=` share and `seed=`; by default its own splits
are used); `image=COLUMN`, `label=COLUMN`. Images are decoded by us. No code of a repository is run.

`torchvision:NAME?root=FOLDER`: the datasets of torchvision, from files that exist already. Nothing is downloaded unless
`download=true`. Other options go to the dataset unchanged (`FakeData?size=60`). Test images are its own if it has some
(`train=`, or `split=` with test, val), else a share of each class, `test=`.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from unseen.core.errors import DataError, UnknownNameError
from unseen.core.extras import check_available, ensure_torchvision, import_extra
from unseen.core.guard import allowance, guarded
from unseen.core.isolate import Trial, file_states, try_isolated
from unseen.core.names import Name, Options
from unseen.data.adapters import read_hugging_face, read_torch
from unseen.data.dataset import Dataset
from unseen.data.layout import splits_by_name, unused_splits
from unseen.data.load import DatasetSource
from unseen.data.user_data import Division, LabelledImages, divide

_SAMPLING = ("test", "val", "seed", "classes", "limit", "per_class")


class HfSource(DatasetSource):
    """Loads `hf:DATASET`."""

    pattern, hint = "hf:DATASET[@REV]?split=train", "a dataset of the Hugging Face hub, or hf:PATH"
    extra = "hf"

    def load(self, name: str, options: Options) -> Dataset:
        split, config = options.text("split"), options.text("config")
        image, label = options.text("image") or "", options.text("label") or ""
        division, _ = Division.read(options)
        options.finish()
        found = _load_hf(name, config, image, label)
        parts = dict(found) if hasattr(found, "keys") else {"train": found}
        named = splits_by_name(parts, f"hf:{name}") if split is None else {"train": split}
        if split is not None and split not in parts:
            raise DataError(f"hf:{name} has no split {split!r}. It has {', '.join(parts)}.")
        if "train" not in named:
            raise DataError(f"hf:{name} has no split to train on; choose one: ?split={next(iter(found))}.")
        unused = [] if split else [each for each in parts if each not in named.values()]
        losses = (unused_splits(unused),) if unused else ()
        images = {
            each: replace(read_hugging_face(parts[own], image, label), losses=losses) for each, own in named.items()
        }
        return _divide(images, Name.parse(options.dataset).without("label"), division)


def _load_hf(name: str, config: str | None, image: str, label: str) -> Any:
    datasets = import_extra("datasets", "hf")
    folder = Path(name).expanduser()
    with guarded(f"hf:{name}", "a dataset of Hugging Face"):
        if folder.is_dir():
            files = sorted(path for path in folder.rglob("*") if path.is_file())
            size = sum(path.stat().st_size for path in files)
            most = allowance(size)
            arguments = (str(folder), config or "", image, label)
            check, kind = f"{__name__}:check_folder", "a dataset of Hugging Face"
            trial = Trial(check, arguments, f"hf:{name}", kind, ("datasets",), size, most, most)
            try_isolated(trial, file_states(*files))
            return _open_folder(folder, config)
        repository, _, revision = name.partition("@")
        check_available(repository, "", what=f"hf:{name}", kind="dataset")
        return datasets.load_dataset(repository, config, revision=revision or None)


def _open_folder(folder: Path, config: str | None) -> Any:
    datasets = import_extra("datasets", "hf")
    if any(folder.glob("*.json")):
        return datasets.load_from_disk(str(folder))
    return datasets.load_dataset(str(folder), config)


def check_folder(folder: str, config: str, image: str, label: str) -> None:
    """Validate the Arrow files of a folder, and read the labels of all splits."""
    arrow = import_extra("pyarrow", "hf")
    for path in Path(folder).rglob("*.arrow"):
        with arrow.memory_map(str(path)) as source:
            for batch in arrow.ipc.open_stream(source):
                batch.validate(full=True)
    found = _open_folder(Path(folder), config or None)
    for part in found.values() if hasattr(found, "values") else [found]:
        read_hugging_face(part, image, label)


class TorchvisionSource(DatasetSource):
    """Loads `torchvision:NAME`."""

    pattern = "torchvision:NAME?root=FOLDER"
    hint = "a dataset of torchvision, from its files (download=true fetches them)"
    paths = ("root",)

    def load(self, name: str, options: Options) -> Dataset:
        ensure_torchvision()
        from torchvision import datasets

        known = [each for each in datasets.__all__ if isinstance(getattr(datasets, each), type)]
        if name not in known:
            raise UnknownNameError("torchvision dataset", name, known)
        kind = getattr(datasets, name)
        allowed = inspect.signature(kind).parameters
        division, _ = Division.read(options)
        arguments = {key: _value(value) for key in allowed if (value := options.text(key)) is not None}
        options.finish()
        if "root" in arguments:
            arguments["root"] = str(Path(options.text("root") or "").expanduser())
        elif "root" in allowed and allowed["root"].default is inspect.Parameter.empty:
            raise DataError(f"torchvision:{name} needs root=FOLDER, where its files are.")
        variants: dict[str, dict[str, bool | str]] = {"train": {}}
        if "train" in allowed and "train" not in arguments:
            variants = {"train": {"train": True}, "test": {"train": False}}
        elif "split" in allowed and "split" not in arguments:
            variants = {"train": {"split": "train"}, "test": {"split": "test"}}
        with guarded(f"torchvision:{name}", "a dataset of torchvision"):
            made = {split: kind(**arguments, **own) for split, own in variants.items()}
        images = {split: replace(read_torch(found), title=name) for split, found in made.items()}
        return _divide(images, Name.parse(options.dataset), division)


def _value(text: str) -> bool | int | tuple[int, ...] | str:
    """Return the text of an option as a number, a truth value or a word."""
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    if text.lstrip("-").isdecimal():
        return int(text)
    if "," in text and all(part.isdecimal() for part in text.split(",")):
        return tuple(int(part) for part in text.split(","))
    return text


def _divide(images: Mapping[str, LabelledImages], name: Name, division: Division) -> Dataset:
    """Return a dataset whose features are stored under a name without the options that sample images."""
    own = name.without(*_SAMPLING)
    named = {split: replace(part, id=f"{own}#{split}") for split, part in images.items()}
    return divide(named, division, group=name.scheme, ordered=True)
