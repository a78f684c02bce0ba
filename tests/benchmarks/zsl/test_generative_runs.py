"""Generative methods in a study: killed while a network is trained, taken up again, the same bits as without."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from unseen.cli import main
from unseen.core.records import Result
from unseen.results import FILE_NAME, ResultsDatabase

METHODS = ("f-CLSWGAN", "CADA-VAE")
#: Runs `unseen` until one of the methods has ended its second epoch, and dies of signal 9 there.
DYING = """
import os, signal, sys
from unseen.cli import main
from unseen.zeroshot.catalogue import load_method

kind = load_method(sys.argv[1])
train = kind._train

def dying(self, data, epochs):
    for epoch, learned in train(self, data, epochs):
        if epoch == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        yield epoch, learned

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
        asked = ["zsl", "run", f"xlsa17:AWA1?root={release}", "--methods", "generative", "--grid", "quick"]
        return [*asked, "--home", str(home)]

    home = tmp_path / "killed"
    saved = []
    for method in METHODS:
        done = subprocess.run(
            [sys.executable, "-c", DYING, method, *command(home)],
            capture_output=True,
            text=True,
            timeout=600,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
        assert done.returncode == -signal.SIGKILL, done.stderr
        saved.append(_results(home))
    assert [[r.cell.parameters["method"] for r in results] for results in saved] == [[], ["f-CLSWGAN"]]
    assert main(command(home)) == 0
    assert main(command(tmp_path / "whole")) == 0
    taken_up, whole = ({r.cell.parameters["method"]: r for r in _results(h)} for h in (home, tmp_path / "whole"))
    assert list(taken_up) == list(whole) == list(METHODS)
    for method in METHODS:
        assert taken_up[method].ok
        assert taken_up[method].metrics == whole[method].metrics
        assert taken_up[method].sweep == whole[method].sweep
    assert taken_up["f-CLSWGAN"] == saved[1][0], "what was saved is not made again"
