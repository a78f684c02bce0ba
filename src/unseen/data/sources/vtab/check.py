"""Check the data of all 19 tasks below a folder: which are complete, missing or damaged."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path

from unseen.core.errors import DataError, UnseenError
from unseen.core.guard import guarded
from unseen.data.decode import decode_rgb
from unseen.data.sources.vtab.examples import Examples, content_digests, content_hash, shared_images
from unseen.data.sources.vtab.source import TITLES, LoadedTask, expected_sizes, how_to_get, locate, read_task
from unseen.data.sources.vtab.tasks import VtabTask, vtab_tasks

_THREADS = 16  # they wait for the disk, not for the processor
_CHUNK = 256


@dataclass(frozen=True)
class TaskStatus:
    """One task below a folder.

    Attributes:
        state: "ready" (every image of every split exists), "incomplete" (fewer examples than published, or missing
            images), "broken" or "missing".
        source: form and place of the data.
        sizes: number of examples found, by split.
        expected: number of examples that VTAB prescribes, by split.
        advice: what is wrong, or how to get missing data.
        hash: of the images and labels of train and val; "" if not requested.
        shared: images that occur in two splits, pixel for pixel, by "train-test" and so on.
        selection: whose choice of 1,000 examples it is.
        split_hash: of which examples are in train and val; "" if the form of the data does not contain it.
        test_hash: like `hash`, of test.
        lost: number of images by split that are missing, or that cannot be decoded if decoding was requested.
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
    selection: str = ""
    split_hash: str = ""
    test_hash: str = ""
    lost: dict[str, int] = field(default_factory=dict)


def check_root(root: Path, *, hashes: bool = False) -> Iterator[TaskStatus]:
    """Yield the state of every task below `root`.

    Args:
        hashes: also decode every image, to hash the examples and to count images that are in two splits.
    """
    for task in vtab_tasks().values():
        yield _check(task, root, hashes=hashes)


def ready_tasks(root: Path) -> list[str]:
    """Return the tasks that can be run from `root`, in the order of the paper's tables."""
    return [status.task for status in check_root(root) if status.state == "ready"]


def _check(task: VtabTask, root: Path, *, hashes: bool) -> TaskStatus:
    status = TaskStatus(task.name, task.title, task.group, "missing", expected=expected_sizes(task))
    try:
        found = locate(task, root)
        if found is None:
            return replace(status, advice=how_to_get(task))
        status = replace(status, source=f"{TITLES[found.kind]}: {found.place}")
        with guarded(found.place, f"the files of {task.title}", advice="Get them again."):
            loaded = read_task(task, found)
        return _inspect(status, loaded, hashes=hashes)
    except (UnseenError, OSError) as error:
        return replace(status, state="broken", advice=str(error))


def _inspect(status: TaskStatus, loaded: LoadedTask, *, hashes: bool) -> TaskStatus:
    splits = loaded.dataset.splits
    sizes = {name: len(split) for name, split in splits.items()}
    problems = [f"{name} has {sizes[name]:,} of {n:,}" for name, n in status.expected.items() if sizes[name] != n]
    lost: dict[str, int] = {}
    for name, examples in loaded.examples.items():
        missing = _missing(examples)
        if missing:
            lost[name] = len(missing)
            first, why = missing[0]
            problems.append(f"{name}: {len(missing):,} images are missing, such as {examples.names[first]!r} ({why})")
            continue
        try:
            decode_rgb(examples.open(0))
        except (DataError, OSError) as error:
            lost[name] = 1
            problems.append(f"{name}: {examples.names[0]!r} cannot be decoded ({error})")
    status = replace(status, sizes=sizes, selection=loaded.selection, split_hash=loaded.split_hash)
    if hashes and not lost:
        digests = {name: content_digests(split) for name, split in splits.items()}
        lost = {name: count for name, keys in digests.items() if (count := keys.count(None))}
        for name in lost:
            example = loaded.examples[name].names[digests[name].index(None)]
            problems.append(f"{name}: {lost[name]:,} images cannot be decoded, such as {example!r}")
        shared = {f"{a}-{b}": n for (a, b), n in shared_images(loaded.dataset, digests).items() if n}
        status = replace(status, shared=shared)
        if not lost:
            status = replace(
                status,
                hash=content_hash(loaded.dataset, digests=digests),
                test_hash=content_hash(loaded.dataset, ("test",), digests),
            )
    return replace(status, state="incomplete" if problems else "ready", advice="; ".join(problems), lost=lost)


def _missing(examples: Examples) -> list[tuple[int, str]]:
    """Return the positions of missing images, with the reason."""
    find = examples.find
    if find is None:
        return []

    def check(chunk: Sequence[int]) -> list[tuple[int, str]]:
        found = []
        for i in chunk:
            try:
                find(i)
            except (DataError, OSError) as error:
                found.append((i, getattr(error, "strerror", None) or str(error)))
        return found

    chunks = [range(i, min(i + _CHUNK, len(examples))) for i in range(0, len(examples), _CHUNK)]
    with ThreadPoolExecutor(_THREADS) as pool:
        return [each for some in pool.map(check, chunks) for each in some]
