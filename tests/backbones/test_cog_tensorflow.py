"""SimCLR-v2 out of a TensorFlow checkpoint, and the reader of such files against a writer of them."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional

from unseen.backbones.cog.formats import read_tensorflow_file
from unseen.core.errors import CheckpointError
from unseen.core.wire import masked_crc32c

Check = Callable[..., None]


def simclr_resnet(references: SimpleNamespace, variables: dict[str, np.ndarray]) -> Tensor:
    """ResNet under the names of SimCLR's TensorFlow code: layers numbered as they are made, channels last."""
    store, made = references.Store(), [0]

    def unit(maps: Tensor, _s: int, _b: int, _p: str | int, width: int, kernel: int, stride: int) -> Tensor:
        number = f"_{made[0]}" if made[0] else ""
        made[0] += 1
        weight = store.weight(f"base_model/conv2d{number}/kernel", width, maps.shape[1], kernel, kernel)
        norm = f"base_model/batch_normalization{number}"
        out = functional.conv2d(maps, weight, stride=stride, padding=(kernel - 1) // 2)
        return store.norm(out, norm, ("/gamma", "/beta"))

    def pool(maps: Tensor) -> Tensor:
        return functional.max_pool2d(references.pad_at_end(maps, 3, 2, -torch.inf), 3, 2)

    features: Tensor = references.resnet(references.images, unit, pool, (3, 4, 6, 3))
    store.weight("head_supervised/linear_layer/dense/kernel", 1000, 2048)
    store.vector("head_supervised/linear_layer/dense/bias", 1000)
    for name, value in store.items():
        name = name.replace(".running_mean", "/moving_mean").replace(".running_var", "/moving_variance")
        array = value.permute(2, 3, 1, 0) if value.ndim == 4 else value.T if value.ndim == 2 else value
        variables[name] = array.contiguous().numpy()
    return features


def test_simclr(folder: Path, check_published: Check, references: SimpleNamespace) -> None:
    variables: dict[str, np.ndarray] = {}
    with torch.inference_mode():
        expected = simclr_resnet(references, variables)
    variables |= {"global_step": np.array(250228), "head_contrastive/nl_0/dense/kernel": np.zeros((4, 4), "f4")}
    variables |= {"base_model/conv2d/kernel/Momentum": np.zeros((7, 7, 3, 64), "f4")}
    write_bundle(folder / "model.ckpt-250228", variables)
    for given in (folder, folder / "model.ckpt-250228", folder / "model.ckpt-250228.index"):
        check_published("s-simclr-v2", given, expected, references.images)


def write_bundle(prefix: Path, variables: dict[str, np.ndarray]) -> None:
    """A TensorFlow checkpoint, written from the description of the format: sorted table, blocks of 16 restarts."""

    def varint(value: int) -> bytes:
        out = bytearray()
        while value > 0x7F:
            out.append(value & 0x7F | 0x80)
            value >>= 7
        return bytes([*out, value])

    def field(number: int, value: int | bytes) -> bytes:
        if isinstance(value, bytes):
            return varint(number << 3 | 2) + varint(len(value)) + value
        return varint(number << 3) + varint(value) if value else b""

    types_ = {"float32": 1, "int64": 9}
    rows, data = [(b"", field(1, 1))], bytearray()
    for name, array in sorted(variables.items()):
        raw = array.tobytes()
        shape = b"".join(field(2, field(1, side)) for side in array.shape)
        entry = field(1, types_[str(array.dtype)]) + field(2, shape) + field(4, len(data)) + field(5, len(raw))
        rows.append((name.encode(), entry + varint(6 << 3 | 5) + struct.pack("<I", 0)))
        data += raw
    prefix.with_name(prefix.name + ".data-00000-of-00001").write_bytes(data)

    table = bytearray()

    def block(entries: list[tuple[bytes, bytes]]) -> bytes:
        body, restarts, before = bytearray(), [], b""
        for number, (key, value) in enumerate(entries):
            shared = 0
            if number % 16 == 0:
                restarts.append(len(body))
            else:
                while shared < min(len(key), len(before)) and key[shared] == before[shared]:
                    shared += 1
            body += varint(shared) + varint(len(key) - shared) + varint(len(value)) + key[shared:] + value
            before = key
        body += struct.pack(f"<{len(restarts) + 1}I", *restarts, len(restarts))
        handle = varint(len(table)) + varint(len(body))
        body.append(0)
        table.extend(bytes(body) + struct.pack("<I", masked_crc32c(bytes(body))))
        return handle

    groups = [rows[start : start + 40] for start in range(0, len(rows), 40)]
    index = [(group[-1][0], block(group)) for group in groups]
    footer = block([]) + block(index)
    table.extend(footer.ljust(40, b"\0") + struct.pack("<Q", 0xDB4775248B80FB57))
    prefix.with_name(prefix.name + ".index").write_bytes(table)


def small_bundle(prefix: Path) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    variables = {f"layer_{n}/kernel": rng.normal(size=(n % 5, 3)).astype("f4") for n in range(300)}
    variables["global_step"] = np.array(7)
    write_bundle(prefix, variables)
    return variables


def test_every_variable_is_read(tmp_path: Path) -> None:
    variables = small_bundle(tmp_path / "model.ckpt-7")
    found = read_tensorflow_file(tmp_path / "model.ckpt-7.index")
    assert set(found) == set(variables)
    for name, value in variables.items():
        assert found[name].numpy().dtype == value.dtype
        np.testing.assert_array_equal(found[name], value)


def test_the_checksum_is_crc32c() -> None:
    """The check value of CRC-32C, 0xE3069283, rotated by 15 bits and offset as LevelDB does."""
    crc = 0xE3069283
    assert masked_crc32c(b"123456789") == ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def test_every_flipped_byte_of_the_index_is_found(tmp_path: Path) -> None:
    small_bundle(tmp_path / "m")
    index = tmp_path / "m.index"
    whole = index.read_bytes()
    rng = np.random.default_rng(1)
    for place in rng.choice(len(whole) - 48, size=60, replace=False):
        index.write_bytes(whole[:place] + bytes([whole[place] ^ 0x10]) + whole[place + 1 :])
        with pytest.raises(CheckpointError, match=r"m\.index is not the index of a TensorFlow checkpoint"):
            read_tensorflow_file(index)


def test_missing_and_truncated_files_are_refused(tmp_path: Path) -> None:
    small_bundle(tmp_path / "m")
    with pytest.raises(CheckpointError, match=r"other\.index does not exist"):
        read_tensorflow_file(tmp_path / "other")
    data = tmp_path / "m.data-00000-of-00001"
    data.write_bytes(data.read_bytes()[:100])
    with pytest.raises(CheckpointError, match=r"too short: layer_\d+/kernel"):
        read_tensorflow_file(tmp_path / "m")
    data.unlink()
    with pytest.raises(CheckpointError, match="data-00000-of-00001 is missing"):
        read_tensorflow_file(tmp_path / "m")
    (tmp_path / "m.index").write_bytes(b"no table")
    with pytest.raises(CheckpointError, match="does not end as a table does"):
        read_tensorflow_file(tmp_path / "m")
