"""A run for the test of a cluster: a script, so that it can be killed. HOME IMAGES SCHEDULER-FILE|local"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from slow_benchmark import SlowBenchmark

from unseen import Study, make_engine, run_study
from unseen.benchmarks import make_benchmark
from unseen.core.errors import UnseenError
from unseen.features import Extraction

MODELS = ("random:test_resnet?size=64", "random:test_efficientnet?size=64")


def study(images: Path, pause: float = 0.0) -> Study:
    """Cells of four kinds on one dataset; those of one kind take `pause` seconds."""
    ontology = {"ontology": str(images / "ontology.csv"), "seen": str(images / "seen.txt")}
    marks = images / "marks"
    marks.mkdir(exist_ok=True)
    return Study(
        "cluster",
        MODELS,
        (f"folder:{images / 'images'}?val=0.2&test=0.2",),
        (
            make_benchmark("cog", {"levels": 3, "shots": ["all"], "seeds": [1], **ontology}),
            SlowBenchmark(marks=str(marks), pause=pause),
            make_benchmark("zsl", {"methods": ["ESZSL", "SAE"], "grid": "quick", "split": "SS"}),
            make_benchmark("vtab", {"learning_rates": [0.1], "steps": [20], "seeds": [0]}),
        ),
        extraction=Extraction(part_size=16),
    )


def main(home: str, images: str, where: str) -> int:
    pause = 0.0 if where == "local" else 1.5  # a cluster needs work that a kill interrupts
    options = {} if where == "local" else {"scheduler": json.loads(Path(where).read_text())["address"]}
    try:
        with make_engine("local" if where == "local" else "dask", **options) as engine:
            outcome = run_study(study(Path(images), pause), Path(home), engine, report=False, on_error="ignore")
    except UnseenError as error:
        print(f"ended: {error}", flush=True)
        return 2
    for result in outcome.failed:
        print(f"failed: {result.cell.benchmark} {result.error}", flush=True)
    return 3 if outcome.failed else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
