"""The run record: findings in words, several records as one, text and JSON."""

from __future__ import annotations

import json

import pytest

from unseen.core.run_record import (
    Dropped,
    LoadedModel,
    Recorder,
    RunRecord,
    SearchRecord,
    SplitCounts,
    findings,
    search_record,
    split_record,
)

BAD = Dropped("image", "a/bad.png", "not an image", "train")
TEACHER = LoadedModel("a.pth", "teacher", ("student",), "resnet50", inferred=True, missing=("fc.weight",))


def test_an_empty_record_is_clean() -> None:
    assert RunRecord().clean and not RunRecord() and RunRecord().findings() == []
    assert str(RunRecord()) == "Findings: none, everything was used"


def test_findings_are_plain_words_with_the_losses_first() -> None:
    record = RunRecord(
        images={"train": SplitCounts(40, 39, 6084), "test": SplitCounts(9, 9, 9)},
        dropped=(BAD, Dropped("class", "emu", "has one image"), Dropped("class", "okapi", "has one image")),
        model=TEACHER,
        provenance="unknown",
        notes=("labels are noisy",),
    )
    assert record.findings() == [
        "1 unreadable image",
        "2 dropped classes",
        "train has 40 of 6,084 images",
        "1 tensor missing from the checkpoint",
        "loaded 'teacher' of the checkpoint, not 'student'",
        "architecture inferred: resnet50",
        "source of the examples: unknown",
        "labels are noisy",
    ]
    assert not record.clean


@pytest.mark.parametrize(
    ("chosen", "words"),
    [
        (0.01, "best C=0.01 is the smallest value of its search grid (0.01 to 100)"),
        (100.0, "best C=100 is the largest value of its search grid (0.01 to 100)"),
    ],
)
def test_an_edge_of_a_grid_and_a_failed_candidate_in_words(chosen: float, words: str) -> None:
    sweep = [{"C": c, "value": 0.9 if c == chosen else 0.5} for c in (0.01, 1.0, 100.0)]
    sweep.append({"C": 50.0, "error": "out of memory"})  # type: ignore[dict-item]
    record = search_record(sweep, {"C": chosen})
    assert record.findings() == ["1 failed hyper-parameter candidate", words]
    assert record.dropped == (Dropped("candidate", "C=50", "out of memory"),)
    assert "candidate C=50: out of memory" in str(record)
    inside = search_record([{"C": c, "value": -abs(c - 1)} for c in (0.01, 1.0, 100.0)], {"C": 1.0})
    assert inside.clean and inside.search == SearchRecord(3)


def test_an_image_that_twenty_models_cannot_read_counts_once() -> None:
    record = RunRecord.merged({f"model {n}": RunRecord(dropped=(BAD,), model=LoadedModel(f"{n}")) for n in range(20)})
    assert record.findings() == ["1 unreadable image"]
    assert record.model is None and len(list(record.leaves())) == 20
    again = RunRecord(dropped=(BAD, Dropped("image", BAD.name, "other words", "train")))
    assert again.count("image") == 1


def test_facts_of_several_models_and_searches_are_counted() -> None:
    inferred = [RunRecord(model=LoadedModel(f"{n}.pth", architecture=f"net{n}", inferred=True)) for n in range(3)]
    edges = [RunRecord(search=SearchRecord(3, {"C": c}, {"C": (1.0, 9.0)})) for c in (1.0, 9.0)]
    failed = [RunRecord(dropped=(Dropped("candidate", "C=5", "failed"),), search=SearchRecord(3)) for _ in range(2)]
    named = {str(n): each for n, each in enumerate([*inferred, *edges, *failed])}
    assert RunRecord.merged(named).findings() == [
        "2 failed hyper-parameter candidates",
        "architecture inferred for 3 checkpoints",
        "best C at the edge of its search grid in 2 searches",
    ]
    text = str(RunRecord.merged(named))
    for words in (
        "0:",
        "architecture: net2",
        "  inferred: True",
        "best C=9 is the largest value",
        "candidate C=5: failed",
    ):
        assert words in text


def test_records_of_several_datasets_are_added() -> None:
    other = RunRecord(dropped=(BAD, Dropped("image", "b.png", "not an image", "test")), provenance="unknown")
    found = findings({"one": RunRecord(dropped=(BAD,), provenance="own sample"), "other": other})
    assert found == ["3 unreadable images", "2 datasets are not the authors' own subsets"]


def test_the_expected_number_of_images_survives_later_counts() -> None:
    recorder = Recorder()
    recorder.add(RunRecord(images={"train": SplitCounts(40, 40, 800)}))
    recorder.add(split_record({"train": range(40), "test": range(5)}, [BAD]))
    assert recorder.record.images == {"train": SplitCounts(40, 39, 800), "test": SplitCounts(5, 5)}
    assert recorder.record.expecting({"test": 7}).incomplete["test"] == SplitCounts(5, 5, 7)


def test_json_and_back() -> None:
    search = SearchRecord(3, {"C": 1.0}, {"C": (1.0, 9.0)})
    one = RunRecord({"train": SplitCounts(2, 1, 3)}, 5, 4, (BAD,), TEACHER, search, "unknown", ("a note",))
    for record in (RunRecord(), one, RunRecord.merged({"one": one, "other": RunRecord(dropped=(BAD,))})):
        values = json.loads(json.dumps(record.to_dict()))
        assert RunRecord.from_dict(values) == record
        assert values["clean"] is record.clean and values["findings"] == record.findings()
    assert "parts" not in one.to_dict()


def test_the_source_of_a_number_that_was_not_computed_here() -> None:
    record = RunRecord(source="Zhai et al., 2019, Table 6")
    assert record.clean and record
    assert "source: Zhai et al., 2019, Table 6" in str(record)
    assert RunRecord.from_dict(json.loads(json.dumps(record.to_dict()))) == record
    assert record.merge(RunRecord()).source == RunRecord().merge(record).source == record.source
    assert RunRecord.merged({"a": record, "b": RunRecord(source="a page")}).source == f"{record.source}; a page"
