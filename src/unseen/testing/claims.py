"""How a contract is claimed: `assert` would vanish under `python -O`, and says little."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from unseen.core.errors import UnseenError


def claim(holds: bool, otherwise: str) -> None:
    """Raise an `AssertionError` with the words `otherwise` unless it holds."""
    if not holds:
        raise AssertionError(otherwise)


def refuses(what: str, call: Callable[[], Any]) -> str:
    """The message with which `call` refuses; anything but an `UnseenError` breaks the contract."""
    try:
        call()
    except UnseenError as error:
        claim(bool(str(error).strip()), f"{what}: {type(error).__name__} without a word")
        return str(error)
    except Exception as error:
        raise AssertionError(f"{what}: {type(error).__name__} was raised, not an UnseenError: {error}") from error
    raise AssertionError(f"{what} was accepted; an UnseenError should say what is wrong")


def check_ids(ids: Iterable[str], scheme: str) -> None:
    """Ids of cards: each once, all of one scheme."""
    found = list(ids)
    twice = sorted({each for each in found if found.count(each) > 1}) if len(set(found)) < len(found) else []
    claim(not twice, f"cards share the ids {twice}")
    others = [each for each in found if each.partition(":")[0].partition("?")[0] != scheme]
    claim(not others, f"cards of {scheme!r} have ids of another scheme: {others[:3]}")
