"""`imagenet:in1k`, `imagenet:in1k-blurred`, `imagenet:cog` and its levels `cog-l1` to `cog-l5`: ImageNet as shipped.

Roots:    `?root=PATH`, or UNSEEN_IMAGENET_1K, UNSEEN_IMAGENET_1K_BLURRED and UNSEEN_IMAGENET_21K
IN-1K:    see `imagenet_1k`. The official validation images are the test split, as in ImageNet-CoG
Levels:   `levels=FILE` (UNSEEN_COG_LEVELS, or cog-levels.json in the home folder); `imagenet:cog-NAME` is the level
          NAME of that file, whatever levels it has. Options: split, train, test, min, balanced, seed
Whole:    `imagenet:cog` is ImageNet-1K and every concept of that file, gaps included: levels, controls and variants are
          views of its features. `seen=in1k-blurred` takes the blurred ImageNet-1K, `in1k=PATH` is the root of either
Classes:  in the order of their wnids; named by the lemmas in the timm wheel
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from unseen.core.errors import DataError, UnknownNameError, UsageError
from unseen.core.files import home
from unseen.core.names import Name, Options, is_wnid
from unseen.core.records import DatasetCard
from unseen.data.dataset import Dataset, Split
from unseen.data.joined import join_datasets
from unseen.data.load import DatasetSource, load_dataset
from unseen.data.sources.imagenet.cog import (
    Caps,
    Chosen,
    balanced_rows,
    choose_splits,
    lists_digest,
    read_concepts,
    read_image_lists,
    read_levels,
)
from unseen.data.sources.imagenet.in1k import find_in1k, read_in1k
from unseen.data.sources.imagenet.tree import find_tree

ROOT_VARIABLES = {
    "in1k": "UNSEEN_IMAGENET_1K",
    "in1k-blurred": "UNSEEN_IMAGENET_1K_BLURRED",
    "cog": "UNSEEN_IMAGENET_21K",
}
LEVELS_VARIABLE = "UNSEEN_COG_LEVELS"

_LICENSE = "ImageNet terms of access: research and education, no commercial use"
# Options that say where things are. Features are known by what is in the images.
_PLACES = ("root", "levels", "split", "val_labels", "classes", "limit", "per_class")


class ImageNetSource(DatasetSource):
    """Loads `imagenet:NAME`."""

    paths = ("root", "in1k", "levels", "split", "val_labels")

    def cards(self) -> Iterable[DatasetCard]:
        for name, title in (("in1k", "ImageNet-1K (ILSVRC-2012)"), ("in1k-blurred", "ImageNet-1K, faces blurred")):
            yield DatasetCard(
                id=f"imagenet:{name}",
                name=title,
                group="imagenet",
                paper="cog",
                splits=("train", "test"),
                classes=1000,
                images=1_331_167 if name == "in1k" else None,
                source="image-net.org",
                license=_LICENSE,
                citation="Russakovsky et al., IJCV 2015",
                notes=f"your own copy: root=PATH or {ROOT_VARIABLES[name]}; test = the official validation images",
            )
        yield DatasetCard(
            id="imagenet:cog",
            name="ImageNet-CoG: the seen concepts and all levels",
            group="imagenet",
            paper="cog",
            splits=("train", "test"),
            source="image-net.org",
            license=_LICENSE,
            citation="Sariyildiz, Kalantidis, Larlus, Alahari, ICCV 2021",
            notes="ImageNet-1K and the concepts of levels=FILE, extracted once; seen=in1k-blurred: faces blurred",
        )
        for level in range(1, 6):
            yield DatasetCard(
                id=f"imagenet:cog-l{level}",
                name=f"ImageNet-CoG, level {level}",
                group="imagenet",
                paper="cog",
                splits=("train", "test"),
                classes=1000,
                source="image-net.org",
                license=_LICENSE,
                citation="Sariyildiz, Kalantidis, Larlus, Alahari, ICCV 2021",
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
    """The root that was given, or that of the environment.

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
    """The file of levels that was given, or that of the environment, or the one in the home folder."""
    chosen = given or os.environ.get(LEVELS_VARIABLE)
    path = Path(chosen).expanduser() if chosen else home() / "cog-levels.json"
    if not path.is_file():
        raise DataError(
            f"there is no file of levels at {str(path)!r}. Make one (unseen cog levels --out FILE), and give it by "
            f"levels=FILE or {LEVELS_VARIABLE}."
        )
    return path


@cache
def lemmas() -> Mapping[str, str]:
    """The words of each synset of ImageNet, with commas between them; empty where timm, which has them, is not."""
    spec = find_spec("timm")
    if spec is None or spec.origin is None:
        return {}
    try:
        file = Path(spec.origin).parent / "data" / "_info" / "imagenet_synset_to_lemma.txt"
        rows = (line.split("\t", 1) for line in file.read_text(encoding="utf-8").splitlines() if "\t" in line)
        return {wnid: words.strip() for wnid, words in rows}
    except OSError:
        return {}


def _load_level(level: str, options: Options) -> Dataset:
    path = levels_file(options.text("levels"))
    balanced = options.integer("balanced", at_least=1)
    levels = read_levels(path)
    if level not in levels:
        raise UnknownNameError(f"level of {str(path)!r}", f"cog-{level}", [f"cog-{each}" for each in levels])
    root, chosen, seed = _draw(level, levels[level], options)
    splits, notes = dict(chosen.splits), chosen.notes
    if balanced is not None:
        train = splits["train"]
        splits["train"] = train.take(balanced_rows(train.names, train.labels, balanced, seed))
        notes += f"; of these {balanced} train images per concept, lists {lists_digest(splits)}"
    return _assemble(f"ImageNet-CoG, level {level}", root, options, levels[level], splits, notes)


def _load_whole(options: Options) -> Dataset:
    """The seen concepts and all others, as two datasets whose features are stored apart."""
    # The authors' lists of images have none for concepts between two levels.
    concepts = read_concepts(levels_file(options.text("levels")), gaps=options.text("split") is None)
    seen = options.choice("seen", ("in1k", "in1k-blurred"))
    places = {"root": options.text("in1k"), "val_labels": options.text("val_labels")}
    given = {key: value for key, value in places.items() if value is not None}
    root, chosen, _ = _draw("of any name", concepts, options)
    trained = load_dataset(str(Name("imagenet", seen, given)))
    unseen = _assemble("ImageNet-CoG, all levels", root, options, concepts, chosen.splits, chosen.notes)
    # Which ImageNet-1K stands beside them is nothing to the features of the unseen concepts.
    named = Name.parse(unseen.features_id).without("seen", "in1k")
    unseen = replace(unseen, features_id=str(replace(named, rest="cog-unseen")))
    card = replace(unseen.card, name="ImageNet-CoG", notes="; ".join(filter(None, (trained.card.notes, chosen.notes))))
    return join_datasets(card, [trained, unseen])


def _draw(level: str, concepts: Sequence[str], options: Options) -> tuple[Path, Chosen, int]:
    """The root of ImageNet-21K, the images of some concepts of it, and the seed of their draw."""
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
    return root, choose_splits(find_tree(root), level, concepts, caps, seed=seed, lists=lists), seed


def _load_in1k(name: str, options: Options) -> Dataset:
    root = imagenet_root(name, options.text("root"))
    given = options.text("val_labels")
    options.finish()
    found = find_in1k(root)
    classes, splits, notes = read_in1k(found, Path(given).expanduser() if given else None)
    return _assemble(_WHAT[name], root, options, classes, splits, notes)


def _assemble(
    title: str, root: Path, options: Options, classes: Sequence[str], splits: Mapping[str, Split], notes: str
) -> Dataset:
    return Dataset(
        card=DatasetCard(
            id=options.dataset,
            name=title,
            group="imagenet",
            paper="cog",
            source=str(root),
            license=_LICENSE,
            notes=notes,
        ),
        class_names=_class_names(classes),
        wnids=[each if is_wnid(each) else None for each in classes],
        splits=splits,
        features_id=str(Name.parse(options.dataset).without(*_PLACES)),
    )


def _class_names(classes: Sequence[str]) -> list[str]:
    """The first word of each synset; all its words where two share the first, as the bird and the machine do."""
    words = lemmas()
    first = [words.get(each, each).partition(",")[0].strip() for each in classes]
    count = Counter(first)
    return [words.get(each, each) if count[name] > 1 else name for each, name in zip(classes, first, strict=True)]
