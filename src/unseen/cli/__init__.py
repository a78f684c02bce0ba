"""The command line: one file per command, each of which parses, calls and prints.

`main` is the console entry point. It turns every `UnseenError` into one line on standard error and its exit code.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    import typer

    from unseen.cli.application import application
    from unseen.core.errors import UnseenError

    try:
        given = sys.argv[1:] if arguments is None else list(arguments)
        code = application(args=spread_lists(given), prog_name="unseen", standalone_mode=False)
    except UnseenError as error:
        return _fail(str(error), error.exit_code)
    except typer.Abort:
        return _fail("interrupted; what was finished is kept, run the same command to go on", 130)
    except Exception as error:
        # Typer vendors its parser: a usage error is known by what it can do, not by a public class.
        show, exit_code = getattr(error, "show", None), getattr(error, "exit_code", None)
        if show is None or exit_code is None:
            raise
        show()
        return int(exit_code)
    return int(code or 0)


#: Options that take several values behind one another: `--models a b c`.
LISTS = ("--models", "--methods", "--tasks")


def spread_lists(arguments: Sequence[str]) -> list[str]:
    """`--models a b` written as `--models a --models b`, which is how the parser wants it."""
    spread: list[str] = []
    current = ""
    for argument in arguments:
        if argument.startswith("-"):
            current = argument if argument in LISTS else ""
        elif current and spread and spread[-1] != current:
            spread.append(current)
        spread.append(argument)
    return spread


def _fail(message: str, code: int) -> int:
    sys.stderr.write(f"unseen: error: {' '.join(message.split())}\n")
    return code


def run() -> None:
    """Console script: `main`, then leave the process with its code."""
    sys.exit(main())
