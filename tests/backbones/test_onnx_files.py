"""The files that an ONNX graph reads: found without onnx, compared with onnx, and none outside the graph's folder."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from unseen.backbones import backbone_revision, check_backbone, load_backbone
from unseen.backbones.onnx_files import external_files, graph_digest
from unseen.core.errors import CheckpointError
from unseen.core.identity import file_digest
from unseen.study import Study, run_study

onnx = pytest.importorskip("onnx")
SIDE = 16


def graph(width: int, *, seed: int = 0, end: str = "", output: str = "y") -> Any:
    """A linear layer on the pixels, with an operator behind it."""
    from onnx import TensorProto, helper, numpy_helper

    rng = np.random.default_rng(seed)
    weight = rng.normal(size=(3 * SIDE * SIDE, width)).astype(np.float32)
    last = "linear" if end else output
    nodes = [helper.make_node("Flatten", ["x"], ["flat"]), helper.make_node("Gemm", ["flat", "w", "b"], [last])]
    if end:
        nodes.append(helper.make_node(end, [last], [output]))
    made = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3, SIDE, SIDE])],
        [helper.make_tensor_value_info(output, TensorProto.FLOAT, ["n", width])],
        [numpy_helper.from_array(weight, "w"), numpy_helper.from_array(rng.normal(size=width).astype(np.float32), "b")],
    )
    return helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def save(model: Any, path: Path, *, location: str = "") -> Path:
    options = {"save_as_external_data": True, "location": location, "size_threshold": 0} if location else {}
    onnx.save_model(model, str(path), **options)
    return path


def test_a_graph_without_other_files_keeps_its_revision(tmp_path: Path) -> None:
    path = save(graph(8), tmp_path / "m.onnx")
    assert external_files(path) == []
    assert graph_digest(path) == file_digest(path)
    assert backbone_revision(f"onnx:{path}") == "sha256 " + file_digest(path)[:16]
    assert load_backbone(path).weights == file_digest(path)[:16]


def test_other_weights_are_another_model(tmp_path: Path) -> None:
    path = save(graph(8, seed=0), tmp_path / "m.onnx", location="m.data")
    first, own = backbone_revision(path), file_digest(path)
    weights = load_backbone(path).weights
    (tmp_path / "m.data").unlink()
    save(graph(8, seed=1), path, location="m.data")
    assert file_digest(path) == own, "the graph itself is the same"
    assert backbone_revision(path) != first
    assert load_backbone(path).weights != weights


def test_other_weights_invalidate_cells(images: Path, home: Path, tmp_path: Path) -> None:
    def evaluated() -> int:
        benchmarks = {"probe": {"solver": "ncm", "seeds": (0,)}}
        outcome = run_study(Study("s", (f"onnx:{path}",), (f"folder:{images}",), benchmarks), report=False)
        assert not outcome.failed
        return outcome.evaluated

    path = save(graph(8, seed=0), tmp_path / "m.onnx", location="m.data")
    assert [evaluated(), evaluated()] == [1, 0]
    (tmp_path / "m.data").unlink()
    save(graph(8, seed=1), path, location="m.data")
    assert [evaluated(), evaluated()] == [1, 0]


def test_the_names_are_those_that_onnx_reads(tmp_path: Path) -> None:
    """Initializers, constants of nodes, subgraphs and functions."""
    from onnx import TensorProto, helper, numpy_helper

    def tensor(name: str, location: str) -> Any:
        made = numpy_helper.from_array(np.ones(4, np.float32), name)
        onnx.external_data_helper.set_external_data(made, location)
        made.ClearField("raw_data")
        made.data_location = TensorProto.EXTERNAL
        return made

    constant = helper.make_node("Constant", [], ["c"], value=tensor("c", "constant.bin"))
    branch = helper.make_graph([constant], "branch", [], [], [tensor("i", "branch.bin")])
    node = helper.make_node("If", ["x"], ["y"], then_branch=branch, else_branch=branch)
    inner = helper.make_node("Constant", [], ["d"], value=tensor("d", "function.bin"))
    function = helper.make_function("own", "f", [], ["d"], [inner], [helper.make_opsetid("", 17)])
    ordinary = numpy_helper.from_array(np.ones(4, np.float32), "ordinary")
    onnx.external_data_helper.set_external_data(ordinary, "not-read.bin")  # data_location stays DEFAULT
    ordinary.data_location = TensorProto.DEFAULT
    made = helper.make_graph([node], "g", [], [], [tensor("w", "initial.bin"), ordinary])
    path = tmp_path / "m.onnx"
    path.write_bytes(helper.make_model(made, functions=[function]).SerializeToString())
    names = ["branch.bin", "constant.bin", "function.bin", "initial.bin"]
    for name in names:
        (tmp_path / name).write_bytes(b"\0" * 16)
    assert external_files(path) == names


@pytest.mark.parametrize("location", ["../w.data", "/etc/hostname", "a/../../w.data", "C:\\w.data", "..\\w.data", ""])
def test_weights_outside_the_folder_are_refused(location: str, tmp_path: Path) -> None:
    (tmp_path / "w.data").write_bytes(b"\0" * 10_000)
    (tmp_path / "in").mkdir()
    path = save(graph(8), tmp_path / "in" / "m.onnx", location="placeholder")
    model = onnx.load(str(path), load_external_data=False)
    for entry in (e for t in model.graph.initializer for e in t.external_data if e.key == "location"):
        entry.value = location
    path.write_bytes(model.SerializeToString())
    with pytest.raises(CheckpointError, match="outside its own folder"):
        check_backbone(path)


def test_a_missing_weights_file_is_refused_before_any_work(tmp_path: Path) -> None:
    path = save(graph(8), tmp_path / "m.onnx", location="m.data")
    (tmp_path / "m.data").unlink()
    with pytest.raises(CheckpointError, match=r"m.onnx keeps weights in 'm.data', and there is no such file"):
        check_backbone(path)


@pytest.mark.parametrize("content", [b"", b"nonsense", b"\x08\x09", b"\x3a\xff\xff\xff\xff\x0f", b"\x3a" * 300])
def test_other_bytes_are_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(content)
    with pytest.raises(CheckpointError, match="cannot be read as an ONNX graph"):
        check_backbone(tmp_path / "m.onnx")


def test_damaged_graphs_raise_nothing_else(tmp_path: Path) -> None:
    path = save(graph(2), tmp_path / "m.onnx", location="m.data")
    whole, rng = path.read_bytes(), random.Random(0)
    for _ in range(300):
        data = bytearray(whole)
        for _ in range(rng.randrange(1, 6)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        path.write_bytes(bytes(data[: rng.randrange(1, len(data) + 1)]))
        try:
            external_files(path)
        except CheckpointError:
            continue


def test_deeply_nested_messages_end(tmp_path: Path) -> None:
    data = b""
    for _ in range(2000):  # graphs in attributes of nodes of graphs
        data = b"\x32" + _length(data) + data
        data = b"\x2a" + _length(data) + data
        data = b"\x0a" + _length(data) + data
    (tmp_path / "m.onnx").write_bytes(b"\x3a" + _length(data) + data)
    with pytest.raises(CheckpointError, match="nested too deeply"):
        external_files(tmp_path / "m.onnx")


def _length(data: bytes) -> bytes:
    size, found = len(data), b""
    while size > 127:
        found += bytes([size & 127 | 128])
        size >>= 7
    return found + bytes([size])


@pytest.mark.parametrize(
    ("width", "end", "output", "layer"),
    [
        (1000, "", "y", "logits"),
        (1001, "Identity", "y", "logits"),
        (10, "", "logits", "logits"),
        (1000, "Softmax", "y", "class probabilities"),
        (7, "Softmax", "y", "class probabilities"),
        (512, "", "y", "the graph's output 'y'"),
        (1000, "Relu", "y", "the graph's output 'y'"),
    ],
)
def test_the_layer_is_recorded_as_what_it_is(width: int, end: str, output: str, layer: str, tmp_path: Path) -> None:
    path = save(graph(width, end=end, output=output), tmp_path / "m.onnx")
    loaded = load_backbone(path).loaded
    assert loaded is not None
    assert (loaded.file, loaded.layer) == ("m.onnx", layer)
    assert loaded.class_scores is (layer in ("logits", "class probabilities"))


def test_a_matrix_product_with_a_bias_is_a_linear_layer(tmp_path: Path) -> None:
    from onnx import helper

    model = graph(1000)
    del model.graph.node[1]
    model.graph.node.append(helper.make_node("MatMul", ["flat", "w"], ["product"]))
    model.graph.node.append(helper.make_node("Add", ["b", "product"], ["y"]))
    path = save(model, tmp_path / "m.onnx")
    loaded = load_backbone(path).loaded
    assert loaded is not None and loaded.layer == "logits"


def test_planning_does_not_import_torch(tmp_path: Path) -> None:
    path = save(graph(8), tmp_path / "m.onnx", location="m.data")
    (tmp_path / "hubconf.py").write_text("def tiny():\n    import torch\n    return torch.nn.Flatten()\n")
    code = (
        "import sys; from unseen.backbones import backbone_revision, check_backbone\n"
        f"for name in ({str(path)!r}, 'torchhub:{tmp_path}/tiny'):\n"
        "    check_backbone(name); print(backbone_revision(name))\n"
        "assert 'torch' not in sys.modules and 'onnx' not in sys.modules, 'imported'"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
