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
from typing import Literal

import numpy as np

from unseen.core.errors import DataError, UsageError
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

Kind = Literal["1k", "tfds", "original", "wds"]
KINDS: tuple[Kind, ...] = ("1k", "tfds", "original", "wds")
TITLES = {"1k": "VTAB-1k folder", "tfds": "TFDS records", "original": "original files", "wds": "webdataset shards"}


@dataclass(frozen=True)
class Location:
    """Where the data of a task are, and in what form."""

    kind: Kind
    place: Path


@dataclass(frozen=True, eq=False)
class LoadedTask:
    """A task and how its examples were chosen.

    Attributes:
        own: why the examples are not, or may not be, the authors' own; "" if they are.
        provenance: whose examples they are, as in the run record.
        split_hash: of the chosen examples, by what TFDS calls them; "" if unknown.
    """

    location: Location
    examples: Mapping[str, Examples]
    dataset: Dataset
    own: str
    provenance: Provenance
    split_hash: str

    @property
    def selection(self) -> str:
        """Return one clause on whose choice of examples this is."""
        return _selection(self.own, self.provenance)


class VtabSource(DatasetSource):
    """Loads `vtab:TASK`."""

    paths = ("root",)

    def cards(self) -> Iterable[DatasetCard]:
        return [task.card for task in vtab_tasks().values()]

    def load(self, name: str, options: Options) -> Dataset:
        if name == "mini":
            raise UsageError(
                "vtab:mini is a suite of six datasets, not one: run it with `unseen vtab run --tasks mini`."
            )
        task = vtab_task(name)
        size = options.choice("size", ("1000", "full"))
        root = options.text("root")
        source = options.choice("source", ("auto", *KINDS))
        options.finish()
        folder = Path(root).expanduser() if root else default_root()
        kinds = KINDS if source == "auto" else (source,)
        return load_task(task, folder, size=size, kinds=kinds)  # type: ignore[arg-type]


def default_root() -> Path:
    """Return `UNSEEN_VTAB` if set, otherwise `vtab` in the home folder."""
    chosen = os.environ.get("UNSEEN_VTAB")
    return Path(chosen).expanduser() if chosen else home() / "vtab"


def locate(task: VtabTask, root: Path, kinds: Iterable[Kind] = KINDS) -> Location | None:
    """Return the first form in which the data of a task are below `root`, or None."""
    finders: dict[Kind, Callable[[], Path | None]] = {
        "1k": lambda: find_1k(root, task.folder),
        "tfds": lambda: find_tfds(root, task.tfds),
        "original": lambda: find_original(task.data, root),
        "wds": lambda: find_wds(root, task.wds),
    }
    found = ((kind, finders[kind]()) for kind in kinds)
    return next((Location(kind, place) for kind, place in found if place is not None), None)


def load_task(
    task: VtabTask, root: Path, *, size: Literal["1000", "full"] = "1000", kinds: Iterable[Kind] = KINDS
) -> Dataset:
    """Load a task with its splits train, val and test; its card states whose choice of examples it is.

    Raises:
        DataError: its data are missing below `root` or damaged, or one example is in two splits.
    """
    tried = tuple(kinds)
    found = locate(task, root, tried)
    if found is None:
        raise DataError(
            f"vtab:{task.name}: nothing below {root} looks like it. {how_to_get(task, tried)} Set the folder "
            "with root=, or with UNSEEN_VTAB; `unseen vtab check ROOT` lists the data that it finds."
        )
    return read_task(task, found, size=size).dataset


def read_task(task: VtabTask, found: Location, *, size: Literal["1000", "full"] = "1000") -> LoadedTask:
    """Load a task from one form of its data."""
    if found.kind == "1k" and size == "full":
        raise DataError(
            f"vtab:{task.name}: {found.place} has 1,000 examples; size=full needs TFDS or the original files."
        )
    splits = _read_splits(task, found, size)
    _refuse_overlap(task, splits)
    shared = task.data != task.name and found.kind in ("tfds", "original")
    own = splits["train"].own or splits["val"].own
    provenance = _provenance(found.kind, splits, size)
    chosen = split_hash(splits)
    dataset = Dataset(
        card=replace(
            task.card,
            notes=f"{OPTIONS}; examples: {_selection(own, provenance)}; split hash {chosen or 'unknown'}",
        ),
        class_names=_class_names(task, splits["test"]),
        splits={split: _labelled(task, examples, found.kind, shared=shared) for split, examples in splits.items()},
        # Tasks on the same images share their features.
        features_id=f"vtab:{task.data}?size={size}&source={found.kind}" if shared else task.card.id,
        record=RunRecord(provenance=provenance),
        expected=expected_sizes(task, size),
    )
    return LoadedTask(found, splits, dataset, own, provenance, chosen)


def expected_sizes(task: VtabTask, size: str = "1000") -> dict[str, int]:
    """Return the number of images by split that VTAB prescribes for a task."""
    sizes = task.sizes if size == "full" else (TRAIN, VAL, task.sizes[2])
    return dict(zip(("train", "val", "test"), sizes, strict=True))


def how_to_get(task: VtabTask, kinds: Iterable[Kind] = KINDS) -> str:
    """Return one sentence on which files to put where."""
    ways = {
        "1k": f"{task.folder}/ of a VTAB-1k folder",
        "tfds": f"{task.tfds}/VERSION/ of TFDS",
        "original": f"{task.expects} from {task.url}",
        "wds": f"wds_vtab-{task.wds}/ of CLIP_benchmark",
    }
    return "It needs " + ", or ".join(ways[kind] for kind in kinds) + "."


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


def _provenance(kind: Kind, splits: Mapping[str, Examples], size: str) -> Provenance:
    """Return whose 1,000 examples these are; "" for the full data, of which there is one version."""
    own = [part for part in (splits["train"], splits["val"]) if part.own]
    if not own:
        return "authors' subset" if size == "1000" else ""
    if not all(part.certain for part in own):
        return "unknown"
    return "community folder" if kind == "wds" else "own sample"


def _selection(own: str, provenance: Provenance) -> str:
    if not own:
        return "the authors'"
    return f"unknown, {own}" if provenance == "unknown" else f"not the authors', {own}"


def _labelled(task: VtabTask, examples: Examples, kind: Kind, *, shared: bool) -> Split:
    rule = task.rule if kind in ("tfds", "original") else Rule()  # lists and shards contain classes
    labels = rule(examples.fields[rule.field], task.classes)
    primary = np.zeros_like(labels) if shared else labels
    return Split(examples.names, labels, examples.open, content_key=examples.content_key, primary_labels=primary)


def _class_names(task: VtabTask, examples: Examples) -> list[str]:
    known = list(examples.class_names)
    return known if len(known) == task.classes else [str(number) for number in range(task.classes)]


def _refuse_overlap(task: VtabTask, splits: Mapping[str, Examples]) -> None:
    seen: dict[str, str] = {}
    for split, examples in splits.items():
        for name in examples.names:
            if seen.setdefault(name, split) != split:
                raise DataError(f"vtab:{task.name}: {name!r} is in {seen[name]} and in {split}. Get the data again.")
