"""Which accelerator a process may see: one each, told by `CUDA_VISIBLE_DEVICES` before anything asks CUDA.

Processes that see all of them would all take the first.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

VARIABLE = "CUDA_VISIBLE_DEVICES"
_DRIVER = Path("/proc/driver/nvidia/gpus")

#: Locks of devices that this process has taken; they are held until it ends.
_HELD: list[object] = []


def devices() -> list[str]:
    """The CUDA devices that this process may use, by number or id; asks neither torch nor the driver's library."""
    named = os.environ.get(VARIABLE)
    if named is not None:
        return [name.strip() for name in named.split(",") if name.strip() and name.strip() != "-1"]
    return [str(i) for i in range(len(list(_DRIVER.iterdir())))] if _DRIVER.is_dir() else []


def environment(number: int, count: int, found: list[str] | None = None) -> dict[str, str]:
    """What process `number` of `count` on this machine is given: its device, and its share of the cores."""
    found = devices() if found is None else found
    given = {VARIABLE: found[number % len(found)]} if len(found) > 1 else {}
    return {**given, "OMP_NUM_THREADS": str(threads_each(count))}


def threads_each(count: int) -> int:
    """Threads of each of `count` processes: together they take every core once, or what the user allows them."""
    limit = os.environ.get("OMP_NUM_THREADS", "")
    share = max(cores() // max(count, 1), 1)
    return min(share, int(limit)) if limit.isdigit() and int(limit) else share


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def take_device(folder: Path | None = None, find: Callable[[], list[str]] = devices) -> str | None:
    """Take a device of this machine that no other worker process has, and let this process see that one only.

    A process that sees one device keeps it. Where all are taken, processes go round.

    Returns:
        The device; None where there is nothing to choose.
    """
    from filelock import FileLock, Timeout

    found = find()
    if len(found) < 2:
        return found[0] if found else None
    folder = folder or Path(tempfile.gettempdir()) / f"unseen-devices-{os.getuid() if hasattr(os, 'getuid') else 0}"
    folder.mkdir(mode=0o700, exist_ok=True)
    for turn in range(16):
        for name in found:
            lock = FileLock(folder / f"{turn}-{name.replace('/', '_')}.lock", thread_local=False)
            with suppress(Timeout):
                lock.acquire(timeout=0)
                _HELD.append(lock)
                os.environ[VARIABLE] = name
                return name
    os.environ[VARIABLE] = found[os.getpid() % len(found)]
    return os.environ[VARIABLE]
