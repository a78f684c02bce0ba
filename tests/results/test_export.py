"""The ways out of the database, by hand: which columns there are, in which order, and what stands in them."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from unseen.core.records import Cell, Result
from unseen.results.export import csv_lines, harmless, json_lines, to_json, write_lines
from unseen.results.rows import long_rows

Make = Callable[..., Result]
THIRD = 1 / 3


def row(value: float = THIRD, study: str = "s", **parameters: Any) -> dict[str, Any]:
    result = Result(Cell("probe", "m", "d", parameters), {"top1": value}, seconds=2.5, details={"n": 3})
    return {"study": study, **long_rows(result)[0], "recorded": "2026-01-01"}


def test_a_result_is_a_row_per_metric_and_a_failure_is_one(make_result: Make) -> None:
    result = make_result()
    rows = long_rows(result)
    assert [(r["metric"], r["value"]) for r in rows] == list(result.metrics.items())
    assert {r["cell"] for r in rows} == {result.cell.id}
    assert (rows[0]["error"], rows[0]["seconds"], rows[0]["benchmark"]) == ("", 1.25, "probe")
    assert rows[1]["sweep"] == [{"c": 0.1, "value": 0.69}, {"c": 1.0, "value": 0.72}]
    assert (rows[1]["details"], rows[1]["environment"]) == (result.details, result.environment)
    assert [r["metric"] for r in long_rows(result, ["top5", "other"])] == ["top5"]
    assert long_rows(result, []) == []
    (failed,) = long_rows(Result(result.cell, error="no"), ["top5"])
    assert (failed["metric"], failed["value"], failed["error"]) == (None, None, "no")
    assert rows[1]["record"]["dropped"][0]["name"] == "a.jpg"
    assert rows[1]["record"]["findings"] == ["1 unreadable image"]
    assert not {"sweep", "details", "environment", "record"} & set(long_rows(result, brief=True)[0])


def test_csv_has_a_header_and_a_column_per_parameter() -> None:
    rows = [row(shots=5, b=None), row(math.nan, "t", a=0.1)]
    lines = list(csv_lines(iter(rows), ["shots", "b", "a"]))
    assert [line.count("\n") for line in lines] == [1, 1, 1]
    table = list(csv.reader(io.StringIO("".join(lines))))
    head = "study cell benchmark version model dataset revision parameters.a parameters.b parameters.shots"
    assert table[0] == [*head.split(), "metric", "value", "error", "findings", "seconds", "recorded"]
    cells = [r["cell"] for r in rows]
    assert table[1] == [
        "s",
        cells[0],
        "probe",
        "",
        "m",
        "d",
        "",
        "",
        "",
        "5",
        "top1",
        repr(THIRD),
        "",
        "",
        "2.5",
        "2026-01-01",
    ]
    assert table[2] == [
        "t",
        cells[1],
        "probe",
        "",
        "m",
        "d",
        "",
        "0.1",
        "",
        "",
        "top1",
        "nan",
        "",
        "",
        "2.5",
        "2026-01-01",
    ]


def test_csv_of_rows_that_lack_a_column_and_of_no_rows() -> None:
    head = "study,cell,benchmark,version,model,dataset,revision,metric,value,error,findings,seconds,recorded\n"
    assert "".join(csv_lines([], [])) == head
    bare = {name: value for name, value in row().items() if name not in ("study", "recorded")}
    first, second = csv_lines([bare], [])
    assert first == head
    assert second.startswith(f",{bare['cell']},") and second.endswith(",\n")


@pytest.mark.parametrize("count", [0, 1, 3])
def test_json_is_a_list_with_a_line_per_row(count: int) -> None:
    rows = [row(value=float(n)) for n in range(count)]
    text = "".join(json_lines(iter(rows)))
    assert json.loads(text) == json.loads(json.dumps(rows))
    assert text.count("\n") == (count + 2 if count else 1)
    assert text.endswith("]\n")


def test_strict_json_names_what_it_has_no_number_for() -> None:
    odd = {"a": [math.nan, (math.inf, {"b": -math.inf})], 3: 0.5, "é": True, "n": None}
    text = to_json(odd, indent=None)
    assert json.loads(text) == {"a": ["NaN", ["Infinity", {"b": "-Infinity"}]], "3": 0.5, "é": True, "n": None}
    assert "é" in text
    assert to_json({"a": 1}) == '{\n  "a": 1\n}'


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        *((f"{begin}1", f"'{begin}1") for begin in "=+-@\t\r"),
        ("a=1", "a=1"),
        ("", ""),
        (None, ""),
        (-1.5, "-1.5"),
        (-3, "-3"),
        (True, "true"),
        ([1, "a"], '[1, "a"]'),
        (1e-300 / 3, repr(1e-300 / 3)),
    ],
)
def test_no_text_is_a_formula_and_numbers_stay(value: Any, expected: str) -> None:
    assert harmless(value) == expected


def test_texts_go_to_a_file_or_to_standard_output(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # where a file of that name would be, if one were made
    write_lines(str(tmp_path / "a"), iter(["é\n", "b\n"]))
    assert (tmp_path / "a").read_text(encoding="utf-8") == "é\nb\n"
    assert capsys.readouterr().out == ""
    write_lines("-", iter(["é\n", "b\n"]))
    assert capsys.readouterr().out == "é\nb\n"
    assert [each.name for each in tmp_path.iterdir()] == ["a"]
