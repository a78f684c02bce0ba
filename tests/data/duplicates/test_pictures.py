"""Signatures and alignment: what may be done to a picture, and what two pictures of like things are not."""

from __future__ import annotations

import io

import numpy as np
import numpy.typing as npt
import pytest
from PIL import Image, ImageFilter

from unseen.core.errors import DataError
from unseen.data.duplicates import Kind, compare, signature
from unseen.data.duplicates.comparison import Part, coarse_part, edges, refined
from unseen.data.duplicates.signature import TURNS, hash_distance, perceptual_hashes


def find_part(part: npt.NDArray[np.uint8], whole: npt.NDArray[np.uint8]) -> Part:
    return refined(part, whole, coarse_part(edges(part), edges(whole)))


def texture(seed: int, size: tuple[int, int] = (240, 180)) -> Image.Image:
    """A picture with detail of all sizes, in colour."""
    rng = np.random.default_rng(seed)
    picture = np.zeros((size[1], size[0], 3))
    for cells, weight in ((4, 90), (12, 60), (40, 30)):
        noise = rng.uniform(0, 255, (cells, cells, 3)).astype(np.uint8)
        layer = Image.fromarray(noise).resize(size, Image.Resampling.BICUBIC)
        picture += weight * (np.asarray(layer, np.float64) - 128) / 128
    return Image.fromarray(np.clip(picture + 128, 0, 255).astype(np.uint8))


def jpeg(image: Image.Image, quality: int = 60) -> Image.Image:
    stream = io.BytesIO()
    image.save(stream, "jpeg", quality=quality)
    return Image.open(io.BytesIO(stream.getvalue()))


def png(image: Image.Image) -> Image.Image:
    stream = io.BytesIO()
    image.save(stream, "png")
    return Image.open(io.BytesIO(stream.getvalue()))


@pytest.mark.parametrize("seed", range(3))
def test_kinds(seed: int) -> None:
    image = texture(seed)
    copies = {
        Kind.EXACT: png(image),
        Kind.REENCODED: jpeg(image),
        Kind.RESCALED: jpeg(image.resize((120, 90))),
        Kind.FLIPPED: jpeg(image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)),
        Kind.CROPPED: jpeg(image.crop((40, 25, 220, 165))),
    }
    for kind, copy in copies.items():
        for one, other in ((image.copy(), copy.copy()), (copy.copy(), image.copy())):
            found = compare(signature(one), signature(other))
            assert found is not None and found.kind is kind, kind
            assert 0.88 <= found.correlation <= 1.0
    upside_down = compare(signature(image), signature(jpeg(image.rotate(180))))
    assert upside_down is not None and upside_down.kind is Kind.FLIPPED
    mirrored_crop = image.crop((0, 0, 190, 150)).transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    found = compare(signature(image), signature(mirrored_crop))
    assert found is not None and found.kind is Kind.CROPPED
    assert compare(signature(image), signature(mirrored_crop), parts=False) is None


def test_other_pictures_are_no_copies() -> None:
    signatures = [signature(texture(seed)) for seed in range(8)]
    assert all(compare(a, b) is None for i, a in enumerate(signatures) for b in signatures[:i])
    # Two drawings on white paper are alike in their paper only.
    drawings = []
    for seed in range(4):
        paper = Image.new("RGB", (200, 200), "white")
        paper.paste(texture(seed, (80, 80)).filter(ImageFilter.DETAIL), (60, 60))
        drawings.append(signature(paper))
    assert all(compare(a, b) is None for i, a in enumerate(drawings) for b in drawings[:i])


@pytest.mark.parametrize("colour", ["white", "grey"])
def test_pictures_without_detail_agree_only_if_they_are_equal(colour: str) -> None:
    flat = signature(Image.new("RGB", (100, 80), colour))
    assert compare(flat, signature(texture(1))) is None
    assert compare(flat, signature(Image.new("RGB", (90, 80), "black"))) is None
    same = compare(flat, signature(Image.new("RGB", (100, 80), colour)))
    assert same is not None and same.kind is Kind.EXACT


def test_hashes_of_turns_are_those_of_turned_pictures() -> None:
    picture = np.asarray(texture(5).convert("L"))
    hashes = perceptual_hashes(Image.fromarray(picture))
    for turn, (down, across) in enumerate(TURNS):
        turned = perceptual_hashes(Image.fromarray(picture[::down, ::across].copy()))
        assert hash_distance(turned[0], hashes[turn]) <= 2, "but for rounding"
    assert len(set(hashes.tolist())) == 4


def test_a_part_is_found_where_it_was() -> None:
    whole = np.asarray(texture(6, (128, 96)).convert("L"))
    found = find_part(whole[20:80, 30:110].copy(), whole)
    assert found.agreement > 0.95
    np.testing.assert_allclose(found.box, (30 / 128, 20 / 96, 110 / 128, 80 / 96), atol=0.03)
    assert find_part(np.asarray(texture(7, (80, 60)).convert("L")), whole).agreement < 0.7


def test_size_and_colour_belong_to_the_digest() -> None:
    wide, high = Image.new("RGB", (20, 10), "red"), Image.new("RGB", (10, 20), "red")
    assert signature(wide).digest != signature(high).digest
    assert signature(wide).digest != signature(Image.new("RGB", (20, 10), "blue")).digest
    with pytest.raises(DataError):
        signature(Image.new("RGB", (0, 5)))
