"""`unseen.rank` and `rank_checkpoints`: one answer in all outputs; failures, resuming, engines, and shared features."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.background import start_call

import unseen
from unseen.api import rank_checkpoints
from unseen.api.ranking import Ranking
from unseen.benchmarks.rank.candidates import Candidate, CheckpointRanking
from unseen.core.errors import CheckpointError, DataError, UsageError
from unseen.data import load_dataset
from unseen.engines import Engine
from unseen.features import NoProgress
from unseen.results import ResultsDatabase
from unseen.study import Study, run_study

SECOND = "random:test_resnet?size=64"


class Extracted(NoProgress):
    """Counts the images that go through a model, by split."""

    def __init__(self) -> None:
        self.images: dict[str, int] = {}

    def begin(self, title: str, total: int, done: int) -> None:
        self.split = title.rpartition(" ")[2]

    def advance(self, images: int, skipped: int) -> None:
        self.images[self.split] = self.images.get(self.split, 0) + images


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The scores that are computed, on all images or on a half-sample."""
    import unseen.benchmarks.rank.scoring as module

    made: list[str] = []
    original = module.score_value

    def counting(card: Any, *arguments: Any, **named: Any) -> Any:
        made.append(card.id)
        return original(card, *arguments, **named)

    monkeypatch.setattr(module, "score_value", counting)
    return made


def numbers(found: Any) -> list[Any]:
    return [(c.model, c.layer, c.scores, c.mean_rank, c.expected, c.low) for c in found.candidates]


def test_a_second_run_computes_nothing_again_and_one_more_model_only_its_own(
    images: Path, home: Path, small_model: str, calls: list[str]
) -> None:
    options = {"scores": ("logme", "gbc"), "report": False}
    first = rank_checkpoints(f"folder:{images}", [small_model, SECOND], **options)
    calls.clear()
    again = rank_checkpoints(f"folder:{images}", [small_model, SECOND], **options)
    assert not calls
    assert str(numbers(again)) == str(numbers(first))  # as text: NaN is not equal to itself
    rank_checkpoints(f"folder:{images}", [small_model, SECOND, "random:test_resnet?seed=1&size=64"], **options)
    assert len(calls) == 2


def test_results_are_in_the_database_with_their_environment(images: Path, home: Path, small_model: str) -> None:
    (images / "class1" / "bad.png").write_bytes(b"")
    found = rank_checkpoints(f"folder:{images}?test=0", [small_model], scores=("logme", "knn"), name="mine")
    with ResultsDatabase(home / "results.sqlite") as database:
        results = database.latest(study="mine", benchmark="rank")
    assert [r.cell.parameters["score"] for r in results] == ["probe", "logme", "knn"]
    assert all(r.environment["unseen"] for r in results)
    # Every result records the unreadable image, and so does the answer.
    assert [[(d.name, d.split) for d in r.record.dropped] for r in results] == [[("class1/bad.png", "train")]] * 3
    assert found.record.findings() == ["1 unreadable image"]
    page = Path(found.page).read_text(encoding="utf-8")
    assert "it is the only candidate" in page
    assert "bad.png" in page


def test_constant_features_fail_their_candidate_alone(images: Path, home: Path, small_model: str) -> None:
    from torch import nn

    from unseen.backbones import BACKBONES, register_backbone

    class Constant(nn.Module):
        def forward(self, x):  # type: ignore[no-untyped-def]
            return 0 * x.mean(dim=(2, 3)) + 1

    name = "constant-for-ranking"
    register_backbone(name)(lambda: Constant())
    try:
        found = rank_checkpoints(f"folder:{images}", [name, small_model], scores=("logme",))
    finally:
        BACKBONES._targets.pop(name)
    assert [c.model for c in found.candidates] == [small_model, name]
    assert "constant" in found.candidates[1].error
    assert found.choice is not None
    assert found.choice.model == small_model


def test_a_file_that_is_no_checkpoint_is_refused_before_any_work(
    images: Path, home: Path, tmp_path: Path, small_model: str
) -> None:
    (tmp_path / "broken.pth").write_bytes(b"no checkpoint")
    broken = f"file:{tmp_path / 'broken.pth'}?arch=timm:test_resnet"
    with pytest.raises(CheckpointError, match="cannot be read"):
        rank_checkpoints(f"folder:{images}", [broken, small_model], scores=("logme",))
    assert not (home / "features").exists()


def test_leep_counts_where_all_have_heads(images: Path, home: Path, small_model: str) -> None:
    found = rank_checkpoints(f"folder:{images}", [small_model, SECOND], scores=("leep", "nce", "logme"))
    assert found.counted == ("leep", "nce", "logme")
    assert all(len(c.scores) == 3 for c in found.candidates)
    assert found.candidates[0].expected >= found.candidates[1].expected


def test_without_a_head_leep_alone_fails(images: Path, home: Path, tmp_path: Path, small_model: str) -> None:
    import torch

    from unseen.backbones import load_backbone

    state = load_backbone(SECOND).module.state_dict()
    torch.save({k: v for k, v in state.items() if not k.startswith("fc.")}, tmp_path / "headless.pth")
    headless = f"file:{tmp_path / 'headless.pth'}?arch=timm:test_resnet&size=64"
    found = rank_checkpoints(f"folder:{images}", [small_model, headless], scores=("leep", "logme"))
    assert (found.failed, found.counted) == ([], ("logme",))
    assert [note for note in found.notes if "no class head" in note]


def test_invalid_input_is_refused(
    tmp_path: Path, home: Path, make_folder: Callable[..., Path], small_model: str
) -> None:
    make_folder(tmp_path / "few", classes=4, per_class=1)
    few = f"folder:{tmp_path / 'few'}?test=0"
    with pytest.raises(DataError, match="more images than classes"):
        rank_checkpoints(few, [small_model])
    with pytest.raises(UsageError, match="at least one checkpoint"):
        rank_checkpoints(few, [])
    with pytest.raises(UsageError, match="Did you mean 'sample'"):
        rank_checkpoints(few, [small_model], samples=3)
    make_folder(tmp_path / "few", classes=4, per_class=3)
    with pytest.raises(UsageError, match="not both"):
        rank_checkpoints(few, [small_model], sample=6, budget=5.0)


def test_a_dataset_object_is_accepted_if_its_name_loads_the_same_images(
    images: Path, home: Path, small_model: str
) -> None:
    from unseen.data.subset import select

    whole = load_dataset(f"folder:{images.resolve()}")
    found = rank_checkpoints(whole, [small_model], scores=("logme",))
    assert (found.images, found.dataset) == (18, whole.id)
    with pytest.raises(UsageError, match="register_dataset"):
        rank_checkpoints(select(whole, limit=9), [small_model], scores=("logme",))


def test_features_are_shared_with_other_studies(
    images: Path, home: Path, small_model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`unseen rank` on a relative path, then `unseen run` on the absolute one: the images go through once."""
    seen = Extracted()
    monkeypatch.chdir(images.parent)
    rank_checkpoints("images", [small_model], scores=("logme",), progress=seen)
    assert seen.images == {"train": 18}
    study = Study("s", (small_model,), (f"folder:{images.resolve()}",), {"probe": {"seeds": [1]}})
    assert not run_study(study, home, progress=seen).failed
    assert seen.images == {"train": 18, "test": 6}
    rank_checkpoints(f"folder:{images}", [small_model], scores=("knn",), progress=seen)
    assert seen.images == {"train": 18, "test": 6}


def test_a_sample_is_all_that_is_extracted(images: Path, home: Path, small_model: str) -> None:
    seen = Extracted()
    options = {"scores": ("logme",), "progress": seen}
    found = rank_checkpoints(f"folder:{images}", [small_model], sample=9, **options)
    assert (found.images, found.total, seen.images) == (9, 18, {"train": 9})
    other = rank_checkpoints(f"folder:{images}", [small_model], sample=9, seed=1, **options)
    assert other.candidates[0].scores != found.candidates[0].scores


def rank_and_die(data: str, models: list[str]) -> None:
    """Rank in a process that ends before the first cell of kNN."""
    import unseen.benchmarks.rank.scoring as module

    original = module.score_value

    def stop(card: Any, *arguments: Any, **named: Any) -> Any:
        if card.id == "knn":
            os._exit(9)
        return original(card, *arguments, **named)

    module.score_value = stop
    rank_checkpoints(data, models, scores=("logme", "gbc", "knn", "nleep"))


@pytest.mark.slow
def test_a_kill_loses_one_cell(images: Path, home: Path, small_model: str, calls: list[str]) -> None:
    data = f"folder:{images}"
    killed = start_call(rank_and_die, data, [small_model, SECOND]).process
    killed.join(300)
    assert killed.exitcode == 9
    with ResultsDatabase(home / "results.sqlite") as database:
        assert [r.cell.parameters["score"] for r in database.latest()] == ["probe", "logme", "gbc"]
    found = rank_checkpoints(data, [small_model, SECOND], scores=("logme", "gbc", "knn", "nleep"))
    assert found.counted == ("logme", "gbc", "knn", "nleep")
    # What was done before the kill is not done again.
    assert {score: calls.count(score) for score in set(calls)} == {"logme": 1, "gbc": 1, "knn": 2, "nleep": 2}


@pytest.mark.slow
def test_engines_give_the_same_answer(
    images: Path, tmp_path: Path, small_model: str, shared_engine: Callable[[str, int], Engine]
) -> None:
    """Here, in two processes and on a Dask cluster: the same numbers to the last bit."""
    options = {"scores": ("nleep", "logme", "leep", "mi-0.01"), "layers": ("pooled", "conv_stem")}
    answers = []
    for number, (kind, workers) in enumerate((("local", 1), ("local", 2), ("dask", 2))):
        engine = shared_engine(kind, workers)
        found = rank_checkpoints(
            f"folder:{images}", [small_model, SECOND], home=tmp_path / str(number), engine=engine, **options
        )
        assert [c.label for c in found.failed] == [f"{SECOND} at conv_stem"]
        answers.append(str(numbers(found)))  # as text: NaN is not equal to itself
    assert answers[0] == answers[1] == answers[2]


def ranking(*candidates: Candidate) -> CheckpointRanking:
    return CheckpointRanking("d", candidates, (), (), 100, 100, 2, 0.0)


def candidate(model: str, rank: int, *, flops: int | None = None) -> Candidate:
    return Candidate(
        model, rank=rank, expected=0.9 - rank / 100, low=0.8, high=0.95, may_be_best=True, best_share=0.4, flops=flops
    )


def test_best_is_the_recommended_candidate_in_every_output() -> None:
    """The second of the order is as good and cheaper."""
    name = "packaged:efficientnet-lite0"
    order = ranking(candidate(f"{name}?size=64", 1, flops=900), candidate(name, 2, flops=300))
    found = Ranking(order, {name: "full", f"{name}?size=64": "tiny"})
    assert found.best == "full"
    assert found.headline().startswith("Fine-tune full: expect")
    assert "full is 3.0 times cheaper (300 operations per image) and is expected to lose 1.0 points" in found.headline()
    assert "tiny (89 ± 7 %) is statistically tied with it" in found.headline()
    assert [row["model"] for row in found.rows()] == ["tiny", "full"]
    assert order.to_dict()["choice"]["model"] == name
    assert order.recommendation.startswith(f"Fine-tune {name}: ")


def test_arrays_have_no_cost_to_compare() -> None:
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(4), 20)
    rows = rng.normal(size=(4, 8))[y] + 0.5 * rng.normal(size=(80, 8))
    more = {"a": rows + 0.5 * rng.normal(size=rows.shape), "b": rows + 0.5 * rng.normal(size=rows.shape)}
    found = unseen.rank(more, y, scores=("logme",))
    assert found.best is not None and found.headline().startswith(f"Fine-tune {found.best}: ")
    assert "cheap" not in found.headline() and "tied" in found.headline()


def test_an_unknown_option_of_arrays_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="Did you mean 'scores'"):
        unseen.rank({"a": np.eye(4)}, [0, 0, 1, 1], score=("logme",))
