"""The contract suites find what is wrong: each rule is broken once, and named."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

from unseen.backbones import Backbone, BackboneSource, ModelName, wrap_module
from unseen.benchmarks import BENCHMARKS, Benchmark, Workbench
from unseen.core.errors import UnknownNameError
from unseen.core.identity import option
from unseen.core.records import Cell, DatasetCard, ModelCard, Preprocessing, Result
from unseen.data import Dataset, DatasetSource, Options, Split
from unseen.engines import Engine
from unseen.probes import NearestMeanProbe
from unseen.ranking import SCORES
from unseen.results.info import BenchmarkInfo, MetricStyle
from unseen.testing import (
    check_backbone_source,
    check_benchmark,
    check_dataset,
    check_dataset_source,
    check_score,
    check_zeroshot_method,
)
from unseen.zeroshot import ESZSL


class Tiny(BackboneSource):
    """A source that keeps to the contract."""

    def cards(self) -> Iterator[ModelCard]:
        yield ModelCard(id="tiny:4")

    def load(self, name: ModelName) -> Backbone:
        name.check_options()
        self.check(name)
        return self.build(name)

    def check(self, name: ModelName) -> None:
        if name.rest != "4":
            raise UnknownNameError("tiny model", name.rest, ["4"])

    def revision(self, name: ModelName) -> str:
        return "1"

    def build(self, name: ModelName, classes: int | None = None) -> Backbone:
        self.check(name)
        head = nn.Identity() if classes == 0 else nn.Linear(4, 7 if classes is None else classes)
        layers = [nn.Conv2d(3, 4, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten(), head]
        return wrap_module(str(name), nn.Sequential(*layers), preprocessing=name.adjust(Preprocessing(32, 32)))


def test_a_good_source_of_models_passes() -> None:
    check_backbone_source(Tiny, scheme="tiny", load=["tiny:4"], build=["tiny:4"])


class OtherId(Tiny):
    def load(self, name: ModelName) -> Backbone:
        built = super().load(name)
        return replace(built, card=replace(built.card, id="mine"))


class Training(Tiny):
    def load(self, name: ModelName) -> Backbone:
        built = super().load(name)
        built.module.train()
        return built


class Careless(Tiny):
    def load(self, name: ModelName) -> Backbone:
        return self.build(name)


class Crashing(Tiny):
    def check(self, name: ModelName) -> None:
        {"4": 1}[name.rest]


class Headed(Tiny):
    def build(self, name: ModelName, classes: int | None = None) -> Backbone:
        return super().build(name, classes or 7)


class Drawing(Tiny):
    def load(self, name: ModelName) -> Backbone:
        torch.seed()
        return super().load(name)


class Doubled(Tiny):
    def cards(self) -> Iterator[ModelCard]:
        yield from (ModelCard(id="tiny:4"), ModelCard(id="tiny:4"))


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (OtherId, "its card has the id 'mine'"),
        (Training, "not in evaluation mode"),
        (Careless, "no-such-option=1 was accepted"),
        (Crashing, "KeyError was raised, not an UnseenError"),
        (Headed, "build.classes=3. has no head|build.classes=0. has a class head"),
        (Drawing, "two loads have other weights"),
        (Doubled, "cards share the ids"),
    ],
)
def test_a_bad_source_of_models_is_found_out(source: type[Tiny], words: str) -> None:
    with pytest.raises(AssertionError, match=words):
        check_backbone_source(source, scheme="tiny", load=["tiny:4"], build=["tiny:4"])


def squares(open_image: Callable[[int], Image.Image], names: Sequence[str] = ("a", "b"), key: str = "") -> Dataset:
    content = None if key else (lambda i: bytes([i]))
    split = Split(list(names), np.arange(2, dtype=np.int64), open_image, fingerprint=key, content_key=content)
    return Dataset(DatasetCard("squares"), ["dark", "light"], {"train": split, "test": split})


def grey(i: int) -> Image.Image:
    return Image.new("L", (4, 4), 100 * i)


def test_datasets() -> None:
    check_dataset(squares(grey))
    noise = np.random.default_rng(0)
    with pytest.raises(AssertionError, match="other pixels when it is opened again"):
        check_dataset(squares(lambda i: Image.fromarray(noise.integers(255, size=(4, 4), dtype=np.uint8))))
    with pytest.raises(AssertionError, match="two images have one name"):
        check_dataset(squares(grey, names=("a", "a")))


class Squares(DatasetSource):
    def cards(self) -> list[DatasetCard]:
        return [DatasetCard("squares:two")]

    def load(self, name: str, options: Options) -> Dataset:
        if name != "two":
            raise UnknownNameError("dataset", name, ["two"])
        options.finish()
        return squares(grey)


class Deaf(Squares):
    def load(self, name: str, options: Options) -> Dataset:
        options.text("no-such-option")
        return super().load(name, options)


def test_sources_of_datasets() -> None:
    check_dataset_source(Squares, scheme="squares", load=["squares:two"])
    with pytest.raises(AssertionError, match="no-such-option=1 was accepted"):
        check_dataset_source(Deaf, scheme="squares", load=["squares:two"])
    with pytest.raises(AssertionError, match="ids of another scheme"):
        check_dataset_source(Squares, scheme="circles")


def test_scores() -> None:
    good = SCORES["gbc"]
    for card, words in (
        (replace(good, compute=lambda x, y: -good.compute(x, y)), "cannot|Can't|pickle"),
        (replace(good, compute=_upside_down), "features of other images score as high|higher is better"),
        (replace(good, compute=_drifting), "the same features and seed give two scores"),
        (replace(good, compute=_named), "the names of classes"),
        (replace(good, cost=None), "its cost must grow"),
    ):
        with pytest.raises((AssertionError, AttributeError, TypeError), match=words):
            check_score(card)


def _upside_down(x: Any, y: Any) -> float:
    return -float(SCORES["gbc"].compute(x, y))


_COUNT = iter(range(10**9))


def _drifting(x: Any, y: Any) -> float:
    return float(SCORES["gbc"].compute(x, y)) + next(_COUNT)


def _named(x: Any, y: Any) -> float:
    return float(SCORES["gbc"].compute(x, y)) + (0 if np.asarray(y).dtype.kind == "i" else 1)


class Leaking(ESZSL):
    def fit(self, X: Any, y: Any, S: Any) -> Leaking:
        super().fit(X, y, S)
        self.shift_ = float(np.asarray(S).sum())
        return self

    def scores(self, X: Any, S: Any) -> Any:
        return super().scores(X, S) + self.shift_


def test_zeroshot_methods() -> None:
    check_zeroshot_method(ESZSL(gamma=-2, lam=0))
    with pytest.raises(AssertionError, match="leak into fit"):
        check_zeroshot_method(Leaking(gamma=-2, lam=0))


class Restless(NearestMeanProbe):
    def predict_proba(self, X: Any) -> Any:
        found = super().predict_proba(X)
        return np.roll(found, next(_COUNT), axis=1)


def test_probes(check_probe: Callable[[Any], None]) -> None:
    check_probe(NearestMeanProbe())
    with pytest.raises(AssertionError, match="two fits differ"):
        check_probe(Restless())


class Forgetful:
    def map(self, function: Callable[[Any], Any], items: Sequence[Any]) -> Iterator[Any]:
        yield from map(function, dict.fromkeys(items))


def test_engines(check_engine: Callable[[Any], None]) -> None:
    @contextmanager
    def forgetful() -> Iterator[Engine]:
        yield Forgetful()

    with pytest.raises(AssertionError, match="equal items are two pieces of work"):
        check_engine(forgetful)


@dataclass(frozen=True)
class Constant(Benchmark):
    """A benchmark whose numbers follow from its options alone."""

    name: ClassVar[str] = "constant"
    info: ClassVar[BenchmarkInfo] = BenchmarkInfo(
        title="Constant",
        question="Which number was given?",
        command="constant",
        sentence="A number was returned for the seeds {seed}",
        citations=(),
        metrics=(MetricStyle("value", "value"),),
    )

    number: int = option(3)
    seeds: tuple[int, ...] = option((0, 1), axis="seed", count=(0, 1))

    def evaluate(self, cells: Sequence[Cell], bench: Workbench) -> Iterator[Result]:
        for cell in cells:
            yield Result(cell, {"value": float(self.number + cell.parameters["seed"])})


class Undescribed(Constant):
    """As plug-ins of 0.1 are: they work, but a table and a paragraph lack words."""

    info = replace(Constant.info, title="", sentence="", metrics=())


class Misnamed(Constant):
    info = replace(Constant.info, sentence="The letter {letter} was returned")


class Nameless(Constant):
    info = replace(Constant.info, metrics=(MetricStyle("other", "other"),))


class Sectionless(Constant):
    info = replace(Constant.info, section="unseen.reports:no_such_section")


class Astray(Constant):
    info = replace(Constant.info, columns=("value", "worth"))


class Stale(Constant):
    def idle(self) -> Sequence[str]:
        return ("number",) if self.number == 3 else ()

    def plan(self, model: str, dataset: str) -> list[Cell]:
        return [replace(c, parameters={"seed": c.parameters["seed"]}) for c in super().plan(model, dataset)]


class Lazy(Constant):
    def evaluate(self, cells: Sequence[Cell], bench: Workbench) -> Iterator[Result]:
        yield from super().evaluate(cells[:-1], bench)


class Moody(Constant):
    def evaluate(self, cells: Sequence[Cell], bench: Workbench) -> Iterator[Result]:
        for cell in cells:
            yield Result(cell, {"value": float(next(_COUNT))})


@pytest.mark.parametrize("field", ["title", "question", "sentence", "metrics"])
def test_benchmarks_with_missing_metadata(
    field: str, images: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, small_model: str
) -> None:
    empty: Any = () if field == "metrics" else ""
    monkeypatch.setattr(Constant, "info", replace(Constant.info, **{field: empty}))
    monkeypatch.setattr(BENCHMARKS, "_targets", {**BENCHMARKS._targets, "constant": Constant})
    with pytest.raises(AssertionError, match=f"benchmark 'constant': its info .* has no {field}"):
        check_benchmark("constant", model=small_model, dataset=f"folder:{images}", home=tmp_path / "home")


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (Constant, ""),
        (Undescribed, "its info .* has no title"),
        (Misnamed, "sentence names letter, which no cell has as a parameter"),
        (Nameless, "metrics does not describe value"),
        (Sectionless, "section 'unseen.reports:no_such_section' is not a function"),
        (Astray, "columns has worth, which metrics does not describe"),
        (Stale, "option 'number' may change numbers, but 4 has the same ids"),
        (Lazy, "2 cells gave 1 results"),
        (Moody, "when the cell is evaluated again"),
    ],
)
def test_benchmarks(
    kind: type[Benchmark], words: str, images: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, small_model: str
) -> None:
    monkeypatch.setattr(BENCHMARKS, "_targets", {**BENCHMARKS._targets, "constant": kind})

    def check() -> None:
        check_benchmark("constant", model=small_model, dataset=f"folder:{images}", home=tmp_path / "home")

    if not words:
        check()
        return
    with pytest.raises(AssertionError, match=words):
        check()
