"""What the server of `tests.background` imports before it forks."""

from unseen.core.extras import ensure_torchvision

ensure_torchvision()  # before timm

import timm  # noqa: E402, F401

import unseen.backbones.runtimes  # noqa: E402
import unseen.cli.run  # noqa: E402
import unseen.run.executor  # noqa: E402, F401
