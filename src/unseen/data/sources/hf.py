"""`hf:DATASET[@REV]`: datasets of the Hugging Face hub, or `hf:PATH`, a folder that `save_to_disk` has written.

Options: `config=NAME`; `split=NAME` (test images are sampled from it, `test=` share and `seed=`; by default its own
splits are used); `image=COLUMN`, `label=COLUMN`. Images are decoded by us. No code of a repository is run.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from unseen.core.errors import DataError
from unseen.core.extras import check_available, import_extra
from unseen.core.guard import allowance, guarded
from unseen.core.isolate import Trial, file_states, try_isolated
from unseen.core.names import Name, Options
from unseen.data.adapters import read_hugging_face, read_splits
from unseen.data.dataset import Dataset
from unseen.data.load import DatasetSource
from unseen.data.subset import Division
from unseen.data.user_data import divide

#: Options that sample images; features are stored under the name without them.
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
        if split is not None and split not in parts:
            raise DataError(f"hf:{name} has no split {split!r}. It has {', '.join(parts)}.")
        chosen = parts if split is None else {"train": parts[split]}
        images = read_splits(chosen, f"hf:{name}", partial(read_hugging_face, image=image, label=label))
        stored = Name.parse(options.dataset).without("label", *_SAMPLING)
        named = {each: replace(own, id=f"{stored}#{each}") for each, own in images.items()}
        return divide(named, division, group="hf", ordered=True)


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
