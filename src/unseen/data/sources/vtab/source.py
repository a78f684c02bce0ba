"""`vtab:TASK`: 1,000 labelled examples of a task, or all of them, and its test set.

Forms of the data are tried in this order: a VTAB-1k folder, TFDS records, the original files of the dataset (which is
also what torchvision unpacks), webdataset shards. Options: size=1000 or full, root=FOLDER, source=1k, tfds, original or
wds.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from unseen.core.errors import DataError
from unseen.core.files import home
from unseen.core.names import Options
from unseen.core.records import DatasetCard
from unseen.core.run_record import Provenance, RunRecord
from unseen.data.dataset import Dataset, Split
from unseen.data.load import DatasetSource
from unseen.data.sources.vtab.examples import Examples, cut, split_hash
from unseen.data.sources.vtab.layouts import TRAIN, VAL, find_1k, find_wds, read_1k, read_wds
from unseen.data.sources.vtab.original import find_original, read_original
from unseen.data.sources.vtab.tasks import OPTIONS, Rule, VtabTask, vtab_task, vtab_tasks
from unseen.data.sources.vtab.tfds import find_tfds, read_tfds


class Form(NamedTuple):
    """A form of the data: its title, what it needs, as a format of a task, and the function that finds it."""

    title: str
    needs: str
    find: Callable[[VtabTask, Path], Path | None]


#: The forms of the data, in the order in which they are tried.
FORMS = {
    "1k": Form("VTAB-1k folder", "{0.folder}/ of a VTAB-1k folder", lambda task, root: find_1k(root, task.folder)),
    "tfds": Form("TFDS records", "{0.tfds}/VERSION/ of TFDS", lambda task, root: find_tfds(root, task.tfds)),
    "original": Form("original files", "{0.expects} from {0.url}", lambda task, root: find_original(task.data, root)),
    "wds": Form(
        "webdataset shards", "wds_vtab-{0.wds}/ of CLIP_benchmark", lambda task, root: find_wds(root, task.wds)
    ),
}


@dataclass(frozen=True)
class Location:
    """Where the data of a task are, and in what form."""

    kind: str
    place: Path


@dataclass(frozen=True, eq=False)
class LoadedTask:
    """A task and how its examples were chosen.

    Attributes:
        selection: one clause on whose choice of examples this is.
    """

    examples: Mapping[str, Examples]
    dataset: Dataset
    selection: str


class VtabSource(DatasetSource):
    """Loads `vtab:TASK`."""

    paths = ("root",)

    def cards(self) -> Iterable[DatasetCard]:
        return [task.card for task in vtab_tasks().values()]

    def load(self, name: str, options: Options) -> Dataset:
        task = vtab_task(name)
        size, root = options.choice("size", ("1000", "full")), options.text("root")
        source = options.choice("source", ("auto", *FORMS))
        options.finish()
        folder = Path(root).expanduser() if root else default_root()
        return load_task(task, folder, size=size, kinds=FORMS if source == "auto" else (source,))


def default_root() -> Path:
    """Return `UNSEEN_VTAB` if set, otherwise `vtab` in the home folder."""
    chosen = os.environ.get("UNSEEN_VTAB")
    return Path(chosen).expanduser() if chosen else home() / "vtab"


def locate(task: VtabTask, root: Path, kinds: Iterable[str] = FORMS) -> Location | None:
    """Return the first form in which the data of a task are below `root`, or None."""
    found = (Location(kind, place) for kind in kinds if (place := FORMS[kind].find(task, root)))
    return next(found, None)


def load_task(task: VtabTask, root: Path, *, size: str = "1000", kinds: Iterable[str] = FORMS) -> Dataset:
    """Load a task with its splits train, val and test; its card states whose choice of examples it is.

    Raises:
        DataError: its data are missing below `root` or damaged, or one example is in two splits.
    """
    found = locate(task, root, kinds)
    if found is None:
        raise DataError(
            f"vtab:{task.name}: nothing below {root} looks like it. {how_to_get(task, kinds)} Set the folder "
            "with root=, or with UNSEEN_VTAB; `unseen vtab check ROOT` lists the data that it finds."
        )
    return read_task(task, found, size=size).dataset


def read_task(task: VtabTask, found: Location, *, size: str = "1000") -> LoadedTask:
    """Load a task from one form of its data."""
    if found.kind == "1k" and size == "full":
        raise DataError(
            f"vtab:{task.name}: {found.place} has 1,000 examples; size=full needs TFDS or the original files."
        )
    splits = _read_splits(task, found, size)
    _refuse_overlap(task, splits)
    shared = task.data != task.name and found.kind in ("tfds", "original")
    provenance, selection = _provenance(found.kind, splits, size)
    known = list(splits["test"].class_names)
    dataset = Dataset(
        card=replace(
            task.card,
            notes=f"{OPTIONS}; examples: {selection}; split hash {split_hash(splits) or 'unknown'}",
        ),
        class_names=known if len(known) == task.classes else list(map(str, range(task.classes))),
        splits={split: _labelled(task, examples, found.kind, shared=shared) for split, examples in splits.items()},
        # Tasks on the same images share their features.
        features_id=f"vtab:{task.data}?size={size}&source={found.kind}" if shared else task.card.id,
        record=RunRecord(provenance=provenance),
        expected=expected_sizes(task, size),
    )
    return LoadedTask(splits, dataset, selection)


def expected_sizes(task: VtabTask, size: str = "1000") -> dict[str, int]:
    """Return the number of images by split that VTAB prescribes for a task."""
    sizes = task.sizes if size == "full" else (TRAIN, VAL, task.sizes[2])
    return dict(zip(("train", "val", "test"), sizes, strict=True))


def how_to_get(task: VtabTask, kinds: Iterable[str] = FORMS) -> str:
    """Return one sentence on which files to put where."""
    return f"It needs {', or '.join(FORMS[kind].needs.format(task) for kind in kinds)}."


def _read_splits(task: VtabTask, found: Location, size: str) -> dict[str, Examples]:
    if found.kind == "1k":
        return read_1k(found.place)
    if found.kind == "wds":
        splits = read_wds(found.place, task, size)
    else:
        if found.kind == "tfds":
            official = read_tfds(found.place, task.data, task.official_sizes)
        else:
            official = read_original(task.data, found.place)
        splits = {split: cut(_judged(task, official), spec) for split, spec in task.splits.items()}
    if size == "1000":
        for split, count in (("train", TRAIN), ("val", VAL)):
            splits[split] = splits[split].take(np.arange(min(count, len(splits[split]))))
    if empty := [split for split, examples in splits.items() if not len(examples)]:
        raise DataError(f"vtab:{task.name}: {found.place} leaves no example for {empty[0]!r}.")
    return splits


def _judged(task: VtabTask, official: Mapping[str, Examples]) -> dict[str, Examples]:
    """Return the official splits; if examples are missing, the first ones are no longer the authors'."""
    judged = dict(official)
    for split, count in task.official_sizes.items():
        found = len(official[split]) if split in official else count
        # TFDS leaves one listed image of SUN397 out.
        if found != count and (task.data, split, found) != ("sun397", "train", count - 1) and not official[split].own:
            judged[split] = replace(
                official[split], own=f"its split {split!r} has {found:,} of {count:,} examples", certain=True
            )
    return judged


def _provenance(kind: str, splits: Mapping[str, Examples], size: str) -> tuple[Provenance, str]:
    """Return whose 1,000 examples these are, as in the run record ("" for the full data) and as a clause."""
    own = [part for part in (splits["train"], splits["val"]) if part.own]
    if not own:
        return "authors' subset" if size == "1000" else "", "the authors'"
    if not all(part.certain for part in own):
        return "unknown", f"unknown, {own[0].own}"
    return "community folder" if kind == "wds" else "own sample", f"not the authors', {own[0].own}"


def _labelled(task: VtabTask, examples: Examples, kind: str, *, shared: bool) -> Split:
    rule = task.rule if kind in ("tfds", "original") else Rule()  # lists and shards contain classes
    labels = rule(examples.fields[rule.field], task.classes)
    primary = np.zeros_like(labels) if shared else labels
    return Split(examples.names, labels, examples.open, content_key=examples.content_key, primary_labels=primary)


def _refuse_overlap(task: VtabTask, splits: Mapping[str, Examples]) -> None:
    seen: dict[str, str] = {}
    for split, examples in splits.items():
        for name in examples.names:
            if seen.setdefault(name, split) != split:
                raise DataError(f"vtab:{task.name}: {name!r} is in {seen[name]} and in {split}. Get the data again.")
