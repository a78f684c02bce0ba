"""Listing images by concept: mixed layouts, odd names in tars, errors that name the files."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from unseen.core.errors import DataError
from unseen.data import decode_rgb
from unseen.data.sources.imagenet.tree import find_tree, images_in_tar, join_split

pytestmark = pytest.mark.usefixtures("home")


@pytest.fixture
def jpeg(imagenet_tree: ModuleType) -> bytes:
    data: bytes = imagenet_tree._jpeg(1)
    return data


def test_a_tar_goes_before_a_half_unpacked_folder(tmp_path: Path, imagenet_tree: ModuleType, jpeg: bytes) -> None:
    root = tmp_path / "root"  # the home of the test lies beside it
    (root / "n1").mkdir(parents=True)
    (root / "n1" / "a.JPEG").write_bytes(jpeg)
    (root / "n2").mkdir()
    (root / "n2" / "only.jpg").write_bytes(jpeg)
    (root / "n1.tar").write_bytes(imagenet_tree.tar_bytes([("a.JPEG", jpeg), ("b.JPEG", jpeg)]))
    tree = find_tree(root)
    assert tree.layout == "folders and tars"
    assert tree.concepts == ["n1", "n2"]
    assert tree.images("n1").names == ("n1/a.JPEG", "n1/b.JPEG")
    assert tree.images("n2").names == ("n2/only.jpg",)
    (root / "n2" / "only.jpg").unlink()
    (root / "n2").rmdir()
    assert find_tree(root).layout == "tars"


def test_names_in_tars(tmp_path: Path, imagenet_tree: ModuleType, jpeg: bytes) -> None:
    files = [
        ("./n1/b.JPEG", jpeg),
        ("a.jpg", b"old"),
        ("._a.jpg", b"what a Mac leaves"),
        ("readme.txt", b"text"),
        ("n1/c.JPEG", jpeg),
        ("a.jpg", jpeg + b"\0\0"),  # appended later, so it counts
    ]
    (tmp_path / "n1.tar").write_bytes(imagenet_tree.tar_bytes(files))
    images = images_in_tar(tmp_path / "n1.tar", "n1")
    assert images.names == ("n1/a.jpg", "n1/b.JPEG", "n1/c.JPEG")
    assert images.content_key is not None
    assert images.content_key(0) == b"%d" % (len(jpeg) + 2)
    assert decode_rgb(images.open(0)).size == (16, 16)


def test_a_split_of_parts(tmp_path: Path, imagenet_tree: ModuleType) -> None:
    """Every index leads to its own image, across parts of any length."""
    rng = np.random.default_rng(0)
    for concept in ("n1", "n2", "n3", "n4"):
        files = [(f"{i}.JPEG", imagenet_tree._jpeg(int(concept[1]) * 100 + i)) for i in range(7)]
        (tmp_path / f"{concept}.tar").write_bytes(imagenet_tree.tar_bytes(files))
    found = find_tree(tmp_path).every(["n1", "n2", "n3", "n4"])
    rows = [np.sort(rng.choice(7, size, replace=False)) for size in (3, 0, 7, 1)]
    split = join_split([(i, r, label) for label, (i, r) in enumerate(zip(found, rows, strict=True))], "x/")
    expected = [
        (images, int(row), label) for label, (images, r) in enumerate(zip(found, rows, strict=True)) for row in r
    ]
    assert len(split) == len(expected) == 11
    for i, (images, row, label) in enumerate(expected):
        assert split.names[i] == "x/" + images.names[row]
        assert split.labels[i] == label
        assert np.array_equal(np.asarray(split.open(i)), np.asarray(images.open(row)))
        assert split.content_key is not None
        assert split.content_key(i) == images.content_key(row)


def test_what_is_there_instead(tmp_path: Path) -> None:
    (tmp_path / "winter21_whole.tar.gz").write_bytes(b"")
    with pytest.raises(DataError, match=r"but winter21_whole\.tar\.gz\. Expected: .* uncompressed tar file"):
        find_tree(tmp_path)
    with pytest.raises(DataError, match="there is no folder"):
        find_tree(tmp_path / "none")
