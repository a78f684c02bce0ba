"""How often the estimate of `logistic` holds: random splits of the same images, so that nothing shifts.

    python bench/probe_coverage.py                       200 splits per set and number of shots: an hour on one core
    python bench/probe_coverage.py --splits 20           fewer

Each split puts 40 % of a set's images (its own splits pooled) aside at random. The probe is fitted on N per class of
the rest, and the accuracy on the images put aside is compared with `expected_interval`. Exits with 1 where a number of
shots covers less than 90 % or more than 97 %.
"""

from __future__ import annotations

import argparse
import pickle
from pathlib import Path

import numpy as np
import torch

from probe_sets import load
from unseen.probes import evaluate_probe

SETS = [("grocery", "lite0"), ("grocery", "resnet18"), ("coarse", "lite1"), ("coarse", "resnet18"), ("photos", "lite0")]
SHOTS: tuple[int | str, ...] = (4, 8, 16, "all")
ASIDE = 0.4
LOWEST, HIGHEST = 0.90, 0.97


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--splits", type=int, default=200)
    parser.add_argument("--home", type=Path, default=None, help="where features are kept")
    parser.add_argument("--save", type=Path, default=None, help="keep every split's figures")
    options = parser.parse_args()
    torch.set_num_threads(1)
    rows: list[tuple[str, str, int | str, float, float, float, float, int, bool]] = []
    for task, network in SETS:
        data = load(task, network, options.home)
        features = np.concatenate([data.train, data.test])
        labels = np.concatenate([data.train_labels, data.test_labels])
        for number in range(options.splits):
            order = np.random.default_rng([number, 7]).permutation(len(labels))
            aside, rest = np.split(order, [int(ASIDE * len(labels))])
            fewest = np.bincount(labels[rest]).min()
            counts = [n for n in SHOTS if n == "all" or (isinstance(n, int) and n <= fewest)]
            sets = features[rest], labels[rest], features[aside], labels[aside]
            for record in evaluate_probe(*sets, shots=counts, seeds=[number]):  # type: ignore[arg-type]
                interval = record.expected_interval()
                assert interval is not None and record.expected is not None and record.expected_se is not None
                plain = next(t.accuracy for t in record.trials if t.parameters == record.best)
                known = (record.expected, record.expected_se, plain, record.top1, len(aside), record.top1 in interval)
                rows.append((task, network, record.shots, *known))
        _print(rows, task, network)
        if options.save:
            options.save.write_bytes(pickle.dumps(rows))
    print("\nall sets together")
    met = [_line(rows, f"{n} shots", n) for n in SHOTS]
    raise SystemExit(0 if all(met) else 1)


def _print(rows: list[tuple[str, str, int | str, float, float, float, float, int, bool]], task: str, net: str) -> None:
    print(f"\n{task}, {net}", flush=True)
    for shots in SHOTS:
        own = [row for row in rows if row[:3] == (task, net, shots)]
        if own:
            _line(own, f"{shots} shots", shots)


def _line(rows: list[tuple[str, str, int | str, float, float, float, float, int, bool]], name: str, n: object) -> bool:
    own = [row for row in rows if row[2] == n]
    expected, error, _, found = (100 * np.array([row[k] for row in own]) for k in (3, 4, 5, 6))
    covered = float(np.mean([row[8] for row in own]))
    print(
        f"  {name:10} {len(own):4} splits: expected {expected.mean():5.1f}, found {found.mean():5.1f}, "
        f"gap {np.mean(found - expected):+5.2f} +- {np.std(found - expected):4.2f}, s.e. said {error.mean():4.2f}, "
        f"covered {100 * covered:.0f} %",
        flush=True,
    )
    return LOWEST <= covered <= HIGHEST


if __name__ == "__main__":
    main()
