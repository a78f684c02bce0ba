"""Features of real images behind the tables of docs/evidence/rank.md, extracted once and stored as .npz files.

    python bench/rank_features.py --folder FOLDER            all tasks with EfficientNet-Lite0 at 96 pixels
    python bench/rank_features.py --folder FOLDER --models   further checkpoints and input sizes

Tasks: photographs (Caltech-101, of UNSEEN_GOLDEN_DATA), emoji, groceries with fine and coarse classes, sprites and
shapes. Frames are five views of every photograph, crops with a shifted brightness, as neighbouring frames of a video
are. Copies are the photographs and groceries once more, shrunk by a tenth and encoded as JPEG of quality 60.
"""

from __future__ import annotations

import argparse
import io
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

LITE = "packaged:efficientnet-lite0"
SMALL = f"{LITE}?size=96"
#: Ten candidates of the table of regret.
MODELS = (
    *(f"{LITE}?size={size}" for size in (224, 160, 96, 64)),
    *(f"packaged:efficientnet-lite1?size={size}" for size in (160, 96)),
    *(f"packaged:efficientnet-lite2?size={size}" for size in (96, 64)),
    "random:tf_efficientnet_lite0?size=96",
    "random:resnet18?size=64",
)


def tasks() -> dict[str, str]:
    """Return the datasets by short name."""
    photos = Path(os.environ.get("UNSEEN_GOLDEN_DATA", "")) / "photos/caltech101/images"
    made = "?train=1500&val=100&test=400"
    return {
        "photos": f"folder:{photos}",
        "emoji": "packaged:emoji",
        "grocery": "packaged:grocery",
        "coarse": "packaged:grocery?labels=coarse",
        "location": f"procedural:sprites-location{made}",
        "count": f"procedural:shapes-count{made}",
    }


def load(folder: Path, task: str, model: str = SMALL) -> dict[str, np.ndarray]:
    """Return features (n, d), labels (n,) and the split of each image (0 train, 1 val, 2 test) from the store."""
    with np.load(folder / f"{_file(task, model)}.npz") as stored:
        return dict(stored)


def _file(task: str, model: str) -> str:
    return f"{task}--{model.replace(':', '-').replace('?', '-').replace('=', '')}"


def _frame(image, place: int):
    """Return one of five views of an image: a crop of nine tenths of each side, brighter or darker."""
    from PIL import ImageEnhance

    shift = np.random.default_rng([place, 3])
    width, height = image.size
    left, top = shift.uniform(0, 0.1, size=2)
    box = (int(left * width), int(top * height), int((left + 0.9) * width), int((top + 0.9) * height))
    return ImageEnhance.Brightness(image.crop(box)).enhance(float(shift.uniform(0.85, 1.15)))


def _copy(image, _place: int):
    """Return an image shrunk by a tenth, and encoded and decoded as JPEG."""
    from PIL import Image

    kept = io.BytesIO()
    small = image.convert("RGB").resize([max(int(0.9 * side), 8) for side in image.size])
    small.save(kept, "JPEG", quality=60)
    return Image.open(io.BytesIO(kept.getvalue()))


def _changed(dataset: str, change: Callable, views: int) -> Iterator[tuple[object, int, int]]:
    from unseen.data import load_dataset

    for code, split in enumerate(("train", "val", "test")):
        images = load_dataset(dataset).splits.get(split)
        for i in range(0 if images is None else len(images)):
            for view in range(views):
                yield change(images.open(i), 5 * i + view), int(images.labels[i]), code


def extract(folder: Path, models: tuple[str, ...], *, views: bool) -> None:
    from unseen import extract as extract_features
    from unseen.data import load_dataset

    folder.mkdir(parents=True, exist_ok=True)

    def store(task: str, model: str, parts: list[tuple[np.ndarray, np.ndarray, int]]) -> None:
        codes = np.concatenate([np.full(len(y), code) for _, y, code in parts])
        features = np.concatenate([np.asarray(x, np.float32) for x, _, _ in parts])
        np.savez(
            folder / f"{_file(task, model)}.npz",
            features=features,
            labels=np.concatenate([y for _, y, _ in parts]),
            split=codes,
        )
        print(task, model, features.shape, flush=True)

    for task, dataset in tasks().items():
        for model in models:
            if (folder / f"{_file(task, model)}.npz").is_file():
                continue
            loaded, parts = load_dataset(dataset), []
            if task == "coarse":  # other labels of the same images
                labels = [
                    (loaded.split(split).labels, code)
                    for code, split in enumerate(("train", "val", "test"))
                    if split in loaded.splits
                ]
                same = load(folder, "grocery", model)["features"]
                cuts = np.cumsum([len(y) for y, _ in labels])[:-1]
                store(task, model, [(x, *y) for x, y in zip(np.split(same, cuts), labels, strict=True)])
                continue
            for code, split in enumerate(("train", "val", "test")):
                if split in loaded.splits:
                    found = extract_features(model, dataset, split=split, home=folder / "home")
                    parts.append((np.asarray(found.features), loaded.split(split).labels, code))
            store(task, model, parts)
    made = {"photos-frames": ("photos", _frame, 5), "photos-copies": ("photos", _copy, 1)}
    made |= {"grocery-copies": ("grocery", _copy, 1), "emoji-copies": ("emoji", _copy, 1)}
    for name, (task, change, count) in made.items() if views else ():
        if not (folder / f"{_file(name, SMALL)}.npz").is_file():
            rows = list(_changed(tasks()[task], change, count))
            found = extract_features(SMALL, [row[0] for row in rows], home=folder / "home")
            labels, codes = np.array([row[1] for row in rows]), np.array([row[2] for row in rows])
            np.savez(folder / f"{_file(name, SMALL)}.npz", features=found.features, labels=labels, split=codes)
            print(name, found.features.shape, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--models", action="store_true", help="further checkpoints and input sizes")
    options = parser.parse_args()
    extract(options.folder, (SMALL,), views=True)
    if options.models:
        extract(options.folder, MODELS, views=False)


if __name__ == "__main__":
    main()
