"""Files that an audit broke the public entry points with: each ends in one error line, with bounded memory and time."""

from __future__ import annotations

import inspect
import io
import json
import lzma
import os
import pickle
import shutil
import signal
import socket
import subprocess
import sys
import tarfile
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.torch
from PIL import Image

from unseen import load_backbone, load_dataset
from unseen.backbones import check_backbone
from unseen.backbones.load import BACKBONES
from unseen.backbones.sources import hf, open_clip
from unseen.cli import main
from unseen.core import isolate
from unseen.core.errors import BackboneError, CheckpointError, DataError, UnseenError
from unseen.core.extras import ensure_torchvision
from unseen.core.records import Cell, Result
from unseen.data.load import SOURCES
from unseen.results import FILE_NAME, ResultsDatabase

linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the limits of other systems differ")


def png(shade: int) -> bytes:
    stream = io.BytesIO()
    Image.new("RGB", (5, 4), (shade, 9, 200)).save(stream, "PNG")
    return stream.getvalue()


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("UNSEEN_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(isolate, "_START", isolate._spawn)  # as for a user; other tests fork
    return tmp_path / "home"


# ---- the process with limits ---------------------------------------------------------------------------------------


def crash(path: str) -> None:
    os.abort()


def allocate(path: str) -> None:
    bytearray(1 << 30)


def spin(path: str) -> None:
    while True:
        pass


def refuse(path: str) -> None:
    raise ValueError("two lines\nof text")


def succeed(path: str) -> None:
    with Path(path).open("a") as stream:
        stream.write("x")


def trial(name: str, path: Path, **changes: Any) -> isolate.Trial:
    fields: dict[str, Any] = {"size": 1000, "memory": 64 << 20, "written": 1 << 20, **changes}
    return isolate.Trial(f"{__name__}:{name}", (str(path),), path.name, "a test", (), **fields)


@linux
@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("crash", "x.bin cannot be read as a test: its reader ended with SIGABRT"),
        ("allocate", "x.bin cannot be read as a test: that takes more than 67.1 MB of memory."),
        ("spin", "that takes more than 15 s of CPU time"),
        ("refuse", r"x.bin cannot be read as a test \(ValueError: two lines of text\)."),
    ],
)
def test_a_reader_that_fails_gives_one_line(
    name: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]))
    module = __name__.rpartition(".")[2]
    failing = trial(name, tmp_path / "x.bin")
    if name == "spin":  # the slow test below waits for it
        monkeypatch.setattr(isolate, "_START", lambda _: (-signal.SIGXCPU, ""))
    with pytest.raises(DataError, match=message) as found:
        isolate.try_isolated(isolate.Trial(**{**vars(failing), "check": f"{module}:{name}"}), "digest", error=DataError)
    assert "\n" not in str(found.value)


@linux
@pytest.mark.slow
def test_the_limit_of_cpu_time_ends_a_reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]))
    endless = isolate.Trial("test_hostile:spin", ("x",), "x", "a test", (), 0, 1 << 20)
    assert endless.cpu == 15
    endless = replace(endless, seconds=1)
    with pytest.raises(DataError, match="more than 1 s of CPU time"):
        isolate.try_isolated(endless, "digest")


@linux
def test_known_content_is_not_tried_again(tmp_path: Path, own_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]))
    path = tmp_path / "x.bin"
    path.write_text("")
    good = isolate.Trial("test_hostile:succeed", (str(path),), "x", "a test", (), 0, 64 << 20, 100)
    isolate.try_isolated(good, "one")
    isolate.try_isolated(good, "one")
    assert path.read_text() == "x"
    isolate._KNOWN.clear()  # as in another process: the home knows
    isolate.try_isolated(good, "one")
    assert path.read_text() == "x" and len(list((own_home / isolate.FOLDER).iterdir())) == 1
    isolate.try_isolated(good, "other content")
    assert path.read_text() == "xx"
    isolate._KNOWN.clear()
    shutil.rmtree(own_home)
    own_home.write_text("no folder")  # a home that cannot be written to
    isolate.try_isolated(good, "one")
    assert path.read_text() == "xxx"


def test_a_replaced_file_is_tried_again(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"same size")
    first, times = isolate.file_states(path), path.stat()
    path.unlink()
    path.write_bytes(b"same SIZE")
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert isolate.file_states(path) != first, "the time of the change of the inode cannot be set"


# ---- datasets ------------------------------------------------------------------------------------------------------


def save_hugging_face(folder: Path) -> Path:
    datasets: Any = pytest.importorskip("datasets")
    rows = {
        "image": [{"bytes": png(10 * i), "path": None} for i in range(12)],
        "label": [f"class {i % 2}" for i in range(12)],
    }
    data = datasets.Dataset.from_dict(rows).cast_column("image", datasets.Image())
    data.save_to_disk(str(folder))
    return next(folder.glob("*.arrow"))


def test_damaged_arrow_files_end_in_an_error(tmp_path: Path) -> None:
    """Offsets of texts that lead out of the file ended the process with SIGSEGV."""
    arrow = save_hugging_face(tmp_path / "data")
    assert load_dataset(f"hf:{tmp_path / 'data'}").card.images == 12
    content = arrow.read_bytes()
    offsets = np.arange(0, 13 * 7, 7, dtype=np.int32).tobytes()  # of the labels, "class 0" and "class 1"
    assert content.count(offsets) == 1
    arrow.write_bytes(
        content.replace(offsets, np.arange(0, 13 * 2**27, 2**27, dtype=np.int64).astype(np.int32).tobytes())
    )
    with pytest.raises(DataError, match="dataset of Hugging Face"):
        load_dataset(f"hf:{tmp_path / 'data'}")
    arrow.write_bytes(content[: len(content) // 2])
    with pytest.raises(DataError, match="dataset of Hugging Face"):
        load_dataset(f"hf:{tmp_path / 'data'}")


BOUNDED = """
import resource, sys, time
from pathlib import Path
from unseen import load_dataset
from unseen.core.errors import UnseenError
import pyarrow.parquet
pages = int(Path("/proc/self/statm").read_text().split()[5]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_DATA, (pages + (250 << 20),) * 2)
resource.setrlimit(resource.RLIMIT_CPU, (20, 20))
for name in sys.argv[1:]:
    try:
        print("read", load_dataset(name).card.images)
    except UnseenError as error:
        print("refused", error)
"""


@linux
def test_small_files_do_not_fill_the_memory(tmp_path: Path) -> None:
    """44 KB of Parquet took 7.75 GB, and a list with the label 40000000 took 3.2 GB."""
    pyarrow: Any = pytest.importorskip("pyarrow")
    parquet: Any = pytest.importorskip("pyarrow.parquet")
    one = png(1) + os.urandom(1 << 14) + bytes(1 << 20)
    table = pyarrow.table({"image": [one] * 600, "label": [i % 2 for i in range(600)]})
    parquet.write_table(table, tmp_path / "shared.parquet", compression="zstd", dictionary_pagesize_limit=1 << 30)
    parquet.write_table(table, tmp_path / "plain.parquet", compression="zstd", use_dictionary=False)
    texts = pyarrow.table({"image": [f"{i}.png" for i in range(600)], "label": ["x" * (1 << 20)] * 600})
    parquet.write_table(texts, tmp_path / "texts.parquet", compression="zstd", dictionary_pagesize_limit=1 << 30)
    for i in range(600):
        (tmp_path / f"{i}.png").touch()
    assert (tmp_path / "shared.parquet").stat().st_size < 100_000
    names = [f"parquet:{tmp_path}/{each}.parquet?test=0.5" for each in ("shared", "plain", "texts")]
    done = subprocess.run(
        [sys.executable, "-c", BOUNDED, *names],
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr[-2000:]
    lines = done.stdout.splitlines()
    assert lines[0] == "read 600", "rows that share an image share its memory"
    assert lines[1].startswith("refused") and "Parquet table" in lines[1]
    assert lines[2].startswith(("read", "refused")), lines


def test_a_parquet_table_is_read_by_row_group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pyarrow: Any = pytest.importorskip("pyarrow")
    parquet: Any = pytest.importorskip("pyarrow.parquet")
    from unseen.data.sources import table as source

    columns = {
        "image": [{"bytes": png(2 * i), "path": f"{i}.png"} for i in range(100)],
        "label": [f"c{i % 4}" for i in range(100)],
        "caption": ["never read"] * 100,
        "part": ["train" if i % 5 else "test" for i in range(100)],
    }
    parquet.write_table(pyarrow.table(columns), tmp_path / "t.parquet", row_group_size=9)
    monkeypatch.setattr(source, "try_reader", lambda *_, **__: None)
    monkeypatch.setattr(source, "_CACHE_BYTES", 0)
    reads: list[tuple[str, int]] = []
    original = source._ParquetFile._read
    monkeypatch.setattr(source._ParquetFile, "_read", lambda self, c, g: reads.append((c, g)) or original(self, c, g))
    data = load_dataset(f"parquet:{tmp_path}/t.parquet?split=part&label=label")
    assert (len(data.split("train")), len(data.split("test"))) == (80, 20)
    assert {column for column, _ in reads} == {"image", "label", "part"}
    reads.clear()
    test = data.split("test")
    shades = [np.asarray(test.open(i).convert("RGB"))[0, 0, 0] for i in range(len(test))]
    assert shades == [2 * i for i in range(100) if not i % 5]
    assert len(reads) <= 13, "each row group is read once, in order"


def test_a_list_with_a_zero_byte(tmp_path: Path) -> None:
    (tmp_path / "photos" / "a").mkdir(parents=True)
    (tmp_path / "photos" / "a" / "i.png").write_bytes(png(1))
    for line in ("a/i\0.png 0", "a/i.png 0\nb/\0.png 1", f"a/i.png {'9' * 5000}", "a/i.png -99999999999999999999"):
        (tmp_path / "list.txt").write_text(f"{line}\n")
        with pytest.raises(UnseenError) as found:
            load_dataset(f"csv:{tmp_path}/list.txt?root={tmp_path}/photos")
        assert len(str(found.value)) < 600


def test_a_label_of_five_thousand_digits_in_a_shard(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "s.tar", "w") as tar:
        for i in range(4):
            for ending, content in (("png", png(i)), ("cls", b"9" * 5000 if i == 2 else b"1")):
                member = tarfile.TarInfo(f"{i}.{ending}")
                member.size = len(content)
                tar.addfile(member, io.BytesIO(content))
    with pytest.raises(UnseenError) as found:
        load_dataset(f"wds:{tmp_path}/s.tar")
    assert len(str(found.value)) < 600


@pytest.mark.parametrize("method", [zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2, zipfile.ZIP_DEFLATED])
def test_a_damaged_member_of_an_archive_costs_one_image(method: int, tmp_path: Path) -> None:
    path = tmp_path / "p.zip"
    with zipfile.ZipFile(path, "w", method) as archive:
        for i in range(8):
            archive.writestr(f"c{i % 2}/{i}.png", png(i) + bytes(200))
        start = archive.getinfo("c0/0.png").header_offset + 38
    content = bytearray(path.read_bytes())
    content[start + 20 : start + 40] = b"\xff" * 20
    path.write_bytes(content)
    data = load_dataset(f"zip:{path}?test=0").split("train")
    failed = 0
    for i in range(len(data)):
        try:
            data.open(i).load()
        except (UnseenError, OSError) as error:
            assert not isinstance(error, lzma.LZMAError)
            failed += 1
    assert failed == 1


def test_a_dataset_of_one_class_is_refused_by_name(
    tmp_path: Path, small_model: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "photos" / "only").mkdir(parents=True)
    for i in range(6):
        (tmp_path / "photos" / "only" / f"{i}.png").write_bytes(png(9 * i))
    code = main(["probe", str(tmp_path / "photos"), "--models", small_model, "--home", str(tmp_path / "home")])
    printed = capsys.readouterr()
    assert code in (2, 3)
    assert "np.int64" not in printed.out + printed.err and "only" in printed.out + printed.err
    assert "2 cells evaluated" not in printed.out


# ---- models --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def vit(tmp_path_factory: pytest.TempPathFactory) -> Path:
    ensure_torchvision()
    transformers: Any = pytest.importorskip("transformers")
    folder = tmp_path_factory.mktemp("vit")
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
    transformers.ViTModel(transformers.ViTConfig(**sizes, image_size=64, patch_size=16)).save_pretrained(folder)
    transformers.ViTImageProcessor(size={"height": 64, "width": 64}).save_pretrained(folder)
    return folder


def changed(vit: Path, folder: Path, **changes: object) -> Path:
    shutil.copytree(vit, folder)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | changes))
    return folder


@pytest.mark.parametrize(
    "entry",
    [
        {"_attn_implementation": "kernels-community/flash-attn"},
        {"_attn_implementation": "flash_attention_2"},  # transformers replaces it by a kernel of the hub
        {"attn_implementation": {"": "eager", "vision_config": "someone/kernel@main:forward"}},
        {"vision_config": {"_attn_implementation_internal": "someone/kernel"}},
        {"_experts_implementation": "someone/experts"},
        {"use_kernels": True},
    ],
)
def test_kernels_of_the_hub_need_consent(
    entry: dict[str, object], vit: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = changed(vit, tmp_path / "model", **entry)
    monkeypatch.setattr(hf, "try_isolated", lambda *_, **__: pytest.fail("the network must not be built"))
    with pytest.raises(BackboneError, match=r"names code of the hub .*trust_remote_code=true"):
        load_backbone(f"transformers:{folder}")


def test_hub_kernels_are_off_before_transformers_is_imported(vit: Path) -> None:
    code = "import os\nfrom unseen.backbones.sources.hf import _transformers\n_transformers()\n"
    code += "from transformers.integrations import hub_kernels\nprint(hub_kernels._kernels_enabled)"
    environment = {key: value for key, value in os.environ.items() if key != "USE_HUB_KERNELS"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    assert done.stdout.strip() == "False", done.stderr[-1000:]


def test_code_of_a_folder_runs_only_with_consent(vit: Path, tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    folder = changed(vit, tmp_path / "model", model_type="own", auto_map={"AutoConfig": "own.C", "AutoModel": "own.M"})
    (folder / "own.py").write_text(f"open({str(mark)!r}, 'w')\nraise ImportError('stop')\n")
    with pytest.raises(BackboneError, match=r"could not be loaded|cannot be read"):
        load_backbone(f"transformers:{folder}")
    assert not mark.exists()


def test_a_pickle_with_code_in_a_transformers_folder_is_refused(vit: Path, tmp_path: Path) -> None:
    mark = tmp_path / "ran"

    class Gadget:
        def __reduce__(self) -> tuple[Any, ...]:
            return (Path.touch, (mark,))

    folder = changed(vit, tmp_path / "model")
    (folder / "model.safetensors").unlink()
    (folder / "pytorch_model.bin").write_bytes(pickle.dumps(Gadget()))
    with pytest.raises(BackboneError):
        load_backbone(f"transformers:{folder}")
    assert not mark.exists()


@linux
@pytest.mark.slow
@pytest.mark.parametrize(
    "entry", [{"image_size": 100_000}, {"num_hidden_layers": 1_000_000}, {"hidden_size": 2**20}, {"patch_size": 0}]
)
def test_a_network_that_is_larger_than_its_weights_is_not_built(
    entry: dict[str, object], vit: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """463 bytes of configuration took 12.2 GB, or more than 40 CPU seconds."""
    monkeypatch.setattr(isolate.Trial.__init__, "__defaults__", (0, 2))  # written bytes, seconds of CPU time
    folder = changed(vit, tmp_path / "model", **entry)
    with pytest.raises(BackboneError) as found:
        load_backbone(f"transformers:{folder}")
    assert "\n" not in str(found.value)


def test_sizes_of_a_configuration_are_compared_with_the_weights(vit: Path, tmp_path: Path) -> None:
    hf.check_network(str(vit))
    folder = changed(vit, tmp_path / "model", intermediate_size=2_000_000)
    with pytest.raises(CheckpointError, match=r"describes 260,.* parameters, and its weights hold 4"):
        hf.check_network(str(folder))


def test_an_open_clip_network_that_is_larger_than_its_weights_is_not_built(tmp_path: Path) -> None:
    """One number of the configuration took 1 GB within seconds, and would have taken all memory."""
    ensure_torchvision()
    library: Any = pytest.importorskip("open_clip")
    sizes: dict[str, Any] = {"image_size": 32, "layers": 1, "width": 32, "head_width": 16, "patch_size": 16}
    words = {"context_length": 8, "vocab_size": 60, "width": 32, "heads": 2, "layers": 1}
    config = {"embed_dim": 16, "vision_cfg": sizes, "text_cfg": words}
    state = {name: tensor.contiguous() for name, tensor in library.model.CLIP(**config).state_dict().items()}
    safetensors.torch.save_file(state, tmp_path / "open_clip_model.safetensors")

    def write() -> None:
        text = json.dumps({"model_cfg": config, "preprocess_cfg": {}})
        (tmp_path / "open_clip_config.json").write_text(text)

    write()
    open_clip.check_network(str(tmp_path))
    sizes["width"] = 3200
    write()
    with pytest.raises(CheckpointError, match=r"describes 12.,.* parameters, and its weights hold"):
        open_clip.check_network(str(tmp_path))
    with pytest.raises(BackboneError, match="describes 12"):
        load_backbone(f"open_clip:{tmp_path}")


def make_graph(path: Path, nodes: list[Any], shape: list[Any], kind: int = 1, initial: tuple[Any, ...] = ()) -> Path:
    onnx: Any = pytest.importorskip("onnx")
    from onnx import helper

    inputs = [helper.make_tensor_value_info("x", kind, shape)] if shape else []
    outputs = [helper.make_tensor_value_info("y", 1, None)]
    made = helper.make_graph(nodes, "g", inputs, outputs, list(initial))
    onnx.save_model(helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), str(path))
    return path


@linux
@pytest.mark.parametrize(
    ("case", "message"),
    [
        ("memory", "cannot be read as an ONNX graph"),
        ("no input", "takes no input"),
        ("bytes", r"takes tensor\(uint8\)"),
        ("sides", "at most 4,096 pixels a side"),
        pytest.param("loop", "more than 2 s of CPU time", marks=pytest.mark.slow),
    ],
)
def test_graphs_are_run_within_limits(case: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("onnx")
    if case == "loop":
        monkeypatch.setattr(isolate.Trial.__init__, "__defaults__", (0, 2))  # written bytes, seconds of CPU time
    from onnx import TensorProto, helper

    def constant(name: str, kind: int, values: list[int]) -> Any:
        return helper.make_tensor(name, kind, [len(values)] if len(values) > 1 else [], values)

    flat = helper.make_node("Flatten", ["x"], ["y"])
    path, images = tmp_path / "m.onnx", ["n", 3, 16, 16]
    if case == "memory":
        filled = helper.make_node("ConstantOfShape", ["size"], ["big"])
        added = helper.make_node("ReduceSum", ["big"], ["sum"], keepdims=0)
        nodes = [
            filled,
            added,
            helper.make_node("Flatten", ["x"], ["flat"]),
            helper.make_node("Add", ["flat", "sum"], ["y"]),
        ]
        make_graph(path, nodes, images, initial=(constant("size", TensorProto.INT64, [2**16, 2**15]),))
    elif case == "no input":
        make_graph(path, [helper.make_node("Constant", [], ["y"], value_float=1.0)], [])
    elif case == "bytes":
        nodes = [helper.make_node("Cast", ["x"], ["f"], to=1), helper.make_node("Flatten", ["f"], ["y"])]
        make_graph(path, nodes, images, TensorProto.UINT8)
    elif case == "sides":
        make_graph(path, [flat], ["n", 3, 10**6, 10**6])
    else:
        more = helper.make_tensor_value_info("more", TensorProto.BOOL, [])
        body = helper.make_graph(
            [helper.make_node("Identity", ["go"], ["more"]), helper.make_node("Identity", ["old"], ["new"])],
            "body",
            [
                helper.make_tensor_value_info("i", TensorProto.INT64, []),
                helper.make_tensor_value_info("go", TensorProto.BOOL, []),
                helper.make_tensor_value_info("old", 1, None),
            ],
            [more, helper.make_tensor_value_info("new", 1, None)],
        )
        nodes = [
            helper.make_node("Flatten", ["x"], ["flat"]),
            helper.make_node("Loop", ["count", "", "flat"], ["y"], body=body),
        ]
        make_graph(path, nodes, images, initial=(constant("count", TensorProto.INT64, [2**62]),))
    with pytest.raises(CheckpointError, match=message) as found:
        load_backbone(path)
    assert "\n" not in str(found.value)


def test_repositories_of_the_network_need_consent(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    monkeypatch.setattr(torch.hub, "load", lambda *_, **__: pytest.fail("nothing may be fetched"))
    for name in ("torchhub:owner/repository/model", "torchhub:owner/repository/model?trust_remote_code=false"):
        with pytest.raises(BackboneError, match="trust_remote_code=true"):
            load_backbone(name)
        with pytest.raises(BackboneError, match="trust_remote_code=true"):
            check_backbone(name)
    check_backbone("torchhub:owner/repository/model?trust_remote_code=true")


# ---- results -------------------------------------------------------------------------------------------------------


def test_csv_on_a_terminal_has_no_escape_sequences(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    name = "\x1b]0;owned\x07\x9b31mx\u202e"
    with ResultsDatabase(tmp_path / FILE_NAME) as database:
        database.append("s", Result(Cell("probe", name, "d", {"seed": 1}), {"top1": 0.5}))
    for words in (["--csv", "-"], ["--json"]):
        monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
        main(["results", "--home", str(tmp_path), *words])
        out = capsys.readouterr().out
        assert not {"\x1b", "\x07", "\x9b", "\u202e"} & set(out) and "owned" in out
    main(["results", "--home", str(tmp_path), "--csv", str(tmp_path / "all.csv")])
    assert name in (tmp_path / "all.csv").read_text(), "a file keeps the name exactly"


def test_a_row_without_its_parameters_stops_no_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with ResultsDatabase(tmp_path / FILE_NAME) as database:
        database.append("s", Result(Cell("rank", "m", "d", {}), {"score": 0.5}))
        database.append("s", Result(Cell("probe", "m", "d", {"seed": 1}), {"top1": 0.5}))
    for words in (["report"], ["leaderboard"], ["results"]):
        assert main([*words, "--home", str(tmp_path)]) in (0, 2)
        assert "Traceback" not in capsys.readouterr().err


# ---- what SECURITY.md states -----------------------------------------------------------------------------------------


def stated() -> dict[tuple[str, str], dict[str, str]]:
    """The table of SECURITY.md, by kind and scheme."""
    text = (Path(__file__).parents[1] / "SECURITY.md").read_text(encoding="utf-8")
    lines = text.partition("| scheme |")[2].partition("\n\n")[0].splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]
    return {
        (kind, scheme.strip("`:")): {"reads": reads, "downloads": down, "code": code}
        for scheme, kind, reads, down, code in rows
    }


def sources() -> dict[tuple[str, str], Any]:
    found = {("model", scheme): BACKBONES.get(scheme) for scheme in BACKBONES}
    found |= {("dataset", scheme): SOURCES.get(scheme) for scheme in SOURCES}
    return {place: source for place, source in found.items() if type(source).__module__.startswith("unseen.")}


#: Schemes whose module also holds another scheme: their class alone counts.
SHARED = (("dataset", "csv"),)


#: Words in a source that reads files in a process with limits.
READERS = (
    *("try_isolated", "try_reader", "load_plain_pickle", "load_variables", "read_matlab"),
    *("onnx_files", "hdf5_shapes", "open_hdf5"),
)


def source_text(place: tuple[str, str]) -> str:
    kind = type(sources()[place])
    if place in SHARED:
        return inspect.getsource(kind)
    module = Path(inspect.getfile(kind))
    files = module.parent.glob("*.py") if module.parent.parent.name == "sources" else [module]
    return "\n".join(path.read_text(encoding="utf-8") for path in files)


def test_security_md_lists_every_scheme() -> None:
    assert set(stated()) == set(sources())


@pytest.mark.parametrize("place", sorted(stated()), ids="-".join)
def test_each_scheme_does_what_security_md_states(place: tuple[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    row, text = stated()[place], source_text(place)
    assert ("trust_remote_code" in text) == ("trust_remote_code" in row["code"])
    isolated = any(word in text for word in READERS)
    assert isolated == ("process" in row["reads"])
    connected: list[object] = []

    def refuse(*arguments: object, **_: object) -> None:
        connected.append(arguments)
        raise OSError("no network")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "create_connection", refuse)
    if row["downloads"] != "yes":
        load = load_backbone if place[0] == "model" else load_dataset
        with pytest.raises(UnseenError):
            load(f"{place[1]}:no/such/thing")
        assert not connected
