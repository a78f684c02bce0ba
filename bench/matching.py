"""Matching class names to synsets on lists with known ids: accuracy, calibration, and the weights of the evidence.

    python bench/matching.py              evaluates `unseen audit` on the lists: the tables of docs/evidence/concepts.md
    python bench/matching.py --curve      precision among the most probable classes
    python bench/matching.py --fit        fits the weights on all lists and writes src/unseen/concepts/matching.json
    python bench/matching.py --validate   fits on half of the classes of every list, or on all lists but one, and
                                          evaluates on the rest

Lists: LVIS (ids by its authors) and CLIP's names of ImageNet-1K, half of each, in UNSEEN_GOLDEN_DATA/classlists;
Caltech-101 beside its photographs; the five lists of GBU in tests/concepts/gbu_settled.tsv.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize

from tables import Table
from unseen.concepts import Kinship, Relation, audit_classes, imagenet_1k, load_wordnet
from unseen.concepts.class_names import ClassNameReader
from unseen.concepts.evidence import FEATURES, CandidateFinder, ListEvidence
from unseen.concepts.mapping import ClassMapping
from unseen.concepts.senses import LEAST_SURE, NOISE, WRONG_AMONG_SURE, solve

ROOT = Path(__file__).resolve().parents[1]
WEIGHTS = ROOT / "src" / "unseen" / "concepts" / "matching.json"
#: Means of the Gaussian prior of the weights, where zero is not the neutral value: log shares and log odds of the list
#: count fully, a hint in brackets points to the sense below it.
PRIOR = {
    "seen_share": 1.0, "related_share": 1.0, "list_category": 0.7, "list_genus": 0.7,
    "list_person": 0.5, "list_proper": 0.5, "frequency": 0.5, "taken": -1.0, "pictured": 0.5, "below_hint": 2.0,
    "hint_in_name": 1.0,
}  # fmt: skip
PENALTY = 1.0
#: The first weights, from which the beliefs about the other classes are computed.
START = {
    "exact": 4.0, "form": 3.0, "qualified": 3.0, "ending": 1.5, "start": 1.0, "covered": 1.0, "words": 1.0,
    "frequency": 0.5, "first": 0.5, "pictured": 0.7, "list_category": 0.5, "list_mean": 1.0, "seen_share": 1.0,
    "related_share": 1.0, "below_hint": 2.0, "hint_in_name": 1.0, "taken": -1.0, "list_person": 0.3, "list_genus": 0.3,
    "list_proper": 0.3, "none": -1.0, "none_of_parts": 2.0,
}  # fmt: skip
Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class KnownList:
    """A class list with known ids: None where WordNet has none, absent where the class is not settled."""

    name: str
    classes: list[str]
    ids: dict[str, str | None]


def read_lists(data: Path) -> list[KnownList]:
    """Return the lists."""

    def table(path: Path) -> dict[str, str | None]:
        rows = (line.split("\t") for line in path.read_text(encoding="utf-8").splitlines() if line[:1] not in ("", "#"))
        return {row[0]: row[1] for row in rows}

    found = [
        KnownList("LVIS", list(ids := table(data / "classlists" / "lvis_half.tsv")), ids),
        KnownList("CLIP's ImageNet-1K", list(ids := table(data / "classlists" / "imagenet_curated_half.tsv")), ids),
    ]
    photos = data / "photos" / "caltech101"
    names = sorted(path.name for path in (photos / "images").iterdir())
    found.append(KnownList("Caltech-101", names, table(photos / "wnids.tsv")))
    gbu: dict[str, dict[str, str | None]] = {}
    for line in (ROOT / "tests" / "concepts" / "gbu_settled.tsv").read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            dataset, name, _, wnid = line.split("\t")
            gbu.setdefault(dataset, {})[name] = None if wnid == "-" else wnid
    return found + [KnownList(name, list(ids), ids) for name, ids in gbu.items() if name != "AWA2"]


class Problem:
    """The evidence of a list and its known ids."""

    def __init__(self, known: KnownList) -> None:
        wordnet = load_wordnet()
        self.known, names = known, known.classes
        self.evidence = ListEvidence(CandidateFinder(ClassNameReader(wordnet), imagenet_1k()), names, {})
        owner = self.evidence.owner
        labels = [known.ids.get(names[k], "") == wnid for k, wnid in zip(owner, self.evidence.wnids, strict=True)]
        self.truth = np.asarray(labels, np.bool_)
        self.used = np.bincount(owner, self.truth, len(names)) > 0

    def fold(self, fold: int, folds: int) -> npt.NDArray[np.bool_]:
        """Return a mask of classes: a random fold."""
        order = np.random.default_rng(len(self.known.classes)).permutation(len(self.known.classes))
        return np.isin(np.arange(len(order)), order[fold::folds])


def loss(weights: Array, problems: Sequence[tuple[Problem, npt.NDArray[np.bool_]]]) -> tuple[float, Array]:
    """Return the penalised negative log likelihood with label noise, and its gradient."""
    prior = np.asarray([PRIOR.get(name, 0.0) for name in FEATURES])
    total, gradient = PENALTY * ((weights - prior) ** 2).sum(), 2 * PENALTY * (weights - prior)
    for problem, mask in problems:
        evidence, owner = problem.evidence, problem.evidence.owner
        beliefs = evidence.beliefs(weights)
        chosen = (mask & problem.used)[owner]
        true = problem.truth & chosen
        likely = (1 - NOISE) * beliefs[true] + NOISE / 6
        total -= np.log(likely).sum()
        share = np.zeros(len(mask))
        share[owner[true]] = (1 - NOISE) * beliefs[true] / likely
        gradient = gradient - share[owner[true]] @ evidence.table[true]
        gradient = gradient + (beliefs * share[owner])[chosen] @ evidence.table[chosen]
    return float(total), gradient


def fit(problems: Sequence[tuple[Problem, npt.NDArray[np.bool_]]], rounds: int = 2) -> Array:
    """Return weights: beliefs about other classes and weights are computed in turns."""
    weights = np.asarray([START.get(name, 0.0) for name in FEATURES])
    for _ in range(rounds):
        for problem, _ in problems:
            solve(problem.evidence, weights, 3)
        weights = minimize(loss, weights, args=(problems,), jac=True, method="L-BFGS-B").x
    return np.round(weights, 4)


def curve(problem: Problem, weights: Array, mask: npt.NDArray[np.bool_]) -> tuple[Array, npt.NDArray[np.bool_]]:
    """Return probability and correctness of the best candidate of each settled class, the most probable first."""
    evidence = problem.evidence
    beliefs, _ = solve(evidence, weights)
    found = []
    for k in np.flatnonzero(mask):
        rows = np.flatnonzero(evidence.owner == k)
        best = int(rows[np.argmax(beliefs[rows])])
        if problem.known.classes[k] in problem.known.ids and evidence.wnids[best] is not None:
            found.append(((1 - NOISE) * float(beliefs[best]), bool(problem.truth[best])))
    found.sort(reverse=True)
    return np.asarray([p for p, _ in found]), np.asarray([right for _, right in found], np.bool_)


def summarize(p: Array, right: npt.NDArray[np.bool_], classes: int) -> str:
    """Return sure and wrong classes, and the largest share of classes that can be sure with 1 % wrong."""
    mean = np.cumsum(1 - p) / np.arange(1, len(p) + 1)
    sure = int(((mean <= WRONG_AMONG_SURE) & (p >= LEAST_SURE)).sum())
    wrong = np.cumsum(~right)
    most = max((i + 1 for i in range(len(p)) if wrong[i] <= 0.01 * (i + 1)), default=0)
    return (
        f"sure {sure} of {classes} ({100 * sure / classes:.0f} %), wrong {int((~right[:sure]).sum())}, "
        f"most with 1 % wrong {100 * most / classes:.0f} %"
    )


def validate(problems: Sequence[Problem], lists: Sequence[str]) -> None:
    """Print cross-validated results: on the other half of the classes, and on lists that were not fitted."""
    for fold in (0, 1):
        weights = fit([(problem, ~problem.fold(fold, 2)) for problem in problems])
        for problem in problems:
            mask = problem.fold(fold, 2)
            judged = int(sum(mask[k] and name in problem.known.ids for k, name in enumerate(problem.known.classes)))
            print(f"half {fold}: {problem.known.name}: {summarize(*curve(problem, weights, mask), judged)}", flush=True)
    for held in [p for p in problems if p.known.name in lists]:
        weights = fit([(p, np.ones(len(p.known.classes), np.bool_)) for p in problems if p is not held])
        found = curve(held, weights, np.ones(len(held.known.classes), np.bool_))
        print(f"fitted without {held.known.name}: {summarize(*found, len(held.known.ids))}", flush=True)


def evaluate(lists: Sequence[KnownList], with_curve: bool) -> None:
    """Print what `unseen audit` answers on every list, or the precision of its most probable classes."""
    kinship = Kinship(load_wordnet(), imagenet_1k())
    shares = (0.5, 0.6, 0.7, 0.8, 0.9)
    table = Table(
        "class list", "classes", "sure", "wrong among sure", "true synset listed", "false all-clears", "alarms"
    )
    if with_curve:
        titles = ("50 %", "60 %", "70 %", "80 %", "90 %")
        table = Table("class list", *titles)
    for known in lists:
        audit = audit_classes(known.classes, imagenet_1k())
        sure_ids = ClassMapping(audit.rows).sure
        rows = [row for row in audit.rows if row.match.name in known.ids]
        truth = {row.match.name: kinship.of(w)[0] if (w := known.ids[row.match.name]) else None for row in rows}
        sure = [row for row in rows if row.match.name in sure_ids]
        wrong = [row for row in sure if row.match.wnid != known.ids[row.match.name]]
        inside = [row for row in rows if known.ids[row.match.name] in {None, *(s.wnid for s in row.senses)}]
        plain = [row for row in rows if row.relation is Relation.UNSEEN and not row.flagged]
        silent = [row for row in plain if truth[row.match.name] is Relation.SEEN]
        clear = [row for row in rows if truth[row.match.name] is Relation.UNSEEN]
        for word, found in (("wrong", wrong), ("false all-clear", silent)):
            for row in found:
                print(f"{known.name}, {word}: {row.match.name} {row.match.wnid} {row.match.reason}", file=sys.stderr)
        matched = [(r.match.probability, r.match.wnid == known.ids[r.match.name]) for r in rows if r.match.wnid]
        right = np.cumsum([is_right for _, is_right in sorted(matched, reverse=True)])
        counts = [max(1, round(share * len(rows))) for share in shares]
        if with_curve:
            table.add(known.name, *(f"{100 * right[n - 1] / n:.1f} %" if n <= len(matched) else "" for n in counts))
            continue
        table.add(
            known.name,
            len(rows),
            f"{len(sure)} ({100 * len(sure) / len(rows):.0f} %)",
            f"{len(wrong)} ({100 * len(wrong) / max(1, len(sure)):.1f} %)",
            f"{100 * len(inside) / len(rows):.1f} %",
            len(silent),
            f"{sum(row.flagged for row in clear)} of {len(clear)}",
        )
    table.show()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=os.environ.get("UNSEEN_GOLDEN_DATA"))
    parser.add_argument("--fit", action="store_true")
    parser.add_argument("--validate", action="store_true")
    parser.add_argument("--curve", action="store_true", help="precision by coverage")
    parser.add_argument("--lists", nargs="*", help="only these lists, by name; with --validate, those held out")
    options = parser.parse_args()
    lists = read_lists(Path(options.data))
    if not options.fit and not options.validate:
        evaluate([known for known in lists if not options.lists or known.name in options.lists], options.curve)
        return
    problems = [Problem(known) for known in lists]
    if options.validate:
        validate(problems, options.lists or [known.name for known in lists])
        return
    weights = fit([(problem, np.ones(len(problem.known.classes), np.bool_)) for problem in problems])
    stored = {"made by": "bench/matching.py --fit", "weights": dict(zip(FEATURES, weights.tolist(), strict=True))}
    WEIGHTS.write_text(json.dumps(stored, indent=1) + "\n", encoding="utf-8")
    for problem in problems:
        found = curve(problem, weights, np.ones(len(problem.known.classes), np.bool_))
        print(f"{problem.known.name}: {summarize(*found, len(problem.known.ids))}")


if __name__ == "__main__":
    main()
