"""What of VTAB is below a folder: all 19 tasks, what is there, what is missing, what is wrong."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from unseen.core.errors import UnseenError
from unseen.data.sources.vtab.identity import content_hash, shared_images
from unseen.data.sources.vtab.source import TITLES, how_to_get, load_task, locate
from unseen.data.sources.vtab.tasks import VtabTask, vtab_tasks


@dataclass(frozen=True)
class TaskStatus:
    """One task below a folder.

    Attributes:
        state: "ready", "incomplete" (fewer examples than published), "broken" or "missing".
        source: in which form the data are there, and where.
        sizes: examples found by split.
        expected: examples there should be by split.
        advice: what is wrong, or how to get what is missing.
        hash: of train and val; equal hashes mean the same 1,000 examples. "" where it was not asked for.
        shared: images that occur in two splits, pixel for pixel, by "train-test" and so on.
    """

    task: str
    title: str
    group: str
    state: str
    source: str = ""
    sizes: dict[str, int] = field(default_factory=dict)
    expected: dict[str, int] = field(default_factory=dict)
    advice: str = ""
    hash: str = ""
    shared: dict[str, int] = field(default_factory=dict)


def check_root(root: Path, *, hashes: bool = False) -> Iterator[TaskStatus]:
    """The state of every task below `root`, one after the other.

    Args:
        hashes: also decode every image, to hash the 1,000 examples and to count images that are in two splits.
    """
    for task in vtab_tasks().values():
        yield _check(task, root, hashes=hashes)


def _check(task: VtabTask, root: Path, *, hashes: bool) -> TaskStatus:
    found = locate(task, root)
    expected = {"train": 800, "val": 200, "test": task.sizes[2]}
    if found is None:
        return TaskStatus(task.name, task.title, task.group, "missing", expected=expected, advice=how_to_get(task))
    source = f"{TITLES[found.kind]}: {found.place}"
    try:
        dataset = load_task(task, root, kinds=(found.kind,))
        first = dataset.split("test")
        if len(first):
            first.open(0)
        sizes = {name: len(split) for name, split in dataset.splits.items()}
        shared = shared_images(dataset) if hashes else {}
        known = content_hash(dataset) if hashes else ""
    except (UnseenError, OSError) as error:
        return TaskStatus(task.name, task.title, task.group, "broken", source, {}, expected, str(error))
    lacking = [f"{name} has {sizes[name]:,} of {count:,}" for name, count in expected.items() if sizes[name] != count]
    return TaskStatus(
        task.name,
        task.title,
        task.group,
        "incomplete" if lacking else "ready",
        source,
        sizes,
        expected,
        "; ".join(lacking),
        known,
        {f"{a}-{b}": count for (a, b), count in shared.items() if count},
    )
