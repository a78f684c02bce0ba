"""Scenes and their pictures: rules of placement, geometry, determinism."""

from __future__ import annotations

import hashlib
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import chisquare

from unseen.data.sources.procedural import shapes
from unseen.data.sources.procedural.shapes import HEIGHT, RADII, WIDTH, Scene, draw_scene, project, render_scene


@pytest.fixture(scope="module")
def drawn() -> list[Scene]:
    return [draw_scene(0, number) for number in range(600)]


def test_every_factor_is_uniform(drawn: list[Scene]) -> None:
    counts = np.bincount([scene.count for scene in drawn], minlength=11)
    assert counts[:3].sum() == 0
    assert chisquare(counts[3:]).pvalue > 1e-4
    for name, values in (("shape", 3), ("colour", 8), ("material", 2)):
        found = np.bincount(np.concatenate([getattr(scene, name) for scene in drawn]), minlength=values)
        assert chisquare(found).pvalue > 1e-4, name


def test_objects_keep_their_distance_and_stay_in_the_frame(drawn: list[Scene]) -> None:
    for scene in drawn[:200]:
        radius = np.asarray(RADII)[scene.size]
        gaps = np.linalg.norm(scene.centre[:, None, :2] - scene.centre[None, :, :2], axis=2)
        gaps -= radius[:, None] + radius[None]
        np.fill_diagonal(gaps, np.inf)
        assert gaps.min() >= 0.25 - 1e-5
        x, y, reach = project(scene)
        assert (np.abs(x) + reach <= 0.5).all()
        assert (np.abs(y) + reach <= 1 / 3 + 1e-6).all()


def test_depth_is_along_the_cameras_axis(drawn: list[Scene]) -> None:
    scene = drawn[0]
    naive = [float(np.dot(c - scene.camera, scene.forward)) for c in scene.centre]
    assert scene.depths == pytest.approx(naive, rel=1e-6)
    assert scene.closest == pytest.approx(min(naive), rel=1e-6)
    assert np.linalg.norm(scene.forward) == pytest.approx(1, rel=1e-6)
    assert scene.right @ scene.forward == pytest.approx(0, abs=1e-6)


def test_all_classes_of_both_tasks_occur(drawn: list[Scene]) -> None:
    bins = np.searchsorted([0, 8, 8.5, 9, 9.5, 10, 100], [scene.closest for scene in drawn], side="left") - 1
    assert (np.bincount(bins, minlength=6) > 20).all()


def single(shape: int, *, size: int = 1, colour: int = 1, material: int = 0, at: tuple[float, float] = (0, 0)) -> Scene:
    base = draw_scene(0, 0)
    height = RADII[size] / (np.sqrt(2) if shape == 0 else 1)
    return replace(
        base,
        shape=np.array([shape]),
        size=np.array([size]),
        colour=np.array([colour]),
        material=np.array([material]),
        centre=np.array([[*at, height]], np.float32),
        turn=np.array([0.4], np.float32),
    )


@pytest.mark.parametrize("shape", [0, 1, 2])
def test_an_object_appears_where_it_is_projected(shape: int) -> None:
    scene = single(shape, at=(0.5, -1.0))
    picture = render_scene(scene).astype(int)
    red = picture[..., 0] - picture[..., 1] > 30
    rows, columns = np.nonzero(red)
    x, y, radius = project(scene)
    assert columns.mean() / WIDTH - 0.5 == pytest.approx(float(x[0]), abs=0.02)
    assert (rows.mean() / HEIGHT - 0.5) * HEIGHT / WIDTH == pytest.approx(float(y[0]), abs=0.03)
    disc = np.pi * float(radius[0] * WIDTH) ** 2
    assert 0.6 * disc < red.sum() < 1.7 * disc


def test_a_sphere_is_round_and_has_the_right_size() -> None:
    scene = single(1)
    picture = render_scene(scene).astype(int)
    red = picture[..., 0] - picture[..., 1] > 15
    assert red.sum() == pytest.approx(np.pi * float(project(scene)[2][0] * WIDTH) ** 2, rel=0.08)


def test_what_is_nearer_hides_what_is_behind() -> None:
    behind, front = single(1, colour=1), single(1, size=0, colour=2)
    towards = (behind.camera - behind.centre[0]) / np.linalg.norm(behind.camera - behind.centre[0])
    both = replace(
        behind,
        **{n: np.concatenate([getattr(behind, n), getattr(front, n)]) for n in ("shape", "size", "colour", "material")},
        turn=np.zeros(2, np.float32),
        centre=np.stack([behind.centre[0], behind.centre[0] + np.float32(1.5) * towards]),
    )
    x, y, _ = project(both)
    column, row = int((x[1] + 0.5) * WIDTH), int((y[1] * WIDTH / HEIGHT + 0.5) * HEIGHT)
    middle = render_scene(both)[row - 2 : row + 3, column - 2 : column + 3].astype(int)
    assert (middle[..., 2] > middle[..., 0]).all()
    swapped = replace(both, **{n: getattr(both, n)[::-1] for n in ("shape", "size", "colour", "material", "centre")})
    assert np.abs(render_scene(both).astype(int) - render_scene(swapped)).max() <= 1


def test_same_seed_same_bytes_other_seed_others() -> None:
    def digest(seed: int) -> str:
        return hashlib.sha256(b"".join(render_scene(draw_scene(seed, n)).tobytes() for n in range(8))).hexdigest()

    assert digest(3) == digest(3)
    assert digest(3) != digest(4)


def test_objects_cast_shadows() -> None:
    scene = single(1)
    empty = replace(scene, **{n: getattr(scene, n)[:0] for n in ("shape", "size", "colour", "material", "centre")})
    darker = render_scene(empty).astype(int).sum(axis=2) - render_scene(scene).astype(int).sum(axis=2)
    picture = render_scene(scene).astype(int)
    grey = np.abs(picture[..., 0] - picture[..., 1]) < 3
    assert (darker[grey] > 60).sum() > 30


def test_hidden_objects_are_not_accepted() -> None:
    behind, front = single(1, size=0), single(1, size=1)
    away = (behind.centre[0] - behind.camera) / np.linalg.norm(behind.centre[0] - behind.camera)
    both = replace(
        behind,
        **{n: np.concatenate([getattr(front, n), getattr(behind, n)]) for n in ("shape", "size", "colour", "material")},
        centre=np.stack([front.centre[0], front.centre[0] + np.float32(2) * away]),
    )
    assert not shapes._all_visible(both)
