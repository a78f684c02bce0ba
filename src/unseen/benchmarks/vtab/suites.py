"""Suites of tasks: what `--tasks mini` and `--tasks all` stand for, and what is known of each task."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from unseen.benchmarks.vtab.published_tables import GROUPS
from unseen.core.errors import DataError, UnknownNameError
from unseen.core.names import Name
from unseen.data.sources.vtab import default_root, ready_tasks, vtab_tasks

#: The embedded default: four procedural twins and photographs with two labellings. Nothing of it is downloaded.
MINI = (
    "packaged:grocery",
    "packaged:grocery?labels=coarse",
    "procedural:shapes-count",
    "procedural:shapes-distance",
    "procedural:sprites-location",
    "procedural:sprites-orientation",
)


@dataclass(frozen=True)
class TaskInfo:
    """A task as tables and charts name it.

    Attributes:
        published: whether the paper's tables have a column for it.
        data: which images; equal for tasks that share them.
    """

    name: str
    title: str
    group: str
    data: str
    published: bool

    @property
    def order(self) -> tuple[int, int]:
        """Sort key: groups and tasks in the order of the paper, other tasks after them in the order given."""
        groups, tasks = [*GROUPS, self.group], list(vtab_tasks())
        return groups.index(self.group), tasks.index(self.name) if self.published else len(tasks)


def suite(names: Sequence[str], *, size: str = "1000", root: str = "") -> list[str]:
    """Dataset ids of suites, groups, tasks and plain dataset ids, in order, each once.

    Args:
        names: "mini", "all", "ready" (with complete data), a group ("natural"), a task ("caltech101"), any dataset.
        size: of VTAB's own tasks: "1000" or "full".
        root: where their data are; "" for the default.
    """
    options = {"size": size if size != "1000" else None, "root": root or None}
    found: list[str] = []
    for name in names:
        if name == "mini":
            found += MINI
        elif name == "ready":
            folder = Path(root or default_root())
            if not (ready := ready_tasks(folder)):
                raise DataError(f"no task is ready below {folder}. List the data: unseen vtab check {folder}")
            found += [str(Name.parse(f"vtab:{task}", options)) for task in ready]
        elif name in ("all", *GROUPS):
            chosen = [task.name for task in vtab_tasks().values() if name in ("all", task.group)]
            found += [str(Name.parse(f"vtab:{task}", options)) for task in chosen]
        elif name.removeprefix("vtab:") in vtab_tasks():
            found.append(str(Name.parse(f"vtab:{name.removeprefix('vtab:')}", options)))
        elif ":" in name:
            found.append(name)
        else:
            raise UnknownNameError("task or suite", name, ["mini", "all", "ready", *GROUPS, *vtab_tasks()])
    return list(dict.fromkeys(found))


def task_info(dataset: str) -> TaskInfo:
    """What is known of the task behind a dataset id; any dataset can be a task, in a group of its own."""
    name = Name.parse(dataset)
    if name.scheme == "vtab" and name.rest in vtab_tasks():
        task = vtab_tasks()[name.rest]
        return TaskInfo(task.name, task.title, task.group, task.data, published=True)
    if name.scheme == "procedural":
        images, _, what = name.rest.partition("-")
        return TaskInfo(name.rest, f"{images.capitalize()}-{what.capitalize()}", "structured", images, published=False)
    if (name.scheme, name.rest) == ("packaged", "grocery"):
        kind = name.options.get("labels", "fine")
        return TaskInfo(f"grocery-{kind}", f"Grocery-{kind.capitalize()}", "natural", "grocery", published=False)
    return TaskInfo(str(name), str(name), "other", str(name), published=False)
