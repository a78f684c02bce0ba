"""Speed of the similarity matrix beside NLTK, in one run.

Ours:  information content of ImageNet-21K and the whole Lin matrix of 5,146 x 1,000 concepts.
NLTK:  the same similarity, fed with our information content, on a sample of those pairs.

Needs NLTK and the files of Debian's wordnet-base and wordnet-sense-index. Usage: python bench/similarity.py [FOLDER]
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from unseen.concepts import information_content, load_wordnet, similarity_matrix
from unseen.concepts.imagenet import imagenet_1k, imagenet_21k

DEBIAN_WORDNET = Path("/usr/share/wordnet")
ROWS = 5_146
SAMPLE = 5_000
WANTED = 1_000

# lexnames(5WN): lexicographer files in the order of their numbers. Debian leaves the file out and NLTK wants it.
# fmt: off
LEXNAMES = [
    "adj.all", "adj.pert", "adv.all", "noun.Tops", "noun.act", "noun.animal", "noun.artifact", "noun.attribute",
    "noun.body", "noun.cognition", "noun.communication", "noun.event", "noun.feeling", "noun.food", "noun.group",
    "noun.location", "noun.motive", "noun.object", "noun.person", "noun.phenomenon", "noun.plant", "noun.possession",
    "noun.process", "noun.quantity", "noun.relation", "noun.shape", "noun.state", "noun.substance", "noun.time",
    "verb.body", "verb.change", "verb.cognition", "verb.communication", "verb.competition", "verb.consumption",
    "verb.contact", "verb.creation", "verb.emotion", "verb.motion", "verb.perception", "verb.possession",
    "verb.social", "verb.stative", "verb.weather", "adj.ppl",
]
# fmt: on


def open_nltk_wordnet(source: Path, folder: Path) -> Any:
    """NLTK's reader over a copy of Debian's files; `folder` must stay until the reader is done with."""
    import nltk
    from nltk.corpus.reader.wordnet import WordNetCorpusReader

    # NLTK looks its own "wordnet" corpus up while it opens one, so the copy lies where it will look.
    corpus = folder / "corpora" / "wordnet"
    corpus.mkdir(parents=True)
    for name in WordNetCorpusReader._FILES:
        if name != "lexnames":
            # Not a link: NLTK refuses files that lead out of its data folders.
            shutil.copy(source / name, corpus / name)
    parts = {"noun": 1, "verb": 2, "adj": 3, "adv": 4}
    rows = [f"{i:02d}\t{name}\t{parts[name.split('.')[0]]}" for i, name in enumerate(LEXNAMES)]
    (corpus / "lexnames").write_text("\n".join(rows) + "\n")
    nltk.data.path.append(str(folder))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it warns that other languages are absent, as they are meant to be
        return WordNetCorpusReader(str(corpus), None)


def time_loading() -> float:
    """Seconds to load the WordNet table in a fresh interpreter, imports left out."""
    code = (
        "import time, unseen.concepts as c; start = time.perf_counter(); c.load_wordnet(); "
        "print(time.perf_counter() - start)"
    )
    return float(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout)


def time_ours(a: list[str], b: list[str]) -> tuple[float, np.ndarray, dict[str, dict[int, float]]]:
    """Seconds for information content and matrix; the matrix; the masses as NLTK takes them."""
    wordnet = load_wordnet()
    start = time.perf_counter()
    ic = information_content(wordnet, [*imagenet_21k(), *b])
    matrix = similarity_matrix(wordnet, a, b, "lin", ic=ic)
    seconds = time.perf_counter() - start
    masses = {int(o): float(w) for o, w in zip(wordnet.offsets, ic.weight, strict=True) if w > 0}
    return seconds, matrix, {"n": {0: ic.total, **masses}}


def time_nltk(reader: Any, pairs: list[tuple[str, str]], ic: Any) -> tuple[float, list[float]]:
    """Seconds for the pairs from their ids on, as ours are timed."""
    start = time.perf_counter()
    values = [
        reader.synset_from_pos_and_offset("n", int(x[1:])).lin_similarity(
            reader.synset_from_pos_and_offset("n", int(y[1:])), ic
        )
        for x, y in pairs
    ]
    return time.perf_counter() - start, values


def main(arguments: list[str]) -> int:
    """Print both speeds; fail if ours is not a thousand times NLTK's, or if the numbers differ."""
    source = Path(arguments[0]) if arguments else DEBIAN_WORDNET
    if not (source / "index.sense").exists():
        print("bench/similarity: skipped, Debian's wordnet-base and wordnet-sense-index are not installed")
        return 0
    rng = np.random.default_rng(0)
    seen = list(imagenet_1k())
    unseen = rng.choice(sorted(set(imagenet_21k()) - set(seen)), ROWS, replace=False).tolist()
    print(f"WordNet 3.0 nouns loaded in {time_loading():.3f} s (wanted: under 0.2 s)")
    cold, _, _ = time_ours(unseen, seen)
    ours, matrix, ic = time_ours(unseen, seen)
    row, column = rng.integers(0, ROWS, SAMPLE), rng.integers(0, len(seen), SAMPLE)
    with tempfile.TemporaryDirectory() as folder:
        reader = open_nltk_wordnet(source, Path(folder))
        pairs = [(unseen[i], seen[j]) for i, j in zip(row, column, strict=True)]
        theirs, values = time_nltk(reader, pairs, ic)
        again, _ = time_nltk(reader, pairs, ic)
    worst = float(np.abs(np.array(values) - matrix[row, column]).max())
    speeds = {"first": (matrix.size / cold, SAMPLE / theirs), "repeated": (matrix.size / ours, SAMPLE / again)}
    print(f"Lin of {matrix.shape[0]:,} x {matrix.shape[1]:,} concepts with information content; NLTK: {SAMPLE:,} pairs")
    for run, (speed, nltk_speed) in speeds.items():
        ratio = speed / nltk_speed
        print(f"{run:9} unseen {speed:13,.0f} pairs/s   NLTK {nltk_speed:9,.0f} pairs/s   ratio {ratio:8,.0f}")
    print(f"greatest difference {worst:.1e}; wanted: {WANTED:,} times NLTK in a first run, difference below 1e-9")
    speed, nltk_speed = speeds["first"]
    return 0 if speed >= WANTED * nltk_speed and worst < 1e-9 else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
