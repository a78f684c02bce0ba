"""Writes golden.toml: what every score says of one fixed set of features. Run it after a score's `version` was raised.

python tests/ranking/make_golden.py
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

GOLDEN = Path(__file__).with_name("golden.toml")


def golden_input() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """480 rows of 12 dimensions, 4 classes that overlap, and what a head of 7 source classes says of them.

    Made by arithmetic alone, so that no library's random numbers are in it.
    """
    i, j = np.arange(480)[:, None], np.arange(12)[None, :]
    labels = np.arange(480) * 7 % 4
    noise = np.sin(12.9898 * (i + 1) + 78.233 * (j + 1)) * 43758.5453 % 1.0
    centres = np.cos(1.7 * (labels[:, None] + 1) * (j + 2))
    features = 0.55 * centres + 2.0 * noise - 0.8
    logits = 3.0 * features[:, :7] - features[:, 5:12]
    exponentials = np.exp(logits - logits.max(axis=1, keepdims=True))
    return features, labels, exponentials / exponentials.sum(axis=1, keepdims=True)


def golden_value(card: object) -> float:
    from unseen.ranking import score_value

    features, labels, probabilities = golden_input()
    return score_value(card, labels, features=features, probabilities=probabilities)  # type: ignore[arg-type]


def main() -> None:
    from unseen.ranking import SCORES

    lines = ["# Made by make_golden.py. A number that moves wants a higher `version` on the score's card."]
    for card in SCORES.values():
        if not card.needs_training:
            lines.append(
                f'"{card.id}" = {{ version = {getattr(card, "version", 1)}, value = {golden_value(card):.12g} }}'
            )
    GOLDEN.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
