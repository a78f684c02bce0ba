"""`wds:PATH-{000..012}.tar`: shards of webdataset, read where they lie and indexed once.

A sample is the files with one name: an image (.jpg, .png ...) and its class in .cls, .txt, or .json (`label=KEY`).
Options: `test=PATTERN` (and `val=`) of other shards, or shares to draw; `names=FILE`, a class name per line; `seed=`.
"""

from __future__ import annotations

import hashlib
import json
import re
from bisect import bisect_right
from itertools import accumulate, product
from pathlib import Path
from typing import Any

from unseen.core.errors import DataError
from unseen.core.names import Name, Options, as_number
from unseen.data.archives import TarIndex, index_tar
from unseen.data.columns import read_lines
from unseen.data.dataset import Dataset
from unseen.data.images import image_extensions
from unseen.data.load import DatasetSource
from unseen.data.user_data import LabelledImages, divide

_RANGE = re.compile(r"\{(\d+)\.\.(\d+)\}|\{([^{}]*,[^{}]*)\}")
_MOST_SHARDS = 100_000
_LABELS = ("cls", "txt", "json")


class WdsSource(DatasetSource):
    """Loads `wds:PATTERN`."""

    pattern, hint = "wds:PATH-{000..012}.tar", "shards of webdataset: an image and a .cls, .txt or .json per sample"
    paths = ("", "names")

    def load(self, name: str, options: Options) -> Dataset:
        key, seed, names = options.text("label") or "label", options.integer("seed") or 0, options.text("names")
        patterns, shares = {"train": name}, {"test": 0.2, "val": 0.0}
        for split in ("test", "val"):
            given = options.text(split)
            if given is not None and as_number(given) is None:
                patterns[split] = given if Path(given).is_absolute() else str(Path(name).parent / given)
            elif given is not None:
                shares[split] = options.fraction(split) or 0.0
        options.finish()
        classes = [line for _, line in read_lines(Path(names).expanduser())] if names else None
        parts = {split: _read(pattern, key, classes) for split, pattern in patterns.items()}
        return divide(parts, share=shares["test"], val=shares["val"], seed=seed, group="wds")


def expand(pattern: str) -> list[Path]:
    """Return the shards of a pattern with ranges ({000..012}), lists ({a,b}) or stars, in order.

    Raises:
        DataError: one that a range names, or any, is not there.
    """
    pieces: list[list[str]] = []
    end, total = 0, 1
    for match in _RANGE.finditer(pattern):
        pieces.append([pattern[end : match.start()]])
        if match[1] is not None:
            first, last = int(match[1]), int(match[2])
            total *= max(last - first + 1, 0)
            if total > _MOST_SHARDS:
                raise DataError(f"{pattern!r} names more than {_MOST_SHARDS:,} shards.")
            pieces.append([str(n).zfill(len(match[1])) for n in range(first, last + 1)])
        else:
            pieces.append(match[3].split(","))
        end = match.end()
    pieces.append([pattern[end:]])
    found = [Path("".join(parts)).expanduser() for parts in product(*pieces)]
    if len(found) == 1 and any(sign in found[0].name for sign in "*?"):
        found = sorted(found[0].parent.glob(found[0].name))
    if len(found) == 1 and found[0].is_dir():
        found = sorted(found[0].glob("*.tar"))
    if missing := [path for path in found if not path.is_file()] or ([] if found else [Path(pattern)]):
        raise DataError(f"the shard {str(missing[0])!r} is not there ({len(found)} are named by {pattern!r}).")
    return found


class _Samples:
    """The encoded images of some shards."""

    threadsafe = True

    def __init__(self, shards: list[TarIndex], rows: list[list[int]]) -> None:
        self._shards, self._rows = shards, rows
        self._starts = [0, *accumulate(len(own) for own in rows)]

    def __len__(self) -> int:
        return self._starts[-1]

    def __getitem__(self, i: int) -> bytes:
        number = bisect_right(self._starts, i) - 1
        return self._shards[number].read(self._rows[number][i - self._starts[number]])


def _read(pattern: str, key: str, classes: list[str] | None) -> LabelledImages:
    shards = [index_tar(path) for path in expand(pattern)]
    images, labels, names = [], [], []
    for shard in shards:
        own = []
        for sample, kinds in _samples(shard).items():
            image = next((kinds[kind] for kind in kinds if f".{kind.rpartition('.')[2]}" in image_extensions()), None)
            label = next((kind for kind in _LABELS if kind in kinds), None)
            if image is None or label is None:
                raise DataError(
                    f"{shard.path.name}: the sample {sample!r} has {', '.join(kinds)}; an image and one of .cls, .txt "
                    "and .json are needed."
                )
            own.append(image)
            labels.append(_label(shard.read(kinds[label]), label, key, f"{shard.path.name}: {sample}"))
            names.append(f"{shard.path.name}/{sample}")
        images.append(own)
    if not labels:
        raise DataError(f"{pattern!r}: the shards hold no samples.")
    samples = _Samples(shards, images)
    title = re.sub(r"[^\w.-]+", "-", Path(pattern).name.partition("{")[0].removesuffix(".tar")).strip("-.") or "wds"
    return LabelledImages(
        items=samples,
        labels=labels,
        class_names=classes,
        names=names,
        title=title,
        keys=lambda i: hashlib.blake2b(samples[i], digest_size=16).digest(),
        id=str(Name("wds", pattern)),
    )


def _samples(shard: TarIndex) -> dict[str, dict[str, int]]:
    """Return files by sample and kind, the part of the file name after its first dot."""
    found: dict[str, dict[str, int]] = {}
    for number, name in enumerate(shard.names):
        folder, slash, file = name.rpartition("/")
        stem, _, kind = file.partition(".")
        found.setdefault(folder + slash + stem, {})[kind.lower()] = number
    return found


def _label(data: bytes, kind: str, key: str, where: str) -> int | str:
    try:
        if kind == "json":
            value: Any = json.loads(data)[key]
        else:
            value = data.decode("utf-8").strip()
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise DataError(f"{where}.{kind} has no label: {type(error).__name__} {error}. Give label=KEY.") from error
    text = str(value)
    return int(text) if text.isascii() and text.isdecimal() else text
