"""Which results may be averaged, ranked or drawn together: the one place that decides it.

Results belong together if everything that can change a number is the same: benchmark, version of protocol and
methods, data, weights per model, and every parameter, those of the extraction among them, except

- `over`, what is averaged: the seed;
- `axes`, what the reader wants to see side by side: levels, shots, methods, tasks.

Models are always side by side. Of results that differ in the revision of weights or data alone the newest counts; the
group states how many older ones it leaves out. An older revision without a newer result is its own group.
Failures belong to no group.
"""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from unseen.core.errors import UsageError
from unseen.core.identity import canonical_json
from unseen.core.records import Cell, Result

SEED = "seed"

#: What a cell's dataset states about the setting, such as {"dataset": "vtab:pets", "size": "full"}.
Place = Callable[[Cell], Mapping[str, object]]
Setting = Mapping[str, Any]

_EXTRACTION = "extraction"
_NEWEST = "newest"


@dataclass(frozen=True)
class Group:
    """Results that belong together.

    Attributes:
        results: successes, in order of arrival.
        setting: what all of them share, by name; a parameter within a parameter is named "extraction truncated".
        differs: the part of the setting that is not the same in all groups.
        older: how many results of older weights or data are left out.
    """

    results: tuple[Result, ...]
    setting: Setting
    differs: Setting
    older: int = 0

    @property
    def words(self) -> str:
        """What distinguishes the group, such as "solver ncm, levels 3"; "" if there is no other group."""
        known = {name: value for name, value in self.differs.items() if value is not None} or dict.fromkeys(
            self.differs
        )
        return ", ".join(
            f"{name} {value_text(v)}" if v not in (None, "") else f"no {name}" for name, v in known.items()
        )

    def by_model(self) -> dict[str, list[Result]]:
        """Return the results per model."""
        found: dict[str, list[Result]] = {}
        for result in self.results:
            found.setdefault(result.cell.model, []).append(result)
        return found


def dataset_name(cell: Cell) -> Mapping[str, object]:
    """Return the usual place: the name of the dataset."""
    return {"dataset": cell.dataset}


def comparable(
    results: Iterable[Result],
    *,
    axes: Collection[str] = ("level", "shots"),
    over: Collection[str] = (SEED,),
    place: Place = dataset_name,
    datasets: Collection[str] = (),
) -> list[Group]:
    """Return groups of results to average over `over` and show side by side along `axes`, by first appearance.

    Args:
        place: what a cell's dataset states about the setting.
        datasets: parameters that name other datasets, which are part of the data then.
    """
    kept, overtaken = _newest(results)
    free = {*axes, *over}
    alike: dict[str, tuple[str, Setting]] = {}  # few settings, many results: each is held once
    settings: list[tuple[Result, str, dict[str, str | int]]] = []
    newest: dict[tuple[str, str], str | int] = {}
    for result in kept:
        if result.ok:
            setting, revisions = _setting(result.cell, free, axes, place, datasets)
            text = canonical_json(setting)
            settings.append((result, alike.setdefault(text, (text, setting))[0], revisions))
    for _, key, revisions in sorted(settings, key=lambda each: each[0].recorded):
        for name, value in revisions.items():
            before = newest.get((key, name))
            newest[key, name] = max(value, before) if isinstance(value, int) and isinstance(before, int) else value
    found: dict[str, tuple[Setting, list[Result]]] = {}
    for result, key, revisions in settings:
        older = {name: value for name, value in revisions.items() if value != newest[key, name]}
        setting = {**alike[key][1]}
        for name, value in older.items():
            if isinstance(value, int):
                setting[name] = value
            else:
                setting[name.partition(" ")[0]] = f"{value[:12]} (older)"
        found.setdefault(canonical_json(setting) if older else key, (setting, []))[1].append(result)
    every = [setting for setting, _ in found.values()]
    names = dict.fromkeys(name for setting in every for name in setting)
    differing = [n for n in names if len({canonical_json(setting.get(n, _absent(n))) for setting in every}) > 1]
    return [
        Group(
            results=tuple(members),
            setting=setting,
            differs={name: setting.get(name, _absent(name)) for name in differing},
            older=sum(overtaken[_question(result.cell)] for result in members),
        )
        for setting, members in found.values()
    ]


def only(groups: Sequence[Group], setting: Sequence[str] = ()) -> Group:
    """Return the only group, or the one that `setting` chooses.

    Args:
        setting: texts such as "solver=ncm" and "levels=3", from a command line.

    Raises:
        UsageError: there are several groups, or none; the message names them and how to choose.
    """
    left = list(groups)
    for choice in setting:
        name, mark, wanted = choice.partition("=")
        if not mark:
            raise UsageError(f"a setting is chosen by NAME=VALUE, such as solver=paper, not by {choice!r}.")
        left = [group for group in left if value_text(group.setting.get(name, "")) == wanted]
    if len(left) == 1:
        return left[0]
    listed = "; ".join(f"({number}) {group.words}" for number, group in enumerate(left or groups, 1))
    if not left:
        raise UsageError(f"no results of {' and '.join(setting)}. There are: {listed or 'none'}.")
    name, value = next(iter(left[-1].differs.items()))
    raise UsageError(
        f"these are results of {len(left)} settings, which do not compare: {listed}. Choose one, such as --setting "
        f"{shlex.quote(f'{name}={value_text(value)}')}, or store them under their own names with --study."
    )


def current(results: Iterable[Result]) -> list[Result]:
    """Return results without those of older weights or data, and without failures that a later run has fixed."""
    return _newest(results)[0]


def older_note(count: int) -> str:
    """Return the note that older results are left out; "" if none are."""
    return f"{count:,} older {'result' if count == 1 else 'results'} of other weights or data left out" if count else ""


def value_text(value: object) -> str:
    """Return a parameter as it was written in the study."""
    if isinstance(value, float):
        return f"{value:g}"
    return value if isinstance(value, str) else canonical_json(value)


def sort_key(value: object) -> tuple[bool, float, list[tuple[str, int]]]:
    """Return a key that sorts numbers by size and before words (1, 2, 16, all), also within words (R2 before R10)."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return False, float(value), []
    words = re.findall(r"(\D*)(\d{0,15})", str(value))
    return True, 0.0, [(text, int(digits or 0)) for text, digits in words]


def _newest(results: Iterable[Result]) -> tuple[list[Result], Counter[tuple[str, ...]]]:
    """Return the newest result for each question, and how many older results each has."""
    everything = list(results)
    by_time = sorted(range(len(everything)), key=lambda place: everything[place].recorded)
    questions = [_question(result.cell) for result in everything]
    last = {questions[place]: place for place in by_time}
    overtaken = Counter(questions)
    overtaken.subtract(last.keys())
    failed = [place for place in last.values() if not everything[place].ok]
    if failed:
        age = {place: age for age, place in enumerate(by_time)}
        answered = {purpose(everything[place].cell): age[place] for place in by_time if everything[place].ok}
        for place in failed:
            if answered.get(purpose(everything[place].cell), -1) > age[place]:
                del last[questions[place]]
    return [everything[place] for place in sorted(last.values())], overtaken


def _question(cell: Cell) -> tuple[str, ...]:
    """Return everything that identifies a cell except the revisions of its model and dataset."""
    return cell.benchmark, cell.version, cell.model, cell.dataset, canonical_json(dict(cell.parameters))


def purpose(cell: Cell) -> tuple[str, ...]:
    """Return a question in any version and with any extraction: what a failure and its fix have in common."""
    parameters = {name: value for name, value in cell.parameters.items() if name != _EXTRACTION}
    return cell.benchmark, cell.model, cell.dataset, canonical_json(parameters)


def _setting(
    cell: Cell, free: Collection[str], axes: Collection[str], place: Place, datasets: Collection[str]
) -> tuple[Setting, dict[str, str | int]]:
    """Return what must be the same, and the revisions of weights, data and methods on an axis."""
    along = {str(cell.parameters[name]) for name in axes if name in cell.parameters}
    weights, _, data = cell.revision.partition("+")
    source = canonical_json([cell.dataset, *(cell.parameters.get(name) for name in datasets)])
    version: list[str] = []
    revisions: dict[str, str | int] = {f"weights {cell.model}": weights, f"data {source}": data}
    for part in cell.version.split():
        method, mark, number = part.rpartition(".")
        if mark and method in along and number.isdecimal():
            revisions[f"version of {method}"] = int(number)
        else:
            version.append(part)
    setting = {"benchmark": cell.benchmark, **place(cell), **flat(cell.parameters)}
    setting |= {"version": " ".join(version)} if version else {}
    return {name: value for name, value in setting.items() if name not in free}, revisions


def flat(parameters: Mapping[str, object], above: str = "") -> dict[str, object]:
    """Return parameters in alphabetical order; one within another is named "extraction truncated"."""
    found: dict[str, object] = {}
    for name, value in sorted(parameters.items()):
        found |= flat(value, f"{above}{name} ") if isinstance(value, Mapping) else {f"{above}{name}": value}
    return found


def _absent(name: str) -> str | None:
    return _NEWEST if name in ("weights", "data") or name.startswith("version of ") else None
