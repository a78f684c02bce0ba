"""Which class each of ImageNet-1K's validation images shows, where they lie in one heap instead of a folder per class.

Looked for beside the images, in this order, or given as `val_labels=FILE`:
    LOC_val_solution.csv                          ImageId,PredictionString: the first word of the second is the wnid
    val_map.txt, val.txt, val_labels.txt          file name, then a wnid or the rank of a wnid, on each line
    imagenet_2012_validation_synset_labels.txt    a wnid on each line, in the order of the images
    ILSVRC2012_devkit_t12/ or its .tar.gz         ground truth by the devkit's own numbers, which its meta.mat explains
The devkit numbers classes in an order of its own, not in that of the wnids: its numbers are never taken for ranks.
"""

from __future__ import annotations

import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from unseen.core.errors import DataError
from unseen.core.guard import guarded, read_limited
from unseen.core.names import is_wnid
from unseen.data.listing import read_lines
from unseen.data.matlab_v5 import read_variables

_KAGGLE = "LOC_val_solution.csv"
_LISTS = ("val_map.txt", "val.txt", "val_labels.txt", "imagenet_2012_validation_synset_labels.txt")
_DEVKIT = "ILSVRC2012_devkit_t12"
_TRUTH = "ILSVRC2012_validation_ground_truth.txt"
_META = "meta.mat"
_DEVKIT_BYTES = 64 << 20


def find_val_labels(places: Sequence[Path]) -> Path:
    """The first file in one of the folders that says what the validation images show.

    Raises:
        DataError: there is none.
    """
    wanted = (_KAGGLE, *_LISTS, f"{_DEVKIT}/data/{_TRUTH}", _TRUTH, f"data/{_TRUTH}", f"{_DEVKIT}.tar.gz")
    for name in wanted:
        for place in places:
            if (place / name).is_file():
                return place / name
    raise DataError(
        f"nothing in {str(places[0])!r} says what the validation images show. Put there one of {_KAGGLE}, "
        f"{', '.join(_LISTS)}, {_DEVKIT}.tar.gz, or sort the images into a folder per class, or give val_labels=FILE."
    )


def read_val_labels(path: Path, classes: Sequence[str]) -> dict[str, str]:
    """The wnid of each validation image, by the name of its file without extension.

    Args:
        path: a file as `find_val_labels` finds them.
        classes: wnids in the order of the labels, for lists that give ranks.
    """
    if path.name.endswith((".tar.gz", ".tgz")):
        return _from_devkit(*_read_devkit_archive(path), path)
    if path.name == _TRUTH:
        meta = path.parent / _META
        if not meta.is_file():
            raise DataError(f"{str(path)!r} needs {_META} of the same devkit beside it, to know what its numbers mean.")
        return _from_devkit(path.read_bytes(), meta.read_bytes(), path)
    if path.suffix == ".csv":
        return _from_csv(path)
    return _from_lines(path, classes)


def _from_csv(path: Path) -> dict[str, str]:
    labels: dict[str, str] = {}
    for number, line in read_lines(path)[1:]:
        image, _, prediction = line.partition(",")
        wnid = prediction.split()[0] if prediction.split() else ""
        if not is_wnid(wnid):
            raise DataError(f"{str(path)!r}, line {number}: expected 'ImageId,wnid ...', found {line[:80]!r}")
        labels[_stem(image)] = wnid
    return labels


def _from_lines(path: Path, classes: Sequence[str]) -> dict[str, str]:
    lines = [(number, line.replace(",", " ").split()) for number, line in read_lines(path)]
    if all(len(words) == 1 and is_wnid(words[0]) for _, words in lines):
        return {_numbered(i): words[0] for i, (_, words) in enumerate(lines, start=1)}
    for number, words in lines:
        if len(words) != 2 or not (is_wnid(words[1]) or words[1].isdecimal()):
            raise DataError(
                f"{str(path)!r}, line {number}: expected a file name and a wnid or rank, found {' '.join(words)[:80]!r}"
            )
    if all(words[1].isdecimal() for _, words in lines):
        ranks = {int(words[1]) for _, words in lines}
        if ranks != set(range(len(classes))):
            raise DataError(
                f"{str(path)!r} has labels from {min(ranks)} to {max(ranks)}, {len(ranks)} in all, and the training "
                f"images have {len(classes)} classes: ranks of wnids, from 0, must cover them. Give wnids instead."
            )
        return {_stem(words[0]): classes[int(words[1])] for _, words in lines}
    return {_stem(words[0]): words[1] for _, words in lines}


def _from_devkit(truth: bytes, meta: bytes, path: Path) -> dict[str, str]:
    with guarded(path, "the devkit", advice="Download it again."):
        synsets: Any = read_variables(memoryview(meta), ("synsets",), path)["synsets"]
        wnids = {int(each["ILSVRC2012_ID"].item()): str(each["WNID"]) for each in synsets}
        return {_numbered(i): wnids[int(word)] for i, word in enumerate(truth.split(), start=1)}


def _read_devkit_archive(path: Path) -> tuple[bytes, bytes]:
    found: dict[str, bytes] = {}
    try:
        with tarfile.open(path, "r:gz") as archive:
            for member in archive:
                name = member.name.rpartition("/")[2]
                stream = archive.extractfile(member) if name in (_TRUTH, _META) and member.isreg() else None
                if stream is not None:
                    found[name] = read_limited(stream, _DEVKIT_BYTES, path)
    except (tarfile.TarError, OSError, EOFError) as error:
        raise DataError(f"cannot read the devkit {str(path)!r}: {error}. Download it again.") from error
    if len(found) < 2:
        raise DataError(f"{str(path)!r} lacks {_TRUTH} or {_META}: is it the devkit of tasks 1 and 2?")
    return found[_TRUTH], found[_META]


def _stem(name: str) -> str:
    return name.strip().rpartition("/")[2].partition(".")[0]


def _numbered(i: int) -> str:
    return f"ILSVRC2012_val_{i:08d}"
