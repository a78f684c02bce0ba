"""Results on their way from workers to the one writer."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest

from unseen.core.records import Cell, Result
from unseen.core.run_record import Dropped, RunRecord, SplitCounts
from unseen.run.record import PAUSE, Inbox


def anyone(_owner: str) -> bool:
    return True


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


def test_results_are_filed_while_the_work_goes_on(tmp_path: Path) -> None:
    inbox, filed = Inbox(tmp_path), []
    with inbox.watched("mine", filed.append, anyone):
        inbox.write(result(1), "mine")
        deadline = time.monotonic() + 20 * PAUSE
        while not filed and time.monotonic() < deadline:
            time.sleep(0.05)
        assert len(filed) == 1
        inbox.write(result(2), "mine")
    assert len(filed) == 2, "what came last is there at the end"
    assert not (tmp_path / "inbox").exists()


def test_a_failure_to_file_is_told_and_nothing_is_lost(tmp_path: Path) -> None:
    inbox = Inbox(tmp_path)

    def full(_result: Result) -> None:
        raise OSError("full")

    with pytest.raises(OSError, match="full"), inbox.watched("mine", full, anyone):
        inbox.write(result(1), "mine")
        time.sleep(3 * PAUSE)
    filed: list[Result] = []
    inbox.collect("mine", filed.append)
    assert len(filed) == 1


def test_rubbish_is_left_alone(tmp_path: Path) -> None:
    inbox, filed = Inbox(tmp_path), []
    inbox.write(result(1), "mine")
    for name, content in (("a.json", "{"), ("b.json", "[]"), ("c.json", '{"study": "mine", "result": {"cell": 3}}')):
        (tmp_path / "inbox" / name).write_text(content)
    inbox.collect("mine", filed.append)
    assert len(filed) == 1
