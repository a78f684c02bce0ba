"""`unseen vtab`, as a user calls it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from unseen.benchmarks.vtab.published_tables import published_result, score_table, task_titles
from unseen.cli import main
from unseen.core.records import Result
from unseen.results import FILE_NAME, ResultsDatabase

DATA = "procedural:shapes-count?train=24&val=12&test=16"
OTHER = "procedural:shapes-distance?train=24&val=12&test=16"
TUNED = {"adaptation": "finetune", "sweep": "lightweight", "seed": 0}
QUICK = ["--learning-rates", "0.1,0.01", "--steps", "10,20", "--batch-size", "8"]


def test_run_writes_results_a_page_and_a_table(
    home: Path, small_model: str, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["vtab", "run", "--tasks", f"{DATA},{OTHER}", "--models", small_model, *QUICK]
    assert main(arguments) == 0
    shown = capsys.readouterr().out
    assert "Shapes-Count" in shown
    assert "Mean of 2 tasks" in " ".join(shown.split())
    page = (home / "reports" / "vtab.html").read_text()
    for part in ("VTAB: unseen tasks", "Means by group of tasks"):
        assert part in page
    assert main(arguments) == 0
    assert "6 cached" in capsys.readouterr().err


def test_a_dry_run_plans_every_task_and_model(home: Path, small_model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["vtab", "run", "--tasks", DATA, "--models", small_model, "--dry-run"]) == 0
    assert "3 cells to do" in capsys.readouterr().out


def test_finetuning_by_command(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["vtab", "run", "--tasks", DATA, "--models", "random:test_efficientnet?size=32"]
    arguments += [
        "--adaptation",
        "finetune",
        "--learning-rates",
        "0.05",
        "--steps",
        "2",
        "--batch-size",
        "8",
        "--seeds",
        "1",
    ]
    assert main(arguments) == 0
    assert "top-1 accuracy (%), fine-tuned" in " ".join(capsys.readouterr().out.split())


def test_published_methods_are_not_compared_on_other_tasks(
    home: Path, small_model: str, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["vtab", "run", "--tasks", DATA, "--models", small_model, *QUICK])
    assert main(["vtab", "compare"]) == 2
    assert "never run on the embedded tasks" in capsys.readouterr().err


def store(home: Path, scores: dict[str, dict[str, float]]) -> None:
    """Store accuracies in percent, by model and task."""
    with ResultsDatabase(home / FILE_NAME) as database:
        for model, values in scores.items():
            for task, score in values.items():
                made = published_result(model, task, "1000", score, TUNED, "")
                database.append("vtab", Result(replace(made.cell, model=model), {"top1": score / 100}))


def test_a_model_is_ranked_among_the_eighteen_methods(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = score_table("lightweight", "1000")
    best = dict(zip(table.tasks, table.scores.max(axis=0).tolist(), strict=True))
    store(home, {"mine": best})
    assert main(["vtab", "compare", "--json"]) == 0
    (table,) = json.loads(capsys.readouterr().out)
    rows = table["rows"]
    assert len(rows) == 19
    assert rows[0]["name"] == "mine"
    assert rows[1]["name"] == "Sup-Rot-100% (published)"
    assert rows[1]["cells"][-1]["value"] == pytest.approx(0.675, abs=6e-4)
    some = {task: best[task] - 30 for task in ("pets", "svhn")}
    store(tmp_path / "some", {"mine": some})
    assert main(["vtab", "compare", "--home", str(tmp_path / "some")]) == 0
    shown = capsys.readouterr().out
    assert "2 tasks" in shown
    assert task_titles()["svhn"] in shown
    assert "Zhai et al., 2019, Table 6" in " ".join(shown.split())


def test_an_unfinished_model_is_listed_and_models_can_be_chosen(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store(home, {**{model: dict.fromkeys(task_titles(), 70.0) for model in ("a", "b")}, "c": {"pets": 99.0}})
    assert main(["vtab", "compare", "--json"]) == 0
    ranked, incomplete = json.loads(capsys.readouterr().out)
    assert [row["name"] for row in ranked["rows"] if "(published)" not in row["name"]] == ["a", "b"]
    assert [row["name"] for row in incomplete["rows"]] == ["c"]
    assert incomplete["notes"][0].startswith("c: 18 tasks of 19 missing")
    assert main(["vtab", "compare"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "incomplete, not ranked" in shown
    assert "c: 18 tasks of 19 missing" in shown
    assert main(["vtab", "compare", "--models", "c", "--json"]) == 0
    (table,) = json.loads(capsys.readouterr().out)
    first = table["rows"][0]
    assert (len(table["rows"]), first["name"], first["cells"][-1]["value"]) == (19, "c", pytest.approx(0.99))
    assert main(["vtab", "compare", "--models", "d"]) == 2
    assert "unknown model 'd'" in capsys.readouterr().err


def test_analyse_recomputes_the_paper(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["vtab", "analyse", "--size", "full", "--count", "3"]) == 0
    shown = capsys.readouterr().out
    assert "11,628 subsets" in shown
    assert "elimination" in shown
    assert "predict a left-out task with tau 0.7" in shown
    for part in ("Human raters", "Tan & Le, 2019", "balduzzi"):
        assert part in shown


def test_check_of_an_empty_folder_lists_the_missing_data(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["vtab", "check", str(tmp_path)]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "0 of 19 tasks are ready" in shown
    assert "dsprites_ndarray" in shown
    assert main(["vtab", "check", str(tmp_path), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [status["state"] for status in found] == ["missing"] * 19
    assert main(["vtab", "check", str(tmp_path / "nowhere")]) == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--tasks", "clever-count"], "Did you mean 'clevr-count'"),
        (["--tasks", DATA, "--steps", "many"], "steps[0]: expected int, found 'many'"),
        (["--tasks", DATA, "--adaptation", "magic"], "unknown adaptation 'magic'. Known: adapter"),
    ],
)
def test_mistakes_are_explained(
    home: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    assert main(["vtab", "run", *arguments]) == 2
    assert message in capsys.readouterr().err


def test_charts_of_published_methods_need_no_results(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "pairs.svg"
    assert main(["vtab", "chart", "pairs", "--output", str(out), "--size", "full"]) == 0
    shown = capsys.readouterr().out
    assert "Sup-100% less From-Scratch" in shown
    for path in (out, tmp_path / "pairs-2.svg"):  # of both sweeps
        assert path.stat().st_size > 5000
        assert f"{path}: " in shown
    assert main(["vtab", "chart", "metrics", "--output", str(out)]) == 2
    assert "unseen vtab run" in capsys.readouterr().err
    assert main(["vtab", "chart", "pears", "--output", str(out)]) == 2
    assert "Did you mean 'pairs'" in capsys.readouterr().err


def test_own_results_are_drawn_analysed_and_written_to_a_page(
    home: Path, small_model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["vtab", "run", "--tasks", f"{DATA},{OTHER}", *QUICK]
    models = [small_model, "random:test_efficientnet?size=32", "random:test_resnet?size=32"]
    assert main([*arguments, "--models", ",".join(models)]) == 0
    out = tmp_path / "metrics.svg"
    assert main(["vtab", "chart", "metrics", "--study", "vtab", "--output", str(out)]) == 0
    assert main(["vtab", "chart", "scale", "--study", "vtab", "--output", str(out)]) == 0
    assert "Larger models" in capsys.readouterr().out


def test_rows_of_the_literature_are_added(home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store(home, {"mine": dict.fromkeys(task_titles(), 50.0)})
    path = tmp_path / "published.csv"
    rows = [f'VPT-Deep,{task},{60 + k / 10},"Jia et al., 2022, Table 1"\n' for k, task in enumerate(task_titles())]
    path.write_text("method,task,score,source\n" + "".join(rows))
    assert main(["vtab", "compare", "--published", str(path), "--json"]) == 0
    (table,) = json.loads(capsys.readouterr().out)
    found = {row["name"]: row["cells"][-1]["value"] for row in table["rows"]}
    assert found["VPT-Deep (published)"] == pytest.approx(0.609)
    assert "Published: Zhai et al., 2019, Table 6 and Jia et al., 2022, Table 1." in table["notes"]
    for text, message in (
        ("method,task,score,source\nA,dtd,60,\n", "has no source"),
        ("method,task,score,source\nA,dtd,600,x\n", "not a percentage"),
        ("method,task,score,source\nA,petz,6,x\n", "Did you mean 'pets'"),
        ("method,score\nA,6\n", "columns method, source, task and score"),
    ):
        path.write_text(text)
        assert main(["vtab", "compare", "--published", str(path)]) == 2
        assert message in " ".join(capsys.readouterr().err.split())
