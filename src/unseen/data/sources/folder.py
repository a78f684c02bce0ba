"""`folder:PATH`: any labelled images on disk.

Layouts, in the order in which they are looked for:
    lists     `?train=FILE&test=FILE` (and `val`), each of "relative/path label" lines
    splits    PATH/train/CLASS/..., PATH/test/CLASS/... and PATH/val/CLASS/... (or valid, validation)
    classes   PATH/CLASS/...: a seeded, stratified split, `?test=0.2&val=0.1&seed=3`; without options 20 % test
Where there is `val` but no `test`, as in ImageNet, the held-out folder is the test split: it is what gets reported.
Other options: `names=FILE` and `wnids=FILE` (class<TAB>value). Folders named like n02123045 are WordNet ids.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from unseen.core.errors import DataError, UsageError
from unseen.core.names import Name, Options, as_number, is_wnid
from unseen.core.records import DatasetCard
from unseen.data.dataset import Dataset, IntArray, Split
from unseen.data.decode import open_image
from unseen.data.listing import number_labels, read_lines, read_list, read_table, read_wnids
from unseen.data.load import DatasetSource
from unseen.data.scan import content_key, find_images, subfolders
from unseen.data.subset import stratified_split

_SPLIT_FOLDERS = {"train": ("train",), "val": ("val", "valid", "validation"), "test": ("test",)}
_TEST_SHARE = 0.2


@dataclass(frozen=True)
class _Images:
    """Names and labels by split, before they become a dataset."""

    classes: list[str]
    names: Mapping[str, Sequence[str]]
    labels: Mapping[str, IntArray]
    ignored: int = 0


class FolderSource(DatasetSource):
    """Loads `folder:PATH`."""

    pattern = "folder:PATH"
    hint = "your own images: a folder per class, below train/val/test folders or not; or lists of 'path label' lines"
    paths = ("", "names", "wnids", "train", "val", "test")

    def cards(self) -> Iterable[DatasetCard]:
        return ()

    def load(self, name: str, options: Options) -> Dataset:
        if not name:
            raise UsageError("which folder? Write folder:PATH.")
        root = Path(name).expanduser()
        if not root.is_dir():
            what = "is a file, not a folder" if root.exists() else "does not exist"
            raise DataError(f"the folder {str(root)!r} {what}. A folder dataset holds one sub-folder per class.")
        seed = options.integer("seed") or 0
        names_file, wnids_file = options.text("names"), options.text("wnids")
        held_out = {split: options.text(split) for split in ("train", "val", "test")}
        options.finish()
        if held_out["train"] is not None:
            images = _from_lists(root, held_out)
        else:
            shares = {split: options.fraction(split) for split in ("test", "val")}
            images = _from_folders(root, shares, seed)
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


def _from_folders(root: Path, shares: Mapping[str, float | None], seed: int) -> _Images:
    inside = subfolders(root)
    present = {s: f for s, choices in _SPLIT_FOLDERS.items() for f in choices if f in inside}
    if "train" in present and subfolders(root / present["train"]):
        return _from_split_folders(root, present, shares, seed)
    if not inside:
        raise DataError(
            f"the folder {str(root)!r} has no sub-folders. There should be one per class, with images in it."
        )
    classes, names, labels, ignored = _read_classes(root, inside, "")
    return _split_off(classes, names, labels, ignored, shares, seed)


def _from_split_folders(
    root: Path, present: Mapping[str, str], shares: Mapping[str, float | None], seed: int
) -> _Images:
    classes = subfolders(root / present["train"])
    names: dict[str, Sequence[str]] = {}
    labels: dict[str, IntArray] = {}
    ignored = 0
    for split, folder in present.items():
        found = subfolders(root / folder)
        if strangers := sorted(set(found) - set(classes)):
            raise DataError(
                f"{str(root / folder)!r} has the class {strangers[0]!r}, which {present['train']!r} has not. "
                "Every class needs images to train on."
            )
        _, names[split], own, skipped = _read_classes(root / folder, found, f"{folder}/")
        labels[split] = np.asarray([classes.index(name) for name in found], np.int64)[own]
        ignored += skipped
    if len(present) == 1:
        return _split_off(classes, names["train"], labels["train"], ignored, shares, seed)
    if given := [split for split, share in shares.items() if share is not None]:
        raise UsageError(f"{str(root)!r} brings its own split ({', '.join(present.values())}): leave out {given[0]}=")
    if "test" not in present:
        names["test"], labels["test"] = names.pop("val"), labels.pop("val")
    return _Images(classes, names, labels, ignored)


def _read_classes(folder: Path, classes: Sequence[str], prefix: str) -> tuple[list[str], list[str], IntArray, int]:
    """Classes, image names, labels and the count of other files, of a folder of class folders."""
    names: list[str] = []
    labels: list[int] = []
    ignored = 0
    for label, name in enumerate(classes):
        found = find_images(folder / name, f"{prefix}{name}/")
        if not found.names:
            raise DataError(f"the class {name!r} is empty: {str(folder / name)!r} holds no image. Fill or remove it.")
        names += found.names
        labels += [label] * len(found.names)
        ignored += found.ignored
    # Class by class is nearly, but not quite, the order of whole paths: "a b/" comes before "a/".
    order = sorted(range(len(names)), key=names.__getitem__)
    return list(classes), [names[i] for i in order], np.asarray(labels, np.int64)[order], ignored


def _split_off(
    classes: list[str],
    names: Sequence[str],
    labels: IntArray,
    ignored: int,
    shares: Mapping[str, float | None],
    seed: int,
) -> _Images:
    test = _TEST_SHARE if shares["test"] is None else shares["test"]
    parts = stratified_split(names, labels, test=test, val=shares["val"] or 0.0, seed=seed)
    return _Images(
        classes,
        {split: [names[i] for i in chosen] for split, chosen in parts.items()},
        {split: labels[chosen] for split, chosen in parts.items()},
        ignored,
    )


def _assemble(root: Path, options: Options, images: _Images, names_file: str | None, wnids_file: str | None) -> Dataset:
    trained = set(images.labels["train"].tolist())
    if missing := [each for i, each in enumerate(images.classes) if i not in trained]:
        raise DataError(f"the class {missing[0]!r} has no image in train. Every class needs images to train on.")
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
    )


def _make_split(root: Path, names: Sequence[str], labels: IntArray) -> Split:
    return Split(
        names=names,
        labels=labels,
        open=lambda i: open_image(root / names[i]),
        content_key=lambda i: content_key(root / names[i]),
    )
