"""What the long run of the fuzzer found: small forms of those files."""

from __future__ import annotations

import io
import sqlite3
import zipfile
from pathlib import Path

import pytest
import torch
from PIL import Image

from unseen.backbones.checkpoints import state_dicts
from unseen.backbones.onnx_files import external_files
from unseen.core.errors import CheckpointError, DataError, StoreError
from unseen.core.records import Cell, Result
from unseen.data import load_dataset
from unseen.data.sources.vtab.layouts import _read_list
from unseen.data.user_data import LabelledImages, divide
from unseen.finetuning import trainer
from unseen.results import FILE_NAME, ResultsDatabase

TWO = LabelledImages([Image.new("RGB", (4, 4), shade) for shade in ("red", "blue")], ["a", "b"])


def test_a_key_that_is_nested_without_end() -> None:
    """Its text would be: a tuple in a tuple, and so on."""
    key: tuple[object, ...] = ()
    for _ in range(3000):
        key = (key,)
    assert [path for path, _ in state_dicts({key: {"weight": torch.zeros(2)}})] == ["tuple"]
    ((_, tensors),) = state_dicts({key: torch.zeros(2), 3: torch.zeros(1)})
    assert sorted(tensors) == ["3", "tuple"]


def test_a_name_in_an_archive_that_is_no_text(tmp_path: Path) -> None:
    """The list at the end of the archive is sound; what stands before the file itself is not."""
    picture = io.BytesIO()
    Image.new("RGB", (8, 8), (200, 10, 10)).save(picture, "PNG")
    path = tmp_path / "photos.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for i in range(4):
            archive.writestr(f"class {i % 2}/é{i}.png", picture.getvalue())
    content = path.read_bytes()
    path.write_bytes(content.replace("é0".encode(), b"\xcf0\xcf", 1))
    images = load_dataset(f"zip:{path}?test=0").split("train")
    broken = next(i for i, name in enumerate(images.names) if "0" in Path(name).stem)
    with pytest.raises(DataError, match="damaged or encrypted"):
        images.open(broken)
    assert images.open((broken + 1) % 4).size == (8, 8)


def test_whatever_torch_trips_over_in_a_training_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "state.pt"
    trainer.save_state(path, "mine", {"step": 3})

    def trip(*_: object, **__: object) -> None:
        raise AssertionError("saved_id must be a tuple")

    monkeypatch.setattr(torch, "load", trip)
    with pytest.raises(CheckpointError, match="Remove it to start again"):
        trainer.load_state(path, "mine")


def test_a_class_name_of_seventy_thousand_letters_takes_little_memory() -> None:
    """Its variants with one other letter took more than a gigabyte."""
    from unseen.concepts.class_names import ClassNameReader
    from unseen.concepts.wordnet import load_wordnet

    reader = ClassNameReader(load_wordnet())
    assert reader.misspelt("a" * 70_000) == ()
    assert reader.lookup("domestic cat")


def test_external_data_of_a_graph_that_ends_early(tmp_path: Path) -> None:
    """The entry that names the weights file ends within a number."""
    tensor = bytes([0x6A, 0x01, 0x0A, 0x70, 0x01])  # external_data (13) of one byte; data_location (14): external
    graph = bytes([0x2A, len(tensor)]) + tensor  # an initializer (5)
    path = tmp_path / "m.onnx"
    path.write_bytes(bytes([0x3A, len(graph)]) + graph)  # the graph (7)
    with pytest.raises(CheckpointError, match="as an ONNX graph"):
        external_files(path)


def test_a_class_number_of_five_thousand_digits_in_a_list_of_vtab(tmp_path: Path) -> None:
    path = tmp_path / "train800.txt"
    path.write_text(f"a.png {'9' * 5000}\n")
    with pytest.raises(DataError, match="is not an image and a class number"):
        _read_list(path)


def test_a_schema_whose_key_is_no_key(tmp_path: Path) -> None:
    """A flipped byte in the word INTEGER: SQLite then has a table without ids."""
    path = tmp_path / FILE_NAME
    with ResultsDatabase(path) as database:
        database.append("s", Result(Cell("probe", "m", "d", {"seed": 1}, "w+d", "1"), {"top1": 0.5}))
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA journal_mode = delete")
    connection.close()
    content = path.read_bytes()
    at = content.index(b"INTEGER PRIMARY KEY", content.index(b"CREATE TABLE result"))
    path.write_bytes(content[: at + 3] + b"\xc3" + content[at + 4 :])
    with pytest.raises(StoreError, match=r"damaged.*unseen results repair"), ResultsDatabase(path) as database:
        database.parameter_names()


@pytest.mark.parametrize("splits", [{"train": LabelledImages([], [])}, {"train": LabelledImages([], []), "test": TWO}])
def test_a_dataset_without_rows(splits: dict[str, LabelledImages]) -> None:
    with pytest.raises(DataError, match="no images to train on"):
        divide(splits)
