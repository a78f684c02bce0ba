"""Extraction speed beside a plain torch DataLoader and an eager loop, on small and on large photographs.

The eager loop (DataLoader, torchvision transforms, decoding included) runs with batches of 32 as most scripts do, and
in its best configuration: batches of 8 in `channels_last`. Small photographs are those of `packaged:grocery`, large
ones the same enlarged to 1600 x 1200. Then images that are decoded already: the bare ONNX session (its best setting)
beside the whole pipeline. Features are compared.

    OMP_NUM_THREADS=1 python bench/extract.py [--images 300] [--repeat 3] [--models random:mobilenetv2_100 ...]

Times are CPU seconds, user and system apart: large batches cost an eager loop page faults, which are system time and
depend on the machine. The ratio is by user time, to the best configuration of the eager loop.
"""

from __future__ import annotations

import argparse
import os
import resource
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from PIL import Image

from tables import Table
from unseen.backbones import Backbone, load_backbone
from unseen.backbones.runtimes import OnnxRuntime, export_onnx
from unseen.core.extras import ensure_torchvision
from unseen.core.records import DatasetCard
from unseen.data import Dataset, Split, load_dataset
from unseen.features import Extraction, FeatureStore, extract

#: Least ratio of user time to the best eager configuration, on small photographs.
TARGETS = {"packaged:efficientnet-lite0": 1.5, "random:mobilenetv2_100": 1.5}
#: Least ratio of scaled to full decoding of large photographs, for the first model.
SCALED = 1.7
MOST_OVERHEAD = 0.12
LARGE = (1600, 1200)


class Timing(NamedTuple):
    """CPU seconds, and what the function returned."""

    user: float
    system: float
    value: Any

    @property
    def total(self) -> float:
        return self.user + self.system


@dataclass
class Files(torch.utils.data.Dataset):
    """JPEGs on disk with the transform that torchvision users write."""

    paths: list[Path]
    backbone: Backbone

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> torch.Tensor:
        from torchvision import transforms as t

        p = self.backbone.preprocessing
        transform = t.Compose(
            [
                t.Resize(p.resize, interpolation=t.InterpolationMode(p.interpolation)),
                t.CenterCrop(p.size),
                t.ToTensor(),
                t.Normalize(p.mean, p.std),
            ]
        )
        return transform(Image.open(self.paths[index]).convert("RGB"))


def write_jpegs(folder: Path, count: int, size: tuple[int, int] | None = None) -> list[Path]:
    """Write photographs of the packaged set, in their own size or enlarged."""
    split = load_dataset("packaged:grocery").split("train")
    paths = []
    for i in range(count):
        paths.append(folder / "images" / f"{i % 5}" / f"{i:04d}.jpg")
        paths[-1].parent.mkdir(parents=True, exist_ok=True)
        image = split.open(i % len(split)).convert("RGB")
        (image.resize(size, Image.Resampling.BICUBIC) if size else image).save(paths[-1], quality=90)
    return paths


def eager_loop(backbone: Backbone, paths: list[Path], batch: int, layout: torch.memory_format) -> np.ndarray:
    """What people write."""
    loader = torch.utils.data.DataLoader(Files(paths, backbone), batch_size=batch)
    module = backbone.module.to(memory_format=layout)
    with torch.no_grad():
        rows = [backbone.forward(module, images.contiguous(memory_format=layout))[0] for images in loader]
    return torch.cat(rows).numpy()


def ours(backbone: Backbone, dataset: Dataset, graphs: Path) -> np.ndarray:
    """Everything: decoding, the model, and the store with its fsyncs."""
    with tempfile.TemporaryDirectory() as folder:
        store = FeatureStore(Path(folder))
        return extract(backbone, dataset, "train", store, how=Extraction(graphs=graphs))["pooled"].features.to_array()


def in_memory(backbone: Backbone, count: int) -> Dataset:
    """Images of the model's own size, decoded already."""
    size = backbone.preprocessing.resize
    pixels = np.random.default_rng(0).integers(0, 256, (count, size, size, 3), np.uint8)
    images = [Image.fromarray(p) for p in pixels]
    split = Split(
        names=[str(i) for i in range(count)],
        labels=np.zeros(count, np.int64),
        open=lambda i: images[i],
        fingerprint="in memory",
    )
    return Dataset(card=DatasetCard(id="memory"), class_names=["any"], splits={"train": split})


def bare_session(graph: bytes, pixels: np.ndarray, threads: int, batch: int) -> None:
    """ONNX Runtime and nothing else: one session on all threads, or one single-threaded session per core."""
    cores = os.cpu_count() or 1
    session = OnnxRuntime(graph, threads=threads)
    batches = [pixels[i : i + batch] for i in range(0, len(pixels), batch)]
    with ThreadPoolExecutor(1 if threads > 1 else cores) as pool:
        list(pool.map(session, batches))


def timed(function: Callable[[], Any], repeat: int) -> Timing:
    """Return the run of least CPU time."""
    runs = []
    for _ in range(repeat):
        before = resource.getrusage(resource.RUSAGE_SELF)
        value = function()
        after = resource.getrusage(resource.RUSAGE_SELF)
        runs.append(Timing(after.ru_utime - before.ru_utime, after.ru_stime - before.ru_stime, value))
    return min(runs, key=lambda run: run.total)


def measure(name: str, folder: Path, paths: list[Path], repeat: int, table: Table) -> bool:
    """Time all contenders on one set of photographs; return whether the targets hold."""
    count, graphs = len(paths), folder / "graphs"
    dataset = load_dataset(f"folder:{folder / 'images'}?test=0")
    loaded = {"": load_backbone(name)}
    large = Image.open(paths[0]).size == LARGE
    if large:
        own = loaded[""].preprocessing.interpolation
        loaded[", scaled decoding"] = load_backbone(f"{name}?interpolation=scaled-{own}")
    for backbone in loaded.values():
        ours(backbone, load_dataset(f"folder:{folder / 'images'}?test=0&per_class=2"), graphs)  # export once
    runs = {f"unseen{words}": timed(lambda b=b: ours(b, dataset, graphs), repeat) for words, b in loaded.items()}
    eager = load_backbone(name)
    for batch, layout in ((32, torch.contiguous_format), (8, torch.channels_last)):
        words = f"eager torch, batches of {batch}, {str(layout).removeprefix('torch.')}"
        runs[words] = timed(lambda b=batch, m=layout: eager_loop(eager, paths, b, m), repeat)
    best = min((run for words, run in runs.items() if words.startswith("eager")), key=lambda run: run.user)
    photographs = f"{count} of {LARGE[0]} x {LARGE[1]}" if large else f"{count} small"
    for words, run in runs.items():
        ratio = f"{best.user / run.user:.2f}x"
        table.add(name, photographs, words, f"{count / run.total:.1f}", f"{run.user:.1f}", f"{run.system:.1f}", ratio)
    order = np.argsort([str(path.relative_to(folder / "images")) for path in paths])
    features, expected = runs["unseen"].value, best.value[order]
    cosine = (features * expected).sum(1) / np.linalg.norm(features, axis=1) / np.linalg.norm(expected, axis=1)
    print(f"{name}, {photographs}: cosine to eager torch {cosine.min():.7f} at the least (above 0.9999)", flush=True)
    if large:
        gain = runs["unseen"].total / runs["unseen, scaled decoding"].total
        print(f"{name}, {photographs}: scaled decoding {gain:.2f}x (at least {SCALED}x for {next(iter(TARGETS))})")
        return float(cosine.min()) > 0.9999 and (gain >= SCALED or name != next(iter(TARGETS)))
    return float(cosine.min()) > 0.9999 and best.user / runs["unseen"].user >= TARGETS.get(name, 1.0)


def overhead(name: str, folder: Path, count: int, repeat: int) -> bool:
    """Compare the whole pipeline on decoded images with the bare session; return whether the target holds."""
    backbone = load_backbone(name)
    size = backbone.preprocessing.size
    pixels = np.random.default_rng(0).integers(0, 256, (count, size, size, 3), np.uint8)
    graph, memory = export_onnx(backbone, ("pooled",)), in_memory(backbone, count)
    bare = min(timed(lambda b=b: bare_session(graph, pixels, 1, b), repeat).total for b in (8, 32))
    more = timed(lambda: ours(backbone, memory, folder / "graphs"), repeat).total / bare - 1
    print(f"{name}: {count / bare:.1f} images per CPU s in a bare ONNX session, the pipeline takes {more:+.1%}")
    return more <= MOST_OVERHEAD


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=300)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--models", nargs="+", default=list(TARGETS))
    arguments = parser.parse_args()
    ensure_torchvision()
    table = Table("model", "photographs", "", "images / CPU s", "user s", "system s", "user time, best eager / this")
    held = []
    with tempfile.TemporaryDirectory() as name:
        for size in (None, LARGE):
            folder = Path(name) / str(size)
            paths = write_jpegs(folder, arguments.images if size is None else arguments.images // 3, size)
            held += [measure(model, folder, paths, arguments.repeat, table) for model in arguments.models]
        held += [overhead(model, Path(name), arguments.images, arguments.repeat) for model in arguments.models]
    table.show()
    print("all targets held" if all(held) else "A TARGET WAS MISSED")
    return 0 if all(held) else 1


if __name__ == "__main__":
    sys.exit(main())
