"""Classes without a single training image: made-up attributes, four methods, seen and unseen accuracy.

python examples/zero_shot.py --classes 20
"""

from __future__ import annotations

import argparse

import numpy as np

import unseen


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--classes", type=int, default=20)
    parser.add_argument("--noise", type=float, default=0.3)
    given = parser.parse_args(arguments)

    rng = np.random.default_rng(0)
    attributes = rng.normal(size=(given.classes, 12))  # a row per class: your attributes or word vectors
    labels = np.repeat(np.arange(given.classes), 30)
    features = attributes[labels] @ rng.normal(size=(12, 64)) + given.noise * rng.normal(size=(len(labels), 64))
    answer = unseen.evaluate_zeroshot(features, labels, attributes, methods=("ESZSL", "SAE", "ALE", "DEVISE"))
    print(answer)


if __name__ == "__main__":
    main()
