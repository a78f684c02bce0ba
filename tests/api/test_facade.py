"""The one-call answers: names and objects in, numbers that other code computes too, nothing extracted twice."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

import unseen
from unseen.core.errors import UnseenError
from unseen.core.extras import ensure_torchvision

ensure_torchvision()  # before anything imports torchvision

Labelled = tuple[list[Image.Image], list[str]]


class SmallNet(nn.Module):
    """A network with a head, dropout and batch statistics: what a training run has."""

    def __init__(self, width: int = 12, classes: int = 3) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, width, 5, stride=4)
        self.norm = nn.BatchNorm2d(width)
        self.drop = nn.Dropout(0.3)
        self.head = nn.Linear(width, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.drop(torch.relu(self.norm(self.stem(x))).mean((2, 3))))


@pytest.fixture
def labelled() -> Labelled:
    """Images of three classes that colour tells apart, a little noise in it."""
    rng = np.random.default_rng(0)
    images, labels = [], []
    for number, name in enumerate(("red", "green", "blue")):
        for _ in range(12):
            pixels = rng.integers(0, 120, (40, 56, 3), dtype=np.uint8)
            pixels[..., number] += 90
            images.append(Image.fromarray(pixels))
            labels.append(name)
    return images, labels


@pytest.fixture
def net() -> SmallNet:
    torch.manual_seed(0)
    return SmallNet()


SMALL = unseen.Preprocessing(size=32, resize=32)


def stored(home: Path) -> int:
    return len(list(unseen.FeatureStore(home / "features").entries()))


def test_features_of_a_module_are_those_of_its_own_forward(home: Path, labelled: Labelled, net: SmallNet) -> None:
    images, labels = labelled
    found = unseen.extract(net, labelled, preprocessing=SMALL)
    from torchvision import transforms

    steps = [transforms.Resize(32, transforms.InterpolationMode.BICUBIC), transforms.CenterCrop(32)]
    normal = transforms.Normalize(SMALL.mean, SMALL.std)
    chain = transforms.Compose([*steps, transforms.ToTensor(), normal])
    batch = torch.stack([chain(image) for image in images])
    net.eval()
    with torch.no_grad():
        expected = torch.relu(net.norm(net.stem(batch))).mean((2, 3)).numpy()
    np.testing.assert_allclose(found.features, expected, atol=1e-5)
    assert [found.class_names[label] for label in found.labels] == labels
    # The same by a transform of the usual kind, and by one that belongs to no library.
    usual = unseen.extract(net, labelled, transform=chain)
    np.testing.assert_allclose(usual.features, expected, atol=1e-5)
    foreign = unseen.extract(net, labelled, transform=lambda image: chain(image))
    np.testing.assert_allclose(foreign.features, expected, atol=1e-5)


def test_nothing_is_stale_after_a_step_and_nothing_is_extracted_twice(
    home: Path, labelled: Labelled, net: SmallNet
) -> None:
    first = unseen.extract(net, labelled, preprocessing=SMALL).features
    assert stored(home) == 1
    unseen.evaluate(net, labelled, preprocessing=SMALL)  # other splits of the same images
    unseen.extract(net, (labelled[0], labelled[1][::-1]), preprocessing=SMALL)  # other labels
    unseen.extract(net, [image.copy() for image in labelled[0]], preprocessing=SMALL)  # equal images, no labels
    assert stored(home) == 1
    with torch.no_grad():
        net.stem.bias[0] += 1.0
    second = unseen.extract(net, labelled, preprocessing=SMALL).features
    assert stored(home) == 2
    assert np.abs(second - first).max() > 0.1
    net.stem.stride = (2, 2)  # no tensor has changed
    assert not np.allclose(unseen.extract(net, labelled, preprocessing=SMALL).features, second)
    changed = [labelled[0][0].rotate(90), *labelled[0][1:]]
    assert not np.allclose(unseen.extract(net, changed, preprocessing=SMALL).features[0], second[0])


def test_the_users_module_is_left_alone(home: Path, labelled: Labelled, net: SmallNet) -> None:
    net.train()
    net.norm.eval()  # a mode that is not the same everywhere
    before = {name: value.clone() for name, value in net.state_dict().items()}
    strides = [p.stride() for p in net.parameters()]
    unseen.evaluate(net, labelled, preprocessing=SMALL, how=unseen.Extraction(runtime="torch"))
    assert net.training and net.drop.training and not net.norm.training
    assert [p.stride() for p in net.parameters()] == strides
    assert all(p.requires_grad for p in net.parameters())
    for name, value in net.state_dict().items():
        assert torch.equal(value, before[name])


def test_evaluate_is_the_probe_of_the_house(home: Path, labelled: Labelled, net: SmallNet) -> None:
    result = unseen.evaluate(net, labelled, preprocessing=SMALL, solver="ridge")
    features = unseen.extract(net, labelled, preprocessing=SMALL)
    from unseen.data.adapters import as_dataset

    splits = as_dataset(labelled).splits
    rows = {name: split.whole.rows for name, split in splits.items() if split.whole is not None}
    (expected,) = unseen.evaluate_probe(
        features.features[rows["train"]], features.labels[rows["train"]],
        features.features[rows["test"]], features.labels[rows["test"]], solver="ridge", seeds=1,
    )  # fmt: skip
    assert result.top1 == expected.top1
    assert result.interval.low == expected.interval().low
    assert set(result.per_class) == {"red", "green", "blue"}
    assert result.tuned[0] == dict(expected.best)
    again = unseen.evaluate(net, labelled, preprocessing=SMALL, solver="ridge")
    assert again.results[0].seconds == result.results[0].seconds, "read, not computed again"


def test_test_images_of_their_own(home: Path, labelled: Labelled, net: SmallNet, images: Path) -> None:
    pictures, labels = labelled
    even = ([*pictures[::2]], labels[::2])
    odd = ([*pictures[1::2]], labels[1::2])
    result = unseen.evaluate(net, even, odd, preprocessing=SMALL)
    assert result.results[0].details["test_images"] == 18
    assert unseen.load_results("python").results[0].cell.id == result.results[0].cell.id
    with pytest.raises(UnseenError, match="no labels"):
        unseen.evaluate(net, pictures, preprocessing=SMALL)
    # Folders beside one another, by path: every image of each counts.
    result = unseen.evaluate(net, images, images, preprocessing=SMALL, solver="ncm")
    assert result.results[0].details["test_images"] == result.results[0].details["train_images"] == 24


def test_a_function_is_a_model(home: Path, labelled: Labelled) -> None:
    def means(batch: np.ndarray) -> np.ndarray:
        assert batch.dtype == np.uint8 and batch.shape[1:] == (224, 224, 3)
        return batch.mean((1, 2))

    found = unseen.extract(means, labelled)
    # Bicubic resizing and the crop keep the mean of a noisy picture but for a little.
    expected = np.stack([np.asarray(image).mean((0, 1)) for image in labelled[0]])
    assert np.abs(found.features - expected).max() < 12
    assert unseen.evaluate(means, labelled).top1 == 1.0
    scale = np.ones(3, np.float32)
    first = unseen.extract(lambda batch: batch.mean((1, 2)) * scale, labelled).features
    scale *= 2  # what the function reads has changed, not its code
    np.testing.assert_allclose(unseen.extract(lambda b: b.mean((1, 2)) * scale, labelled).features, 2 * first)


def test_compare_orders_and_says_how_sure(home: Path, labelled: Labelled, net: SmallNet) -> None:
    rng = np.random.default_rng(0)
    noise = rng.normal(size=(64, 3))

    def blind(batch: np.ndarray) -> np.ndarray:
        return noise[np.asarray(batch, np.int64).sum((1, 2, 3)) % 64]

    contest = unseen.compare({"colour": lambda b: b.mean((1, 2)), "blind": blind}, labelled)
    assert list(contest.top1) == ["colour", "blind"]
    assert contest.headline().startswith("colour has 100.0 %")
    lead = contest.top1["colour"] - contest.top1["blind"]
    assert contest.difference("colour", "blind").value == pytest.approx(lead)
    same = unseen.compare({"a": lambda b: b.mean((1, 2)), "b": lambda b: b.mean((1, 2))}, labelled)
    assert "statistically tied with" in same.headline()


def test_rank_takes_matrices_and_models(home: Path, labelled: Labelled, net: SmallNet, small_model: str) -> None:
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(4), 20)
    centres = rng.normal(size=(4, 8))
    found = unseen.rank(
        {"noise": rng.normal(size=(80, 8)), "signal": centres[y] + 0.3 * rng.normal(size=(80, 8))},
        [f"class {label}" for label in y],
    )
    assert found.best == "signal"
    from unseen.ranking import logme

    row = found.rows()[0]
    assert row["model"] == "signal" and row["rank"] == 1
    signal = {"signal": centres[y].astype(np.float32)}
    value = unseen.rank(signal, y, scores=("logme",)).rows()[0]["logme"]
    assert value == pytest.approx(logme(signal["signal"], y))
    models = unseen.rank({"mine": net, "theirs": small_model}, labelled)
    assert {row["model"] for row in models.rows()} == {"mine", "theirs"}
    with pytest.raises(UnseenError, match=r"shape \(80, 8\); there are 79 targets"):
        unseen.rank({"x": rng.normal(size=(80, 8))}, y[:-1])


def test_zero_shot_on_arrays(home: Path) -> None:
    rng = np.random.default_rng(0)
    S = rng.normal(size=(20, 10))
    y = np.repeat(np.arange(20), 15)
    X = S[y] @ rng.normal(size=(10, 30)) + 0.1 * rng.normal(size=(300, 30))
    found = unseen.evaluate_zeroshot(X, y, S, methods=("ESZSL", "SAE"), unseen=[3, 7, 11, 15])
    assert found.unseen_classes == ("3", "7", "11", "15")
    assert found.top1["ESZSL"] > 0.9
    assert {"zsl", "ts", "tr", "H", "zsl_per_image"} <= set(found.rows()[0])
    shuffled = unseen.evaluate_zeroshot(X, y, S[rng.permutation(20)], methods="ESZSL", unseen=[3, 7, 11, 15])
    assert shuffled.top1["ESZSL"] < 0.8
    with pytest.raises(UnseenError, match="300 rows of features and 299 labels"):
        unseen.evaluate_zeroshot(X, y[:-1], S)


def test_answers_show_and_save_themselves(home: Path, labelled: Labelled, net: SmallNet, tmp_path: Path) -> None:
    features = unseen.extract(net, labelled, preprocessing=SMALL)
    result = unseen.evaluate(net, labelled, preprocessing=SMALL, seeds=2)
    answers: list[Any] = [features, result, unseen.compare([net], labelled), unseen.load_results()]
    for answer in answers:
        assert len(repr(answer)) < 260 and "\n" not in repr(answer)
        assert answer._repr_html_().startswith(("<div>", "<p>"))
        frame = answer.to_pandas()
        assert len(frame) == len(answer.rows()) > 0
        for kind in ("csv", "json", "html"):
            assert answer.save(tmp_path / f"answer.{kind}").stat().st_size > 50
    assert (
        json.loads(result.save(tmp_path / "r.json").read_text())["rows"][0]["top1"] == result.results[0].metrics["top1"]
    )
    with pytest.raises(UnseenError, match=r"ends in \.doc"):
        result.save(tmp_path / "r.doc")


def test_wrong_things_are_told_in_one_line(home: Path, labelled: Labelled, net: SmallNet) -> None:
    class Broken(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            raise RuntimeError("no such luck\nsecond line")

    wrong: list[Callable[[], Any]] = [
        lambda: unseen.evaluate(3, labelled),
        lambda: unseen.evaluate(Broken(), labelled),
        lambda: unseen.evaluate(lambda batch: batch.mean(), labelled),
        lambda: unseen.evaluate(net, 7),
        lambda: unseen.evaluate(net, (labelled[0], labelled[1][:-1])),
        lambda: unseen.evaluate(net, (labelled[0], [0.5, float("nan")] * 18)),
        lambda: unseen.evaluate(net, ([object()], ["a"])),
        lambda: unseen.evaluate("timm:resnet5000", labelled),
        lambda: unseen.evaluate("timm:resnet50", labelled, transform=lambda image: image),
        lambda: unseen.evaluate(net, "nothing:here"),
        lambda: unseen.extract(net, labelled, transform=lambda image: torch.rand(3, 8, 8)),
        lambda: unseen.extract(net, [np.full((8, 8, 3), 7.5)]),
        lambda: unseen.compare({}, labelled),
        lambda: unseen.load_results(home="nowhere"),
    ]
    for call in wrong:
        with pytest.raises(UnseenError) as caught:
            call()
        assert "\n" not in str(caught.value)


def test_arrays_tensors_paths_and_frames_are_images(home: Path, images: Path, net: SmallNet, tmp_path: Path) -> None:
    files = sorted(images.rglob("*.png"))
    labels = [path.parent.name for path in files]
    pixels = np.stack([np.asarray(Image.open(path)) for path in files])
    expected = unseen.extract(net, (files, labels), preprocessing=SMALL)
    import pandas

    given: list[Any] = [
        (pixels, labels),
        (torch.from_numpy(pixels).permute(0, 3, 1, 2), labels),
        (torch.from_numpy(pixels).permute(0, 3, 1, 2).float() / 255, labels),
        ([path.read_bytes() for path in files], labels),
        pandas.DataFrame({"path": [str(path) for path in files], "label": labels}),
    ]
    for data in given:
        found = unseen.extract(net, data, preprocessing=SMALL)
        np.testing.assert_allclose(found.features, expected.features, atol=1e-6)
        np.testing.assert_array_equal(found.labels, expected.labels)
    assert isinstance(unseen.evaluate(net, images, preprocessing=SMALL).top1, float)


@pytest.mark.slow
def test_the_five_lines_run_in_a_fresh_interpreter(home: Path, images: Path) -> None:
    """By names that `dir(unseen)` offers."""
    code = f"""
import unseen, numpy as np, torch
offered = set(dir(unseen))
assert {{"extract", "evaluate", "compare", "rank", "evaluate_zeroshot", "load_results", "ProbeCallback"}} <= offered
nn = torch.nn
net = nn.Sequential(nn.Conv2d(3, 6, 5, 4), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())
f = unseen.extract(net, {str(images)!r})
r = unseen.evaluate(net, {str(images)!r})
c = unseen.compare({{"net": net, "pixels": lambda b: b[:, ::32, ::32].reshape(len(b), -1)}}, {str(images)!r})
k = unseen.rank({{"net": net}}, {str(images)!r})
z = unseen.evaluate_zeroshot(np.eye(12)[np.arange(60) % 12], np.arange(60) % 12, np.eye(12), methods="ESZSL")
print(f.features.shape, len(f.labels), r.top1, sorted(c.top1), k.best, len(z.rows()), len(unseen.load_results()))
assert all(callable(getattr(unseen, name)) for name in ("features", "results")) is False  # rooms stay rooms
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("(24, 6) 24 ")


def test_progress_is_printed_in_a_notebook(
    images: Path, home: Path, small_model: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    unseen.extract(small_model, images, split="test")
    assert capsys.readouterr().err == ""
    monkeypatch.setitem(sys.modules, "ipykernel", ModuleType("ipykernel"))
    unseen.extract(small_model, images, split="train")
    text = capsys.readouterr().err
    total = re.findall(r"of (\d+) images", text)[0]
    assert f"{total} of {total} images" in text
