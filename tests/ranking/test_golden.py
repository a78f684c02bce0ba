"""No score gives another number without another version: results that are kept under a version must stay true."""

from __future__ import annotations

import tomllib
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest

from unseen.ranking import SCORES

HERE = Path(__file__).parent
GOLDEN = tomllib.loads((HERE / "golden.toml").read_text())
#: Trained or fitted in single precision: another processor may round otherwise.
SINGLE_PRECISION = ("nleep", "mi-0.01", "mi-0.50", "mi-pca-0.01", "mi-pca-0.50")


def maker() -> ModuleType:
    spec = spec_from_file_location("make_golden", HERE / "make_golden.py")
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_score_has_a_golden_value() -> None:
    assert set(GOLDEN) == {card.id for card in SCORES.values() if not card.needs_training}


@pytest.mark.parametrize("name", sorted(GOLDEN))
def test_numbers_stay_or_the_version_rises(name: str) -> None:
    card, known = SCORES[name], GOLDEN[name]
    assert card.version == known["version"], "a new version: check its numbers, then run make_golden.py"
    found = maker().golden_value(card)
    exact = 1e-3 if name in SINGLE_PRECISION else 1e-7
    assert found == pytest.approx(known["value"], rel=exact, abs=exact), (
        f"{name} gives {found}: raise `version` on its card, say so in the changelog, then run make_golden.py"
    )
