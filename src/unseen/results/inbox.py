"""Results on their way from workers to the one writer of the database: a folder of small files.

A worker leaves each result as a file of its own, whole or not at all, as soon as it is known; the process that runs the
study collects them. It works wherever workers share the home folder, on any engine. A worker that is killed has left
what it finished, and what a killed collector did not collect is found by the next run.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from unseen.core.files import write_whole
from unseen.core.records import Result
from unseen.results.shared import to_json

#: Seconds between two looks into the folder.
PAUSE = 0.5


class Inbox:
    """The folder `HOME/inbox`."""

    def __init__(self, home: Path) -> None:
        self.folder = home / "inbox"

    def drop(self, study: str) -> Callable[[Result], None]:
        """What a worker calls with each result."""

        def leave(result: Result) -> None:
            content = to_json("result", {"study": study, "result": result.to_dict()})
            write_whole(self.folder / f"{result.cell.id}.json", content)

        return leave

    def collect(self, study: str, file: Callable[[Result], None]) -> None:
        """File what lies there for a study, and remove it."""
        for path in sorted(self.folder.glob("*.json")) if self.folder.is_dir() else ():
            try:
                values = json.loads(path.read_text(encoding="utf-8"))
                if values["study"] != study:
                    continue
                result = Result.from_dict(values["result"])
            except (OSError, ValueError, KeyError, TypeError):
                continue  # another process has taken it, or it is no file of ours
            file(result)
            path.unlink(missing_ok=True)

    @contextmanager
    def collected(self, study: str, file: Callable[[Result], None]) -> Iterator[None]:
        """While in force, what workers leave is filed within a second."""
        lock, ended = threading.Lock(), threading.Event()
        failure: list[BaseException] = []

        def look() -> None:
            with lock:
                self.collect(study, file)

        def keep_looking() -> None:
            while not ended.wait(PAUSE):
                try:
                    look()
                except BaseException as error:  # noqa: BLE001 - told by the thread that waits for the work
                    failure.append(error)
                    return

        watcher = threading.Thread(target=keep_looking, name="inbox", daemon=True)
        watcher.start()
        try:
            yield
        finally:
            ended.set()
            watcher.join()
            if not failure:
                look()
        if failure:
            raise failure[0]
        with suppress(OSError):
            self.folder.rmdir()
