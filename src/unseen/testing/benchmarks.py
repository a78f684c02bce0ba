"""Contract suite of benchmarks: identity by construction, one result per cell, reproducible numbers."""

from __future__ import annotations

import dataclasses
import json
import math
import pickle
import string
from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, get_type_hints

from unseen.benchmarks.benchmark import Benchmark, make_benchmark
from unseen.benchmarks.workbench import Workbench
from unseen.core.errors import UnseenError
from unseen.core.identity import choices_of
from unseen.core.records import Cell, Result
from unseen.core.registry import load_object
from unseen.data.dataset import CLASS, NUMBER, SEVERAL
from unseen.results.info import COMMON, is_bound
from unseen.testing.claims import claim

#: Metrics that are measured with a clock.
_TIMES = ("seconds",)


def check_benchmark(
    name: str,
    *,
    model: str,
    dataset: str,
    home: Path,
    options: Mapping[str, object] | None = None,
    changes: Mapping[str, object] | None = None,
    evaluate: bool = True,
) -> None:
    """Check a benchmark that is registered.

    Args:
        name: in the registry.
        model, dataset: to plan and evaluate, such as "random:test_resnet?size=32" and a small folder.
        home: an empty folder to work in.
        options: under which it is quick.
        changes: another value for each option whose type does not suggest one: files, datasets, free words. Where it
            needs other options beside it, all of them: `{"patches": {"patches": True, "adaptation": "linear"}}`.
        evaluate: whether to evaluate its cells, twice.
    """
    benchmark = make_benchmark(name, dict(options or {}))
    what = f"benchmark {name!r}"
    claim(benchmark.name == name, f"{what}: its class calls itself {benchmark.name!r}")
    typed = all(not isinstance(value, list | dict | set) for value in vars(benchmark).values())
    claim(typed, f"{what}: its options are not checked: a __post_init__ of its own must call super().__post_init__()")
    _check_info(benchmark, model, dataset)
    _check_plan(benchmark, model, dataset)
    _check_options(benchmark, model, dataset, dict(options or {}), dict(changes or {}))
    if evaluate:
        _check_evaluation(benchmark, model, dataset, home)


def _check_info(benchmark: Benchmark, model: str, dataset: str) -> None:
    """Check that the metadata is complete and agrees with the cells."""
    info = benchmark.info
    what = f"benchmark {benchmark.name!r}: its info (unseen.results.info.BenchmarkInfo)"
    for field in ("title", "question", "sentence", "metrics", "targets", "section"):
        claim(bool(getattr(info, field)), f"{what} has no {field}")
    claim(not info.sentence.rstrip().endswith("."), f"{what}: the full stop of sentence is added later")
    for field in ("citations", "metrics", "columns", "targets"):
        claim(isinstance(getattr(info, field), tuple), f"{what}: {field} is not a tuple")
    strange = set(info.targets) - {CLASS, SEVERAL, NUMBER}
    claim(not strange, f"{what}: targets has {', '.join(sorted(map(repr, strange)))}")
    section = None
    with suppress(ImportError, AttributeError, ValueError):
        section = load_object(info.section)
    claim(callable(section), f"{what}: section {info.section!r} is not a function")
    for cell in benchmark.plan(model, dataset):
        missing = {n for _, n, _, _ in string.Formatter().parse(info.sentence) if n} - set(cell.parameters)
        claim(not missing, f"{what}: sentence names {', '.join(sorted(missing))}, which no cell has as a parameter")
        options = set(info.cell_options(cell.parameters)) - set(cell.parameters)
        strange = options - {field.name for field in dataclasses.fields(benchmark)}
        claim(not strange, f"{what}: cell_options gives {', '.join(sorted(strange))}, which is not an option")
        cited = info.cell_citations(cell.parameters)
        claim(all(isinstance(each, str) for each in cited), f"{what}: cell_citations gives something else than texts")


def _check_metrics(benchmark: Benchmark, results: Collection[Result]) -> None:
    """Check that the metadata describes the metrics of results."""
    what = f"benchmark {benchmark.name!r}: its info (unseen.results.info.BenchmarkInfo)"
    found = {name for result in results for name in result.metrics}
    described = {*COMMON, *_TIMES, *(style.name for style in benchmark.info.metrics)}
    plain = {name for name in found if not is_bound(name)} - described
    claim(not plain, f"{what}: metrics does not describe {', '.join(sorted(plain))}")
    strange = set(benchmark.info.columns) - described
    claim(not strange, f"{what}: columns has {', '.join(sorted(strange))}, which metrics does not describe")
    for result in results:
        chance = benchmark.info.chance(result.details)
        claim(chance is None or math.isfinite(chance), f"{what}: chance gives {chance}")


def _check_plan(benchmark: Benchmark, model: str, dataset: str) -> None:
    what = f"benchmark {benchmark.name!r}"
    cells = benchmark.plan(model, dataset)
    claim(bool(cells), f"{what} plans no cell of {model} on {dataset}")
    claim(len({cell.id for cell in cells}) == len(cells), f"{what}: two cells have one id")
    claim(cells == benchmark.plan(model, dataset), f"{what}: two plans differ")
    copy = pickle.loads(pickle.dumps(benchmark))  # noqa: S301 - our own bytes
    claim(copy == benchmark, f"{what} does not survive a pickle, so no engine can take it to a worker")
    claim(cells == copy.plan(model, dataset), f"{what}: after a pickle it plans other cells")
    for cell in cells:
        stored = Cell(**json.loads(json.dumps(cell.to_dict())))
        claim(stored.id == cell.id, f"{what}: {cell} is not made of JSON values")


def _check_options(
    benchmark: Benchmark, model: str, dataset: str, options: dict[str, object], changes: dict[str, object]
) -> None:
    """Check that every option changes the ids, or is declared neutral or idle and does not."""
    hints = get_type_hints(type(benchmark), include_extras=True)
    for field in dataclasses.fields(benchmark):
        what = f"benchmark {benchmark.name!r}, option {field.name!r}"
        neutral = field.metadata.get("neutral", "")
        other = changes.get(field.name, None if neutral else another(hints[field.name], getattr(benchmark, field.name)))
        claim(bool(neutral) or other is not None, f"{what}: give another value for it in `changes`")
        if other is None:
            continue
        beside = dict(other) if isinstance(other, Mapping) else {field.name: other}
        value = beside.pop(field.name)
        try:
            plain = make_benchmark(benchmark.name, {**options, **beside})
            changed = make_benchmark(benchmark.name, {**options, **beside, field.name: value})
        except UnseenError as error:
            raise AssertionError(f"{what} refuses {value!r}: give another value in `changes` ({error})") from error
        claim(plain != changed, f"{what}: {value!r} in `changes` is the value that it has already")
        before, after = ({cell.id for cell in each.plan(model, dataset)} for each in (plain, changed))
        idle = field.name in plain.idle() and field.name in changed.idle()
        if idle and plain.points(dataset) == changed.points(dataset):
            claim(before == after, f"{what} is idle beside the other options, but changes the ids")
        elif neutral:
            claim(bool(before & after), f"{what} is declared neutral ({neutral}), but changes the ids")
        else:
            claim(before != after, f"{what} may change numbers, but {value!r} has the same ids: a result is stale")


def another(hint: Any, value: Any) -> Any:
    """Return another value of the same type, or None if the type suggests none."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + 1 if isinstance(value, int) else value / 2 or None
    several = value if isinstance(value, tuple) else ()
    if len(several) > 1:
        return list(several[:-1])
    unused = [choice for choice in choices_of(hint) if choice not in (value, *several)]
    return None if not unused else [*several, unused[0]] if isinstance(value, tuple) else unused[0]


def _check_evaluation(benchmark: Benchmark, model: str, dataset: str, home: Path) -> None:
    what = f"benchmark {benchmark.name!r}"
    first, again = (_evaluate(benchmark, model, dataset, home / name) for name in ("first", "second"))
    cells = benchmark.plan(model, dataset)
    claim(len(first) == len(cells), f"{what}: {len(cells)} cells gave {len(first)} results; each gives one")
    for key, result in first.items():
        claim(result.ok, f"{what}: {dict(result.cell.parameters)} failed: {result.error}")
        claim(bool(result.metrics), f"{what}: a result has no metrics")
        kept = Result.from_dict(json.loads(json.dumps(result.to_dict())))
        claim(kept.cell.id == key, f"{what}: a result is not made of JSON values")
        for metric in result.metrics.keys() - set(_TIMES):
            value, other = result.metrics[metric], again[key].metrics.get(metric)
            same = repr(value) == repr(other)  # NaN is NaN
            claim(same, f"{what}: {metric} is {value}, and {other} when the cell is evaluated again")
    _check_metrics(benchmark, first.values())


def _evaluate(benchmark: Benchmark, model: str, dataset: str, home: Path) -> dict[str, Result]:
    """Return results by cell id, computed in a home folder of their own."""
    bench = Workbench(home)
    revision = bench.revision(model, dataset, benchmark.other_datasets())
    benchmark.check(bench.dataset(dataset))
    cells = [dataclasses.replace(cell, revision=revision) for cell in benchmark.plan(model, dataset)]
    found: dict[str, Result] = {}
    for result in benchmark.evaluate(cells, bench):
        claim(result.cell in cells, f"benchmark {benchmark.name!r} returns a result of a cell that was not requested")
        claim(result.cell.id not in found, f"benchmark {benchmark.name!r} gives two results of one cell")
        found[result.cell.id] = result
    return found
