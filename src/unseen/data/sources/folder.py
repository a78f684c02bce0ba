"""`folder:PATH`: any labelled images on disk.

Layouts, in the order in which they are looked for:
    splits    PATH/train/CLASS/..., PATH/test/CLASS/... and PATH/val/CLASS/..., in any case, or under the other names
              that `unseen.data.layout` lists (training, testing, valid, validation, dev, eval)
    classes   PATH/CLASS/...: a seeded, stratified split, `?test=0.2&val=0.1&seed=3`; without options 20 % test
Where there is `val` but no `test`, as in ImageNet, the held-out folder is the test split: it is what gets reported.
`layout=classes`, `splits` or `nested` decides where folders are ambiguous (`unseen.data.layout`).
Other options: `names=FILE` and `wnids=FILE` (class<TAB>value). Folders named like n02123045 are WordNet ids.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from pathlib import Path

import numpy as np

from unseen.core.arrays import IntArray
from unseen.core.errors import DataError, UsageError
from unseen.core.names import Name, Options, is_wnid
from unseen.core.records import DatasetCard
from unseen.core.run_record import RunRecord
from unseen.data.columns import read_table, read_wnids
from unseen.data.dataset import Dataset, Split
from unseen.data.decode import open_image
from unseen.data.images import Found, content_key, find_images, subfolders
from unseen.data.layout import LAYOUTS, Arranged, arrange, splits_by_name
from unseen.data.load import DatasetSource
from unseen.data.subset import Division, single_image_classes, stratified_split

_MOST_ENDINGS = 5


class FolderSource(DatasetSource):
    """Loads `folder:PATH`."""

    pattern = "folder:PATH"
    hint = "your own images: a folder per class, below train/val/test folders or not"
    paths = ("", "names", "wnids")

    def load(self, name: str, options: Options) -> Dataset:
        if not name:
            raise UsageError("which folder? Write folder:PATH.")
        root = Path(name).expanduser()
        if not root.is_dir():
            what = "is a file, not a folder" if root.exists() else "does not exist"
            raise DataError(f"the folder {str(root)!r} {what}. A folder dataset holds one sub-folder per class.")
        layout = options.choice("layout", LAYOUTS)
        division, _ = Division.read(options)
        shares = [split for split in ("test", "val") if options.text(split) is not None]
        names_file, wnids_file = options.text("names"), options.text("wnids")
        options.finish()
        found, arranged = _scan(root, layout)
        classes = sorted(set(arranged.classes["train"]))
        parts = _number(root, arranged, classes)
        untested: tuple[str, ...] = ()
        if len(parts) == 1:
            rows, labels = parts["train"]
            keys = [found.names[i] for i in rows]
            sampled = stratified_split(keys, labels, test=division.test, val=division.val, seed=division.seed)
            parts = {split: ([rows[i] for i in chosen], labels[chosen]) for split, chosen in sampled.items()}
            untested = single_image_classes(classes, labels) if division.test else ()
        elif shares:
            brought = ", ".join(arranged.folders.values())
            raise UsageError(f"{str(root)!r} brings its own split ({brought}): leave out {shares[0]}=")
        elif "test" not in parts:
            parts["test"] = parts.pop("val")
        ignored, notes = _describe_rest(found, arranged)
        wnids: list[str | None] = [each if is_wnid(each) else None for each in classes]
        if wnids_file is not None:
            wnids = read_wnids(root / wnids_file, classes)
        table = {} if names_file is None else read_table(root / names_file, classes)
        class_names = [table.get(each, each) for each in classes]
        return Dataset(
            card=DatasetCard(
                id=options.dataset,
                name=root.name,
                group="folder",
                source=str(root),
                notes=f"{ignored} files without an image's extension were left out" if ignored else "",
            ),
            class_names=class_names,
            splits={split: _make_split(root, [found.names[i] for i in own], y) for split, (own, y) in parts.items()},
            wnids=wnids if any(wnids) else (),
            features_id=str(Name.parse(options.dataset).without("names", "wnids", "classes", "limit", "per_class")),
            record=RunRecord(notes=(*arranged.notes, *notes)),
            untested=[class_names[classes.index(each)] for each in untested],
        )


def _refuse_other_forms(root: Path) -> None:
    """Raise if the folder has a form that another source reads."""
    if any((root / name).is_file() for name in ("dataset_dict.json", "dataset_info.json")):
        raise DataError(
            f"the folder {str(root)!r} is a dataset that Hugging Face `save_to_disk` wrote. Load it as hf:{root}"
        )
    if not subfolders(root) and next(root.glob("*.tar"), None) is not None:
        raise DataError(
            f"the folder {str(root)!r} has tar files and no class folders. Load shards of webdataset as wds:{root}"
        )


def _scan(root: Path, layout: str) -> tuple[Found, Arranged]:
    """Return the images of a folder, and their splits and classes."""
    _refuse_other_forms(root)
    if not subfolders(root):
        raise DataError(
            f"the folder {str(root)!r} has no sub-folders. There should be one per class, with images in it."
        )
    # Links lead to class folders; a link inside a class folder would bring in the images of something else.
    found = find_images(root, "", links=lambda path: "/" not in path or _is_split_of(path))
    arranged = arrange(found.names, f"the folder {str(root)!r}", layout)
    _refuse_empty(root, arranged, found.links)
    return found, arranged


def _number(root: Path, arranged: Arranged, classes: Sequence[str]) -> dict[str, tuple[list[int], IntArray]]:
    """Return the rows and class indices of the images, by split."""
    index = {name: i for i, name in enumerate(classes)}
    for split, found in arranged.classes.items():
        if strangers := sorted(set(found) - set(index)):
            raise DataError(
                f"{str(root / arranged.folders[split])!r} has the class {strangers[0]!r}, which "
                f"{arranged.folders['train']!r} has not. Every class needs images to train on."
            )
    return {
        split: (rows, np.asarray([index[name] for name in arranged.classes[split]], np.int64))
        for split, rows in arranged.rows.items()
    }


def _is_split_of(path: str) -> bool:
    """Return whether a path is a class folder inside a split folder."""
    folder, _, rest = path.partition("/")
    return "/" not in rest and bool(splits_by_name([folder], ""))


def _refuse_empty(root: Path, arranged: Arranged, links: Collection[str]) -> None:
    for split, rows in arranged.rows.items():
        own = arranged.folders.get(split, "")
        folder, prefix = root / own, f"{own}/".lstrip("/")
        full = {name.partition("/")[0] for name in arranged.classes[split]}
        full |= {link.removeprefix(prefix) for link in links}
        if empty := [name for name in subfolders(folder) if name not in full]:
            raise DataError(
                f"the class {empty[0]!r} is empty: {str(folder / empty[0])!r} holds no image. Fill or remove it."
            )
        if not rows:
            raise DataError(f"{str(folder)!r} holds no image in class folders.")


def _describe_rest(found: Found, arranged: Arranged) -> tuple[int, list[str]]:
    """Return the number of files in class folders that are not images, and sentences on these and on unused links."""
    inside = tuple(f"{folder}/" for folder in arranged.folders.values())
    endings: Counter[str] = Counter()
    for (folder, ending), count in found.others.items():
        if folder and (not inside or folder.startswith(inside)):
            endings[ending or "no ending"] += count
    notes = []
    if endings:
        shown = ", ".join(ending for ending, _ in endings.most_common(_MOST_ENDINGS))
        notes.append(f"{endings.total():,} files in class folders do not have the ending of an image ({shown}).")
    if found.links:
        more = f" and {len(found.links) - 1:,} more" if len(found.links) > 1 else ""
        notes.append(f"Links inside class folders, or to a folder above, were not followed: {found.links[0]}{more}.")
    return endings.total(), notes


def _make_split(root: Path, names: Sequence[str], labels: IntArray) -> Split:
    return Split(
        names, labels, lambda i: open_image(root / names[i]), content_key=lambda i: content_key(root / names[i])
    )
