"""The command line: one module per command; `application` lists them.

`main` is the console entry point. It prints an `UnseenError` as one line on standard error and returns its exit code.
"""

from unseen.cli.application import main as main
from unseen.cli.application import run as run
