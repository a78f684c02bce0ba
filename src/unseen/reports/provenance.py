"""The end of a page: seeds, times, settings that were tried, citations, environments; and the data for the browser."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from unseen.core.identity import canonical_json
from unseen.core.records import Result
from unseen.reports.blocks import Material, Section, Table, TableCell
from unseen.reports.theme import compressed, dense
from unseen.reports.wording import counted, duration, listed, short_names
from unseen.results.comparability import SEED, value_text
from unseen.results.export import to_json
from unseen.results.info import headline_first, metric_style


def provenance_section(material: Material) -> Section:
    """Return the section with seeds, times, tried settings, citations and environments."""
    results = material.results
    points = []
    points += [("Seeds", seeds)] if (seeds := _seeds(results)) else []
    total = sum(result.seconds for result in results)
    time = f"{duration(total)} for {counted(len(results), 'cell')}, as their benchmarks measured it"
    points.append(("Time", f"{time}; reading stored features is not included."))
    for benchmark in sorted({result.cell.benchmark for result in results}):
        tried = _sweep([result for result in results if result.cell.benchmark == benchmark])
        if tried:
            points.append((f"Tried in {benchmark}", tried))
    points.append(("Cite", _citations(material)))
    points.append(
        (
            "Precision",
            "Tables and charts are rounded; the CSV and JSON of this page are not. JSON has sweeps and run records.",
        )
    )
    tables = [_environments(results)] if any(result.environment for result in results) else []
    return Section("Where the numbers come from", "provenance", points=points, tables=tables)


def _seeds(results: Sequence[Result]) -> str:
    """Return the seeds, benchmark by benchmark if they differ."""
    found: dict[str, set[Any]] = {}
    for result in results:
        if SEED in result.cell.parameters:
            found.setdefault(result.cell.benchmark, set()).add(result.cell.parameters[SEED])
    texts = {
        name: listed([value_text(seed) for seed in sorted(seeds, key=canonical_json)], 24)
        for name, seeds in sorted(found.items())
    }
    if len(set(texts.values())) == 1:
        return f"{next(iter(texts.values()))}."
    return "; ".join(f"{name} {seeds}" for name, seeds in texts.items()) + "." if texts else ""


def _sweep(results: Sequence[Result]) -> str:
    """Return the ranges of all hyper-parameters that were tried, without validation scores."""
    counts = sorted({len(result.sweep) for result in results if result.sweep})
    if not counts:
        return ""
    ranges = []
    trials = [trial for result in results for trial in result.sweep]
    for name in dict.fromkeys(name for trial in trials for name in trial if not _is_outcome(name)):
        values = {_identity(trial[name]): trial[name] for trial in trials if name in trial}
        ranges.append(f"{name} {_range(list(values.values()))}")
    number = str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    return f"{number} settings per cell{': ' if ranges else ''}{'; '.join(ranges)}."


def _is_outcome(name: str) -> bool:
    return name.startswith("val") or name in (
        "accuracy",
        "log_loss",
        "loss",
        "seconds",
        "state",
        "index",
        "note",
        "error",
    )


def _identity(value: Any) -> str:
    """An identity for a value of a sweep, which unlike a parameter may be NaN or infinite."""
    return value_text(value) if isinstance(value, float) else repr(value)


def _range(values: Sequence[Any]) -> str:
    numbers = [v for v in values if isinstance(v, int | float) and not isinstance(v, bool)]
    if len(numbers) == len(values):
        if len(numbers) == 1:
            return value_text(numbers[0])
        return f"{value_text(float(min(numbers)))} to {value_text(float(max(numbers)))} ({len(numbers)} values)"
    return listed(sorted(value_text(value) for value in values), 8)


def _citations(material: Material) -> str:
    """Return this package with its version, then the citations of protocols, models and datasets, one per line."""
    versions = sorted({result.environment["unseen"] for result in material.results if "unseen" in result.environment})
    own = f"unseen {' and '.join(versions)}" if versions else "unseen"
    sources: dict[str, list[str]] = {}
    cells = {
        (r.cell.benchmark, *(r.cell.parameters.get(k) for k in ("method", "score"))): r.cell for r in material.results
    }
    for (benchmark, method, score), cell in sorted(cells.items(), key=str):
        for place, text in enumerate(material.papers(cell)):
            user = str((method or score) if place and (method or score) else benchmark)
            sources.setdefault(text, []).append(user)
    sources = {text: list(dict.fromkeys(users)) for text, users in sources.items()}
    models = {result.cell.model for result in material.results}
    datasets = {result.cell.dataset for result in material.results}
    for names, cards in (
        (short_names(models, material.cards), material.cards),
        (short_names(datasets, material.dataset_cards), material.dataset_cards),
    ):
        for identifier in sorted(names):
            citation = getattr(cards.get(identifier), "citation", "")
            if citation:
                sources.setdefault(citation, []).append(names[identifier])
    lines = [f"{citation} ({listed(users, 6)})" for citation, users in sources.items()]
    return "\n".join(
        [f"{own}, together with the models and datasets that you mention:" if lines else f"{own}.", *lines]
    )


def _environments(results: Sequence[Result]) -> Table:
    """Return a table with one column per distinct environment."""
    counts: Counter[str] = Counter()
    found: dict[str, Mapping[str, str]] = {}
    for result in results:
        if result.environment:
            key = canonical_json(dict(result.environment))
            counts[key] += 1
            found[key] = result.environment
    keys = sorted(found, key=lambda key: (-counts[key], key))
    names = dict.fromkeys(name for key in keys for name in found[key])
    rows = [[TableCell(name, name), *(TableCell(found[key].get(name, "–")) for key in keys)] for name in names]
    return Table("Environment", ["", *(counted(counts[key], "cell") for key in keys)], rows, folded=True)


# ---- data that a page contains, and that the browser unpacks on demand -----------------------------------------------
# JSON, compressed by gzip and written in base64, inside a <script> that no browser runs. Of ten thousand results a few
# megabytes remain; CSV and JSON files are made from them in the browser. Equal parts are held once.

#: Characters of a detail's JSON; lists of every concept or image stay in the database.
_LARGEST_DETAIL = 600


@dataclass(frozen=True)
class PackedResults:
    """All results for the browser.

    Attributes:
        ids: of the cells, in the order of the results.
        text: as `packed` gives it.
    """

    ids: Sequence[str]
    text: str


def result_data(material: Material) -> PackedResults:
    """All results for the browser: parts that many share are held once and named by their number."""
    shared: dict[str, int] = {}
    parts: list[Any] = []

    def once(value: Any) -> int:
        key = canonical_json(value)
        if key not in shared:
            shared[key] = len(parts)
            parts.append(value)
        return shared[key]

    def entry(identifier: str, result: Result) -> dict[str, Any]:
        cell = result.cell
        found: dict[str, Any] = {
            "id": identifier,
            "cell": cell.to_dict() | {"parameters": once(_strict(dict(cell.parameters)))},
            "metrics": _strict(dict(result.metrics)),
            "seconds": result.seconds,
            "environment": once(_strict(dict(result.environment))),
            "command": material.command(cell),
            "cite": once(list(citations(material, result))),
        }
        found |= {"error": result.error} if result.error else {}
        found |= {"recorded": result.recorded} if result.recorded else {}
        found |= {"record": once(_strict(result.record.to_dict()))} if result.record else {}
        found |= {"sweep": once(_strict([dict(trial) for trial in result.sweep]))} if result.sweep else {}
        small = {name: value for name, value in result.details.items() if _is_small(value)}
        return found | ({"details": once(_strict(small))} if small else {})

    ids = [result.cell.id for result in material.results]

    def texts() -> Iterator[str]:
        yield '{"results":['
        for number, (identifier, result) in enumerate(zip(ids, material.results, strict=True)):
            yield "," * bool(number) + dense(entry(identifier, result))
        rest = {"parts": parts, "styles": _styles(material.results), "names": material.names}
        yield f"],{dense(rest)[1:]}"

    return PackedResults(ids, compressed(texts()))


def citations(material: Material, result: Result) -> list[str]:
    """What to cite for one number: the protocol and its methods, the model, the data, and this package."""
    cell = result.cell
    version = result.environment.get("unseen", "")
    cards = (material.cards.get(cell.model), material.dataset_cards.get(cell.dataset))
    named = [getattr(card, "citation", "") for card in cards]
    return list(dict.fromkeys(text for text in (*material.papers(cell), *named, f"unseen {version}".strip()) if text))


def _styles(results: Sequence[Result]) -> dict[str, list[list[Any]]]:
    """By benchmark: its metrics, the one to judge by first, each with its title and whether it is a share."""
    names: dict[str, set[str]] = {}
    for result in results:
        names.setdefault(result.cell.benchmark, set()).update(result.metrics)
    return {
        benchmark: [[n, metric_style(n, benchmark).title, metric_style(n, benchmark).percent] for n in ordered]
        for benchmark, found in names.items()
        if (ordered := headline_first(found, benchmark))
    }


def _strict(value: Any) -> Any:
    """Without numbers that JSON has no text for."""
    return json.loads(to_json(value, indent=None))


def _is_small(value: Any) -> bool:
    if isinstance(value, str | list | tuple | Mapping) and len(value) > _LARGEST_DETAIL // (
        1 if isinstance(value, str) else 2
    ):
        return False  # without a look at a thousand concepts
    return len(to_json(value, indent=None)) <= _LARGEST_DETAIL
