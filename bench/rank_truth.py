"""Compare the order of `unseen rank` and every score with the accuracy of fine-tuned checkpoints.

    python bench/rank_truth.py --home FOLDER --converged  stages, scores, and the converged probe on test images
    python bench/rank_truth.py --home FOLDER              the same, and fine-tuning; resumes if interrupted
    python bench/rank_truth.py --home FOLDER --tasks 2    the first two tasks that are not whole yet, then stop
    python bench/rank_truth.py --table                    the tables of docs/evidence/rank.md from the stored rows

Small on purpose, for a machine without a GPU: inputs of 64 pixels, about 160 training images, networks of 0.3 to 5
million parameters. Fine-tuning starts from a linear probe, which is one of the five settings; two lengths and two rates
are the others; validation images stop each early and choose; three seeds of the chosen one are averaged. Rows go to
bench/rank_truth.csv. The photographs are those of UNSEEN_GOLDEN_DATA.
"""

from __future__ import annotations

import argparse
import csv
import os
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from unseen.benchmarks.workbench import Workbench

ROWS = Path(__file__).with_name("rank_truth.csv")
STAGES = {
    "test_resnet": ("packaged:emoji?classes=150&seed=7", 150, (20, 100, 300, 600)),
    "test_vit": ("packaged:emoji?classes=150&seed=7", 150, (300,)),
    "test_efficientnet": ("procedural:sprites-orientation?train=1500&val=50&test=50&seed=9", 16, (300,)),
}
LITE = ["packaged:efficientnet-lite0?size=64"]
OPTIONS = {"learning_rates": [0.001, 0.0001], "steps": [20, 40], "batch_size": 16}


def tasks() -> dict[str, str]:
    """The tasks by short name."""
    photos = Path(os.environ.get("UNSEEN_GOLDEN_DATA", "")) / "photos/caltech101/images"
    made = "?train=160&val=100&test=200"
    return {
        "grocery": "packaged:grocery?limit=160",
        "coarse": "packaged:grocery?labels=coarse&limit=160",
        "emoji": "packaged:emoji?classes=40",
        "photos": f"folder:{photos}?classes=16&val=0.15&test=0.45",
        "location": f"procedural:sprites-location{made}",
        "orientation": f"procedural:sprites-orientation{made}",
        "count": f"procedural:shapes-count{made}",
        "distance": f"procedural:shapes-distance{made}",
    }


def checkpoints(home: Path) -> dict[str, str]:
    """The checkpoints by short name; stages are trained where they are not there."""
    from unseen.data import load_dataset
    from unseen.finetuning.stages import train_stages

    found = {}
    for network, (data, classes, stages) in STAGES.items():
        found[f"{network}-0"] = f"random:{network}?size=64"
        files = [home / "stages" / f"{network}-{steps}.safetensors" for steps in stages]
        if not all(file.is_file() for file in files):
            train = load_dataset(data).split("train")
            train_stages(network, train, home / "stages", classes=classes, stages=stages, size=64, batch_size=32)
        found |= {f.stem: f"file:{f}?arch=timm:{network}&size=64" for f in files}
    found |= {name.split(":")[1].split("?")[0]: name for name in LITE}
    return found


#: Scores that cost more than a second or two per pair are left out, and those that train.
LEFT_OUT = {"finetune-1", "finetune-5", "mi-0.01", "mi-0.50", "mi-pca-0.01", "mi-pca-0.50"}


def compute(home: Path, many: int, *, finetune: bool) -> None:
    from unseen.benchmarks.workbench import Workbench
    from unseen.ranking.cards import SCORES
    from unseen.study import Study, run_study

    models, bench = checkpoints(home), Workbench(home)
    scores = [score for score in SCORES if score not in LEFT_OUT]
    kept = [row for row in _rows() if row["checkpoint"] in models]
    what = "truth" if finetune else "converged"
    having = {t: {r["checkpoint"] for r in kept if r["task"] == t and r["what"] == what} for t in tasks()}
    for task, name in [(t, n) for t, n in tasks().items() if having[t] != set(models)][:many]:
        options = OPTIONS | {"scores": scores, "truth": finetune}
        study = Study(f"truth-{task}", tuple(models.values()), (name,), {"rank": options})
        found: dict[str, dict[str, float]] = {}
        for result in run_study(study, home, report=False, bench=bench).results:
            score = str(result.cell.parameters["score"])
            if not result.ok:
                print(task, result.cell.model, score, result.error, flush=True)
                continue
            if score == "truth":
                found.setdefault("start", {})[result.cell.model] = result.metrics["probe_top1"]
            found.setdefault(score, {})[result.cell.model] = result.metrics["top1" if score == "truth" else "score"]
        found["converged"] = {model: _converged(bench, model, name) for model in models.values()}
        kept = [row for row in kept if row["task"] != task]
        for score, by_model in found.items():
            kept += [
                {"task": task, "checkpoint": short, "what": score, "value": f"{by_model[model]:.6g}"}
                for short, model in models.items()
                if model in by_model
            ]
        with ROWS.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, ["task", "checkpoint", "what", "value"], lineterminator="\n")
            writer.writeheader()
            writer.writerows(kept)
        print(f"{task}: done", flush=True)


def _converged(bench: Workbench, model: str, name: str) -> float:
    """Accuracy on the test images of a converged linear probe of the training images."""
    from unseen.probes import LinearProbe

    train, test = (bench.split(model, name, split) for split in ("train", "test"))
    probe = LinearProbe().fit(np.asarray(train.features[:]), train.labels)
    return float(np.mean(probe.predict(np.asarray(test.features[:])) == test.labels))


AGAINST = {"truth": "fine-tuned accuracy", "converged": "accuracy of the converged probe on test images"}


def _rows() -> list[dict[str, str]]:
    if not ROWS.is_file():
        return []
    with ROWS.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--home", type=Path, default=Path("rank_truth_home"))
    parser.add_argument("--tasks", type=int, default=99)
    parser.add_argument("--converged", action="store_true", help="no fine-tuning")
    parser.add_argument("--table", action="store_true")
    options = parser.parse_args()
    if options.table:
        print(tables())
    else:
        compute(options.home, options.tasks, finetune=not options.converged)


def values() -> tuple[list[str], list[str], dict[str, np.ndarray]]:
    """Tasks, checkpoints, and what was measured: (tasks, checkpoints) each."""
    rows = _rows()
    names = list(dict.fromkeys(row["task"] for row in rows))
    models = list(dict.fromkeys(row["checkpoint"] for row in rows))
    found: dict[str, np.ndarray] = {}
    for row in rows:
        table = found.setdefault(row["what"], np.full((len(names), len(models)), np.nan))
        table[names.index(row["task"]), models.index(row["checkpoint"])] = float(row["value"])
    return names, models, found


def tables() -> str:
    """Accuracies, Kendall's tau of every score, and what is chosen when each task is left out."""
    from unseen.metrics import kendall_tau

    names, models, found = values()
    truths = {name: found.pop(name) for name in ("truth", "converged") if name in found}
    start = found.pop("start", None)
    truths = {name: table for name, table in truths.items() if np.isfinite(table).all()}
    lines = []
    for by, table in truths.items():
        lines += [f"{AGAINST[by].capitalize()} (%):", "", "| checkpoint | " + " | ".join(names) + " |"]
        lines.append("|---" * (len(names) + 1) + "|")
        for column, model in enumerate(models):
            lines.append(f"| {model} | " + " | ".join(f"{100 * v:.1f}" for v in table[:, column]) + " |")
        lines.append("")
        if by == "truth" and start is not None:
            lines += [_against_start(table, start), ""]
    full = {name: table for name, table in found.items() if np.isfinite(table).all()}
    ranks = {name: _ranks(table) for name, table in full.items()}
    tau = {
        (name, by): np.array([kendall_tau([ranks[name][t]], [truth[t]]) for t in range(len(names))])
        for name in ranks
        for by, truth in truths.items()
    }
    lines += ["| score | " + " | ".join(f"Kendall (%), {AGAINST[by]}" for by in truths) + " |"]
    lines += ["|---" * (len(truths) + 1) + "|"]
    for name in sorted(ranks, key=lambda n: -tau[n, next(iter(truths))].mean()):
        lines.append(f"| {name} | " + " | ".join(f"{100 * tau[name, by].mean():.1f}" for by in truths) + " |")
    for by, truth in truths.items():
        lines += ["", *_left_out(names, ranks, by, truth)]
    return "\n".join(lines)


def _against_start(truth: np.ndarray, start: np.ndarray) -> str:
    """How fine-tuning stands to the linear probe that it starts from."""
    gain = 100 * (truth - start)
    moved = np.abs(gain) > 1e-9
    return (
        f"Fine-tuning left the probe in {moved.sum()} of {gain.size} pairs: "
        f"{gain[moved].mean() if moved.any() else 0.0:+.1f} points there on average "
        f"({gain.min():+.1f} to {gain.max():+.1f}), {gain.mean():+.2f} over all pairs."
    )


def _left_out(names: list[str], ranks: dict[str, np.ndarray], by: str, truth: np.ndarray) -> list[str]:
    """What would be chosen without each task, and how that does on it, beside the default and the best single score."""
    from unseen.benchmarks.rank.protocol import DEFAULT_SCORES
    from unseen.metrics import kendall_tau

    pool = [n for n in ranks if n not in ("leep", "nce")]  # not every checkpoint of a user has a head
    teams = [team for size in (1, 2, 3) for team in combinations(pool, size)]
    value = {}
    for team in teams:
        mean = np.mean([ranks[name] for name in team], axis=0)
        value[team] = np.array([kendall_tau([mean[t]], [truth[t]]) for t in range(len(names))])
    singles = [team for team in teams if len(team) == 1]
    rows = []
    for t in range(len(names)):
        others = [k for k in range(len(names)) if k != t]
        single = max(singles, key=lambda team: value[team][others].mean())
        several = max(teams, key=lambda team: value[team][others].mean())
        rows.append((value["probe",][t], value[single][t], value[several][t], single[0], "+".join(several)))
    mean = np.mean([row[:3] for row in rows], axis=0)
    evidence = np.mean([ranks[name] for name in DEFAULT_SCORES], axis=0)
    beside = np.mean([kendall_tau([evidence[t]], [truth[t]]) for t in range(len(names))])
    against = AGAINST[by]
    lines = [
        f"Against {against}, each task left out of the choice in turn:",
        "",
        "| task | the order of `unseen rank` | best single score elsewhere | best one to three elsewhere |",
        "|---|---|---|---|",
    ]
    for name, row in zip(names, rows, strict=True):
        lines.append(f"| {name} | {100 * row[0]:.1f} | {100 * row[1]:.1f} ({row[3]}) | {100 * row[2]:.1f} ({row[4]}) |")
    lines.append(f"| mean | {100 * mean[0]:.1f} | {100 * mean[1]:.1f} | {100 * mean[2]:.1f} |")
    lines += ["", f"The scores beside it ({', '.join(DEFAULT_SCORES)}), by their mean rank: {100 * beside:.1f}."]
    return lines


def _ranks(table: np.ndarray) -> np.ndarray:
    """Ranks within each task, the highest last."""
    from scipy.stats import rankdata

    return np.asarray(rankdata(np.round(table, 9), axis=1))


if __name__ == "__main__":
    main()
