"""`python -m unseen`."""

from unseen.cli import run

run()
