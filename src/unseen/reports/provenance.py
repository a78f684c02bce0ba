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
from typing import Any

from unseen.core.findings import search_facts
from unseen.core.identity import Values, canonical_json
from unseen.core.records import Result
from unseen.core.run_record import Dropped, LoadedModel
from unseen.reports.blocks import Material, Section, Table, plain_table
from unseen.reports.wording import counted, duration, listed, setting_text
from unseen.results.comparability import SEED, value_text
from unseen.results.export import to_json
from unseen.results.info import headline_first, metric_style
from unseen.results.table import records_by_dataset, run_findings

# ---- failures and run records ----------------------------------------------------------------------------------------


def problems_section(material: Material) -> Section:
    """Return the section; its title is "Nothing went wrong" only if no cell failed and every record is clean."""
    results, names = material.results, material.dataset_names
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
    points += [
        (names[dataset], f"Source of the examples: {record.provenance}.")
        for dataset, record in sorted(records_by_dataset(results).items())
        if record.provenance
    ]
    return Section(
        "What went wrong" if failed else title,
        "problems",
        prose=prose,
        points=points,
        tables=[table for table in _record_tables(material, failed) if table.rows],
        tone="warning" if failed else "",
    )


def _record_tables(material: Material, failed: Sequence[Result]) -> Iterator[Table]:
    """Yield the tables of failures and of run records; equal rows appear once."""
    names, records = material.dataset_names, [(result.cell, result.record) for result in material.results]
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
    dropped = _dropped(material)
    caption = f"{counted(len(dropped), 'dropped item')}, with the reason"
    yield plain_table(caption, ["kind", "name", "split", "reason", "dataset", "models"], dropped)
    # How models were loaded, each way of each model once.
    loaded = list(dict.fromkeys((material.names[cell.model], r.model) for cell, r in records if r.model is not None))
    columns = ["model", "file", "network", "architecture", "tensors loaded", "missing", "unused", "features"]
    complete = not any(model.missing or model.unused for _, model in loaded)
    rows = [(name, *_loaded(model)) for name, model in loaded]
    yield plain_table("How models were loaded", columns, rows, folded=complete or None)
    yield plain_table(
        "Tensors that do not match the architecture",
        ["model", "tensor", "state"],
        [
            (name, tensor, state)
            for name, model in loaded
            for state, tensors in (
                ("missing: the architecture has it, the file does not", model.missing),
                ("unused: the file has it, the architecture does not", model.unused),
            )
            for tensor in tensors
        ],
    )
    yield plain_table(
        "Hyper-parameter searches with failed candidates or a choice at the edge of the grid",
        ["benchmark", "model", "dataset", "candidates", "failed", "at the edge of the grid", "cells"],
        [(*row, cells) for row, cells in Counter(_searches(material)).items()],
        folded=True,
    )
    images = dict.fromkeys(
        (names[cell.dataset], split, counts.found, counts.used, counts.expected)
        for cell, record in records
        for split, counts in record.images.items()
    )
    columns = ["dataset", "split", "images found", "used", "expected by the protocol"]
    yield plain_table("Images by split", columns, images, folded=True)
    classes = dict.fromkeys(
        (names[cell.dataset], cell.benchmark, record.classes_given, record.classes_used)
        for cell, record in records
        if record.classes_given is not None or record.classes_used is not None
    )
    yield plain_table("Classes", ["dataset", "benchmark", "given", "used"], classes, folded=True)


def _dropped(material: Material) -> Sequence[Sequence[str]]:
    """Return everything that was dropped, an item that several models dropped once."""
    users: dict[tuple[str, Dropped], dict[str, None]] = {}
    models: dict[str, set[str]] = {}
    for result in material.results:
        dataset, model = result.cell.dataset, result.cell.model
        models.setdefault(dataset, set()).add(model)
        for item in result.record.dropped:
            users.setdefault((dataset, item), {})[material.names[model]] = None
    rows = []
    for (dataset, item), used in users.items():
        known = len(models[dataset])
        whose = f"all {known} models" if len(used) == known > 1 else listed(list(used), 3)
        rows.append((item.kind, item.name, item.split, item.reason, material.dataset_names[dataset], whose))
    return rows


def _loaded(model: LoadedModel) -> tuple[str | int | None, ...]:
    network = model.network + (f" (not {', '.join(model.alternatives)})" if model.alternatives else "")
    architecture = model.architecture + (" (inferred)" if model.inferred else "")
    counts = model.matched, len(model.missing), len(model.unused)
    return model.file, network, architecture, *counts, model.layer


def _searches(material: Material) -> Iterator[tuple[str | int | None, ...]]:
    """Yield the searches with a failed candidate or with a choice at the edge of the grid."""
    for result in material.results:
        cell, search, failed = result.cell, result.record.search, result.record.count("candidate")
        if search is not None and (search.edges or failed):
            edges = "; ".join(fact.text for fact in search_facts(search))
            names = material.names[cell.model], material.dataset_names[cell.dataset]
            yield cell.benchmark, *names, search.tried, failed, edges


# ---- provenance ------------------------------------------------------------------------------------------------------


def provenance_section(material: Material) -> Section:
    """Return the section with seeds, times, tried settings, citations and environments."""
    results = material.results
    seeds = _seeds(results)
    points = [("Seeds", f"{seeds}.")] if seeds else []
    time = f"{duration(sum(result.seconds for result in results))} for {counted(len(results), 'cell')}"
    points.append(("Time", f"{time}, as their benchmarks measured it; reading stored features is not included."))
    for benchmark in sorted({result.cell.benchmark for result in results}):
        tried = _sweep([result for result in results if result.cell.benchmark == benchmark])
        points += [(f"Tried in {benchmark}", tried)] if tried else []
    precision = "Tables and charts are rounded; the CSV and JSON of this page are not. JSON has sweeps and run records."
    points += [("Cite", _citations(material)), ("Precision", precision)]
    counts = Counter(canonical_json(dict(result.environment)) for result in results if result.environment)
    keys = sorted(counts, key=lambda key: (-counts[key], key))
    environments = [json.loads(key) for key in keys]
    rows = [
        [name, *(str(each.get(name, "–")) for each in environments)]
        for name in dict.fromkeys(name for each in environments for name in each)
    ]
    table = plain_table("Environment", ["", *(counted(counts[key], "cell") for key in keys)], rows, folded=True)
    return Section("Where the numbers come from", "provenance", points=points, tables=[table] if rows else [])


def _seeds(results: Sequence[Result]) -> str:
    """Return the seeds, benchmark by benchmark if they differ."""
    found: dict[str, Values] = {}
    for result in results:
        if SEED in result.cell.parameters:
            seed = result.cell.parameters[SEED]
            found.setdefault(result.cell.benchmark, {})[canonical_json(seed)] = seed
    texts = {
        name: listed([value_text(seed) for _, seed in sorted(seeds.items())], 24)
        for name, seeds in sorted(found.items())
    }
    if len(set(texts.values())) == 1:
        return next(iter(texts.values()))
    return "; ".join(f"{name} {seeds}" for name, seeds in texts.items())


#: What a trial of a sweep reports, beside names that begin with "val".
_OUTCOMES = {"accuracy", "log_loss", "loss", "seconds", "state", "index", "note", "error"}


def _sweep(results: Sequence[Result]) -> str:
    """Return the ranges of all hyper-parameters that were tried, without validation scores."""
    counts = [len(result.sweep) for result in results if result.sweep]
    if not counts:
        return ""
    tried: dict[str, Values] = {}
    for result in results:
        for trial in result.sweep:
            for name, value in trial.items():
                if not name.startswith("val") and name not in _OUTCOMES:
                    tried.setdefault(name, {})[repr(value)] = value
    ranges = "; ".join(f"{name} {_range(list(values.values()))}" for name, values in tried.items())
    number = " to ".join(dict.fromkeys(map(str, (min(counts), max(counts)))))
    return f"{number} settings per cell{': ' if ranges else ''}{ranges}."


def _range(values: Sequence[Any]) -> str:
    if len(values) > 1 and all(isinstance(v, int | float) and not isinstance(v, bool) for v in values):
        return f"{value_text(float(min(values)))} to {value_text(float(max(values)))} ({len(values)} values)"
    return listed(sorted(value_text(value) for value in values), 8)


def _citations(material: Material) -> str:
    """Return this package with its version, then the citations of protocols, models and datasets, one per line."""
    versions = sorted({result.environment["unseen"] for result in material.results if "unseen" in result.environment})
    own = f"unseen {' and '.join(versions)}".strip()
    users: dict[str, dict[str, None]] = {}
    methods = {
        (r.cell.benchmark, r.cell.parameters.get("method") or r.cell.parameters.get("score")): r.cell
        for r in material.results
    }
    for (benchmark, method), cell in sorted(methods.items(), key=str):
        for place, text in enumerate(material.papers(cell)):
            users.setdefault(text, {})[str(method) if place and method else benchmark] = None
    for names, cards in ((material.names, material.cards), (material.dataset_names, material.dataset_cards)):
        for identifier in sorted(names):
            if citation := getattr(cards.get(identifier), "citation", ""):
                users.setdefault(citation, {})[names[identifier]] = None
    lines = [f"{citation} ({listed(list(used), 6)})" for citation, used in users.items()]
    first = f"{own}, together with the models and datasets that you mention:" if lines else f"{own}."
    return "\n".join([first, *lines])


# ---- data that a page contains, and that the browser unpacks on demand -----------------------------------------------
# JSON, compressed by gzip and written in base64, inside a <script> that no browser runs. Of ten thousand results a few
# megabytes remain; the browser makes CSV and JSON files from them. Equal parts are stored once.

#: Characters of a detail's JSON; lists of every concept or image stay in the database.
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
    names: dict[str, set[str]] = {}
    for result in results:
        names.setdefault(result.cell.benchmark, set()).update(result.metrics)
    return {
        benchmark: [[style.name, style.title, style.percent] for style in styles]
        for benchmark, found in names.items()
        if (styles := [metric_style(name, benchmark) for name in headline_first(found, benchmark)])
    }


def _is_small(value: object) -> bool:
    if isinstance(value, str | list | tuple | Mapping) and len(value) > _LARGEST_DETAIL:
        return False  # without formatting a thousand concepts
    return len(to_json(value, indent=None)) <= _LARGEST_DETAIL
