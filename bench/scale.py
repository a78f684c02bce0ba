"""Measure the overhead of distributed work: sharded extraction, engines, many cells, many results.

    python bench/scale.py                      everything: some minutes
    python bench/scale.py extraction cells     some of: extraction, overhead, dask, cells, results, parts, plans,
                                               listing, scan

Both clocks are shown: the wall clock, and CPU seconds of all processes, which other work on the machine does not move.
Limits are those that the project holds itself to; the last column says whether they hold, by the clock that is named.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # workers of one thread each, and the process that feeds them

import argparse
import json
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from PIL import Image

sys.path.insert(0, str(Path(__file__).parent))

from tables import Table
from unseen.benchmarks import Benchmark, Workbench
from unseen.core.identity import option
from unseen.core.records import Cell, FeatureKey, Preprocessing, Result
from unseen.engines import make_engine
from unseen.features import Extraction, FeatureStore
from unseen.results import FILE_NAME
from unseen.study import Study, run_study

SAID = Table("what", "measured", "limit", "")
PARTS = ("extraction", "parts", "overhead", "dask", "cells", "results", "plans", "listing", "scan")


@dataclass(frozen=True)
class Trivial(Benchmark):
    """Cells that cost nothing."""

    name: ClassVar[str] = "trivial"
    question: ClassVar[str] = "What does a cell cost that costs nothing?"

    seeds: tuple[int, ...] = option((1,), axis="seed", count=(1,))
    group: int = option(0)

    def evaluate(self, cells: Sequence[Cell], bench: Workbench) -> Iterator[Result]:
        for cell in cells:
            yield Result(cell, {"top1": cell.parameters["seed"] / 1e6})


@dataclass(frozen=True)
class Took:
    wall: float
    cpu: float


@contextmanager
def clocked(told: list[Took]) -> Iterator[None]:
    """Both clocks over a block, children among them once they have ended."""

    def used() -> float:
        return sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))

    wall, cpu = time.perf_counter(), used()
    yield
    told.append(Took(time.perf_counter() - wall, used() - cpu))


def say(name: str, value: str, limit: str = "-", holds: bool | None = None) -> None:
    verdict = "" if holds is None else "holds" if holds else "BROKEN"
    print(f"{name:58} {value:34} limit {limit:10} {verdict}", flush=True)
    SAID.add(name, " ".join(value.split()), limit, verdict)


def make_images(folder: Path, count: int, size: int = 256) -> Path:
    rng = np.random.default_rng(0)
    for number in range(count):
        path = folder / f"class{number % 4}" / f"{number:05d}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(rng.integers(0, 255, (size, size, 3), np.uint8)).save(path, quality=85)
    return folder


# ---- extraction ------------------------------------------------------------------------------------------------------


def cpu_of(folder: str) -> tuple[int, float]:
    """Process and CPU seconds of a worker; waits, so that each worker answers."""
    (Path(folder) / f"{os.getpid()}").touch()
    deadline = time.monotonic() + 60
    while len(list(Path(folder).iterdir())) < int(Path(folder).name.partition("-")[0]) and time.monotonic() < deadline:
        time.sleep(0.05)
    return os.getpid(), time.process_time()


def shard_all(folder: Path, workers: int, images: Path, model: str, how: Extraction) -> Took:
    """The wall clock and the workers' CPU seconds of a sharded extraction by processes that are warm already."""
    from unseen.benchmarks import make_benchmark
    from unseen.run.evaluate import Task
    from unseen.run.executor import LocalEngine
    from unseen.run.extract import PartBatch, describe_features, extract_batch

    pool, home = LocalEngine(workers), folder / f"home-{workers}"
    cells = tuple(make_benchmark("probe", {"seeds": [1]}).plan(model, f"folder:{images}"))
    task = Task(home, "s", how, make_benchmark("probe", {"seeds": [1]}), cells)
    fail: Callable[[Any, str], Any] = lambda _item, reason: sys.exit(reason)  # noqa: E731
    with pool:
        warm = replace(task, home=folder / f"warm-{workers}")
        found = next(iter(list(pool.map(describe_features, [warm] * workers, lost=fail)))).entries
        some = [
            PartBatch(warm, 0, found[0].keys, found[0].total, how.part_size, (i * how.part_size,)) for i in range(4)
        ]
        list(pool.map(extract_batch, some, lost=fail))
        described = next(iter(list(pool.map(describe_features, [task] * workers, lost=fail)))).entries
        shards = [
            PartBatch(task, place, one.keys, one.total, how.part_size, (first,))
            for place, one in enumerate(described)
            for first in range(0, one.total, how.part_size)
        ]
        seen = [folder / f"{workers}-{turn}-{workers}" for turn in ("before", "after")]
        for each in seen:
            each.mkdir()
        before = dict(pool.map(cpu_of, [str(seen[0])] * workers, lost=fail))
        began = time.perf_counter()
        list(pool.map(extract_batch, shards, lost=fail))
        wall = time.perf_counter() - began
        after = dict(pool.map(cpu_of, [str(seen[1])] * workers, lost=fail))
    assert all(FeatureStore(home / "features").holds(key) for one in described for key in one.keys.values())
    return Took(wall, sum(after.values()) - sum(before.values()))


def extraction(count: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        images = make_images(folder / "images", count)
        how = Extraction(part_size=16, workers=1, graphs=folder / "graphs")
        one, two = (shard_all(folder, workers, images, "random:resnet18", how) for workers in (1, 2))
        for workers, took in ((1, one), (2, two)):
            say(f"{count} images, {workers} single-threaded", f"{took.wall:6.1f} s, {took.cpu:6.1f} CPU s")
        by_wall, by_cpu = one.wall / (2 * two.wall), one.cpu / two.cpu
        say("efficiency of two workers, wall clock", f"{100 * by_wall:.0f} %", "85 %", by_wall >= 0.85)
        say("work per image beside one worker, CPU", f"{100 * by_cpu:.0f} %", "85 %", by_cpu >= 0.85)


def parts() -> None:
    """What a part of 1024 x 2048 costs beside its network: lock, file, manifest, by how many are there already."""
    from unseen.core.records import FeatureKey, Preprocessing
    from unseen.features.manifest import Manifest, Part, entry_folder, part_name, save_manifest
    from unseen.features.part import PartRows

    size, tries = 1024, 12
    features = np.random.default_rng(0).normal(size=(size, 2048)).astype(np.float32)
    key = FeatureKey("m", "w", "pooled", Preprocessing(224, 224), "fp32", "torch", "d", "train", "f")
    for there in (0, 1000, 6640):
        with tempfile.TemporaryDirectory() as name:
            store, total = FeatureStore(Path(name)), size * (there + tries)
            old = tuple(
                Part(part_name(i), i * size, (i + 1) * size - 1, rows=size, bytes=1, sha256="0" * 64)
                for i in range(there)
            )
            entry_folder(store.root, key).mkdir(parents=True)
            manifest = Manifest(key, total=total, part_size=size, dim=2048 * bool(there), parts=old)
            save_manifest(entry_folder(store.root, key), replace(manifest, dtype="float32" if there else ""))
            told: list[Took] = []
            for number in range(there, there + tries - 1):
                index = np.arange(number * size, (number + 1) * size)
                part = {"pooled": PartRows(number * size, features, index, index)}
                with clocked(told):
                    store.add_layers({"pooled": key}, part, total=total, part_size=size, provenance={})
        wall, cpu = np.median([t.wall for t in told]), np.median([t.cpu for t in told])
        say(f"a part of 8 MB beside {there} others", f"{1e3 * wall:6.1f} ms, {1e3 * cpu:6.1f} CPU ms")


# ---- engines and cells -----------------------------------------------------------------------------------------------


def trivial_study(images: Path, groups: int, each: int) -> Study:
    benchmarks = tuple(Trivial(seeds=tuple(range(1, each + 1)), group=number) for number in range(groups))
    return Study("trivial", ("random:test_resnet?size=64",), (f"folder:{images}",), benchmarks)


def run_trivial(folder: Path, groups: int, each: int, engine: str, **options: Any) -> Took:
    """Both clocks of a run that has nothing to compute; the engine is warm."""
    told: list[Took] = []
    study = trivial_study(folder / "images", groups, each)
    with make_engine(engine, **options) as workers:
        run_study(trivial_study(folder / "images", 4, 1), folder / f"warm-{engine}-{groups}", workers, report=False)
        with clocked(told):
            outcome = run_study(study, folder / f"home-{engine}-{groups}", workers, report=False)
    assert len(outcome.results) == groups * each
    assert not outcome.failed, outcome.failed[0].error
    return told[0]


def overhead(engine: str, limit: float, groups: int, **options: Any) -> None:
    with tempfile.TemporaryDirectory() as name:
        make_images(Path(name) / "images", 8, 32)
        took = run_trivial(Path(name), groups, 1, engine, **options)
        each, cpu = 1e3 * took.wall / groups, 1e3 * took.cpu / groups
        shown = ", ".join(f"{key} {value}" for key, value in options.items())
        say(
            f"{engine} {shown}: overhead of a cell that is a group",
            f"{each:.1f} ms, {cpu:.1f} CPU ms here",
            f"{limit:g} ms",
            each < limit,
        )


def cells(count: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        make_images(Path(name) / "images", 8, 32)
        took = run_trivial(Path(name), count // 100, 100, "local")
        say(
            f"{count:,} cells planned, run, stored, read",
            f"{took.wall:.1f} s, {took.cpu:.1f} CPU s",
            "60 s",
            took.wall < 60,
        )


# ---- results ---------------------------------------------------------------------------------------------------------


def results(count: int) -> None:
    from results import _command, ask, fill

    opened = "with ResultsDatabase(home / FILE_NAME, read_only=True) as d: found = d.latest({})"
    imports = "from unseen.results import ResultsDatabase, FILE_NAME\n"
    parts_of = "from unseen.reports.blocks import Material\nfrom unseen.reports.provenance import result_data"
    known = "from unseen.benchmarks.benchmark import citations_of, command_of"
    data = (
        f"{imports}{known}\n{parts_of}\nknown = dict(command=command_of, papers=citations_of)",
        f"{opened.format('brief=True')}\nresult_data(Material(found, {{}}, {{}}, **known))",
    )
    page = (
        f"{imports}from unseen.study import write_report",
        f"{opened.format('')}\nwrite_report(found, home / 'page.html', title='all')",
    )
    with tempfile.TemporaryDirectory() as name:
        home = Path(name)
        fill(home / FILE_NAME, count)
        for what, question, limit in (
            ("results table, everything", _command(), 300),
            ("CSV, everything", _command("--csv", str(home / "all.csv")), 300),
            ("data of the page", data, 300),
            ("the page, with all details", page, 0),
        ):
            try:
                seconds, peak = ask(home, question)
            except subprocess.CalledProcessError as error:
                say(f"{count:,} results: {what}", "failed", holds=False)
                print(error.stderr[-2000:])
                continue
            limits = (f"{limit} MB", peak < limit) if limit else ()
            say(f"{count:,} results: {what}", f"{seconds:.1f} CPU s, {peak:.0f} MB", *limits)


def plans(models: int, datasets: int = 10) -> None:
    """Measure `unseen run STUDY --dry-run` of many models and datasets in a new process."""
    from results import ask

    with tempfile.TemporaryDirectory() as name:
        home, study = Path(name), Path(name) / "study.toml"
        lines = [
            'name = "plans"',
            f"models = {[f'random:test_resnet?seed={i}&size=32' for i in range(models)]}",
            f"datasets = {[f'procedural:shapes-count?test=20&train={24 + i}&val=6' for i in range(datasets)]}",
            "[benchmarks.probe]\nseeds = [1]",
        ]
        study.write_text("\n".join(lines))
        words = ["run", str(study), "--dry-run", "--home", str(home)]
        seconds, peak = ask(home, ("from unseen.cli import main", f"main({words!r})"))
    say(
        f"--dry-run of {models:,} models x {datasets} datasets",
        f"{seconds:.1f} CPU s, {peak:.0f} MB",
        "30 s",
        seconds < 30,
    )


def listing(entries: int) -> None:
    """Measure `unseen features ls` of a store with many entries in a new process."""
    from results import ask
    from unseen.features.manifest import _checksum
    from unseen.features.part import PartRows

    with tempfile.TemporaryDirectory() as name:
        home = Path(name)
        key = FeatureKey("m", "w", "pooled", Preprocessing(size=32), "fp32", "torch", "d", "train", "f")
        store = FeatureStore(home / "features")
        with store.writer(key, total=6, part_size=6) as writer:
            writer.write(PartRows(0, np.ones((6, 4), np.float32), np.arange(6) % 2, np.arange(6)))
            writer.finish()
        (first,) = (entry.path for entry in store.entries())
        manifest = json.loads((first / "manifest.json").read_bytes())
        for i in range(1, entries):
            other = replace(key, model=f"m{i // 100}", dataset=f"d{i % 100}")
            folder = home / "features" / other.model / other.dataset / key.split / other.digest
            folder.mkdir(parents=True)
            values = {**manifest, "key": other.to_dict(), "digest": other.digest}
            (folder / "manifest.json").write_text(json.dumps({**values, "sha256": _checksum(values)}))
            for path in first.iterdir():
                if path.name != "manifest.json":
                    os.link(path, folder / path.name) if i % 30_000 else shutil.copy(path, folder / path.name)
        words = ["features", "ls", "--home", str(home)]
        seconds, peak = ask(home, ("from unseen.cli import main", f"assert not main({words!r})"))
    say(f"listing a store of {entries:,} entries", f"{seconds:.1f} CPU s, {peak:.0f} MB", "5 s", seconds < 5)


def scan(images: int) -> None:
    """Measure the scan of a folder of many images, 1,000 classes, in a new process."""
    from results import ask

    with tempfile.TemporaryDirectory() as name:
        root = Path(name) / "images"
        for i in range(1000):
            folder = root / f"class{i:04d}"
            folder.mkdir(parents=True)
            first = folder / "0.jpg"
            first.write_bytes(b"x")
            for j in range(1, images // 1000):
                os.link(first, folder / f"{j}.jpg")
        opened = f"data = load_dataset('folder:{root}')\nassert sum(map(len, data.splits.values())) == {images}"
        seconds, peak = ask(Path(name), ("from unseen.data import load_dataset", opened))
    say(f"scan of {images:,} images", f"{seconds:.1f} CPU s, {peak:.0f} MB", "1500 MB", peak < 1500)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="*", metavar="PART", help=f"some of {', '.join(PARTS)}")
    parser.add_argument("--images", type=int, default=512)
    parser.add_argument("--cells", type=int, default=10_000)
    parser.add_argument("--results", type=int, default=100_000)
    parser.add_argument("--models", type=int, default=1000)
    parser.add_argument("--entries", type=int, default=100_000)
    parser.add_argument("--scanned", type=int, default=2_000_000)
    given = parser.parse_args()
    asked = given.what or PARTS
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    if "extraction" in asked:
        extraction(given.images)
    if "parts" in asked:
        parts()
    if "overhead" in asked:
        overhead("local", 6.0, 500, workers=1)
        overhead("local", 6.0, 500, workers=2)
    if "dask" in asked:
        overhead("dask", 30.0, 300, workers=2)
    if "cells" in asked:
        cells(given.cells)
    if "results" in asked:
        results(given.results)
    if "plans" in asked:
        plans(given.models)
    if "listing" in asked:
        listing(given.entries)
    if "scan" in asked:
        scan(given.scanned)
    SAID.show()


if __name__ == "__main__":
    main()
