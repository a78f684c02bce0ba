"""The command line: one module per command, each of which parses, calls and prints.

`main` is the console entry point. It turns every `UnseenError` into one line on standard error and its exit code.
"""

from __future__ import annotations

import contextlib
import signal
import sys
from collections.abc import Iterator, Sequence
from types import FrameType
from typing import Any

_INTERRUPTED = 130
_TERMINATED = 143
_HINT = "what was finished is kept, run the same command to go on"


class _Terminated(BaseException):
    """The process was asked to end (SIGTERM)."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    import typer

    from unseen.cli.application import application
    from unseen.core.errors import UnseenError

    given = sys.argv[1:] if arguments is None else list(arguments)
    try:
        with _ended_by_signal(), _warnings_as_lines():
            code = application(args=given, prog_name="unseen", standalone_mode=False)
    except UnseenError as error:
        return _fail(str(error), error.exit_code)
    except (KeyboardInterrupt, typer.Abort):
        code = _INTERRUPTED
    except _Terminated:
        return _fail(f"terminated; {_HINT}", _TERMINATED)
    except Exception as error:
        # Typer vendors its parser: a usage error is known by what it can do, not by a public class.
        if not hasattr(error, "format_message") or not hasattr(error, "exit_code"):
            raise
        if type(error).__name__ == "NoArgsIsHelpError":
            error.show()  # type: ignore[attr-defined]
            return int(error.exit_code)
        where = getattr(getattr(error, "ctx", None), "command_path", "unseen")
        return _fail(f"{error.format_message()} See: {where} --help", int(error.exit_code))
    if code == _INTERRUPTED:  # Typer gives this code where it has caught the interruption itself
        return _fail(f"interrupted; {_HINT}", _INTERRUPTED)
    return int(code or 0)


@contextlib.contextmanager
def _warnings_as_lines() -> Iterator[None]:
    """While in force, our own warnings are lines on standard error; each is shown."""
    import warnings

    from unseen.core.errors import StoreWarning

    def show(message: Warning | str, category: type[Warning], *place: Any, **more: Any) -> None:
        if issubclass(category, StoreWarning):
            from unseen.cli.tables import printable

            sys.stderr.write(f"unseen: warning: {printable(' '.join(str(message).split()))}\n")
        else:
            before(message, category, *place, **more)

    with warnings.catch_warnings():
        warnings.simplefilter("always", StoreWarning)
        before, warnings.showwarning = warnings.showwarning, show
        yield


@contextlib.contextmanager
def _ended_by_signal() -> Iterator[None]:
    """While in force, SIGTERM ends the work like an exception: files are closed, locks are given back."""

    def end(_number: int, _frame: FrameType | None) -> None:
        raise _Terminated

    try:
        before = signal.signal(signal.SIGTERM, end)
    except ValueError:  # not the main thread: signals are somebody else's
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _fail(message: str, code: int) -> int:
    from unseen.cli.tables import printable

    sys.stderr.write(f"unseen: error: {printable(' '.join(message.split()))}\n")
    return code


def run() -> None:
    """Console script: `main`, then leave the process with its code."""
    sys.exit(main())
