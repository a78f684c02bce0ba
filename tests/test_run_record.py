"""The contract of the run record: whatever an evaluation drops is found in every output of every benchmark.

Two kinds of losses go through each benchmark. Real ones: an unreadable image in every split. And entries that this test
puts on `Dataset.record`, `Backbone.loaded` and the search record, which stand for everything that a source can report:
the workbench must carry them to all outputs, of plug-ins too.
"""

from __future__ import annotations

import csv
import io
import json
import re
import shlex
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from PIL import Image

import unseen
from unseen.backbones import Backbone
from unseen.benchmarks import BENCHMARKS
from unseen.cli import main
from unseen.core.run_record import Dropped, LoadedModel, RunRecord
from unseen.data import Dataset
from unseen.results.render import latex_text, markdown_words

MODEL = "random:test_resnet?size=32"
#: Three classes of ImageNet-1K and seven that are eligible as unseen, with their WordNet ids.
WNIDS = {
    "ant": "n02219486", "panda": "n02510455", "pizza": "n07873807", "anchor": "n02709367", "emu": "n01519873",
    "ferry": "n03329663", "hedgehog": "n01893825", "okapi": "n02439398", "pagoda": "n03874965", "wrench": "n04606574",
}  # fmt: skip
BROKEN = b"\x89PNG\r\n\x1a\n"  # the beginning of a PNG file and nothing after it

#: Losses that a dataset source reports.
OF_DATA = (
    Dropped("class", "un_usable & class", "has one image"),
    Dropped("label", "row 7", "an empty label"),
    Dropped("unlabelled", "train/stray.png", "no class", "train"),
)
#: How a model source reports a checkpoint with two networks, missing tensors and unused tensors.
LOADED = LoadedModel(
    file="hostile.pth",
    network="teacher",
    alternatives=("student",),
    architecture="test_resnet",
    inferred=True,
    matched=20,
    missing=("layer4.0.conv1.weight",),
    unused=("projector.0.bias", "projector.0.weight"),
    layer="logits",
)
#: A candidate of a hyper-parameter search that failed.
FAILED = Dropped("candidate", "C=1e+09", "the loss is not finite")

#: What the outputs with the full record contain, beside the unreadable images.
FULL = [
    *(text for one in (*OF_DATA, FAILED) for text in (one.name, one.reason)),
    "hostile.pth",
    "teacher",
    "student",
    *LOADED.missing,
    *LOADED.unused,
    "own sample",
]
#: What the outputs with the short record contain, beside the number of unreadable images.
SHORT = [
    "dropped class",
    "1 dropped label",
    "1 image without a label",
    "failed hyper-parameter candidate",
    "1 tensor missing from the checkpoint",
    "2 unused tensors in the checkpoint",
    "loaded 'teacher' of the checkpoint, not 'student'",
    "architecture inferred: test_resnet",
    "features are logits",
    "source of the examples: own sample",
]


@dataclass(frozen=True)
class Case:
    """How a benchmark runs on the hostile data: command, options, data, and the unreadable images that it reads."""

    command: tuple[str, ...]
    options: tuple[str, ...] = ()
    table: str = ""
    unreadable: tuple[str, ...] = ("train", "val", "test")

    @property
    def names(self) -> list[str]:
        """The names of the unreadable images."""
        return [name if self.table else f"{name}/emu/bad.png" for name in self.unreadable]


REGISTERED = tuple(BENCHMARKS)  # at import: other tests register benchmarks of their own
_FINETUNE = ("--steps", "8", "--batch-size", "16")
_TABLE = ("images/bad-0.png", "images/bad-1.png")
CASES: dict[str, dict[str, Case]] = {
    "probe": {"": Case(("probe",), ("--solver", "ridge"))},
    "regression": {"": Case(("probe",), (), "brightness", _TABLE)},
    "multilabel": {"": Case(("probe",), (), "tags", _TABLE)},
    "cog": {"": Case(("cog", "run"), ("--levels", "2", "--size", "2", "--solver", "ncm"))},
    "cog-finetune": {
        "": Case(("cog", "finetune"), ("--levels", "1", "--size", "2", "--rates", "0.01", *_FINETUNE))
    },
    "zsl": {"": Case(("zsl", "run"), ("--methods", "ESZSL", "--grid", "quick", "--split", "SS"))},
    "clip": {"": Case(("clip", "run"), (), unreadable=("test",))},
    "vtab": {
        "linear": Case(
            ("vtab", "run"),
            ("--adaptation", "linear", "--learning-rates", "0.01", *_FINETUNE),
        ),
        "finetune": Case(
            ("vtab", "run"),
            ("--adaptation", "finetune", "--learning-rates", "0.01", "--seeds", "1", *_FINETUNE),
        ),
    },
    "rank": {
        "scores": Case(("rank",), ("--scores", "logme", "finetune-1"), unreadable=("train", "val")),
        "truth": Case(
            ("rank",), ("--scores", "logme", "--finetune-top", "1", "--learning-rates", "0.01", *_FINETUNE)
        ),
    },
}  # fmt: skip


def test_every_benchmark_has_a_case() -> None:
    """A new benchmark must be added to `CASES`."""
    assert set(CASES) == set(REGISTERED)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Ten classes in train, val and test; each split has one image that cannot be read."""
    root, rng = tmp_path_factory.mktemp("hostile") / "data", np.random.default_rng(0)
    for split, count in (("train", 6), ("val", 2), ("test", 2)):
        for number, name in enumerate(WNIDS):
            (root / split / name).mkdir(parents=True)
            for i in range(count):
                pixels = rng.normal(100 + 12 * number, 20, (24, 24, 3)).clip(0, 255).astype(np.uint8)
                Image.fromarray(pixels).save(root / split / name / f"{i}.png")
        (root / split / "emu" / "bad.png").write_bytes(BROKEN)
    (root.parent / "wnids.tsv").write_text("".join(f"{n}\t{w}\n" for n, w in WNIDS.items()))
    return root


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table with a number and several labels for each image; two images cannot be read."""
    root, rng = tmp_path_factory.mktemp("table"), np.random.default_rng(0)
    (root / "images").mkdir()
    rows = ["image,brightness,tags"]
    for i in range(40):
        light = rng.random()
        Image.fromarray(np.full((24, 24, 3), 250 * light, np.uint8)).save(root / "images" / f"{i}.png")
        rows.append(f"images/{i}.png,{light:.3f},{'light' if light > 0.5 else 'dark'}|{'odd' if i % 2 else 'even'}")
    for i in range(2):
        (root / "images" / f"bad-{i}.png").write_bytes(BROKEN)
        rows.append(f"images/bad-{i}.png,0.5,light|odd")
    (root / "data.csv").write_text("\n".join(rows) + "\n")
    return root / "data.csv"


@pytest.fixture
def hostile(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every dataset, model and search report the losses above."""
    from unseen.benchmarks import workbench
    from unseen.run import evaluate

    load_dataset, load_backbone, search_record = workbench.load_dataset, workbench.load_backbone, evaluate.search_record

    def dataset(name: str) -> Dataset:
        found = load_dataset(name)
        record = found.record.merge(RunRecord(dropped=OF_DATA, provenance="own sample"))
        return replace(found, record=record, expected=dict.fromkeys(found.splits, 6084))

    def backbone(name: str) -> Backbone:
        return replace(load_backbone(name), loaded=LOADED, text=towers)

    def searched(*given: Any) -> RunRecord:
        return search_record(*given).merge(RunRecord(dropped=(FAILED,)))

    monkeypatch.setattr(workbench, "load_dataset", dataset)
    monkeypatch.setattr(workbench, "load_backbone", backbone)
    monkeypatch.setattr(evaluate, "search_record", searched)


def towers(texts: Any) -> npt.NDArray[np.float32]:
    """Return vectors of texts as a text tower does."""
    return np.stack([np.random.default_rng(len(text)).normal(size=96) for text in texts]).astype(np.float32)


def run(case: Case, folder: Path, table: Path, home: Path) -> None:
    data = f"csv:{table}?label={case.table}" if case.table else str(folder)
    if case.command[0] == "cog":
        data = f"folder:{folder}?wnids={folder.parent / 'wnids.tsv'}"
    report = ("--output", str(home.parent / "report.html"))
    assert main([*case.command, data, "--models", MODEL, *case.options, *report]) == 0


@pytest.mark.usefixtures("hostile")
@pytest.mark.parametrize(
    "case", [pytest.param(one, id=f"{name} {kind}".strip()) for name, own in CASES.items() for kind, one in own.items()]
)
def test_every_loss_is_in_every_output(
    case: Case, folder: Path, table: Path, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(case, folder, table, home)
    short = [*SHORT, f"{len(case.unreadable)} unreadable image", "of 6,084 images"]

    def printed(*words: str) -> str:
        capsys.readouterr()
        assert main(list(words)) == 0
        return capsys.readouterr().out

    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("Note: ")]
    assert len(lines) == 1
    holds(lines[0], short)
    command = shlex.split(lines[0].partition("Full record: unseen ")[2])
    full = printed(*command)
    holds(full, map(re.escape, [*FULL, *case.names]))
    holds(read_page(home.parent / "report.html"), map(re.escape, [*FULL, *case.names]))
    assert "Nothing went wrong" not in read_page(home.parent / "report.html")
    rows = json.loads(printed("results", "--json"))
    for row in rows:
        assert not row["record"]["clean"]
        holds(json.dumps(row["record"], ensure_ascii=False), map(re.escape, FULL))
    holds(json.dumps(rows), map(re.escape, case.names))
    holds(printed("results", "--latex", "-"), (re.escape(latex_text(text)) for text in short))
    holds(printed("results", "--markdown", "-"), (re.escape(markdown_words(text)) for text in short))
    found = list(csv.DictReader(io.StringIO(printed("results", "--csv", "-"))))
    for row in found:
        holds(row["findings"], SHORT)
    holds(repr(unseen.load_results()), short)
    holds(str(unseen.load_results().record), map(re.escape, [*FULL, *case.names]))


def holds(text: str, expected: Any) -> None:
    """Assert that a text contains every pattern."""
    missing = [each for each in expected if not re.search(each, text)]
    assert not missing, f"{missing} not in:\n{text[:4000]}"


def read_page(path: Path) -> str:
    from html import unescape

    return unescape(re.sub(r"<script.*?</script>", "", path.read_text(encoding="utf-8"), flags=re.DOTALL))


@pytest.mark.usefixtures("hostile")
@pytest.mark.parametrize("name", ["evaluate", "compare", "rank", "extract"])
def test_python_objects_have_the_record(name: str, folder: Path, home: Path) -> None:
    call: dict[str, Callable[[], Any]] = {
        "evaluate": lambda: unseen.evaluate(MODEL, str(folder), solver="ridge"),
        "compare": lambda: unseen.compare([MODEL, "random:test_vit?size=32"], str(folder), solver="ncm"),
        "rank": lambda: unseen.rank([MODEL, "random:test_vit?size=32"], str(folder), scores=("logme",)),
        "extract": lambda: unseen.extract(MODEL, str(folder)),
    }
    found = call[name]()
    searched = name != "extract"
    full = [text for text in FULL if searched or text not in (FAILED.name, FAILED.reason)]
    holds(str(found.record), map(re.escape, [*full, "train/emu/bad.png"]))
    short = [text for text in SHORT if searched or "candidate" not in text]
    for text in (repr(found), found._repr_html_().replace("&#x27;", "'")):
        holds(text, [*short, "unreadable image"])
    saved = json.loads(found.save(home.parent / "found.json").read_text()) if name != "extract" else None
    assert saved is None or saved["record"] == json.loads(json.dumps(found.record.to_dict()))


def test_a_hostile_checkpoint_and_a_hostile_table(
    tmp_path: Path, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Real files: a checkpoint with two networks, a missing and an unused tensor; a table with an empty label."""
    import torch

    module = unseen.load_backbone("random:resnet18?size=32").module
    teacher = {f"backbone.{name}": value for name, value in module.state_dict().items()}
    teacher.pop("backbone.layer4.1.bn2.bias")
    student = {name: value + 1 if value.is_floating_point() else value for name, value in teacher.items()}
    unused = {"projector.0.weight": torch.zeros(4, 512)}
    torch.save({"student": student, "teacher": teacher | unused}, tmp_path / "dino.pth")
    rows, rng = ["image,label"], np.random.default_rng(0)
    for i in range(24):
        pixels = rng.normal(100 + 50 * (i % 2), 20, (24, 24, 3)).clip(0, 255).astype(np.uint8)
        Image.fromarray(pixels).save(tmp_path / f"{i}.png")
        rows.append(f"{i}.png,{'ab'[i % 2]}")
    (tmp_path / "bad.png").write_bytes(BROKEN)
    Image.fromarray(pixels).save(tmp_path / "unlabelled.png")
    (tmp_path / "data.csv").write_text("\n".join([*rows, "bad.png,a", "unlabelled.png,"]) + "\n")
    words = ["probe", f"csv:{tmp_path / 'data.csv'}", "--models", f"file:{tmp_path / 'dino.pth'}?size=32&partial=true"]
    assert main([*words, "--solver", "ncm", "--seeds", "1", "--json"]) == 0
    out, err = capsys.readouterr()
    (line,) = [line for line in err.splitlines() if line.startswith("Note: ")]
    short = ["1 unreadable image", "1 image without a label", "1 unused tensor in the checkpoint"]
    short += ["1 tensor missing", "loaded 'teacher", "not 'student", "architecture inferred: timm:resnet18"]
    holds(line, short)
    full = json.dumps(json.loads(out)["results"][0]["record"])
    tensors = ["layer4.1.bn2.bias", "projector.0.weight"]
    holds(full, ["bad.png", "unlabelled.png", *tensors, "dino.pth", "teacher", "student"])
