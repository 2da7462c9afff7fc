"""Draw the decision map's edges where the scene has them, by asking which of two images explains the other.

Where an image is in focus, the other one is a blurred copy of it: blurring the sharp image again reproduces the blurred one, but no
blurring of the blurred image reproduces the sharp one. Unlike a focus measure this needs no wide window, and it is not misled by the
halo of a blurred edge, which has more contrast than the sharp but flat surroundings it covers. It needs to know which two images
compete, so it is used within a few pixels of the edges that the focus maps have drawn. Neighbors that disagree then settle on outlines
that are as short as the evidence allows (`qmcif_engine.cleanup.boundaries.outlines`).

None of this is in the paper; `edge_band_px` = 0, as in the ``paper`` preset, switches it off.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from qmcif_engine.cleanup.boundaries.outlines import ROUNDS, shorten_outlines
from qmcif_engine.cleanup.decision import CleanUpStage, Decision
from qmcif_engine.cleanup.filters import local_variance
from qmcif_engine.config.stage import Reach, bytes_per_pixel
from qmcif_engine.kernels.blurring import add_rests, add_unexplained
from qmcif_engine.kernels.regions import take_rivals
from qmcif_engine.method.fusion import select_each
from qmcif_engine.method.patches import FARTHEST_PX, cells_of, cut_reflected, edge_band, window_mean
from qmcif_engine.stack.window import Window

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qmcif_engine.cleanup.decision import DecisionBasis
    from qmcif_engine.config.fusion_config import DecisionConfig, FusionConfig
    from qmcif_engine.kernels.array_types import BoolArray, FloatArray, IndexArray

BLURS_PX = (1.5, 4.0, 8.0)
"""Standard deviations tried: defocus of a little, of much and of a great deal, without which the halo of a bright object is taken for
focus."""

NOISE_POWER = 12.0
"""Unexplained power on the 0-255 scale that noise leaves in any case: two gray levels in each of three channels."""

COMPARISON_WINDOW_PX = 3

CONTRAST_WINDOW_PX = 5
CONTRAST_SHARE = 0.5
"""What the logarithm of a ratio of variances counts beside that of unexplained power."""

LARGEST_CONTRAST_EVIDENCE = 0.8
"""Contrast may tip the balance, not more: beside a bright object its blurred halo has the most contrast of all."""

CUT_OFF = 3.0
"""Where a Gaussian ends, in standard deviations."""

_LARGEST_RADIUS_PX = int(CUT_OFF * max(BLURS_PX) + 0.5)

EXACT_BLURS_PX = (1.5, 2.5, 4.0, 8.0)
EXPLAINED_WINDOW_PX = 17
EXPLAINED_SHARES = (0.12, 0.25)
"""Share of the difference of two images that the blurred fused picture may leave: up to the first the model of defocus is trusted, from
the second on it is not. Registered pairs have .03 to .24, pairs that do not lie on each other .25 to 1."""

LEAST_REST = 0.05
"""Share of the difference that counts as unexplained in any case."""

EXACT_BAND_PX = 4
EXACT_PASSES = 1
EXACT_ROUNDS = 6
EXACT_INERTIA = 0.6
EXACT_STIFFNESS = 0.25
"""What edges drawn to the pixel cost to change, and a step of their outline beside one of the first drawing."""

EXACT_MARGIN_PX = int(CUT_OFF * max(EXACT_BLURS_PX) + 0.5) + EXPLAINED_WINDOW_PX // 2

MARGIN_PX = COMPARISON_WINDOW_PX // 2 + _LARGEST_RADIUS_PX
"""How far from a pixel the samples lie that its evidence depends on: comparison and blur in turn; contrast looks less far."""


def refine_edges(index: IndexArray, blocks: Sequence[FloatArray], config: DecisionConfig, *, noise_level: float = 0.0) -> IndexArray:
    """Decide again near the edges of a decision map, first by the two images alone, then to the pixel by what they give together.

    Parameters
    ----------
    index : ndarray of uint16, shape (h, w)
    blocks : sequence of ndarray of float, shape (3, h, w)
        The images on the 0-255 scale.
    config : DecisionConfig
    noise_level : float
        Standard deviation of the noise, in gray levels: what it leaves unexplained decides nothing.

    Returns
    -------
    ndarray of uint16, shape (h, w)

    Notes
    -----
    Departs: the paper keeps the edges that its focus maps draw, which is `edge_band_px` = 0.
    """
    noise_power = NOISE_POWER + 3 * noise_level**2
    index = _redraw(
        index,
        blocks,
        draft=Draft(config.edge_band_px, MARGIN_PX, config.edge_inertia, config.edge_stiffness),
        measure=lambda first, second, _fused, _is_first: _valid_evidence(first, second, noise_power=noise_power),
    )
    exact = Draft(
        min(EXACT_BAND_PX, config.edge_band_px), EXACT_MARGIN_PX, EXACT_INERTIA, EXACT_STIFFNESS * config.edge_stiffness, EXACT_ROUNDS
    )
    for _ in range(EXACT_PASSES if config.edge_stiffness and noise_level == 0 else 0):
        index = _redraw(index, blocks, draft=exact, measure=lambda *pictures: exact_evidence(*pictures, noise_power=noise_power))
    return index


class Measure(Protocol):
    """Evidence for the second of two images, from both, the fused picture, and where that is the first; without their margin."""

    def __call__(self, first: FloatArray, second: FloatArray, fused: FloatArray, is_first: BoolArray, /) -> FloatArray:
        """Return the evidence; above 0 the second image is the sharp one."""


class Draft(NamedTuple):
    """How edges are drawn: how far from them, how far the evidence looks, what a change and a step of an outline cost, how many rounds."""

    band_px: int
    margin_px: int
    inertia: float
    stiffness: float
    rounds: int = ROUNDS


def _redraw(index: IndexArray, blocks: Sequence[FloatArray], *, draft: Draft, measure: Measure) -> IndexArray:
    """Decide again within a band around the edges, by evidence for the one or the other of the two images that meet there."""
    band = edge_band(index, reach_px=draft.band_px)
    if draft.band_px == 0 or not band.any():
        return index
    looks_px = max(draft.margin_px, draft.rounds)
    is_looked_at = band | edge_band(band.astype(np.uint16), reach_px=looks_px)
    rival = rival_index(index, is_looked_at, reach_px=math.ceil(math.sqrt(2) * (looks_px + draft.band_px)) + 1)
    # one order for both sides of an edge, so that the two pictures compared are continuous across it; where three images meet, they
    # are not, and the comparison is as good as its small window allows
    first, second = np.minimum(index, rival), np.maximum(index, rival)
    pictures = select_each(blocks, (first, second))
    is_first = index == first
    evidence = np.zeros(index.shape, pictures[0].dtype)
    for cell in cells_of(band):
        near = [cut_reflected(picture, cell, margin_px=draft.margin_px) for picture in pictures]
        near_is_first = cut_reflected(is_first, cell, margin_px=draft.margin_px)
        evidence[cell.slices] = measure(near[0], near[1], np.where(near_is_first, near[0], near[1]), near_is_first)
    inertia = np.asarray(draft.inertia, evidence.dtype)
    evidence += np.where(index == second, inertia, -inertia)
    is_second = shorten_outlines(evidence, index == second, band, pairs=(first, second), stiffness=draft.stiffness, rounds=draft.rounds)
    return np.where(band, np.where(is_second, second, first), index)


def exact_evidence(first: FloatArray, second: FloatArray, fused: FloatArray, is_first: BoolArray, *, noise_power: float) -> FloatArray:
    """Return by how much better the fused picture, blurred, explains the first image than the second; above 0 the second is sharp.

    Near an edge each image alone is sharp on one side only, and blurring it again reproduces the other image on that side only. The fused
    picture is sharp on both: where an image is out of focus, the fused picture, blurred, is that image, to the pixel. This holds where
    defocus is a blur of what is seen. Where images do not lie on each other, or something hidden comes into view, it does not; what the
    blurred picture leaves of the image that was not chosen tells, and there the evidence is nothing.

    Parameters
    ----------
    first, second, fused : ndarray of float, shape (3, h, w)
    is_first : ndarray of bool, shape (h, w)
        Where the fused picture is taken from the first image.
    noise_power : float

    Returns
    -------
    ndarray of float, shape (h - 2 m, w - 2 m)
        For the pixels that all windows fit around, ``m`` from the border.

    Notes
    -----
    ``ln((r_2 + n) / (r_1 + n))`` with ``r_k = |I_k - G_s * F|^2`` for the ``s`` that explains the neighborhood best, times a gate that is
    1 where the image not chosen is explained up to `EXPLAINED_SHARES`[0] of its difference to the other, and 0 from
    `EXPLAINED_SHARES`[1] on.
    """
    window, radius = EXPLAINED_WINDOW_PX // 2, EXACT_MARGIN_PX - EXPLAINED_WINDOW_PX // 2
    kept = (slice(radius, -radius), slice(radius, -radius))
    inner = (slice(window, -window), slice(window, -window))
    fitting = np.zeros((2, *is_first[kept].shape), first.dtype)
    unexplained = np.full(is_first[kept].shape, np.inf, first.dtype)
    for deviation in EXACT_BLURS_PX:
        taps = _gaussian_taps(deviation, first.dtype.name)
        spare = radius - (len(taps) - 1)
        near = (slice(None), *[slice(spare, length - spare) for length in first.shape[-2:]])
        rests = np.zeros_like(fitting)
        near_fused, near_first, near_second = (np.ascontiguousarray(picture[near]) for picture in (fused, first, second))
        add_rests(near_fused, near_first, near_second, taps, rests)
        # one blur for both images and for all pixels of a neighborhood: flat ground is explained by any blur, its surroundings are not
        left = window_mean(np.where(is_first[kept], rests[1], rests[0]), side_px=EXPLAINED_WINDOW_PX)
        np.copyto(fitting, rests, where=left < unexplained)
        np.minimum(unexplained, left, out=unexplained)
    difference = np.einsum("chw,chw->hw", *[(first - second)[:, *kept]] * 2)
    share = unexplained / (window_mean(difference, side_px=EXPLAINED_WINDOW_PX) + 2.5 * noise_power)
    well, badly = EXPLAINED_SHARES
    gate = np.clip((badly - share) / (badly - well), 0, 1)
    floor = noise_power + LEAST_REST * window_mean(difference, side_px=COMPARISON_WINDOW_PX)
    evidence: FloatArray = (gate * np.log((fitting[1] + floor) / (fitting[0] + floor)))[inner]
    return evidence


def rival_index(index: IndexArray, is_asking: BoolArray, *, reach_px: int) -> IndexArray:
    """Return, for the asking pixels, the image on the other side of the nearest edge of the decision map; the index where none is near."""
    rival = index.copy()
    take_rivals(np.ascontiguousarray(index), is_asking, min(reach_px, FARTHEST_PX), rival)
    return rival


def sharpness_evidence(first: FloatArray, second: FloatArray) -> FloatArray:
    """Return by how much better the second image explains the first than the reverse, shape (h, w); above 0 the second is sharper.

    Contrast adds a little, for where neither explains the other.

    Parameters
    ----------
    first, second : ndarray of float, shape (3, h, w)
        On the 0-255 scale.

    Returns
    -------
    ndarray of float, shape (h, w)
        Logarithm of the ratio of what each leaves unexplained, and a bounded share of that of their variances; near 0 where the images
        are alike.
    """
    whole = Window.whole(first.shape[-2:])
    return _valid_evidence(*(cut_reflected(image, whole, margin_px=MARGIN_PX) for image in (first, second)))


def _valid_evidence(first: FloatArray, second: FloatArray, *, noise_power: float = NOISE_POWER) -> FloatArray:
    """Return the evidence for the pixels of two pictures that all windows fit around."""
    left_by_first, left_by_second = unexplained_power(first, second), unexplained_power(second, first)
    evidence = np.log((left_by_first + noise_power) / (left_by_second + noise_power))
    inner = (slice(MARGIN_PX, -MARGIN_PX), slice(MARGIN_PX, -MARGIN_PX))
    variances = (local_variance(picture, side_px=CONTRAST_WINDOW_PX)[inner] + noise_power for picture in (second, first))
    evidence += np.clip(CONTRAST_SHARE * np.log(np.divide(*variances)), -LARGEST_CONTRAST_EVIDENCE, LARGEST_CONTRAST_EVIDENCE)
    return evidence


def unexplained_power(sharp: FloatArray, blurred: FloatArray) -> FloatArray:
    """Return what remains of one image when the other, blurred as well as possible, is taken away: mean power a pixel.

    Parameters
    ----------
    sharp, blurred : ndarray of float, shape (3, h, w)

    Returns
    -------
    ndarray of float, shape (h - 2 m, w - 2 m)
        For the pixels that the widest Gaussian and the window fit around, ``m`` from the border.

    Notes
    -----
    ``min over s of mean |blurred - G_s * sharp|^2`` over a small window, with Gaussians of the standard deviations `BLURS_PX`.
    """
    window = COMPARISON_WINDOW_PX // 2
    height, width = (length - 2 * _LARGEST_RADIUS_PX for length in sharp.shape[-2:])
    least = np.full((height, width), np.inf, sharp.dtype)
    for deviation in BLURS_PX:
        taps = _gaussian_taps(deviation, sharp.dtype.name)
        spare = _LARGEST_RADIUS_PX - (len(taps) - 1)
        near = (slice(None), *[slice(spare, length - spare) for length in sharp.shape[-2:]])
        power = np.zeros_like(least)
        add_unexplained(np.ascontiguousarray(sharp[near]), np.ascontiguousarray(blurred[near]), taps, power)
        np.minimum(least, window_mean(power, side_px=COMPARISON_WINDOW_PX), out=least)
    return least[window:-window, window:-window]


@lru_cache
def _gaussian_taps(deviation: float, dtype_name: str) -> FloatArray:
    """Return the weights of a Gaussian, cut off, from its center on."""
    taps = np.exp(-0.5 * (np.arange(int(CUT_OFF * deviation + 0.5) + 1) / deviation) ** 2)
    normalized: FloatArray = (taps / (2 * taps.sum() - taps[0])).astype(dtype_name)
    return normalized


def _drawing_to_map(config: FusionConfig, _detail_patch_px: int) -> int:
    """Return how far the map matters to the first drawing.

    From the farthest sample that is heard on to the nearest edge, which lies at most a diagonal beyond the band, and the pixel across it.
    """
    return ROUNDS + MARGIN_PX + math.ceil(math.sqrt(2) * (MARGIN_PX + config.decision.edge_band_px)) + 1


def _pass_to_map(config: FusionConfig, _detail_patch_px: int) -> int:
    band_px = min(EXACT_BAND_PX, config.decision.edge_band_px)
    return EXACT_ROUNDS + EXACT_MARGIN_PX + math.ceil(math.sqrt(2) * (EXACT_MARGIN_PX + band_px)) + 1


def _reach_of_passes(config: FusionConfig, detail_patch_px: int) -> int:
    return EXACT_PASSES * _pass_to_map(config, detail_patch_px) if config.decision.edge_stiffness else 0


def _clean_up(decision: Decision, basis: DecisionBasis, config: FusionConfig) -> Decision:
    return replace(decision, index=refine_edges(decision.index, basis.blocks, config.decision, noise_level=basis.noise_level))


EDGES = CleanUpStage(
    name="cleanup.boundaries.reblurring.refine_edges",
    reaches=(
        Reach(
            lambda _config, _side: ROUNDS + MARGIN_PX,
            "`cleanup.boundaries.outlines.ROUNDS`, and `MARGIN_PX` = 25: 1 + 3 max(`BLURS_PX`)",
            of="first drawing, samples",
        ),
        Reach(_drawing_to_map, "that, and ⌈√2 (`MARGIN_PX` + `edge_band_px`)⌉ + 1: to the nearest edge", of="first drawing, map"),
        Reach(
            lambda _config, _side: EXACT_ROUNDS + EXACT_MARGIN_PX,
            "`EXACT_ROUNDS`, and `EXACT_MARGIN_PX` = 32: 3 max(`EXACT_BLURS_PX`) + 8",
            of="one pass to the pixel, samples",
        ),
        Reach(_pass_to_map, "that, and ⌈√2 (`EXACT_MARGIN_PX` + `EXACT_BAND_PX`)⌉ + 1", of="one pass to the pixel, map"),
        Reach(
            lambda config, side: ROUNDS + MARGIN_PX + _reach_of_passes(config, side),
            "the first drawing's, and the map's of `EXACT_PASSES` passes",
            of="samples",
        ),
        Reach(
            lambda config, side: _drawing_to_map(config, side) + _reach_of_passes(config, side),
            "the same of the map",
            of="map",
            adds_up=True,
        ),
    ),
    halo_px=lambda config, _side: config.decision.edge_band_px,
    working_bytes=bytes_per_pixel(56),
    clean_up=_clean_up,
)
