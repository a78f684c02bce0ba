"""Folder names: readable, safe on any file system, and different for different ids."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from unseen.features.manifest import PART, entry_folder, folder_name, part_name


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("train", "train"),
        ("val-800", "val-800"),
        ("timm:resnet50", r"timm-resnet50-[0-9a-f]{8}"),
        ("folder:/data/My Pets?labels=breed&x=1", r"folder-data-My-Pets-labels-breed-x-1-[0-9a-f]{8}"),
        ("../../etc/passwd", r"etc-passwd-[0-9a-f]{8}"),
        ("..", r"id-[0-9a-f]{8}"),
        ("", r"id-[0-9a-f]{8}"),
        ("nul", r"nul-[0-9a-f]{8}"),
        ("CUB", r"CUB-[0-9a-f]{8}"),
        ("xlsa17:CUB", r"xlsa17-CUB-[0-9a-f]{8}"),
        ("folder:/données/画像", r"folder-donn-es-[0-9a-f]{8}"),
    ],
)
def test_names(text, name):
    assert re.fullmatch(name, folder_name(text))


ids = st.text(max_size=100) | st.from_regex(r"[a-zA-Z0-9:/?&=._-]{1,90}", fullmatch=True)


@given(ids)
@example("a" * 500)
@example("timm:resnet50\x00")
@example("con.txt")
@example("file\udcff.pth")
def test_names_are_safe_everywhere(text):
    name = folder_name(text)
    assert re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,69}", name)
    assert not name.endswith(".")


@given(ids, ids)
@example("CUB", "cub")
@example("timm:resnet50", folder_name("timm:resnet50"))
@example("a:b", "a/b")
@example("x" * 99 + "1" + "y" * 99, "x" * 99 + "2" + "y" * 99)
def test_different_ids_have_different_names_also_without_case(one, two):
    if one != two:
        assert folder_name(one).lower() != folder_name(two).lower()


def test_the_end_of_a_long_path_is_kept():
    name = folder_name("folder:/a/very/long/way/" + "deep/" * 30 + "pets")
    assert name.startswith("folder-a-very")
    assert re.search(r"deep-pets-[0-9a-f]{8}$", name)


def test_the_name_of_a_long_id_stays_as_it_is():
    """Features that are stored under it would not be found under another."""
    expected = "folder-srv-picture--of-many-years-and-places-birds-of-europe-74cdcd5a"
    found = folder_name("folder:/srv/pictures/collections/of-many-years-and-places/birds-of-europe")
    assert found == expected


def test_where_an_entry_lies(tmp_path, store_process):
    key = store_process.make_key()
    folder = entry_folder(tmp_path, key)
    assert folder.relative_to(tmp_path).parts[2:] == ("train", key.digest)
    assert part_name(7) == "part-00007.safetensors"
    assert PART.fullmatch(part_name(123456))
