"""Scenes after CLEVR: three to ten solids on a floor, a camera and a light, all of them drawn from a seed.

Paper:      Johnson et al., "CLEVR: A diagnostic dataset for compositional language and elementary visual reasoning",
            CVPR 2017
Shapes:     world units as in CLEVR: objects within [-3, 3]^2, radius 0.7 or 0.35, camera about 11 away
Implements: uniform count, shape, size, colour, material and turn; gaps between objects; no object hidden behind others;
            camera jitter of 0.5; the depth of an object is measured along the camera's axis, as CLEVR's pixel_coords[2]
Differs:    visibility is judged by discs on a coarse grid instead of by rendered pixels
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from unseen.core.errors import DataError

Vector = npt.NDArray[np.float32]
IntArray = npt.NDArray[np.int64]

SHAPES = ("cube", "sphere", "cylinder")
MATERIALS = ("rubber", "metal")
RADII = (0.35, 0.7)
COLOURS = np.array(
    (
        *((87, 87, 87), (173, 35, 35), (42, 75, 215), (29, 105, 20)),  # grey, red, blue, green
        *((129, 74, 25), (129, 38, 192), (41, 208, 208), (255, 238, 51)),  # brown, purple, cyan, yellow
    ),
    np.float32,
)
FEWEST, MOST = 3, 10

_CAMERA = np.array([7.36, -6.93, 4.96])
_JITTER = 0.5
_GAP = 0.25
_VISIBLE = 0.35  # of an object's disc
_FOCAL = 35 / 32  # in image widths: CLEVR's lens and sensor
_ASPECT = 3 / 2
_ATTEMPTS = 1000


@dataclass(frozen=True, eq=False)
class Scene:
    """Everything that a picture shows.

    Attributes:
        shape, size, colour, material: (k,) indices.
        centre: (k, 3); turn: (k,) about the vertical.
        camera: position; right, up, forward: its axes.
        light: direction towards it, of length one.
    """

    shape: IntArray
    size: IntArray
    colour: IntArray
    material: IntArray
    centre: Vector
    turn: Vector
    camera: Vector
    right: Vector
    up: Vector
    forward: Vector
    light: Vector

    @property
    def count(self) -> int:
        return len(self.shape)

    @property
    def depths(self) -> Vector:
        """Return the (k,) distances of the objects' centres along the camera's axis."""
        return np.asarray((self.centre - self.camera) @ self.forward)

    @property
    def closest(self) -> float:
        return float(self.depths.min())


def draw_scene(seed: int, number: int) -> Scene:
    """Generate scene `number` of a seed; the same two numbers give the same scene."""
    rng = np.random.default_rng([seed, number])
    count = int(rng.integers(FEWEST, MOST + 1))
    for _ in range(_ATTEMPTS):
        scene = _attempt(rng, count)
        if scene is not None and _all_visible(scene):
            return scene
    raise DataError(f"scene {number} of seed {seed}: no placement of {count} objects was found in {_ATTEMPTS} tries.")


def _attempt(rng: np.random.Generator, count: int) -> Scene | None:
    size = rng.integers(len(RADII), size=count)
    radius = np.asarray(RADII)[size]
    place = _place(rng, radius)
    if place is None:
        return None
    shape = rng.integers(len(SHAPES), size=count)
    # A cube of "radius" r has half an edge of r / sqrt 2, as in CLEVR, so that its corners stay within r on the floor.
    height = np.where(shape == 0, radius / np.sqrt(2), radius)
    camera = _CAMERA + rng.uniform(-_JITTER, _JITTER, 3)
    forward = -camera / np.linalg.norm(camera)
    right = np.cross(forward, [0.0, 0.0, 1.0])
    right /= np.linalg.norm(right)
    light = np.array([0.2, -0.75, 1.1]) + rng.uniform(-0.2, 0.2, 3)
    return Scene(
        shape=shape,
        size=size,
        colour=rng.integers(len(COLOURS), size=count),
        material=rng.integers(len(MATERIALS), size=count),
        centre=np.column_stack([place, height]).astype(np.float32),
        turn=rng.uniform(0, 2 * np.pi, count).astype(np.float32),
        camera=camera.astype(np.float32),
        right=right.astype(np.float32),
        up=np.cross(right, forward).astype(np.float32),
        forward=forward.astype(np.float32),
        light=(light / np.linalg.norm(light)).astype(np.float32),
    )


def _place(rng: np.random.Generator, radius: npt.NDArray[np.float64]) -> npt.NDArray[np.float64] | None:
    """Return (k, 2) positions with gaps between them, or None if an object has no room."""
    placed = np.empty((0, 2))
    for k, own in enumerate(radius):
        tries = rng.uniform(-3, 3, (50, 2))
        gaps = np.linalg.norm(tries[:, None] - placed[None], axis=2) - radius[:k] - own
        free = np.flatnonzero((gaps >= _GAP).all(axis=1))
        if not len(free):
            return None
        placed = np.vstack([placed, tries[free[0]]])
    return placed


def project(scene: Scene) -> tuple[Vector, Vector, Vector]:
    """Project centres to image coordinates, in widths from the middle (x right, y down), and radii in widths."""
    offset = scene.centre - scene.camera
    depth = offset @ scene.forward
    x, y = _FOCAL * (offset @ scene.right) / depth, -_FOCAL * (offset @ scene.up) / depth
    radius = _FOCAL * np.asarray(RADII, np.float32)[scene.size] / depth
    return np.asarray(x, np.float32), np.asarray(y, np.float32), np.asarray(radius, np.float32)


_GRID_X, _GRID_Y = np.meshgrid(
    (np.arange(72, dtype=np.float32) + 0.5) / 72 - 0.5, ((np.arange(48, dtype=np.float32) + 0.5) / 48 - 0.5) / _ASPECT
)


def _all_visible(scene: Scene) -> bool:
    """Return whether every object is inside the frame and at most two thirds hidden."""
    x, y, radius = project(scene)
    if (np.abs(x) + radius > 0.5).any() or (np.abs(y) + radius > 0.5 / _ASPECT).any():
        return False
    discs = (_GRID_X - x[:, None, None]) ** 2 + (_GRID_Y - y[:, None, None]) ** 2 < (radius**2)[:, None, None]
    front = np.where(discs, scene.depths[:, None, None], np.inf).argmin(axis=0)
    seen = discs & (front == np.arange(scene.count)[:, None, None])
    return bool((seen.sum(axis=(1, 2)) >= _VISIBLE * discs.sum(axis=(1, 2))).all())
