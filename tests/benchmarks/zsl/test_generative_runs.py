"""A generative method is killed while its network is trained: the resumed run gives the same bits."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from unseen.cli import main
from unseen.core.records import Result
from unseen.results import FILE_NAME, ResultsDatabase

#: Run `unseen` until the method has ended its second epoch, and end it by signal 9 there.
DYING = """
import os, signal, sys
from unseen.cli import main
from unseen.zeroshot.catalogue import load_method

kind = load_method(sys.argv[1])
train = kind._train

def dying(self, *arguments):
    for epoch, _ in enumerate(train(self, *arguments), 1):
        if epoch == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        yield

kind._train = dying
sys.exit(main(sys.argv[2:]))
"""


def _results(home: Path) -> list[Result]:
    if not (home / FILE_NAME).exists():
        return []
    with ResultsDatabase(home / FILE_NAME, read_only=True) as database:
        return list(database.latest(benchmark="zsl"))


def test_a_killed_run_ends_in_the_same_bits(release: Path, tmp_path: Path) -> None:
    def command(home: Path) -> list[str]:
        options = ["--methods", "ESZSL", "f-CLSWGAN", "--grid", "quick", "--home", str(home)]
        return ["zsl", "run", f"xlsa17:AWA1?root={release}", *options]

    home = tmp_path / "killed"
    done = subprocess.run(
        [sys.executable, "-c", DYING, "f-CLSWGAN", *command(home)],
        capture_output=True,
        text=True,
        timeout=600,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    (saved,) = _results(home)
    assert saved.cell.parameters["method"] == "ESZSL"
    assert main(command(home)) == 0
    assert main(command(tmp_path / "whole")) == 0
    resumed, whole = ({r.cell.parameters["method"]: r for r in _results(h)} for h in (home, tmp_path / "whole"))
    assert set(resumed) == set(whole) == {"ESZSL", "f-CLSWGAN"}
    for method, result in resumed.items():
        assert result.ok
        assert result.metrics == whole[method].metrics
        assert result.sweep == whole[method].sweep
    assert resumed["ESZSL"] == saved, "what was saved is not computed again"
