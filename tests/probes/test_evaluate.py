"""One call for all seeds and shots; bad input; what a record holds."""

import dataclasses
import json
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.metrics import confusion_matrix

from unseen import FeatureKey, FeatureStore, Preprocessing
from unseen.core.errors import DataError, UnknownNameError, UsageError
from unseen.features.part import PartRows
from unseen.metrics import mcnemar, paired_bootstrap, per_class_accuracy
from unseen.probes import Protocol, Settings, evaluate_probe
from unseen.probes.solvers import solver_version

QUICK = Settings(protocol=Protocol(trials=4, epochs=5))
SOLVERS = ["logistic", "paper", "ridge", "knn", "ncm"]


@pytest.mark.parametrize("solver", SOLVERS)
def test_one_record_per_shots_and_seed(sample, solver):
    found = evaluate_probe(*sample, solver=solver, shots=(1, 4, "all"), seeds=(22, 37), settings=QUICK)
    assert [(r.shots, r.seed) for r in found] == [(s, seed) for s in (1, 4, "all") for seed in (22, 37)]
    assert [r.train_size for r in found[::2]] == [8, 32, 400]
    for record in found:
        assert record.solver == solver
        assert record.top1 == record.correct.mean() == (record.predictions == sample.test_labels).mean()
        assert record.top1 <= record.top5 <= 1.0
        assert record.top1 in record.interval()
        np.testing.assert_array_equal(
            record.per_class, per_class_accuracy(sample.test_labels, record.predictions, np.arange(8))
        )
        assert (len(record.trials) > 0) == (solver != "ncm" and (solver, record.shots) != ("logistic", 1))
        if record.trials:
            assert dict(record.best) in [dict(trial.parameters) for trial in record.trials]
        assert record.seconds > 0
        json.dumps(record.details(), allow_nan=False)
    assert np.mean([r.top1 for r in found[-2:]]) > np.mean([r.top1 for r in found[:2]])


@pytest.mark.parametrize("solver", SOLVERS)
def test_same_seed_same_numbers(sample, solver):
    first, second = (
        evaluate_probe(*sample, solver=solver, shots=(2, "all"), seeds=(45,), settings=QUICK) for _ in range(2)
    )
    for one, other in zip(first, second, strict=True):
        np.testing.assert_array_equal(one.predictions, other.predictions)
        assert one.trials == other.trials


@pytest.mark.parametrize("solver", SOLVERS)
def test_shuffled_labels_give_chance(sample, solver):
    shuffled = np.random.default_rng(0).permutation(sample.train_labels)
    found = evaluate_probe(
        sample.train, shuffled, sample.test, sample.test_labels, solver=solver, seeds=(22, 37), settings=QUICK
    )
    assert abs(np.mean([r.top1 for r in found]) - 1 / 8) < 0.07


@pytest.mark.parametrize("solver", SOLVERS)
def test_labels_may_be_anything_that_sorts(sample, solver):
    names = np.array([f"class {chr(ord('h') - i)}" for i in range(8)])
    plain = evaluate_probe(*sample, solver=solver, seeds=(22,), settings=QUICK)[0]
    shifted = evaluate_probe(
        sample.train, sample.train_labels + 100, sample.test, sample.test_labels + 100,
        solver=solver, seeds=(22,), settings=QUICK,
    )[0]  # fmt: skip
    np.testing.assert_array_equal(shifted.predictions, plain.predictions + 100)
    named = evaluate_probe(
        sample.train, names[sample.train_labels], sample.test, names[sample.test_labels],
        solver=solver, seeds=(22,), settings=QUICK,
    )[0]  # fmt: skip
    assert named.predictions.dtype.kind == "U"
    assert named.top1 == pytest.approx(plain.top1, abs=0.06)


def test_test_labels_without_training_images_count_as_wrong(sample):
    odd = sample.test_labels.copy()
    odd[:100] = 99
    record = evaluate_probe(sample.train, sample.train_labels, sample.test, odd, seeds=(22,))[0]
    assert not record.correct[:100].any()
    assert record.classes[-1] == 99 and record.per_class[-1] == 0.0
    assert record.details()["per_class"]["99"] == 0.0


def test_a_class_with_one_image_trains_and_is_never_validated(sample):
    keep = (sample.train_labels != 3) | (np.arange(400) == 3)
    record = evaluate_probe(sample.train[keep], sample.train_labels[keep], sample.test, sample.test_labels, seeds=(22,))
    assert 3 in record[0].classes and np.isfinite(record[0].top1)


def test_the_datasets_own_validation_split_selects(sample):
    parts = sample.train[:300], sample.train_labels[:300], sample.test, sample.test_labels
    held = {"validation_features": sample.train[300:], "validation_labels": sample.train_labels[300:]}
    joined = evaluate_probe(*parts, **held, solver="ridge", seeds=(22, 37))
    assert [r.train_size for r in joined] == [400, 400] and joined[0].validation_size == 100
    np.testing.assert_array_equal(joined[0].predictions, joined[1].predictions)


def test_records_compare_in_pairs(sample):
    good = evaluate_probe(*sample, seeds=(22,))[0]
    poor = evaluate_probe(*sample, seeds=(22,), shots=(1,))[0]
    assert mcnemar(good.correct, poor.correct).p_value < 0.01
    assert paired_bootstrap(good.correct, poor.correct).difference.low > 0


def test_a_memory_map_is_read_like_an_array(sample, tmp_path):
    sample.train.astype(np.float16).tofile(tmp_path / "rows")
    mapped = np.memmap(tmp_path / "rows", np.float16, "r", shape=sample.train.shape)
    first = evaluate_probe(mapped, *sample[1:], seeds=(22,))[0]
    second = evaluate_probe(np.asarray(mapped), *sample[1:], seeds=(22,))[0]
    np.testing.assert_array_equal(first.predictions, second.predictions)


def test_bad_input_gets_a_clear_error(sample):
    train, labels, test, test_labels = sample
    broken = train.copy()
    broken[7, 3] = np.nan
    with pytest.raises(DataError, match=r"training features contain NaN.* row 7"):
        evaluate_probe(broken, labels, test, test_labels)
    with pytest.raises(DataError, match="one class"):
        evaluate_probe(train, np.zeros(400), test, test_labels)
    with pytest.raises(DataError, match="400 rows of features need 400 labels"):
        evaluate_probe(train, labels[:-1], test, test_labels)
    with pytest.raises(DataError, match="24 columns and test features 20"):
        evaluate_probe(train, labels, test[:, :20], test_labels)
    with pytest.raises(DataError, match="go together"):
        evaluate_probe(train, labels, test, test_labels, validation_features=test)
    with pytest.raises(DataError, match="NaN or infinity"):
        evaluate_probe(train, np.where(labels == 0, np.nan, labels), test, test_labels)
    with pytest.raises(UnknownNameError, match="paper"):
        evaluate_probe(train, labels, test, test_labels, solver="papper")
    with pytest.raises(UsageError, match="whole numbers"):
        evaluate_probe(train, labels, test, test_labels, shots=0)
    with pytest.raises(UsageError, match="whole numbers"):
        evaluate_probe(train, labels, test, test_labels, shots="most")
    with pytest.raises(UsageError, match="at least one seed"):
        evaluate_probe(train, labels, test, test_labels, seeds=0)
    with pytest.raises(DataError, match="labels are missing"):
        evaluate_probe(train, None, test, test_labels)


def test_tensors_and_single_numbers_are_accepted(sample):
    plain = evaluate_probe(*sample, shots=(4,), seeds=(22, 37))
    tensors = evaluate_probe(*(torch.from_numpy(part) for part in sample), shots=4, seeds=2)
    assert [(r.shots, r.seed) for r in tensors] == [(4, 22), (4, 37)]
    for one, other in zip(plain, tensors, strict=True):
        np.testing.assert_array_equal(one.predictions, other.predictions)
    half = evaluate_probe(torch.from_numpy(sample.train).bfloat16(), *sample[1:], shots="all", seeds=1)[0]
    assert half.top1 > 0.5


def test_rows_of_the_store_are_accepted(sample, tmp_path):
    store = FeatureStore(tmp_path)
    entries = []
    for split, features, labels in (("train", *sample[:2]), ("test", *sample[2:])):
        key = FeatureKey("drawn", "0", "pooled", Preprocessing(), "fp32", "torch", "drawn", split, "x")
        with store.writer(key, total=len(labels), part_size=150) as writer:
            for start in range(0, len(labels), 150):
                part = slice(start, start + 150)
                writer.write(PartRows(writer.next_index, features[part], labels[part], np.arange(len(labels))[part]))
            writer.finish()
        entries.append(store.open(key))
    plain = evaluate_probe(*sample, seeds=1)[0]
    rows = evaluate_probe(entries[0].features, sample.train_labels, entries[1].features, sample.test_labels, seeds=1)
    np.testing.assert_array_equal(rows[0].predictions, plain.predictions)


@pytest.mark.parametrize("solver", ["logistic", "ridge", "knn", "ncm"])
def test_one_image_per_class_is_enough(sample, solver):
    first = np.array([np.flatnonzero(sample.train_labels == c)[0] for c in range(8)])
    record = evaluate_probe(sample.train[first], sample.train_labels[first], *sample[2:], solver=solver, seeds=1)[0]
    assert record.train_size == 8 and record.top1 > 1.5 / 8


def test_one_image_per_class_is_not_enough_for_the_published_search(sample):
    with pytest.raises(DataError, match="`logistic`"):
        evaluate_probe(sample.train[:8], np.arange(8), *sample[2:], solver="paper")


def test_fast_is_another_name_of_the_default(sample):
    record = evaluate_probe(*sample, solver="fast", seeds=1)[0]
    assert record.solver == "logistic" and record.version == solver_version("fast") == solver_version("logistic")


@pytest.mark.parametrize("solver", ["logistic", "ridge", "ncm"])
def test_confusion_and_calibration_are_those_of_scikit_learn(sample, solver):
    record = evaluate_probe(*sample, solver=solver, seeds=1)[0]
    np.testing.assert_array_equal(record.confusion, confusion_matrix(sample.test_labels, record.predictions))
    values = record.details()
    mistakes = sum(pair["images"] for pair in values["confusions"])
    assert 0 < mistakes <= (~record.correct).sum()
    assert 0 < record.log_loss < 3 and 0 <= record.calibration_error < 0.6


@pytest.mark.parametrize("solver", ["logistic", "ridge", "knn", "ncm", "paper"])
def test_the_device_path_gives_the_same_accuracy(sample, solver, monkeypatch):
    plain = evaluate_probe(*sample, solver=solver, shots=(2, "all"), seeds=2, settings=QUICK)
    monkeypatch.setattr("unseen.probes.rows.FeatureSet.is_on_cpu", False)  # takes the branches of other devices
    other = evaluate_probe(*sample, solver=solver, shots=(2, "all"), seeds=2, settings=QUICK, device="cpu")
    for one, two in zip(plain, other, strict=True):
        assert one.top1 == pytest.approx(two.top1, abs=1e-4)


def test_square_roots_change_the_features(sample):
    positive = np.abs(sample.train), sample.train_labels, np.abs(sample.test), sample.test_labels
    rooted = np.sqrt(positive[0]), sample.train_labels, np.sqrt(positive[2]), sample.test_labels
    first = evaluate_probe(*positive, seeds=1, square_root=True)[0]
    second = evaluate_probe(*rooted, seeds=1, settings=Settings(power=1.0))[0]
    assert (first.predictions == second.predictions).mean() > 0.99
    assert (first.predictions != evaluate_probe(*positive, seeds=1)[0].predictions).any()


def test_the_expectation_in_words_says_how_many_shots_and_whether_it_was_kept(sample):
    halves = (*sample[2:], *sample[:2])  # the other way round the two differ by 2.5 standard errors, by chance
    few, some, everything = evaluate_probe(*halves, shots=(1, 3, "all"), seeds=1)
    assert few.expectation == ""
    assert "on images like these at 2 shots" in some.expectation
    assert everything.expectation.startswith(f"expect {100 * everything.expected:.0f} ± ")
    assert "not like" not in everything.expectation and "shots" not in everything.expectation
    shifted = evaluate_probe(*sample[:2], -sample.test, sample.test_labels, seeds=1)[0]
    assert "the test images have fewer right" in shifted.expectation
    clipped = dataclasses.replace(everything, expected=0.98, expected_se=0.01, correct=np.ones(48, bool))
    assert clipped.expectation.startswith("expect 94 to 100 % on images like these")


def test_a_device_that_runs_out_of_memory_is_tried_with_smaller_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """The solver fails until the limit is below its threshold; the result is that of streamed features."""
    from unseen.probes import evaluate as module

    generator = np.random.default_rng(0)
    labels = np.repeat(np.arange(4), 20)
    features = generator.normal(size=(80, 16)).astype(np.float32) + 2 * np.eye(4, 16, dtype=np.float32)[labels]
    limits: list[int] = []
    original = module.solve

    def solve(name: str, data: Any, draws: Any, workers: Any, settings: Any) -> Any:
        limits.append(settings.memory_limit)
        if data.features.tensor is not None:
            raise torch.cuda.OutOfMemoryError("injected")
        return original(name, data, draws, workers, settings)

    expected = module.evaluate_probe(features, labels, features, labels, seeds=[22], memory_limit=0)
    monkeypatch.setattr(module, "solve", solve)
    found = module.evaluate_probe(features, labels, features, labels, seeds=[22], memory_limit=1 << 30)
    assert limits == [1 << 30, 1 << 28, 0]
    np.testing.assert_array_equal(found[0].predictions, expected[0].predictions)


def test_an_error_without_any_memory_is_raised() -> None:
    from unseen.probes.evaluate import within_memory

    tried: list[int] = []

    def fail(limit: int) -> None:
        tried.append(limit)
        raise torch.cuda.OutOfMemoryError("injected")

    with pytest.raises(torch.cuda.OutOfMemoryError):
        within_memory(fail, 1 << 29)
    assert tried == [1 << 29, 1 << 27, 0]


def test_the_memory_limit_of_a_gpu_is_a_share_of_its_free_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    from unseen.probes import evaluate as module

    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (10_000, 40_000))
    assert module.device_memory(torch.device("cuda:0")) == 8_000
