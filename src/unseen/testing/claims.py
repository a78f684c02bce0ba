"""Assertions of the contract suites, which also work under `python -O`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from unseen.core.errors import UnseenError


def claim(holds: bool, otherwise: str) -> None:
    """Raise an `AssertionError` with the message `otherwise` unless the condition holds."""
    if not holds:
        raise AssertionError(otherwise)


def refuses(what: str, call: Callable[[], Any]) -> str:
    """Return the message of the `UnseenError` that `call` raises; any other outcome breaks the contract."""
    try:
        call()
    except UnseenError as error:
        claim(bool(str(error).strip()), f"{what}: {type(error).__name__} without a word")
        return str(error)
    except Exception as error:
        raise AssertionError(f"{what}: {type(error).__name__} was raised, not an UnseenError: {error}") from error
    raise AssertionError(f"{what} was accepted; an UnseenError should say what is wrong")


def check_ids(ids: Iterable[str], scheme: str) -> None:
    """Check that ids of cards are unique and have the same scheme."""
    found = list(ids)
    twice = sorted({each for each in found if found.count(each) > 1}) if len(set(found)) < len(found) else []
    claim(not twice, f"cards share the ids {twice}")
    others = [each for each in found if each.partition(":")[0].partition("?")[0] != scheme]
    claim(not others, f"cards of {scheme!r} have ids of another scheme: {others[:3]}")
