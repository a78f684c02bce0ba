"""One call for one question, over the same studies that files and commands describe."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from unseen.backbones.load import check_backbone, expand_models, resolve_model
from unseen.benchmarks.rank.answer import answer, with_truth
from unseen.benchmarks.rank.candidates import CheckpointRanking
from unseen.benchmarks.rank.halving import (
    GROWTH,
    Dropped,
    Pilot,
    drop,
    first_size,
    is_worth_it,
    next_size,
    pilot,
    size_within,
    with_dropped,
)
from unseen.benchmarks.rank.protocol import DEFAULT_SCORES, RankBenchmark, affordable
from unseen.benchmarks.rank.scoring import EXPECTED
from unseen.benchmarks.rank.wording import points
from unseen.benchmarks.workbench import Workbench
from unseen.core.errors import CheckpointError, UnseenError, UsageError
from unseen.core.files import home as home_folder
from unseen.core.identity import parameters_of
from unseen.core.records import Result
from unseen.data import Dataset, load_dataset
from unseen.data.dataset import CLASS
from unseen.features import Extraction, Progress
from unseen.ranking.cards import find_score
from unseen.results.table import records_by_dataset
from unseen.run.execute import run_study
from unseen.run.executor import Engine
from unseen.run.report import make_study_report, report_path
from unseen.run.study import Study
from unseen.stats import kendall_tau

#: Dimensions that few networks exceed.
_WIDEST = 4096


def rank_checkpoints(
    data: str | Dataset,
    models: Sequence[str],
    *,
    top: int = 1,
    budget: float | None = None,
    halving: bool | None = None,
    finetune_top: int = 0,
    name: str = "rank",
    home: Path | str | None = None,
    how: Extraction | None = None,
    engine: Engine | None = None,
    progress: Progress | None = None,
    report: Path | bool = True,
    **options: Any,
) -> CheckpointRanking:
    """Rank checkpoints for a labelled set, best first: a study of the rank benchmark, read as one answer.

    A wrong name or an unreadable file is an error before any work. A checkpoint that is not available for another
    reason, such as a hub that cannot be reached, does not stop the others: it is in the answer with its reason.

    Args:
        data: a dataset's name, such as "folder:photos", or what `load_dataset` made of one.
        models: names of checkpoints; one that stands twice is taken once, "@FILE" is a list of them, one a line,
            "timm:*dino*" all that fit.
        top: how many checkpoints the recommendation names.
        budget: seconds for the whole; images are sampled, by class, to fit.
        halving: all candidates on a few images first, and only those that may be the best on all of them; by default
            where it saves time (five candidates and 600 images, or more).
        finetune_top: so many of the first are really fine-tuned, to confirm the order.
        name: results are filed under it.
        home: where features and results are kept.
        how: settings of the extraction; a precision other than fp32 is that of the rounds of halving before the last,
            and of all with a budget or without rounds.
        engine: where the work is done; this process by default.
        progress: told of extractions in this process.
        report: where to write the page, `HOME/reports/NAME.html` by default; False for none.
        **options: of `RankBenchmark`: `scores`, `layers`, `split`, `sample`, `resamples`, `seed` ...

    Raises:
        UsageError: no model, an unknown model, score or option.
        CheckpointError: a model file that does not exist or cannot be loaded.
        DataError: fewer than two classes, or no more images than classes.
    """
    began = perf_counter()
    study, notes = rank_study(data, models, name=name, how=how, **options)
    bench = Workbench(home_folder(home), how=study.extraction, progress=progress)
    (dataset,) = study.datasets
    images = bench.dataset(dataset)
    benchmark = _benchmark(study).suited(images)
    benchmark.check(images)
    if finetune_top:
        replace(benchmark, truth=True).check(images)
    lost = _lost(study, bench)
    able = tuple(model for model in study.models if model not in lost)
    notes += _headless(able, benchmark, bench)
    if "scores" not in options and benchmark.scores == DEFAULT_SCORES:
        cheap, told = _affordable(benchmark, bench, dataset, able)
        benchmark, notes = replace(benchmark, scores=cheap or (EXPECTED,)), [*notes, *told]
    if budget is not None and benchmark.sample:
        raise UsageError("give a budget or a sample, not both: a budget chooses the sample.")
    rounds = _Rounds(study, benchmark, bench, engine)
    able, sample, said = rounds.narrowed(able, budget, halving, began)
    benchmark, notes = replace(benchmark, sample=sample), [*notes, *said]
    if rounds.last is not None and budget is None and study.extraction.precision != "fp32":
        # A quick precision is for telling who may be the best; what is said of those is said in full precision.
        study = replace(study, extraction=replace(study.extraction, precision="fp32"))
        bench = Workbench(bench.home, how=study.extraction, progress=progress)
    found: dict[str, list[Result]] = {}
    study = replace(study, models=able or study.models, benchmarks=[benchmark])
    if able:
        for result in run_study(study, engine=engine, report=False, bench=bench, on_error="ignore").results:
            found.setdefault(result.cell.model, []).append(result)
    for model, reason in lost.items():
        # No weights, so no revision of them; else these are the cells that there would have been.
        more = {"extraction": parameters_of(study.extraction)}
        cells = [replace(c, parameters={**c.parameters, **more}) for c in benchmark.plan(model, dataset)]
        revision = f"+{bench.dataset(dataset).revision}"
        found[model] = [Result(replace(cell, revision=revision), error=reason) for cell in cells]
    results = [result for own in found.values() for result in own]
    ranking = with_dropped(answer(results, top=top, notes=notes), rounds.dropped)
    ranking = replace(ranking, notes=(*ranking.notes, *rounds.precision_notes(ranking)))
    if finetune_top and any(not c.error for c in ranking.candidates):
        chosen = tuple(dict.fromkeys(c.model for c in ranking.candidates if not c.error and not c.same_as))
        truth = replace(benchmark, scores=(), truth=True, sample=0)
        trained = replace(study, models=chosen[:finetune_top], benchmarks=[truth])
        confirmed = run_study(trained, engine=engine, report=False, bench=bench, on_error="ignore").results
        results += confirmed
        ranking = with_truth(ranking, confirmed)
    ranking = replace(ranking, record=records_by_dataset(results)[dataset])
    if report is not False:
        path = report if isinstance(report, Path) else report_path(study, bench)
        page = make_study_report(results, study, bench).write(path)
        ranking = replace(ranking, page=str(page))
    return replace(ranking, seconds=perf_counter() - began)


class _Rounds:
    """Rounds before the last: who goes on to it, and on how many images."""

    def __init__(self, study: Study, benchmark: RankBenchmark, bench: Workbench, engine: Engine | None) -> None:
        self.study, self.bench, self.engine = study, bench, engine
        self.asked = replace(benchmark, truth=False)
        self.benchmark = replace(self.asked, scores=(EXPECTED,), resamples=0)
        self.dropped: list[Dropped] = []
        #: What the latest round found.
        self.last: CheckpointRanking | None = None

    def narrowed(
        self, models: tuple[str, ...], budget: float | None, halving: bool | None, began: float
    ) -> tuple[tuple[str, ...], int, list[str]]:
        """The models and the sample of the last round (0 for all images), and what to say of it."""
        (dataset,) = self.study.datasets
        images = self.bench.dataset(dataset).split(self.benchmark.split)
        # Of values and several labels no class must be met.
        classed = self.bench.dataset(dataset).target == CLASS
        total, classes = len(images), len(np.unique(images.labels)) if classed else 1
        total = min(self.benchmark.sample, total) if self.benchmark.sample else total
        rounds = is_worth_it(len(models), total, classes) if halving is None else halving and len(models) > 1
        if not models or (budget is None and not rounds):
            return models, self.benchmark.sample, []
        known = Pilot(first_size(total, classes))
        if budget is not None:
            known = pilot(budget, self.bench, dataset, self.benchmark.split, models, classes, began=began)
        size = known.size
        while size < total and not known.short:
            start = perf_counter()
            ranking = self.last = self._ranked(models, size, whole=budget is not None)
            rate = known.rate_after(perf_counter() - start, size, len(models))
            if rounds:
                losers = drop(ranking)
                self.dropped += [losers] if losers.candidates else []
                # Of several layers of a checkpoint all must have lost.
                kept = {c.model for c in ranking.candidates if c not in losers.candidates and not c.error}
                gone = {c.model for c in losers.candidates} - kept
                models = tuple(model for model in models if model not in gone)
            grown = next_size(size, total) if rounds else total
            if budget is not None:
                left = budget - (perf_counter() - began) - known.loading
                grown = min(grown, size_within(left, rate, len(models), total))
            if grown < GROWTH / 2 * size:
                break  # what is left of the budget would tell little more
            size = grown
        said = (
            []
            if budget is None or size == total
            else [f"{size} of {total} images, by class, to fit {budget:.0f} s{known.short}"]
        )
        return models, 0 if size == total and not self.benchmark.sample else size, said

    def precision_notes(self, ranking: CheckpointRanking) -> list[str]:
        """What a quick precision of the rounds did to the order, as far as those tell that went on to the end."""
        precision = self.study.extraction.precision
        if self.last is None or precision == "fp32":
            return []
        if ranking.parameters.get("extraction", {}).get("precision", precision) == precision:
            return []
        quick = {(c.model, c.layer): c.expected for c in self.last.candidates if not c.error}
        both = [c for c in ranking.candidates if (c.model, c.layer) in quick and not c.error and not c.dropped_after]
        said = f"rounds before the last ran in {precision}, the last in fp32"
        if len(both) < 2:
            return [said]
        tau = kendall_tau([quick[c.model, c.layer] for c in both], [c.expected for c in both])
        most = max(abs(quick[c.model, c.layer] - c.expected) for c in both)
        said += f": Kendall's tau of the two orders of {len(both)} candidates is {tau:.2f}, the greatest change "
        return [said + f"{points(most, ranking.measure)}, of which more images are a part"]

    def _ranked(self, models: tuple[str, ...], size: int, *, whole: bool) -> CheckpointRanking:
        """One round; `whole` with all that the last one will compute, whose time it is to tell."""
        benchmark = self.asked if whole else self.benchmark
        study = replace(self.study, models=models, benchmarks=[replace(benchmark, sample=size)])
        return answer(run_study(study, engine=self.engine, report=False, bench=self.bench, on_error="ignore").results)


def rank_study(
    data: str | Dataset, models: Sequence[str], *, name: str = "rank", how: Extraction | None = None, **options: Any
) -> tuple[Study, list[str]]:
    """The study behind a ranking, and a note for every model that stood twice."""
    if not models:
        raise UsageError("name at least one checkpoint to rank, such as packaged:efficientnet-lite0 or timm:resnet50.")
    named = [model for given in models for line in _listed(given) for model in expand_models(line)]
    resolved = [resolve_model(model, Path()) for model in named]
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
    return study, [f"{model} was named twice and is ranked once" for model in doubled]


def _listed(name: str) -> list[str]:
    """The names in the file behind "@FILE", one a line, without what follows a #; any other name is itself."""
    if not name.startswith("@"):
        return [name]
    path = Path(name[1:]).expanduser()
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"the list of models {str(path)!r} cannot be read: {error}.") from error
    found = [text for line in lines if (text := line.partition("#")[0].strip())]
    if not found:
        raise UsageError(f"the list of models {str(path)!r} has no name in it. Write one a line.")
    return found


def _affordable(
    benchmark: RankBenchmark, bench: Workbench, dataset: str, models: Sequence[str]
) -> tuple[tuple[str, ...], list[str]]:
    """The default scores that the data can carry; models are asked for their width only where that matters."""
    labels = bench.dataset(dataset).split(benchmark.split).labels
    sizes = benchmark.sample or len(labels), len(np.unique(labels))
    found = affordable(sizes[0], _WIDEST, sizes[1])
    if found[1]:
        wide = max((bench.card(model).feature_dim or 0 for model in models), default=0)
        found = affordable(sizes[0], wide, sizes[1])
    return found


def _headless(models: Sequence[str], benchmark: RankBenchmark, bench: Workbench) -> list[str]:
    """A note for every model without the class head that a score asked for needs, before anything is extracted."""
    needing = [name for name in benchmark.score_names() if find_score(name).needs_head]
    if not needing:
        return []
    lacking = []
    for model in models:
        with suppress(UnseenError):  # one that does not load says so when it is ranked
            lacking += [] if bench.backbone(model).has_head else [model]
    return [f"{model} has no class head, so that {' and '.join(needing)} cannot count" for model in lacking]


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
    """Return the models that are not available now, with the reason, before anything is extracted.

    Raises:
        UsageError: a name that cannot be resolved.
        CheckpointError: a file that does not exist or cannot be loaded.
    """
    found = {}
    for model in study.models:
        try:
            check_backbone(model)
            bench.revision(model, study.datasets[0])
        except (UsageError, CheckpointError):
            raise
        except UnseenError as error:
            found[model] = str(error)
            bench.progress.note(f"{model} cannot be ranked, the others go on: {error}")
    return found
