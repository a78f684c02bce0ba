"""Run `unseen` in the background of a test, in a process that is forked from one that has imported everything.

An interpreter of its own needs 2 to 4 CPU seconds for torch and timm. The server that forks starts with the first
command of a test process, has no threads, and ends with the test process.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from dataclasses import dataclass
from multiprocessing.context import ForkServerContext, ForkServerProcess
from pathlib import Path


@dataclass(frozen=True)
class Ended:
    """Exit code and standard error of a command; the code is negative if a signal killed it."""

    code: int | None
    error: str


@dataclass(frozen=True, eq=False)
class Running:
    """A command in the background."""

    process: ForkServerProcess
    log: Path

    @property
    def is_running(self) -> bool:
        return self.process.is_alive()

    def send_signal(self, number: signal.Signals) -> None:
        assert self.process.pid is not None
        os.kill(self.process.pid, number)

    def wait(self, timeout: float = 300) -> Ended:
        """Wait for the end, or kill the command after some seconds."""
        self.process.join(timeout)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()
        return Ended(self.process.exitcode, self.log.read_text())


def start_unseen(folder: Path, *arguments: object) -> Running:
    """Start a command; `folder` receives its standard error."""
    context: ForkServerContext = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.preloaded", "tests.background"])
    log = folder / f"stderr-{len(list(folder.glob('stderr-*')))}.txt"
    log.touch()
    words = [str(each) for each in arguments]
    process = context.Process(target=_run, args=(words, str(log), dict(os.environ)))
    process.start()
    return Running(process, log)


def run_unseen(folder: Path, *arguments: object) -> Ended:
    """Run a command to its end."""
    return start_unseen(folder, *arguments).wait()


def _run(arguments: list[str], log: str, environment: dict[str, str]) -> None:
    os.environ.clear()
    os.environ.update(environment)
    # A suite that runs in the background ignores SIGINT, and its children would too.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for path, stream in ((os.devnull, 1), (log, 2)):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT), stream)
    sys.stdout, sys.stderr = open(1, "w", closefd=False), open(2, "w", closefd=False)  # noqa: SIM115

    from unseen.cli import main

    sys.exit(main(arguments))
