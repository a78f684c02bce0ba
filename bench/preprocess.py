"""TensorFlow 1's bilinear resizing beside Pillow's: pixels, features, accuracy and time, on the same photographs.

VTAB's authors resize without a low-pass ("tf"); everybody on Pillow or torchvision with one ("plain"). How far apart
are the two, and does a result move?

    python bench/preprocess.py FOLDER [--model packaged:efficientnet-lite0] [--images 1900] [--seeds 5]

FOLDER has a folder of photographs per class.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from tables import Table
from unseen.backbones import Backbone, load_backbone
from unseen.core.records import Preprocessing
from unseen.data import Dataset, decode_rgb, load_dataset
from unseen.data.decode import resize_like_tf
from unseen.features import FeatureStore, extract
from unseen.features.batches import to_pixels
from unseen.features.manifest import tf_preprocessing

TABLE = Table("", "plain to tf")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--model", default="packaged:efficientnet-lite0")
    parser.add_argument("--images", type=int, default=1900)
    parser.add_argument("--seeds", type=int, default=5)
    given = parser.parse_args()
    backbone = load_backbone(given.model)
    own = backbone.preprocessing
    views = {
        "plain": replace(own, resize=own.size, mode="squash", interpolation="bilinear"),
        "tf": tf_preprocessing(own),
    }
    dataset = load_dataset(f"folder:{given.folder}?test=0.5", limit=given.images // 2)
    compare_pixels(dataset, views)
    compare_results(backbone, dataset, views, given.seeds)


def compare_pixels(dataset: Dataset, views: dict[str, Preprocessing]) -> None:
    differences, rounding, scales = [], [], []
    seconds = dict.fromkeys(views, 0.0)
    split, side = dataset.split("test"), views["tf"].size
    for i in range(len(split)):
        image = decode_rgb(split.open(i))
        shown = {}
        for name, view in views.items():
            began = time.process_time()
            shown[name] = to_pixels(image, view).astype(np.float32)
            seconds[name] += time.process_time() - began
        differences.append(np.abs(shown["tf"] - shown["plain"]).mean() / 255)
        rounding.append(np.abs(resize_like_tf(np.asarray(image), side, side) - shown["tf"]).mean() / 255)
        scales.append((image.width * image.height) ** 0.5 / side)
    found, scale = np.array(differences), np.array(scales)
    print(f"{len(found)} photographs, {np.median(scale):.2f} times the side of {side} in the median")
    print(f"mean absolute difference, of 1: {found.mean():.4f}; largest of an image {found.max():.4f}")
    for low, high in ((0, 1), (1, 1.5), (1.5, np.inf)):
        part = found[(scale >= low) & (scale < high)]
        if len(part):
            print(f"  photographs of {low} to {high} times the side: {part.mean():.4f} ({len(part)})")
    print(f"of which rounding to whole values: {np.mean(rounding):.5f}")
    grows, shrinks = (found[part].mean() if part.any() else np.nan for part in (scale < 1, scale >= 1))
    TABLE.add(
        "mean absolute difference of pixels, of 1",
        f"{found.mean():.4f} ({grows:.4f} where an image grows, {shrinks:.4f} where it shrinks; "
        f"at most {found.max():.3f} in one image)",
    )
    TABLE.add("of it, rounding to whole values", f"{np.mean(rounding):.4f}")
    times = " and ".join(f"{1000 * s / len(found):.1f}" for s in seconds.values())
    TABLE.add("CPU time per image, without decoding", f"{times} ms")
    print("CPU ms per image: " + ", ".join(f"{name} {1000 * s / len(found):.2f}" for name, s in seconds.items()))


def compare_results(backbone: Backbone, dataset: Dataset, views: dict[str, Preprocessing], seeds: int) -> None:
    found: dict[str, dict[str, np.ndarray]] = {}
    for name, view in views.items():
        with tempfile.TemporaryDirectory() as folder:
            store = FeatureStore(Path(folder))
            model = replace(backbone, preprocessing=view)
            found[name] = {
                split: extract(model, dataset, split, store)["pooled"].features.to_array()
                for split in ("train", "test")
            }
    a, b = found["plain"]["test"], found["tf"]["test"]
    cosine = (a * b).sum(1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)
    TABLE.add("cosine of the features", f"{cosine.mean():.3f} (at least {cosine.min():.3f})")
    print(f"cosine of the features: {cosine.mean():.4f} in the mean, {cosine.min():.4f} at least")
    train, test = (dataset.split(split).labels for split in ("train", "test"))
    scores = {name: [] for name in views}
    for seed in range(seeds):
        kept = np.random.default_rng(seed).permutation(len(train))[: 4 * len(train) // 5]
        for name in views:
            probe = make_pipeline(StandardScaler(), LogisticRegression(C=0.01, max_iter=300))
            probe.fit(found[name]["train"][kept], train[kept])
            scores[name].append(100 * probe.score(found[name]["test"], test))
    for name, values in scores.items():
        print(
            f"accuracy, {name}: {np.mean(values):.2f} ({np.std(values):.2f} over {seeds} draws of four fifths of train)"
        )
    gaps = np.subtract(scores["tf"], scores["plain"])
    print(f"tf - plain: {gaps.mean():+.2f}, from {gaps.min():+.2f} to {gaps.max():+.2f}")
    both = " and ".join(f"{np.mean(values):.1f}" for values in scores.values())
    spread = f"between {gaps.min():+.1f} and {gaps.max():+.1f} over {seeds} draws of the training images"
    TABLE.add("accuracy", f"{both}: {gaps.mean():+.2f} points, {spread}")
    TABLE.show()


if __name__ == "__main__":
    main()
