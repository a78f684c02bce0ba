"""Write the table of AWA1 in docs/evidence/zsl.md, and the file with its numbers, from the results of a study.

    UNSEEN_XLSA17=GBU unseen zsl run "xlsa17:AWA1?features=lampert2009_256d.npz" --study awa1 --home HOME --robustness
    UNSEEN_XLSA17=GBU unseen zsl run "xlsa17:AWA1?features=lampert2009_256d.npz" --study awa1 --home HOME --split SS
    python tools/zsl_table.py HOME ...
    UNSEEN_XLSA17=GBU python tools/zsl_table.py --intervals

Both runs take up where they were stopped, method by method. `--intervals` fits what has an AUSUC without an interval,
as results of earlier versions have, once more with the parameters that were chosen. Without HOME the table is made from
the file again; `tests/zeroshot/test_docs_table.py` holds the page to the file, and some rows of the file to the data.
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
                **{m: round(100 * result.metrics[m], 3) for m in metrics if m in result.metrics},
                **{
                    f"{m}_half": round(50 * (result.metrics[f"{m}_high"] - result.metrics[f"{m}_low"]), 3)
                    for m in metrics
                    if f"{m}_low" in result.metrics
                },
                "by_fold": [round(100 * own[method, f].metrics["zsl"], 3) for f in (1, 2, 3) if (method, f) in own],
            }
    return found


def complete(numbers: dict[str, Any]) -> None:
    """Add intervals of areas without one, if the fit gives the same accuracy as the stored one."""
    from unseen.benchmarks.workbench import Workbench, given_models
    from unseen.benchmarks.zsl.protocol import ZslBenchmark
    from unseen.zeroshot.protocol import evaluate_method

    lacking = [(name, row) for name, row in numbers["PS"].items() if "AUSUC" in row and "AUSUC_half" not in row]
    with tempfile.TemporaryDirectory() as home:
        problem, _ = ZslBenchmark().problem(Workbench(Path(home)), given_models(DATA)[0], DATA)
    for name, row in lacking:
        found = evaluate_method(name, problem, grid=[row["best"]])
        area = found.intervals["AUSUC"]
        same = all(abs(100 * found.metrics[metric] - row[metric]) < 0.15 for metric in COLUMNS["PS"])
        print(name, "as kept" if same else f"differs: {found.metrics}", flush=True)
        row |= {"AUSUC_half": round(50 * (area.high - area.low), 3)} if same else {}


def render(numbers: dict[str, Any]) -> str:
    """The table: a row per method, inductive ones first; ± is half of the 95 % interval over test images."""
    lines = ["| method | ZSL PS | ts | tr | H | AUSUC | ZSL PS by fold | ZSL SS |", "|---" * 8 + "|"]
    methods = dict.fromkeys(m for split in COLUMNS for m in numbers[split])
    order = sorted(methods, key=lambda m: any(numbers[s].get(m, {}).get("transductive") for s in COLUMNS))
    for method in order:
        ps, ss = (numbers[split].get(method, {}) for split in COLUMNS)
        cells = [_cell(ps, metric) for metric in COLUMNS["PS"]]
        folds = ", ".join(f"{value:.1f}" for value in ps.get("by_fold", ()))
        mark = " (transductive)" if (ps or ss).get("transductive") else ""
        lines.append("| " + " | ".join([method + mark, *cells, folds or "–", _cell(ss, "zsl")]) + " |")
    return "\n".join(lines) + "\n"


def _cell(row: dict[str, Any], metric: str) -> str:
    if metric not in row:
        return "–"
    half = row.get(f"{metric}_half")
    return f"{row[metric]:.1f}" + ("" if half is None else f" ± {half:.1f}")


def replaced(page: str, table: str) -> str:
    """The page with the table between its marks."""
    before, _, rest = page.partition(BEGIN)
    return before + BEGIN + table + END + rest.partition(END)[2]


def main() -> int:
    homes = [Path(home) for home in sys.argv[1:] if home != "--intervals"]
    numbers = collect(homes) if homes else json.loads(NUMBERS.read_text(encoding="utf-8"))
    if "--intervals" in sys.argv:
        complete(numbers)
    NUMBERS.write_text(json.dumps(numbers, indent=1) + "\n", encoding="utf-8")
    PAGE.write_text(replaced(PAGE.read_text(encoding="utf-8"), render(numbers)), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
