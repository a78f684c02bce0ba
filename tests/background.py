"""Run `unseen`, a script or a function in the background of a test, forked from a process that imported everything.

An interpreter of its own needs 2 to 4 CPU seconds for torch and timm. The server that forks starts with the first
command of a test process, has no threads, and ends with the test process.
"""

from __future__ import annotations

import multiprocessing
import os
import runpy
import signal
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing import forkserver
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

from unseen.core import isolate
from unseen.run import executor

_ENVIRONMENT = executor.environment


@dataclass(frozen=True)
class Ended:
    """Exit code and standard error of a command, output of a script; the code is negative if a signal killed it."""

    code: int | None
    error: str
    output: str = ""


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
        output = self.log.with_suffix(".out")
        return Ended(self.process.exitcode, self.log.read_text(), output.read_text() if output.exists() else "")


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
    return start_main(folder, _unseen, *arguments)


def run_unseen(folder: Path, *arguments: object) -> Ended:
    """Run a command to its end."""
    return start_unseen(folder, *arguments).wait()


def start_script(folder: Path, script: Path, *arguments: object) -> Running:
    """Start a script of Python; `folder` receives its output and standard error."""
    return start_main(folder, _script, script, *arguments)


def start_main(folder: Path, main: Callable[[list[str]], object], *arguments: object) -> Running:
    """Start a function of a list of words that returns an exit code; `folder` receives its output."""
    log = folder / f"stderr-{len(list(folder.glob('stderr-*.txt')))}.txt"
    log.touch()
    words = [str(each) for each in arguments]
    return Running(_start(_run, main, words, str(log), dict(os.environ)), log)


def start_call(function: Callable[..., object], *arguments: object) -> Calling:
    """Start a function of a module with arguments that can be pickled."""
    answer, sent = multiprocessing.Pipe(duplex=False)
    process = _start(_call, function, arguments, sent, dict(os.environ))
    sent.close()
    return Calling(process, answer)


def call(function: Callable[..., object], *arguments: object) -> Any:
    """Return what a function returns in a process of its own."""
    return start_call(function, *arguments).result()


def fork_processes() -> None:
    """Fork workers of engines and readers of untrusted files, too; for a user they are new interpreters."""
    executor._CONTEXT = multiprocessing.get_context("forkserver")
    os.environ["DASK_DISTRIBUTED__WORKER__MULTIPROCESSING_METHOD"] = "forkserver"
    forkserver.set_forkserver_preload(["tests.preloaded", "tests.background"])
    forkserver.set_forkserver_preload = lambda _names: None  # Dask would replace the list
    executor.environment = lambda *of: {**os.environ, **_ENVIRONMENT(*of)}
    isolate._START = _fork_trial


def _fork_trial(trial: isolate.Trial) -> tuple[int, str]:
    running = start_call(_read_quietly, trial)
    try:
        if not running.answer.poll(60 + 20 * trial.cpu):
            return -signal.SIGTERM, ""
        succeeded, found = running.answer.recv()
        return found if succeeded else (1, "")
    except EOFError:
        running.process.join()
        return running.process.exitcode or 0, ""
    finally:
        running.process.kill()
        running.process.join()


def _read_quietly(trial: isolate.Trial) -> tuple[int, str]:
    for stream in (1, 2):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream)
    return isolate.call(trial)


def _start(target: Callable[..., None], *arguments: object) -> ForkServerProcess:
    process = multiprocessing.get_context("forkserver").Process(target=target, args=arguments)
    process.start()
    return process


def _prepare(environment: dict[str, str]) -> None:
    os.environ.clear()
    os.environ.update(environment)
    os.setsid()
    # A suite that runs in the background ignores SIGINT, and its children would too.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    forkserver._forkserver.ensure_running = lambda: None  # the server of the test forks for this process, too
    fork_processes()


def _call(
    function: Callable[..., object], arguments: tuple[object, ...], answer: Connection, environment: dict[str, str]
) -> None:
    _prepare(environment)
    try:
        answer.send((True, function(*arguments)))
    except BaseException:  # noqa: BLE001 - the test raises it
        answer.send((False, traceback.format_exc()))


def _run(main: Callable[[list[str]], object], arguments: list[str], log: str, environment: dict[str, str]) -> None:
    _prepare(environment)
    for path, stream in ((Path(log).with_suffix(".out"), 1), (log, 2)):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND), stream)
    sys.stdout, sys.stderr = open(1, "w", closefd=False), open(2, "w", closefd=False)  # noqa: SIM115
    sys.exit(main(arguments))


def _unseen(arguments: list[str]) -> int:
    from unseen.cli import main

    return main(arguments)


def _script(arguments: list[str]) -> None:
    sys.argv = arguments
    sys.path.insert(0, str(Path(arguments[0]).parent))
    runpy.run_path(arguments[0], run_name="__main__")
