"""Every solver has a version, and its numbers move only together with it.

After a change that is meant to move numbers: raise the solver's VERSION, name the change in the changelog under
"Numbers changed", and write golden.toml anew with `python tests/probes/test_versions.py`.
"""

import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest

from unseen.core.errors import UnknownNameError
from unseen.probes import Protocol, Settings, evaluate_probe
from unseen.probes.solvers import SOLVERS, solver_version

GOLDEN = Path(__file__).with_name("golden.toml")
QUICK = Settings(protocol=Protocol(trials=12, epochs=10))


def numbers(solver, sample):
    """Right answers and log losses of two seeds at 1, 4 and all shots."""
    found = evaluate_probe(*sample, solver=solver, shots=(1, 4, "all"), seeds=(22, 37), settings=QUICK)
    return [int(record.correct.sum()) for record in found], [round(record.log_loss, 4) for record in found]


@pytest.mark.parametrize("solver", SOLVERS)
def test_numbers_move_only_with_the_version(sample, solver):
    golden = tomllib.loads(GOLDEN.read_text(encoding="utf-8"))[solver]
    assert golden["version"] == solver_version(solver), "golden.toml is of another version: write it anew"
    correct, losses = numbers(solver, sample)
    message = f"the numbers of {solver!r} moved: raise its VERSION, or find out why"
    # One test image of 400 may fall on the other side on another processor.
    assert np.abs(np.subtract(correct, golden["correct"])).max() <= 1, message
    np.testing.assert_allclose(losses, golden["log_loss"], rtol=2e-3, err_msg=message)


def test_an_unknown_name_has_no_version():
    with pytest.raises(UnknownNameError, match="logistic"):
        solver_version("logistics")


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))
    from conftest import overlapping

    lines = ["# Written by test_versions.py: 400 drawn images, seeds 22 and 37 at 1, 4 and all shots."]
    for name in SOLVERS:
        right, losses = numbers(name, overlapping(400, 24, 8))
        lines += ["", f"[{name}]", f"version = {solver_version(name)}", f"correct = {right}", f"log_loss = {losses}"]
    GOLDEN.write_text("\n".join(lines) + "\n", encoding="utf-8")
