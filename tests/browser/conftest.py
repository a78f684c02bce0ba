"""A Chromium that is there, driven by Playwright; tests skip, saying so, where there is none."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


@pytest.fixture(scope="session")
def made_up() -> ModuleType:
    """`made_up.py`: results to make pages of."""
    spec = spec_from_file_location("made_up", Path(__file__).parent / "made_up.py")
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    if CHROMIUM is None:
        pytest.skip("no Chromium to look at pages with (Debian: apt install chromium)")
    playwright = pytest.importorskip("playwright.sync_api", reason="no playwright (it is in the extra 'dev')")
    with playwright.sync_playwright() as driver:
        launched = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        yield launched
        launched.close()


@pytest.fixture
def visit(browser: Any) -> Iterator[Callable[..., Any]]:
    """Open a page when its charts are drawn; whatever its console or its scripts complain of fails the test."""
    contexts, complaints = [], []

    def go(path: Path, width: int = 1400, **options: Any) -> Any:
        context = browser.new_context(viewport={"width": width, "height": 900}, accept_downloads=True, **options)
        context.set_default_timeout(120_000)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: complaints.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda request: complaints.append(request.url) if request.url.startswith("http") else None)
        page.goto(path.as_uri())
        page.wait_for_selector("html[data-ready=yes]")
        return page

    yield go
    for context in contexts:
        context.close()
    assert complaints == []
