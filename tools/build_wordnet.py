"""Build the WordNet 3.0 noun table that ships inside the package.

Reads `data.noun`, `index.noun` and `noun.exc` of a WordNet 3.0 database folder (Debian's `wordnet-base` puts it into
/usr/share/wordnet) and writes two files, described in docs/adr/0001-wordnet-table.md:

    wordnet30.npz                  offsets, hypernyms, instance hypernyms, lemmas, sense numbers, irregular plurals,
                                   lexicographer files, uses of each sense in tagged texts (from `cntlist.rev`)
    wordnet30_definitions.txt.xz   one definition per line, in the order of the offsets

With a file of image counts (`wnid,images` per line), it also writes imagenet21k_counts.npz: the number of images of
each synset of ImageNet-21K (Fall 2011), in the order of the wnids.

Usage: python tools/build_wordnet.py [WORDNET_FOLDER] [OUTPUT_FOLDER] [COUNTS_FILE]
"""

from __future__ import annotations

import lzma
import sys
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt

WORDNET = Path("/usr/share/wordnet")
PACKAGE = Path(__file__).resolve().parents[1] / "src" / "unseen" / "concepts"


@dataclass
class Synset:
    """One line of `data.noun`."""

    offset: int
    lemmas: list[str]
    definition: str
    lexicographer: int
    hypernyms: list[int] = field(default_factory=list)
    instance_hypernyms: list[int] = field(default_factory=list)


def parse_synset(line: str) -> Synset:
    """Read one line of `data.noun`; its fields are described in wndb(5WN)."""
    fields, _, gloss = line.partition(" | ")
    parts = fields.split()
    word_count = int(parts[3], 16)
    # A gloss is a definition and then examples, each in quotation marks after a semicolon.
    definition = gloss.strip().split('; "')[0].strip()
    synset = Synset(int(parts[0]), parts[4 : 4 + 2 * word_count : 2], definition, int(parts[1]))
    pointers = parts[5 + 2 * word_count :]
    for symbol, target in zip(pointers[0::4], pointers[1::4], strict=False):
        if symbol == "@":
            synset.hypernyms.append(int(target))
        elif symbol == "@i":
            synset.instance_hypernyms.append(int(target))
    return synset


def read_synsets(folder: Path) -> list[Synset]:
    """All noun synsets, by offset."""
    with (folder / "data.noun").open(encoding="ascii") as lines:
        synsets = [parse_synset(line) for line in lines if not line.startswith("  ")]
    return sorted(synsets, key=lambda synset: synset.offset)


def read_senses(folder: Path) -> dict[str, list[int]]:
    """Lower-case lemma to the offsets of its senses, the most frequent first, from `index.noun`."""
    senses: dict[str, list[int]] = {}
    with (folder / "index.noun").open(encoding="ascii") as lines:
        for line in lines:
            if line.startswith("  "):
                continue
            parts = line.split()
            senses[parts[0]] = [int(offset) for offset in parts[-int(parts[2]) :]]
    return senses


def read_uses(folder: Path) -> dict[tuple[str, int], int]:
    """(lower-case lemma, sense number) to the number of uses in tagged texts, from `cntlist.rev`."""
    uses: dict[tuple[str, int], int] = {}
    with (folder / "cntlist.rev").open(encoding="ascii") as lines:
        for key, number, count in map(str.split, lines):
            lemma, _, kind = key.partition("%")
            if kind.startswith("1"):
                uses[lemma, int(number)] = int(count)
    return uses


def pack(groups: list[list[int]], position: dict[int, int]) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int32]]:
    """Lists of offsets as (length of each list, positions of all members)."""
    counts = np.array([len(group) for group in groups], dtype=np.uint8)
    return counts, np.array([position[offset] for group in groups for offset in group], dtype=np.int32)


def text_array(lines: list[str]) -> npt.NDArray[np.uint8]:
    """Lines as one array of bytes, which NumPy stores without pickling."""
    return np.frombuffer("\n".join(lines).encode("ascii"), dtype=np.uint8)


def build_arrays(folder: Path) -> tuple[dict[str, npt.NDArray[np.generic]], list[str]]:
    """The arrays of the table and the definitions."""
    synsets = read_synsets(folder)
    senses = read_senses(folder)
    position = {synset.offset: i for i, synset in enumerate(synsets)}
    hypernym_counts, hypernyms = pack([s.hypernyms for s in synsets], position)
    instance_counts, instance_hypernyms = pack([s.instance_hypernyms for s in synsets], position)
    numbers = [senses[lemma.lower()].index(s.offset) + 1 for s in synsets for lemma in s.lemmas]
    uses = read_uses(folder)
    words = [lemma.lower() for s in synsets for lemma in s.lemmas]
    irregular = [line.strip() for line in (folder / "noun.exc").read_text("ascii").splitlines()]
    arrays: dict[str, npt.NDArray[np.generic]] = {
        "offset_steps": np.diff([0, *position]).astype(np.int32),
        "hypernym_counts": hypernym_counts,
        "hypernyms": hypernyms,
        "instance_counts": instance_counts,
        "instance_hypernyms": instance_hypernyms,
        "lemmas": text_array(["\t".join(s.lemmas) for s in synsets]),
        "sense_numbers": np.array(numbers, dtype=np.uint8),
        "irregular_plurals": text_array(irregular),
        "lexicographer": np.array([s.lexicographer for s in synsets], dtype=np.uint8),
        "uses": np.array([uses.get(key, 0) for key in zip(words, numbers, strict=True)], dtype=np.uint16),
    }
    return arrays, [s.definition for s in synsets]


def main(arguments: list[str]) -> None:
    """Build both files."""
    folder = Path(arguments[0]) if arguments else WORDNET
    output = Path(arguments[1]) if len(arguments) > 1 else PACKAGE
    arrays, definitions = build_arrays(folder)
    np.savez_compressed(output / "wordnet30.npz", **arrays)  # type: ignore[arg-type]
    packed = lzma.compress("\n".join(definitions).encode("ascii"), preset=9 | lzma.PRESET_EXTREME)
    (output / "wordnet30_definitions.txt.xz").write_bytes(packed)
    if len(arguments) > 2:
        rows = [line.split(",") for line in Path(arguments[2]).read_text("ascii").splitlines()[1:]]
        counts = np.array([int(images) for _, images in sorted(rows)], dtype=np.uint16)
        np.savez_compressed(output / "imagenet21k_counts.npz", images=counts)
    for name in ("wordnet30.npz", "wordnet30_definitions.txt.xz"):
        print(f"{name}: {(output / name).stat().st_size:,} bytes")


if __name__ == "__main__":
    main(sys.argv[1:])
