"""`wds:PATH-{000..012}.tar`: shards of webdataset, indexed once and read without unpacking.

A sample is the files with one name: an image (.jpg, .png ...) and its class in .cls, .txt, or .json (`label=KEY`).
Options: `test=PATTERN` (and `val=`) of other shards, or shares to sample; `names=FILE`, a class name per line; `seed=`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from unseen.core.errors import DataError
from unseen.core.guard import guarded
from unseen.core.names import Name, Options
from unseen.data.archives import TarIndex, index_tar
from unseen.data.columns import read_lines
from unseen.data.dataset import Dataset
from unseen.data.images import bytes_key, image_extensions
from unseen.data.load import DatasetSource
from unseen.data.subset import Division
from unseen.data.user_data import LabelledImages, LazyImages, divide

_RANGE = re.compile(r"\{(\d+)\.\.(\d+)\}|\{([^{}]*,[^{}]*)\}")
_MOST_SHARDS = 100_000
_LABELS = ("cls", "txt", "json")


class WdsSource(DatasetSource):
    """Loads `wds:PATTERN`."""

    pattern, hint = "wds:PATH-{000..012}.tar", "shards of webdataset: an image and a .cls, .txt or .json per sample"
    paths = ("", "names")

    def load(self, name: str, options: Options) -> Dataset:
        key, names = options.text("label") or "label", options.text("names")
        division, files = Division.read(options, files=True)
        options.finish()
        classes = [line for _, line in read_lines(Path(names).expanduser())] if names else None
        patterns = {"train": name} | {split: str(Path(name).parent / file) for split, file in files.items()}
        parts = {split: _read(pattern, key, classes) for split, pattern in patterns.items()}
        return divide(parts, division, group="wds")


def expand(pattern: str) -> list[Path]:
    """Return the shards of a pattern with ranges ({000..012}), lists ({a,b}) or stars, in order.

    Raises:
        DataError: one that a range names, or any, is missing.
    """
    found = [Path(each).expanduser() for each in islice(_spell_out(pattern), _MOST_SHARDS + 1)]
    if len(found) > _MOST_SHARDS:
        raise DataError(f"{pattern!r} names more than {_MOST_SHARDS:,} shards.")
    if len(found) == 1 and any(sign in found[0].name for sign in "*?"):
        found = sorted(found[0].parent.glob(found[0].name))
    if len(found) == 1 and found[0].is_dir():
        found = sorted(found[0].glob("*.tar"))
    if missing := [path for path in found if not path.is_file()] or ([] if found else [Path(pattern)]):
        raise DataError(f"the shard {str(missing[0])!r} is not there ({len(found)} are named by {pattern!r}).")
    return found


def _spell_out(pattern: str) -> Iterator[str]:
    match = _RANGE.search(pattern)
    if match is None:
        yield pattern
        return
    numbers = range(int(match[1]), int(match[2]) + 1) if match[1] else ()
    for word in (str(n).zfill(len(match[1])) for n in numbers) if match[1] else match[3].split(","):
        yield from _spell_out(pattern[: match.start()] + word + pattern[match.end() :])


class Sample(NamedTuple):
    """An image of a shard and its label, by their numbers in the shard; `kind` is the ending of the label's file."""

    shard: TarIndex
    name: str
    image: int
    label: int
    kind: str


def read_samples(shard: TarIndex) -> Iterator[Sample]:
    """Yield the samples of a shard.

    Raises:
        DataError: a sample lacks its image or its label.
    """
    found: dict[str, dict[str, int]] = {}
    for number, name in enumerate(shard.names):
        folder, slash, file = name.rpartition("/")
        stem, _, kind = file.partition(".")
        found.setdefault(folder + slash + stem, {})[kind.lower()] = number
    for name, kinds in found.items():
        image = next((kinds[kind] for kind in kinds if f".{kind.rpartition('.')[2]}" in image_extensions()), None)
        label = next((kind for kind in _LABELS if kind in kinds), None)
        if image is None or label is None:
            raise DataError(
                f"{shard.path.name}: the sample {name!r} has {', '.join(kinds)}; an image and one of .cls, .txt "
                "and .json are needed."
            )
        yield Sample(shard, name, image, kinds[label], label)


def image_reader(samples: list[Sample]) -> LazyImages:
    """Return the encoded images of samples, which are read when they are opened."""
    return LazyImages(len(samples), lambda i: samples[i].shard.read(samples[i].image))


def _read(pattern: str, key: str, classes: list[str] | None) -> LabelledImages:
    samples = [sample for path in expand(pattern) for sample in read_samples(index_tar(path))]
    if not samples:
        raise DataError(f"{pattern!r}: the shards hold no samples.")
    images = image_reader(samples)
    title = re.sub(r"[^\w.-]+", "-", Path(pattern).name.partition("{")[0].removesuffix(".tar")).strip("-.") or "wds"
    return LabelledImages(
        images,
        [sample_label(sample, key) for sample in samples],
        class_names=classes,
        names=[f"{sample.shard.path.name}/{sample.name}" for sample in samples],
        title=title,
        keys=lambda i: bytes_key(images.read(i)),
        id=str(Name("wds", pattern)),
    )


def sample_label(sample: Sample, key: str) -> int | str:
    """Return the label of a sample: a class number or a name; of a .json, the value of `key`."""
    where = f"{sample.shard.path.name}: {sample.name}.{sample.kind}"
    with guarded(where, "a label", advice="Give label=KEY."):
        data = sample.shard.read(sample.label)
        text = str(json.loads(data)[key]) if sample.kind == "json" else data.decode("utf-8").strip()
        return int(text) if text.isascii() and text.isdecimal() else text
