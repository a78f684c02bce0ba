"""Where the numbers come from: seeds, what was tried, on what machine, and whom to cite."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from unseen.core.identity import canonical_json
from unseen.core.records import Result
from unseen.reports.blocks import Material, Section, Table, TableCell
from unseen.reports.wording import counted, duration, listed, short_names
from unseen.results.comparability import SEED, value_text


def provenance_section(material: Material) -> Section:
    """Everything a sceptical reader asks for that is not in the tables of scores."""
    results = material.results
    points = []
    seeds = sorted({r.cell.parameters[SEED] for r in results if SEED in r.cell.parameters}, key=canonical_json)
    if seeds:
        points.append(("Seeds", f"{listed([value_text(seed) for seed in seeds], 24)}."))
    total = sum(result.seconds for result in results)
    time = f"{duration(total)} for {counted(len(results), 'cell')}, as their benchmarks measured it"
    points.append(("Time", f"{time}; features that were stored already took none of it."))
    for benchmark in sorted({result.cell.benchmark for result in results}):
        tried = _sweep([result for result in results if result.cell.benchmark == benchmark])
        if tried:
            points.append((f"Tried in {benchmark}", tried))
    points.append(("Cite", _citations(material)))
    points.append(
        (
            "Precision",
            "Tables and charts are rounded; the CSV and JSON in this page are not, and the JSON has the whole sweep.",
        )
    )
    tables = [_environments(results)] if any(result.environment for result in results) else []
    return Section("Where the numbers come from", "provenance", points=points, tables=tables)


def _sweep(results: Sequence[Result]) -> str:
    """The ranges of all hyper-parameters that were tried, not of what came of them."""
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
    return name.startswith("val") or name in ("accuracy", "seconds", "state", "index")


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
    """This package with its version, then what the cards of models and datasets ask for, a line each."""
    versions = sorted({result.environment["unseen"] for result in material.results if "unseen" in result.environment})
    own = f"unseen {' and '.join(versions)}" if versions else "unseen"
    sources: dict[str, list[str]] = {}
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
    return "\n".join([f"{own}, together with the models and datasets you speak of:" if lines else f"{own}.", *lines])


def _environments(results: Sequence[Result]) -> Table:
    """One column per distinct environment; most pages have one."""
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
