"""Simulate ImageNet-CoG on a GPU cluster, event by event: 31 models x 6.8 M images over 8 and 64 GPUs.

    python bench/simulation.py                          seconds: it measures decoding and a part's own cost first
    python bench/simulation.py --cores 16 --disk 5e9    another cluster
    python bench/simulation.py --costs 3.9 9.8 1.6      these milliseconds instead: the table of docs/evidence/scale.md

A shard is what a worker is given: some parts of 1,024 images. Its life: handed out by the one client (a queue), images
read from the shared disk (a queue), decoded by the cores of its GPU and run through the network side by side, then each
part written, and listed under the lock of its entry (a queue per model). Groups of cells follow, each on one GPU.

Measured here: decoding (CPU seconds of an image of 500 x 375 pixels), and a part of 1,024 x 2,048 (CPU seconds to write
it, and under the lock). Stated, because no GPU was at hand: images per second of a GPU and hours of the probes, both
from the table of `bench/cog_cost.py` (29.7 and 8.7 hours on one GPU of 19,500 GFLOP/s); bytes of an image; bytes per
second of the disk; CPU seconds of handing out a task, which are assumed.
"""

from __future__ import annotations

import argparse
import heapq
import io
import math
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from PIL import Image

MODELS, IMAGES = 31, 6_800_000
EXTRACTION_HOURS, PROBE_HOURS = 29.7, 8.7
IMAGE_BYTES, IMAGE_SIZE = 110_000, (500, 375)


@dataclass(frozen=True)
class Cluster:
    """What is simulated.

    Attributes:
        cores: that decode, per GPU.
        per_gpu: images per second of the network on one GPU.
        decode: CPU seconds of an image.
        disk: bytes per second that all read together.
        write: seconds of writing a part, before the lock of its entry.
        locked: seconds of a part under that lock.
        hand_out: seconds of the client per task.
        part, most: images of a part; parts of a shard.
        groups: of cells per model, each of which one worker does.
    """

    gpus: int
    cores: int
    per_gpu: float
    decode: float
    disk: float
    write: float
    locked: float
    hand_out: float
    part: int = 1024
    most: int = 8
    groups: int = 1


@dataclass(frozen=True)
class Outcome:
    extraction: float
    cells: float
    busy: dict[str, float]

    @property
    def bottleneck(self) -> str:
        return max(self.busy, key=lambda name: self.busy[name])


def simulate(cluster: Cluster) -> Outcome:
    """Hours of both stages, and how busy each resource was during the extraction, of 1."""
    parts = math.ceil(IMAGES / cluster.part)
    length = min(max(parts * MODELS // (4 * cluster.gpus * MODELS), 1), cluster.most)
    shards = [(model, min(length, parts - at)) for model in range(MODELS) for at in range(0, parts, length)]
    free = [(0.0, worker) for worker in range(cluster.gpus)]
    client = disk = 0.0
    locks = dict.fromkeys(range(MODELS), 0.0)
    used: Counter[str] = Counter()
    end = 0.0
    for model, count in shards:
        at, worker = heapq.heappop(free)
        images = count * cluster.part
        client = max(client, at) + cluster.hand_out
        read = images * IMAGE_BYTES / cluster.disk
        disk = max(disk, client) + read
        decoding, network = images * cluster.decode / cluster.cores, images / cluster.per_gpu
        # Parts are written by the worker while it decodes no more: one after the other, smaller ones in less time.
        done = max(disk, client + max(decoding, network)) + count * cluster.write * cluster.part / 1024
        for _ in range(count):
            locks[model] = max(locks[model], done) + cluster.locked
            done = locks[model]
        used.update(
            {
                "client": cluster.hand_out,
                "shared disk": read,
                "decoding": decoding / cluster.gpus,
                "GPU": network / cluster.gpus,
                "lock of the entry": count * cluster.locked,
            }
        )
        heapq.heappush(free, (done, worker))
        end = max(end, done)
    busy = {name: value / end for name, value in used.items()}
    each = PROBE_HOURS / MODELS / cluster.groups
    cells = [0.0] * cluster.gpus
    for _ in range(MODELS * cluster.groups):
        heapq.heappush(cells, heapq.heappop(cells) + each)
    return Outcome(end / 3600, max(cells), busy)


def measure_decoding(tries: int = 60) -> float:
    """CPU seconds from the bytes of a photograph-sized JPEG to pixels of 224 x 224."""
    from unseen.core.records import Preprocessing
    from unseen.features.batches import to_pixels

    rng = np.random.default_rng(0)
    small = Image.fromarray(rng.integers(0, 255, (30, 40, 3), np.uint8)).resize(IMAGE_SIZE, Image.Resampling.BICUBIC)
    file = io.BytesIO()
    small.save(file, "JPEG", quality=90)
    how = Preprocessing(256, 224)
    to_pixels(Image.open(io.BytesIO(file.getvalue())), how, truncated="refuse")
    began = time.process_time()
    for _ in range(tries):
        to_pixels(Image.open(io.BytesIO(file.getvalue())), how, truncated="refuse")
    return (time.process_time() - began) / tries


def measure_part(tries: int = 12) -> tuple[float, float]:
    """CPU seconds of a part of 1,024 x 2,048: to write it, and under the lock of its entry."""
    from unseen.core.records import FeatureKey, Preprocessing
    from unseen.features import FeatureStore, store
    from unseen.features.part import PartRows

    features = np.random.default_rng(0).normal(size=(1024, 2048)).astype(np.float32)
    key = FeatureKey("m", "w", "pooled", Preprocessing(256, 224), "fp32", "torch", "d", "train", "f")
    before: list[float] = []

    write = store.write_part_file

    def timed(*given: Any) -> Any:
        began = time.process_time()
        found = write(*given)
        before.append(time.process_time() - began)
        return found

    with tempfile.TemporaryDirectory() as folder, mock.patch.object(store, "write_part_file", timed):
        whole = []
        for number in range(tries):
            began = time.process_time()
            index = np.arange(number * 1024, (number + 1) * 1024)
            part = {"pooled": PartRows(number * 1024, features, index, index)}
            total = 1024 * (tries + 1)
            FeatureStore(Path(folder)).add_layers({"pooled": key}, part, total=total, part_size=1024, provenance={})
            whole.append(time.process_time() - began)
    # The first makes the entry, which the others find.
    return float(np.mean(before[1:])), float(np.mean(whole[1:]) - np.mean(before[1:]))


def rows(base: Cluster) -> list[str]:
    """Lines of the table in docs/evidence/scale.md: this cluster, and what would change it."""
    found = []
    for name, cluster in (
        ("as it is", base),
        ("twice the cores", replace(base, cores=2 * base.cores)),
        ("four times the disk", replace(base, disk=4 * base.disk)),
        ("both", replace(base, cores=2 * base.cores, disk=4 * base.disk)),
        ("both, levels as datasets", replace(base, cores=2 * base.cores, disk=4 * base.disk, groups=6)),
        ("both, parts of 256", replace(base, cores=2 * base.cores, disk=4 * base.disk, part=256, most=1)),
    ):
        out = simulate(cluster)
        shares = (f"{100 * out.busy[k]:.0f} %" for k in ("GPU", "decoding", "shared disk", "lock of the entry"))
        found.append(
            f"| {base.gpus} | {name} | {out.extraction:.1f} h | {out.cells:.1f} h | {out.bottleneck} | "
            f"{' | '.join(shares)} | {100 * out.busy['client']:.1f} % |"
        )
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cores", type=int, default=8, help="per GPU")
    parser.add_argument("--disk", type=float, default=2e9, help="bytes per second of the shared disk")
    parser.add_argument("--hand-out", type=float, default=0.004, help="CPU seconds of the client per task")
    parser.add_argument(
        "--costs", type=float, nargs=3, help="ms to decode an image, to write a part, under its lock: not measured then"
    )
    given = parser.parse_args()
    costs = given.costs or [1e3 * seconds for seconds in (measure_decoding(), *measure_part())]
    per_gpu = MODELS * IMAGES / (EXTRACTION_HOURS * 3600)
    print(
        f"{MODELS} models x {IMAGES / 1e6:.1f} M images; a GPU: {per_gpu:,.0f} images/s, {given.cores} cores; decoding "
        f"{costs[0]:.1f} ms, a part {costs[1]:.1f} ms to write and {costs[2]:.1f} ms under its lock, "
        f"{given.disk / 1e9:g} GB/s to read\n"
    )
    print("| GPUs | what changes | extraction | cells | busiest | GPU | decoding | disk | lock | client |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    decode, write, locked = (cost / 1e3 for cost in costs)
    for gpus in (8, 64):
        base = Cluster(gpus, given.cores, per_gpu, decode, given.disk, write, locked, given.hand_out)
        print("\n".join(rows(base)))


if __name__ == "__main__":
    main()
