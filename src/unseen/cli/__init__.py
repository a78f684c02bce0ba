"""The command line: one module per command; `application` lists them.

`main` is the console entry point. It prints an `UnseenError` as one line on standard error and returns its exit code.
"""

from __future__ import annotations

import contextlib
import signal
import sys
import warnings
from collections.abc import Iterator, Sequence
from types import FrameType
from typing import Any

import typer

from unseen.core.errors import StoreWarning, UnseenError

_INTERRUPTED = 130
_TERMINATED = 143
_HINT = "finished work is stored, run the same command to resume"


class _Terminated(BaseException):
    """The process received SIGTERM."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    from unseen.cli.application import application  # imports this package

    try:
        with _sigterm_raises(), _warnings_as_lines():
            code = application(
                args=sys.argv[1:] if arguments is None else list(arguments), prog_name="unseen", standalone_mode=False
            )
    except UnseenError as error:
        return _fail(str(error), error.exit_code)
    except (KeyboardInterrupt, typer.Abort):
        code = _INTERRUPTED
    except _Terminated:
        return _fail(f"terminated; {_HINT}", _TERMINATED)
    except Exception as error:
        # Typer vendors its parser, so its usage errors have no public class.
        if not hasattr(error, "format_message") or not hasattr(error, "exit_code"):
            raise
        if type(error).__name__ == "NoArgsIsHelpError" and hasattr(error, "show"):
            error.show()
            return int(error.exit_code)
        where = getattr(getattr(error, "ctx", None), "command_path", "unseen")
        return _fail(f"{error.format_message()} See: {where} --help", int(error.exit_code))
    if code == _INTERRUPTED:  # Typer returns this code after it has caught the interruption itself
        return _fail(f"interrupted; {_HINT}", _INTERRUPTED)
    return int(code or 0)


@contextlib.contextmanager
def _warnings_as_lines() -> Iterator[None]:
    """Print warnings of the stores as lines on standard error, each of them."""

    def show(message: Warning | str, category: type[Warning], *place: Any, **more: Any) -> None:
        if issubclass(category, StoreWarning):
            _print_line("warning", str(message))
        else:
            before(message, category, *place, **more)

    with warnings.catch_warnings():
        warnings.simplefilter("always", StoreWarning)
        before, warnings.showwarning = warnings.showwarning, show
        yield


@contextlib.contextmanager
def _sigterm_raises() -> Iterator[None]:
    """Raise an exception on SIGTERM, so that files are closed and locks are released."""

    def end(_number: int, _frame: FrameType | None) -> None:
        raise _Terminated

    try:
        before = signal.signal(signal.SIGTERM, end)
    except ValueError:  # only the main thread can set handlers
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _fail(message: str, code: int) -> int:
    _print_line("error", message)
    return code


def _print_line(kind: str, message: str) -> None:
    from unseen.cli.tables import printable

    sys.stderr.write(f"unseen: {kind}: {printable(' '.join(message.split()))}\n")


def run() -> None:
    """Run `main` and exit with its code."""
    sys.exit(main())
