"""How a run gives its work away: features first, part by part; then groups of cells; then trainings.

Runs on one home share: each claims what it is about to do, and waits for what another has claimed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from unseen.backbones.names import RuntimeName
from unseen.benchmarks.workbench import Workbench
from unseen.core.errors import DiskFullError
from unseen.core.identity import canonical_json
from unseen.core.records import Cell, Result
from unseen.engines import Engine
from unseen.features import NoProgress, Progress
from unseen.results import ResultsDatabase
from unseen.results.environment import Speeds, Stage
from unseen.results.inbox import Claims, Inbox
from unseen.work import (
    Done,
    Shard,
    ShardDone,
    Survey,
    Task,
    describe_features,
    do_piece,
    evaluate,
    extract_shard,
    failures,
    torch_threads,
)

#: Seconds between two looks at what another run is doing.
PAUSE = 0.5
#: Most parts in one piece of work, and pieces for each worker that there should be: so that all end at about one time.
_MOST_PARTS, _EACH = 8, 4


@dataclass
class Run:
    """A run at work: what it works with, and whom it tells.

    Attributes:
        since: `ResultsDatabase.last` when it was planned.
        file: called with each result; once per cell counts.
        on_piece: called with how many trainings are done, and of how many.
        filed: ids of cells that have been filed.
    """

    engine: Engine
    bench: Workbench
    database: ResultsDatabase
    claims: Claims
    inbox: Inbox
    study: str
    since: int
    file: Callable[[Result], None]
    filed: set[str]
    on_piece: Callable[[int, int], None] | None = None
    waited: bool = False
    spent: dict[str, float] = field(default_factory=dict)
    seconds: dict[tuple[str, str], list[float]] = field(default_factory=dict)
    watch: Watch = field(default_factory=lambda: Watch())

    def drain(self, tasks: Sequence[Task]) -> None:
        """Run the tasks; what came one by one is filed already, and what a task returns leaves nothing out.

        Groups that fall into pieces come last: their pieces first, as many side by side as the engine can, then the
        rest.
        """
        before, self.bench.progress = self.bench.progress, self.watch
        self.watch.inner = before
        try:
            self._drain(tasks)
        finally:
            self.bench.progress = before

    def _drain(self, tasks: Sequence[Task]) -> None:
        shared = self.engine.slots > 1 and self.engine.shares(self.bench.home)
        if self.engine.slots > 1:
            with self._timed("extraction"):
                tasks = self._extract([replace(task, shared=shared) for task in tasks])
        whole: list[Task] = []
        in_pieces: list[Task] = []
        for task in tasks:
            (in_pieces if self._pieces(task) else whole).append(task)
        here = not shared and self.engine.slots > 1  # workers that do not see the home have no features to evaluate
        with self._timed("cells"):
            self._evaluate(whole, here=here)
        with self._timed("trainings"):
            self._do_pieces(in_pieces, here=here)
            self._evaluate(in_pieces, here=here)

    def stages(self) -> tuple[Stage, ...]:
        """What each stage took, which the home learns from."""
        speeds, watch = Speeds(self.bench.home), self.watch
        for model, (images, seconds) in watch.models.items():
            kept = next(self.bench.store.manifests(model), None)
            speeds.learn_model(model, images, seconds, kept.dim if kept is not None else 0)
        for (benchmark, dataset), each in self.seconds.items():
            speeds.learn_cells(benchmark, dataset, each)
        speeds.save()
        images, inside = sum(count for count, _ in watch.models.values()), 0.0
        if self.engine.slots == 1:
            inside = sum(seconds for _, seconds in watch.models.values())
        whole = sum(self.spent.values()) - self.spent.get("extraction", 0.0)
        return (
            Stage("features", f"{images:,} images", self.spent.get("extraction", 0.0) + inside),
            Stage("cells", f"{sum(map(len, self.seconds.values())):,} cells", max(whole - inside, 0.0)),
        )

    # ---- features ----------------------------------------------------------------------------------------------------

    def _extract(self, tasks: list[Task]) -> list[Task]:
        """Extract what the groups will read, all workers at one split after the other; the tasks as they go on."""
        places: dict[tuple[str, ...], Shard] = {}
        runtimes: dict[str, RuntimeName] = {}
        needs = {"GPU": 1.0} if tasks and tasks[0].extraction.device in ("auto", "cuda") else {}
        for survey in self.engine.map(describe_features, tasks, lost=lambda task, _reason: Survey(task), needs=needs):
            for place, found in enumerate(survey.found):
                name = tuple(sorted(key.digest for key in found.keys.values()))
                size = survey.task.extraction.part_size
                places.setdefault(name, Shard(survey.task, place, found.keys, found.total, size, ()))
                runtimes[survey.task.cells[0].id] = found.runtime
        order = {task.cells[0].id: number for number, task in enumerate(tasks)}
        wanted = sorted(places.values(), key=lambda shard: (order[shard.task.cells[0].id], shard.place))
        if wanted:
            self._extract_all(wanted, needs)
        return [replace(task, runtime=runtimes.get(task.cells[0].id, "")) for task in tasks]

    def _extract_all(self, wanted: list[Shard], needs: dict[str, float]) -> None:
        progress = self.watch.inner  # how long each model takes the workers say themselves
        total, left = sum(shard.total for shard in wanted), sum(shard.images for shard in self._missing(wanted))
        if not left:
            return
        title = f"{len(wanted)} {'split' if len(wanted) == 1 else 'splits'} by {self.engine.slots} workers"
        progress.begin(title, total, total - left)
        failed: dict[str, str] = {}
        try:
            while shards := [each for each in self._missing(wanted) if not any(w in failed for w in each.work())]:
                count = 0
                for done in self.engine.map(extract_shard, self._claimed(shards), lost=_lost_shard, needs=needs):
                    count += 1
                    self._keep(done)
                    failed |= dict.fromkeys(done.shard.work(), done.error) if done.error else {}
                    self.claims.let_go(done.shard.work())
                    if not done.error:
                        key = next(iter(done.shard.keys.values()))
                        self.watch.learn(key.model, done.shard.images, done.seconds)
                    progress.advance(done.shard.images if not done.error else 0, done.skipped)
                if not count:
                    self._wait(title)
        finally:
            progress.end()
        for reason in dict.fromkeys(failed.values()):
            progress.note(f"some features could not be extracted: {reason}")

    def _missing(self, wanted: list[Shard]) -> list[Shard]:
        """What of the features is not in the store, in shards; entries that lack nothing but their end are closed."""
        from unseen.features.extraction import keep_part

        found: list[Shard] = []
        for whole in wanted:
            sizes: dict[int, set[int]] = {}
            for key in whole.keys.values():
                size, starts = self.bench.store.missing(key, total=whole.total, part_size=whole.part_size)
                sizes.setdefault(size, set()).update(starts)
            for size, missing in sizes.items():
                if not missing and not all(map(self.bench.store.holds, whole.keys.values())):
                    keep_part(
                        self.bench.store, whole.keys, None, total=whole.total, part_size=size, provenance={"images": 0}
                    )
                starts = sorted(missing)
                length = min(max(len(starts) // (_EACH * self.engine.slots), 1), _MOST_PARTS)
                found += [
                    replace(whole, part_size=size, starts=tuple(starts[i : i + length]))
                    for i in range(0, len(starts), length)
                ]
        return found

    def _claimed(self, shards: Sequence[Shard]) -> Iterator[Shard]:
        for shard in shards:
            mine = set(self.claims.take(shard.work()))
            starts = tuple(start for start, work in zip(shard.starts, shard.work(), strict=True) if work in mine)
            if starts:
                yield replace(shard, starts=starts)

    def _keep(self, done: ShardDone) -> None:
        """Put away what a worker has sent that does not see the store."""
        from unseen.features.extraction import keep_part

        for keys, part, provenance in done.sent:
            shard = done.shard
            keep_part(self.bench.store, keys, part, total=shard.total, part_size=shard.part_size, provenance=provenance)

    # ---- cells -------------------------------------------------------------------------------------------------------

    def _evaluate(self, tasks: Sequence[Task], *, here: bool = False) -> None:
        left = list(tasks)
        while left:
            held: list[Task] = []
            count = 0
            for done in self._map(evaluate, self._free(left, held), self._lost, here=here):
                count += 1
                for result in done.results:
                    self.file(result)
                    if result.ok:
                        name = result.cell.benchmark, result.cell.dataset
                        self.seconds.setdefault(name, []).append(result.seconds)
                for note in done.notes:
                    self.bench.progress.note(note)
                self.claims.let_go(cell.id for cell in done.task.cells)
            left = [task for task in map(self._without_arrived, held) if task.cells]
            if left and not count:
                self._wait(f"{sum(len(task.cells) for task in left)} cells")

    def _free(self, tasks: Sequence[Task], held: list[Task]) -> Iterator[Task]:
        """Claim the cells of each task when its turn comes; what others are at goes to `held`."""
        for task in tasks:
            mine = set(self.claims.take([cell.id for cell in task.cells]))
            if others := tuple(cell for cell in task.cells if cell.id not in mine):
                held.append(replace(task, cells=others))
            # Only now: whoever let go of a cell has filed it before.
            claimed = replace(task, cells=tuple(cell for cell in task.cells if cell.id in mine))
            todo = self._without_arrived(claimed)
            if len(todo.cells) < len(claimed.cells):
                self.claims.let_go({cell.id for cell in claimed.cells} - {cell.id for cell in todo.cells})
            if todo.cells:
                yield replace(todo, owner=self.claims.owner)

    def _without_arrived(self, task: Task) -> Task:
        arrived = self.database.arrived(task.cells, self.since)
        return replace(task, cells=tuple(cell for cell in task.cells if cell.id not in arrived)) if arrived else task

    def _lost(self, task: Task, reason: str) -> Done:
        """A group whose worker died too often: what it left is filed, the rest fails for that reason."""
        self.collect()
        left: list[Cell] = [cell for cell in task.cells if cell.id not in self.filed]
        return Done(task, tuple(failures(left, f"{reason}.")))

    def collect(self) -> None:
        """File what workers have left."""
        self.inbox.collect(self.study, self.file, self.mine)

    def mine(self, owner: str) -> bool:
        """Whether what a worker of that run has left is for this one to file: its own, and that of runs that died."""
        return owner == self.claims.owner or not self.claims.lives(owner)

    # ---- trainings ---------------------------------------------------------------------------------------------------

    def _do_pieces(self, tasks: Sequence[Task], *, here: bool) -> None:
        tried: set[str] = set()
        while pieces := {_name(p): p for task in tasks for p in self._pieces(task) if _name(p) not in tried}:
            mine = self.claims.take(list(pieces))
            chosen = [pieces[name] for name in mine]
            tried.update(mine)
            for done, _ in enumerate(self._map(do_piece, chosen, lambda _task, _reason: None, here=here), start=1):
                if self.on_piece is not None:
                    self.on_piece(done, len(chosen))
            self.claims.let_go(mine)
            if not mine:
                self._wait(f"{len(pieces)} trainings")

    def _pieces(self, task: Task) -> list[Task]:
        """What of a group can be done now by any worker; whatever goes wrong here, its evaluation will say."""
        try:
            found = task.benchmark.pieces(task.cells, self.bench)
        except DiskFullError:
            raise
        except Exception:  # noqa: BLE001 - it becomes the reason of the group's cells
            return []
        return [replace(task, piece=piece, threads=torch_threads()) for piece in found]

    # ---- both --------------------------------------------------------------------------------------------------------

    def _map(self, function: Callable[[Task], Any], tasks: Any, lost: Callable[[Task, str], Any], *, here: bool) -> Any:
        return map(function, tasks) if here else self.engine.map(function, tasks, lost=lost)

    def _wait(self, what: str) -> None:
        if not self.waited:
            self.bench.progress.waiting(what)
            self.waited = True
        time.sleep(PAUSE)

    def _timed(self, stage: str) -> _Timed:
        return _Timed(self.spent, stage)


class Watch:
    """Hands on what it is told of extractions, and counts images and seconds by model."""

    def __init__(self) -> None:
        self.inner: Progress = NoProgress()
        self.models: dict[str, tuple[int, float]] = {}
        self._now = "", 0, 0.0

    def learn(self, model: str, images: int, seconds: float) -> None:
        before = self.models.get(model, (0, 0.0))
        self.models[model] = before[0] + images, before[1] + seconds

    def begin(self, title: str, total: int, done: int) -> None:
        self._now = title.partition(" on ")[0], 0, time.perf_counter()
        self.inner.begin(title, total, done)

    def advance(self, images: int, skipped: int) -> None:
        self._now = self._now[0], self._now[1] + images, self._now[2]
        self.inner.advance(images, skipped)

    def waiting(self, title: str) -> None:
        self.inner.waiting(title)

    def note(self, text: str) -> None:
        self.inner.note(text)

    def end(self) -> None:
        model, images, began = self._now
        self.learn(model, images, time.perf_counter() - began)
        self.inner.end()


class _Timed:
    """Adds the time of a block to a stage."""

    def __init__(self, spent: dict[str, float], stage: str) -> None:
        self.spent, self.stage = spent, stage

    def __enter__(self) -> None:
        self.began = time.perf_counter()

    def __exit__(self, *_: object) -> None:
        self.spent[self.stage] = self.spent.get(self.stage, 0.0) + time.perf_counter() - self.began


def _lost_shard(shard: Shard, reason: str) -> ShardDone:
    return ShardDone(shard, error=reason)


def _name(task: Task) -> str:
    return canonical_json([task.cells[0].id, task.benchmark.name, dict(task.piece)])
