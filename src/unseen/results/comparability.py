"""Which results may be averaged, ranked or drawn together: the one place that decides it.

Results belong together where everything that can move a number is the same: benchmark, version of protocol and
methods, data, weights per model, and every parameter, those of the extraction among them, but for

- `over`, what is averaged: the seed;
- `axes`, what the reader asked to see side by side: levels, shots, methods, tasks.

Models are always side by side. Of results that differ in the revision of weights or data alone the newest counts; the
group says how many older ones it leaves out. An older revision without a newer result is a group of its own.
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

#: What a cell's dataset says of the setting, such as {"dataset": "vtab:pets", "size": "full"}.
Place = Callable[[Cell], Mapping[str, Any]]

_EXTRACTION = "extraction"
_NEWEST = "newest"


@dataclass(frozen=True, slots=True)
class Group:
    """Results that belong together.

    Attributes:
        results: successes, in order of arrival.
        setting: what all of them share, by name; a parameter within a parameter is named "extraction truncated".
        differs: the part of the setting that is not the same in all groups.
        older: how many results of older weights or data are left out for these.
    """

    results: tuple[Result, ...]
    setting: Mapping[str, Any]
    differs: Mapping[str, Any]
    older: int = 0

    @property
    def words(self) -> str:
        """What tells the group apart, such as "solver ncm, levels 3"; nothing where there is no other group."""
        said = [f"{name} {value_text(value)}" for name, value in self.differs.items() if value is not None]
        return ", ".join(said or [f"no {name}" for name in self.differs])

    def by_model(self) -> dict[str, list[Result]]:
        """The results per model."""
        found: dict[str, list[Result]] = {}
        for result in self.results:
            found.setdefault(result.cell.model, []).append(result)
        return found


def dataset_name(cell: Cell) -> Mapping[str, Any]:
    """The usual place: the dataset is what its name says."""
    return {"dataset": cell.dataset}


def comparable(
    results: Iterable[Result],
    *,
    axes: Collection[str] = ("level", "shots"),
    over: Collection[str] = (SEED,),
    place: Place = dataset_name,
    datasets: Collection[str] = (),
) -> list[Group]:
    """Groups of results that may be averaged over `over` and shown side by side along `axes`, by first appearance.

    Args:
        place: what a cell's dataset says of the setting.
        datasets: parameters that name other datasets, which are part of the data then.
    """
    kept, overtaken = _newest(results)
    free = {*axes, *over}
    alike: dict[str, tuple[str, dict[str, Any]]] = {}  # few settings, many results: each is held once
    settings: list[tuple[Result, str, dict[str, int]]] = []
    for result in kept:
        if result.ok:
            setting, methods = _setting(result.cell, free, axes, place)
            text = canonical_json(setting)
            settings.append((result, alike.setdefault(text, (text, setting))[0], methods))

    def source(cell: Cell) -> str:
        return canonical_json([cell.dataset, *(cell.parameters.get(name) for name in datasets)])

    newest: dict[tuple[str, ...], Any] = {}
    for result, key, methods in settings:
        weights, _, data = result.cell.revision.partition("+")
        newest[key, "weights", result.cell.model] = weights
        newest[key, "data", source(result.cell)] = data
        for method, number in methods.items():
            place_of = (key, "version", method)
            newest[place_of] = max(number, newest.get(place_of, number))
    found: dict[str, tuple[dict[str, Any], list[Result]]] = {}
    for result, key, methods in settings:
        setting = dict(alike[key][1])
        weights, _, data = result.cell.revision.partition("+")
        if weights != newest[key, "weights", result.cell.model]:
            setting["weights"] = f"{weights[:12]} (older)"
        if data != newest[key, "data", source(result.cell)]:
            setting["data"] = f"{data[:12]} (older)"
        for method, number in methods.items():
            if number != newest[key, "version", method]:
                setting[f"version of {method}"] = number
        text = key if setting == alike[key][1] else canonical_json(setting)
        found.setdefault(text, (setting, []))[1].append(result)
    differing = _differing([setting for setting, _ in found.values()])
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
    """The one group there is, or the one that `setting` chooses.

    Args:
        setting: "solver=ncm", "levels=3", as a command line gives them.

    Raises:
        UsageError: there are several, or none; one line that names them and says how to choose.
    """
    left = list(groups)
    for choice in setting:
        name, mark, wanted = choice.partition("=")
        if not mark:
            raise UsageError(f"a setting is chosen by NAME=VALUE, such as solver=paper, not by {choice!r}.")
        left = [group for group in left if value_text(group.setting.get(name, "")) == wanted]
    if len(left) == 1:
        return left[0]
    told = "; ".join(f"({number}) {group.words}" for number, group in enumerate(left or groups, 1))
    if not left:
        raise UsageError(f"no results of {' and '.join(setting)}. There are: {told or 'none'}.")
    name, value = next(iter(left[-1].differs.items()))
    raise UsageError(
        f"these are results of {len(left)} settings, which do not compare: {told}. Choose one, such as --setting "
        f"{shlex.quote(f'{name}={value_text(value)}')}, or file them under names of their own with --study."
    )


def current(results: Iterable[Result]) -> list[Result]:
    """Results without what later weights or data have overtaken, and without failures that a later run has mended."""
    return _newest(results)[0]


def older_said(count: int) -> str:
    """The line that says that older results are left out; nothing where none are."""
    return f"{count:,} older {'result' if count == 1 else 'results'} of other weights or data left out" if count else ""


def value_text(value: Any) -> str:
    """A parameter as it was written in the study."""
    if isinstance(value, float):
        return f"{value:g}"
    return value if isinstance(value, str) else canonical_json(value)


def sort_key(value: Any) -> tuple[bool, float, list[tuple[str, int]]]:
    """Return a key that sorts numbers by size and before words (1, 2, 16, all), also within words (R2 before R10)."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    words = [] if number else re.findall(r"(\D*)(\d{0,15})", str(value))
    return not number, float(value) if number else 0.0, [(text, int(digits or 0)) for text, digits in words]


def _newest(results: Iterable[Result]) -> tuple[list[Result], Counter[tuple[str, ...]]]:
    """The newest answer to each question, and how many older answers each has."""
    kept: dict[tuple[str, ...], tuple[int, Result]] = {}
    overtaken: Counter[tuple[str, ...]] = Counter()
    everything = list(results)
    for position, result in enumerate(everything):
        question = _question(result.cell)
        if kept.pop(question, None) is not None:  # so that the order is that of the results that are kept
            overtaken[question] += 1
        kept[question] = position, result
    failed = {question: position for question, (position, result) in kept.items() if not result.ok}
    if failed:
        answered = {purpose(result.cell): position for position, result in enumerate(everything) if result.ok}
        for question, position in failed.items():
            if answered.get(purpose(kept[question][1].cell), -1) > position:
                del kept[question]
    return [result for _, result in kept.values()], overtaken


def _question(cell: Cell) -> tuple[str, ...]:
    """All that a cell asks, but for what is behind the names of its model and dataset."""
    return cell.benchmark, cell.version, cell.model, cell.dataset, canonical_json(dict(cell.parameters))


def purpose(cell: Cell) -> tuple[str, ...]:
    """A question, in whatever version and however features were extracted: what a mended failure has in common."""
    parameters = {name: value for name, value in cell.parameters.items() if name != _EXTRACTION}
    return cell.benchmark, cell.model, cell.dataset, canonical_json(parameters)


def _setting(
    cell: Cell, free: Collection[str], axes: Collection[str], place: Place
) -> tuple[dict[str, Any], dict[str, int]]:
    """What must be the same, and the versions of the methods that are on an axis: those need not be."""
    along = {str(cell.parameters[name]) for name in axes if name in cell.parameters}
    version, methods = [], {}
    for part in cell.version.split():
        method, mark, number = part.rpartition(".")
        if mark and method in along and number.isdecimal():
            methods[method] = int(number)
        else:
            version.append(part)
    setting = {"benchmark": cell.benchmark, **place(cell), **_flat(cell.parameters)}
    setting |= {"version": " ".join(version)} if version else {}
    return {name: value for name, value in setting.items() if name not in free}, methods


def _flat(parameters: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in sorted(parameters.items()):
        found |= _flat(value, f"{above}{name} ") if isinstance(value, Mapping) else {f"{above}{name}": value}
    return found


def _differing(settings: Sequence[Mapping[str, Any]]) -> list[str]:
    """Names of what is not the same in all settings, in the order of the settings."""
    names = dict.fromkeys(name for setting in settings for name in setting)
    return [name for name in names if len({canonical_json(s.get(name, _absent(name))) for s in settings}) > 1]


def _absent(name: str) -> Any:
    return _NEWEST if name in ("weights", "data") or name.startswith("version of ") else None
