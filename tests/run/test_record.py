"""Results on their way from workers to the one writer."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from unseen.core.records import Cell, Result
from unseen.core.run_record import Dropped, RunRecord, SplitCounts
from unseen.run.record import Inbox


def result(number: int) -> Result:
    return Result(
        Cell("probe", "m", "d", {"seed": number}, "w+d", "1"),
        {"top1": number / 7, "odd": float("nan")},
        sweep=({"c": np.float64(0.5)},),
        details={"list": [1, 2]},
        record=RunRecord({"test": SplitCounts(9, 8)}, dropped=(Dropped("image", "a.jpg", "truncated", "test"),)),
    )


def test_what_is_dropped_is_collected_once(tmp_path: Path) -> None:
    inbox, filed = Inbox(tmp_path), []
    for number in range(3):
        inbox.write(result(number), "mine")
    inbox.write(result(9), "other")
    inbox.collect("mine", filed.append)
    assert sorted(r.cell.parameters["seed"] for r in filed) == [0, 1, 2]
    assert {r.cell.id for r in filed} == {result(n).cell.id for n in range(3)}
    assert filed[0].details == {"list": [1, 2]}
    assert filed[0].record == result(0).record
    assert [t["c"] for t in filed[0].sweep] == [0.5]
    inbox.collect("mine", filed.append)
    assert len(filed) == 3
    inbox.collect("other", filed.append)
    assert filed[3].metrics["top1"] == 9 / 7


def test_a_failure_to_store_loses_nothing(tmp_path: Path) -> None:
    inbox = Inbox(tmp_path)

    def full(_result: Result) -> None:
        raise OSError("full")

    inbox.write(result(1), "mine")
    with pytest.raises(OSError, match="full"):
        inbox.collect("mine", full)
    inbox.close()
    stored: list[Result] = []
    inbox.collect("mine", stored.append)
    assert len(stored) == 1
    inbox.close()
    assert not (tmp_path / "inbox").exists()


def test_rubbish_is_left_alone(tmp_path: Path) -> None:
    inbox, filed = Inbox(tmp_path), []
    inbox.write(result(1), "mine")
    for name, content in (("a.json", "{"), ("b.json", "[]"), ("c.json", '{"study": "mine", "result": {"cell": 3}}')):
        (tmp_path / "inbox" / name).write_text(content)
    inbox.collect("mine", filed.append)
    assert len(filed) == 1


def test_results_are_collected_by_their_owner(tmp_path: Path) -> None:
    inbox, filed = Inbox(tmp_path), []
    inbox.collect("s", filed.append)  # no folder yet
    inbox.write(result(1), "s", "one")
    inbox.write(result(2), "s", "two")
    inbox.write(result(3), "s")
    asked: list[str] = []
    inbox.collect("s", filed.append, lambda owner: asked.append(owner) or owner == "two")
    assert [r.cell.parameters["seed"] for r in filed] == [2]
    assert sorted(asked) == ["", "one", "two"]
    assert len(list((tmp_path / "inbox").iterdir())) == 2
    inbox.close()
    assert (tmp_path / "inbox").exists(), "the results of other runs stay"
