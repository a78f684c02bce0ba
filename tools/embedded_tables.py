"""Make the tables of packaged data in docs/evidence/zsl.md and docs/evidence/vtab.md from a file of numbers.

    unseen zsl run --data "packaged:emoji?classes=150" --grid quick --robustness --home HOME
    unseen vtab run --tasks mini --models packaged:efficientnet-lite0 packaged:efficientnet-lite1 \
        packaged:efficientnet-lite2 random:tf_efficientnet_lite0 --home HOME
    python tools/embedded_tables.py HOME

A benchmark without results in HOME keeps its numbers. Without HOME the tables are made from the file again;
`tests/test_docs_embedded.py` compares the pages with the file, and some rows of the file with the data.
"""

from __future__ import annotations

import json
import re
import statistics
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
NUMBERS = ROOT / "docs" / "embedded.json"
MARK = "<!-- made by: python tools/embedded_tables.py -->\n"
METRICS = ("zsl", "ts", "tr", "H")


def collect(home: Path) -> dict[str, Any]:
    """Return zero-shot metrics by method with ZSL by fold, and medians over seeds by model and task, in percent."""
    from unseen.benchmarks.vtab.published_tables import task_info
    from unseen.results import FILE_NAME, ResultsDatabase
    from unseen.zeroshot.catalogue import load_method

    with ResultsDatabase(home / FILE_NAME, read_only=True) as database:
        zsl, vtab = ([r for r in database.latest(benchmark=name) if r.ok] for name in ("zsl", "vtab"))
    methods: dict[str, Any] = {}
    for result in sorted(zsl, key=lambda r: str(r.cell.parameters["fold"])):
        method = str(result.cell.parameters["method"])
        if f"{method}.{load_method(method).version}" not in result.cell.version.split():
            continue
        row = methods.setdefault(method, {"by_fold": []})
        if result.cell.parameters["fold"] == "all":
            row |= {metric: round(100 * result.metrics[metric], 3) for metric in METRICS}
        else:
            row["by_fold"].append(round(100 * result.metrics["zsl"], 3))
    runs: dict[str, dict[str, list[float]]] = {}
    for result in vtab:
        own = runs.setdefault(result.cell.model, {})
        own.setdefault(task_info(result.cell.dataset).title, []).append(100 * result.metrics["top1"])
    medians = {m: {t: round(statistics.median(v), 3) for t, v in own.items()} for m, own in runs.items()}
    return {name: found for name, found in (("zsl", methods), ("vtab", medians)) if found}


def zsl_table(numbers: dict[str, Any]) -> str:
    """A row per method, in the order of the catalogue."""
    from unseen.zeroshot.catalogue import BUILT_IN

    lines = ["| method | ZSL | ts | tr | H | ZSL with parameters of each fold |", "|---" * 6 + "|"]
    for method in (name for name in BUILT_IN if name in numbers):
        row = numbers[method]
        folds = ", ".join(f"{value:.1f}" for value in row["by_fold"])
        lines.append(f"| {method} | " + " | ".join(f"{row[metric]:.1f}" for metric in METRICS) + f" | {folds} |")
    return "\n".join(lines) + "\n"


def vtab_table(numbers: dict[str, Any]) -> str:
    """A row per model, the best mean first."""
    tasks = list(next(iter(numbers.values())))
    lines = [f"| | {' | '.join(tasks)} | mean |", "|---" * (len(tasks) + 2) + "|"]
    for model, row in sorted(numbers.items(), key=lambda item: -statistics.fmean(item[1].values())):
        cells = [*(row[task] for task in tasks), statistics.fmean(row.values())]
        lines.append(f"| `{model}` | " + " | ".join(f"{value:.1f}" for value in cells) + " |")
    return "\n".join(lines) + "\n"


def pages(numbers: dict[str, Any]) -> dict[Path, str]:
    """The pages with their tables."""
    tables = {"zsl.md": zsl_table(numbers["zsl"]), "vtab.md": vtab_table(numbers["vtab"])}
    found = {}
    for name, table in tables.items():
        path = ROOT / "docs" / "evidence" / name
        page = path.read_text(encoding="utf-8")
        found[path] = re.sub(re.escape(MARK) + r"(?:\|.*\n)*", lambda _, table=table: MARK + table, page)
    return found


def main() -> int:
    if len(sys.argv) > 1:
        numbers = json.loads(NUMBERS.read_text(encoding="utf-8")) | collect(Path(sys.argv[1]))
        NUMBERS.write_text(json.dumps(numbers, indent=1) + "\n", encoding="utf-8")
    for path, page in pages(json.loads(NUMBERS.read_text(encoding="utf-8"))).items():
        path.write_text(page, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
