"""`hf:DATASET[@REV]`: datasets of the Hugging Face hub, or `hf:PATH`, a folder that `save_to_disk` has written.

Options: `config=NAME`; `split=NAME` (of one split test images are drawn, `test=` share and `seed=`; else its own splits
are taken); `image=COLUMN`, `label=COLUMN`. Images are decoded by us. No code of a repository is run.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from unseen.core.errors import DataError, first_line
from unseen.core.extras import check_available, import_extra
from unseen.core.names import Name, Options
from unseen.data.adapters import read_hugging_face
from unseen.data.dataset import Dataset
from unseen.data.layout import splits_by_name, unused_splits
from unseen.data.load import DatasetSource
from unseen.data.user_data import Division, divide


class HfSource(DatasetSource):
    """Loads `hf:DATASET`."""

    pattern, hint = "hf:DATASET[@REV]?split=train", "a dataset of the Hugging Face hub, or hf:PATH"

    extra = "hf"

    def load(self, name: str, options: Options) -> Dataset:
        split, config = options.text("split"), options.text("config")
        image, label = options.text("image") or "", options.text("label") or ""
        division, _ = Division.read(options)
        options.finish()
        found = _loaded(name, config)
        parts = dict(found) if hasattr(found, "keys") else {"train": found}
        if split is not None:
            if split not in parts:
                raise DataError(f"hf:{name} has no split {split!r}. It has {', '.join(parts)}.")
            parts, unused = {"train": parts[split]}, []
        else:
            named = splits_by_name(parts, f"hf:{name}")
            unused = [each for each in parts if each not in named.values()]
            parts = {each: parts[own] for each, own in named.items()}
        if "train" not in parts:
            raise DataError(f"hf:{name} has no split to train on; choose one: ?split={next(iter(found))}.")
        own = Name.parse(options.dataset).without("test", "val", "seed", "label", "classes", "limit", "per_class")
        given = {
            each: replace(
                read_hugging_face(part, image, label),
                id=f"{own}#{each}",
                losses=(unused_splits(unused),) if unused else (),
            )
            for each, part in parts.items()
        }
        return divide(given, division, group="hf", ordered=True)


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
