"""The section of a page on failures and run records: what the evaluations received, used and dropped.

Models that are evaluated on the same data drop the same images, so that a dropped item is one row with its models.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from unseen.core.findings import search_facts
from unseen.core.records import Result
from unseen.core.run_record import Dropped, LoadedModel
from unseen.reports.blocks import Material, Section, Table, TableCell
from unseen.reports.wording import counted, listed, setting_text, short_names
from unseen.results.table import records_by_dataset, run_findings

#: Rows from which on a table is folded.
_LONG = 12


def problems_section(material: Material) -> Section:
    """Return the section; its title is "Nothing went wrong" only if no cell failed and every record is clean."""
    failed = [result for result in material.results if not result.ok]
    without = sum(result.ok and not result.record for result in material.results)
    findings = run_findings(material.results)
    tables = [_failures(failed), _dropped(material), _models(material), _tensors(material), _searches(material)]
    tables += [_images(material), _classes(material)]
    prose = [] if failed else ["Every planned cell has a result."]
    if without:
        prose.append(f"{counted(without, 'result')} of an older version of unseen, without a run record.")
    elif not findings:
        prose.append("The evaluations used everything that they received.")
    title = "Nothing went wrong"
    if failed or findings or without:
        title = (
            "What went wrong" if failed else "What was dropped, and other findings" if findings else "No cell failed"
        )
    return Section(
        title,
        "problems",
        prose=prose,
        points=[*([("Findings", f"{'; '.join(findings)}.")] if findings else []), *_provenance(material)],
        tables=[table for table in tables if table.rows],
        tone="warning" if failed else "",
    )


def _rows(rows: Iterable[Sequence[str | int | None]]) -> list[list[TableCell]]:
    """Return table cells that sort as the values do; None is shown as a dash."""
    return [
        [
            TableCell("–" if value is None else f"{value:,}", value)
            if not isinstance(value, str)
            else TableCell(value, value.lower())
            for value in row
        ]
        for row in rows
    ]


def _table(
    caption: str, columns: Sequence[str], rows: Sequence[Sequence[str | int | None]], *, folded: bool = False
) -> Table:
    numeric = [n for n in range(len(columns)) if rows and not any(isinstance(row[n], str) for row in rows)]
    return Table(caption, columns, _rows(rows), numeric=numeric, folded=folded or len(rows) > _LONG)


def _failures(failed: Sequence[Result]) -> Table:
    rows = [
        (cell.model, cell.dataset, f"{cell.benchmark}: {setting_text(cell.parameters)}", result.error)
        for result in failed
        for cell in [result.cell]
    ]
    columns = ["model", "dataset", "cell", "reason"]
    return Table(counted(len(failed), "failed cell"), columns, _rows(rows))


def _dropped(material: Material) -> Table:
    """Return everything that was dropped, an item that several models dropped once."""
    users: dict[tuple[str, Dropped], dict[str, None]] = {}
    for result in material.results:
        for item in result.record.dropped:
            users.setdefault((result.cell.dataset, item), {})[result.cell.model] = None
    models, datasets, called = _models_of(material), _names(material), material.names
    rows = [
        (
            item.kind,
            item.name,
            item.split,
            item.reason,
            datasets[dataset],
            _whose([called[model] for model in used], len(models[dataset])),
        )
        for (dataset, item), used in users.items()
    ]
    columns = ["kind", "name", "split", "reason", "dataset", "models"]
    return _table(f"{counted(len(rows), 'dropped item')}, with the reason", columns, rows)


def _models_of(material: Material) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for result in material.results:
        found.setdefault(result.cell.dataset, set()).add(result.cell.model)
    return found


def _whose(names: Sequence[str], known: int) -> str:
    return f"all {known} models" if len(names) == known > 1 else listed(names, 3)


def _loaded(material: Material) -> list[tuple[str, LoadedModel]]:
    """Return how models were loaded, each way of each model once."""
    names = material.names
    found = ((names[r.cell.model], r.record.model) for r in material.results if r.record.model is not None)
    return list(dict.fromkeys(found))


def _models(material: Material) -> Table:
    rows = [
        (
            name,
            loaded.file,
            loaded.network + (f" (not {', '.join(loaded.alternatives)})" if loaded.alternatives else ""),
            loaded.architecture + (" (inferred)" if loaded.inferred else ""),
            loaded.matched,
            len(loaded.missing),
            len(loaded.unused),
            loaded.layer,
        )
        for name, loaded in _loaded(material)
    ]
    columns = ["model", "file", "network", "architecture", "tensors loaded", "missing", "unused", "features"]
    return _table("How models were loaded", columns, rows)


def _tensors(material: Material) -> Table:
    rows = [
        (name, tensor, state)
        for name, loaded in _loaded(material)
        for state, tensors in (
            ("missing: the architecture has it, the file does not", loaded.missing),
            ("unused: the file has it, the architecture does not", loaded.unused),
        )
        for tensor in tensors
    ]
    return _table("Tensors that do not match the architecture", ["model", "tensor", "state"], rows)


def _searches(material: Material) -> Table:
    """Return the searches with a failed candidate or with a choice at the edge of the grid, equal ones together."""
    alike: dict[tuple[str, str, str, int, int, str], int] = {}
    names, called = _names(material), material.names
    for result in material.results:
        search, failed = result.record.search, result.record.count("candidate")
        if search is not None and (search.edges or failed):
            cell, edges = result.cell, "; ".join(fact.text for fact in search_facts(search))
            key = (cell.benchmark, called[cell.model], names[cell.dataset], search.tried, failed, edges)
            alike[key] = alike.get(key, 0) + 1
    columns = ["benchmark", "model", "dataset", "candidates", "failed", "at the edge of the grid", "cells"]
    caption = "Hyper-parameter searches with failed candidates or a choice at the edge of the grid"
    return _table(caption, columns, [(*key, cells) for key, cells in alike.items()])


def _images(material: Material) -> Table:
    names = _names(material)
    rows = dict.fromkeys(
        (names[result.cell.dataset], split, counts.found, counts.used, counts.expected)
        for result in material.results
        for split, counts in result.record.images.items()
    )
    columns = ["dataset", "split", "images found", "used", "expected by the protocol"]
    return _table("Images by split", columns, list(rows), folded=True)


def _classes(material: Material) -> Table:
    names = _names(material)
    rows = dict.fromkeys(
        (names[result.cell.dataset], result.cell.benchmark, record.classes_given, record.classes_used)
        for result in material.results
        for record in [result.record]
        if record.classes_given is not None or record.classes_used is not None
    )
    return _table("Classes", ["dataset", "benchmark", "given", "used"], list(rows), folded=True)


def _provenance(material: Material) -> list[tuple[str, str]]:
    names = _names(material)
    return [
        (names[dataset], f"Source of the examples: {record.provenance}.")
        for dataset, record in sorted(records_by_dataset(material.results).items())
        if record.provenance
    ]


def _names(material: Material) -> dict[str, str]:
    return short_names({result.cell.dataset for result in material.results}, material.dataset_cards)
