"""`unseen rank` as a user meets it: table, JSON, page, failures, budget, and rubbish."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import unseen.features.extraction
from unseen.cli import main
from unseen.cli.rank import parse_duration
from unseen.core.errors import UsageError

SECOND = "random:test_resnet?size=64"


def rank(images: Path, *options: str) -> int:
    return main(["rank", "--data", f"folder:{images}", "--scores", "nleep,logme", *options])


def test_a_table_and_one_sentence(
    images: Path, home: Path, small_model: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert rank(images, "--models", small_model, SECOND) == 0
    printed = capsys.readouterr().out
    assert small_model in printed
    assert "Fine-tune" in printed
    assert "% with a linear head. No candidate leads: " in printed
    assert "split train: 18 of 18 images of 3 classes" in printed


def test_a_narrow_terminal_keeps_the_columns_that_decide(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from unseen.benchmarks.rank.candidates import Candidate, CheckpointRanking
    from unseen.cli.rank import _show

    monkeypatch.setenv("COLUMNS", "80")
    scores = dict.fromkeys(("logme", "parc", "knn", "nleep", "hscore"), 1.2345678)
    costs = {"parameters": 25_600_000, "flops": 4_100_000_000, "images_per_second": 12.5}
    values = {"expected": 0.875, "low": 0.85, "high": 0.9, "behind": 0.0, "mean_rank": 1.5, "best_share": 1.0}
    long = "file:/home/someone/a/very/long/folder/of/checkpoints/mine.pth?arch=timm:resnet50"
    one = Candidate(long, rank=1, scores=scores, may_be_best=True, **costs, **values)  # type: ignore[arg-type]
    _show(CheckpointRanking("d", (one,), tuple(scores), tuple(scores), 100, 100, 2, 1.0, majority=0.625), "train")
    head, row = (line.split() for line in capsys.readouterr().out.splitlines()[2:5:2])
    assert head[:7] == ["#", "checkpoint", "expected", "(%)", "behind", "FLOPs", "parameters"]
    assert row[:8] == ["1", "mine.pth", "87.5", "[85.0,", "90.0]", "0", "4.1", "G"]


def test_json_in_full_precision(images: Path, home: Path, small_model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert rank(images, "--models", small_model, "--models", SECOND, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert [c["rank"] for c in found["candidates"]] == [1, 2]
    assert {c["model"] for c in found["candidates"]} == {small_model, SECOND}
    assert sum(c["best_share"] for c in found["candidates"]) == pytest.approx(1.0)
    assert found["candidates"][0]["low"] <= found["candidates"][0]["expected"] <= found["candidates"][0]["high"]
    assert found["recommendation"].startswith("Fine-tune ")
    assert found["clear"] is (sum(c["may_be_best"] for c in found["candidates"]) == 1)
    assert (found["chance"], found["majority"]) == (pytest.approx(1 / 3), pytest.approx(1 / 3))
    assert found["possibly_best"] == [c["model"] for c in found["candidates"] if c["may_be_best"]]
    assert found["counted"] == ["nleep", "logme"]


@pytest.fixture
def unavailable(monkeypatch: pytest.MonkeyPatch) -> str:
    """A model whose weights are on a hub that cannot be reached."""
    from unseen.core import extras

    monkeypatch.setattr(extras, "reachable", lambda: False)
    return "timm:hf-hub:missing/nothing"


def test_a_model_that_is_not_available_is_in_the_table_and_the_others_go_on(
    images: Path, home: Path, small_model: str, unavailable: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert rank(images, "--models", small_model, unavailable, small_model) == 3
    printed = capsys.readouterr()
    assert "failed" in printed.out
    assert unavailable in printed.out
    assert "named twice" in printed.out
    assert f"Fine-tune {small_model}: it is the only candidate; expect" in printed.out
    assert "1 of 2 candidates failed" in printed.err
    assert printed.out.count("cannot be reached") == 1 and "cannot be reached" not in printed.err, "listed once"


def test_no_model_that_is_available_is_an_answer_with_the_models_own_errors(
    images: Path, home: Path, unavailable: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert rank(images, "--models", unavailable) == 3
    printed = capsys.readouterr()
    assert "No checkpoint could be ranked." in printed.out
    assert "cannot be reached" in printed.out
    assert "1 of 1 candidates failed" in printed.err
    assert "Traceback" not in printed.out + printed.err


def test_wrong_names_and_files_are_errors_before_any_work(
    images: Path, home: Path, small_model: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for wrong, message in {
        "timm:resnet5": "Did you mean 'resnet50'",
        "file:missing.pth?arch=timm:resnet18": "no checkpoint at",
        "nowhere:x": "unknown model 'nowhere:x'",
    }.items():
        assert rank(images, "--models", small_model, wrong) == 2
        assert capsys.readouterr().err.count(message) == 1
    assert not (home / "features").exists() and not (home / "reports").exists()


def test_an_unknown_layer_fails_alone(
    images: Path, home: Path, small_model: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert rank(images, "--models", small_model, SECOND, "--layers", "pooled,nosuch", "--json") == 3
    printed = capsys.readouterr()
    found = json.loads(printed.out)
    assert [(c["layer"], bool(c["error"])) for c in found["candidates"]] == [("pooled", False)] * 2 + [
        ("nosuch", True)
    ] * 2
    assert found["counted"] == ["nleep", "logme"]
    assert "2 of 4 candidates failed" in printed.err


def test_a_plan_needs_no_work_and_wrong_names_are_usage_errors(
    images: Path, home: Path, small_model: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["rank", str(images), "--models", small_model, "--dry-run"]) == 0
    assert "rank: 4 cells to do" in capsys.readouterr().out
    assert not (home / "features").exists()
    assert rank(images, "--models", "timm:resnet5", "--dry-run") == 2
    assert "Did you mean 'resnet50'" in capsys.readouterr().err


def test_results_are_filed_under_the_study(
    images: Path, home: Path, small_model: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert rank(images, "--models", small_model, "--study", "mine", "--workers", "2") == 0
    assert (home / "reports" / "mine.html").is_file()
    capsys.readouterr()
    assert main(["results", "--study", "mine", "--json"]) == 0
    assert {row["metric"] for row in json.loads(capsys.readouterr().out)} == {"score"}


def test_a_page(images: Path, home: Path, tmp_path: Path, small_model: str) -> None:
    page = tmp_path / "rank.html"
    assert rank(images, "--models", small_model, SECOND, "--output", str(page)) == 0
    text = page.read_text(encoding="utf-8")
    assert "Which checkpoint to fine-tune" in text
    assert "random weights: expect" in text


def test_a_budget_takes_a_sample_by_class(
    images: Path, home: Path, small_model: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert rank(images, "--models", small_model, SECOND, "--budget", "0.01s", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["images"], found["total"]) == (7, 18)
    assert "two images of every class" in found["notes"][0]


def test_several_layers_are_candidates_of_their_own(
    images: Path, home: Path, small_model: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert rank(images, "--models", small_model, "--layers", "pooled,blocks.1", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert {c["layer"] for c in found["candidates"]} == {"pooled", "blocks.1"}


@pytest.mark.parametrize(
    "moment",
    [
        "unseen.api.ranking.check_backbone",
        "unseen.features.extraction.run_batches",
        "unseen.benchmarks.rank.protocol.score_result",
        "unseen.api.ranking.answer",
        "unseen.api.ranking.write_study_report",
    ],
)
def test_ctrl_c_at_any_moment_keeps_what_is_done(
    moment: str, images: Path, home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_arguments: object, **_named: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(moment, interrupted)
        assert rank(images, "--models", SECOND) == 130
        printed = capsys.readouterr()
        assert "run the same command to resume" in printed.err
        assert "Traceback" not in printed.out + printed.err
    extracted = []
    original = unseen.features.extraction.run_batches
    monkeypatch.setattr(
        unseen.features.extraction, "run_batches", lambda *a, **k: extracted.append(1) or original(*a, **k)
    )
    assert rank(images, "--models", SECOND, "--json") == 0
    # What came before the interruption is not done again.
    assert bool(extracted) == moment.endswith(("check_backbone", "run_batches", "score_result"))
    found = json.loads(capsys.readouterr().out)
    assert found["candidates"][0]["rank"] == 1
    assert "it is the only candidate" in found["recommendation"]


def test_names_come_from_a_list(
    images: Path, home: Path, tmp_path: Path, small_model: str, capsys: pytest.CaptureFixture[str]
) -> None:
    names = tmp_path / "models.txt"
    names.write_text(f"# two of them\n{small_model}\n\n{SECOND}  # and this\n")
    assert rank(images, "--models", f"@{names}", "--json") == 0
    assert {c["model"] for c in json.loads(capsys.readouterr().out)["candidates"]} == {small_model, SECOND}
    assert rank(images, "--models", "@nowhere.txt") == 2
    assert "cannot be read" in capsys.readouterr().err


def test_a_prior_chooses_the_candidates_to_evaluate(
    images: Path, home: Path, tmp_path: Path, small_model: str, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [
        f"{model},task {t},{50 + 10 * c + t}" for t in range(4) for c, model in enumerate(("x", SECOND, small_model))
    ]
    prior = tmp_path / "prior.csv"
    prior.write_text("\n".join(["model,task,accuracy", *rows]))
    assert rank(images, "--models", small_model, SECOND, "--first", "1", "--prior", str(prior), "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert [c["model"] for c in found["candidates"]] == [small_model]
    (note,) = [note for note in found["notes"] if note.startswith("prior from 4 earlier tasks")]
    assert (
        "1 of 2 candidates are evaluated, 2 have earlier results; the chance that the best is among the other 1" in note
    )


def test_patterns_expand_to_candidates_in_names_and_in_lists(
    images: Path, home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = tmp_path / "models.txt"
    names.write_text("timm:test_resnet*\n")
    assert rank(images, "--models", "timm:vit_*small*dinov3*", f"@{names}", "--dry-run", "--json") == 0
    planned = {cell["model"] for cell in json.loads(capsys.readouterr().out)["cells"]}
    assert len(planned) > 2 and all("dinov3" in one or "test_resnet" in one for one in planned)
    assert rank(images, "--models", "timm:*nosuchthing*") == 2


@pytest.mark.slow
def test_the_first_are_fine_tuned_on_request_and_early_stopping_is_a_score(
    images: Path, home: Path, small_model: str, capsys: pytest.CaptureFixture[str]
) -> None:
    more = ["--steps", "2", "--batch-size", "6", "--learning-rates", "0.001", "--truth-seeds", "1", "--json"]
    assert rank(images, "--models", small_model, SECOND, "--finetune-top", "1", *more) == 0
    found = json.loads(capsys.readouterr().out)
    assert [c["finetuned"] is not None for c in found["candidates"]] == [True, False]
    assert "Fine-tuned on the training images and tested" in found["recommendation"]
    trained = ["--scores", "finetune-1,logme", "--batch-size", "6", "--early-learning-rate", "0.5", "--study", "early"]
    assert main(["rank", "--data", f"folder:{images}", "--models", small_model, SECOND, *trained, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["counted"] == ["logme", "finetune-1"]
    assert all("finetune-1" in c["scores"] for c in found["candidates"])
    assert main(["results", "--study", "early", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    settings = [row["parameters"] for row in rows]
    assert {each["early_learning_rate"] for each in settings if each["score"] == "finetune-1"} == {0.5}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--scores", "nlep"], "Did you mean 'nleep'"),
        (["--scores", ","], "at least one score"),
        (["--budget", "soon"], "is not a time"),
        (["--layers", ","], "at least one layer"),
        (["--prior", "x.csv"], "state how many, such as --first 20"),
        (["--first", "2"], "a prior needs 3 earlier tasks"),
        (["--scheduler", "tcp://x:1"], "needs --engine dask"),
    ],
)
def test_usage_errors_are_one_line(
    images: Path, home: Path, small_model: str, options: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["rank", "--data", f"folder:{images}", "--models", small_model, *options]) == 2
    assert message in capsys.readouterr().err


def test_one_class_is_refused(
    tmp_path: Path, home: Path, make_folder, small_model: str, capsys: pytest.CaptureFixture[str]
) -> None:
    make_folder(tmp_path / "one", classes=1)
    assert main(["rank", "--data", f"folder:{tmp_path / 'one'}", "--models", small_model]) == 2
    assert "at least two classes" in capsys.readouterr().err


def test_durations() -> None:
    assert [parse_duration(text) for text in ("90s", "10m", "1.5h", "30")] == [90, 600, 5400, 30]
    for text in ("", "m", "-3s", "0s", "infs"):
        with pytest.raises(UsageError, match="not a time"):
            parse_duration(text)


def test_the_plan_lists_weights_and_time(
    images: Path, home: Path, small_model: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert rank(images, "--models", small_model) == 0
    capsys.readouterr()
    monkeypatch.setattr("unseen.benchmarks.rank.budget.reachable", lambda: False)
    assert rank(images, "--models", small_model, "timm:resnet18.a1_in1k", "--dry-run") == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "1 checkpoint of 1 to download: 0 B, and 1 of unknown size;" in printed
    assert "for 1 checkpoint at the speed of earlier rankings; 1 not measured" in printed


def test_a_pattern_without_a_match_suggests_names(images: Path, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert rank(images, "--models", "timm:resnet51x*") == 2
    assert "timm:resnet50" in capsys.readouterr().err
