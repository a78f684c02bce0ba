"""`hf:DATASET[@REV]`: datasets of the Hugging Face hub, or `hf:PATH`, a folder that `save_to_disk` has written.

Options: `config=NAME`; `split=NAME` (of one split test images are drawn, `test=` share and `seed=`; else its own splits
are taken); `image=COLUMN`, `label=COLUMN`. Images are decoded by us. No code of a repository is run.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from unseen.core.errors import DataError, first_line
from unseen.core.extras import import_extra
from unseen.core.hub import check_available
from unseen.core.names import Name, Options
from unseen.core.records import DatasetCard
from unseen.data.dataset import Dataset
from unseen.data.foreign import read_hugging_face
from unseen.data.given import GivenImages, divide
from unseen.data.load import DatasetSource

_SPLITS = {"train": "train", "validation": "val", "val": "val", "valid": "val", "test": "test"}


class HfSource(DatasetSource):
    """Loads `hf:DATASET`."""

    pattern, hint = "hf:DATASET[@REV]?split=train", "a dataset of the Hugging Face hub, or hf:PATH"

    extra = "hf"

    def cards(self) -> Iterable[DatasetCard]:
        return ()

    def load(self, name: str, options: Options) -> Dataset:
        split, config = options.text("split"), options.text("config")
        image, label = options.text("image") or "", options.text("label") or ""
        share, seed = options.fraction("test"), options.integer("seed") or 0
        options.finish()
        found = _loaded(name, config)
        parts = dict(found) if hasattr(found, "keys") else {"train": found}
        if split is not None:
            if split not in parts:
                raise DataError(f"hf:{name} has no split {split!r}. It has {', '.join(parts)}.")
            parts = {"train": parts[split]}
        else:
            parts = {_SPLITS[each]: part for each, part in parts.items() if each in _SPLITS}
        if "train" not in parts:
            raise DataError(f"hf:{name} has no split to train on; choose one: ?split={next(iter(found))}.")
        own = str(Name.parse(options.dataset).without("test", "seed", "label", "classes", "limit", "per_class"))
        given = {
            each: GivenImages(**{**read_hugging_face(part, image, label), "id": f"{own}#{each}"})
            for each, part in parts.items()
        }
        return divide(given, share=0.2 if share is None else share, seed=seed, group="hf")


def _loaded(name: str, config: str | None) -> Any:
    datasets = import_extra("datasets", "hf")
    folder = Path(name).expanduser()
    try:
        if folder.is_dir() and any(folder.glob("*.json")):
            return datasets.load_from_disk(str(folder))
        if folder.is_dir():
            return datasets.load_dataset(str(folder), config)
        repository, _, revision = name.partition("@")
        check_available(repository, "", what=f"hf:{name}", kind="dataset")
        return datasets.load_dataset(repository, config, revision=revision or None)
    except DataError:
        raise
    except Exception as error:  # a dozen kinds, by library and network
        first = first_line(error).rstrip(".")
        raise DataError(f"hf:{name} cannot be loaded: {first}.") from error
