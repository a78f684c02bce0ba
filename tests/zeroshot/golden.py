"""Golden numbers of every method: `python tests/zeroshot/golden.py` records them anew, with their versions.

A method's numbers may move only with its version: raise `version` in its file, run this, and say so under "Numbers
changed" in the changelog. Its defaults and grids are recorded too: they move what a tuned method reaches.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from unseen.zeroshot.catalogue import BUILT_IN, load_method

RECORDED = Path(__file__).with_name("golden.json")


def problem() -> tuple[np.ndarray, ...]:
    """12 seen and 4 unseen classes, 8 attributes, 20 dimensions; the same on every machine."""
    rng = np.random.Generator(np.random.PCG64(11))
    S = rng.random((16, 8))
    S /= np.linalg.norm(S, axis=1, keepdims=True)
    means = 3 * (S - S.mean(0)) @ rng.standard_normal((8, 20)) + 0.3 * rng.standard_normal((16, 20))
    y, y_new = np.resize(np.arange(12), 180), np.resize(np.arange(12, 16), 40)
    X, X_new = (np.maximum(means[c] + 0.5 * rng.standard_normal((len(c), 20)), 0) for c in (y, y_new))
    return X, y, S, X_new, y_new


def numbers(name: str) -> list[float]:
    """What is compared: accuracy on unseen classes, and eight weighted sums of the scores against all classes."""
    X, y, S, X_new, y_new = problem()
    method = load_method(name)().fit(X, y, S)
    right = float((method.predict(X_new, S[12:]) + 12 == y_new).mean())
    scores = np.asarray(method.scores(X_new, S), np.float64)
    ranks = np.where(np.isfinite(scores), scores, np.nan)
    ranks = (ranks - np.nanmean(ranks)) / np.nanstd(ranks)
    weights = np.random.Generator(np.random.PCG64(5)).standard_normal((8, *scores.shape))
    return [right, *np.nansum(weights * ranks, axis=(1, 2)).round(6).tolist()]


def tried(name: str) -> dict[str, dict[str, Any]]:
    """What a method is without a setting, and what is tried of it."""
    kind = load_method(name)
    return {"defaults": kind().get_params(), "grid": dict(kind.grid), "quick_grid": dict(kind.quick_grid)}


def main() -> None:
    found = {n: {"version": load_method(n).version, "numbers": numbers(n), **tried(n)} for n in BUILT_IN}
    RECORDED.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
