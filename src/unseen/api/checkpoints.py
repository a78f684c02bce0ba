"""One call for one question, over the same studies that files and commands describe."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import Any

from unseen.backbones.load import check_backbone, resolve_model
from unseen.benchmarks.rank.answer import CheckpointRanking, answer
from unseen.benchmarks.rank.budget import sample_within
from unseen.benchmarks.rank.protocol import RankBenchmark
from unseen.benchmarks.workbench import Workbench
from unseen.core.errors import UnseenError, UsageError
from unseen.core.files import home as home_folder
from unseen.core.identity import parameters_of
from unseen.core.records import Result
from unseen.data import Dataset, load_dataset
from unseen.engines import Engine
from unseen.features import Extraction, Progress
from unseen.ranking.cards import find_score
from unseen.study import Study, run_study, write_page


def rank_checkpoints(
    data: str | Dataset,
    models: Sequence[str],
    *,
    top: int = 1,
    budget: float | None = None,
    name: str = "rank",
    home: Path | str | None = None,
    how: Extraction | None = None,
    engine: Engine | None = None,
    progress: Progress | None = None,
    report: Path | bool = True,
    **options: Any,
) -> CheckpointRanking:
    """Rank checkpoints for a labelled set, best first: a study of the rank benchmark, read as one answer.

    A checkpoint that cannot be had does not stop the others: it is in the answer with its reason.

    Args:
        data: a dataset's name, such as "folder:photos", or what `load_dataset` made of one.
        models: names of checkpoints; one that stands twice is taken once.
        top: how many checkpoints the recommendation names.
        budget: seconds for the whole; images are sampled, by class, to fit.
        name: results are filed under it.
        home: where features and results are kept.
        how: settings of the extraction.
        engine: where the work is done; this process by default.
        progress: told of extractions in this process.
        report: where to write the page, `HOME/reports/NAME.html` by default; False for none.
        **options: of `RankBenchmark`: `scores`, `layers`, `split`, `sample`, `resamples`, `seed`.

    Raises:
        UsageError: no model, an unknown score or option, or a score that needs training.
        DataError: fewer than two classes, or no more images than classes.
    """
    began = perf_counter()
    study, notes = rank_study(data, models, name=name, how=how, **options)
    bench = Workbench(home_folder(home), how=study.extraction, progress=progress)
    benchmark, (dataset,) = _benchmark(study), study.datasets
    benchmark.check(bench.dataset(dataset))
    lost = _lost(study, bench)
    able = tuple(model for model in study.models if model not in lost)
    if budget is not None:
        if benchmark.sample:
            raise UsageError("give a budget or a sample, not both: a budget chooses the sample.")
        sample, note = sample_within(budget, bench, dataset, benchmark.split, able, began=began)
        benchmark = replace(benchmark, sample=sample)
        notes += [note] if note else []
    found: dict[str, list[Result]] = {}
    if able:
        study = replace(study, models=able, benchmarks=[benchmark])
        for result in run_study(study, engine=engine, report=False, bench=bench).results:
            found.setdefault(result.cell.model, []).append(result)
    for model, reason in lost.items():
        # No weights, so no revision of them; else these are the cells that there would have been.
        more = {"extraction": parameters_of(study.extraction)}
        cells = [replace(c, parameters={**c.parameters, **more}) for c in benchmark.plan(model, dataset)]
        revision = f"+{bench.dataset(dataset).revision}"
        found[model] = [Result(replace(cell, revision=revision), error=reason) for cell in cells]
    results = [result for own in found.values() for result in own]
    ranking = answer(results, top=top, notes=notes)
    if report is not False:
        page = write_page(results, study, bench, report if isinstance(report, Path) else None)
        ranking = replace(ranking, page=str(page))
    return replace(ranking, seconds=perf_counter() - began)


def rank_study(
    data: str | Dataset, models: Sequence[str], *, name: str = "rank", how: Extraction | None = None, **options: Any
) -> tuple[Study, list[str]]:
    """The study behind a ranking, and a note for every model that stood twice."""
    if not models:
        raise UsageError("name at least one checkpoint to rank, such as packaged:efficientnet-lite0 or timm:resnet50.")
    resolved = [resolve_model(model, Path()) for model in models]
    doubled = [model for i, model in enumerate(resolved) if model in resolved[:i]]
    study = Study(
        name,
        tuple(dict.fromkeys(resolved)),
        (_dataset_name(data),),
        {"rank": options},
        extraction=how or Extraction(),
        title="Which checkpoint to fine-tune",
        source="unseen rank",
    )
    for score in _benchmark(study).score_names():
        if find_score(score).needs_training:
            raise UsageError(
                f"{score} trains every checkpoint, which ranking is there to avoid. Choose scores that work on "
                "features; unseen ls scores lists them."
            )
    return study, [f"{model} was named twice and is ranked once" for model in doubled]


def _benchmark(study: Study) -> RankBenchmark:
    (benchmark,) = study.protocols
    assert isinstance(benchmark, RankBenchmark)
    return benchmark


def _dataset_name(data: str | Dataset) -> str:
    if isinstance(data, str):
        return data
    if load_dataset(data.id).revision != data.revision:
        raise UsageError(f"{data.id!r} names other images or labels than those given. Register them: register_dataset.")
    return data.id


def _lost(study: Study, bench: Workbench) -> dict[str, str]:
    """Models whose names or files are not to be had, with the reason, before anything is extracted."""
    found = {}
    for model in study.models:
        try:
            check_backbone(model)
            bench.revision(model, study.datasets[0])
        except UnseenError as error:
            found[model] = str(error)
    return found
