"""Run `unseen` or a function in the background of a test, forked from a process that has imported everything.

An interpreter of its own needs 2 to 4 CPU seconds for torch and timm. The server that forks starts with the first
command of a test process, has no threads, and ends with the test process.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext, ForkServerProcess
from pathlib import Path
from typing import Any


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


@dataclass(frozen=True, eq=False)
class Calling:
    """A function in the background."""

    process: ForkServerProcess
    answer: Connection

    def result(self, timeout: float = 300) -> Any:
        """Return what the function returned; raise what it raised, with its traceback as text."""
        try:
            assert self.answer.poll(timeout), f"no answer within {timeout:g} seconds"
            succeeded, found = self.answer.recv()
        except EOFError:
            self.process.join()
            raise AssertionError(f"the process ended with exit code {self.process.exitcode}") from None
        finally:
            self.process.kill()
            self.process.join()
        assert succeeded, found
        return found


def start_unseen(folder: Path, *arguments: object) -> Running:
    """Start a command; `folder` receives its standard error."""
    log = folder / f"stderr-{len(list(folder.glob('stderr-*')))}.txt"
    log.touch()
    words = [str(each) for each in arguments]
    return Running(_start(_run, words, str(log), dict(os.environ)), log)


def start_call(function: Callable[..., object], *arguments: object) -> Calling:
    """Start a function of a module with arguments that can be pickled."""
    answer, sent = multiprocessing.Pipe(duplex=False)
    process = _start(_call, function, arguments, sent, dict(os.environ))
    sent.close()
    return Calling(process, answer)


def call(function: Callable[..., object], *arguments: object) -> Any:
    """Return what a function returns in a process of its own."""
    return start_call(function, *arguments).result()


def _start(target: Callable[..., None], *arguments: object) -> ForkServerProcess:
    context: ForkServerContext = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.preloaded", "tests.background"])
    process = context.Process(target=target, args=arguments)
    process.start()
    return process


def run_unseen(folder: Path, *arguments: object) -> Ended:
    """Run a command to its end."""
    return start_unseen(folder, *arguments).wait()


def _prepare(environment: dict[str, str]) -> None:
    os.environ.clear()
    os.environ.update(environment)
    # A suite that runs in the background ignores SIGINT, and its children would too.
    signal.signal(signal.SIGINT, signal.default_int_handler)


def _call(
    function: Callable[..., object], arguments: tuple[object, ...], answer: Connection, environment: dict[str, str]
) -> None:
    _prepare(environment)
    try:
        answer.send((True, function(*arguments)))
    except BaseException:  # noqa: BLE001 - the test raises it
        answer.send((False, traceback.format_exc()))


def _run(arguments: list[str], log: str, environment: dict[str, str]) -> None:
    _prepare(environment)
    for path, stream in ((os.devnull, 1), (log, 2)):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT), stream)
    sys.stdout, sys.stderr = open(1, "w", closefd=False), open(2, "w", closefd=False)  # noqa: SIM115

    from unseen.cli import main

    sys.exit(main(arguments))
