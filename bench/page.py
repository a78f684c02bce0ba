"""Pages in a browser: size, time to the first chart, time to open and to filter, of 105 and of 10,000 results.

    python bench/page.py [PAGE.html ...]

Without pages, two are made of made-up results (tests/browser/made_up.py). Times are the browser's own, of one Chromium
on this machine: to the first chart from the start of the load, of the filter from the key to the last chart redrawn.
Beside them stands the CPU time of the page's main thread, which other jobs on the machine do not lengthen much.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

from tables import Table

MODELS = 31

_FILTER = """async (word) => {
  const began = performance.now();
  const input = document.getElementById("filter");
  if (!input) return 0;
  input.value = word;
  input.dispatchEvent(new Event("input"));
  await new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve, 0)));
  return performance.now() - began;
}"""
_FIND = """async (word) => {
  const began = performance.now();
  document.getElementById("cell-list").open = true;
  const input = document.getElementById("find");
  while (!document.getElementById("found").textContent) await new Promise((resolve) => setTimeout(resolve, 5));
  const opened = performance.now();
  input.value = word;
  input.dispatchEvent(new Event("input"));
  await new Promise((resolve) => setTimeout(resolve, 0));
  return [opened - began, performance.now() - opened, document.getElementById("found").textContent];
}"""


def made_up() -> Any:
    path = Path(__file__).parent.parent / "tests" / "browser" / "made_up.py"
    spec = spec_from_file_location("made_up", path)
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def pages(folder: Path) -> list[Path]:
    from unseen.study import write_report

    source, found = made_up(), []
    models = [f"cog:model-{n:02d}" for n in range(MODELS)]
    large = source.cog(models, shots=(1, 2, 4, 8, 16, 32, 64, 128, "all"), seeds=9)[:9_500]
    large += source.zero_shot(models) + source.tasks(models)
    for name, results in (("small", source.everything()), ("large", large[:10_000])):
        began = time.process_time()
        path = write_report(results, folder / f"{name}.html", title=f"{len(results):,} results")
        print(f"{name}: {len(results):,} results, made in {time.process_time() - began:.1f} s of CPU time")
        found.append(path)
    return found


def measure(browser: Any, path: Path, table: Table) -> None:
    page = browser.new_page(viewport={"width": 1400, "height": 900})
    page.set_default_timeout(600_000)
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})
    clock = [0.0]

    def cpu() -> str:
        """CPU seconds of the page's main thread since the last call."""
        found = {each["name"]: each["value"] for each in session.send("Performance.getMetrics")["metrics"]}
        clock.append(found["TaskDuration"])
        return f"{clock[-1] - clock[-2]:.2f}"

    page.goto(path.as_uri(), wait_until="commit")
    page.wait_for_selector("html[data-first]")
    to_first = cpu()
    page.wait_for_selector("html[data-ready=yes]")
    to_ready = cpu()
    loaded = page.evaluate("performance.getEntriesByType('navigation')[0].domContentLoadedEventEnd")
    first = page.evaluate("Number(document.documentElement.dataset.first)")
    filtered = page.evaluate(_FILTER, "1")
    to_filter = cpu()
    opened, found, told = page.evaluate(_FIND, "seed 1")
    to_find = cpu()
    print(
        f"{path.name}: {path.stat().st_size / 1e6:.2f} MB; open after {loaded / 1000:.2f} s, first chart after "
        f"{first / 1000:.2f} s (CPU {to_first} s; all other charts {to_ready} s); models filtered in "
        f"{filtered / 1000:.2f} s (CPU {to_filter} s); cells unpacked and listed in {opened / 1000:.2f} s, searched in "
        f"{found / 1000:.2f} s (CPU {to_find} s; {told})"
    )
    page.close()
    times = [f"{each / 1000:.2f} s" for each in (loaded, first, filtered, opened, found)]
    table.add(told.split(" of ")[1].split()[0], f"{path.stat().st_size / 1e6:.2f} MB", *times)


def main() -> None:
    from playwright.sync_api import sync_playwright

    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        chosen = [Path(name).resolve() for name in sys.argv[1:]] or pages(Path(folder))
        if chromium is None:
            print("no Chromium to open them with")
            return
        table = Table("results", "size", "open", "first chart", "models filtered", "cells listed", "cells searched")
        browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        for path in chosen:
            measure(browser, path, table)
        browser.close()
        table.show()


if __name__ == "__main__":
    main()
