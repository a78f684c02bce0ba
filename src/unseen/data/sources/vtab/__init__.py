"""The Visual Task Adaptation Benchmark: 19 tasks, from several forms of their data on disk."""

from unseen.data.sources.vtab.check import TaskStatus, check_root, fetch_task, ready_tasks
from unseen.data.sources.vtab.examples import content_hash, split_hash
from unseen.data.sources.vtab.source import default_root, load_task, locate
from unseen.data.sources.vtab.tasks import VtabTask, vtab_task, vtab_tasks

__all__ = [
    "TaskStatus",
    "VtabTask",
    "check_root",
    "content_hash",
    "default_root",
    "fetch_task",
    "load_task",
    "locate",
    "ready_tasks",
    "split_hash",
    "vtab_task",
    "vtab_tasks",
]
