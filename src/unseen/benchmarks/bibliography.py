"""What to cite for some results, as BibTeX: this package, benchmarks, methods, models and data, each entry once."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from unseen.core.records import DatasetCard, ModelCard, Result
from unseen.results.typeset import latex_text

#: Parameters of cells that name methods with cards of their own.
_METHODS = {"method": "unseen.zeroshot.catalogue:method_cards", "score": "unseen.ranking.cards:score_cards"}


@cache
def references() -> Mapping[str, Mapping[str, Any]]:
    """The entries that are known in full, by key."""
    return tomllib.loads((files("unseen.benchmarks") / "references.toml").read_text(encoding="utf-8"))


def bibtex(
    results: Sequence[Result],
    cards: Mapping[str, ModelCard] | None = None,
    dataset_cards: Mapping[str, DatasetCard] | None = None,
) -> str:
    """The entries of everything that took part; a citation that is known only as a line becomes a `@misc`."""
    keys: dict[str, None] = {"unseen": None}
    lines: dict[str, list[str]] = {}
    for key in _papers({result.cell.benchmark for result in results}):
        keys[key] = None
    for citation, user in [*_methods(results), *_cards(results, cards or {}, dataset_cards or {})]:
        if known := _known(citation):
            keys[known] = None
        else:
            lines.setdefault(citation, []).append(user)
    found = [_entry(key, references()[key]) for key in keys]
    taken = set(keys)
    for citation in lines:
        key = _made_key(citation, taken)
        taken.add(key)
        found.append(_line_entry(key, citation))
    return "\n".join(found)


def _papers(benchmarks: Iterable[str]) -> list[str]:
    from unseen.benchmarks.method import papers_of

    return list(dict.fromkeys(key for name in sorted(benchmarks) for key in papers_of(name)))


def _methods(results: Sequence[Result]) -> Iterator[tuple[str, str]]:
    """Citations of the methods and scores that cells name."""
    from unseen.core.registry import load_object

    for parameter, cards in _METHODS.items():
        used = {str(r.cell.parameters[parameter]) for r in results if parameter in r.cell.parameters}
        if used:
            yield from ((card.citation, card.id) for card in load_object(cards)() if card.id in used and card.citation)


def _cards(
    results: Sequence[Result], cards: Mapping[str, ModelCard], dataset_cards: Mapping[str, DatasetCard]
) -> Iterator[tuple[str, str]]:
    for name in dict.fromkeys(result.cell.model for result in results):
        if name in cards and cards[name].citation:
            yield cards[name].citation, name
    for name in dict.fromkeys(result.cell.dataset for result in results):
        if name in dataset_cards and dataset_cards[name].citation:
            yield dataset_cards[name].citation, name


def _known(citation: str) -> str | None:
    return next((key for key, entry in references().items() if citation in entry.get("said", ())), None)


def _entry(key: str, entry: Mapping[str, Any]) -> str:
    venue = {"inproceedings": "booktitle", "article": "journal"}.get(entry["type"], "howpublished")
    fields = {"author": entry["author"], "title": f"{{{entry['title']}}}", "year": str(entry["year"])}
    if "venue" in entry:
        fields[venue] = entry["venue"]
    return _written(entry["type"], key, fields)


def _line_entry(key: str, citation: str) -> str:
    """ "Authors, Title, Venue 2021" taken apart where it has these parts; else a note."""
    parted = re.fullmatch(r"(?P<who>.+? et al\.|[^,]+), (?P<title>.+), (?P<venue>[^,\d]*?) ?(?P<year>\d{4})", citation)
    if parted is None or len(parted["title"].split()) < 3:  # names of more authors, not a title
        return _written("misc", key, {"note": latex_text(citation)})
    who = parted["who"].removesuffix(" et al.")
    names = " and ".join(part.strip() for part in re.split(r" & | and |, ", who))
    author = f"{names} and others" if parted["who"].endswith("et al.") else names
    fields = {"author": latex_text(author), "title": f"{{{latex_text(parted['title'])}}}", "year": parted["year"]}
    return _written("misc", key, fields | ({"howpublished": latex_text(parted["venue"])} if parted["venue"] else {}))


def _made_key(citation: str, taken: set[str]) -> str:
    """ "touvron2021", with a letter behind where that is taken."""
    first = re.sub(r"[^a-z]", "", re.split(r"[\s,]", citation.lower())[0]) or "cited"
    year = re.search(r"\d{4}", citation)
    stem = f"{first}{year[0] if year else ''}"
    return next(
        key
        for key in (stem, *(f"{stem}{letter}" for letter in "bcdefghijklmnopqrstuvwxyz"), f"{stem}-{len(taken)}")
        if key not in taken
    )


def _written(kind: str, key: str, fields: Mapping[str, str]) -> str:
    return f"@{kind}{{{key},\n" + "".join(f"  {name} = {{{value}}},\n" for name, value in fields.items()) + "}\n"
