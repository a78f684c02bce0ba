"""Record results: each once, in the database of the home, with its environment; those of workers through the inbox.

The inbox is a folder of small files. A worker writes each result as a file of its own, complete or not at all, as soon
as it is known; the process that runs the study collects them. It works wherever workers share the home folder, with any
engine. The finished results of a killed worker stay there, and those of a killed run are collected by the next run.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from unseen.core.extras import cores
from unseen.core.files import write_whole
from unseen.core.records import Result
from unseen.results import ResultsDatabase
from unseen.results.rows import to_json

#: Seconds between two reads of the folder.
PAUSE = 0.5
#: Packages that can change a number.
PACKAGES = ("unseen", "torch", "torchvision", "timm", "onnxruntime", "numpy", "scipy", "scikit-learn", "pillow")

Record = Callable[[Result], None]


class ResultWriter:
    """Append each result of a study to the database once, from any thread.

    Attributes:
        ids: the cells whose results this run has stored.
    """

    def __init__(self, database: ResultsDatabase, study: str, on_result: Record | None = None) -> None:
        self.database, self.study, self.on_result = database, study, on_result
        self.ids: set[str] = set()
        self._lock = threading.Lock()

    def __call__(self, result: Result) -> None:
        with self._lock:
            if result.cell.id in self.ids:
                return
            self.ids.add(result.cell.id)
            self.database.append(self.study, result)
            if self.on_result is not None:
                self.on_result(result)


class Inbox:
    """The folder `HOME/inbox`."""

    def __init__(self, home: Path) -> None:
        self.folder = home / "inbox"

    def write(self, result: Result, study: str, owner: str = "") -> None:
        """Write a result for the run called `owner` to collect."""
        content = to_json("result", {"study": study, "owner": owner, "result": result.to_dict()})
        # Not flushed to the disk: a power cut costs one cell, which the next run evaluates again.
        write_whole(self.folder / f"{result.cell.id}.json", content, flush=False)

    def collect(self, study: str, record: Record, accept: Callable[[str], bool] = lambda _owner: True) -> None:
        """Record and remove the results of a study whose owner is accepted."""
        for path in sorted(self.folder.glob("*.json")) if self.folder.is_dir() else ():
            try:
                values = json.loads(path.read_text(encoding="utf-8"))
                if values["study"] != study or not accept(str(values.get("owner", ""))):
                    continue
                result = Result.from_dict(values["result"])
            except (OSError, ValueError, KeyError, TypeError):
                continue  # collected by another process, or not a file of the inbox
            record(result)
            path.unlink(missing_ok=True)

    @contextmanager
    def watched(
        self, study: str, record: Record, accept: Callable[[str], bool] = lambda _owner: True
    ) -> Iterator[None]:
        """Collect results in a thread within a second, and the last ones at the end of the block."""
        lock, ended = threading.Lock(), threading.Event()
        failure: list[BaseException] = []

        def collect() -> None:
            with lock:
                self.collect(study, record, accept)

        def watch() -> None:
            while not ended.wait(PAUSE):
                try:
                    collect()
                except BaseException as error:  # noqa: BLE001 - raised at the end of the block
                    failure.append(error)
                    return

        watcher = threading.Thread(target=watch, name="inbox", daemon=True)
        watcher.start()
        try:
            yield
        finally:
            ended.set()
            watcher.join()
            if not failure:
                collect()
        if failure:
            raise failure[0]
        with suppress(OSError):
            self.folder.rmdir()


def capture_environment() -> dict[str, str]:
    """Return the versions of Python and of packages that can change a number, the platform, the CPU and its cores.

    In a source checkout the version of this package contains the commit: "0.1.0+1a2b3c4d5e6f-dirty".
    Nothing identifies a person or a machine. Packages that are not installed are missing.
    """
    return dict(_captured())


def installed_versions() -> dict[str, str]:
    """Return the versions of the installed packages that can change a number."""
    found = {}
    for package in PACKAGES:
        with suppress(PackageNotFoundError):
            found[package] = version(package)
    return found


@cache
def _captured() -> tuple[tuple[str, str], ...]:
    found = {"python": platform.python_version(), **installed_versions()}
    commit = _commit(Path(__file__).resolve().parents[3])
    if commit and "unseen" in found:
        found["unseen"] += f"+{commit}"
    found["platform"] = f"{platform.system()} {platform.release()} {platform.machine()}"
    found["cpu"] = _cpu_model()
    found["cpus"] = str(cores())
    return tuple(found.items())


def _commit(root: Path) -> str:
    """Return the commit of a source checkout, with "-dirty" if files differ from it; "" for an installed package."""
    # A folder named .git further up may belong to another project: a checkout of this one has its sources in src.
    if not (root / ".git").exists() or not (root / "src" / "unseen").is_dir():
        return ""
    command = ["git", "-C", str(root), "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]
    plain = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}  # set by hooks
    try:
        ran = subprocess.run(command, capture_output=True, text=True, check=True, timeout=10, env=plain)  # noqa: S603
        return ran.stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return ""


def _cpu_model() -> str:
    table = Path("/proc/cpuinfo")
    if table.is_file():
        for line in table.read_text(errors="replace").splitlines():
            key, _, value = line.partition(":")
            if key.strip() in ("model name", "Model") and value.strip():
                return value.strip()
    if sys.platform == "darwin":
        brand = subprocess.run(
            ["/usr/sbin/sysctl", "-n", "machdep.cpu.brand_string"], capture_output=True, text=True, check=False
        )
        if brand.stdout.strip():
            return brand.stdout.strip()
    return platform.processor() or platform.machine() or "unknown"
