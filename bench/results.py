"""Measure time and memory of common commands on a results database with 100,000 results.

    python bench/results.py                    100,000 results: some minutes, most of them to fill the database
    python bench/results.py --results 10000    the same, smaller

Every question is asked in a process of its own, which reports its CPU seconds (imports not counted) and its peak
resident memory. `plan_study` is compared with the same plan over an empty database. Limits are those that the project
holds itself to; the last column says whether they hold.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from unseen.core.records import Cell, Result
from unseen.results import FILE_NAME, ResultsDatabase
from unseen.results.grid import pack_correct

STUDY_OF = 1000
TABLE_OF = 10_000

_CONCEPTS = [{"id": f"n{i:08d}", "name": f"concept {i}", "similarity": i / 1e3, "nearest": "cat"} for i in range(100)]

_ASK = """
import json, sys, time
from pathlib import Path
home, what = Path(sys.argv[1]), sys.argv[2]
{imports}
began = time.process_time()
{work}
seconds = time.process_time() - began
# Not ru_maxrss, which begins at the peak of the process that started this one.
status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
print(json.dumps([seconds, int(status["VmHWM"].split()[0]) / 1024]), file=sys.stderr)
"""

_PLAN = (
    "from unseen.study import Study, plan_study",
    "study = Study('small', ('packaged:efficientnet-lite0',), ('packaged:emoji',)); plan_study(study, home)",
)


def _command(*arguments: str, name: str = "results") -> tuple[str, str]:
    return "from unseen.cli import main", f"main([{name!r}, '--home', str(home), *{list(arguments)!r}])"


def fill(path: Path, count: int) -> None:
    """Results like those of a CoG with many models; a thousand to a study, ten thousand in the study "table".

    The answers per image are valid: every model of a level is tested on the same images, and its accuracy is the share
    of its correct answers.
    """
    rng = np.random.default_rng(0)
    with ResultsDatabase(path) as database:
        database._connection.execute("PRAGMA synchronous = OFF")  # made anew if the machine dies
        for number in range(count):
            seed, shots, level = number % 5, 2 ** (number // 5 % 8), f"L{number // 40 % 5}"
            parameters = {"seed": seed, "shots": shots, "level": level, "solver": "fast", "levels": 5, "measure": "lin"}
            cell = Cell("cog", f"timm:model-{number // 200}", "imagenet:in1k", parameters, "w+d", "1 fast.1")
            correct = np.unpackbits(np.frombuffer(rng.bytes(1500), np.uint8)).astype(bool)
            share = float(correct.mean())
            metrics = {"top1": share, "top5": 0.9, "mean_per_class": share}
            metrics |= {"top1_low": share - 0.01, "top1_high": share + 0.01}
            shares = correct.reshape(100, 120).mean(1).tolist()
            details = {"concepts": _CONCEPTS, "correct": pack_correct(correct), "classes": 100, "chance": 1e-2}
            details |= {"train_per_class": [shots] * 100, "test_per_class": [120] * 100}
            details["per_class"] = {str(i): share for i, share in enumerate(shares)}
            sweep = tuple({"c": 10.0**power, "value": number / 1e6} for power in range(30))
            environment = {"python": "3.11", "cpu": "x" * 300}
            result = Result(cell, metrics, seconds=1.0, sweep=sweep, details=details, environment=environment)
            study = "table" if number < TABLE_OF else f"study-{number // STUDY_OF}"
            database.append(study, result)


def ask(home: Path, question: tuple[str, str]) -> tuple[float, float]:
    """CPU seconds of a question in a new process, and its peak memory in megabytes."""
    script = _ASK.format(imports=question[0], work=question[1])
    ran = subprocess.run([sys.executable, "-c", script, str(home), ""], capture_output=True, text=True, check=True)
    seconds, peak = json.loads(ran.stderr.strip().splitlines()[-1])
    return seconds, peak


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=int, default=100_000)
    count = parser.parse_args().results
    with tempfile.TemporaryDirectory() as folder:
        full, empty = Path(folder) / "full", Path(folder) / "empty"
        fill(full / FILE_NAME, count)
        ResultsDatabase(empty / FILE_NAME).close()
        print(f"{count:,} results: {(full / FILE_NAME).stat().st_size / 1e6:.0f} MB")
        base = ask(empty, _PLAN)
        plan = ask(full, _PLAN)
        rows = [
            ("plan_study, beside an empty database", plan[0] - base[0], plan[1] - base[1], (1.0, 150.0)),
            ("done, 100 cells", *ask(full, (_OPEN, _DONE)), (1.0, 0.0)),
            (
                f"results --study, {STUDY_OF:,} of them",
                *ask(full, _command("--study", f"study-{TABLE_OF // STUDY_OF}")),
                (1.0, 0.0),
            ),
            (f"results --study, {TABLE_OF:,} of them", *ask(full, _command("--study", "table")), (5.0, 0.0)),
            ("results --models", *ask(full, _command("--models", "timm:model-7")), (1.0, 0.0)),
            ("results --csv, everything", *ask(full, _command("--csv", str(Path(folder) / "all.csv"))), (0.0, 0.0)),
            ("leaderboard, everything", *ask(full, _command(name="leaderboard")), (10.0, 0.0)),
            ("report, everything", *ask(full, _command(name="report")), (0.0, 300.0)),
        ]
        for name, seconds, memory, (longest, largest) in rows:
            holds = (not longest or seconds <= longest) and (not largest or memory <= largest)
            limit = ", ".join([f"{longest:g} s"] * bool(longest) + [f"{largest:g} MB"] * bool(largest)) or "-"
            print(f"{name:40} {seconds:7.2f} s {memory:7.0f} MB   limit {limit:16} {'holds' if holds else 'BROKEN'}")


_OPEN = "from unseen.results import ResultsDatabase, FILE_NAME\nfrom unseen.core.records import Cell"
_DONE = "ResultsDatabase(home / FILE_NAME).done([Cell('cog', 'm', 'd', {'seed': i}) for i in range(100)])"

if __name__ == "__main__":
    main()
