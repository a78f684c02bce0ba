"""Write the table of AWA1 in docs/evidence/zsl.md, and the file with its numbers, from the results of a study.

    UNSEEN_XLSA17=GBU unseen zsl run "xlsa17:AWA1?features=lampert2009_256d.npz" --study awa1 --home HOME --robustness
    UNSEEN_XLSA17=GBU unseen zsl run "xlsa17:AWA1?features=lampert2009_256d.npz" --study awa1 --home HOME --split SS
    python tools/zsl_table.py HOME ...
    UNSEEN_XLSA17=GBU python tools/zsl_table.py --refit [METHOD ...]

Both runs resume method by method; rows of methods without results in HOME are kept. `--refit` fits all or some methods
again with the stored hyper-parameters, which gives the intervals of this version without a search. Without arguments
the table is made from the file again; `tests/zeroshot/test_docs_table.py` compares the page with the file, and some
rows of the file with the data.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
NUMBERS, PAGE = ROOT / "docs" / "zsl-awa1.json", ROOT / "docs" / "evidence" / "zsl.md"
BEGIN, END = "<!-- table: tools/zsl_table.py -->\n", "<!-- end of table -->\n"
DATA = "xlsa17:AWA1?features=lampert2009_256d.npz"
COLUMNS = {"PS": ("zsl", "ts", "tr", "H", "AUSUC"), "SS": ("zsl",)}


def collect(homes: Sequence[Path]) -> dict[str, Any]:
    """By split and method: the metrics of the table with their intervals, what was chosen, and ZSL by fold."""
    from unseen.results import FILE_NAME, ResultsDatabase
    from unseen.results.grid import summary_of
    from unseen.stats import class_interval
    from unseen.zeroshot.catalogue import BUILT_IN, GROUPS

    results = []
    for home in homes:
        with ResultsDatabase(home / FILE_NAME, read_only=True) as database:
            results += [
                r for r in database.latest(benchmark="zsl") if r.ok and r.cell.dataset.startswith("xlsa17:AWA1")
            ]
    found: dict[str, Any] = {}
    for split, metrics in COLUMNS.items():
        own = {
            (r.cell.parameters["method"], r.cell.parameters["fold"]): r
            for r in results
            if r.cell.parameters["split"] == split and r.cell.parameters["grid"] == "full"
        }
        found[split] = {}
        for method in BUILT_IN:
            if (result := own.get((method, "all"))) is None:
                continue
            found[split][method] = {
                "best": dict(result.details["best"]),
                "transductive": method in GROUPS["transductive"],
                **_numbers(
                    result.metrics,
                    {m: summary_of([result], m).interval for m in metrics if m in result.metrics},
                    class_interval(list(result.details["per_class"].values())),
                    metrics,
                ),
                "by_fold": [round(100 * own[method, f].metrics["zsl"], 3) for f in (1, 2, 3) if (method, f) in own],
            }
    return found


def refit(numbers: dict[str, Any], only: Sequence[str] = ()) -> None:
    """Fit methods again with the stored hyper-parameters: the same values, and intervals of this version."""
    from unseen.benchmarks.workbench import Workbench, given_models
    from unseen.benchmarks.zsl.protocol import ZslBenchmark
    from unseen.stats import class_interval
    from unseen.zeroshot.protocol import evaluate_method

    for split, metrics in COLUMNS.items():
        name = DATA if split == "PS" else f"{DATA}&split=SS"
        with tempfile.TemporaryDirectory() as home:
            benchmark = ZslBenchmark(split=split)
            problem = benchmark.assemble(benchmark.inputs(Workbench(Path(home)), given_models(DATA)[0], name))[0]
        for method, row in numbers[split].items():
            if only and method not in only:
                continue
            found = evaluate_method(method, problem, grid=[row["best"]])
            change = max(abs(100 * found.metrics[metric] - row[metric]) for metric in metrics if metric in row)
            print(split, method, f"largest change {change:.2f}", flush=True)
            row |= _numbers(found.metrics, found.intervals, class_interval(list(found.per_class.values())), metrics)
            write(numbers)


def _numbers(values: Any, intervals: Any, classes: Any, metrics: Sequence[str]) -> dict[str, float]:
    """Return the metrics in percent, half of their intervals over images, and the limits of ZSL over classes."""
    shown = [metric for metric in metrics if metric in values]
    halves = {f"{m}_half": round(50 * (intervals[m].high - intervals[m].low), 3) for m in shown}
    over = {"classes_low": round(100 * classes.low, 3), "classes_high": round(100 * classes.high, 3)}
    return {**{metric: round(100 * values[metric], 3) for metric in shown}, **halves, **over}


def render(numbers: dict[str, Any]) -> str:
    """Return the table: a row per method, inductive ones first; ± is half of the 95 % interval over test images."""
    heads = "ZSL PS | over classes | ts | tr | H | AUSUC | ZSL PS by fold | ZSL SS | over classes"
    lines = [f"| method | {heads} |", "|---" * 10 + "|"]
    methods = dict.fromkeys(m for split in COLUMNS for m in numbers[split])
    order = sorted(methods, key=lambda m: any(numbers[s].get(m, {}).get("transductive") for s in COLUMNS))
    for method in order:
        ps, ss = (numbers[split].get(method, {}) for split in COLUMNS)
        cells = [_cell(ps, "zsl"), _classes(ps), *(_cell(ps, metric) for metric in COLUMNS["PS"][1:])]
        folds = ", ".join(f"{value:.1f}" for value in ps.get("by_fold", ()))
        mark = " (transductive)" if (ps or ss).get("transductive") else ""
        lines.append("| " + " | ".join([method + mark, *cells, folds or "–", _cell(ss, "zsl"), _classes(ss)]) + " |")
    return "\n".join(lines) + "\n"


def _classes(row: dict[str, Any]) -> str:
    return f"[{row['classes_low']:.1f}, {row['classes_high']:.1f}]" if "classes_low" in row else "–"


def _cell(row: dict[str, Any], metric: str) -> str:
    if metric not in row:
        return "–"
    half = row.get(f"{metric}_half")
    return f"{row[metric]:.1f}" + ("" if half is None else f" ± {half:.1f}")


def replaced(page: str, table: str) -> str:
    """The page with the table between its marks."""
    before, _, rest = page.partition(BEGIN)
    return before + BEGIN + table + END + rest.partition(END)[2]


def write(numbers: dict[str, Any]) -> None:
    """Write the file and the page."""
    NUMBERS.write_text(json.dumps(numbers, indent=1) + "\n", encoding="utf-8")
    PAGE.write_text(replaced(PAGE.read_text(encoding="utf-8"), render(numbers)), encoding="utf-8")


def main() -> int:
    numbers = json.loads(NUMBERS.read_text(encoding="utf-8"))
    if sys.argv[1:2] == ["--refit"]:
        refit(numbers, sys.argv[2:])
    elif homes := [Path(home) for home in sys.argv[1:]]:
        for split, rows in collect(homes).items():
            numbers[split] |= rows
    write(numbers)
    return 0


if __name__ == "__main__":
    sys.exit(main())
