"""Scenes after CLEVR: three to ten solids on a floor, a camera and a light, sampled from a seed, and a ray caster.

Paper:      Johnson et al., "CLEVR: A diagnostic dataset for compositional language and elementary visual reasoning",
            CVPR 2017
Shapes:     world units as in CLEVR: objects within [-3, 3]^2, radius 0.7 or 0.35, camera about 11 away; one ray per
            sample, 2 x 2 samples per pixel; rays (3, h, w) are not normalised: the depth along the camera's axis
            states where a ray hits
Implements: uniform count, shape, size, colour, material and turn; gaps between objects; no object hidden behind others;
            camera jitter of 0.5; the depth of an object is that along the camera's axis, as CLEVR's pixel_coords[2];
            sphere, turned cube and upright cylinder in closed form; only the samples in an object's frame on the image
            are tested against it; diffuse and specular light; soft shadows on the floor from the objects' spheres
Differs:    visibility is judged by discs on a coarse grid instead of by rendered pixels
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from unseen.core.arrays import Float32Array, FloatArray, IntArray, Pixels
from unseen.core.arrays import FloatingArray as Array
from unseen.core.errors import DataError

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
    centre: Float32Array
    turn: Float32Array
    camera: Float32Array
    right: Float32Array
    up: Float32Array
    forward: Float32Array
    light: Float32Array

    @property
    def count(self) -> int:
        return len(self.shape)

    @property
    def depths(self) -> Float32Array:
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


def _place(rng: np.random.Generator, radius: FloatArray) -> FloatArray | None:
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


def project(scene: Scene) -> tuple[Float32Array, Float32Array, Float32Array]:
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


WIDTH, HEIGHT = 144, 96
#: Changes when the pixels of any image do.
VERSION = 1

_SAMPLES = 2
_W, _H = WIDTH * _SAMPLES, HEIGHT * _SAMPLES
_COLUMNS = ((np.arange(_W, dtype=np.float32) + 0.5) / _W - 0.5) / _FOCAL
_ROWS = (0.5 - (np.arange(_H, dtype=np.float32) + 0.5) / _H) / (_FOCAL * _ASPECT)
_FAR = np.float32(1e9)
_ZERO = np.float32(0)


def render_scene(scene: Scene) -> Pixels:
    """Render a scene as a (96, 144, 3) image."""
    rays = (
        scene.forward[:, None, None]
        + _COLUMNS[None, None, :] * scene.right[:, None, None]
        + _ROWS[None, :, None] * scene.up[:, None, None]
    )
    depth = np.full((_H, _W), _FAR, np.float32)
    colour = _floor(scene, rays[:, ::_SAMPLES, ::_SAMPLES])
    x, y, radius = project(scene)
    for k in range(scene.count):
        # The frame of the bounding sphere; sqrt 2 for the cylinder's rim, and a little for the perspective.
        reach = 1.5 * float(radius[k])
        columns = _span((float(x[k]) + 0.5) * _W, reach * _W, _W)
        rows = _span((float(y[k]) * WIDTH / HEIGHT + 0.5) * _H, reach * _W, _H)
        _draw(scene, k, rays[:, rows, columns], depth[rows, columns], colour[:, rows, columns])
    blocks = colour.reshape(3, HEIGHT, _SAMPLES, WIDTH, _SAMPLES)
    mean = (blocks[:, :, 0, :, 0] + blocks[:, :, 0, :, 1] + blocks[:, :, 1, :, 0] + blocks[:, :, 1, :, 1]) / 4
    return np.ascontiguousarray((np.clip(mean, 0, 255) + 0.5).astype(np.uint8).transpose(1, 2, 0))


def _span(middle: float, reach: float, limit: int) -> slice:
    return slice(max(0, math.floor(middle - reach)), min(limit, math.ceil(middle + reach) + 1))


def _dot(vector: Array, planes: Array) -> Array:
    """Return the products of one vector (3,) or of vectors (3, ...) with planes (3, ...)."""
    return np.asarray(vector[0] * planes[0] + vector[1] * planes[1] + vector[2] * planes[2])


def _floor(scene: Scene, rays: Array) -> Array:
    """Render the floor with the objects' shadows (3, 2h, 2w), one sample per pixel because it is smooth."""
    reach = -scene.camera[2] / rays[2]
    x, y = scene.camera[0] + reach * rays[0], scene.camera[1] + reach * rays[1]
    lit = np.ones_like(x)
    along = scene.light[0] * x + scene.light[1] * y
    for centre, radius in zip(scene.centre, np.asarray(RADII, np.float32)[scene.size], strict=True):
        # How far the way from a point of the floor to the light passes the object's centre.
        towards = np.float32(centre @ scene.light) - along
        apart = (x - centre[0]) ** 2 + (y - centre[1]) ** 2 + centre[2] ** 2 - towards**2
        share = (np.sqrt(np.maximum(apart, _ZERO)) / radius - 0.7) / 0.5
        shade = np.clip(share, 0, 1) * 0.55 + 0.45
        lit *= np.where(towards > 0, shade, np.float32(1))
    grey = np.maximum(176 - 1.1 * (x * x + y * y), 70) * lit
    grey = np.repeat(np.repeat(grey, _SAMPLES, axis=0), _SAMPLES, axis=1)
    return np.stack([grey, grey, 0.98 * grey])


def _draw(scene: Scene, k: int, rays: Array, depth: Array, colour: Array) -> None:
    """Put object `k` into a part of the picture, where nothing drawn before is in front of it."""
    radius = np.float32(RADII[int(scene.size[k])])
    origin = scene.camera - scene.centre[k]
    kind = SHAPES[int(scene.shape[k])]
    if kind == "sphere":
        reach, normal = _sphere(origin, rays, radius)
    elif kind == "cylinder":
        reach, normal = _cylinder(origin, rays, radius)
    else:
        reach, normal = _cube(origin, rays, radius / np.float32(math.sqrt(2)), float(scene.turn[k]))
    seen = reach < depth
    depth[seen] = reach[seen]
    colour[:, seen] = _shade(scene, k, rays[:, seen], normal[:, seen])


def _first_hit(a: Array, b: Array, c: Array) -> Array:
    """Return the smaller root t of a t^2 + 2 b t + c, or `_FAR` without any."""
    under = b * b - a * c
    return np.where(under > 0, (-b - np.sqrt(np.maximum(under, _ZERO))) / a, _FAR)


def _sphere(origin: Array, rays: Array, radius: np.float32) -> tuple[Array, Array]:
    reach = _first_hit(_dot(rays, rays), _dot(origin, rays), origin @ origin - radius**2)
    return reach, (origin[:, None, None] + reach * rays) / radius


def _cylinder(origin: Array, rays: Array, radius: np.float32) -> tuple[Array, Array]:
    """Intersect rays with an upright cylinder, as high as wide; from above its side and upper cap are visible."""
    a = rays[0] * rays[0] + rays[1] * rays[1]
    b = origin[0] * rays[0] + origin[1] * rays[1]
    side = _first_hit(a, b, origin[:2] @ origin[:2] - radius**2)
    side = np.where(np.abs(origin[2] + side * rays[2]) <= radius, side, _FAR)
    cap = (radius - origin[2]) / rays[2]
    on_cap = (origin[0] + cap * rays[0]) ** 2 + (origin[1] + cap * rays[1]) ** 2 <= radius**2
    cap = np.where(on_cap & (cap > 0), cap, _FAR)
    upper = cap < side
    reach = np.where(upper, cap, side)
    around = np.where(upper, _ZERO, (origin[:2, None, None] + reach * rays[:2]) / radius)
    return reach, np.concatenate([around, upper.astype(np.float32)[None]])


def _cube(origin: Array, rays: Array, half: np.float32, turn: float) -> tuple[Array, Array]:
    """Intersect rays with a cube by the slab method in the cube's own axes."""
    cosine, sine = np.float32(math.cos(turn)), np.float32(math.sin(turn))
    axes = np.array([[cosine, sine, 0], [-sine, cosine, 0], [0, 0, 1]], np.float32)
    start, way = (axes @ origin)[:, None, None], np.stack([_dot(axis, rays) for axis in axes])
    way[np.abs(way) < 1e-8] = 1e-8
    side = np.copysign(half, way)
    near, far = (-side - start) / way, (side - start) / way
    enter = np.maximum(np.maximum(near[0], near[1]), near[2])
    leave = np.minimum(np.minimum(far[0], far[1]), far[2])
    reach = np.where((enter < leave) & (enter > 0), enter, _FAR)
    facing = -np.copysign(near == enter, way)  # one of the three is -1 or 1, the others are 0
    return reach, np.stack([_dot(column, facing) for column in axes.T]).astype(np.float32)


def _shade(scene: Scene, k: int, rays: Array, normal: Array) -> Array:
    """Return the (3, n) colours of hits: ambient and diffuse light, and a highlight that is stronger on metal."""
    metal = bool(scene.material[k])
    view = -rays / np.sqrt(_dot(rays, rays))
    halfway = view + scene.light[:, None]
    halfway /= np.sqrt(_dot(halfway, halfway))
    diffuse = np.maximum(_dot(scene.light, normal), _ZERO)
    highlight = np.maximum(_dot(normal, halfway), _ZERO) ** (64 if metal else 12)
    if metal:
        # It mirrors a bright upper and a dark lower half of the surroundings.
        mirrored = 2 * _dot(normal, view) * normal[2] - view[2]
        light = 0.25 + 0.45 * diffuse + 0.4 * np.clip(mirrored, -0.3, 1)
    else:
        light = 0.35 + 0.75 * diffuse + 0.1 * normal[2]
    body = COLOURS[scene.colour[k]] * np.float32(1.15)
    return np.asarray(body[:, None] * light + (200 if metal else 45) * highlight)
