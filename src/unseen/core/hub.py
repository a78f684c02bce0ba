"""The Hugging Face hub: what is in its cache, whether it can be reached, and one line where neither helps.

Its client tries again and again where there is no network. Here one short look comes first, so that whoever is offline
is told so at once, with what the cache holds.
"""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

from unseen.core.errors import BackboneError, DataError

_SECONDS = 5.0


def check_available(
    repository: str, file: str = "config.json", *, revision: str | None = None, what: str = "", kind: str = "model"
) -> None:
    """Raise where a repository is neither in the cache nor to be had from the hub.

    Args:
        repository: ORG/NAME.
        file: one that it must hold; "" for any.
        revision: of it.
        what: how the user wrote it.
        kind: "model" or "dataset".
    """
    known = cached_repositories(kind)
    there = repository in known if not file else cached_file(repository, file, revision) is not None
    if there or reachable():
        return
    shown = ", ".join(known[:6]) + (", ..." if len(known) > 6 else "") if known else "nothing"
    error = BackboneError if kind == "model" else DataError
    raise error(
        f"{what or repository} is not in the cache, and {_endpoint()} cannot be reached. In the cache: {shown}."
    )


def cached_file(repository: str, file: str, revision: str | None = None) -> Path | None:
    """A file of a repository, if it was downloaded before."""
    from huggingface_hub import try_to_load_from_cache

    found = try_to_load_from_cache(repository, file, revision=revision)
    return Path(found) if isinstance(found, str) else None


def cached_repositories(kind: str = "model") -> list[str]:
    """Names of the repositories in the cache."""
    from huggingface_hub import constants

    begin = f"{kind}s--"
    return sorted(f.name.removeprefix(begin).replace("--", "/") for f in Path(constants.HF_HUB_CACHE).glob(f"{begin}*"))


@cache
def reachable() -> bool:
    """Whether the hub answers, asked once per process; offline by the environment's own word counts."""
    from urllib.error import HTTPError, URLError
    from urllib.request import urlopen

    if any(os.environ.get(name, "").lower() in ("1", "true", "yes", "on") for name in _OFFLINE):
        return False
    try:
        with urlopen(_endpoint(), timeout=_SECONDS):  # noqa: S310 - the hub's own address
            return True
    except HTTPError:
        return True  # it answered
    except (URLError, OSError, ValueError):
        return False


_OFFLINE = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")


def _endpoint() -> str:
    return os.environ.get("HF_ENDPOINT", "https://huggingface.co")
