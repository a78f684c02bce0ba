"""Small pictures of pages for README and docs: `python tools/pictures.py PAGE.html TARGET.png [WIDTH [HEIGHT]]`.

The first HEIGHT pixels of the page in a Chromium of that WIDTH, light, made smaller and of few colours: under 150 kB.
"""

from __future__ import annotations

import io
import shutil
import sys
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

from unseen.reports.charts import NEUTRAL, OTHERS, PALETTE

LARGEST = 150_000


def picture(page: Path, width: int, height: int) -> Image.Image:
    """What a reader sees first."""
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        opened = browser.new_page(viewport={"width": width, "height": height}, color_scheme="light")
        opened.set_default_timeout(600_000)
        opened.goto(page.resolve().as_uri())
        opened.wait_for_selector("html[data-ready=yes]")
        taken = opened.screenshot(timeout=600_000)
        browser.close()
    return Image.open(io.BytesIO(taken)).convert("RGB")


def small(image: Image.Image) -> bytes:
    """The picture at most 1,000 pixels wide, with as many colours as it may have."""
    image.thumbnail((1000, 4000), Image.Resampling.LANCZOS)
    for colours in (256, 192, 128, 64):
        stream = io.BytesIO()
        image.quantize(palette=_palette(image, colours), dither=Image.Dither.NONE).save(stream, "PNG", optimize=True)
        if stream.tell() <= LARGEST:
            break
    return stream.getvalue()


def _palette(image: Image.Image, colours: int) -> Image.Image:
    """The colours of charts and pages as they are, for no two models may share one; the most frequent of the rest."""
    own = [tuple(int(colour[i : i + 2], 16) for i in (1, 3, 5)) for colour in (*PALETTE, *OTHERS, NEUTRAL)]
    counted = sorted(image.getcolors(image.width * image.height) or [], reverse=True)
    frequent = [colour for _, colour in counted if colour not in own][: colours // 2]
    rest = image.quantize(colours - len(own) - len(frequent), method=Image.Quantize.MEDIANCUT, kmeans=2).getpalette()
    made = Image.new("P", (1, 1))
    made.putpalette([part for colour in (*own, *frequent) for part in colour] + (rest or []))
    return made


def main() -> None:
    page, target, *sizes = sys.argv[1:]
    width, height = (*map(int, sizes), *(1280, 1500)[len(sizes) :])
    content = small(picture(Path(page), width, height))
    Path(target).write_bytes(content)
    print(f"{target}: {len(content) / 1000:.0f} kB")


if __name__ == "__main__":
    main()
