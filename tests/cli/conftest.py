"""Commands in the tests print to a pipe of no stated width, whatever terminal the tests are started from."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def no_width(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
