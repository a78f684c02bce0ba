"""Check the data of all 19 tasks below a folder: which are complete, missing or damaged; download what is missing.

`downloads.toml` lists the files, with the sizes and checksums that are published.
"""

from __future__ import annotations

import gzip
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

import msgspec

from unseen.core.errors import DataError, DiskFullError, UnseenError
from unseen.core.files import Checksum, download, read_toml
from unseen.core.guard import guarded
from unseen.data.sources.vtab.examples import Examples, content_hash, split_hash
from unseen.data.sources.vtab.source import FORMS, LoadedTask, expected_sizes, how_to_get, locate, read_task
from unseen.data.sources.vtab.tasks import VtabTask, files_of, vtab_tasks

_THREADS = 16  # they wait for the disk, not for the processor


@dataclass(frozen=True)
class TaskStatus:
    """One task below a folder.

    Attributes:
        state: "ready" (every image of every split exists), "incomplete" (fewer examples than published, or missing
            images), "broken", "packed" (archives that have to be unpacked or completed) or "missing".
        source: form and place of the data.
        sizes: number of examples found, by split.
        expected: number of examples that VTAB prescribes, by split.
        advice: what is wrong, or how to get missing data.
        hash: of the images and labels of train and val; "" if not requested.
        selection: whose choice of 1,000 examples it is.
        split_hash: of which examples are in train and val; "" if the form of the data does not contain it.
        lost: number of images by split that are missing.
    """

    task: str
    group: str
    state: str
    source: str = ""
    sizes: dict[str, int] = field(default_factory=dict)
    expected: dict[str, int] = field(default_factory=dict)
    advice: str = ""
    hash: str = ""
    selection: str = ""
    split_hash: str = ""
    lost: dict[str, int] = field(default_factory=dict)


def check_root(root: Path, *, hashes: bool = False) -> Iterator[TaskStatus]:
    """Yield the state of every task below `root`.

    Args:
        hashes: also decode every image, to hash the examples.
    """
    for task in vtab_tasks().values():
        yield _check(task, root, hashes=hashes)


def ready_tasks(root: Path) -> list[str]:
    """Return the tasks that can be run from `root`, in the order of the paper's tables."""
    return [status.task for status in check_root(root) if status.state == "ready"]


def _check(task: VtabTask, root: Path, *, hashes: bool) -> TaskStatus:
    status = TaskStatus(task.name, task.group, "missing", expected=expected_sizes(task))
    try:
        found = locate(task, root)
        if found is None:
            packed = packed_files(task.data, root)
            advice = " ".join(packed) or f"{how_to_get(task)} {how_to_fetch(task, root)}"
            return replace(status, state="packed" if packed else "missing", advice=advice)
        status = replace(status, source=f"{FORMS[found.kind].title}: {found.place}")
        with guarded(found.place, f"the files of {task.title}", advice="Get them again."):
            loaded = read_task(task, found)
        return _inspect(status, loaded, hashes=hashes)
    except (UnseenError, OSError) as error:
        return replace(status, state="broken", advice=str(error))


def _inspect(status: TaskStatus, loaded: LoadedTask, *, hashes: bool) -> TaskStatus:
    sizes, digest = {name: len(split) for name, split in loaded.dataset.splits.items()}, ""
    problems = [f"{name} has {sizes[name]:,} of {n:,}" for name, n in status.expected.items() if sizes[name] != n]
    lost: dict[str, int] = {}
    for name, examples in loaded.examples.items():
        if faults := _missing(examples):
            lost[name], (first, why) = len(faults), faults[0]
            problems.append(f"{name}: {len(faults):,} images are missing, such as {examples.names[first]!r} ({why})")
    if hashes and not lost:
        try:
            digest = content_hash(loaded.dataset)
            content_hash(loaded.dataset, ["test"])
        except DataError as error:
            digest, problems = "", [*problems, str(error)]
    return replace(
        status,
        state="incomplete" if problems else "ready",
        sizes=sizes,
        selection=loaded.selection,
        split_hash=split_hash(loaded.examples),
        hash=digest,
        advice="; ".join(problems),
        lost=lost,
    )


def _missing(examples: Examples) -> list[tuple[int, str]]:
    """Return the positions of missing images, with the reason."""
    find = examples.find
    if find is None:
        return []

    def reason(i: int) -> str:
        try:
            find(i)
        except (DataError, OSError) as error:
            return getattr(error, "strerror", None) or str(error)
        return ""

    with ThreadPoolExecutor(_THREADS) as pool:
        return [(i, why) for i, why in enumerate(pool.map(reason, range(len(examples)))) if why]


# ---- downloads -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PublishedFile:
    """A file of a dataset.

    Attributes:
        data: the dataset, which tasks may share.
        folder: below the root, where the readers expect the file or the content of the archive.
        unpack: whether it has to be unpacked; other archives are read as they are.
        inner: an archive inside it that has to be unpacked too.
    """

    data: str
    url: str
    checksum: Checksum
    folder: str = ""
    unpack: bool = False
    inner: str = ""

    @property
    def name(self) -> str:
        return self.url.rpartition("/")[2]

    def described(self) -> str:
        """Return the name, the size and the checksum in words."""
        size = f"{self.checksum.size:,} bytes" if self.checksum.size else "size not published"
        kind = "sha256" if self.checksum.sha256 else "md5"
        return f"{self.name} ({size}, {kind} {(self.checksum.sha256 or self.checksum.md5)[:12]}...)"


@dataclass(frozen=True)
class _Downloads:
    """The files to download, and by dataset the names of those that need a browser or an account."""

    file: tuple[PublishedFile, ...]
    by_hand: dict[str, tuple[str, ...]]


@cache
def _downloads() -> _Downloads:
    return msgspec.convert(read_toml(__package__, "downloads.toml"), _Downloads)


def published_files(data: str) -> list[PublishedFile]:
    """Return the files of a dataset that can be downloaded without an account; none for Resisc45 and Retinopathy."""
    return [file for file in _downloads().file if file.data == data]


def how_to_fetch(task: VtabTask, root: Path) -> str:
    """Return the command that downloads the files of a task, with their sizes and checksums, or where to get them."""
    if files := published_files(task.data):
        return f"unseen vtab fetch {task.name} --root {root} downloads {', '.join(file.described() for file in files)}."
    names = ", ".join(_downloads().by_hand[task.data])
    return f"Download {names} from {task.url} by hand; no checksum is published." if names else ""


def packed_files(data: str, root: Path) -> list[str]:
    """Return what to do with each archive of a dataset that is below a root, up to two folders deep."""
    files = {file.name: file for file in published_files(data)}
    names = {*files, *files_of(data).archives, *_downloads().by_hand.get(data, ())}
    present = {path for pattern in ("*", "*/*", "*/*/*") for path in root.glob(pattern) if path.name in names}
    found = []
    for path in sorted(present):
        file, size = files.get(path.name), path.stat().st_size
        if file is not None and file.checksum.size not in (0, size):
            found.append(f"{path} has {size:,} of {file.checksum.size:,} bytes: remove it and fetch it again.")
        elif file is None or file.unpack:
            target = root / file.folder if file is not None else path.parent
            what = str(path.parent / file.described()) if file is not None else f"{path} ({size:,} bytes)"
            found.append(f"{what} has to be unpacked: {_command(path, target)}.")
    return found


def _command(path: Path, target: Path) -> str:
    """Return the shell command that unpacks an archive."""
    if path.name.endswith((".tar.gz", ".tgz")):
        return f"tar -xf {path} -C {target}"
    if path.suffix == ".gz":
        return f"gunzip -k {path}"
    return f"unrar x {path} {target}" if path.suffix == ".rar" else f"unzip {path} -d {target}"


def fetch_task(task: VtabTask, root: Path, progress: Callable[[str, int, int], None] | None = None) -> list[Path]:
    """Download the files of a task below a root, compare their checksums, and unpack archives.

    A file that exists is compared and not downloaded again; a download that broke off resumes.

    Args:
        progress: called with the name of a file, its received bytes and its size.

    Returns:
        The downloaded files.

    Raises:
        DataError: its files need an account or a browser, or a file that exists differs from the published one.
        DiskFullError: the disk is too small.
        DownloadError: a download failed.
    """
    files = published_files(task.data)
    if not files:
        raise DataError(f"vtab:{task.name} cannot be downloaded without an account or a browser. {how_to_get(task)}")
    paths = [root / file.folder / file.name for file in files]
    needed = sum((1 + file.unpack) * file.checksum.size for file, p in zip(files, paths, strict=True) if not p.exists())
    root.mkdir(parents=True, exist_ok=True)
    if (free := shutil.disk_usage(root).free) < needed:
        raise DiskFullError(
            f"vtab:{task.name} needs about {needed / 1e9:,.1f} GB below {root}; {free / 1e9:,.1f} are free."
        )
    for file, path in zip(files, paths, strict=True):
        if path.exists() and (difference := file.checksum.difference(path)):
            raise DataError(f"{path} is not the published file: {difference}. Remove it and run the command again.")
        tell = None if progress is None else lambda done, size, name=file.name: progress(name, done, size)
        download(file.url, path, file.checksum, tell)
        mark = path.with_name(f".{path.name}.unpacked")
        if file.unpack and not mark.exists():
            unpack(path, root / file.folder)
            if file.inner:
                unpack(root / file.inner, (root / file.inner).parent)
            mark.touch()
    return paths


def unpack(path: Path, folder: Path) -> None:
    """Unpack an archive into a folder; names that lead out of it are refused."""
    with guarded(path, "an archive", advice="Download it again."):
        if path.suffix == ".gz" and not path.name.endswith(".tar.gz"):
            with gzip.open(path) as stream, (folder / path.stem).open("wb") as target:
                shutil.copyfileobj(stream, target)
        else:
            shutil.unpack_archive(path, folder, filter=None if path.suffix == ".zip" else "data")
