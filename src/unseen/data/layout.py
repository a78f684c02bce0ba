"""Folders of images: which of them are splits, and which are classes.

`arrange` reads a layout from image paths alone, so `folder:` and `zip:` share it. Options of the dataset name decide
where paths are ambiguous:
    layout=classes   every folder is a class, even if it is named like a split; images in sub-folders belong to it
    layout=splits    the folders are splits, with one folder per class inside; images in sub-folders belong to the class
    layout=nested    every folder that contains images is a class, named by its path (`a/abbey`), inside splits or not
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from unseen.core.errors import DataError

LAYOUTS = ("", "classes", "splits", "nested")

_EVAL = "eval"
#: Names of folders and of values in a split column, in lower case. "eval" is the test split, or the validation split
#: beside a test split.
_WORDS = {
    **dict.fromkeys(("train", "training"), "train"),
    **dict.fromkeys(("val", "valid", "validation", "dev", "development"), "val"),
    **dict.fromkeys(("test", "testing"), "test"),
    **dict.fromkeys(("eval", "evaluation"), _EVAL),
}
_MOST_SHOWN = 3


def splits_by_name(names: Iterable[str], where: str) -> dict[str, str]:
    """Return train, val and test with the name that stands for each, out of names in any case; others are left out.

    Raises:
        DataError: two names stand for the same split.
    """
    found: dict[str, str] = {}
    known = [(name, _WORDS[word]) for name in names if (word := name.strip().lower()) in _WORDS]
    has_test = "test" in dict(known).values()
    for name, split in known:
        if split == _EVAL:
            split = "val" if has_test else "test"
        if split in found:
            raise DataError(
                f"{where}: {found[split]!r} and {name!r} both name the {split} split. Rename or remove one of them."
            )
        found[split] = name
    return {split: found[split] for split in ("train", "val", "test") if split in found}


def unused_splits(names: Sequence[str]) -> str:
    """Return the sentence of the run record on splits that are neither train, val nor test."""
    return f"The splits {_listed(names)} were not used: they are not train, val or test."


@dataclass(frozen=True, eq=False)
class Arranged:
    """Images by split and class.

    Attributes:
        rows: by split, the indices of its images among the names that were given, in their order.
        classes: by split, the class of each of these images.
        folders: by split, its folder; empty if the layout has no split folders.
        notes: images that were left out or merged, as sentences for the run record.
    """

    rows: Mapping[str, list[int]]
    classes: Mapping[str, list[str]]
    folders: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def arrange(names: Sequence[str], where: str, layout: str = "") -> Arranged:
    """Return which split and class the images at some paths belong to.

    Args:
        names: paths of images below a folder, with slashes.
        where: the folder, for messages.
        layout: one of `LAYOUTS`.

    Raises:
        DataError: the layout is ambiguous; the message names the option that decides.
    """
    # Images by folder at the top, and those of them in its sub-folders.
    heads = Counter(name.partition("/")[0] for name in names if "/" in name)
    deeper = Counter(name.partition("/")[0] for name in names if name.count("/") > 1)
    splits = {} if layout == "classes" else splits_by_name(deeper, where)
    notes: list[str] = []
    if "train" in splits:
        notes += [*_outside(len(names) - heads.total(), where), *_beside(heads, splits, where, layout)]
    elif layout == "splits":
        raise DataError(f"{where} has no folder for train with class folders inside, so layout=splits is wrong.")
    else:
        named = [head for head in heads if head.lower() in _WORDS]
        # A lone `train` with images in it is a vehicle.
        vehicle = [head.lower() for head in named] == ["train"] and len(heads) > 1 and not deeper[named[0]]
        if named and not vehicle and layout != "classes":
            raise DataError(
                f"{where}: the folders {_listed(named)} are named like splits, but there is no train folder with class "
                "folders inside. Put class folders into train/ and test/, or add ?layout=classes if they are classes."
            )
        splits = {"train": ""}
    rows: dict[str, list[int]] = {}
    classes: dict[str, list[str]] = {}
    for split, folder in splits.items():
        start = f"{folder}/" if folder else ""
        own = [i for i, name in enumerate(names) if name.startswith(start)]
        rows[split] = [i for i in own if "/" in names[i][len(start) :]]
        inner = [names[i][len(start) :] for i in rows[split]]
        inside = f"{where}, {start}" if start else where
        classes[split], merged = _classes(inner, inside, layout, "splits" if start else "classes")
        notes += [*_outside(len(own) - len(inner), start or where), *merged]
    return Arranged(rows, classes, {split: folder for split, folder in splits.items() if folder}, tuple(notes))


def _outside(count: int, where: str) -> list[str]:
    """Return a note on images that are in no class folder, if there are any."""
    return [f"{_images(count)} of {where} are in no class folder and were not used."] if count else []


def _beside(heads: Mapping[str, int], splits: Mapping[str, str], where: str, layout: str) -> list[str]:
    """Return notes on the folders beside the split folders; refuse them where they may be classes."""
    others = {head: count for head, count in heads.items() if head not in splits.values()}
    classes = [head for head in others if head.lower() not in _WORDS]
    if classes and len(splits) == 1 and not layout:
        raise DataError(
            f"{where}: {splits['train']!r} looks like the train split, but {_listed(classes)} lies beside it. Add "
            f"?layout=splits to use {splits['train']!r} only, or ?layout=classes if all of them are classes."
        )
    return [
        f"{_images(count)} of {head}/ were not used: "
        + ("they are in no class folder." if head.lower() in _WORDS else "the folder is not a split.")
        for head, count in others.items()
    ]


def _classes(names: Sequence[str], where: str, layout: str, merge: str) -> tuple[list[str], list[str]]:
    """Return the class of each image, by its path below the folder of class folders, and notes on what was merged.

    Args:
        merge: the layout that merges sub-folders, for the message.
    """
    if layout == "nested":
        return [name.rpartition("/")[0] for name in names], []
    found = [name.partition("/")[0] for name in names]
    if layout:
        return found, []
    parts = [name.split("/") for name in names]
    direct = {part[0] for part in parts if len(part) == 2}
    below: dict[str, set[str]] = {}
    for own, inner, *deeper in parts:
        if deeper:
            below.setdefault(own, set()).add(inner)
    several = [(own, inner) for own, inner in below.items() if own not in direct and len(inner) > 1]
    if several:
        own, folders = several[0]
        raise DataError(
            f"{where}: the folder {own!r} has no images of its own, but {len(folders):,} sub-folders with images "
            f"({_listed(sorted(folders))}). Add ?layout=nested if each sub-folder is a class, named "
            f"{own + '/' + min(folders)!r}, or ?layout={merge} if all their images belong to the class {own!r}."
        )
    note = f"Images in sub-folders of the class folders {_listed(sorted(below))} belong to these classes."
    return found, [note] if below else []


def _images(count: int) -> str:
    return "1 image" if count == 1 else f"{count:,} images"


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(repr(name) for name in names[:_MOST_SHOWN])
    return shown + (f" and {len(names) - _MOST_SHOWN:,} more" if len(names) > _MOST_SHOWN else "")
