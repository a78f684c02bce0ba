"""What may be averaged, ranked or drawn together: by contract, and for every way in which two results can differ."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unseen.core.errors import UsageError
from unseen.core.records import Cell, Result
from unseen.results import comparable, current, only
from unseen.results.comparability import Group, older_note

EXTRACTION = {"truncated": "refuse", "precision": "fp32"}
BASE = Cell(
    "cog",
    "m",
    "d",
    {"level": "L1", "shots": "all", "seed": 1, "solver": "fast", "levels": 5, "extraction": EXTRACTION},
    "w1+d1",
    "1 fast.1",
)


def result(top1: float = 0.5, cell: Cell = BASE, **parameters: Any) -> Result:
    return Result(replace(cell, parameters={**cell.parameters, **parameters}), {"top1": top1})


def test_seeds_axes_and_models_belong_together() -> None:
    results = [
        result(cell=replace(BASE, model=model), level=level, shots=shots, seed=seed)
        for model in "ab"
        for level in ("seen", "L1")
        for shots in (1, "all")
        for seed in (1, 2)
    ]
    (group,) = comparable(results)
    assert group.results == tuple(results)
    assert group.words == ""
    assert group.setting["extraction truncated"] == "refuse"
    assert {model: len(own) for model, own in group.by_model().items()} == {"a": 8, "b": 8}


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        (replace(BASE, benchmark="probe"), ("benchmark cog", "benchmark probe")),
        (replace(BASE, dataset="e"), ("dataset d", "dataset e")),
        (replace(BASE, version="1 fast.2"), ("version 1 fast.1", "version 1 fast.2")),
        (replace(BASE, version="2 fast.1"), ("version 1 fast.1", "version 2 fast.1")),
        (replace(BASE, parameters={**BASE.parameters, "solver": "ncm", "seed": 2}), ("solver fast", "solver ncm")),
        (
            replace(BASE, parameters={**BASE.parameters, "extraction": {**EXTRACTION, "truncated": "accept"}}),
            ("extraction truncated refuse", "extraction truncated accept"),
        ),
        (replace(BASE, parameters={**BASE.parameters, "balanced": 3}), ("no balanced", "balanced 3")),
        (
            replace(BASE, revision="w2+d1", parameters={**BASE.parameters, "seed": 2}),
            ("weights w1 (older)", "weights newest"),
        ),
        (replace(BASE, revision="w9+d2", model="n"), ("data d1 (older)", "data newest")),
    ],
    ids=lambda value: "" if isinstance(value, Cell) else value[1],
)
def test_whatever_else_differs_keeps_them_apart(changed: Cell, words: tuple[str, str]) -> None:
    groups = comparable([result(0.1), result(0.2, changed)])
    assert [group.words for group in groups] == list(words)
    assert [[r.metrics["top1"] for r in group.results] for group in groups] == [[0.1], [0.2]]


def test_of_two_revisions_the_newest_counts_and_the_older_is_counted() -> None:
    old, new = result(0.1), result(0.2, replace(BASE, revision="w2+d1"))
    (group,) = comparable([old, new])
    assert (group.results, group.older) == ((new,), 1)
    (group,) = comparable([new, old])
    assert group.results == (old,), "the newest is the last to arrive"
    assert older_note(group.older) == "1 older result of other weights or data left out"
    assert older_note(0) == ""


def test_failures_belong_to_no_group_and_mended_ones_are_gone() -> None:
    failed = Result(BASE, error="no")
    assert comparable([failed]) == []
    assert current([failed]) == [failed]
    mended = result(0.5, replace(BASE, version="2 fast.1"), extraction={"truncated": "accept"})
    assert current([failed, mended]) == [mended]
    assert current([mended, failed]) == [mended, failed], "a later failure is news"
    assert current([failed, result(seed=2)]) == [failed, result(seed=2)], "another seed mends nothing"


def test_the_version_of_a_method_on_an_axis_counts_for_that_method_only() -> None:
    def of(method: str, version: int, value: float) -> Result:
        return Result(Cell("zsl", "m", "d", {"method": method}, "w+d", f"3 {method}.{version}"), {"zsl": value})

    (group,) = comparable([of("ALE", 1, 0.1), of("SAE", 7, 0.2)], axes=("method",), over=())
    assert len(group.results) == 2
    newest, older = comparable([of("SAE", 7, 0.2), of("ALE", 1, 0.1), of("SAE", 6, 0.3)], axes=("method",), over=())
    assert [r.metrics["zsl"] for r in newest.results] == [0.2, 0.1]
    assert older.words == "version of SAE 6"


def test_one_setting_is_chosen_or_all_are_named() -> None:
    groups = comparable([result(), result(solver="ncm", levels=3), result(solver="ncm", levels=4)])
    assert [group.words for group in groups] == [
        "levels 5, solver fast",
        "levels 3, solver ncm",
        "levels 4, solver ncm",
    ]
    assert only(groups, ["solver=fast"]) is groups[0]
    assert only(groups, ["solver=ncm", "levels=4"]) is groups[2]
    with pytest.raises(UsageError) as caught:
        only(groups)
    assert "\n" not in str(caught.value)
    assert "3 settings, which do not compare: (1) levels 5, solver fast; (2)" in str(caught.value)
    assert "--setting levels=4" in str(caught.value)
    with pytest.raises(UsageError, match=r"no results of solver=ridge. There are: \(1\)"):
        only(groups, ["solver=ridge"])
    with pytest.raises(UsageError, match="NAME=VALUE"):
        only(groups, ["ncm"])
    odd = comparable([result(), result(extraction={"truncated": "accept", "precision": "fp32"})])
    with pytest.raises(UsageError, match="--setting 'extraction truncated=accept'"):
        only(odd)


_cells = st.builds(
    lambda model, dataset, seed, shots, solver, weights, data: Cell(
        "probe", model, dataset, {"seed": seed, "shots": shots, "solver": solver}, f"{weights}+{data}", f"1 {solver}.1"
    ),
    *(st.sampled_from("ab") for _ in range(2)),
    *(st.integers(0, 1) for _ in range(2)),
    *(st.sampled_from("xy") for _ in range(3)),
)


@given(st.lists(_cells, max_size=24))
def test_nothing_is_lost_and_nothing_is_mixed(cells: list[Cell]) -> None:
    results = [Result(cell, {"top1": float(i)}) for i, cell in enumerate(cells)]
    groups = comparable(results, axes=("shots",))
    assert sum(len(group.results) + group.older for group in groups) == len(results)
    for group in groups:
        kinds = [{r.cell.dataset, r.cell.data, r.cell.parameters["solver"]} for r in group.results]
        assert all(kind == kinds[0] for kind in kinds)
        for own in group.by_model().values():
            assert len({r.cell.revision for r in own}) == 1, "one model, one set of weights, one state of the data"
        points = [(r.cell.model, r.cell.parameters["shots"], r.cell.parameters["seed"]) for r in group.results]
        assert len(points) == len(set(points)), "nothing counts twice"
    assert len({group.words for group in groups}) == len(groups), "words tell groups apart"


def test_older_revisions_are_named_by_twelve_characters() -> None:
    old = replace(BASE, revision=f"{'w' * 20}+{'d' * 20}", parameters={**BASE.parameters, "seed": 2})
    newer = replace(BASE, revision=f"v+{'d' * 20}", parameters={**BASE.parameters, "seed": 3})
    groups = comparable([result(0.1, old), result(0.2, newer), result(0.3, replace(newer, revision="v+e", model="n"))])
    assert [group.setting.get("weights") for group in groups] == [f"{'w' * 12} (older)", None, None]
    assert [group.setting.get("data") for group in groups] == [f"{'d' * 12} (older)"] * 2 + [None]
    assert [len(group.results) for group in groups] == [1, 1, 1]


def test_groups_that_nothing_tells_apart_but_the_data_of_another_dataset() -> None:
    """Where a parameter names another dataset, the digest of the data is of both."""
    cells = [replace(BASE, revision=f"w1+{n}", parameters={"labels": n, "seed": 1}) for n in ("a", "b")]
    (group,) = comparable([result(cell=cell) for cell in cells], axes=("labels",), datasets=("labels",))
    assert len(group.results) == 2
    assert len(comparable([result(cell=cell) for cell in cells], axes=("labels",))) == 2


def test_parts_of_a_version_that_are_no_methods_on_an_axis_stay_in_the_setting() -> None:
    def of(method: str, version: str) -> Result:
        return Result(Cell("zsl", "m", "d", {"method": method}, "w+d", version), {"zsl": 0.5})

    for first, second in (("3 grid.1 ALE.1", "3 grid.2 SAE.1"), ("3.1 ALE.1", "3.2 SAE.1"), ("3 ALE.x", "3 SAE.y")):
        groups = comparable([of("ALE", first), of("SAE", second)], axes=("method",), over=())
        assert len(groups) == 2, (first, second)
    (group,) = comparable([of("ALE", "3 grid.1 ALE.1"), of("SAE", "3 grid.1 SAE.4")], axes=("method",), over=())
    assert group.setting["version"] == "3 grid.1"
    assert group.older == 0


def test_a_failure_is_mended_by_what_came_later_only() -> None:
    failed = Result(BASE, error="no")
    again = Result(replace(BASE, version="2 fast.1"), {"top1": 0.5})
    first = result(seed=7)
    assert current([first, failed]) == [first, failed], "what another cell has said before mends nothing"
    assert current([first, failed, again]) == [first, again]
    assert current([failed, failed]) == [failed]


def test_how_many_are_left_out_is_said() -> None:
    assert older_note(2) == "2 older results of other weights or data left out"
    assert older_note(1234).startswith("1,234 older results")
    assert Group((), {}, {}).older == 0


@pytest.mark.parametrize("name", ["balanced", "zoom"])
def test_a_failure_is_mended_by_the_same_question_only(name: str) -> None:
    failed = Result(replace(BASE, parameters={**BASE.parameters, name: 1}), error="no")
    other, same = (result(cell=replace(BASE, version="2 fast.1"), **{name: value}) for value in (2, 1))
    assert current([failed, other]) == [failed, other]
    assert current([failed, same]) == [same]
