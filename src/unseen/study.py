"""The one orchestrator: a study becomes a plan of cells, the cells become results, the results a page.

    study.toml | command | Python ─► Study (checked) ─► plan ─► cells ─► (extract, evaluate) ─► database ─► page

A second run evaluates exactly what is not done yet: a cell's identity covers the benchmark and its version, every
option that may change a number, every extraction setting that does, and what is behind the names.
"""

from __future__ import annotations

import re
import threading
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import InitVar, dataclass, field, replace
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unseen.backbones.load import check_backbone, expand_models, resolve_model
from unseen.benchmarks.benchmark import BENCHMARKS, Benchmark, Expectation, group_cells, make_benchmark
from unseen.benchmarks.workbench import Workbench
from unseen.core.errors import StudyError, UnseenError, closest
from unseen.core.files import home as home_folder
from unseen.core.guard import guarded
from unseen.core.identity import parameters_of
from unseen.core.options import make_options
from unseen.core.records import Cell, MethodCard, ModelCard, Result
from unseen.data.load import expand_datasets, resolve_dataset
from unseen.engines import Engine, make_engine
from unseen.features import Extraction, Progress
from unseen.results import FILE_NAME, ResultsDatabase
from unseen.results.environment import Speeds, Stage, expect_cells, expect_features
from unseen.results.inbox import Claims, Inbox
from unseen.running import Run
from unseen.work import Task, at_work

if TYPE_CHECKING:
    from unseen.reports.blocks import Headline
    from unseen.reports.page import Page

_KEYS = ("name", "title", "models", "datasets", "benchmarks", "extraction")

#: One benchmark's options, a list of them, or benchmarks that are made already.
Benchmarks = Mapping[str, Mapping[str, Any] | Sequence[Mapping[str, Any]]] | Sequence[Benchmark]


@dataclass(frozen=True)
class Study:
    """Models x datasets x benchmarks, checked: names, types, choices. Relative paths are taken from `base`.

    Attributes:
        name: results are filed under it.
        models, datasets: names; plain paths of checkpoints and folders are taken for what they are. In Python also
            objects, as `unseen.evaluate` takes them: they are held, under names of their content, while the study is.
        benchmarks: name to options (or to several tables of options), or benchmarks.
        extraction: how features are made: an `Extraction`, or its options.
        title: heads the page.
        base: folder of the study file; the current one by default.
        source: where it stands, for error messages.
    """

    name: str
    models: tuple[str, ...]
    datasets: tuple[str, ...]
    benchmarks: Benchmarks = field(default_factory=lambda: {"probe": {}})
    extraction: Extraction = field(default_factory=Extraction)
    title: str = ""
    base: InitVar[Path | None] = None
    source: InitVar[str] = "study"

    def __post_init__(self, base: Path | None, source: str) -> None:
        base = base or Path()
        for key in ("name", "title"):
            if not isinstance(getattr(self, key), str):
                raise StudyError(f"{source}: {key} must be a text, not {type(getattr(self, key)).__name__}.")
        given: Any = self.extraction
        extraction: Extraction = given
        if not isinstance(given, Extraction):
            extraction = make_options(Extraction, given, source=f"{source} [extraction]", base=base)
        if extraction.graphs is not None:
            extraction = replace(extraction, graphs=base / extraction.graphs)
        for key in ("models", "datasets"):
            listed = getattr(self, key)
            several = listed if isinstance(listed, list | tuple) else [listed]
            if any(not isinstance(each, str) or each.startswith("object:") for each in several):
                from unseen.benchmarks.objects import name_objects

                object.__setattr__(self, key, name_objects(self, listed, key))
        checked = {
            "models": _names(_expanded(self.models, expand_models), "models", source, base, resolve_model),
            "datasets": _names(_expanded(self.datasets, expand_datasets), "datasets", source, base, resolve_dataset),
            "benchmarks": tuple(_benchmarks(self.benchmarks, source, base)),
            "extraction": extraction,
        }
        for key, value in checked.items():
            object.__setattr__(self, key, value)

    @property
    def protocols(self) -> tuple[Benchmark, ...]:
        """The benchmarks, made and checked."""
        return tuple(self.benchmarks)  # type: ignore[arg-type]

    @classmethod
    def read(cls, path: Path | str) -> Study:
        """The study in a TOML file, or one of those that are shipped, by its name; paths in it are relative to it."""
        path = Path(path)
        if not path.exists() and str(path) in shipped_studies():
            path = Path(str(files("unseen.studies") / f"{path}.toml"))
        try:
            values = tomllib.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            near = closest(str(path), shipped_studies())
            advice = f"Did you mean {near[0]!r}?" if near else f"Shipped: {', '.join(shipped_studies())}."
            raise StudyError(f"no study file at {path}. {advice}") from None
        except (OSError, ValueError, RecursionError) as error:
            raise StudyError(f"{path} is not a TOML file: {error}.") from error
        with guarded(path, "a study", error=StudyError):
            return cls.parse(values, source=str(path), base=path.parent)

    @classmethod
    def parse(cls, values: Mapping[str, Any], *, source: str = "study", base: Path | None = None) -> Study:
        """The study in a table such as a TOML file gives."""
        _check_keys(values, _KEYS, source)
        return cls(**{"name": Path(source).stem, "models": (), "datasets": (), **values}, base=base, source=source)


@dataclass(frozen=True)
class Plan:
    """The cells of a study, and which of them the results database has already."""

    study: Study
    cells: tuple[Cell, ...]
    done: frozenset[str]

    @property
    def remaining(self) -> list[Cell]:
        return [cell for cell in self.cells if cell.id not in self.done]


@dataclass(frozen=True)
class Outcome:
    """What came of a run: the newest result of every cell of the plan, in plan order, the page of them, its answers, and
    what each stage took."""

    plan: Plan
    results: tuple[Result, ...]
    evaluated: int
    page: Path | None = None
    spent: tuple[Stage, ...] = ()
    answers: tuple[Headline, ...] = ()

    @property
    def failed(self) -> list[Result]:
        return [result for result in self.results if not result.ok]


def shipped_studies() -> list[str]:
    """Names of the study files that came with the package."""
    return sorted(f.name.removesuffix(".toml") for f in files("unseen.studies").iterdir() if f.name.endswith(".toml"))


def study_cards() -> list[MethodCard]:
    """The shipped studies, as `unseen ls studies` shows them."""
    cards = []
    for name in shipped_studies():
        values = tomllib.loads((files("unseen.studies") / f"{name}.toml").read_text(encoding="utf-8"))
        sizes = f"{len(values['models'])} models, {len(values['datasets'])} datasets"
        notes = f"{sizes}: {', '.join(values.get('benchmarks', {'probe': {}}))}"
        cards.append(MethodCard(id=name, name=values.get("title", name), group="study", notes=notes))
    return cards


def plan_study(study: Study, home: Path | None = None, *, bench: Workbench | None = None) -> Plan:
    """Every cell of the study, in the order models, datasets, benchmarks; all names are checked, no model is loaded.

    Raises:
        UnseenError: a model, dataset, file or option that cannot be had or does not fit.
    """
    bench = bench or Workbench(home_folder(home), how=study.extraction)
    for dataset in study.datasets:
        for benchmark in study.protocols:
            if not benchmark.only or dataset in benchmark.only:
                data = bench.dataset(dataset)
                benchmark.suited(data).check(data)
    for model in study.models:
        check_backbone(model)
    cells = [cell for _, planned in _planned(study, bench) for cell in planned]
    with ResultsDatabase(bench.home / FILE_NAME) as database:
        return Plan(study, tuple(cells), frozenset(database.done(cells)))


def expect_plan(plan: Plan, bench: Workbench) -> dict[str, Expectation]:
    """By model, what the long work of a plan will take on one worker; nothing of what is quick."""
    parts: dict[str, list[Expectation]] = {}
    for benchmark, cells in _planned(plan.study, bench):
        for group in group_cells(cell for cell in cells if cell.id not in plan.done):
            with suppress(UnseenError):  # the evaluation of the group will say
                expected = benchmark.expect(group, bench)
                parts.setdefault(group[0].model, []).extend([] if expected is None else [expected])
    return {model: Expectation.joined(found) for model, found in parts.items() if found}


def expect_stages(plan: Plan, bench: Workbench, workers: int = 1) -> list[Stage]:
    """What is left of a plan will take, stage by stage: seconds, disk and memory, from the speeds of earlier runs."""
    speeds, study = Speeds(bench.home), plan.study
    groups = [
        (benchmark, group)
        for benchmark, cells in _planned(study, bench)
        for group in group_cells(cell for cell in cells if cell.id not in plan.done)
    ]
    missing: dict[tuple[str, ...], int] = {}
    rows: dict[str, int] = {}
    for benchmark, group in groups:
        model, read = group[0].model, 0
        with suppress(UnseenError):  # the evaluation of the group will say
            for wanted in benchmark.features(group, bench):
                for dataset, split in bench.extractions(model, wanted.dataset, wanted.split):
                    images = dataset.split(split)
                    read += len(images) * speeds.extraction(model)[1] * 4
                    name = model, dataset.features_id, split, images.fingerprint
                    kept = bench.store.manifests(model, dataset.features_id, split)
                    if not any(one.complete and one.key.fingerprint == images.fingerprint for one in kept):
                        missing[name] = len(images)
        rows[group[0].dataset] = max(rows.get(group[0].dataset, 0), read)
    images_of = {model: 0 for model, *_ in missing}
    for (model, *_), count in missing.items():
        images_of[model] += count
    size = 2 if study.extraction.dtype == "float16" else 4
    cells = [(benchmark.name, cell.dataset) for benchmark, group in groups for cell in group]
    speeds.save()
    return [expect_features(speeds, images_of, size, workers), expect_cells(speeds, cells, rows, workers)]


def run_study(
    study: Study,
    home: Path | None = None,
    engine: Engine | None = None,
    *,
    progress: Progress | None = None,
    on_plan: Callable[[Plan], None] | None = None,
    on_result: Callable[[Result], None] | None = None,
    on_piece: Callable[[int, int], None] | None = None,
    report: Path | bool = True,
    bench: Workbench | None = None,
) -> Outcome:
    """Evaluate what is not done yet, file each result as it comes, and write the page.

    A cell that fails is filed with its reason, and the others go on.

    Args:
        home: where features and results are kept; the user's by default.
        engine: where the work is done; this process by default.
        progress: told of extractions in this process.
        on_plan: called with the plan, before anything of it is done.
        on_result: called with each result as it is filed.
        on_piece: called with how many pieces of long work are done, and of how many that can be done by now.
        report: where to write the page, `HOME/reports/STUDY.html` by default; False for none.
        bench: a workbench of this home and extraction that has loaded something already.
    """
    bench = bench or Workbench(home_folder(home), how=study.extraction, progress=progress)
    inbox = Inbox(bench.home)
    with ResultsDatabase(bench.home / FILE_NAME) as database, Claims(bench.home / FILE_NAME) as claims:
        filed: set[str] = set()
        spent: tuple[Stage, ...] = ()
        one_at_a_time = threading.Lock()

        def file(result: Result) -> None:
            with one_at_a_time:
                if result.cell.id in filed:
                    return
                filed.add(result.cell.id)
                database.append(study.name, result)
                if on_result is not None:
                    on_result(result)

        inbox.collect(study.name, file, lambda owner: not claims.lives(owner))  # what a run that was killed has left
        since = database.last()
        plan = plan_study(study, bench=bench)
        if on_plan is not None:
            on_plan(plan)
        tasks = [
            Task(bench.home, study.name, study.extraction, benchmark, tuple(group), claims.owner)
            for benchmark, cells in _planned(study, bench)
            for group in group_cells(cell for cell in cells if cell.id not in plan.done)
        ]
        if tasks:
            chosen = make_engine("local") if engine is None else nullcontext(engine)
            with chosen as workers:
                run = Run(workers, bench, database, claims, inbox, study.name, since, file, filed, on_piece)
                with at_work(bench, file), inbox.collected(study.name, file, run.mine):
                    run.drain(tasks)
                spent = run.stages()
        newest = {result.cell.id: result for result in database.cells(plan.cells)}
    results = tuple(newest[cell.id] for cell in plan.cells if cell.id in newest)
    if report is False:
        return Outcome(plan, results, len(filed), spent=spent)
    page = make_page(results, study, bench)
    path = page.write(report if isinstance(report, Path) else page_path(study, bench))
    return Outcome(plan, results, len(filed), path, spent, tuple(headline for _, headline in page.headlines))


def make_page(results: Sequence[Result], study: Study, bench: Workbench) -> Page:
    """The page of some results of a study, with the measured cards of its models and pictures of its classes."""
    from unseen.reports.pictures import ClassPictures

    cards: dict[str, ModelCard] = {}
    for model in dict.fromkeys(result.cell.model for result in results if result.ok):
        try:
            cards[model] = bench.card(model)
        except UnseenError:  # a model that no longer loads has its numbers all the same
            continue
    return make_report(
        results,
        title=study.title or study.name,
        cards=cards,
        dataset_cards={name: bench.dataset(name).card for name in study.datasets},
        picture=ClassPictures(bench.dataset),
    )


def write_page(results: Sequence[Result], study: Study, bench: Workbench, path: Path | None = None) -> Path:
    """Write the page of some results of a study, under the home by default."""
    return make_page(results, study, bench).write(path or page_path(study, bench))


def page_path(study: Study, bench: Workbench) -> Path:
    """Where the page of a study is written unless somebody says otherwise."""
    return bench.home / "reports" / f"{file_name(study.name)}.html"


def make_report(results: Sequence[Result], **options: Any) -> Page:
    """The page of some results: each benchmark's own section, then what went wrong and where numbers come from.

    Args:
        options: `title`, `cards`, `dataset_cards`, `picture`, `date` of `unseen.reports.make_page`.
    """
    from unseen.benchmarks.anew import command_of, papers_of
    from unseen.reports import make_page as make

    known = {"sections": section_of, "command": command_of, "papers": papers_of, "order": tuple(BENCHMARKS)}
    return make(results, **{**known, **options})


def write_report(results: Sequence[Result], path: Path | str, **options: Any) -> Path:
    """Write the page of some results; `options` are those of `make_report`."""
    return make_report(results, **options).write(path)


def file_name(text: str) -> str:
    """A study's name as the name of a file: nothing in it leads elsewhere."""
    return re.sub(r"[^\w.-]+", "-", text).strip(".-") or "study"


def section_of(benchmark: str) -> str:
    """The "module:function" that makes a benchmark's section; that of plain scores where it is not known."""
    try:
        return BENCHMARKS.get(benchmark).section
    except Exception:  # noqa: BLE001 - a plug-in that is gone or broken must not hide its results
        return Benchmark.section


def _planned(study: Study, bench: Workbench) -> Iterator[tuple[Benchmark, list[Cell]]]:
    """The cells of each model, dataset and benchmark, with what is behind their names."""
    extraction = parameters_of(study.extraction)
    for model in study.models:
        for dataset in study.datasets:
            for asked in study.protocols:
                if asked.only and dataset not in asked.only:
                    continue
                benchmark = asked.suited(bench.dataset(dataset))
                cells = benchmark.plan(model, dataset)
                if cells:
                    revision = bench.revision(model, dataset, benchmark.other_datasets())
                    yield (
                        benchmark,
                        [
                            replace(c, revision=revision, parameters={**c.parameters, "extraction": extraction})
                            for c in cells
                        ],
                    )


def _benchmarks(given: Benchmarks, source: str, base: Path) -> Iterator[Benchmark]:
    if isinstance(given, list | tuple) and all(isinstance(each, Benchmark) for each in given):
        yield from given
        return
    if not isinstance(given, Mapping):
        raise StudyError(f"{source}: write each benchmark as a table, such as [benchmarks.probe].")
    for name, options in given.items():
        tables = options if isinstance(options, list | tuple) else [options]
        for table in tables:
            if not isinstance(table, Mapping):
                raise StudyError(f"{source}: write each benchmark as a table, [benchmarks.{name}].")
            yield make_benchmark(name, table, source=f"{source} [benchmarks.{name}]", base=base)
    if not given:
        raise StudyError(f"{source}: no benchmark is named. Write [benchmarks.probe], or leave benchmarks out.")


def _check_keys(values: Mapping[str, Any], known: Sequence[str], source: str) -> None:
    for key in values:
        if key not in known:
            near = closest(key, known)
            advice = f"Did you mean {near[0]!r}?" if near else f"Known: {', '.join(known)}."
            raise StudyError(f"{source}: unknown key {key!r}. {advice}")


def _expanded(given: Any, expand: Callable[[str], list[str]]) -> Any:
    """Names such as `timm:*dino*` and `xlsa17:all` replaced by what they stand for."""
    if not isinstance(given, list | tuple):
        return expand(given) if isinstance(given, str) else given
    return [each for name in given for each in (expand(name) if isinstance(name, str) else [name])]


def _names(given: Any, key: str, source: str, base: Path, resolve: Callable[[str, Path], str]) -> tuple[str, ...]:
    found = [given] if isinstance(given, str) else given
    if not isinstance(found, list | tuple) or not found or not all(isinstance(name, str) and name for name in found):
        raise StudyError(f'{source}: {key} must be a list of names, such as {key} = ["packaged:..."].')
    resolved = [resolve(name, base) for name in found]
    doubled = [name for i, name in enumerate(resolved) if name in resolved[:i]]
    if doubled:
        raise StudyError(f"{source}: {doubled[0]!r} stands twice in {key}. Remove one.")
    return tuple(resolved)
