"""Assertions of the contract suites, which also work under `python -O`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from unseen.core.errors import UnseenError
from unseen.core.records import MethodCard
from unseen.core.source import Source


def claim(holds: bool, otherwise: str) -> None:
    """Raise an `AssertionError` with the message `otherwise` unless the condition holds."""
    if not holds:
        raise AssertionError(otherwise)


def refuses(what: str, call: Callable[[], object]) -> str:
    """Return the message of the `UnseenError` that `call` raises; any other outcome breaks the contract."""
    try:
        call()
    except UnseenError as error:
        claim(bool(str(error).strip()), f"{what}: {type(error).__name__} without a message")
        return str(error)
    except Exception as error:
        raise AssertionError(f"{what}: {type(error).__name__} was raised, not an UnseenError: {error}") from error
    raise AssertionError(f"{what} was accepted; an UnseenError is expected")


def check_cards(source: Source[Any], kind: type, card_type: type[MethodCard], scheme: str) -> None:
    """Check the class, the pattern and the cards of a source: their ids are unique and have its scheme."""
    claim(isinstance(source, kind), f"{source!r} is no {kind.__name__}")
    cards = list(source.cards())
    strange = [card for card in cards if not isinstance(card, card_type)]
    claim(not strange, f"cards() yields something that is no {card_type.__name__}")
    pattern = source.pattern
    claim(not pattern or pattern.startswith(f"{scheme}:"), f"the pattern {pattern!r} is not {scheme}:...")
    claim(source.listed or bool(pattern) or bool(cards), "the source lists nothing: give a pattern, or cards")
    found = [card.id for card in cards]
    twice = sorted({each for each in found if found.count(each) > 1}) if len(set(found)) < len(found) else []
    claim(not twice, f"cards share the ids {twice}")
    others = [each for each in found if each.partition(":")[0].partition("?")[0] != scheme]
    claim(not others, f"cards of {scheme!r} have ids of another scheme: {others[:3]}")
