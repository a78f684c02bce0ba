"""Plug-ins for pytest: name the running test in coverage data, and end the process if a test takes too long.

Coverage's own `dynamic_context = test_function` takes the outermost function whose name begins with "test", which of
every test of hypothesis is one of hypothesis itself.
"""

from __future__ import annotations

import signal
from collections.abc import Generator, Mapping

import pytest

import coverage


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


class Deadline:
    """Ends the process by SIGALRM where a test takes far longer than it did.

    Args:
        durations: seconds of each test function, with all its parameters.
        times: how often that.
        grace: and how many seconds more.
    """

    def __init__(self, durations: Mapping[str, float], *, times: float, grace: float) -> None:
        self._limits = {name: times * seconds + grace for name, seconds in durations.items()}
        signal.signal(signal.SIGALRM, signal.SIG_DFL)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """The clock runs while the test does."""
        signal.setitimer(signal.ITIMER_REAL, self._limits.get(item.nodeid.partition("[")[0], 0.0))
        try:
            return (yield)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0.0)
