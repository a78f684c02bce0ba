"""Stored features and results are found by ids, so no id may change by accident."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from tools.golden_ids import DEPENDS_ON, GOLDEN, Ids, cells, collect, releases

from unseen.benchmarks import BENCHMARKS

ADVICE = """These ids changed, so features and results that users have stored would no longer be found:

  {changes}

If the numbers behind them did not change, restore the ids: names and values of options, fields of FeatureKey and
Preprocessing, and the texts of revisions enter the hashes. If the numbers did change, raise the version of the
benchmark, solver or method, run `python -m tools.golden_ids`, and list it in CHANGELOG.md under "Numbers changed"."""


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Ids:
    return collect(tmp_path_factory.mktemp("golden"))


@pytest.fixture(scope="module")
def golden() -> Ids:
    return tomllib.loads(GOLDEN.read_text(encoding="utf-8"))


def compare(found: dict[str, str], golden: dict[str, str]) -> str:
    """Return one line per id that changed or is missing on either side; "" if there is none."""
    names = [name for name in {**golden, **found} if found.get(name) != golden.get(name)]
    return "\n  ".join(f"{name}: {golden.get(name, 'not listed')} -> {found.get(name, 'gone')}" for name in names)


#: Before other tests register benchmarks of their own.
REGISTERED = tuple(BENCHMARKS)
SECTIONS = ["cells", "extraction", "feature_keys", "datasets", "files", "objects", "names", *DEPENDS_ON]


@pytest.mark.parametrize("section", SECTIONS)
def test_ids_do_not_change(section: str, found: Ids, golden: Ids) -> None:
    written_with = golden.get(f"{section}_releases", {})
    if section in DEPENDS_ON and written_with != releases()[f"{section}_releases"]:
        pytest.skip(f"random weights depend on the releases {written_with}")
    changes = compare(found[section], golden[section])
    assert not changes, ADVICE.format(changes=changes)


def test_ids_of_installed_packaged_files_do_not_change(found: Ids, golden: Ids) -> None:
    if not found["packaged"]:
        pytest.skip("no packaged model or dataset is installed")
    installed = {name: value for name, value in golden["packaged"].items() if name in found["packaged"]}
    changes = compare(found["packaged"], installed)
    assert not changes, ADVICE.format(changes=changes)


def test_every_benchmark_and_every_section_is_listed(found: Ids, golden: Ids) -> None:
    assert set(REGISTERED) <= set(golden["cells"])
    assert {*SECTIONS, "packaged"} == set(found)
    assert {*found, *releases()} == set(golden)


def test_a_changed_id_is_named(golden: Ids) -> None:
    ids = golden["cells"]
    assert compare(ids, ids) == ""
    first = next(iter(ids))
    assert compare({**ids, first: "other"}, ids) == f"{first}: {ids[first]} -> other"
    assert compare({k: v for k, v in ids.items() if k != first}, ids).endswith("-> gone")


def test_a_raised_version_is_noticed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, golden: Ids) -> None:
    (tmp_path / "file.txt").write_text("n02123045\n", encoding="utf-8")
    monkeypatch.setattr(BENCHMARKS.get("probe"), "version", 99)
    changes = compare(dict(cells(tmp_path / "file.txt", text_models=False)), golden["cells"])
    assert {line.split()[0].rstrip(":") for line in changes.splitlines()} == {"probe"}
