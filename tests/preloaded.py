"""What the server of `tests.background` imports before it forks."""

import os
from contextlib import suppress
from importlib import import_module

os.environ["ARROW_DEFAULT_MEMORY_POOL"] = "system"  # as for the readers of untrusted files

from unseen.core.extras import ensure_torchvision

ensure_torchvision()  # before timm

import timm  # noqa: E402, F401

import unseen.backbones.runtimes  # noqa: E402
import unseen.cli.run  # noqa: E402
import unseen.run.executor  # noqa: E402, F401

for name in ("scipy.io", "h5py", "pyarrow.parquet", "distributed"):
    with suppress(ImportError):
        import_module(name)
