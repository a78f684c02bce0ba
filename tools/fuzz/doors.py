"""Readers of tables, archives and files of our own that others may have damaged: `tools.fuzz.readers` has the rest."""

from __future__ import annotations

import gzip
import io
import json
import os
import random
import struct
import tarfile
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from tools.fuzz.mutations import blind, gzipped, opcodes, text, tree, zipped
from tools.fuzz.runner import Reader


def _photo(shade: int) -> bytes:
    stream = io.BytesIO()
    Image.new("RGB", (5, 4), (shade, 9, 200)).save(stream, "PNG")
    return stream.getvalue()


PHOTOS = {f"{kind}/{i}.png": _photo(40 * i + 10) for kind in ("cat", "dog") for i in range(3)}


def _images(name: str) -> Callable[[Path], object]:
    """Loads a dataset and decodes what it has, as an extraction does."""

    def read(folder: Path) -> object:
        from unseen.core.errors import UnseenError
        from unseen.data import decode_rgb, load_dataset

        os.chdir(folder)
        dataset = load_dataset(name)
        for split in dataset.splits:
            images = dataset.split(split)
            for i in range(len(images)):
                try:
                    decode_rgb(images.open(i))
                except (UnseenError, OSError):
                    continue  # one image that is gone or cannot be read is skipped
        return dataset

    return read


def _tables() -> list[Reader]:
    import pyarrow
    import pyarrow.parquet

    rows = [f"{name},{name.split('/')[0]}" for name in PHOTOS]
    csv = "\n".join(["image,label", *rows]).encode()
    many = "\n".join(["image,labels", *(f"{name},red blue" for name in PHOTOS)]).encode()
    stream = io.BytesIO()
    columns = {"image": [{"bytes": data, "path": None} for data in PHOTOS.values()], "label": [0, 0, 0, 1, 1, 1]}
    pyarrow.parquet.write_table(pyarrow.table(columns), stream)
    return [
        Reader("csv", {"t.csv": csv, **PHOTOS}, _images("csv:t.csv"), text),
        Reader("csv, bytes", {"t.csv": csv, **PHOTOS}, _images("csv:t.csv"), blind),
        Reader("csv, many labels", {"t.csv": many, **PHOTOS}, _images("csv:t.csv?label=labels"), text),
        Reader("parquet", {"t.parquet": stream.getvalue()}, _images("parquet:t.parquet"), blind),
    ]


def _archives() -> list[Reader]:
    from unseen.data.sources.vtab.original_readers import read_matrix

    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in PHOTOS.items():
            archive.writestr(name, data)
    shard = io.BytesIO()
    with tarfile.open(fileobj=shard, mode="w") as tar:
        for i, (name, data) in enumerate(PHOTOS.items()):
            for ending, content in (("png", data), ("cls", str(i % 2).encode()), ("json", json.dumps([name]).encode())):
                member = tarfile.TarInfo(f"{i:04d}.{ending}")
                member.size = len(content)
                tar.addfile(member, io.BytesIO(content))
    norb = gzip.compress(struct.pack("<iiiii", 0x1E3D4C55, 2, 3, 4, 1) + bytes(12))
    return [
        Reader("zip of folders", {"p.zip": packed.getvalue()}, _images("zip:p.zip"), blind),
        Reader("zip, members", {"p.zip": packed.getvalue()}, _images("zip:p.zip"), zipped(blind)),
        Reader("webdataset", {"s-000.tar": shard.getvalue()}, _images("wds:s-000.tar"), blind),
        Reader("smallNORB gz", {"x.mat.gz": norb}, lambda folder: read_matrix(folder / "x.mat"), gzipped(blind)),
    ]


def _own() -> list[Reader]:
    """Files of ours that may have been damaged since."""
    from unseen.features.manifest import load_manifest
    from unseen.features.part import open_part
    from unseen.finetuning.trainer import load_state, save_state

    entry = _entry()
    manifest, part = (next(name for name in entry if name.endswith(end)) for end in ("manifest.json", ".safetensors"))

    def whole(folder: Path) -> object:
        place = folder / Path(manifest).parent
        found = load_manifest(place)
        return found and [open_part(place, each, dim=found.dim, dtype=found.dtype).map() for each in found.parts]

    def without_sums(folder: Path) -> object:
        place = folder / Path(manifest).parent
        found = load_manifest(place)
        assert found is not None
        return open_part(place, found.parts[0], dim=found.dim, dtype=found.dtype, check="size").map()

    def state(folder: Path) -> object:
        return load_state(folder / "x.ftstate", "x")

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.ftstate"
        save_state(path, "x", {"step": 3, "weights": {"w": torch.ones(2, 3)}, "best": [0.5, None]})
        saved = path.read_bytes()
    ordered = {manifest: entry[manifest], part: entry[part]}
    return [
        Reader("manifest", ordered, whole, _summed),
        Reader("manifest, bytes", ordered, whole, blind),
        Reader("part", {part: entry[part], manifest: entry[manifest]}, without_sums, blind),
        Reader("training state", {"x.ftstate": saved}, state, zipped(opcodes)),
    ]


def _summed(data: bytes, rng: random.Random) -> bytes:
    """A manifest with other values and the right sum over them."""
    from unseen.features.manifest import _checksum

    damaged = tree(data, rng)
    try:
        values = json.loads(damaged)
        values["sha256"] = _checksum(values)
    except Exception:  # noqa: BLE001 - no manifest any more
        return damaged
    return json.dumps(values).encode()


def _entry() -> dict[str, bytes]:
    """The files of one entry of a feature store, by their path in its folder."""
    from unseen.core.records import FeatureKey, Preprocessing
    from unseen.features import FeatureStore
    from unseen.features.part import PartRows

    rng = np.random.default_rng(1)
    with tempfile.TemporaryDirectory() as folder:
        key = FeatureKey("m", "w", "pooled", Preprocessing(size=32), "fp32", "torch", "d", "train", "f")
        with FeatureStore(Path(folder)).writer(key, total=6, part_size=6) as writer:
            writer.write(PartRows(0, rng.normal(size=(6, 4)).astype(np.float32), np.arange(6) % 2, np.arange(6)))
            writer.finish()
        root = next(Path(folder).rglob("manifest.json")).parent
        return {f"{root.name}/{path.name}": path.read_bytes() for path in root.iterdir()}


def more_readers() -> list[Reader]:
    return [*_tables(), *_archives(), *_own()]
