"""What went wrong, said plainly: cells that failed, and images that could not be read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from unseen.reports.blocks import Material, Section, Table, TableCell
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
                TableCell(text, text.lower())
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
    """Per dataset: how many, and which with their reasons. Models skip the same images, so that none counts twice."""
    named: dict[str, dict[str, str]] = {}
    counts: dict[str, int] = {}
    for result in material.results:
        noted, dataset = result.details.get("skipped"), result.cell.dataset
        if noted:
            named.setdefault(dataset, {}).update(_named(noted))
            counts[dataset] = max(counts.get(dataset, 0), _count(noted))
    told = {
        d: [f"{image} ({reason})" if reason else image for image, reason in sorted(named[d].items())] for d in named
    }
    return {dataset: (max(count, len(told[dataset])), told[dataset]) for dataset, count in counts.items() if count}


def _named(noted: Any, split: str = "") -> Iterator[tuple[str, str]]:
    """Images and reasons in {split: {image: reason}}, and in what older results have: one mapping, or a list."""
    if isinstance(noted, Mapping):
        for name, inner in noted.items():
            if isinstance(inner, str):
                yield f"{split}{name}", inner
            else:
                yield from _named(inner, f"{name}: ")
    elif isinstance(noted, list | tuple):
        for inner in noted:
            image, *reason = inner if isinstance(inner, list | tuple) and inner else [inner]
            yield f"{split}{image}", " ".join(map(str, reason))


def _count(noted: Any) -> int:
    """How many images, in any form: a number, a list, image to reason, or one of these by split."""
    if isinstance(noted, Mapping):
        return sum(1 if isinstance(inner, str) else _count(inner) for inner in noted.values())
    if isinstance(noted, list | tuple):
        return len(noted)
    return int(noted) if isinstance(noted, int) and not isinstance(noted, bool) else 0
