"""Public entry points that read files of users, from the registries, with valid examples by the libraries in use.

An entry point is a model source, a dataset source, an option that takes a file, a results file or a study. `covered`
lists those that are fuzzed, `EXEMPT` those that read no file of a user, with the reason; `tests/test_fuzz.py` compares
both with the registries, so that a new source or option needs an example here.
"""

from __future__ import annotations

import dataclasses
import io
import json
import os
import random
import sqlite3
import tarfile
import tempfile
import zipfile
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from scipy.io import savemat
from tools.fuzz.doors import PHOTOS, _images
from tools.fuzz.mutations import NUMBERS, Damage, blind, matlab, opcodes, text, tree, zipped
from tools.fuzz.runner import Reader

#: Sources that read no file of a user.
EXEMPT = {
    "model packaged": "files of installed packages",
    "model timm": "names of timm; weights come from its cache",
    "model torchvision": "names of torchvision; weights come from its cache",
    "model random": "no files",
    "model object": "objects of the process",
    "model features": "a name for features of a dataset; there is no model to load",
    "model xlsa17": "a name for published features; there is no model to load",
    "model hf": "the code of `transformers:`, after a download",
    "model torchhub": "runs code, which is what it is for; see SECURITY.md",
    "dataset packaged": "files of installed packages",
    "dataset procedural": "no files",
    "dataset object": "objects of the process",
}


def registered() -> set[str]:
    """Return the name of every public entry point that may read files."""
    from unseen.backbones.load import BACKBONES
    from unseen.benchmarks import BENCHMARKS
    from unseen.data.load import SOURCES

    found = {f"model {scheme}" for scheme in BACKBONES if _is_own(BACKBONES.get(scheme))}
    found |= {f"dataset {scheme}" for scheme in SOURCES if _is_own(SOURCES.get(scheme))}
    for name in BENCHMARKS:
        kind: Any = BENCHMARKS.get(name)
        if kind.__module__.startswith("unseen."):
            options = dataclasses.fields(kind)
            found |= {f"option {name}.{option.name}" for option in options if option.metadata.get("file")}
    return found | {"study", "results database"}


def _is_own(source: object) -> bool:
    return type(source).__module__.startswith("unseen.")


def covered() -> set[str]:
    """Return the entry points that have an example."""
    return {reader.entry for reader in entry_points()}


def entry_points(wanted: Collection[str] = ()) -> Iterator[Reader]:
    """Yield every entry point, or those with certain names, once for each form of its files."""
    families: dict[Callable[[], Iterable[Reader]], str] = {
        _tables: "dataset csv, dataset parquet",
        _hugging_face: "dataset hf",
        _archives: "dataset zip, dataset wds",
        _folders: "dataset folder",
        _published: "dataset imagenet, dataset vtab, dataset xlsa17, dataset features",
        _checkpoints: "model file, model cog",
        _graphs: "model onnx",
        _transformers: "model transformers",
        _open_clip: "model open_clip",
        _options: "option ",
        _records: "results database, study",
    }
    for family, names in families.items():
        if not wanted or any(name.startswith(tuple(names.split(", "))) for name in wanted):
            yield from family()


def _reader(
    entry: str,
    form: str,
    files: dict[str, bytes],
    read: Callable[[Path], object],
    also: Sequence[bytes] = (),
    **damages: Damage,
) -> Reader:
    """Return a reader; damages are given by the start of a file's name, with `_` for `.` and `/`."""
    by_file = {name: damages[_word(name, damages)] for name in files if _word(name, damages)}
    return Reader(f"{entry}, {form}" if form else entry, files, read, blind, entry, by_file, also)


def _word(name: str, damages: dict[str, Damage]) -> str:
    flat = name.replace(".", "_").replace("/", "_").replace("-", "_")
    return next((word for word in damages if flat.startswith(word)), "")


def _tables() -> list[Reader]:
    import pyarrow
    import pyarrow.parquet

    rows = [f"{name},{name.split('/')[0]}" for name in PHOTOS]
    csv = "\n".join(["image,label", *rows]).encode()
    bits = "\n".join(["image,red,blue", *(f"{name},{i % 2},1" for i, name in enumerate(PHOTOS))]).encode()
    numbers = "\n".join(["image,label", *(f"{name},{i + j}.5" for i, name in enumerate(PHOTOS) for j in range(6))])
    cells = {"image": [{"bytes": data, "path": None} for data in PHOTOS.values()], "label": [0, 0, 0, 1, 1, 1]}
    paths = {"image": list(PHOTOS), "label": ["a", "a", "a", "b", "b", "b"], "note": [[1], [], None, [2, 3], [4], [5]]}
    found = [
        _reader("dataset csv", form, {"t.csv": data, **PHOTOS}, _images("csv:t.csv"), t_csv=text)
        for form, data in (("classes", csv), ("several labels", bits), ("numbers", numbers.encode()))
    ]
    listed = "\n".join(f"{name} {name.split('/')[0]}" for name in PHOTOS).encode()
    lists = {"l.txt": listed, **{f"p/{name}": data for name, data in PHOTOS.items()}}
    found.append(_reader("dataset csv", "lists", lists, _images("csv:l.txt?test=l.txt&root=p"), l_txt=text))
    for form, columns, how in (
        ("bytes", cells, {"compression": "snappy"}),
        ("zstd", cells, {"compression": "zstd", "use_dictionary": False}),
        ("paths", paths, {"compression": "none", "row_group_size": 2}),
        ("gzip", paths, {"compression": "gzip", "data_page_version": "2.0"}),
    ):
        stream = io.BytesIO()
        pyarrow.parquet.write_table(pyarrow.table(columns), stream, **how)
        files = {"t.parquet": stream.getvalue(), **(PHOTOS if columns is paths else {})}
        found.append(_reader("dataset parquet", form, files, _images("parquet:t.parquet"), t_parquet=blind))
    return found


def _hugging_face() -> list[Reader]:
    import datasets

    datasets.disable_progress_bars()
    data = datasets.Dataset.from_dict(
        {"image": [{"bytes": d, "path": None} for d in PHOTOS.values()], "label": [i % 2 for i in range(len(PHOTOS))]}
    )
    kinds = datasets.Features({"image": datasets.Image(), "label": datasets.ClassLabel(names=["a", "b"])})
    plain = datasets.Dataset.from_dict({"image": list(PHOTOS.values()), "label": [f"class {i % 2}" for i in range(6)]})
    found = []
    for form, made in (("class labels", data.cast(kinds)), ("texts", plain)):
        with tempfile.TemporaryDirectory() as folder:
            made.save_to_disk(folder)
            files = {f"d/{path.name}": path.read_bytes() for path in Path(folder).iterdir()}
        reader = _images("hf:d?label=label&image=image")
        found.append(_reader("dataset hf", form, files, reader, d_data=blind, d_state=tree, d_dataset_info=tree))
    return found


def _archives() -> list[Reader]:
    found = []
    for form, method in (("stored", 0), ("deflate", 8), ("bzip2", 12), ("lzma", 14)):
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w", method) as archive:
            for name, data in PHOTOS.items():
                archive.writestr(name, data)
        files = {"p.zip": packed.getvalue()}
        found.append(
            _reader("dataset zip", form, files, _images("zip:p.zip"), p_zip=zipped(blind) if method else blind)
        )
    for form, ending in (("cls", "cls"), ("json", "json"), ("txt", "txt")):
        shard = io.BytesIO()
        with tarfile.open(fileobj=shard, mode="w") as tar:
            for i, data in enumerate(PHOTOS.values()):
                label = json.dumps({"label": i % 2}) if ending == "json" else str(i % 2)
                for kind, content in (("png", data), (ending, label.encode())):
                    member = tarfile.TarInfo(f"{i:04d}.{kind}")
                    member.size = len(content)
                    tar.addfile(member, io.BytesIO(content))
        found.append(_reader("dataset wds", form, {"s.tar": shard.getvalue()}, _images("wds:s.tar"), s_tar=_tar))
    return found


def _tar(data: bytes, rng: random.Random) -> bytes:
    """Damage the content of one member of a tar file, or the file."""
    if rng.random() < 0.5:
        return blind(data, rng)
    stream = io.BytesIO()
    with tarfile.open(fileobj=io.BytesIO(data)) as old, tarfile.open(fileobj=stream, mode="w") as new:
        members = old.getmembers()
        chosen = rng.randrange(len(members))
        for i, member in enumerate(members):
            content = old.extractfile(member).read()  # type: ignore[union-attr]
            if i == chosen:
                content = text(content, rng) if not member.name.endswith("png") else blind(content, rng)
            made = tarfile.TarInfo(member.name)
            made.size = len(content)
            new.addfile(made, io.BytesIO(content))
    return stream.getvalue()


def _folders() -> list[Reader]:
    inside = {f"p/{name}": data for name, data in PHOTOS.items()}
    wnids = b"cat\tn02121620\ndog\tn02084071\n"
    return [
        _reader("dataset folder", "images", inside, _images("folder:p?test=0.34"), p_=blind),
        _reader(
            "dataset folder",
            "wnids",
            {"p/w.tsv": wnids, **inside},
            _images("folder:p?wnids=w.tsv&test=0.34"),
            p_w_tsv=text,
        ),
    ]


def _published() -> list[Reader]:
    """Files that authors of benchmarks publish."""
    return [_imagenet(), _vtab(), *_xlsa17(), *_features()]


def _features() -> Iterator[Reader]:
    """Features of a user, with their labels."""
    import h5py

    rng = np.random.default_rng(0)
    arrays = {
        "features": rng.normal(size=(12, 5)).astype(np.float32),
        "labels": np.arange(12) % 3,
        "class_names": np.array(["cat", "dog", "emu"]),
        "attributes": rng.random((3, 4)),
        "split": np.array(["train", "test"] * 6),
    }
    packed, compressed, single = io.BytesIO(), io.BytesIO(), io.BytesIO()
    np.savez(packed, **arrays)
    np.savez_compressed(compressed, **arrays)
    np.save(single, arrays["features"])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.h5"
        with h5py.File(path, "w") as file:
            for name, value in arrays.items():
                file[name] = value if value.dtype.kind != "U" else value.astype(object)
        hdf5 = path.read_bytes()
    labels = "\n".join(["a", "b", "c"] * 4).encode()
    for form, files, name in (
        ("npz", {"x.npz": packed.getvalue()}, "x.npz"),
        ("compressed npz", {"x.npz": compressed.getvalue()}, "x.npz"),
        ("HDF5", {"x.h5": hdf5}, "x.h5"),
        ("npy", {"x.npy": single.getvalue(), "l.txt": labels}, "x.npy?labels=l.txt"),
    ):
        zips = zipped(blind) if form.endswith("npz") else blind
        yield _reader("dataset features", form, files, _given(f"features:{name}"), x_=zips, l_txt=text)


def _given(name: str) -> Callable[[Path], object]:
    def read(folder: Path) -> object:
        from unseen.data import load_dataset

        os.chdir(folder)
        found: Any = load_dataset(name)
        return [function() for function in found.given_features.values()]

    return read


def _imagenet() -> Reader:
    wnids = [f"n{i:08d}" for i in range(1, 5)]
    files = {f"i/{wnid}/{wnid}_{i}.png": data for wnid in wnids for i, data in enumerate(list(PHOTOS.values())[:4])}
    levels = json.dumps({"l1": wnids[:2], "l2": wnids[2:]}).encode()
    lists = json.dumps({w: {"train": [f"{w}_0", f"{w}_1"], "test": [f"{w}_2", f"{w}_3"]} for w in wnids}).encode()
    read = _images("imagenet:cog-l1?root=i&levels=l.json&train=2&test=1&min=1")
    return _reader("dataset imagenet", "", {"l.json": levels, "s.json": lists, **files}, read, l_json=tree, i_n=blind)


def _vtab() -> Reader:
    """The folder of VTAB-1k: three lists and their images."""
    first, files = 0, {}
    for name, count in (("train800.txt", 800), ("val200.txt", 200), ("test.txt", 6)):
        lines = [f"images/{i}.png {i % 10}" for i in range(first, first + count)]
        files[f"v/eurosat/{name}"] = "\n".join(lines).encode()
        first += count
    photos = list(PHOTOS.values())
    files |= {f"v/eurosat/images/{i}.png": photos[i % 6] for i in range(first)}
    lists = {"v_eurosat_t": text, "v_eurosat_v": text, "v_eurosat_images_0": blind}
    return _reader("dataset vtab", "", files, _few_images("vtab:eurosat?root=v"), **lists)


def _few_images(name: str) -> Callable[[Path], object]:
    def read(folder: Path) -> object:
        from unseen.core.errors import UnseenError
        from unseen.data import decode_rgb, load_dataset

        os.chdir(folder)
        dataset = load_dataset(name)
        for split in dataset.splits:
            images = dataset.split(split)
            for i in range(min(6, len(images))):
                try:
                    decode_rgb(images.open(i))
                except (UnseenError, OSError):
                    continue
        return dataset

    return read


def _xlsa17() -> Iterator[Reader]:
    rng = np.random.default_rng(0)
    classes = 50
    labels = np.repeat(np.arange(1, classes + 1), 4).reshape(-1, 1)
    where = np.arange(1, len(labels) + 1)
    seen = labels[:, 0] <= 40
    names = np.array([[f"class+{i:02d}"] for i in range(classes)], dtype=object)
    splits = {
        "att": rng.random((7, classes)),
        "original_att": rng.random((7, classes)),
        "allclasses_names": names,
        "trainval_loc": where[seen][::2].reshape(-1, 1),
        "train_loc": where[seen][::4].reshape(-1, 1),
        "val_loc": where[seen][2::4].reshape(-1, 1),
        "test_seen_loc": where[seen][1::2].reshape(-1, 1),
        "test_unseen_loc": where[~seen].reshape(-1, 1),
    }
    features = {
        "features": rng.random((9, len(labels))),
        "labels": labels,
        "image_files": np.array([[f"/x/JPEGImages/{i}.jpg"] for i in range(len(labels))], dtype=object),
    }
    folder = {"AWA2/trainclasses1.txt": "\n".join(n[0] for n in names[:30]).encode()}
    folder["AWA2/valclasses1.txt"] = "\n".join(n[0] for n in names[30:40]).encode()
    folder["AWA2/trainvalclasses.txt"] = "\n".join(n[0] for n in names[:40]).encode()
    folder["AWA2/testclasses.txt"] = "\n".join(n[0] for n in names[40:]).encode()
    for fold in (2, 3):
        folder |= {f"AWA2/{kind}classes{fold}.txt": folder[f"AWA2/{kind}classes1.txt"] for kind in ("train", "val")}

    def read(place: Path) -> object:
        from unseen.data import load_dataset

        os.chdir(place)
        found: Any = load_dataset("xlsa17:AWA2?root=.")
        return [function() for function in found.given_features.values()]

    for form, packed in (("plain", False), ("compressed", True)):
        files = dict(folder)
        for name, values in (("att_splits", splits), ("res101", features)):
            stream = io.BytesIO()
            savemat(stream, values, do_compression=packed)
            files[f"AWA2/{name}.mat"] = stream.getvalue()
        yield _reader("dataset xlsa17", form, files, read, AWA2_att=matlab, AWA2_res=matlab, AWA2_t=text, AWA2_v=text)
    yield _reader("dataset xlsa17", "HDF5", {**files, "AWA2/res101.mat": _hdf5(features)}, read, AWA2_res=blind)


def _hdf5(features: dict[str, Any]) -> bytes:
    import h5py

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.mat"
        with h5py.File(path, "w") as file:
            file["features"], file["labels"] = features["features"].T, features["labels"].T
            files = features["image_files"][:, 0]
            cells = file.create_dataset("image_files", (1, len(files)), dtype=h5py.ref_dtype)
            for i, name in enumerate(files):
                codes = np.array([[ord(c)] for c in name], np.uint16)
                cells[0, i] = file.create_dataset(f"#refs#/{i}", data=codes).ref
        return path.read_bytes()


def _load(name: str) -> Callable[[Path], object]:
    def read(folder: Path) -> object:
        from unseen.backbones import backbone_revision, check_backbone, load_backbone

        os.chdir(folder)
        check_backbone(name)
        backbone_revision(name)
        return load_backbone(name).feature_dim

    return read


def _checkpoints() -> list[Reader]:
    import torch
    from safetensors.torch import save

    network = _small_network()
    from unseen.backbones import load_backbone

    state = OrderedDict(load_backbone(f"random:{network}?size=32").module.state_dict())
    zip_file, legacy, cog = io.BytesIO(), io.BytesIO(), io.BytesIO()
    torch.save({"state_dict": state, "epoch": 3}, zip_file)
    torch.save({"state_dict": state}, legacy, _use_new_zipfile_serialization=False)
    read = _load(f"file:x.pth?arch=timm:{network}&size=32")
    tensors = _load(f"file:x.safetensors?arch=timm:{network}&size=32")
    encoder = {f"module.encoder_q.{key}": value for key, value in state.items() if not key.startswith("head.")}
    torch.save({"state_dict": encoder}, cog)
    return [
        _reader("model file", "zip", {"x.pth": zip_file.getvalue()}, read, x_pth=zipped(opcodes)),
        _reader("model file", "legacy", {"x.pth": legacy.getvalue()}, read, x_pth=opcodes),
        _reader("model file", "safetensors", {"x.safetensors": save(dict(state))}, tensors, x_safe=_header),
        _reader("model cog", "", {"x.pth": cog.getvalue()}, _read_cog, x_pth=zipped(opcodes)),
    ]


@cache
def _small_network() -> str:
    """Register a network of 24 tensors with timm, so that an input takes milliseconds; return its name."""
    from unseen.backbones.sources.timm import _registered
    from unseen.core.extras import ensure_torchvision

    ensure_torchvision()
    import timm

    def fuzzed_vit(pretrained: bool = False, num_classes: int = 5, **_: Any) -> Any:
        made = timm.models.VisionTransformer(32, 16, num_classes=num_classes, embed_dim=16, depth=1, num_heads=2)
        made.pretrained_cfg = {"input_size": (3, 32, 32), "num_classes": num_classes, "classifier": "head"}
        return made

    timm.models.register_model(fuzzed_vit)
    _registered().append("fuzzed_vit")  # else all names of timm are sorted for each input
    return fuzzed_vit.__name__


def _read_cog(folder: Path) -> object:
    from unittest.mock import patch

    from unseen.backbones import load_backbone
    from unseen.backbones.cog import architectures
    from unseen.backbones.sources.timm import create_timm

    def small(name: str, num_classes: int) -> Any:  # a ResNet-50 takes half a second to build
        return create_timm("fuzzed_vit", num_classes=num_classes)

    with patch.object(architectures, "create_timm", small):
        return load_backbone(f"cog:s-moco-v2?weights={folder / 'x.pth'}")


def _header(data: bytes, rng: random.Random) -> bytes:
    """Change a value in the header of a safetensors file, with the right length."""
    if rng.random() < 0.4:
        return blind(data, rng)
    length = int.from_bytes(data[:8], "little")
    header = tree(data[8 : 8 + length], rng)
    return len(header).to_bytes(8, "little") + header + data[8 + length :]


def _graphs() -> list[Reader]:
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    rng = np.random.default_rng(0)
    weight = numpy_helper.from_array(rng.normal(size=(4, 3, 3, 3)).astype(np.float32), "w")
    size = numpy_helper.from_array(np.array([2, 4]), "size")
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1], strides=[2, 2]),
        helper.make_node("GlobalAveragePool", ["c"], ["p"]),
        helper.make_node("Flatten", ["p"], ["f"]),
        helper.make_node("ConstantOfShape", ["size"], ["z"]),
        helper.make_node("ReduceSum", ["z"], ["s"], keepdims=0),
        helper.make_node("Add", ["f", "s"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3, 16, 16])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 4])],
        [weight, size],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "m.onnx"
        onnx.save_model(model, str(path), save_as_external_data=True, location="m.data", size_threshold=100)
        outside = {name: (Path(folder) / name).read_bytes() for name in ("m.onnx", "m.data")}
    inside = {
        "m.onnx": helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9
        ).SerializeToString()
    }
    read = _load("onnx:m.onnx")
    return [
        _reader("model onnx", "", inside, read, m_onnx=_graph_fields),
        _reader("model onnx", "external data", outside, read, m_onnx=_graph_fields, m_data=blind),
    ]


def _graph_fields(data: bytes, rng: random.Random) -> bytes:
    """Change sizes, attributes, operators or edges of an ONNX graph."""
    import onnx

    if rng.random() < 0.4:
        return blind(data, rng)
    model = onnx.load_model_from_string(data)
    graph = model.graph
    kind = rng.randrange(6)
    number = rng.choice(NUMBERS)
    if kind == 0 and graph.initializer:
        chosen: Any = rng.choice(graph.initializer)
        if chosen.dims:
            chosen.dims[rng.randrange(len(chosen.dims))] = number
    elif kind == 1:
        chosen = rng.choice([*graph.input, *graph.output])
        sizes = chosen.type.tensor_type.shape.dim
        sizes[rng.randrange(len(sizes))].dim_value = number
    elif kind == 2:
        chosen = rng.choice([node for node in graph.node if node.attribute])
        attribute = rng.choice(chosen.attribute)
        attribute.i = number
        if attribute.ints:
            attribute.ints[rng.randrange(len(attribute.ints))] = number
    elif kind == 3:
        rng.choice(graph.node).op_type = rng.choice(("Relu", "MatMul", "Expand", "Tile", "Loop", "Resize", "Pad", "X"))
    elif kind == 4:
        chosen = rng.choice(graph.node)
        chosen.input[rng.randrange(len(chosen.input))] = rng.choice(("", "x", "y", "w", "size", "nothing"))
    else:
        chosen = next((each for each in graph.initializer if each.name == "size"), graph.initializer[0])
        chosen.raw_data = np.array([number, rng.choice(NUMBERS)], np.int64).tobytes()
    return bytes(model.SerializeToString())


def _transformers() -> list[Reader]:
    from unseen.core.extras import ensure_torchvision

    ensure_torchvision()
    os.environ.setdefault("USE_HUB_KERNELS", "0")
    import transformers

    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    small = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    vit = transformers.ViTModel(transformers.ViTConfig(**small, image_size=32, patch_size=16))
    sizes = {"embedding_size": 4, "hidden_sizes": [4, 8], "depths": [1, 1]}
    resnet = transformers.ResNetModel(transformers.ResNetConfig(**sizes))
    found = []
    for form, model, processor in (
        ("ViT", vit, transformers.ViTImageProcessor(size={"height": 32, "width": 32})),
        ("ResNet", resnet, transformers.ConvNextImageProcessor(size={"shortest_edge": 32}, crop_pct=0.875)),
    ):
        with tempfile.TemporaryDirectory() as folder:
            model.save_pretrained(folder)
            processor.save_pretrained(folder)
            files = {f"m/{path.name}": path.read_bytes() for path in Path(folder).iterdir()}
        damages = {"m_config": tree, "m_model": _header, "m_pre": tree, "m_proc": tree}
        found.append(_reader("model transformers", form, files, _load("transformers:m"), **damages))
    return found


def _open_clip() -> list[Reader]:
    from safetensors.torch import save

    from unseen.core.extras import ensure_torchvision

    ensure_torchvision()
    import open_clip

    vision = {"image_size": 32, "layers": 1, "width": 32, "head_width": 16, "patch_size": 16}
    words = {"context_length": 8, "vocab_size": 60, "width": 32, "heads": 2, "layers": 1}
    config = {"model_cfg": {"embed_dim": 16, "vision_cfg": vision, "text_cfg": words}, "preprocess_cfg": {}}
    model = open_clip.model.CLIP(**config["model_cfg"])
    files = {
        "c/open_clip_config.json": json.dumps(config).encode(),
        "c/open_clip_model.safetensors": save({k: v.contiguous() for k, v in model.state_dict().items()}),
    }
    read = _load("open_clip:c")
    return [_reader("model open_clip", "", files, read, c_open_clip_config=tree, c_open_clip_model=_header)]


_WNIDS = {
    "cat": "n02121620", "dog": "n02084071", "bird": "n01503061", "fox": "n02118333", "owl": "n01621127",
    "horse": "n02374451",
}  # fmt: skip
#: Four classes of ImageNet-1K, which an ImageNet split trains on, and two others.
_TRAINED = {
    "cat": "n02123045", "dog": "n02084071", "bird": "n01530575", "fox": "n02118333", "owl": "n01622779",
    "horse": "n02389026",
}  # fmt: skip
_UNSEEN = json.dumps({"l1": [_WNIDS["fox"], _WNIDS["owl"]]}).encode()
_VECTORS = "\n".join(f"{name} {i} 1 0.5" for i, name in enumerate(_WNIDS)).encode()
_EDGES = "\n".join(["child,parent", *(f"{name},root" for name in (*_WNIDS, "car", "ship"))]).encode()
_SEEN = b"n02121620\nn02084071\n"
_CLASS_TEXTS = "\n".join(f"{name},a {name}" for name in _WNIDS).encode()
_DESCRIPTIONS = json.dumps({name: [f"an animal, {name}"] for name in _WNIDS}).encode()
_TWO: dict[str, Any] = {"levels": 1, "size": 2}

#: A valid file of each option, other options that it needs, and how it is damaged.
_OPTION_FILES: dict[str, tuple[str, bytes, dict[str, Any], Damage]] = {
    "clip.templates": ("t.txt", b"a photo of a {}\na {}.\n", {}, text),
    "zsl.templates": ("t.txt", b"a photo of a {}\na {}.\n", {"embedding": "prompts", "share": 0.34}, text),
    "zsl.split_file": ("l.txt", b"n02084071\nn02118333\n", {"split": "2-hops", "embedding": "wordnet"}, text),
    "zsl.split": ("s.txt", b"dog\nfox\n", {"embedding": "wordnet"}, text),
    "zsl.embedding": ("e.csv", "\n".join(f"{n},{i},1" for i, n in enumerate(_WNIDS)).encode(), {"share": 0.34}, text),
    "clip.class_names": ("n.csv", _CLASS_TEXTS, {}, text),
    "clip.descriptions": ("d.json", _DESCRIPTIONS, {}, tree),
    "zsl.class_names": ("n.csv", _CLASS_TEXTS, {"embedding": "prompts", "share": 0.34}, text),
    "zsl.descriptions": ("d.json", _DESCRIPTIONS, {"embedding": "prompts", "share": 0.34}, tree),
    "cog.seen": ("c.txt", _SEEN, _TWO, text),
    "cog.levels": ("l.json", _UNSEEN, {"seen": "seen.txt"}, tree),
    "cog.vectors": ("v.txt", _VECTORS, {"measure": "text", "seen": "seen.txt", **_TWO}, text),
    "cog.ontology": ("o.csv", _EDGES, {"seen": "own.txt", **_TWO}, text),
}
#: Contents whose reading lists the words of WordNet, which takes seconds once per process.
_ALSO = {"seen": (b"cat\nbull dog (animal)\n", b"houss cat\n")}


def _options() -> Iterator[Reader]:
    """Every option that takes a file; an option without an example raises a KeyError."""
    photos = list(PHOTOS.values())
    images = {f"p/{name}/{i}.png": photos[i] for name in _WNIDS for i in range(4)}
    for table, wnids in (("w", _WNIDS), ("k", _TRAINED)):
        images[f"p/{table}.tsv"] = "\n".join(map("\t".join, wnids.items())).encode()
    images |= {"own.txt": b"cat\ndog\n", "seen.txt": _SEEN}
    _shorten_wordnet()
    for entry in sorted(each for each in registered() if each.startswith("option ")):
        benchmark, _, option = entry.removeprefix("option ").partition(".")
        name, content, others, damage = _OPTION_FILES[f"{benchmark.partition('-')[0]}.{option}"]
        dataset = "folder:p?test=0.5" + {"ontology": "", "split_file": "&wnids=k.tsv"}.get(option, "&wnids=w.tsv")
        read = _check(benchmark, {option: name, **others}, dataset)
        also = _ALSO.get(option, ())
        yield _reader(entry, "", {name: content, **images}, read, also, **{name.replace(".", "_"): damage})


def _shorten_wordnet() -> None:
    """Skip work on all of WordNet that depends on no input, or on its name only: up to a second per input.

    The vocabulary is listed once per process, idf weights come from 200 concepts instead of 21,000, and suggestions
    for an unknown id from 1,000 ids.
    """
    from unseen.concepts import load_wordnet, match_classes, taxonomy
    from unseen.concepts import text as module

    match_classes(load_wordnet(), ["no such word"])
    vocabulary, corpus, closest = module.vocabulary, module.imagenet_21k, taxonomy.closest
    known: dict[int, set[str]] = {}

    def kept(wordnet: Any, concepts: Iterable[str]) -> set[str]:
        if id(wordnet) not in known:
            known[id(wordnet)] = vocabulary(wordnet, concepts)
        return known[id(wordnet)]

    module.vocabulary = kept
    module.imagenet_21k = lambda: corpus()[:200]
    taxonomy.closest = lambda name, ids, **options: closest(name, list(ids)[:1000], **options)


def _check(benchmark: str, options: dict[str, Any], dataset: str) -> Callable[[Path], object]:
    def read(folder: Path) -> object:
        from unseen.benchmarks import make_benchmark
        from unseen.data import load_dataset

        os.chdir(folder)
        made = make_benchmark(benchmark, options)
        made.check(load_dataset(dataset))
        return list(made.plan("random:test_resnet", dataset))

    return read


def _records() -> list[Reader]:
    from unseen.core.records import Cell, Result
    from unseen.results import ResultsDatabase

    cells = [Cell("probe", model, "d", {"seed": seed}, "w+d", "1") for model in ("a", "b") for seed in (1, 2)]
    cells.append(Cell("rank", "a", "d", {"score": "logme", "layer": "pooled"}, "w+d", "1"))
    found = [Result(cell, {"top1": 0.5, "top1_low": 0.4}, details={"correct": "9:/4A="}) for cell in cells]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "results.sqlite"
        with ResultsDatabase(path) as database:
            for result in found:
                database.append("s", result)
        with sqlite3.connect(path) as connection:
            connection.execute("pragma journal_mode = delete")
        content = path.read_bytes()
    study = b'name = "s"\nmodels = ["random:test_resnet"]\ndatasets = ["procedural:shapes"]\n'
    study += b"[benchmarks.probe]\nseeds = [1, 2]\n[extraction]\npart_size = 8\n"
    return [
        _reader("results database", "", {"results.sqlite": content}, _use_results, results_sqlite=_rows),
        _reader("study", "", {"s.toml": study}, _read_study, s_toml=text),
    ]


def _rows(data: bytes, rng: random.Random) -> bytes:
    """Change a value of a results database by SQL, or bytes of the file."""
    if rng.random() < 0.5:
        return blind(data, rng)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "r.sqlite"
        path.write_bytes(data)
        with sqlite3.connect(path) as connection:
            connection.execute("pragma journal_mode = delete")
            tables = [row[0] for row in connection.execute("select name from sqlite_master where type = 'table'")]
            table = rng.choice(tables)
            columns = [row[1] for row in connection.execute(f"pragma table_info({table})")]
            odd = rng.choice((None, "x", "", b"\x00\xff", 2**62, -1, 1e308, "NaN", "[" * 2000, "{}", "\x1b[31m"))
            try:
                connection.execute(f"update {table} set {rng.choice(columns)} = ? where rowid = 1", (odd,))
            except sqlite3.Error:
                return blind(data, rng)
        connection.close()
        return path.read_bytes()


def _use_results(folder: Path) -> object:
    """Read results as `unseen results`, `compare` and `leaderboard` do."""
    import warnings

    from unseen.benchmarks.compare import boards
    from unseen.results import ResultsDatabase
    from unseen.results.export import csv_lines, merge

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with ResultsDatabase(folder / "results.sqlite", read_only=True) as database:
            list(csv_lines(database.rows(), database.parameter_names()))
            database.latest()
        return boards(merge([folder]).results, {})


def _read_study(folder: Path) -> object:
    from unseen.study import Study

    study = Study.read(folder / "s.toml")
    return [
        benchmark.plan(model, data)
        for benchmark in study.benchmarks
        for model in study.models
        for data in study.datasets
    ]
