"""A small ImageNet in the true layout: real wnids, tiny JPEGs, a few concepts short of images, one corrupt file.

`make_imagenet(path)` writes ImageNet-1K (some of its classes) and ImageNet-21K (those and others that no filter of
ImageNet-CoG drops) in one of three layouts. The three hold the same images, so whatever is read from one must be read
from the others.
"""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from unseen.concepts import filters_for, imagenet_1k, imagenet_21k, load_wordnet, run_funnel

#: Caps that fit the small numbers, as options of `imagenet:cog-*`.
SMALL_CAPS = "train=8&test=2&min=6"


@dataclass(frozen=True)
class ImageNetTree:
    """What was written, and what is wrong with it on purpose.

    Attributes:
        in1k, in21k: roots; with layout "one tar" the second is a file.
        seen: wnids in both.
        others: wnids in ImageNet-21K only; `short` are the last of them.
        corrupt: name of an image of the first other concept that is not a JPEG.
    """

    in1k: Path
    in21k: Path
    seen: tuple[str, ...]
    others: tuple[str, ...]
    short: tuple[str, ...]
    corrupt: str
    counts: dict[str, int]


def make_imagenet(
    path: Path, layout: str = "folders", *, seen: int = 60, others: int = 300, short: int = 5, images: int = 10
) -> ImageNetTree:
    """Write the two roots below `path`; concepts have `images` to `images` + 3 images, short ones 3."""
    known, unknown = _wnids(seen, others)
    corrupt = f"{unknown[0]}/{unknown[0]}_2.JPEG"
    lacking = unknown[len(unknown) - short :]
    counts = {wnid: 3 if wnid in lacking else images + i % 4 for i, wnid in enumerate((*known, *unknown))}
    pictures = {wnid: _jpeg(i) for i, wnid in enumerate(counts)}

    def files(wnid: str) -> Iterator[tuple[str, bytes]]:
        for number in range(counts[wnid]):
            name = f"{wnid}/{wnid}_{number}.JPEG"
            # A comment after the end makes every image a file of its own size, and hurts no decoder.
            yield name, b"this is not a picture" if name == corrupt else pictures[wnid] + b"\0" * number

    in1k, in21k = path / "imagenet-1k", path / "imagenet-21k"
    everything = {wnid: list(files(wnid)) for wnid in counts}
    trained = {wnid: everything[wnid] for wnid in known}
    held_out = [(f"ILSVRC2012_val_{j + 1:08d}.JPEG", known[j * 7 % seen]) for j in range(2 * seen)]
    if layout == "folders":
        _folders(in21k, everything)
        _folders(in1k / "train", trained)
        for name, wnid in held_out:
            (in1k / "val" / wnid).mkdir(parents=True, exist_ok=True)
            (in1k / "val" / wnid / name).write_bytes(pictures[wnid])
    else:
        in1k.mkdir(parents=True)
        (in1k / "ILSVRC2012_img_train.tar").write_bytes(tar_of_tars(trained))
        (in1k / "ILSVRC2012_img_val.tar").write_bytes(tar_bytes([(n, pictures[w]) for n, w in held_out]))
        truth = "".join(f"{name.partition('.')[0]},{wnid} 1 2 3 4\n" for name, wnid in held_out)
        (in1k / "LOC_val_solution.csv").write_text("ImageId,PredictionString\n" + truth)
        if layout == "tars":
            in21k.mkdir(parents=True)
            for wnid, contents in everything.items():
                bare = [(name.partition("/")[2], data) for name, data in contents]
                (in21k / f"{wnid}.tar").write_bytes(tar_bytes(bare))
        else:
            in21k = path / "fall11_whole.tar"
            in21k.write_bytes(tar_of_tars(everything))
    return ImageNetTree(in1k, in21k, known, unknown, lacking, corrupt, counts)


def tar_bytes(files: list[tuple[str, bytes]]) -> bytes:
    """A tar file in memory, with the plain headers that ImageNet's have."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, data in files:
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return buffer.getvalue()


def tar_of_tars(by_wnid: dict[str, list[tuple[str, bytes]]]) -> bytes:
    """One tar file that holds a tar file per wnid."""
    return tar_bytes(
        [
            (f"{wnid}.tar", tar_bytes([(name.partition("/")[2], data) for name, data in contents]))
            for wnid, contents in by_wnid.items()
        ]
    )


def _folders(root: Path, by_wnid: dict[str, list[tuple[str, bytes]]]) -> None:
    for wnid, contents in by_wnid.items():
        (root / wnid).mkdir(parents=True)
        for name, data in contents:
            (root / name).write_bytes(data)


def _wnids(seen: int, others: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
    in1k, in21k = imagenet_1k(), imagenet_21k()
    eligible = run_funnel(load_wordnet(), in21k, filters_for(load_wordnet(), in21k, in1k)).concepts
    known = in1k[:: len(in1k) // seen][:seen]
    return tuple(sorted(known)), tuple(sorted(eligible[:: len(eligible) // others][:others]))


def _jpeg(number: int) -> bytes:
    """16 x 16 pixels whose colours and stripes are those of one concept."""
    rng = np.random.default_rng(number)
    pixels = np.kron(rng.integers(0, 256, (4, 4, 3)), np.ones((4, 4, 1))).astype(np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "JPEG", quality=80)
    return buffer.getvalue()
