"""`folder:PATH`: any labelled images on disk.

Layouts, in the order in which they are looked for:
    lists     `?train=FILE&test=FILE` (and `val`), each of "relative/path label" lines
    splits    PATH/train/CLASS/..., PATH/test/CLASS/... and PATH/val/CLASS/..., in any case, or under the other names
              that `unseen.data.layout` lists (training, testing, valid, validation, dev, eval)
    classes   PATH/CLASS/...: a seeded, stratified split, `?test=0.2&val=0.1&seed=3`; without options 20 % test
Where there is `val` but no `test`, as in ImageNet, the held-out folder is the test split: it is what gets reported.
`layout=classes`, `splits` or `nested` decides where folders are ambiguous (`unseen.data.layout`).
Other options: `names=FILE` and `wnids=FILE` (class<TAB>value). Folders named like n02123045 are WordNet ids.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from unseen.core.arrays import IntArray
from unseen.core.errors import DataError, UsageError
from unseen.core.names import Name, Options, as_number, is_wnid
from unseen.core.records import DatasetCard
from unseen.core.run_record import RunRecord
from unseen.data.columns import number_labels, read_lines, read_list, read_table, read_wnids
from unseen.data.dataset import Dataset, Split
from unseen.data.decode import open_image
from unseen.data.images import Found, content_key, find_images, subfolders
from unseen.data.layout import LAYOUTS, Arranged, arrange, splits_by_name
from unseen.data.load import DatasetSource
from unseen.data.subset import single_image_classes, stratified_split

_TEST_SHARE = 0.2
_MOST_ENDINGS = 5


@dataclass(frozen=True)
class _Images:
    """Names and labels by split, before they become a dataset."""

    classes: list[str]
    names: Mapping[str, Sequence[str]]
    labels: Mapping[str, IntArray]
    ignored: int = 0
    notes: tuple[str, ...] = ()
    untested: tuple[str, ...] = ()


class FolderSource(DatasetSource):
    """Loads `folder:PATH`."""

    pattern = "folder:PATH"
    hint = "your own images: a folder per class, below train/val/test folders or not; or lists of 'path label' lines"
    paths = ("", "names", "wnids", "train", "val", "test")

    def load(self, name: str, options: Options) -> Dataset:
        if not name:
            raise UsageError("which folder? Write folder:PATH.")
        root = Path(name).expanduser()
        if not root.is_dir():
            what = "is a file, not a folder" if root.exists() else "does not exist"
            raise DataError(f"the folder {str(root)!r} {what}. A folder dataset holds one sub-folder per class.")
        seed = options.integer("seed") or 0
        names_file, wnids_file = options.text("names"), options.text("wnids")
        layout = options.choice("layout", LAYOUTS)
        held_out = {split: options.text(split) for split in ("train", "val", "test")}
        options.finish()
        if held_out["train"] is not None:
            if layout:
                raise UsageError(f"layout={layout} is about folders, but train={held_out['train']} is a list.")
            images = _from_lists(root, held_out)
        else:
            shares = {split: options.fraction(split) for split in ("test", "val")}
            images = _from_folders(root, shares, seed, layout)
        return _assemble(root, options, images, names_file, wnids_file)


def _from_lists(root: Path, lists: Mapping[str, str | None]) -> _Images:
    names: dict[str, list[str]] = {}
    labels: dict[str, list[str]] = {}
    for split, file in lists.items():
        if file is None:
            continue
        if as_number(file) is not None:
            raise UsageError(
                f"{split}={file} is a share, but train={lists['train']} is a list: give lists for all splits"
            )
        names[split], labels[split] = read_list(root / file, root)
    if "test" not in names:
        raise UsageError("a dataset of lists needs test=FILE beside train=FILE")
    known = root / "classes.txt"
    classes, numbered = number_labels(labels, [n for _, n in read_lines(known)] if known.is_file() else None)
    return _Images(classes, names, numbered)


def _from_folders(root: Path, shares: Mapping[str, float | None], seed: int, layout: str) -> _Images:
    if not subfolders(root):
        raise DataError(
            f"the folder {str(root)!r} has no sub-folders. There should be one per class, with images in it."
        )
    # Links lead to class folders; a link inside a class folder would bring in the images of something else.
    found = find_images(root, "", links=lambda path: "/" not in path or _is_split_of(path))
    where = f"the folder {str(root)!r}"
    arranged = arrange(found.names, where, layout)
    _refuse_empty(root, arranged, found.links)
    classes = sorted(set(arranged.classes["train"]))
    index = {name: i for i, name in enumerate(classes)}
    names: dict[str, Sequence[str]] = {}
    labels: dict[str, IntArray] = {}
    for split, rows in arranged.rows.items():
        if strangers := sorted(set(arranged.classes[split]) - set(index)):
            raise DataError(
                f"{str(root / arranged.folders[split])!r} has the class {strangers[0]!r}, which "
                f"{arranged.folders['train']!r} has not. Every class needs images to train on."
            )
        names[split] = [found.names[i] for i in rows]
        labels[split] = np.asarray([index[name] for name in arranged.classes[split]], np.int64)
    ignored, notes = _describe_rest(found, arranged)
    images = _Images(classes, names, labels, ignored, (*arranged.notes, *notes))
    if len(names) == 1:
        return _split_off(images, shares, seed)
    if given := [split for split, share in shares.items() if share is not None]:
        brought = ", ".join(arranged.folders.values())
        raise UsageError(f"{str(root)!r} brings its own split ({brought}): leave out {given[0]}=")
    if "test" not in names:
        names["test"], labels["test"] = names.pop("val"), labels.pop("val")
    return images


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


def _split_off(images: _Images, shares: Mapping[str, float | None], seed: int) -> _Images:
    names, labels = images.names["train"], images.labels["train"]
    test = _TEST_SHARE if shares["test"] is None else shares["test"]
    parts = stratified_split(names, labels, test=test, val=shares["val"] or 0.0, seed=seed)
    return replace(
        images,
        names={split: [names[i] for i in chosen] for split, chosen in parts.items()},
        labels={split: labels[chosen] for split, chosen in parts.items()},
        untested=single_image_classes(images.classes, labels) if test else (),
    )


def _assemble(root: Path, options: Options, images: _Images, names_file: str | None, wnids_file: str | None) -> Dataset:
    missing = np.setdiff1d(np.arange(len(images.classes)), images.labels["train"])
    if len(missing):
        name = images.classes[missing[0]]
        raise DataError(f"the class {name!r} has no image in train. Every class needs images to train on.")
    wnids: list[str | None] = [each if is_wnid(each) else None for each in images.classes]
    if wnids_file is not None:
        wnids = read_wnids(root / wnids_file, images.classes)
    class_names = images.classes
    if names_file is not None:
        table = read_table(root / names_file, images.classes)
        class_names = [table.get(each, each) for each in images.classes]
    wanted = Name.parse(options.dataset)
    return Dataset(
        card=DatasetCard(
            id=options.dataset,
            name=root.name,
            group="folder",
            source=str(root),
            notes=f"{images.ignored} files without an image's extension were left out" if images.ignored else "",
        ),
        class_names=class_names,
        splits={split: _make_split(root, images.names[split], images.labels[split]) for split in images.names},
        wnids=wnids if any(wnids) else (),
        features_id=str(wanted.without("names", "wnids", "classes", "limit", "per_class")),
        record=RunRecord(notes=images.notes),
        untested=[class_names[images.classes.index(name)] for name in images.untested],
    )


def _make_split(root: Path, names: Sequence[str], labels: IntArray) -> Split:
    return Split(
        names, labels, lambda i: open_image(root / names[i]), content_key=lambda i: content_key(root / names[i])
    )
