"""A plug-in for pytest that tells coverage which test runs.

Coverage's own `dynamic_context = test_function` takes the outermost function whose name begins with "test", which of
every test of hypothesis is one of hypothesis itself.
"""

from __future__ import annotations

from collections.abc import Generator

import coverage
import pytest


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """What runs from here on, fixtures among it, runs for this test function."""
    current = coverage.Coverage.current()
    assert current is not None, "pytest must run under coverage"
    current.switch_context(item.nodeid.partition("[")[0])
    try:
        return (yield)
    finally:
        current.switch_context("")
