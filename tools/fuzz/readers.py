"""Every reader of outside files, with a sound example of each made here by the libraries that others use."""

from __future__ import annotations

import gzip
import io
import json
import pickle
import sqlite3
import struct
import tarfile
import tempfile
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import torch
from PIL import Image
from safetensors.torch import save as save_safetensors
from scipy.io import savemat
from tools.fuzz.doors import more_readers
from tools.fuzz.mutations import blind, gzipped, matlab, opcodes, text, tree, zipped
from tools.fuzz.runner import Reader

_RNG = np.random.default_rng(0)
_TENSORS = OrderedDict({"conv.weight": torch.ones(2, 3), "fc.bias": torch.arange(4.0)})


def written(write: Callable[[Any], object]) -> bytes:
    """What a function writes into a stream."""
    stream = io.BytesIO()
    write(stream)
    return stream.getvalue()


def written_file(name: str, write: Callable[[Path], object]) -> bytes:
    """What a function writes into a file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        write(path)
        return path.read_bytes()


def _picture(form: str, mode: str = "RGB") -> bytes:
    shape = (9, 7, len(mode)) if len(mode) > 1 else (9, 7)
    image = Image.fromarray(_RNG.integers(0, 255, shape, dtype=np.uint8), mode if len(mode) > 1 else None)
    return written(lambda stream: image.save(stream, form))


def _pictures() -> list[Reader]:
    from unseen.data.decode import decode_rgb, open_image

    def read(name: str) -> Callable[[Path], object]:
        return lambda folder: decode_rgb(open_image(folder / name))

    forms = {"jpeg": "RGB", "png": "RGBA", "gif": "L", "bmp": "RGB", "tiff": "RGB", "webp": "RGB", "ppm": "RGB"}
    return [
        Reader(f"image {form}", {f"x.{form}": _picture(form.upper(), mode)}, read(f"x.{form}"), blind)
        for form, mode in forms.items()
    ]


def _arrays() -> list[Reader]:
    from unseen.core.pickles import load_plain_pickle
    from unseen.data.matlab import read_matlab

    plain = {"names": [f"n{i:08d}" for i in range(40)], "at": ((1, 2), {"x": np.arange(6.0)}), "set": {1, 2}}
    numbers = np.arange(12.0).reshape(3, 4)
    mat = {"labels": np.arange(5.0), "image_files": np.array(["a.jpg", "b.jpg"], dtype=object)}

    def read(name: str, how: Callable[[Path], object]) -> Callable[[Path], object]:
        return lambda folder: how(folder / name)

    def labels(path: Path) -> object:
        return read_matlab(path, ("labels",), ("image_files",))

    found = [
        Reader(f"pickle {n}", {"x.pkl": pickle.dumps(plain, n)}, read("x.pkl", load_plain_pickle), opcodes)
        for n in (0, 2, 4)
    ]
    h5 = written_file("x.mat", lambda path: _hdf5(path, numbers))
    return [
        *found,
        Reader("mat v5", {"x.mat": written(lambda s: savemat(s, mat))}, read("x.mat", labels), matlab),
        Reader(
            "mat v7", {"x.mat": written(lambda s: savemat(s, mat, do_compression=True))}, read("x.mat", labels), matlab
        ),
        Reader("mat v7.3", {"x.mat": h5}, read("x.mat", labels), blind),
    ]


def _hdf5(path: Path, numbers: Any) -> None:
    with h5py.File(path, "w") as file:
        file["labels"] = numbers
        cells = file.create_dataset("image_files", (1, 2), dtype=h5py.ref_dtype)
        for i, name in enumerate(("a.jpg", "bc.jpg")):
            cells[0, i] = file.create_dataset(f"#refs#/{i}", data=np.array([[ord(c)] for c in name], np.uint16)).ref


def _weights() -> list[Reader]:
    from unseen.backbones.checkpoints import read_checkpoint
    from unseen.backbones.cog.formats import flatten, read_haiku_file, read_torch_file
    from unseen.backbones.networks import find_network

    module = torch.nn.Sequential(OrderedDict(conv=torch.nn.Linear(3, 2, bias=False), fc=torch.nn.Linear(3, 4)))
    traced = written(lambda s: torch.jit.save(torch.jit.trace(module.fc, torch.ones(1, 3)), s))
    zip_file = written(lambda s: torch.save({"state_dict": _TENSORS, "epoch": 3}, s))
    legacy = written(lambda s: torch.save({"state_dict": _TENSORS}, s, _use_new_zipfile_serialization=False))
    weights = {"conv": {"w": np.ones((2, 3), np.float32)}}
    haiku = pickle.dumps({"experiment_state": {"online_params": weights, "online_state": weights}})
    inside = zipped(opcodes)
    return [
        Reader(
            "checkpoint zip",
            {"x.pth": zip_file},
            lambda f: find_network(read_checkpoint(f / "x.pth"), module),
            inside,
        ),
        Reader("checkpoint legacy", {"x.pth": legacy}, lambda f: read_checkpoint(f / "x.pth"), opcodes),
        Reader(
            "safetensors",
            {"x.safetensors": save_safetensors(dict(_TENSORS))},
            lambda f: read_checkpoint(f / "x.safetensors"),
            blind,
        ),
        Reader(
            "published zip", {"x.pth": zip_file}, lambda f: read_torch_file((f / "x.pth").read_bytes(), "x.pth"), inside
        ),
        Reader(
            "published legacy",
            {"x.pth": legacy},
            lambda f: read_torch_file((f / "x.pth").read_bytes(), "x.pth"),
            opcodes,
        ),
        Reader("TorchScript", {"x.pt": traced}, lambda f: flatten(read_torch_file(f / "x.pt", "x.pt")), inside),
        Reader("haiku", {"x.pkl": haiku}, lambda f: read_haiku_file(f / "x.pkl"), opcodes),
    ]


def _concepts() -> list[Reader]:
    from unseen.concepts import read_taxonomy
    from unseen.concepts.eligibility import read_split
    from unseen.concepts.imagenet import read_counts
    from unseen.concepts.levels import Levels
    from unseen.concepts.mapping import read_class_list, read_mapping
    from unseen.concepts.text import read_word_vectors
    from unseen.data.sources.imagenet.cog import read_levels

    wnids = ["n02084071", "n02121620", "n02691156"]
    words = "\n".join(f"{word} " + " ".join(f"{x:.3f}" for x in _RNG.normal(size=5)) for word in ("dog", "cat", "jet"))
    levels = [wnids[:2], wnids[2:]]
    word2vec = b"2 4\n" + b"".join(w + b" " + struct.pack("<4f", 1, 2, 3, 4) + b"\n" for w in (b"dog", b"cat"))
    built = written_file("levels.json", _levels)
    return [
        Reader("class list", {"c.txt": b"dog\ncat\nairplane\n"}, lambda f: read_class_list(f / "c.txt"), text),
        Reader("class csv", {"c.csv": b"id,name\n1,dog\n2,cat\n"}, lambda f: read_class_list(f / "c.csv"), text),
        Reader(
            "class mapping",
            {"m.tsv": b"# note\ndog\tn02084071\ncat\tn02121620\n"},
            lambda f: read_mapping(f / "m.tsv"),
            text,
        ),
        Reader(
            "ontology csv",
            {"o.csv": b"child,parent\na,root\nb,root\nc,a\n"},
            lambda f: read_taxonomy(f / "o.csv"),
            text,
        ),
        Reader("image counts", {"c.csv": b"n02084071,800\nn02121620,900\n"}, lambda f: read_counts(f / "c.csv"), text),
        Reader("levels json", {"l.json": built}, lambda f: Levels.load(f / "l.json"), tree),
        Reader("levels pickle", {"l.pkl": pickle.dumps(levels)}, lambda f: read_levels(f / "l.pkl"), opcodes),
        Reader(
            "zero-shot split",
            {"s.json": json.dumps(wnids).encode()},
            lambda f: read_split(f / "s.json"),
            tree,
        ),
        Reader("word vectors", {"w.txt": words.encode()}, lambda f: read_word_vectors(f / "w.txt"), text),
        Reader(
            "word vectors gz",
            {"w.txt.gz": gzip.compress(words.encode())},
            lambda f: read_word_vectors(f / "w.txt.gz"),
            gzipped(text),
        ),
        Reader("word2vec", {"w.bin": word2vec}, lambda f: read_word_vectors(f / "w.bin"), blind),
    ]


def _levels(path: Path) -> None:
    from unseen.concepts.levels import random_levels

    random_levels([f"n{i:08d}" for i in range(12)], draws=2, size=3).save(path)


def _records() -> list[Reader]:
    from unseen.core.names import Name
    from unseen.data.archives import index_tar
    from unseen.data.columns import read_table, read_wnids
    from unseen.data.sources.vtab.original_readers import read_matrix
    from unseen.data.sources.vtab.tfds import RecordFile, parse_example
    from unseen.study import Study

    study = b'name = "s"\nmodels = ["random:test_resnet"]\ndatasets = ["packaged:emoji"]\n'
    study += b"[benchmarks.probe]\nseeds = [1, 2]\n"
    norb = struct.pack("<iiiii", 0x1E3D4C55, 2, 3, 4, 1) + bytes(12)
    example = b"\n\x14\n\x12\n\x05label\x12\t\x1a\x07\n\x05\x01\x02\x03\x04\x05"

    def tar(folder: Path) -> object:
        index = index_tar(folder / "x.tar")
        return [index.read(i) for i in range(len(index.names))]

    def names(folder: Path) -> object:
        return Name.parse((folder / "n.txt").read_bytes().decode("utf-8", "surrogateescape"))

    return [
        Reader("study", {"s.toml": study}, lambda f: Study.read(f / "s.toml"), text),
        Reader("class table", {"t.tsv": b"dog\tx\ncat\ty\n"}, lambda f: read_table(f / "t.tsv", ["dog", "cat"]), text),
        Reader(
            "wnids",
            {"t.tsv": b"dog\tn02084071\ncat\tn02121620\n"},
            lambda f: read_wnids(f / "t.tsv", ["dog", "cat"]),
            text,
        ),
        Reader("tar", {"x.tar": _tar()}, tar, blind),
        Reader(
            "TFRecord",
            {"x.tfrecord": _tfrecord(example)},
            lambda f: [parse_example(r) for r in _all(RecordFile(f / "x.tfrecord"))],
            blind,
        ),
        Reader("Example", {"x.bin": example}, lambda f: parse_example((f / "x.bin").read_bytes()), blind),
        Reader("smallNORB", {"x.mat": norb}, lambda f: read_matrix(f / "x.mat"), blind),
        Reader("names", {"n.txt": b"file:w.pth?arch=timm:resnet50&size=224"}, names, text),
    ]


def _all(file: Any) -> list[Any]:
    return [file.record(i) for i in range(len(file))]


def _tar() -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        for name in ("a/1.jpg", "a/2.jpg"):
            member = tarfile.TarInfo(name)
            member.size = 5
            archive.addfile(member, io.BytesIO(b"hello"))
    return stream.getvalue()


def _tfrecord(data: bytes) -> bytes:
    from unseen.core.wire import masked_crc32c

    length = struct.pack("<Q", len(data))
    return length + struct.pack("<I", masked_crc32c(length)) + data + struct.pack("<I", 0)


def _own() -> list[Reader]:
    """Files of ours that may have been damaged since."""
    from unseen.core.records import Cell, Result
    from unseen.results import ResultsDatabase

    def filed(path: Path) -> None:
        with ResultsDatabase(path) as database:
            database.append("s", Result(Cell("probe", "m", "d", {"seed": 1}), metrics={"top1": 0.5}, seconds=1.0))
        with sqlite3.connect(path) as connection:
            connection.execute("pragma journal_mode = delete")

    def results(folder: Path) -> object:
        with ResultsDatabase(folder / "r.sqlite") as database:
            return list(database.latest())

    return [Reader("results", {"r.sqlite": written_file("r.sqlite", filed)}, results, blind)]


def all_readers() -> list[Reader]:
    """Every reader that is fuzzed."""
    return [*_pictures(), *_arrays(), *_weights(), *_concepts(), *_records(), *_own(), *more_readers()]
