"""How fast the procedural images are drawn, on two threads; --sheet writes the contact sheet of the documentation.

python bench/procedural.py [--quick] [--sheet docs/images/procedural.png]
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
from PIL import Image

from unseen.data.sources.procedural.shapes import draw_scene, render_scene
from unseen.data.sources.procedural.sprites import COUNT, factors_of, render_sprites

TARGETS = {"sprites": 2000.0, "shapes scenes": 100.0}
WORKERS = 2


def draw_sprites(numbers: list[int]) -> int:
    """One at a time, as a split opens them."""
    return sum(len(render_sprites(factors_of([number]))) for number in numbers)


def draw_scenes(numbers: list[int]) -> int:
    """Placement and picture."""
    return sum(len(render_scene(draw_scene(0, number))) > 0 for number in numbers)


def rate(draw: Callable[[list[int]], int], numbers: list[int], pool: ProcessPoolExecutor) -> float:
    """Images per second over all workers; the first call of each worker fills its tables and is not timed."""
    list(pool.map(draw, [numbers[:2]] * (4 * WORKERS)))
    parts = [numbers[k :: 4 * WORKERS] for k in range(4 * WORKERS)]
    began = time.perf_counter()
    done = sum(pool.map(draw, parts))
    assert done == len(numbers)
    return done / (time.perf_counter() - began)


def contact_sheet(path: Path) -> None:
    """68 sprites and 24 scenes on one small picture."""
    sheet = Image.new("RGB", (8 * 146, 4 * 66 + 3 * 98), (90, 90, 90))
    chosen = np.random.default_rng(0).choice(COUNT, 68, replace=False)
    for k, picture in enumerate(render_sprites(factors_of(chosen))):
        sheet.paste(Image.fromarray(picture).convert("RGB"), (k % 17 * 68 + 6, k // 17 * 66 + 1))
    for k in range(24):
        picture = Image.fromarray(render_scene(draw_scene(0, k)))
        sheet.paste(picture, (k % 8 * 146 + 1, 4 * 66 + k // 8 * 98 + 1))
    path.parent.mkdir(parents=True, exist_ok=True)
    sheet.save(path, optimize=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer images")
    parser.add_argument("--sheet", type=Path, help="also write a contact sheet there")
    arguments = parser.parse_args()
    if arguments.sheet:
        contact_sheet(arguments.sheet)
    count = 400 if arguments.quick else 2000
    with ProcessPoolExecutor(WORKERS) as pool:
        found = {
            "sprites": rate(draw_sprites, list(range(0, 50 * count, 5)), pool),
            "shapes scenes": rate(draw_scenes, list(range(count)), pool),
        }
    missed = False
    for name, speed in found.items():
        missed |= speed < TARGETS[name]
        print(f"{name:>14}: {speed:10,.0f} per second (target {TARGETS[name]:,.0f})")
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
