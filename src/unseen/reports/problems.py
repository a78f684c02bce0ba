"""What went wrong, said plainly: cells that failed, and images that could not be read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from unseen.reports.blocks import Entry, Material, Section, Table
from unseen.reports.wording import counted, listed, setting_text, short_names


def problems_section(material: Material) -> Section:
    """Failed cells with their reasons and skipped images per dataset; that there are none is said as well."""
    failed = [result for result in material.results if not result.ok]
    skipped = _skipped(material)
    names = short_names(skipped, material.dataset_cards)
    prose = []
    if not failed:
        prose.append("Every cell that was asked for has a result.")
    if not skipped:
        prose.append("No image was reported as skipped.")
    tables = []
    if failed:
        rows = [
            [
                Entry(text, text.lower())
                for text in (
                    result.cell.model,
                    result.cell.dataset,
                    f"{result.cell.benchmark}: {setting_text(result.cell.parameters)}",
                    result.error,
                )
            ]
            for result in failed
        ]
        tables.append(Table(f"{counted(len(failed), 'failed cell')}", ["model", "dataset", "cell", "reason"], rows))
    points = [
        (
            names[dataset],
            f"{counted(count, 'image')} could not be read and took no part{': ' + listed(told, 6) if told else ''}.",
        )
        for dataset, (count, told) in sorted(skipped.items())
    ]
    title = "What went wrong" if failed or skipped else "Nothing went wrong"
    return Section(title, "problems", prose=prose, points=points, tables=tables, tone="warning" if failed else "")


def _skipped(material: Material) -> dict[str, tuple[int, list[str]]]:
    """Per dataset: how many, and which with their reasons. All models skip the same images, so none counts twice."""
    found: dict[str, tuple[int, list[str]]] = {}
    for result in material.results:
        told = sorted(set(_reasons(result.details.get("skipped"))))
        count = _count(result.details.get("skipped"))
        before = found.get(result.cell.dataset, (0, []))
        if count > before[0]:
            found[result.cell.dataset] = (count, told)
    return found


def _count(value: Any) -> int:
    """Images in whatever form they were noted: a number, a list, name to reason, or any of these per split."""
    if isinstance(value, bool) or value is None:
        return 0
    if isinstance(value, int):
        return value
    if isinstance(value, Mapping):
        return sum(1 if isinstance(inner, str) else _count(inner) for inner in value.values())
    return len(value) if isinstance(value, list | tuple) else 0


def _reasons(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        for name, inner in value.items():
            if isinstance(inner, str):
                yield f"{name} ({inner})"
            else:
                yield from _reasons(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield " (".join(map(str, inner)) + ")" if isinstance(inner, list | tuple) and inner else str(inner)
