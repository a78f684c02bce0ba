"""Ontologies from files."""

from __future__ import annotations

from pathlib import Path

import pytest

from unseen.concepts import read_taxonomy
from unseen.core.errors import TaxonomyError

CONTENTS = {
    "plain.csv": "cat,animal\ndog,animal\n",
    "header.csv": "child,parent\ncat,animal\ndog,animal\n",
    "swapped.csv": "Parent,Child\nanimal,cat\nanimal,dog\n",
    "comments.tsv": "# ours\ncat\tanimal\n\ndog\tanimal\n",
    "bom.csv": "\ufeffcat,animal\ndog,animal\n",
}


@pytest.mark.parametrize("name", CONTENTS)
def test_formats(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text(CONTENTS[name], encoding="utf-8")
    taxonomy = read_taxonomy(tmp_path / name)
    assert set(taxonomy.ids) == {"cat", "dog", "animal"}
    assert taxonomy.parents("cat") == ["animal"] and taxonomy.roots == ["animal"]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("three.csv", "a,b,c\n", "line 1: expected a child and a parent"),
        ("tabs.csv", "a,b\nc\td\n", "line 2: expected"),
        ("hole.tsv", "a\tb\nc\t\n", "line 2"),
        ("empty.csv", "", "no edges"),
        ("roots.csv", "a,b\nc,d\n", "2 roots: 'b', 'd'"),
        ("cycle.csv", "a,b\nb,a\na,r\n", "cycle"),
        ("x.owl", "a,b\n", "read from .csv"),
    ],
)
def test_bad_files(tmp_path: Path, name: str, text: str, message: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(TaxonomyError, match=message):
        read_taxonomy(tmp_path / name)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(TaxonomyError, match="cannot read"):
        read_taxonomy(tmp_path / "none.csv")
    (tmp_path / "latin.csv").write_bytes("\xe9tre,chose\n".encode("latin-1"))
    with pytest.raises(TaxonomyError, match="not UTF-8"):
        read_taxonomy(tmp_path / "latin.csv")


def test_roots_can_be_joined(tmp_path: Path) -> None:
    (tmp_path / "two.csv").write_text("a,b\nc,d\n")
    assert read_taxonomy(tmp_path / "two.csv", root="all").roots == ["all"]
