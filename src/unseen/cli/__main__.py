"""`python -m unseen.cli`."""

from unseen.cli import run

run()
