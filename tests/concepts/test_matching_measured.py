"""How often the audit is right, measured on names from other sources with synsets that a person assigned.

Caltech-101: `wnids.tsv` beside the photographs, 89 classes. GBU: `gbu_settled.tsv` here, all classes of the five
datasets, settled by reading the lists against WordNet and ImageNet-1K. A leak is a class that is a seen concept, or a
kind of one. It is found if the audit says so, or says that the class is open. A class is silently wrong if the audit,
without saying that it is open, names another synset than the settled one, or any where WordNet has none for it; of a
class matched by a part of its name the relation is compared.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path

import pytest

from unseen.concepts import AuditRow, Kinship, Relation, audit_classes, imagenet_1k, load_wordnet

LEAKS = (Relation.SEEN, Relation.DESCENDANT)


@dataclass(frozen=True)
class Settled:
    """What a person says of a class."""

    relation: Relation
    wnid: str


@dataclass(frozen=True)
class Measured:
    """What the audit of a list came to."""

    classes: int
    leaks: int
    missed: list[str]
    silent: list[str]
    open: int

    def __str__(self) -> str:
        found = self.leaks - len(self.missed)
        return (
            f"{self.classes} classes: {found} of {self.leaks} leaks found ({found / self.leaks:.1%}), "
            f"{len(self.silent)} wrong without a flag ({len(self.silent) / self.classes:.1%}: {self.silent}), "
            f"{self.open} flagged ({self.open / self.classes:.0%})"
        )


def measure(names: list[str], settled: dict[str, Settled]) -> Measured:
    """Audit a whole list, and judge the classes of it that are settled."""
    judged = [row for row in audit_classes(names, imagenet_1k()).rows if row.match.name in settled]
    leaks = [row for row in judged if settled[row.match.name].relation in LEAKS]
    return Measured(
        len(judged),
        len(leaks),
        [row.match.name for row in leaks if row.relation not in LEAKS and not row.match.ambiguous],
        [row.match.name for row in judged if not row.match.ambiguous and _wrong(row, settled[row.match.name])],
        sum(row.match.ambiguous for row in judged),
    )


def _wrong(row: AuditRow, settled: Settled) -> bool:
    if row.match.how == "head":
        # A kind of a seen concept is a leak whether or not WordNet has a synset for it.
        same = {settled.relation, Relation.DESCENDANT} if settled.relation is Relation.SEEN else {settled.relation}
        return row.relation not in same
    return row.match.wnid != settled.wnid


def caltech(golden_data: Path) -> tuple[list[str], dict[str, Settled]]:
    folder = golden_data / "photos" / "caltech101"
    wordnet = load_wordnet()
    kinship = Kinship(wordnet, imagenet_1k())
    lines = (folder / "wnids.tsv").read_text().splitlines()
    settled = {name: Settled(kinship.of(wnid)[0], wnid) for name, wnid in (line.split("\t") for line in lines)}
    return sorted(path.name for path in (folder / "images").iterdir()), settled


def gbu(dataset: str) -> dict[str, Settled]:
    with (Path(__file__).parent / "gbu_settled.tsv").open(encoding="utf-8") as stream:
        rows = csv.reader((line for line in stream if not line.startswith("#")), delimiter="\t")
        return {name: Settled(Relation(relation), wnid) for d, name, relation, wnid in rows if d == dataset}


def test_the_photographs(golden_data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names, settled = caltech(golden_data)
    assert len(settled) == 89
    measured = measure(names, settled)
    with capsys.disabled():
        print(f"\nCaltech-101, {measured}")
    assert not measured.missed
    assert len(measured.silent) <= 0.02 * measured.classes
    assert measured.open <= 0.4 * measured.classes, "to flag everything is not an audit"


def test_the_five_lists_of_gbu(golden_data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    missed, silent, classes = [], [], 0
    for dataset in ("APY", "AWA1", "AWA2", "CUB", "SUN"):
        folder = golden_data / "gbu" / dataset
        listed = [(folder / f"{part}classes.txt").read_text().split() for part in ("trainval", "test")]
        settled = gbu(dataset)
        assert {*listed[0], *listed[1]} == set(settled), "the file of settled classes is of other lists"
        measured = measure([*listed[0], *listed[1]], settled)
        with capsys.disabled():
            print(f"\n{dataset}, {measured}")
        assert len(measured.silent) <= max(1, 0.02 * measured.classes)
        assert measured.open <= 0.65 * measured.classes
        missed += measured.missed
        silent += measured.silent
        classes += measured.classes
    with capsys.disabled():
        print(f"\nGBU together: {len(missed)} leaks missed; {len(silent) / classes:.1%} wrong without a flag")
    assert not missed
    assert len(silent) <= 0.02 * classes
