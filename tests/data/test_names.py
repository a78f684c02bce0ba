"""The options of a dataset's name."""

from __future__ import annotations

import pytest

from unseen.core.errors import UsageError
from unseen.data.names import Options


def test_options_are_typed_and_complete() -> None:
    options = Options("x:y", {"n": "3", "share": "0.5", "kind": "b", "colour": "red"})
    assert options.integer("n") == 3
    assert options.fraction("share") == 0.5
    assert options.choice("kind", ("a", "b")) == "b"
    assert options.choice("other", ("a", "b")) == "a"
    assert options.text("color") is None
    with pytest.raises(UsageError, match=r"'x:y' has no option 'colour'. Did you mean 'color'"):
        options.finish()


@pytest.mark.parametrize(
    ("value", "read"),
    [
        ("x", lambda o: o.integer("k")),
        ("-1", lambda o: o.integer("k")),
        ("0", lambda o: o.integer("k", at_least=1)),
        ("1", lambda o: o.fraction("k")),
        ("nan", lambda o: o.fraction("k")),
        ("c", lambda o: o.choice("k", ("a", "b"))),
    ],
)
def test_bad_values_are_named(value: str, read) -> None:
    with pytest.raises(UsageError, match=f"option k='{value}' should be"):
        read(Options("x:y", {"k": value}))
