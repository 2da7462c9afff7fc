"""Generated focus stacks of a painted scene whose depth and sharp truth are known: for the demo, the tests and the sample data.

A garden seen from above: pebbles, and over them leaves, flowers, blades and beads in planes of their own. Every image focuses on one
plane; every other plane, with its outline, is blurred by a disc that grows with the distance in planes, and the planes are laid over
one another from back to front. So blurred things in front spread over sharp things behind, as in a camera, and the stack is as hard
near depth edges as a real one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np
from numpy.random import Generator
from numpy.typing import DTypeLike, NDArray
from scipy import fft, ndimage

from qmcif_engine.arrays import FloatArray, IndexArray, SampleArray
from qmcif_engine.errors import InvalidConfigError

LARGEST_BLUR_PX = 6.5
"""With half a pixel of soft rim on the disc and one on the outlines, nothing reaches farther than 8 px from a depth edge."""

# as far as anything out of focus reaches: what wraps around the canvas stays outside the frame
_MARGIN_PX = 8
_SMALLEST_SIDE_PX, _LARGEST_SIDE_PX = 8, 8192
_LARGEST_N_IMAGES = 32
_SMALLEST_BLUR_PX = 0.5
_N_OBJECTS = 9
_RELATIVE_RADIUS = 0.62
_EVEN_SPREAD = np.array([0.7548776662466927, 0.5698402909980532])
"""Steps of the plastic number's sequence, whose points fill a frame evenly and never line up."""

_SHADOW_SHIFT_PX = (5, 4)
_LARGEST_REACH = 1.4
"""How far the longest object extends from its center, in radii."""

_LUMA = np.array([0.299, 0.587, 0.114], np.float32)
_DTYPES = ("uint8", "uint16", "float32", "float64")

_ColorPair: TypeAlias = tuple[tuple[float, float, float], tuple[float, float, float]]
_LEAF_COLORS: tuple[_ColorPair, ...] = (
    ((0.10, 0.42, 0.12), (0.72, 0.86, 0.30)),
    ((0.75, 0.28, 0.05), (1.00, 0.78, 0.25)),
    ((0.05, 0.38, 0.30), (0.55, 0.90, 0.60)),
)
_FLOWER_COLORS: tuple[_ColorPair, ...] = (
    ((0.86, 0.10, 0.35), (1.00, 0.72, 0.82)),
    ((0.45, 0.18, 0.75), (0.85, 0.72, 1.00)),
    ((0.95, 0.45, 0.05), (1.00, 0.90, 0.45)),
)
_BEAD_COLORS: tuple[_ColorPair, ...] = (
    ((0.65, 0.04, 0.04), (1.00, 0.45, 0.30)),
    ((0.04, 0.22, 0.55), (0.40, 0.80, 1.00)),
    ((0.55, 0.35, 0.02), (1.00, 0.90, 0.40)),
)
_PEBBLE_COLORS = np.array([[0.42, 0.50, 0.62], [0.62, 0.60, 0.55], [0.33, 0.40, 0.50], [0.68, 0.52, 0.40], [0.50, 0.56, 0.50]], np.float32)


@dataclass(frozen=True, slots=True, eq=False)
class SyntheticStack:
    """A focus stack with everything that is known about it.

    Parameters
    ----------
    images : ndarray, shape (N, H, W) or (N, H, W, 3)
        Image 0 is focused on the background, image N - 1 on the nearest plane.
    truth : ndarray of the same dtype, shape (H, W) or (H, W, 3)
        The scene with everything in focus.
    depth_index : ndarray of uint16, shape (H, W)
        Which image is in focus at each pixel.
    edge_distance_px : ndarray of float32, shape (H, W)
        Distance to the nearest pixel beside a depth edge, of which every scene has some. Beyond 8 px the image in focus and the truth
        are the same.
    """

    images: SampleArray
    truth: SampleArray
    depth_index: IndexArray
    edge_distance_px: NDArray[np.float32]


class _Layer(NamedTuple):
    """One plane of the scene: colors already multiplied by the matte, (C, h, w), and the matte, (h, w)."""

    color: FloatArray
    matte: FloatArray


class _Outline(NamedTuple):
    """One object: how far inside its outline each pixel lies, in radii, (h, w), and its colors, (3, h, w)."""

    depth_inside: FloatArray
    color: FloatArray


class _Painter(Protocol):
    """A painter of one object, given each pixel's coordinates along and across it, in radii, and which of its varieties."""

    def __call__(self, along: FloatArray, across: FloatArray, *, variety: int) -> _Outline: ...


def make_focus_stack(
    *,
    n_images: int = 2,
    shape: tuple[int, int] = (256, 256),
    seed: int = 0,
    dtype: DTypeLike = np.uint8,
    is_color: bool = True,
    blur_px: float = 5.0,
) -> SyntheticStack:
    """Make a focus stack of a painted scene whose depth and sharp truth are known.

    Parameters
    ----------
    n_images : int, optional
        2 to 32, one plane of the scene each.
    shape : tuple of int, optional
        Height and width, 8 to 8192 px each.
    seed : int, optional
        The same seed gives the same scene.
    dtype : dtype, optional
        uint8 and uint16 use the whole range of the type, float32 and float64 the range 0 to 1.
    is_color : bool, optional
        RGB or gray.
    blur_px : float, optional
        Radius of the blur one plane out of focus, 0.5 to 6.5 px. It grows in proportion to the distance in planes, up to 6.5 px.

    Returns
    -------
    SyntheticStack
        Images, truth, depth and distance to depth edges.

    Raises
    ------
    InvalidConfigError
        When an argument is out of bounds.
    """
    check_frame(n_images=n_images, largest_n=_LARGEST_N_IMAGES, shape=shape, largest_px=_LARGEST_SIDE_PX, seed=seed)
    _check_blur(blur_px)
    kind = _parse_dtype(dtype)
    # the blur is a product of spectra: a little more margin costs less than a length with large prime factors
    canvas = (fft.next_fast_len(shape[0] + 2 * _MARGIN_PX, real=True), fft.next_fast_len(shape[1] + 2 * _MARGIN_PX, real=True))
    layers = _paint_scene(np.random.default_rng(seed), n_images, canvas=canvas, shape=shape)
    if not is_color:
        layers = [_Layer(np.tensordot(_LUMA, layer.color, 1)[np.newaxis], layer.matte) for layer in layers]
    frame = (slice(_MARGIN_PX, _MARGIN_PX + shape[0]), slice(_MARGIN_PX, _MARGIN_PX + shape[1]))
    depth_index = np.ascontiguousarray(_find_depth(layers)[frame])
    return SyntheticStack(
        images=_to_samples(_photograph(layers, blur_px)[..., *frame], kind),
        truth=_to_samples(_photograph(layers, 0.0)[0][..., *frame], kind),
        depth_index=depth_index,
        edge_distance_px=_measure_edge_distance(depth_index),
    )


def check_frame(*, n_images: object, largest_n: int, shape: Sequence[object], largest_px: int, seed: object) -> None:
    """Refuse what no generated stack can have."""
    if not is_whole_between(n_images, 2, largest_n):
        msg = f"n_images={n_images!r} was given; 2 to {largest_n} is needed; choose a number of images in between"
        raise InvalidConfigError(msg)
    if len(shape) != 2 or not all(is_whole_between(side, _SMALLEST_SIDE_PX, largest_px) for side in shape):
        bounds = f"{_SMALLEST_SIDE_PX} to {largest_px} px"
        msg = f"shape={shape!r} was given; height and width of {bounds} are needed; choose a size in between"
        raise InvalidConfigError(msg)
    if not is_whole_between(seed, 0, math.inf):
        msg = f"seed={seed!r} was given; a whole number that is not negative is needed; choose another one"
        raise InvalidConfigError(msg)


def _check_blur(blur_px: object) -> None:
    if not isinstance(blur_px, int | float | np.floating) or not _SMALLEST_BLUR_PX <= float(blur_px) <= LARGEST_BLUR_PX:
        msg = f"blur_px={blur_px!r} was given; {_SMALLEST_BLUR_PX} to {LARGEST_BLUR_PX} px is needed; choose a radius in between"
        raise InvalidConfigError(msg)


def is_whole_between(value: object, smallest: int, largest: float) -> bool:
    """Return whether a value is a whole number within bounds; True and False are none."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and smallest <= int(value) <= largest


def _parse_dtype(dtype: DTypeLike) -> np.dtype[Any]:
    with suppress(TypeError):
        kind = np.dtype(dtype)
        if kind.name in _DTYPES:
            return kind
    msg = f"dtype={dtype!r} was given; one of {', '.join(_DTYPES)} is needed; choose one and convert afterwards"
    raise InvalidConfigError(msg)


def _photograph(layers: list[_Layer], blur_px: float) -> FloatArray:
    """Return one image for each plane in focus, (N, C, h, w), composed from back to front; without blur all are the truth."""
    n_images = len(layers) if blur_px else 1
    images = np.zeros((n_images, *layers[0].color.shape), np.float32)
    for plane, layer in enumerate(layers):
        # planes as far before the focus as behind it, and all beyond the largest blur, look the same
        blurred: dict[float, _Layer] = {}
        for focused in range(n_images):
            radius_px = min(blur_px * abs(plane - focused), LARGEST_BLUR_PX)
            if radius_px not in blurred:
                blurred[radius_px] = _Layer(*(_blur(planes, radius_px) for planes in layer))
            # the matte is blurred with its colors, so that an edge in front lets the plane behind shine through
            images[focused] *= 1 - blurred[radius_px].matte
            images[focused] += blurred[radius_px].color
    return images


def _blur(planes: FloatArray, radius_px: float) -> FloatArray:
    """Return the planes as a lens aperture renders them out of focus; the canvas is periodic, its margin takes up what wraps around."""
    if radius_px == 0:
        return planes
    height, width = planes.shape[-2:]
    rows = fft.fftfreq(height, 1 / height)[:, np.newaxis]
    columns = fft.fftfreq(width, 1 / width)[np.newaxis]
    # half a pixel of slope at the rim, for a disc of any radius, not of whole pixels only
    disc = np.clip(radius_px + 0.5 - np.hypot(rows, columns), 0, 1).astype(np.float32)
    spectrum = fft.rfft2(planes) * fft.rfft2(disc / disc.sum())
    return np.asarray(fft.irfft2(spectrum, s=(height, width)), np.float32)


def _find_depth(layers: list[_Layer]) -> IndexArray:
    depth = np.zeros(layers[0].matte.shape, np.uint16)
    for plane, layer in enumerate(layers):
        depth[layer.matte > 0.5] = plane
    return depth


def _measure_edge_distance(depth_index: IndexArray) -> NDArray[np.float32]:
    is_beside_edge = np.zeros(depth_index.shape, bool)
    for axis in (0, 1):
        is_step = np.diff(depth_index, axis=axis) != 0
        # both sides of a step
        for side in (slice(1, None), slice(None, -1)):
            is_beside_edge[(slice(None),) * axis + (side,)] |= is_step
    return np.asarray(ndimage.distance_transform_edt(~is_beside_edge), np.float32)


def _to_samples(planes: FloatArray, dtype: np.dtype[Any]) -> SampleArray:
    """Return (..., C, h, w) in 0 to 1 as samples with the channels last, or without them where there is one."""
    channels_last = np.moveaxis(planes, -3, -1) if planes.shape[-3] > 1 else planes[..., 0, :, :]
    clipped = np.clip(channels_last, 0, 1)
    if dtype.kind == "f":
        return np.ascontiguousarray(clipped, dtype)
    # the largest integer of a type is exact in float32 up to 16 bits
    return np.ascontiguousarray(np.rint(clipped * np.float32(np.iinfo(dtype).max)), dtype)


def _paint_scene(generator: Generator, n_planes: int, *, canvas: tuple[int, int], shape: tuple[int, int]) -> list[_Layer]:
    """Return the planes from back to front: the ground, then objects spread evenly over the frame and over the nearer planes.

    The objects draw from a generator of their own, so that the same seed gives the same composition at every size.
    """
    # one generator each: how much noise a larger canvas draws moves no object
    composer, ground, grain = generator.spawn(3)
    n_objects = max(n_planes - 1, _N_OBJECTS)
    radius_px = _RELATIVE_RADIUS * math.sqrt(shape[0] * shape[1] / n_objects)
    offset = composer.random(2)
    first_painter = int(composer.integers(len(_PAINTERS)))
    layers = [_paint_ground(ground, canvas)]
    layers += [_Layer(np.zeros((3, *canvas), np.float32), np.zeros(canvas, np.float32)) for _ in range(1, n_planes)]
    for index in range(n_objects):
        paint = _PAINTERS[(first_painter + index) % len(_PAINTERS)]
        # shares of the frame, so that the composition is the same at every size
        center = (offset + (index + 1) * _EVEN_SPREAD) % 1 * shape + _MARGIN_PX
        layer = layers[1 + index * (n_planes - 1) // n_objects]
        _paint_object(composer, layer, paint=paint, center=center, radius_px=radius_px, variety=index)
    return _light(grain, layers)


def _light(generator: Generator, layers: list[_Layer]) -> list[_Layer]:
    """Return the planes with fine grain everywhere, so that no spot is without texture, and with soft shadows from those in front."""
    canvas = layers[0].matte.shape
    grain = 1 + 0.13 * _make_noise(generator, canvas, steepness=0.5) + 0.09 * _make_noise(generator, canvas, steepness=1.4)
    above = np.zeros(canvas, np.float32)
    lit: list[_Layer] = []
    # from front to back: a plane is shaded by all that lie above it
    for layer in reversed(layers):
        shadow = ndimage.gaussian_filter(np.roll(above, _SHADOW_SHIFT_PX, (0, 1)), 4.0)
        own_grain = np.roll(grain, generator.integers(0, canvas, 2).tolist(), (0, 1))
        lit.append(_Layer(np.clip(layer.color * own_grain, 0, layer.matte) * (1 - 0.55 * shadow), layer.matte))
        above = np.maximum(above, layer.matte)
    return lit[::-1]


def _make_noise(generator: Generator, canvas: tuple[int, ...], *, steepness: float) -> FloatArray:
    """Return noise of unit variance over all octaves, its amplitude falling with the given power of the frequency; (h, w)."""
    rows = fft.fftfreq(canvas[0])[:, np.newaxis]
    columns = fft.rfftfreq(canvas[1])[np.newaxis]
    frequency = np.hypot(rows, columns)
    # no power at frequency 0, where the falling amplitude would be infinite: the mean stays that of the scene
    frequency[0, 0] = np.inf
    band = (frequency**-steepness * np.exp(-((frequency / 0.42) ** 4))).astype(np.float32)
    noise = fft.irfft2(fft.rfft2(generator.standard_normal(canvas, np.float32)) * band, s=canvas)
    return np.asarray(noise / noise.std(), np.float32)


def _paint_ground(generator: Generator, canvas: tuple[int, int]) -> _Layer:
    """Return pebbles: cells around random seeds, each with its own color and darker towards its rim."""
    height, width = canvas
    pebble_px = max(7.0, min(canvas) / 18)
    n_pebbles = max(4, round(height * width / pebble_px**2))
    is_seed = np.zeros(canvas, bool)
    is_seed[generator.integers(0, height, n_pebbles), generator.integers(0, width, n_pebbles)] = True
    nearest = ndimage.distance_transform_edt(~is_seed, return_distances=False, return_indices=True)
    # the pixel of the nearest seed stands for its pebble
    label = nearest[0] * width + nearest[1]
    is_rim = (label != np.roll(label, 1, 0)) | (label != np.roll(label, 1, 1))
    rim_distance_px = ndimage.distance_transform_edt(~is_rim).astype(np.float32)
    roundness = np.sqrt(np.clip(rim_distance_px / (0.42 * pebble_px), 0.02, 1))
    kinds = generator.integers(0, len(_PEBBLE_COLORS), height * width)
    tones = generator.uniform(0.75, 1.25, height * width).astype(np.float32)
    color = _PEBBLE_COLORS[kinds[label]] * (tones[label] * (0.18 + 0.82 * roundness))[..., np.newaxis]
    return _Layer(np.ascontiguousarray(np.moveaxis(color, -1, 0)), np.ones(canvas, np.float32))


def _paint_object(generator: Generator, layer: _Layer, *, paint: _Painter, center: NDArray[Any], radius_px: float, variety: int) -> None:
    """Lay one object over a plane, in place: the plane is still being painted and nobody else holds it."""
    radius_px *= generator.uniform(0.8, 1.2)
    angle = generator.uniform(0, 2 * math.pi)
    reach_px = _LARGEST_REACH * radius_px + 2
    rows, columns = (
        slice(max(0, int(middle - reach_px)), min(side, int(middle + reach_px) + 1))
        for middle, side in zip(center, layer.matte.shape, strict=True)
    )
    down, right = (np.mgrid[rows, columns] - center[:, np.newaxis, np.newaxis]).astype(np.float32) / np.float32(radius_px)
    cosine, sine = np.float32(math.cos(angle)), np.float32(math.sin(angle))
    outline = paint(right * cosine + down * sine, down * cosine - right * sine, variety=variety)
    # half a pixel to either side of the outline: edges without jags, which no lens would show
    cover = np.clip(outline.depth_inside * radius_px + 0.5, 0, 1)
    layer.matte[rows, columns] = layer.matte[rows, columns] * (1 - cover) + cover
    layer.color[:, rows, columns] = layer.color[:, rows, columns] * (1 - cover) + outline.color * cover


def _mix(colors: _ColorPair, share: FloatArray) -> FloatArray:
    """Return the color between two, (3, h, w), by the share of the second."""
    first, second = np.array(colors, np.float32)[..., np.newaxis, np.newaxis]
    return np.asarray(first + (second - first) * np.clip(share, 0, 1))


def _draw_lines(phase: FloatArray, *, sharpness: float) -> FloatArray:
    """Return thin lines of height 1 where the phase is whole."""
    return np.asarray(np.exp(sharpness * (np.cos(2 * math.pi * phase) - 1)))


def _paint_leaf(along: FloatArray, across: FloatArray, *, variety: int) -> _Outline:
    half_width = 0.5 * (1 - along**2) * (1 - 0.35 * along)
    veins = np.maximum(np.exp(-((across / 0.025) ** 2)), 0.7 * _draw_lines(5 * along - 4 * np.abs(across), sharpness=7))
    color = _mix(_LEAF_COLORS[variety % len(_LEAF_COLORS)], 0.25 + 0.3 * along + 0.55 * veins)
    return _Outline(half_width - np.abs(across), color)


def _paint_flower(along: FloatArray, across: FloatArray, *, variety: int) -> _Outline:
    radius, angle = np.hypot(along, across), np.arctan2(across, along)
    n_petals = 5 + variety % 4
    streaks = _draw_lines(angle * (n_petals * 3 / (2 * math.pi)), sharpness=2)
    petals = _mix(_FLOWER_COLORS[variety % len(_FLOWER_COLORS)], 1.15 * radius - 0.45 * streaks)
    heart = _mix(((0.45, 0.22, 0.02), (1.0, 0.85, 0.15)), 0.5 + 0.5 * np.cos(38 * along) * np.cos(38 * across))
    is_heart = np.clip((0.24 - radius) * 40, 0, 1)
    reach = 0.5 + 0.45 * np.abs(np.cos(angle * (n_petals / 2))) ** 0.6
    return _Outline(reach - radius, petals * (1 - is_heart) + heart * is_heart)


def _paint_blade(along: FloatArray, across: FloatArray, *, variety: int) -> _Outline:
    aside = across - (0.25 if variety % 2 else -0.3) * along**2
    taper = np.sqrt(np.clip(1 - (along / _LARGEST_REACH) ** 2, 0, 1))
    share = 0.65 * _draw_lines(aside * 22, sharpness=1.2) + 0.3 * _draw_lines(along * 6, sharpness=3)
    is_beyond = np.abs(along) >= _LARGEST_REACH
    return _Outline(0.11 * taper - np.abs(aside) - is_beyond, _mix(((0.12, 0.35, 0.08), (0.8, 0.95, 0.4)), share))


def _paint_bead(along: FloatArray, across: FloatArray, *, variety: int) -> _Outline:
    radius = np.hypot(along, across) / 0.55
    dome = np.sqrt(np.clip(1 - radius**2, 0, 1))
    spots = _draw_lines(along * 5, sharpness=3) * _draw_lines(across * 5, sharpness=3)
    glint = np.exp(-(((along + 0.18) / 0.09) ** 2) - ((across + 0.14) / 0.07) ** 2)
    color = _mix(_BEAD_COLORS[variety % len(_BEAD_COLORS)], 0.15 + 0.75 * dome) * (1 - 0.75 * spots)
    return _Outline((1 - radius) * 0.55, color + (1 - color) * 0.8 * glint)


_PAINTERS: tuple[_Painter, ...] = (_paint_leaf, _paint_flower, _paint_blade, _paint_bead, _paint_leaf)
