"""A small ray caster for scenes after CLEVR: exact solids, perspective, shading, shadows, occlusion.

Shapes:     one ray per sample, 2 x 2 samples per pixel; rays (3, h, w) are not normalised: where a ray hits is
            told by the depth along the camera's axis
Implements: sphere, turned cube and upright cylinder in closed form; only the samples in an object's frame on the image
            are tested against it; diffuse and specular light; soft shadows on the floor from the objects' spheres
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from unseen.data.sources.procedural.scenes import COLOURS, RADII, SHAPES, Scene, project

Pixels = npt.NDArray[np.uint8]
Array = npt.NDArray[np.floating[Any]]

WIDTH, HEIGHT = 144, 96
#: Changes when the pixels of any image do.
VERSION = 1

_SAMPLES = 2
_W, _H = WIDTH * _SAMPLES, HEIGHT * _SAMPLES
_FOCAL = np.float32(35 / 32)
_COLUMNS = ((np.arange(_W, dtype=np.float32) + np.float32(0.5)) / _W - np.float32(0.5)) / _FOCAL
_ROWS = (np.float32(0.5) - (np.arange(_H, dtype=np.float32) + np.float32(0.5)) / _H) / (_FOCAL * np.float32(1.5))
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
    return np.ascontiguousarray((np.clip(mean, 0, 255) + np.float32(0.5)).astype(np.uint8).transpose(1, 2, 0))


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
        share = (np.sqrt(np.maximum(apart, _ZERO)) / radius - np.float32(0.7)) / np.float32(0.5)
        shade = np.clip(share, 0, 1) * np.float32(0.55) + np.float32(0.45)
        lit *= np.where(towards > 0, shade, np.float32(1))
    grey = np.maximum(np.float32(176) - np.float32(1.1) * (x * x + y * y), np.float32(70)) * lit
    grey = np.repeat(np.repeat(grey, _SAMPLES, axis=0), _SAMPLES, axis=1)
    return np.stack([grey, grey, np.float32(0.98) * grey])


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


def _sphere(origin: Array, rays: Array, radius: np.float32) -> tuple[Array, Array]:
    a, b = _dot(rays, rays), _dot(origin, rays)
    under = b * b - a * (origin @ origin - radius**2)
    reach = np.where(under > 0, (-b - np.sqrt(np.maximum(under, _ZERO))) / a, _FAR)
    return reach, (origin[:, None, None] + reach * rays) / radius


def _cylinder(origin: Array, rays: Array, radius: np.float32) -> tuple[Array, Array]:
    """Intersect rays with an upright cylinder, as high as wide; from above its side and upper cap are visible."""
    a = rays[0] * rays[0] + rays[1] * rays[1]
    b = origin[0] * rays[0] + origin[1] * rays[1]
    under = b * b - a * (origin[:2] @ origin[:2] - radius**2)
    side = np.where(under > 0, (-b - np.sqrt(np.maximum(under, _ZERO))) / a, _FAR)
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
    way = np.where(np.abs(way) < np.float32(1e-8), np.float32(1e-8), way)
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
    body = COLOURS[int(scene.colour[k])] * np.float32(1.15)
    if metal:
        # It mirrors a bright upper and a dark lower half of the surroundings.
        mirrored = 2 * _dot(normal, view) * normal[2] - view[2]
        light = np.float32(0.25) + np.float32(0.45) * diffuse + np.float32(0.4) * np.clip(mirrored, -0.3, 1)
        return np.asarray(body[:, None] * light + np.float32(200) * highlight)
    light = np.float32(0.35) + np.float32(0.75) * diffuse + np.float32(0.1) * normal[2]
    return np.asarray(body[:, None] * light + np.float32(45) * highlight)
