"""Assertions of the contract suites, which also work under `python -O`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from unseen.core.errors import UnseenError
from unseen.core.names import Name
from unseen.core.records import MethodCard
from unseen.core.registry import Source

N = TypeVar("N", bound=Name)


def claim(holds: bool, otherwise: str) -> None:
    """Raise an `AssertionError` with the message `otherwise` unless the condition holds."""
    if not holds:
        raise AssertionError(otherwise)


def refuses(what: str, call: Callable[[], object], expected: type[Exception] = UnseenError) -> str:
    """Return the message of the error that `call` raises; any other outcome breaks the contract."""
    name = f"an {expected.__name__}" if expected is UnseenError else expected.__name__
    try:
        call()
    except expected as error:
        claim(bool(str(error).strip()), f"{what}: {type(error).__name__} without a message")
        return str(error)
    except Exception as error:
        raise AssertionError(f"{what}: {type(error).__name__} was raised, not {name}: {error}") from error
    raise AssertionError(f"{what} was accepted; {name} is expected")


def refuses_variants(name: N, load: Callable[[N], object]) -> None:
    """Check that an unknown option and an unknown name raise an `UnseenError`."""
    kind = type(name)
    for wrong in (
        kind(name.scheme, name.rest, {**name.options, "no-such-option": "1"}),
        kind(name.scheme, f"{name.rest}-no-such-name", name.options),
    ):
        refuses(str(wrong), partial(load, wrong))


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
