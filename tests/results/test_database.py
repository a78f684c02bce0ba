"""The results database: round trip, append-only, several processes, kills, and everything that can go wrong."""

from __future__ import annotations

import json
import math
import multiprocessing
import os
import signal
import sqlite3
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from unseen.core.errors import DiskFullError, StoreError, StoreWarning
from unseen.core.records import Cell, Result
from unseen.results import ResultsDatabase
from unseen.results.rows import COLUMNS

Maker = Callable[..., Result]


def bits(value: float) -> bytes:
    return struct.pack("<d", value)


def test_a_result_comes_back_whole(path: Path, make_result: Maker) -> None:
    result = make_result()
    with ResultsDatabase(path) as database:
        database.append("demo", result)
    with ResultsDatabase(path, read_only=True) as database:
        (found,) = database.latest()
    assert found == result
    assert list(found.metrics) == list(result.metrics), "metrics keep their order"
    assert found.cell.id == result.cell.id


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    metrics=st.dictionaries(st.text(st.characters(exclude_categories=["Cs"]), max_size=8), st.floats(width=64)),
    sweep=st.lists(st.dictionaries(st.text("abc", max_size=3), st.floats(allow_nan=False)), max_size=4),
    seconds=st.floats(0, 1e9),
)
def test_every_bit_of_a_float_survives(
    tmp_path_factory: pytest.TempPathFactory, metrics: dict[str, float], sweep: list[dict[str, float]], seconds: float
) -> None:
    path = tmp_path_factory.mktemp("bits") / "results.sqlite"
    result = Result(Cell("probe", "m", "d"), metrics, sweep=tuple(sweep), seconds=seconds)
    with ResultsDatabase(path) as database:
        database.append("s", result)
        (found,) = database.latest()
    assert set(found.metrics) == set(metrics)
    for name, value in metrics.items():
        if math.isnan(value):
            assert math.isnan(found.metrics[name])
        else:
            assert bits(found.metrics[name]) == bits(value)
    assert bits(found.seconds) == bits(seconds)
    assert [{k: bits(v) for k, v in trial.items()} for trial in found.sweep] == [
        {k: bits(v) for k, v in trial.items()} for trial in sweep
    ]


def test_values_that_are_not_finite_are_kept_apart(path: Path, make_result: Maker) -> None:
    odd = {"nan": math.nan, "up": math.inf, "down": -math.inf, "minus zero": -0.0, "tiny": 5e-324}
    with ResultsDatabase(path) as database:
        database.append("s", make_result(metrics=odd, details={"curve": [math.nan, math.inf]}))
        (found,) = database.latest()
    assert math.isnan(found.metrics["nan"])
    assert (found.metrics["up"], found.metrics["down"], found.metrics["tiny"]) == (math.inf, -math.inf, 5e-324)
    assert bits(found.metrics["minus zero"]) == bits(-0.0)
    assert math.isnan(found.details["curve"][0])
    assert found.details["curve"][1] == math.inf


def test_numpy_values_become_plain_ones(path: Path, make_result: Maker) -> None:
    details = {"classes": np.int64(14), "per_class": np.array([0.5, 0.25]), "ok": np.bool_(True)}
    with ResultsDatabase(path) as database:
        database.append("s", make_result(metrics={"top1": np.float32(0.1)}, details=details))
        (found,) = database.latest()
    assert found.details == {"classes": 14, "per_class": [0.5, 0.25], "ok": True}
    assert found.metrics["top1"] == float(np.float32(0.1))


def test_a_value_that_is_not_json_is_refused_and_nothing_is_written(path: Path, make_result: Maker) -> None:
    with ResultsDatabase(path) as database:
        with pytest.raises(StoreError, match=r"details of a result.*a set"):
            database.append("s", make_result(details={"names": {"a", "b"}}))
        assert database.latest() == []


def test_appending_a_cell_again_adds(path: Path, make_result: Maker) -> None:
    first, second = make_result(top1=0.5), make_result(top1=0.6)
    assert first.cell.id == second.cell.id
    with ResultsDatabase(path) as database:
        database.append("s", first)
        database.append("s", second)
        assert database.latest() == [second]
        assert database.history(first.cell.id) == [first, second]
        assert database.history("unknown") == []


@pytest.mark.parametrize(
    "change",
    [
        "DELETE FROM result",
        "DELETE FROM metric",
        "DELETE FROM shared",
        "UPDATE result SET id = id + 100",
        "UPDATE metric SET id = id + 100",
        "UPDATE shared SET value = ''",
    ],
)
def test_rows_cannot_be_changed_even_from_outside(path: Path, make_result: Maker, change: str) -> None:
    with ResultsDatabase(path) as database:
        database.append("s", make_result(details={"long": "x" * 1000}))
    with sqlite3.connect(path) as other, pytest.raises(sqlite3.IntegrityError, match="append-only"):
        other.execute(change)
    other.close()


def test_done_means_that_the_newest_result_is_a_success(path: Path, make_result: Maker) -> None:
    good, bad, mended, broken, never = (make_result(seed=seed) for seed in range(5))
    failures = {r.cell.id: Result(r.cell, error="out of memory") for r in (bad, mended, broken)}
    with ResultsDatabase(path) as database:
        for result in (good, failures[bad.cell.id], failures[mended.cell.id], mended, broken):
            database.append("a", result)
        database.append("b", failures[broken.cell.id])
        cells = [r.cell for r in (good, bad, mended, broken, never)]
        assert database.done(cells) == {good.cell.id, mended.cell.id}
        assert database.done([never.cell]) == set()
        assert database.done([]) == set()


def test_a_mended_failure_is_not_shown(path: Path, make_result: Maker) -> None:
    extraction = {"extraction": {"truncated": "refuse"}}
    image, weights, study, never = (make_result(seed=seed, parameters=dict(extraction)) for seed in range(4))
    accepted = make_result(seed=0, parameters={"extraction": {"truncated": "accept"}})
    with ResultsDatabase(path) as database:
        for result in (image, weights, study, never):
            database.append("a", Result(result.cell, error="no"))
        database.append("a", accepted)  # another extraction reads the image
        database.append("a", make_result(seed=1, parameters=dict(extraction), revision="r2"))  # other weights load
        database.append("b", study)  # another study has run the very cell
        assert [r.cell.parameters["seed"] for r in database.latest() if not r.ok] == [3]
        assert [r.cell.parameters["seed"] for r in database.latest(study="a") if not r.ok] == [3]
        assert [row["parameters"]["seed"] for row in database.rows(only_failed=True)] == [3]
        database.append("c", Result(study.cell, error="again"))
        assert [r.cell.parameters["seed"] for r in database.latest() if not r.ok] == [3, 2], "broken anew"


def test_what_is_not_asked_for_is_not_read(path: Path, make_result: Maker) -> None:
    with ResultsDatabase(path) as database:
        for seed in range(1200):
            database.append("s", make_result(seed=seed, details={"long": ["x" * 500], "own": seed}))
        asked: list[str] = []
        database._connection.set_trace_callback(asked.append)
        brief = database.latest(study="s", brief=True)
        assert [r.cell.parameters["seed"] for r in brief] == list(range(1200))
        assert {(r.sweep, tuple(r.details), tuple(r.environment)) for r in brief} == {((), (), ())}
        assert {r.record.count("image") for r in brief} == {1}, "the run record is read"
        assert not [query for query in asked if "FROM shared" in query]
        asked.clear()
        assert len(database.done([r.cell for r in brief[:700]])) == 700
        asked.clear()
        stream = database.rows(study="s")
        assert next(stream)["details"] == {"long": ["x" * 500], "own": 0}
        assert len([query for query in asked if "details" in query]) == 1, "a chunk, not all"
        asked.clear()
        whole = database.latest(study="s")
        assert len([query for query in asked if "FROM shared" in query]) == 1, "a shared value is loaded once"
        assert whole[0].details["long"] is whole[-1].details["long"]


@pytest.mark.parametrize(
    "choice",
    [
        {"study": "x"},
        {"model": "m3"},
        {"model": "m3", "dataset": "d"},
        {"dataset": "d"},
        {"benchmark": "probe"},
        {},
    ],
)
def test_selections_are_answered_by_an_index(path: Path, choice: dict[str, str]) -> None:
    with ResultsDatabase(path) as database:
        asked: list[str] = []
        database._connection.set_trace_callback(asked.append)
        database.latest(**choice)
        database._connection.set_trace_callback(None)
        plan = " ".join(row["detail"] for row in database._connection.execute(f"EXPLAIN QUERY PLAN {asked[0]}"))
    assert "COVERING INDEX" in plan


def test_forget(path: Path, make_result: Maker) -> None:
    concepts = ["x" * 1000]
    with ResultsDatabase(path) as database:
        for study, model in (("a", "m"), ("a", "n"), ("b", "m")):
            details = {"concepts": concepts, "own": f"{study}{model}" * 300}
            database.append(study, make_result(model, dataset=study, details=details))
        database.append("a", Result(make_result("m", dataset="a").cell, error="no"))
        database.append("a", Result(make_result("o", dataset="a").cell, error="no"))
        count = lambda table: database._connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0]  # noqa: E731
        assert count("shared") == 1 + 3
        assert database.count(study="a", failed=True) == 2
        assert database.forget(study="a", failed=True) == 2
        assert database.forget(study="a", failed=True) == 0
        assert database.forget(study="a", model="m") == 1
        assert count("shared") == 1 + 2, "what only the forgotten one used is gone"
        assert {(r.cell.model, r.cell.dataset) for r in database.latest()} == {("n", "a"), ("m", "b")}
        assert all(r.details["concepts"] == concepts for r in database.latest())
        assert database.forget() == 2
        assert [count(table) for table in ("result", "metric", "shared", "forgetting")] == [0, 0, 0, 0]


def test_forgetting_is_whole_or_not_at_all(path: Path, make_result: Maker, monkeypatch: pytest.MonkeyPatch) -> None:
    with ResultsDatabase(path) as database:
        database.append("s", make_result(details={"long": "x" * 1000}))
        before = database.latest()
        monkeypatch.setattr("unseen.results.rows.references", lambda rows: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            database.forget(study="s")
        monkeypatch.undo()
        assert database.latest() == before
        assert database.forget(study="s") == 1


@pytest.mark.parametrize(
    ("column", "text", "reason"),
    [
        ("parameters", "[1]", "its parameters are not a mapping"),
        ("parameters", "{", "Expecting property name"),
        ("parameters", "{}", "it has no parameter 'score', which rank requires"),
        ("details", "[]", "its texts hold no result"),
        ("details", '{"correct":"9:AA=="}', "its answers per test image are incomplete"),
        ("details", '{"a":{"$shared":"' + "0" * 32 + '"}}', "a value that it refers to is missing or damaged"),
        ("record", '{"images":3}', "its texts hold no result"),
        ("sweep", "[3]", "its texts hold no result"),
        ("seconds", "soon", "its time is not a number"),
        ("model", b"m", "a column that should be a text is not"),
    ],
)
@pytest.mark.parametrize("sealed", [False, True])
def test_one_invalid_row_is_reported_by_its_id_and_left_out(
    path: Path, make_result: Maker, column: str, text: Any, reason: str, sealed: bool
) -> None:
    results = [make_result(seed=n, benchmark="rank", parameters={"score": "logme"}) for n in range(3)]
    with ResultsDatabase(path) as database:
        for result in results:
            database.append("s", result)
    with _forged(path) as other:
        other.execute("PRAGMA foreign_keys = OFF")
        other.execute(f"UPDATE result SET {column} = ? WHERE id = 2", [text])
        if not sealed:
            other.execute("UPDATE result SET digest = '' WHERE id = 2")
    if sealed:
        reason = "a column is neither" if isinstance(text, bytes) else "its digest does not match what is stored"
    with ResultsDatabase(path, read_only=True) as database:
        with pytest.warns(StoreWarning, match=r"1 invalid result is left out .*result 2: ") as told:
            assert database.latest() == [results[0], results[2]]
        assert reason in str(told[0].message)
        assert database.latest() == [results[0], results[2]], "the warning is given once"
        assert list(database.verify().invalid) == [2]
        assert {row["parameters"]["seed"] for row in database.rows()} == {0, 2}
        if sealed:
            assert database.done([r.cell for r in results]) == {results[0].cell.id, results[2].cell.id}


@contextmanager
def _forged(path: Path) -> Iterator[sqlite3.Connection]:
    """Change rows as damage would, which the triggers refuse otherwise."""
    other = sqlite3.connect(path)
    for table in ("result", "metric", "shared"):
        other.execute(f"DROP TRIGGER {table}_is_append_only")
    yield other
    other.commit()
    other.close()


@pytest.mark.parametrize("value", ["0.9", b"0.9"])
def test_a_metric_that_is_no_number_is_reported(path: Path, make_result: Maker, value: Any) -> None:
    with ResultsDatabase(path) as database:
        database.append("s", make_result(seed=1))
        database.append("s", make_result(seed=2))
    with _forged(path) as other:
        other.execute("UPDATE metric SET value = ? WHERE result = 1 AND name = 'top5'", [value])
        other.execute("UPDATE result SET digest = '' WHERE id = 1")
    told = pytest.warns(StoreWarning, match="result 1: its metric 'top5' is not a number")
    with ResultsDatabase(path, read_only=True) as database, told:
        assert database.latest() == [make_result(seed=2)]


def test_every_byte_that_a_reader_shows_is_covered_by_the_digest(path: Path, make_result: Maker) -> None:
    result = make_result(details={"long": "x" * 300}, error="no", metrics={"a": 0.5, "b": math.nan})
    changes = [
        *((f"UPDATE result SET {name} = {name} || 'x'", ()) for name in COLUMNS if name not in ("id", "seconds")),
        ("UPDATE result SET seconds = seconds + 1e-9", ()),
        ("UPDATE metric SET value = ? WHERE name = 'a'", (math.nextafter(0.5, 1),)),
        ("UPDATE metric SET value = 0 WHERE name = 'b'", ()),
        ("UPDATE metric SET name = 'c' WHERE name = 'b'", ()),
        ("UPDATE shared SET value = replace(value, 'xxx', 'xyx')", ()),
    ]
    for change, values in changes:
        with ResultsDatabase(path) as database:
            database.append("s", result)
        with _forged(path) as other:
            other.execute(change, values)
        with ResultsDatabase(path, read_only=True) as database:
            assert list(database.verify().invalid) == [1], change
            assert database.verify().structure == []
        path.unlink()


def test_selection(path: Path, make_result: Maker) -> None:
    one = make_result(model="a", dataset="x")
    two = make_result(model="b", dataset="x", benchmark="clip")
    failed = Result(make_result(model="b", dataset="y").cell, error="no images")
    with ResultsDatabase(path) as database:
        database.append("first", one)
        database.append("first", failed)
        database.append("second", two)
        assert database.latest() == [one, failed, two]
        assert database.latest(study="second") == [two]
        assert database.latest(model="b") == [failed, two]
        assert database.latest(model=["a", "b"], dataset="x") == [one, two]
        assert database.latest(benchmark="clip") == [two]
        assert database.latest(model=[]) == []
        assert database.latest(include_failed=False) == [one, two]
        assert database.latest(study="'; DROP TABLE result; --") == []
        assert database.names("model") == ["a", "b"]
        assert database.names("study") == ["first", "second"]
        assert database.names("metric") == ["top1", "top1_high", "top1_low", "top5"]
        with pytest.raises(ValueError, match="study, benchmark, model, dataset and metric"):
            database.names("value")


def test_a_new_revision_is_a_new_cell(path: Path, make_result: Maker) -> None:
    old, new = make_result(revision="r1"), make_result(revision="r2")
    with ResultsDatabase(path) as database:
        database.append("s", old)
        assert database.done([old.cell, new.cell]) == {old.cell.id}
        database.append("s", new)
        assert database.latest() == [old, new]
        assert [row["revision"] for row in database.rows(metric="top1")] == ["r2"], "later weights overtake"
        assert database.overtaken() == 1


def test_rows_are_long(path: Path, make_result: Maker) -> None:
    result = make_result()
    failed = Result(make_result(seed=37).cell, error="boom", seconds=0.5)
    with ResultsDatabase(path) as database:
        database.append("s", result)
        database.append("s", failed)
        rows = list(database.rows())
        assert [row["metric"] for row in rows] == ["top1", "top5", "top1_low", "top1_high", None]
        assert rows[0]["value"] == 0.7125
        assert rows[0]["parameters"] == {"seed": 22, "shots": "all"}
        assert rows[0]["sweep"] == list(result.sweep)
        assert rows[0]["environment"] == result.environment
        assert (rows[-1]["value"], rows[-1]["error"], rows[-1]["seconds"]) == (None, "boom", 0.5)
        assert [row["metric"] for row in database.rows(metric="top5")] == ["top5", None]
        assert [row["metric"] for row in database.rows(metric=["top1"], include_failed=False)] == ["top1"]


def test_threads_may_share_a_database(path: Path, make_result: Maker) -> None:
    with ResultsDatabase(path) as database:
        threads = [
            threading.Thread(target=lambda seed=seed: database.append("s", make_result(seed=seed)))
            for seed in range(16)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(r.cell.parameters["seed"] for r in database.latest()) == list(range(16))


# Several processes ---------------------------------------------------------------------------------------------------


def _append_many(path: Path, worker: int, count: int, gate: Any) -> None:
    gate.wait()
    with ResultsDatabase(path) as database:
        for step in range(count):
            cell = Cell("probe", f"model-{worker}", "d", {"seed": step})
            database.append(f"study-{worker}", Result(cell, {"top1": worker + step / 1000, "top5": 1.0}))


def test_processes_append_at_once(path: Path) -> None:
    workers, count = 4, 25
    context = multiprocessing.get_context("spawn")
    gate = context.Barrier(workers)  # all of them make the file at the same moment
    processes = [context.Process(target=_append_many, args=(path, w, count, gate)) for w in range(workers)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
    assert [process.exitcode for process in processes] == [0] * workers
    with ResultsDatabase(path, read_only=True) as database:
        found = {(r.cell.model, r.cell.parameters["seed"]): r.metrics for r in database.latest()}
    assert found == {
        (f"model-{w}", s): {"top1": w + s / 1000, "top5": 1.0} for w in range(workers) for s in range(count)
    }


_ENDLESS = """
import sys
from unseen.core.records import Cell, Result
from unseen.results import ResultsDatabase
from unseen.results.rows import COLUMNS
with ResultsDatabase(sys.argv[1]) as database:
    step = 0
    while True:
        metrics = {f"metric-{k}": step + k / 64 for k in range(64)}
        database.append("s", Result(Cell("probe", "m", "d", {"seed": step}), metrics))
        print(step, flush=True)
        step += 1
"""


def test_a_kill_loses_at_most_the_running_transaction(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    for attempt in range(5):
        path = tmp_path / f"{attempt}.sqlite"
        process = subprocess.Popen([sys.executable, "-c", _ENDLESS, str(path)], stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(float(random.uniform(0, 0.1)))
        os.kill(process.pid, signal.SIGKILL)
        said = 1 + process.stdout.read().count("\n")  # every line that was printed is a return from append
        process.wait()
        process.stdout.close()
        with ResultsDatabase(path) as database:
            newest = database.latest()
            assert database._connection.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
        seeds = [r.cell.parameters["seed"] for r in newest]
        assert seeds == list(range(len(seeds)))
        assert said <= len(seeds) <= said + 1, "at most the commit that had not been said yet"
        for result in newest:
            seed = result.cell.parameters["seed"]
            assert result.metrics == {f"metric-{k}": seed + k / 64 for k in range(64)}, "a result is whole or absent"


# What can go wrong ---------------------------------------------------------------------------------------------------


def test_a_missing_database_is_not_made_by_reading(path: Path) -> None:
    with pytest.raises(StoreError, match="no results database at"):
        ResultsDatabase(path, read_only=True)
    assert not path.exists()


@pytest.mark.parametrize("read_only", [False, True])
def test_a_file_that_is_no_database(path: Path, read_only: bool) -> None:
    path.write_bytes(b"model,top1\nresnet,0.7\n" * 400)
    before = path.read_bytes()
    with pytest.raises(StoreError, match="not a results database") as caught:
        ResultsDatabase(path, read_only=read_only)
    assert "\n" not in str(caught.value)
    assert path.read_bytes() == before


def test_a_database_of_another_program(path: Path) -> None:
    other = sqlite3.connect(path)
    other.execute("CREATE TABLE bookmarks (url)")
    other.commit()
    other.close()
    with pytest.raises(StoreError, match="another program"):
        ResultsDatabase(path)


def test_a_damaged_database_is_said_to_be(path: Path, make_result: Maker) -> None:
    with ResultsDatabase(path) as database:
        for seed in range(30):
            database.append("s", make_result(seed=seed))
    content = bytearray(path.read_bytes())
    content[4096:] = b"\xff" * (len(content) - 4096)
    path.write_bytes(content)
    with pytest.raises(StoreError, match="damaged"), ResultsDatabase(path) as database:
        database.latest()


def test_a_full_database_is_a_full_disk(path: Path, make_result: Maker) -> None:
    """SQLite's own page limit gives the very error that a full disk gives, at a place of our choosing."""
    with ResultsDatabase(path) as database:
        database.append("s", make_result(seed=0))
        pages = database._connection.execute("PRAGMA page_count").fetchone()[0]
        database._connection.execute(f"PRAGMA max_page_count = {pages}")
        with pytest.raises(DiskFullError, match=r"the disk is full.*make room"):
            database.append("s", make_result(seed=1, details={"long": "x" * 100_000}))
        assert database.latest() == [make_result(seed=0)]
        database._connection.execute("PRAGMA max_page_count = 100000")
        database.append("s", make_result(seed=1))
        assert len(database.latest()) == 2


_FILL = """
import sys
from unseen.core.errors import DiskFullError
from unseen.core.records import Cell, Result
from unseen.results import ResultsDatabase
from unseen.results.rows import COLUMNS
kept = 0
try:
    with ResultsDatabase(sys.argv[1] + "/results.sqlite") as database:
        while True:
            database.append("s", Result(Cell("p", "m", "d", {"seed": kept}), {"top1": 1.0}, details={"x": "x" * 9999}))
            kept += 1
except DiskFullError as error:
    print(kept)
with ResultsDatabase(sys.argv[1] + "/results.sqlite", read_only=True) as database:
    print(len(database.latest()))
"""


def _on_small_disk(script: str, folder: Path, options: str) -> subprocess.CompletedProcess[str]:
    """Run a script with a tiny file system of its own at `folder`; the mount is gone when the process is."""
    mount = f'mount -t tmpfs -o {options} none "$1" && exec "$2" -c "$3" "$1"'
    command = ["unshare", "--mount", "sh", "-c", mount, "sh", str(folder), sys.executable, script]
    try:
        ran = subprocess.run(command, capture_output=True, text=True, timeout=60)
    except FileNotFoundError:
        pytest.skip("unshare is not installed, so no small disk can be made")
    if "permission denied" in ran.stderr.lower() or "not permitted" in ran.stderr.lower():
        pytest.skip("mounting a small disk is not permitted here")
    return ran


def test_a_really_full_disk(tmp_path: Path) -> None:
    ran = _on_small_disk(_FILL, tmp_path, "size=512k")
    assert ran.returncode == 0, ran.stderr
    kept, readable = map(int, ran.stdout.split())
    assert kept == readable > 0


_READ_ONLY = """
import subprocess, sys
from unseen.core.errors import StoreError
from unseen.core.records import Cell, Result
from unseen.results import ResultsDatabase
from unseen.results.rows import COLUMNS
path = sys.argv[1] + "/results.sqlite"
with ResultsDatabase(path) as database:
    database.append("s", Result(Cell("p", "m", "d"), {"top1": 1.0}))
subprocess.run(["mount", "-o", "remount,ro", sys.argv[1]], check=True)
try:
    with ResultsDatabase(path) as database:
        database.append("s", Result(Cell("p", "m", "d"), {"top1": 1.0}))
except StoreError as error:
    print(error)
with ResultsDatabase(path, read_only=True) as database:
    print(len(database.latest()))
"""


def test_a_read_only_disk_is_said_so_and_still_read(tmp_path: Path) -> None:
    ran = _on_small_disk(_READ_ONLY, tmp_path, "size=4m")
    assert ran.returncode == 0, ran.stderr
    message, count = ran.stdout.splitlines()
    assert "read-only" in message
    assert "UNSEEN_HOME" in message
    assert count == "1"


def test_a_home_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(StoreError, match="cannot open"):
        ResultsDatabase(tmp_path / "file" / "results.sqlite")


def test_appending_to_a_database_opened_for_reading(path: Path, make_result: Maker) -> None:
    ResultsDatabase(path).close()
    with ResultsDatabase(path, read_only=True) as database, pytest.raises(StoreError, match="read-only"):
        database.append("s", make_result())


def test_parameters_are_plain_json_for_other_programs(path: Path, make_result: Maker) -> None:
    with ResultsDatabase(path) as database:
        database.append("s", make_result())
    other = sqlite3.connect(path)
    (text,) = other.execute("SELECT parameters FROM result").fetchone()
    other.close()
    assert json.loads(text) == {"seed": 22, "shots": "all"}


def test_older_answers_are_counted(path: Path, make_result: Callable[..., Result]) -> None:
    with ResultsDatabase(path) as database:
        for revision in ("r1", "r2", "r3", "r4"):
            database.append("s", make_result(revision=revision))
        database.append("s", make_result(seed=1))
        assert (len(database.latest()), database.overtaken(), database.overtaken(model="none")) == (5, 3, 0)
        assert {row["revision"] for row in database.rows()} == {"r4", "r1"}


def test_parameters_are_gathered_from_all_that_is_there(
    path: Path, make_result: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("unseen.results.database._CHUNK", 2)
    with ResultsDatabase(path) as database:
        for seed, name in enumerate("abcde"):
            database.append("s", make_result(seed=seed, parameters={name: seed if seed % 2 else "x"}))
        names = database.parameter_names()
        assert len(database.latest()) == 5
    assert names == {"seed", "shots", *"abcde"}


def test_what_many_results_share_is_held_once(path: Path, make_result: Callable[..., Result]) -> None:
    with ResultsDatabase(path) as database:
        for model in ("m", "n"):
            database.append("s", make_result(model=model))
        first, second = database.latest(brief=True)
    assert first.cell.parameters is second.cell.parameters
    assert first.cell.dataset is second.cell.dataset
    assert [list(each.metrics) for each in (first, second)] == [["top1", "top5", "top1_low", "top1_high"]] * 2
