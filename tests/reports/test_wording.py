"""Names and numbers as a reader wants them."""

from __future__ import annotations

import math

import pytest

from unseen.core.records import ModelCard
from unseen.reports.blocks import Standing
from unseen.reports.wording import (
    amount,
    counted,
    duration,
    family,
    lead_sentence,
    listed,
    setting_text,
    short_names,
    typeset,
)
from unseen.stats import Candidate, Interval


def standing(question: str, model: str, value: float, low: float, high: float) -> Standing:
    return Standing(question, model, Candidate(interval=Interval(value, low, high)))


@pytest.mark.parametrize(
    ("count", "expected"),
    [
        (None, ""),
        (0, "0"),
        (999, "999"),
        (4_652_008, "4.65 M"),
        (1_200_000_000, "1.2 G"),
        (86_000, "86 k"),
        (3e12, "3 T"),
    ],
)
def test_amounts(count: float | None, expected: str) -> None:
    assert amount(count) == expected


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [(0.84, "0.8 s"), (59.4, "59 s"), (200, "3 min 20 s"), (7500, "2 h 5 min"), (3599.9, "1 h 0 min")],
)
def test_durations(seconds: float, expected: str) -> None:
    assert duration(seconds) == expected


def test_lists() -> None:
    assert listed([]) == ""
    assert listed(["a"]) == "a"
    assert listed(["a", "b", "c"]) == "a, b and c"
    assert listed(list("abcdef"), 3) == "a, b, c and 3 more"
    assert counted(1, "class", "classes") == "1 class"
    assert counted(1200, "class", "classes") == "1,200 classes"


def test_names_are_short_but_never_equal() -> None:
    cards = {"timm:a": ModelCard("timm:a", "Model A")}
    assert short_names(["timm:a", "timm:b", "plain"], cards) == {"timm:a": "Model A", "timm:b": "b", "plain": "plain"}
    assert short_names(["timm:b", "hf:b"], cards) == {"timm:b": "timm:b", "hf:b": "hf:b"}
    paths = {"file:/data/mine.pth?arch=timm:a": "mine.pth", "file:/data/other.pth": "other.pth"}
    assert short_names(paths, cards) == paths
    same = ["file:/a/mine.pth", "file:/b/mine.pth"]
    assert short_names(same, cards) == dict(zip(same, same, strict=True))
    shuffled = ["folder:a/photos", "folder:a/photos?shuffle_labels=0"]
    assert list(short_names(shuffled, {}).values()) == ["photos", "photos, shuffled labels"]
    assert short_names(["timm:b", "random:b"], cards) == {"timm:b": "b", "random:b": "b, random weights"}


def test_families() -> None:
    cards = {"timm:a": ModelCard("timm:a", group="contrastive"), "random:a": ModelCard("random:a", group="convnet")}
    assert family("timm:a", cards) == "contrastive"
    assert family("timm:b", cards) == "timm"
    assert family("random:a", cards) == "random weights"
    assert family("mine", cards) == "models"


def test_settings() -> None:
    assert setting_text({"shots": "all", "seed": 22, "lr": 0.1, "layers": ["a", 1]}) == (
        'layers=["a",1], lr=0.1, seed=22, shots=all'
    )


def test_a_page_sets_minus_signs_and_keeps_numbers_whole() -> None:
    assert typeset("by -0.4 points [-12.8, +12.1], 97 ± 2 %") == (
        "by \u22120.4 points [\u221212.8, +12.1], 97\u00a0±\u00a02\u202f%"
    )
    kept = "2026-11-17, 1e-07, tf_efficientnet-2, --seeds 3, a-1"
    assert typeset(kept) == kept


def test_a_sentence_states_what_the_decision_supports() -> None:
    names = {"a": "A", "b": "B", "c": "C"}
    apart = [standing("q", "a", 0.9, 0.88, 0.92), standing("q", "b", 0.6, 0.55, 0.65)]
    text, word, significant = lead_sentence(apart, names)
    assert (word, significant) == ("significant", True)
    assert text == "A leads with 90.0\u202f% [88.0, 92.0], 30.0 points ahead of B."
    close = [*apart, standing("q", "c", 0.89, 0.86, 0.92)]
    text, word, significant = lead_sentence(close, names)
    assert (word, significant) == ("statistically tied", False)
    assert text == "A has the highest value, 90.0\u202f% [88.0, 92.0]; C is statistically tied with it."
    bare = [standing("q", "a", 0.9, math.nan, math.nan), standing("q", "b", 0.6, math.nan, math.nan)]
    assert lead_sentence(bare, names)[1:] == ("no confidence interval", False)
    assert lead_sentence(apart[:1], names) == ("A has 90.0\u202f% [88.0, 92.0].", "", False)


def test_what_is_established_comes_first() -> None:
    names = {"a": "A", "b": "B", "random:net": "net, random weights"}
    close = [standing("q", "a", 0.9, 0.87, 0.93), standing("q", "b", 0.89, 0.86, 0.92)]
    text, word, significant = lead_sentence([*close, standing("q", "random:net", 0.4, 0.3, 0.5)], names, chance=0.25)
    assert (word, significant) == ("significant", True)
    assert text == (
        "Both trained models are significantly better than net, random weights (40.0\u202f%; by at least 49.0 points "
        "[38.6, 59.4]) and than chance (25.0\u202f%; by at least 64.0 points [61.0, 67.0]). "
        "A has the highest value, 90.0\u202f% [87.0, 93.0]; B is statistically tied with it."
    )
    # Neither random weights that are as good nor chance within the interval is beaten.
    equal = [*close, standing("q", "random:net", 0.88, 0.85, 0.91)]
    assert lead_sentence(equal, names, chance=0.88)[1:] == ("statistically tied", False)
    low = [standing("q", "a", 0.4, 0.3, 0.5), standing("q", "random:net", 0.9, 0.87, 0.93)]
    assert "A is significantly better" not in lead_sentence(low, names)[0]
