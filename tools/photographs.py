"""Make the tables of docs/evidence/cog.md: CoG on real photographs, trained networks and random weights.

    UNSEEN_GOLDEN_DATA=DATA python -m tools.photographs           run missing cells, and write the page
    UNSEEN_GOLDEN_DATA=DATA python -m tools.photographs --print   the same, on the screen

DATA/photos/caltech101 holds 95 classes of 20 photographs, and the WordNet ids that a person assigned to 89 of them.
Half of the photographs are tested on: with a fifth, a level would be 36 images. Minutes; a second run is quick.
"""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from tools.check_docs import wrap

from unseen.benchmarks.cog.analysis import LevelScore, concept_scores, level_scores, trend_sentences
from unseen.benchmarks.cog.domains import CONTROL
from unseen.core.records import Result
from unseen.study import Study, run_study

PAGE = Path(__file__).parents[1] / "docs" / "evidence" / "cog.md"
MODELS = {
    "packaged:efficientnet-lite0": "EfficientNet-Lite0",
    "packaged:efficientnet-lite1": "EfficientNet-Lite1",
    "packaged:efficientnet-lite2": "EfficientNet-Lite2",
    "random:tf_efficientnet_lite0": "random weights",
}
SHOTS: tuple[int | str, ...] = (1, "all")
#: Five levels as in the paper, and three, which have more classes each.
OPTIONS = [{"shots": SHOTS, "controls": 15, "levels": levels} for levels in (5, 3)]
BEGIN, END = "<!-- made by: python tools/photographs.py -->", "<!-- end of what was made -->"


def study(data: Path) -> Study:
    """The run behind the tables."""
    folder = data / "photos" / "caltech101"
    name = f"folder:{folder}/images?test=0.5&wnids={folder}/wnids.tsv"
    return Study("photographs", tuple(MODELS), (name,), {"cog": OPTIONS}, title="CoG on photographs")


def scores(results: Sequence[Result], model: str, shots: int | str) -> dict[str, LevelScore]:
    """Return the scores of a model by domain."""
    return {s.level: s for s in level_scores(results) if (s.model, s.shots) == (model, shots)}


def table(results: Sequence[Result], shots: int | str) -> list[str]:
    """One row per model: the seen concepts, every level, and the controls."""
    lines = []
    for model, name in MODELS.items():
        own = scores(results, model, shots)
        shown = {level: value for level, value in own.items() if not level.startswith(CONTROL)}
        if not lines:
            heading = f"| model | {' | '.join(shown)} | {len(own) - len(shown)} controls |"
            lines = [heading, f"|---|{'---|' * len(shown)}---|"]
        drawn = [100 * score.mean for level, score in own.items() if level.startswith(CONTROL)]
        cells = [score.text for score in shown.values()]
        cells.append(f"{np.mean(drawn):.1f} ({min(drawn):.1f} to {max(drawn):.1f})")
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return lines


def verdicts(results: Sequence[Result], shots: int | str) -> list[str]:
    """Which levels lie outside the range of the controls, and what the fall from the first to the last level is."""
    lines = []
    for model, name in MODELS.items():
        own = scores(results, model, shots)
        drawn = [100 * score.mean for level, score in own.items() if level.startswith(CONTROL)]
        levels = {level: 100 * score.mean for level, score in own.items() if level.startswith("L")}
        below = [level for level, value in levels.items() if value < min(drawn)]
        above = [level for level, value in levels.items() if value > max(drawn)]
        first, last = levels["L1"], levels[max(levels)]
        seen = 100 * own["seen"].mean
        where = "above" if seen > max(drawn) else "below" if seen < min(drawn) else "within"
        said = [f"seen {seen - float(np.mean(drawn)):+.1f} points from the controls' mean, {where} their range"]
        said += [f"L1 to {max(levels)} {last - first:+.1f} points"]
        said += [f"{' and '.join(below)} below every control" if below else "no level below every control"]
        said += [f"{' and '.join(above)} above every control"] if above else []
        lines.append(f"- {name}: {'; '.join(said)}.")
    return lines


def section(results: Sequence[Result]) -> str:
    """What stands between the marks of the page: both settings, one after the other."""
    parts = [
        setting([result for result in results if result.cell.parameters["levels"] == str(options["levels"])])
        for options in OPTIONS
    ]
    return "\n\n".join(parts)


def setting(results: Sequence[Result]) -> str:
    """The tables of one number of levels."""
    account, levels = results[0].details, results[0].cell.parameters["levels"]
    about = (
        f"**{levels} levels.** Of {account['domains']['classes']} classes {len(_used(results))} are in a domain: "
        f"{account['classes']} in each, with {account['train_images']} training and {account['test_images']} test "
        "photographs. Top-1 in percent, mean over five seeds, with its 95 % confidence interval over test images; of "
        "the controls the mean and the range."
    )
    lines = [about]
    for shots in SHOTS:
        words = "With all training photographs" if shots == "all" else f"With {shots} per class"
        lines += ["", f"{words}:", "", *table(results, shots), "", *verdicts(results, shots)]
    every = [result for result in results if not result.cell.parameters["level"].startswith(CONTROL)]
    lines += ["", "Over all unseen concepts, with all photographs (95 % confidence intervals over concepts):", ""]
    lines += [f"- {text}" for text in trend_sentences(level_scores(every), concept_scores(every), MODELS)]
    return "\n".join(lines)


def _used(results: Sequence[Result]) -> set[str]:
    first = results[0].cell.model
    own = [r for r in results if r.cell.model == first and not r.cell.parameters["level"].startswith(CONTROL)]
    return {concept["id"] for result in own for concept in result.details["concepts"]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--print", action="store_true", dest="only_print", help="leave the page as it is")
    parser.add_argument("--home", type=Path, default=None, help="where features and results are kept")
    options = parser.parse_args()
    data = os.environ.get("UNSEEN_GOLDEN_DATA")
    if not data:
        raise SystemExit("set UNSEEN_GOLDEN_DATA to the folder that holds photos/caltech101.")
    outcome = run_study(study(Path(data)), options.home)
    if outcome.failed:
        raise SystemExit(f"{len(outcome.failed)} cells failed: {outcome.failed[0].error}")
    made = section(outcome.results)
    if options.only_print:
        print(made)
        return
    page = PAGE.read_text(encoding="utf-8")
    written = re.sub(f"{re.escape(BEGIN)}.*?{re.escape(END)}", lambda _: f"{BEGIN}\n{made}\n{END}", page, flags=re.S)
    PAGE.write_text(wrap(written), encoding="utf-8")


if __name__ == "__main__":
    main()
