"""The list of methods: one file and one line each; plug-ins stand beside them, broken ones with their reason."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

from unseen.core.errors import UnknownNameError, UsageError
from unseen.zeroshot import METHODS, ZeroShotMethod, evaluate_method, method_cards
from unseen.zeroshot.catalogue import BUILT_IN, GROUPS, grid_of, load_method
from unseen.zeroshot.problem import Problem

PLUGIN = """
from unseen.core.records import MethodCard
from unseen.zeroshot.method import ZeroShotMethod

class Prototype(ZeroShotMethod):
    "The nearest class embedding of a linear map."
    card = MethodCard(id="PROTO", name="Prototypes", group="zero-shot, plug-in")
    grid = {"ridge": (0.1, 1.0, 10.0)}

    def __init__(self, ridge=1.0):
        self.ridge = ridge

    def _fit(self, X, y, S):
        import numpy as np
        self.W_ = np.linalg.solve(X.T @ X + self.ridge * np.eye(X.shape[1]), X.T @ S[y])

    def _scores(self, X, S):
        return X @ self.W_ @ S.T

class Plain(ZeroShotMethod):
    "One line about it."

class Greedy(ZeroShotMethod):
    grid = {"colour": (1, 2)}

NUMBER = 17
"""
ENTRIES = """[unseen.zeroshot]
PROTO = zsl_plugin:Prototype
PLAIN = zsl_plugin:Plain
GREEDY = zsl_plugin:Greedy
GONE = zsl_plugin_that_is_not_there:Method
LOST = zsl_plugin:NoSuchClass
NUMBER = zsl_plugin:NUMBER
ESZSL = zsl_plugin:Plain
AN_ALIAS = unseen.zeroshot.eszsl:ESZSL
ZERO_ALIAS = unseen.zeroshot.eszsl:ESZSL
"""


@pytest.fixture
def plugins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package on the path with entry points, as an installed one has them."""
    (tmp_path / "zsl_plugin.py").write_text(PLUGIN)
    info = tmp_path / "zsl_plugin-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: zsl-plugin\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(ENTRIES)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(METHODS, "_targets", dict(METHODS._targets))
    monkeypatch.setattr(METHODS, "_plugins_read", False)


@pytest.mark.parametrize("name", BUILT_IN)
def test_a_file_holds_all_there_is_of_its_method(name: str) -> None:
    kind = METHODS.get(name)
    own = vars(kind)
    assert {"card", "version", "grid", "quick_grid"} <= set(own), f"{name} inherits what should be its own"
    assert kind.card.id == name
    assert kind.card.name
    assert kind.card.citation
    assert kind.card.group.startswith("zero-shot, ")
    assert isinstance(kind.version, int)
    assert kind.version >= 1
    header = inspect.getmodule(kind).__doc__
    assert "\nPaper:" in header or "\nPapers:" in header
    assert all(f"\n{part}:" in header for part in ("Shapes", "Implements", "Differs", "Expected"))
    for size in ("full", "quick"):
        assert grid_of(kind, size)
    assert len(grid_of(kind, "quick")) <= len(grid_of(kind))


def test_lists() -> None:
    assert [card.id for card in method_cards()][: len(BUILT_IN)] == list(BUILT_IN)
    assert set(GROUPS["transductive"]) == {"ALE-tran", "GFZSL-tran", "DSRL"}
    with pytest.raises(UnknownNameError, match="ESZSL"):
        load_method("ESZLS")


@pytest.mark.usefixtures("plugins")
def test_a_plugin_brings_its_card_and_its_grid(small_problem: Problem) -> None:
    cards = {card.id: card for card in method_cards()}
    assert cards["PROTO"].name == "Prototypes"
    assert cards["PLAIN"].id == "PLAIN"
    assert grid_of(load_method("PROTO")) == [{"ridge": 0.1}, {"ridge": 1.0}, {"ridge": 10.0}]
    assert grid_of(load_method("PLAIN")) == [{}]
    found = evaluate_method("PROTO", small_problem)
    assert len(found.tuning.trials) == 3
    assert found.metrics["zsl"] > 0.4
    with pytest.raises(ValueError, match="Invalid parameter 'colour' for estimator Greedy"):
        evaluate_method("GREEDY", small_problem)


@pytest.mark.usefixtures("plugins")
def test_a_broken_plugin_is_listed_with_its_reason_and_affects_no_other() -> None:
    cards = {card.id: card for card in method_cards()}
    assert "No module named" in cards["GONE"].notes
    assert "NoSuchClass" in cards["LOST"].notes
    assert "not a subclass" in cards["NUMBER"].notes
    assert {cards[name].group for name in ("GONE", "LOST", "NUMBER")} == {"zero-shot, broken plug-in"}
    with pytest.raises(UsageError, match="Mend or uninstall"):
        load_method("GONE")
    assert load_method("ESZSL").__module__ == "unseen.zeroshot.eszsl"  # a plug-in does not take a built-in name
    assert issubclass(load_method("SAE"), ZeroShotMethod)


def test_a_setting_that_is_no_parameter_is_refused(small_problem: Problem) -> None:
    with pytest.raises(ValueError, match=r"Invalid parameter 'gama' .*'gamma', 'lam', 'targets'"):
        evaluate_method("ESZSL", small_problem, grid=[{"gama": 1}])


@pytest.mark.usefixtures("plugins")
def test_a_method_is_listed_by_the_name_that_it_is_loaded_by() -> None:
    cards = {card.id: card for card in method_cards()}
    for alias in ("AN_ALIAS", "ZERO_ALIAS"):
        assert load_method(alias) is load_method("ESZSL")
        assert cards[alias].name == cards["ESZSL"].name
    assert len(cards) == len(method_cards())
