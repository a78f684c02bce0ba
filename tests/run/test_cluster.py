"""A real scheduler and three workers on loopback, killed one after the other: results and store of a local run."""

from __future__ import annotations

import sqlite3
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from tests.background import Ended, Running, start_main

from unseen.engines import Engine
from unseen.results import ResultsDatabase

pytest.importorskip("distributed")

HERE = Path(__file__).parent
PATIENCE = 400.0
ANIMALS = (
    "cat",
    "dog",
    "horse",
    "cow",
    "sheep",
    "goat",
    "lion",
    "wolf",
    "mouse",
    "otter",
    "bat",
    "seal",
    "fox",
    "bear",
)


class Cluster:
    """A scheduler and workers, each a process of its own that can be killed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.file = folder / "scheduler.json"
        self.processes: list[Running] = []

    def start(self, main: Callable[[list[str]], object], *arguments: object) -> Running:
        self.processes.append(start_main(self.folder, main, *arguments))
        return self.processes[-1]

    def scheduler(self) -> Running:
        self.file.unlink(missing_ok=True)
        arguments = ("--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--scheduler-file", self.file)
        running = self.start(run_scheduler, *arguments)
        until(self.file.is_file)
        return running

    def workers(self, count: int) -> list[Running]:
        arguments = ("--scheduler-file", self.file, "--nthreads", "1", "--no-nanny", "--no-dashboard")
        return [self.start(run_worker, *arguments) for _ in range(count)]

    def client(self, home: Path, images: Path, where: str = "") -> Running:
        return self.start(run_client, home, images, where or self.file)

    def run_client(self, home: Path, images: Path, where: str = "") -> Ended:
        return self.client(home, images, where).wait(PATIENCE)

    def stop(self) -> None:
        for running in reversed(self.processes):
            running.process.kill()
            running.process.join()


def run_scheduler(arguments: list[str]) -> None:
    from distributed.cli.dask_scheduler import main

    sys.path[:0] = [str(HERE), str(HERE.parent)]  # to find the benchmark of the client
    main(arguments)


def run_worker(arguments: list[str]) -> None:
    from distributed.cli.dask_worker import main

    sys.path[:0] = [str(HERE), str(HERE.parent)]
    main(arguments)


def run_client(arguments: list[str]) -> int:
    sys.path[:0] = [str(HERE), str(HERE.parent)]
    from cluster_client import main

    return main(*arguments)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    made = Cluster(tmp_path)
    try:
        yield made
    finally:
        made.stop()


@pytest.fixture
def world(tmp_path: Path, make_folder: Callable[..., Path]) -> Path:
    """Images of animals, an ontology of them, and those that were seen."""
    folder = tmp_path / "world"
    images = make_folder(folder / "images", classes=len(ANIMALS), per_class=40)
    for label, name in enumerate(ANIMALS):
        (images / f"class{label}").rename(images / name)
    homes = ["near"] * 8 + ["middle"] * 3 + ["far"] * 3
    edges = ["child,parent", "near,root", "middle,root", "far,root"]
    edges += [f"{name},{home}" for name, home in zip(ANIMALS, homes, strict=True)]
    (folder / "ontology.csv").write_text("\n".join([*edges, *(f"seen{i},near" for i in range(4))]))
    (folder / "seen.txt").write_text("\n".join(ANIMALS[:4]))
    return folder


def until(what: Callable[[], object], patience: float = PATIENCE) -> None:
    deadline = time.monotonic() + patience
    while not what():
        assert time.monotonic() < deadline, "it did not come about"
        time.sleep(0.02)


def parts(home: Path) -> int:
    return len(list(home.rglob("part-*.safetensors")))


def scores(home: Path) -> dict[str, tuple[str, dict[str, float]]]:
    with suppress(Exception), ResultsDatabase(home / "results.sqlite", read_only=True) as database:
        return {r.cell.id: (r.error, dict(r.metrics)) for r in database.latest()}
    return {}


def store(home: Path) -> dict[str, bytes]:
    root = home / "features"
    files = [path for path in root.rglob("*") if path.is_file() and ".locks" not in path.parts]
    return {str(p.relative_to(root)): p.read_bytes() for p in files if p.name != "provenance.json"}


@pytest.mark.slow
def test_after_any_kill_the_results_are_those_of_a_local_run(cluster: Cluster, world: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    assert cluster.run_client(tmp_path / "alone", world, "local").code == 0
    expected, whole = scores(tmp_path / "alone"), parts(tmp_path / "alone")
    assert {error for error, _ in expected.values()} == {""}
    marks = len(list((world / "marks").iterdir()))

    first = cluster.scheduler()
    workers = cluster.workers(3)
    running = cluster.client(home, world)
    until(lambda: parts(home) or not running.is_running)
    workers[0].process.kill()
    assert parts(home) < whole, "it was at work on the features"
    until(lambda: len(list((world / "marks").iterdir())) > marks or not running.is_running)
    workers[1].process.kill()
    assert len(scores(home)) < len(expected), "it was at work on the cells"
    time.sleep(0.2)
    first.process.kill()
    ended = running.wait(PATIENCE)
    assert ended.code == 2, ended
    assert "the Dask scheduler is gone" in ended.output
    assert "run the same command to resume" in ended.output
    assert "Traceback" not in ended.error
    workers[2].process.kill()

    cluster.scheduler()
    cluster.workers(1)
    before = len(scores(home))
    assert before < len(expected)
    running = cluster.client(home, world)
    until(lambda: len(scores(home)) > before or not running.is_running)
    running.process.kill()
    running.wait()
    kept = scores(home)
    assert kept.items() <= expected.items(), "the stored results are right"

    assert cluster.run_client(home, world).code == 0
    assert scores(home) == expected
    assert store(home) == store(tmp_path / "alone")
    assert not list((home / "leases").iterdir())
    with sqlite3.connect(home / "results.sqlite") as database:
        assert database.execute("SELECT count(*) FROM result WHERE error != ''").fetchone() == (0,)


def test_workers_of_another_version_are_refused() -> None:
    from unseen.core.errors import UsageError
    from unseen.run import dask

    mine = dask.versions()
    assert set(mine) == {"unseen", "torch", "numpy"}
    dask.prepare_worker(mine)
    with pytest.raises(UsageError, match=r"has torch .*, the process of the run has 0\.1\. .*same environment"):
        dask.prepare_worker({**mine, "torch": "0.1"})


@pytest.mark.slow
def test_a_cluster_with_one_worker_of_another_version(cluster: Cluster, world: Path, tmp_path: Path) -> None:
    """A worker whose numpy says it is another one."""
    cluster.scheduler()
    other = tmp_path / "other" / "numpy-0.0.1.dist-info"
    other.mkdir(parents=True)
    (other / "METADATA").write_text("Metadata-Version: 2.1\nName: numpy\nVersion: 0.0.1\n")
    sys.path.insert(0, str(other.parent))
    try:
        cluster.workers(1)
    finally:
        sys.path.remove(str(other.parent))
    ended = cluster.run_client(tmp_path / "home", world)
    assert ended.code == 2, ended
    assert "has numpy 0.0.1, the process of the run has" in ended.output


@pytest.mark.slow
def test_without_a_shared_folder_features_are_sent_back(
    world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shared_engine: Callable[[str, int], Engine]
) -> None:
    """Workers on this machine see every folder, so the test makes the engine assume that they do not."""
    sys.path.insert(0, str(HERE))
    sys.path.insert(0, str(HERE.parent))
    from cluster_client import study

    from unseen.study import run_study

    asked = study(world)
    asked = type(asked)(asked.name, asked.models[:1], asked.datasets, asked.protocols[:1], extraction=asked.extraction)
    engine = shared_engine("dask", 2)
    monkeypatch.setattr(type(engine), "shares", lambda _self, _home: False)
    sent = run_study(asked, tmp_path / "sent", engine, report=False)
    here = run_study(asked, tmp_path / "here", report=False)
    assert not sent.failed
    assert [(r.cell.id, dict(r.metrics)) for r in sent.results] == [(r.cell.id, dict(r.metrics)) for r in here.results]
    assert store(tmp_path / "sent") == store(tmp_path / "here")
