"""`unseen.rank`: which of several checkpoints, or of several feature matrices, will transfer best.

`rank_checkpoints` takes names, as the command does; `rank` also takes objects and arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from inspect import signature
from pathlib import Path
from time import perf_counter
from typing import Any, ClassVar, Literal, TypedDict, Unpack, overload

import numpy as np
from numpy.typing import ArrayLike

from unseen.api.answer import Answer
from unseen.api.arrays import as_array, is_matrix
from unseen.api.objects import STUDY, Data, Model, NamedObjects, workbench
from unseen.api.stored import load_results
from unseen.backbones.load import check_backbone, expand_models, model_cards, resolve_model
from unseen.benchmarks.rank.answer import answer, with_truth
from unseen.benchmarks.rank.arrays import rank_features as rank_features
from unseen.benchmarks.rank.budget import downloads, fit_sample
from unseen.benchmarks.rank.candidates import CheckpointRanking
from unseen.benchmarks.rank.details import EXPECTED
from unseen.benchmarks.rank.protocol import RankBenchmark
from unseen.benchmarks.workbench import Workbench
from unseen.core.arrays import AnyArray
from unseen.core.errors import CheckpointError, UnknownNameError, UnseenError, UsageError
from unseen.core.files import home as home_folder
from unseen.core.identity import Values, parameters_of
from unseen.core.records import Result
from unseen.core.run_record import RunRecord
from unseen.data import Dataset, load_dataset
from unseen.data.dataset import CLASS
from unseen.features import Extraction, Progress
from unseen.ranking.prior import fit_prior, read_history, shortlist
from unseen.results import FILE_NAME
from unseen.results.table import records_by_dataset
from unseen.run.execute import run_study
from unseen.run.executor import Engine
from unseen.run.record import report_path, write_study_report
from unseen.run.study import Study

#: Benchmarks whose stored results tell how good a checkpoint was on earlier tasks.
_EARLIER = ("probe", "vtab", "rank")


@dataclass(frozen=True, eq=False, repr=False)
class Ranking(Answer):
    """Candidates in order, best first.

    Attributes:
        order: the ranking as the commands have it, with notes and the options behind it.
        labels: the caller's label of each model.
    """

    order: CheckpointRanking
    labels: Mapping[str, str]

    percent: ClassVar[tuple[str, ...]] = ("expected", "low", "high", "behind")

    @property
    def best(self) -> str | None:
        """The label of the recommended candidate, the one that `headline` names; None if none could be ranked."""
        return None if self.order.choice is None else self.order.choice.named(self.labels)

    @property
    def record(self) -> RunRecord:
        """What the evaluations received, used and dropped, merged over candidates."""
        return self.order.record

    def headline(self) -> str:
        return self.order.describe(self.labels)

    def rows(self) -> list[Values]:
        return [
            {"rank": each.rank or None, "model": each.named(self.labels)}
            | {name: getattr(each, name) for name in ("expected", "low", "high", "behind", "may_be_best")}
            | {**each.scores, "mean_rank": each.mean_rank, "error": each.error}
            for each in self.order.candidates
        ]


class _Settings(TypedDict, total=False):
    scores: Sequence[str]
    seed: int
    metric: Literal["accuracy", "balanced"]
    prefer: str


class MatrixSettings(_Settings, total=False):
    """Options of `unseen.benchmarks.rank.arrays.rank_features`, which describes them."""

    kind: Literal["auto", "classes", "values", "labels"]
    groups: ArrayLike


class ScoreSettings(_Settings, total=False):
    """Options of the rank benchmark; `unseen rank --help-all` describes them."""

    layers: Sequence[str]
    split: str
    sample: int


class RankSettings(ScoreSettings, total=False):
    """Options of `rank_checkpoints`, which describes them."""

    budget: float
    finetune_top: int
    first: int
    prior: Path | str
    delete_weights: bool


@overload
def rank(models: Mapping[str, AnyArray], data: ArrayLike, **options: Unpack[MatrixSettings]) -> Ranking: ...
@overload
def rank(
    models: Mapping[str, Model] | Sequence[Model],
    data: Data,
    *,
    study: str = ...,
    home: Path | str | None = ...,
    how: Extraction | None = ...,
    **options: Unpack[RankSettings],
) -> Ranking: ...
def rank(
    models: Any,
    data: Any,
    *,
    study: str = STUDY,
    home: Path | str | None = None,
    how: Extraction | None = None,
    **options: Any,
) -> Ranking:
    """Rank checkpoints by the expected accuracy of a linear head on their features, before any fine-tuning.

    Args:
        models: by label, or a list: as `evaluate` takes them; or feature matrices (n, d) by label.
        data: labelled images as `extract` takes them; with feature matrices, the (n,) classes or values of their rows.
        study, home, how: as for `evaluate`.
        **options: of `rank_checkpoints`, such as budget=600, scores=("nleep", "logme"), seed=0; with
            feature matrices of `unseen.benchmarks.rank.arrays.rank_features`.

    Raises:
        UnseenError: no model, an unknown option, or data that do not fit.
    """
    if isinstance(models, Mapping) and models and all(is_matrix(value) for value in models.values()):
        known = list(signature(rank_features).parameters)[2:]
        for name in options:
            if name not in known:
                raise UnknownNameError("option", name, known)
        arrays = {str(label): as_array(value) for label, value in models.items()}
        return Ranking(rank_features(arrays, as_array(data), **options), {})
    bench = workbench(home, how, None)
    with NamedObjects() as holder:
        named = holder.models(models)
        if not named:
            raise UsageError("name at least one checkpoint to rank.")
        order = rank_checkpoints(
            holder.dataset(data),
            list(named.values()),
            name=study,
            home=bench.home,
            how=bench.how,
            progress=bench.progress,
            report=False,
            **options,
        )
    return Ranking(order, {name: label for label, name in named.items()})


def rank_checkpoints(
    data: str | Dataset,
    models: Sequence[str],
    *,
    budget: float | None = None,
    finetune_top: int = 0,
    first: int | None = None,
    prior: Path | str | None = None,
    delete_weights: bool = False,
    name: str = "rank",
    home: Path | str | None = None,
    how: Extraction | None = None,
    engine: Engine | None = None,
    progress: Progress | None = None,
    report: Path | bool = True,
    **options: Unpack[ScoreSettings],
) -> CheckpointRanking:
    """Rank checkpoints for a labelled set, best first: a study of the rank benchmark, read as one answer.

    A wrong name or an unreadable file is an error before any work. A checkpoint that is not available for another
    reason, such as a hub that cannot be reached, does not stop the others: it is in the answer with its reason.

    Args:
        data: a dataset's name, such as "folder:photos", or the dataset that `load_dataset` returned for one.
        models: names of checkpoints, each ranked once; "@FILE" is a list of names, one per line, and "timm:*dino*" all
            that match.
        budget: seconds for the whole; images are sampled, by class, to fit.
        finetune_top: number of candidates to fine-tune, from the first on, to confirm the order.
        first: evaluate only this many candidates: those that were the best on earlier tasks, of the results in `home`
            and in `prior`. The ranking states the probability that the best candidate is among the others.
        prior: CSV file with the accuracy of checkpoints on earlier tasks (columns model, task, accuracy, parameters).
        delete_weights: remove weights that this call downloads, each as soon as its checkpoint is evaluated.
        name: of the study that stores the results.
        home: folder of features and results.
        how: settings of the extraction.
        engine: executor of the work; this process by default.
        progress: callbacks for extractions in this process.
        report: file of the report, `HOME/reports/NAME.html` by default; False for none.
        **options: of `RankBenchmark`: `scores`, `layers`, `split`, `sample`, `seed` ...

    Raises:
        UsageError: no model, an unknown model, score or option.
        CheckpointError: a model file that does not exist or cannot be loaded.
        DataError: fewer than two classes, or no more images than classes.
    """
    began = perf_counter()
    study, notes = rank_study(data, models, name=name, how=how, **options)
    bench = Workbench(home_folder(home), how=study.extraction, progress=progress)
    (dataset,) = study.datasets
    if first is not None or prior is not None:
        kept, note = _shortlist(study.models, first, prior, bench.home, dataset)
        study, notes = replace(study, models=kept), [*notes, note]
    images = bench.dataset(dataset)
    benchmark = _benchmark(study).suited(images)
    benchmark.check(images)
    if finetune_top:
        replace(benchmark, truth=True).check(images)
    if budget is not None and benchmark.sample:
        raise UsageError("give a budget or a sample, not both: a budget chooses the sample.")
    lost = _unavailable(study, bench)
    able = tuple(model for model in study.models if model not in lost)
    if budget is not None and able:
        split = images.split(benchmark.split)
        # Values and several labels have no classes that a sample must contain.
        classes = len(np.unique(split.labels)) if images.target == CLASS else 1

        def work(size: int) -> None:
            first = replace(benchmark, truth=False, sample=size)
            _run(replace(study, models=able, benchmarks=[first]), bench, engine)

        sample, remark = fit_sample(budget - (perf_counter() - began), len(split), classes, work)
        benchmark, notes = replace(benchmark, sample=sample), [*notes, *([remark] if remark else [])]
    study = replace(study, models=able or study.models, benchmarks=[benchmark])
    with downloads(able, delete=delete_weights) as finished:
        results = _run(study, bench, engine, finished) if able else []
    for model, reason in lost.items():
        # The weights are not available, so the revision has only the data; all else is as in the missing cells.
        more = {"extraction": parameters_of(study.extraction)}
        cells = [replace(c, parameters={**c.parameters, **more}) for c in benchmark.plan(model, dataset)]
        results += [Result(replace(cell, revision=f"+{images.revision}"), error=reason) for cell in cells]
    ranking = answer(results, notes=notes, prefer=benchmark.prefer)
    if finetune_top and ranking.ranked:
        chosen = tuple(dict.fromkeys(c.model for c in ranking.ranked))
        truth = replace(benchmark, scores=(), truth=True, sample=0)
        confirmed = _run(replace(study, models=chosen[:finetune_top], benchmarks=[truth]), bench, engine)
        results += confirmed
        ranking = with_truth(ranking, confirmed)
    if report is not False:
        path = report if isinstance(report, Path) else report_path(study, bench)
        write_study_report(results, study, bench, path)
        ranking = replace(ranking, page=str(path))
    return replace(ranking, record=records_by_dataset(results)[dataset], seconds=perf_counter() - began)


def _shortlist(
    models: tuple[str, ...], first: int | None, prior: Path | str | None, home: Path, dataset: str
) -> tuple[tuple[str, ...], str]:
    """Return the candidates to evaluate, and a note on the prior and on the risk of skipping the others.

    Raises:
        UsageError: a prior without `first`.
        DataError: a file that cannot be read, or results on too few tasks.
    """
    if first is None:
        raise UsageError("a prior chooses the candidates to evaluate: state how many, such as --first 20.")
    history, sizes = read_history(Path(prior)) if prior is not None else ({}, {})
    # A file may name checkpoints without a scheme: resnet50 for timm:resnet50.
    known = {name.lower(): model for model in models for name in (model, model.partition(":")[2])}
    history = {(known.get(model.lower(), model), task): value for (model, task), value in history.items()}
    sizes = {known.get(model.lower(), model): size for model, size in sizes.items()}
    if (home / FILE_NAME).exists():
        values: dict[tuple[str, str], list[float]] = {}
        for result in load_results(home=home).results:
            cell = result.cell
            if cell.benchmark not in _EARLIER or cell.dataset == dataset:
                continue
            expected = result.metrics.get("score") if cell.parameters.get("score") == EXPECTED else None
            accuracy = result.metrics.get("top1", expected)
            if accuracy is not None:
                values.setdefault((cell.model, f"{cell.benchmark} {cell.dataset}"), []).append(accuracy)
        history |= {key: float(np.mean(found)) for key, found in values.items()}
    cards = {card.id: float(card.parameters) for card in model_cards() if card.parameters}
    fitted = fit_prior(history, models, cards | sizes)
    kept, risk = shortlist(fitted, first)
    tasks = len({task for _, task in history})
    skipped = f"the chance that the best is among the other {len(models) - len(kept)} is {risk:.0%}"
    return kept, (
        f"prior from {tasks} earlier tasks: {len(kept)} of {len(models)} candidates are evaluated, "
        f"{fitted.known} have earlier results; {skipped}"
    )


def extraction_seconds(study: Study, home: Path) -> tuple[float, int]:
    """Return the seconds that extraction takes at the speed of earlier rankings, and how many models were measured."""
    if not (home / FILE_NAME).exists():
        return 0.0, 0
    speeds = {
        result.cell.model: speed
        for result in load_results(home=home, benchmark="rank").results
        if (speed := result.details.get("images_per_second"))
    }
    (dataset,) = study.datasets
    images = len(load_dataset(dataset).split(_benchmark(study).split))
    known = [images / speeds[model] for model in study.models if model in speeds]
    return sum(known), len(known)


def _run(
    study: Study, bench: Workbench, engine: Engine | None, finished: Callable[[str], None] | None = None
) -> list[Result]:
    """Return the results of a study; a failed cell is among them.

    Args:
        finished: called with each model all of whose cells are stored.
    """
    (benchmark,), (dataset,) = study.protocols, study.datasets
    left = {model: len(benchmark.plan(model, dataset)) for model in study.models}

    def stored(result: Result) -> None:
        left[result.cell.model] -= 1
        if finished is not None and left[result.cell.model] == 0:
            finished(result.cell.model)

    return list(run_study(study, engine=engine, report=False, bench=bench, on_error="ignore", on_result=stored).results)


def rank_study(
    data: str | Dataset, models: Sequence[str], *, name: str = "rank", how: Extraction | None = None, **options: object
) -> tuple[Study, list[str]]:
    """Return the study behind a ranking, and a note for every model that is named twice."""
    if not models:
        raise UsageError("name at least one checkpoint to rank, such as --models timm:resnet50 mine.pth.")
    named = [model for each in models for line in _listed(each) for model in expand_models(line)]
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
    """Return the names in the file behind "@FILE", one per line, without comments (#); any other name alone."""
    if not name.startswith("@"):
        return [name]
    path = Path(name[1:]).expanduser()
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"the list of models {str(path)!r} cannot be read: {error}.") from error
    found = [text for line in lines if (text := line.partition("#")[0].strip())]
    if not found:
        raise UsageError(f"the list of models {str(path)!r} has no name in it. Write one per line.")
    return found


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


def _unavailable(study: Study, bench: Workbench) -> dict[str, str]:
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
    return found
