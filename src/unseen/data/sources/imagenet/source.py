"""`imagenet:in1k`, `imagenet:in1k-blurred`, `imagenet:cog` and its levels `cog-l1` to `cog-l5`: ImageNet as shipped.

Roots:    `?root=PATH`, or UNSEEN_IMAGENET_1K, UNSEEN_IMAGENET_1K_BLURRED and UNSEEN_IMAGENET_21K
IN-1K:    see `imagenet_1k`. The official validation images are the test split, as in ImageNet-CoG
Levels:   `levels=FILE` (UNSEEN_COG_LEVELS, or cog-levels.json in the home folder); `imagenet:cog-NAME` is the level
          NAME of that file. Options: split, train, test, min, balanced, seed
Whole:    `imagenet:cog` is ImageNet-1K and every concept of that file, gaps included: levels, controls and variants are
          views of its features. `seen=in1k-blurred` takes the blurred ImageNet-1K, `in1k=PATH` is the root of either
Classes:  in the order of their wnids; named by the lemmas in the timm wheel
"""

from __future__ import annotations

import os
import tarfile
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from unseen.core.arrays import IntArray
from unseen.core.errors import DataError, UnknownNameError, UsageError
from unseen.core.files import home
from unseen.core.guard import guarded, read_limited
from unseen.core.names import Name, Options, is_wnid
from unseen.core.records import DatasetCard
from unseen.core.run_record import RunRecord
from unseen.data.columns import read_lines
from unseen.data.dataset import Dataset, Split, join_datasets
from unseen.data.images import subfolders
from unseen.data.load import DatasetSource, load_dataset
from unseen.data.matlab import load_variables
from unseen.data.sources.imagenet.cog import (
    Caps,
    balanced_rows,
    choose_splits,
    lists_digest,
    read_concepts,
    read_image_lists,
    read_levels,
)
from unseen.data.sources.imagenet.tree import find_tree, images_in_folder, images_in_tar, join_split

ROOT_VARIABLES = {
    "in1k": "UNSEEN_IMAGENET_1K",
    "in1k-blurred": "UNSEEN_IMAGENET_1K_BLURRED",
    "cog": "UNSEEN_IMAGENET_21K",
}
LEVELS_VARIABLE = "UNSEEN_COG_LEVELS"

_CARD = DatasetCard(
    id="",
    group="imagenet",
    paper="cog",
    license="ImageNet terms of access: research and education, no commercial use",
)
# Options that say where things are. Features are known by what is in the images.
_PLACES = ("root", "levels", "split", "val_labels", "classes", "limit", "per_class")


class ImageNetSource(DatasetSource):
    """Loads `imagenet:NAME`."""

    paths = ("root", "in1k", "levels", "split", "val_labels")

    def cards(self) -> Iterable[DatasetCard]:
        common = replace(_CARD, splits=("train", "test"), source="image-net.org")
        for name, title in (("in1k", "ImageNet-1K (ILSVRC-2012)"), ("in1k-blurred", "ImageNet-1K, faces blurred")):
            yield replace(
                common,
                id=f"imagenet:{name}",
                name=title,
                classes=1000,
                images=1_331_167 if name == "in1k" else None,
                citation="Russakovsky et al., IJCV 2015",
                notes=f"your own copy: root=PATH or {ROOT_VARIABLES[name]}; test = the official validation images",
            )
        common = replace(common, citation="Sariyildiz, Kalantidis, Larlus, Alahari, ICCV 2021")
        yield replace(
            common,
            id="imagenet:cog",
            name="ImageNet-CoG: the seen concepts and all levels",
            notes="ImageNet-1K and the concepts of levels=FILE, extracted once; seen=in1k-blurred: faces blurred",
        )
        for level in range(1, 6):
            yield replace(
                common,
                id=f"imagenet:cog-l{level}",
                name=f"ImageNet-CoG, level {level}",
                classes=1000,
                notes=f"your own ImageNet-21K: root=PATH or {ROOT_VARIABLES['cog']}; levels=FILE of unseen cog levels",
            )

    def load(self, name: str, options: Options) -> Dataset:
        if name in ("in1k", "in1k-blurred"):
            return _load_in1k(name, options)
        if name == "cog":
            return _load_whole(options)
        if name.startswith("cog-"):
            return _load_level(name.removeprefix("cog-").lower(), options)
        raise UnknownNameError("ImageNet dataset", name, [card.id.partition(":")[2] for card in self.cards()])


def imagenet_root(kind: str, given: str | None) -> Path:
    """Return the given root, or that of the environment.

    Args:
        kind: "in1k", "in1k-blurred" or "cog".
    """
    variable = ROOT_VARIABLES[kind]
    chosen = given or os.environ.get(variable)
    if not chosen:
        raise UsageError(f"where is {_WHAT[kind]}? Write ?root=PATH, or set {variable}.")
    root = Path(chosen).expanduser()
    if not root.exists():
        raise DataError(f"{_WHAT[kind]} is not at {str(root)!r}: there is no such file or folder.")
    return root


_WHAT = {"in1k": "ImageNet-1K", "in1k-blurred": "the blurred ImageNet-1K", "cog": "ImageNet-21K"}


def levels_file(given: str | None) -> Path:
    """Return the given file of levels, or that of the environment, or the one in the home folder."""
    chosen = given or os.environ.get(LEVELS_VARIABLE)
    path = Path(chosen).expanduser() if chosen else home() / "cog-levels.json"
    if not path.is_file():
        raise DataError(
            f"there is no file of levels at {str(path)!r}. Make one (unseen cog levels --output FILE), and give it by "
            f"levels=FILE or {LEVELS_VARIABLE}."
        )
    return path


@cache
def lemmas() -> Mapping[str, str]:
    """Return the words of each ImageNet synset, separated by commas; empty without timm."""
    spec = find_spec("timm")
    if spec is None or spec.origin is None:
        return {}
    file = Path(spec.origin).parent / "data" / "_info" / "imagenet_synset_to_lemma.txt"
    lines = file.read_text(encoding="utf-8").splitlines() if file.is_file() else []
    return {wnid: words.strip() for wnid, tab, words in (line.partition("\t") for line in lines) if tab}


def _load_level(level: str, options: Options) -> Dataset:
    path = levels_file(options.text("levels"))
    balanced = options.integer("balanced", at_least=1)
    levels = read_levels(path)
    if level not in levels:
        raise UnknownNameError(f"level of {str(path)!r}", f"cog-{level}", [f"cog-{each}" for each in levels])
    root, splits, notes, seed = _sample(level, levels[level], options)
    if balanced is not None:
        train = splits["train"]
        splits["train"] = train.take(balanced_rows(train.names, train.labels, balanced, seed))
        notes += f"; of these {balanced} train images per concept, lists {lists_digest(splits)}"
    return _assemble(f"ImageNet-CoG, level {level}", root, options, levels[level], splits, notes)


def _load_whole(options: Options) -> Dataset:
    """Load the seen concepts and all others as two datasets whose features are stored separately."""
    # The authors' lists of images have none for concepts between two levels.
    concepts = read_concepts(levels_file(options.text("levels")), gaps=options.text("split") is None)
    seen = options.choice("seen", ("in1k", "in1k-blurred"))
    places = {"root": options.text("in1k"), "val_labels": options.text("val_labels")}
    given = {key: value for key, value in places.items() if value is not None}
    root, splits, notes, _ = _sample("of any name", concepts, options)
    trained = load_dataset(str(Name("imagenet", seen, given)))
    unseen = _assemble("ImageNet-CoG, all levels", root, options, concepts, splits, notes)
    # Which ImageNet-1K stands beside them is nothing to the features of the unseen concepts.
    named = Name.parse(unseen.features_id).without("seen", "in1k")
    unseen = replace(unseen, features_id=str(replace(named, rest="cog-unseen")))
    card = replace(unseen.card, name="ImageNet-CoG", notes="; ".join(filter(None, (trained.card.notes, notes))))
    return join_datasets(card, [trained, unseen])


def _sample(level: str, concepts: Sequence[str], options: Options) -> tuple[Path, dict[str, Split], str, int]:
    """Return the root of ImageNet-21K, the images of some of its concepts, notes on them, and the seed."""
    root = imagenet_root("cog", options.text("root"))
    split_file, defaults = options.text("split"), Caps()
    caps = Caps(
        options.integer("train", at_least=1) or defaults.train,
        options.integer("test", at_least=1) or defaults.test,
        options.integer("min", at_least=1) or defaults.least,
    )
    seed = options.integer("seed") or 0
    options.finish()
    lists = read_image_lists(Path(split_file).expanduser(), concepts) if split_file else None
    return root, *choose_splits(find_tree(root), level, concepts, caps, seed=seed, lists=lists), seed


def _load_in1k(name: str, options: Options) -> Dataset:
    root = imagenet_root(name, options.text("root"))
    given = options.text("val_labels")
    options.finish()
    found = find_in1k(root)
    classes, splits, notes = read_in1k(found, Path(given).expanduser() if given else None)
    made = _assemble(_WHAT[name], root, options, classes, splits, notes)
    return replace(made, record=RunRecord(notes=(f"{_WHAT[name]}: {notes}.",))) if notes else made


def _assemble(
    title: str, root: Path, options: Options, classes: Sequence[str], splits: Mapping[str, Split], notes: str
) -> Dataset:
    return Dataset(
        card=replace(_CARD, id=options.dataset, name=title, source=str(root), notes=notes),
        class_names=_class_names(classes),
        wnids=[each if is_wnid(each) else None for each in classes],
        splits=splits,
        features_id=str(Name.parse(options.dataset).without(*_PLACES)),
    )


def _class_names(classes: Sequence[str]) -> list[str]:
    """Return the first word of each synset; all its words if two synsets share the first."""
    words = [lemmas().get(each, each) for each in classes]
    first = [each.partition(",")[0].strip() for each in words]
    count = Counter(first)
    return [each if count[name] > 1 else name for each, name in zip(words, first, strict=True)]


CLASSES = 1000

_BASES = ("", "ILSVRC/Data/CLS-LOC", "Data/CLS-LOC")
_TRAIN = ("train", "train_blurred", "ILSVRC2012_img_train.tar", "train.tar")
_VAL = ("val", "val_blurred", "validation", "ILSVRC2012_img_val.tar", "val.tar")


@dataclass(frozen=True)
class In1k:
    """Where the parts of ImageNet-1K lie."""

    root: Path
    base: Path
    train: Path
    val: Path


def find_in1k(root: Path) -> In1k:
    """Find the training and validation images below a root.

    Raises:
        DataError: there are none.
    """
    for base in (root / each for each in _BASES):
        train, val = ([base / each for each in names if (base / each).exists()] for names in (_TRAIN, _VAL))
        if train and val:
            return In1k(root, base, train[0], val[0])
    inside = ", ".join(subfolders(root)[:5]) if root.is_dir() else "not a folder"
    raise DataError(
        f"{str(root)!r} ({inside or 'no folder in it'}) is not a root of ImageNet-1K. Expected are train/ and val/, or "
        "ILSVRC2012_img_train.tar and ILSVRC2012_img_val.tar."
    )


def read_in1k(found: In1k, val_labels: Path | None = None) -> tuple[list[str], dict[str, Split], str]:
    """Return wnids in the order of the labels, train and test splits, and notes.

    Args:
        val_labels: classes of the validation images, if these are in one folder without a list of classes.
    """
    tree = find_tree(found.train)
    classes = [each for each in tree.concepts if is_wnid(each)]
    if not classes:
        raise DataError(f"{str(found.train)!r} has no class called like n01440764. One folder per wnid is expected.")
    train = join_split([(i, np.arange(len(i)), label) for label, i in enumerate(tree.every(classes))], "train/")
    parts, left_out = read_validation(found, val_labels, classes)
    test = join_split(parts, "val/")
    for name, split in (("training", train), ("validation", test)):
        if empty := sorted(set(range(len(classes))).difference(split.labels.tolist())):
            raise DataError(
                f"{len(empty)} of {len(classes)} classes of {str(found.root)!r} have no {name} image, such as "
                f"{classes[empty[0]]}."
            )
    notes = [f"{len(classes):,} of the {CLASSES:,} classes"] if len(classes) != CLASSES else []
    notes += [f"{left_out:,} validation images of other classes were left out"] if left_out else []
    return classes, {"train": train, "test": test}, "; ".join(notes)


_Part = tuple[Split, IntArray, int]


def read_validation(found: In1k, val_labels: Path | None, classes: Sequence[str]) -> tuple[list[_Part], int]:
    """Return the validation images by class, and the number dropped because train has not their class."""
    place = found.val
    if place.is_dir() and any(is_wnid(each.name.removesuffix(".tar")) for each in place.iterdir()):
        tree = find_tree(place)
        kept = [(label, each) for label, each in enumerate(classes) if each in tree]
        mine = zip(kept, tree.every([each for _, each in kept]), strict=True)
        others = tree.every([each for each in tree.concepts if each not in set(classes)])
        return [(i, np.arange(len(i)), label) for (label, _), i in mine], sum(map(len, others))
    flat = images_in_folder(place, "") if place.is_dir() else images_in_tar(place, "")
    places = [found.base, found.root, place if place.is_dir() else place.parent, found.root / "ILSVRC"]
    path = val_labels or find_val_labels(places)
    return _sort_flat(flat, read_val_labels(path), path, classes)


def _sort_flat(flat: Split, labels: Mapping[str, str], path: Path, classes: Sequence[str]) -> tuple[list[_Part], int]:
    """Return images of one flat folder by class, named as if each class had a folder."""
    shown = [labels.get(_stem(name)) for name in flat.names]
    if None in shown:
        raise DataError(
            f"{str(path)!r} does not have {flat.names[shown.index(None)]!r}. It has {len(labels):,} images."
        )
    names = [f"{wnid}/{name.rpartition('/')[2]}" for wnid, name in zip(shown, flat.names, strict=True)]
    named = Split(names, flat.labels, flat.open, content_key=flat.content_key)
    rows = [np.flatnonzero(np.asarray(shown) == wnid) for wnid in classes]
    parts = [(named, own, label) for label, own in enumerate(rows) if len(own)]
    return parts, len(flat) - sum(map(len, rows))


_DEVKIT = "ILSVRC2012_devkit_t12.tar.gz"
_LISTS = ("LOC_val_solution.csv", "val_map.txt", "val_labels.txt", _DEVKIT)
_TRUTH = "ILSVRC2012_validation_ground_truth.txt"
_META = "meta.mat"
_DEVKIT_BYTES = 64 << 20


def find_val_labels(places: Sequence[Path]) -> Path:
    """Return the first file in one of the folders with the classes of the validation images.

    Raises:
        DataError: there is none.
    """
    if found := next((place / name for name in _LISTS for place in places if (place / name).is_file()), None):
        return found
    raise DataError(
        f"nothing in {str(places[0])!r} says what the validation images show. Put there one of {', '.join(_LISTS)}, or "
        "sort the images into a folder per class, or give val_labels=FILE."
    )


def read_val_labels(path: Path) -> dict[str, str]:
    """Read the wnid of each validation image, by its file name without extension.

    Args:
        path: the devkit, or lines of a file name and a wnid; a .csv file has a header.
    """
    if path.name.endswith((".tar.gz", ".tgz")):
        return _read_devkit(path)
    lines = read_lines(path)[path.suffix == ".csv" :]
    labels: dict[str, str] = {}
    for number, line in lines:
        words = line.replace(",", " ").split()
        if len(words) < 2 or not is_wnid(words[1]):  # Kaggle's lines go on with boxes
            raise DataError(f"{str(path)!r}, line {number}: expected a file name and a wnid, found {line[:80]!r}")
        labels[_stem(words[0])] = words[1]
    return labels


def _read_devkit(path: Path) -> dict[str, str]:
    with guarded(path, "the devkit", advice="Download it again."), tempfile.TemporaryDirectory() as folder:
        with tarfile.open(path, "r:gz") as archive:
            for member in archive:
                name = member.name.rpartition("/")[2]
                stream = archive.extractfile(member) if name in (_TRUTH, _META) and member.isreg() else None
                if stream is not None:
                    Path(folder, name).write_bytes(read_limited(stream, _DEVKIT_BYTES, path))
        truth, meta = Path(folder, _TRUTH), Path(folder, _META)
        if not (truth.is_file() and meta.is_file()):
            raise DataError(f"{str(path)!r} lacks {_TRUTH} or {_META}: is it the devkit of tasks 1 and 2?")
        synsets = load_variables(meta, "synsets")["synsets"].ravel()
        wnids = {int(each["ILSVRC2012_ID"].item()): str(each["WNID"].item()) for each in synsets}
        words = truth.read_bytes().split()
        return {f"ILSVRC2012_val_{i:08d}": wnids[int(word)] for i, word in enumerate(words, start=1)}


def _stem(name: str) -> str:
    return name.strip().rpartition("/")[2].partition(".")[0]
