"""The end of a page: failures, run records, seeds, times, citations, environments; and the data for the browser.

Models that are evaluated on the same data drop the same images, so that a dropped item is one row with its models.
"""

from __future__ import annotations

import base64
import gzip
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from unseen.core.identity import Values, canonical_json, to_json
from unseen.core.records import Result
from unseen.core.run_record import RunRecord, record_lines
from unseen.reports.blocks import Material, Section, Table, plain_table
from unseen.reports.wording import counted, duration, listed, setting_text
from unseen.results.comparability import SEED, sort_key, value_text
from unseen.results.grid import by_benchmark
from unseen.results.info import headline_first, metric_style
from unseen.results.table import run_findings

# ---- failures and run records ----------------------------------------------------------------------------------------


def problems_section(material: Material) -> Section:
    """Return the section; its title is "Nothing went wrong" only if no cell failed and every record is clean."""
    results = material.results
    failed = [result for result in results if not result.ok]
    without = sum(result.ok and not result.record for result in results)
    findings = run_findings(results)
    title, prose = "Nothing went wrong", [] if failed else ["Every planned cell has a result."]
    if failed or findings or without:
        title = "What was dropped, and other findings" if findings else "No cell failed"
    if without:
        prose.append(f"{counted(without, 'result')} of an older version of unseen, without a run record.")
    elif not findings:
        prose.append("The evaluations used everything that they received.")
    points = [("Findings", f"{'; '.join(findings)}.")] if findings else []
    return Section(
        "What went wrong" if failed else title,
        "problems",
        prose=prose,
        points=points,
        tables=[table for table in _record_tables(material, failed) if table.rows],
        tone="warning" if failed else "",
    )


def _record_tables(material: Material, failed: Sequence[Result]) -> Iterator[Table]:
    """Yield the tables of failures and of the facts of all run records; a fact of several models is one row."""
    names = material.dataset_names
    yield plain_table(
        counted(len(failed), "failed cell"),
        ["model", "dataset", "cell", "reason"],
        [
            (cell.model, cell.dataset, f"{cell.benchmark}: {setting_text(cell.parameters)}", result.error)
            for result in failed
            for cell in [result.cell]
        ],
        folded=False,
    )
    models: dict[str, set[str]] = {}
    users: dict[tuple[str, str], dict[str, None]] = {}
    facts = {id(result.record): list(_facts(result.record)) for result in material.results}  # many results share one
    for result in material.results:
        dataset, model = result.cell.dataset, result.cell.model
        models.setdefault(dataset, set()).add(model)
        for fact in facts[id(result.record)]:
            users.setdefault((dataset, fact), {})[material.names[model]] = None
    everyone = {dataset: len(own) if len(own) > 1 else 0 for dataset, own in models.items()}
    rows = [
        (text, names[data], f"all {len(own)} models" if len(own) == everyone[data] else listed(list(own), 3))
        for (data, text), own in users.items()
    ]
    yield plain_table(f"{counted(len(rows), 'fact')} of the run records", ["fact", "dataset", "models"], rows)


def _facts(record: RunRecord) -> Iterator[str]:
    """Yield each entry of a record after its headings, without the findings."""
    path: list[str] = []
    for line, after in pairwise([*list(record_lines(record))[1:], ""]):
        depth = len(line) - len(line.lstrip())
        path = [*path[: depth // 2], line.strip()]
        if len(after) - len(after.lstrip()) <= depth:
            yield " ".join(path)


# ---- provenance ------------------------------------------------------------------------------------------------------


def provenance_section(material: Material) -> Section:
    """Return the section with seeds, times, citations and environments."""
    results = material.results
    seeds = {value_text(r.cell.parameters[SEED]) for r in results if SEED in r.cell.parameters}
    points = [("Seeds", f"{listed(sorted(seeds, key=sort_key), 24)}.")] if seeds else []
    time = f"{duration(sum(result.seconds for result in results))} for {counted(len(results), 'cell')}"
    points.append(("Time", f"{time}, as their benchmarks measured it; reading stored features is not included."))
    precision = "Tables and charts are rounded; the CSV and JSON of this page are not. JSON has sweeps and run records."
    if len(results) > MOST_CELLS:
        precision = "Tables and charts are rounded; unseen results --csv and --json are not."
    cited = dict.fromkeys(text for result in results for text in citations(material, result))
    points += [("Cite", "\n".join(cited)), ("Precision", precision)]
    counts = Counter(canonical_json(dict(result.environment)) for result in results if result.environment)
    keys = sorted(counts, key=lambda key: (-counts[key], key))
    environments = [json.loads(key) for key in keys]
    rows = [
        [name, *(str(each.get(name, "–")) for each in environments)]
        for name in dict.fromkeys(name for each in environments for name in each)
    ]
    table = plain_table("Environment", ["", *(counted(counts[key], "cell") for key in keys)], rows, folded=True)
    return Section("Where the numbers come from", "provenance", points=points, tables=[table] if rows else [])


# ---- data that a page contains, and that the browser unpacks on demand -----------------------------------------------
# JSON, compressed by gzip and written in base64, inside a <script> that no browser runs. Of ten thousand results a few
# megabytes remain; the browser makes CSV and JSON files from them. Equal parts are stored once.

#: Results of a page that contains them all; more would make it too large.
MOST_CELLS = 20_000
#: Characters of a detail; lists of every concept or image stay in the database.
_LARGEST_DETAIL = 600


@dataclass(frozen=True)
class PackedResults:
    """All results for the browser.

    Attributes:
        ids: of the cells, in the order of the results.
        text: the results, packed.
    """

    ids: Sequence[str]
    text: str


def pack(text: str) -> str:
    """Return a text as base64 of gzip: safe inside a <script>, and equal for equal texts."""
    return base64.b64encode(gzip.compress(text.encode(), 6, mtime=0)).decode("ascii")


def result_data(material: Material) -> PackedResults:
    """Return all results for the browser; parts that many results share are stored once and named by their number."""
    shared: dict[str, int] = {}

    def once(value: object) -> int:
        return shared.setdefault(to_json(value, indent=None), len(shared))

    def entry(identifier: str, result: Result) -> Values:
        cell, record = result.cell, result.record.to_dict() if result.record else None
        small = {name: value for name, value in result.details.items() if _is_small(value)}
        found = {
            "id": identifier,
            "cell": cell.to_dict() | {"parameters": once(dict(cell.parameters))},
            "metrics": dict(result.metrics),
            "seconds": result.seconds,
            "environment": once(dict(result.environment)),
            "command": material.command(cell),
            "cite": once(citations(material, result)),
        }
        optional = {"error": result.error, "recorded": result.recorded}
        parts = {"record": record, "sweep": [dict(trial) for trial in result.sweep], "details": small}
        found |= {name: text for name, text in optional.items() if text}
        return found | {name: once(part) for name, part in parts.items() if part}

    ids = [result.cell.id for result in material.results]
    data: Values = {"results": [entry(*pair) for pair in zip(ids, material.results, strict=True)]}
    data |= {"parts": [json.loads(text) for text in shared], "styles": _styles(material.results)}
    return PackedResults(ids, pack(to_json(data | {"names": material.names}, indent=None)))


def citations(material: Material, result: Result) -> list[str]:
    """Return what to cite for one number: the protocol and its methods, the model, the data, and this package."""
    cell = result.cell
    cards = (material.cards.get(cell.model), material.dataset_cards.get(cell.dataset))
    own = f"unseen {result.environment.get('unseen', '')}".strip()
    named = (getattr(card, "citation", "") for card in cards)
    return list(dict.fromkeys(text for text in (*material.papers(cell), *named, own) if text))


def _styles(results: Sequence[Result]) -> dict[str, list[list[object]]]:
    """Return by benchmark its metrics, the headline metric first, each with its title and whether it is a share."""
    found: dict[str, list[list[object]]] = {}
    for benchmark, own in by_benchmark(results).items():
        names = headline_first({name for result in own for name in result.metrics}, benchmark)
        styles = [metric_style(name, benchmark) for name in names]
        found |= {benchmark: [[style.name, style.title, style.percent] for style in styles]} if styles else {}
    return found


def _is_small(value: object) -> bool:
    if isinstance(value, str | list | tuple | Mapping) and len(value) > _LARGEST_DETAIL:
        return False  # without formatting a thousand concepts
    return len(repr(value)) <= _LARGEST_DETAIL
