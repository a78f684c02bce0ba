"""Messages of unknown names."""

from __future__ import annotations

from unseen.core.errors import UnknownNameError, first_line


def test_a_name_that_looks_like_none_is_told_what_there_is() -> None:
    known = [f"{letter}{letter}{letter}" for letter in "hgfedcba"]
    found = UnknownNameError("model", "zzz-999", known)
    assert str(found) == "unknown model 'zzz-999'. Known: aaa, bbb, ccc, ddd, eee, fff, ggg, hhh."
    assert (found.suggestions, found.kind, found.name) == ((), "model", "zzz-999")
    more = UnknownNameError("model", "zzz-999", [*known, "iii"], hint="Ask.")
    assert str(more) == "unknown model 'zzz-999'. Known: aaa, bbb, ccc, ddd, eee, fff, ggg, hhh, .... Ask."
    assert str(UnknownNameError("model", "x", [])) == "unknown model 'x'."


def test_of_a_long_story_the_first_line_is_told() -> None:
    assert first_line(ValueError("\n first\nsecond\n")) == "first"
    assert first_line(ValueError(" \n")) == first_line(ValueError()) == "ValueError"
