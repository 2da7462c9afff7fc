"""Edges of the decision map where the scene has them, found by which of two images explains the other.

Where an image is in focus, the other one is a blurred copy of it: blurring the sharp image again reproduces the blurred one, but no
blurring of the blurred image reproduces the sharp one. Unlike a focus measure this needs no wide window, and it is not misled by the
halo of a blurred edge, which has more contrast than the sharp but flat surroundings it covers. It needs to know which two images
compete, so it is used within a few pixels of the edges that the focus maps have drawn. Neighbors that disagree then settle on outlines
that are as short as the evidence allows (`qmcif_engine.cleanup.boundaries.outlines`).

None of this is in the paper; `edge_band_px` = 0, as in the ``paper`` preset, switches it off.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from qmcif_engine.cleanup.boundaries.outlines import ROUNDS, shorten_outlines
from qmcif_engine.cleanup.boundaries.trial_blurs import SHRUNK_BORDER, blur_coarsely, gaussian_taps, shrunk_shape
from qmcif_engine.cleanup.decision import CleanUpStage, Decision
from qmcif_engine.config.stage import Reach, bytes_per_pixel
from qmcif_engine.kernels.blurring import shrink, shrink_choice
from qmcif_engine.kernels.cells import list_boxes
from qmcif_engine.kernels.cutting import values_of
from qmcif_engine.kernels.explaining import weigh_explanations
from qmcif_engine.kernels.regions import take_chosen, take_rivals
from qmcif_engine.kernels.rests import weigh_rests
from qmcif_engine.method.patches import FARTHEST_PX, edge_band

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qmcif_engine.arrays import BoolArray, FloatArray, IndexArray
    from qmcif_engine.cleanup.decision import DecisionBasis
    from qmcif_engine.config.fusion_config import DecisionConfig, FusionConfig

BLURS_PX = (1.5, 4.0, 8.0)
"""Standard deviations tried: defocus of a little, of much and of a great deal, without which the halo of a bright object is taken for
focus. All but the first are made in a quarter of the resolution."""

NOISE_POWER = 12.0
"""Unexplained power on the 0-255 scale that noise leaves in any case: two gray levels in each of three channels."""

COMPARISON_WINDOW_PX = 3

CONTRAST_WINDOW_PX = 5
CONTRAST_SHARE = 0.5
"""What the logarithm of a ratio of variances counts beside that of unexplained power."""

LARGEST_CONTRAST_EVIDENCE = 0.8
"""Contrast may tip the balance, not more: beside a bright object its blurred halo has the most contrast of all."""

EXACT_BLURS_PX = (1.0, 1.5, 2.5, 4.0, 8.0)
N_NARROW = 3
"""All but the first `N_NARROW` are made in a quarter of the resolution."""

EXPLAINED_WINDOW_PX = 17
EXPLAINED_SHARES = (0.12, 0.25)
"""Share of the difference of two images that the blurred fused image may leave: up to the first the model of defocus is trusted, from
the second on it is not. Registered pairs have .03 to .24, pairs that do not lie on each other .25 to 1."""

EXACT_TRUST = 0.5
"""How far the model must be trusted, from 0 to 1, for an edge to count as drawn to the pixel, so that it needs no narrow blend."""

LEAST_REST = 0.05
"""Share of the difference that counts as unexplained in any case."""

EXACT_BAND_PX = 4
EXACT_PASSES = 1
EXACT_ROUNDS = 6
EXACT_INERTIA = 0.6
EXACT_STIFFNESS = 0.25
"""What edges drawn to the pixel cost to change, and a step of their outline beside one of the first drawing."""

WIDEST_PX = 27
"""How far the widest blur looks: to the end of the sixth square of four by four pixels beside its own."""

MARGIN_PX = COMPARISON_WINDOW_PX // 2 + WIDEST_PX
"""How far from a pixel the samples lie that its evidence depends on: comparison and blur in turn; contrast looks less far."""

EXACT_MARGIN_PX = EXPLAINED_WINDOW_PX // 2 + WIDEST_PX

CELL_PX = 64
"""Side of the squares in which evidence is computed: small enough for the cache."""


@dataclass(frozen=True, slots=True)
class DrawnEdges:
    """A decision map with its edges drawn anew.

    Attributes
    ----------
    index : ndarray of uint16, shape (h, w)
    is_exact : ndarray of bool, shape (h, w), or None
        Where the model of defocus is trusted enough for edges to lie to the pixel; None where no edge was drawn by it.
    """

    index: IndexArray
    is_exact: BoolArray | None = None


def refine_edges(index: IndexArray, blocks: Sequence[FloatArray], config: DecisionConfig, *, noise_level: float = 0.0) -> DrawnEdges:
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
    DrawnEdges

    Notes
    -----
    Departs: the paper keeps the edges that its focus maps draw, which is `edge_band_px` = 0.
    """
    # of three channels
    noise_power = NOISE_POWER + 3 * noise_level**2
    index = _redraw(
        index,
        blocks,
        draft=Draft(config.edge_band_px, MARGIN_PX, config.edge_inertia, config.edge_stiffness),
        measure=lambda first, second, _is_first, band: sharpness_evidence(first, second, is_wanted=band, noise_power=noise_power),
    )
    exact = Draft(
        # the first drawing has left edges a few pixels off at most
        min(EXACT_BAND_PX, config.edge_band_px),
        EXACT_MARGIN_PX,
        EXACT_INERTIA,
        EXACT_STIFFNESS * config.edge_stiffness,
        EXACT_ROUNDS,
    )
    trust: FloatArray | None = None
    # under noise a single pixel tells nothing, and without stiffness every pixel would decide for itself
    for _ in range(EXACT_PASSES if config.edge_stiffness and noise_level == 0 else 0):
        trust = np.zeros(index.shape, np.float32)
        index = _redraw(index, blocks, draft=exact, measure=partial(_measure_exactly, noise_power=noise_power, trust=trust))
    return DrawnEdges(index, None if trust is None else trust >= EXACT_TRUST)


def _measure_exactly(
    first: FloatArray, second: FloatArray, is_first: BoolArray, is_wanted: BoolArray, /, *, noise_power: float, trust: FloatArray
) -> FloatArray:
    """Return exact evidence, and put how far it is trusted into `trust`."""
    found = exact_evidence(first, second, is_first, is_wanted=is_wanted, noise_power=noise_power)
    trust[:] = found.trust
    return found.evidence


class Measure(Protocol):
    """Evidence for the second of two images, from both, where the fused image is the first, and where evidence is wanted."""

    def __call__(self, first: FloatArray, second: FloatArray, is_first: BoolArray, is_wanted: BoolArray, /) -> FloatArray:
        """Return the evidence; above 0 the second image is the sharp one."""


class Meeting(NamedTuple):
    """The two images that compete for each pixel near an edge of a decision map.

    Attributes
    ----------
    first, second : ndarray of uint16, shape (h, w)
        Which they are, the smaller number first: one order for both sides of an edge, so that the images are continuous across it.
        Where three images meet, they are not, and the comparison is as good as its small window allows.
    images : tuple of two ndarray of float, shape (3, h, w)
        Their samples.
    """

    first: IndexArray
    second: IndexArray
    images: tuple[FloatArray, FloatArray]


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
    meeting = _meet(index, blocks, band, draft=draft)
    # where no edge is near both are the pixel's own image, and either answer is right
    is_second = index == meeting.second
    evidence = measure(*meeting.images, ~is_second, band)
    pairs = (meeting.first, meeting.second)
    decided = shorten_outlines(
        evidence, is_second, band, pairs=pairs, stiffness=draft.stiffness, inertia=draft.inertia, rounds=draft.rounds
    )
    return np.where(decided, meeting.second, meeting.first)


def _meet(index: IndexArray, blocks: Sequence[FloatArray], band: BoolArray, *, draft: Draft) -> Meeting:
    """Return who competes within a band and as far around it as evidence looks."""
    numbers = values_of(np.ascontiguousarray(index))
    if len(numbers) == 2:  # each is the other's rival everywhere
        first, second = (np.full_like(index, number) for number in numbers)
        return Meeting(first, second, (blocks[int(numbers[0])], blocks[int(numbers[1])]))
    # evidence is wanted in the band only, and messages leave it for so many rounds: the longer way counts, not the sum
    looks_px = max(draft.margin_px, draft.rounds)
    is_looked_at = band | edge_band(band.astype(np.uint16), reach_px=looks_px)
    # Euclidean distance to the nearest edge of a pixel that is so far, in rows and columns, from the band around one
    rival = rival_index(index, is_looked_at, reach_px=math.ceil(math.sqrt(2) * (looks_px + draft.band_px)) + 1)
    first, second = np.minimum(index, rival), np.maximum(index, rival)
    images = tuple(np.empty_like(blocks[int(numbers[0])], order="C") for _ in range(2))
    # image by image, as blocks may be computed when they are asked for
    for number in numbers:
        block = np.ascontiguousarray(blocks[int(number)])
        for image, choice in zip(images, (first, second), strict=True):
            take_chosen(block, choice, np.full(1, number, np.uint16), CELL_PX, image)
    return Meeting(first, second, (images[0], images[1]))


def rival_index(index: IndexArray, is_asking: BoolArray, *, reach_px: int) -> IndexArray:
    """Return, for the asking pixels, the image on the other side of the nearest edge of the decision map; the index where none is near."""
    rival = index.copy()
    take_rivals(np.ascontiguousarray(index), is_asking, min(reach_px, FARTHEST_PX), rival)
    return rival


def sharpness_evidence(first: FloatArray, second: FloatArray, *, is_wanted: BoolArray, noise_power: float = NOISE_POWER) -> FloatArray:
    """Return by how much better the second image explains the first than the reverse, shape (h, w); above 0 the second is sharper.

    Contrast adds a little, for where neither explains the other.

    Parameters
    ----------
    first, second : ndarray of float, shape (3, h, w)
        On the 0-255 scale.
    is_wanted : ndarray of bool, shape (h, w)
    noise_power : float

    Returns
    -------
    ndarray of float, shape (h, w)
        Of the wanted pixels; 0 elsewhere.

    Notes
    -----
    ``ln((u_1 + n) / (u_2 + n))``, where ``u_k`` is what the image ``k``, blurred as well as possible, leaves of the other one: ``min over s
    of mean |I_l - G_s * I_k|^2`` over a small window, with the standard deviations `BLURS_PX`; and a bounded share of the logarithm of
    the ratio of their variances.
    """
    evidence = np.zeros(is_wanted.shape, first.dtype)
    images = (np.ascontiguousarray(first), np.ascontiguousarray(second))
    shrunk = np.empty((2, 3, *shrunk_shape(is_wanted.shape)), first.dtype)
    for number, image in enumerate(images):
        for plane, result in zip(image, shrunk[number], strict=True):
            shrink(plane, SHRUNK_BORDER, result)
    # both images by all wide blurs once, for the whole block; the narrow blur follows square by square
    coarse = (blur_coarsely(shrunk[0], BLURS_PX[1:]), blur_coarsely(shrunk[1], BLURS_PX[1:]))
    limits = np.array([noise_power, CONTRAST_SHARE, LARGEST_CONTRAST_EVIDENCE])
    taps = gaussian_taps(BLURS_PX[0], first.dtype.name)
    weigh_explanations(images, coarse, taps, is_wanted, list_boxes(is_wanted, CELL_PX), limits, evidence)
    return evidence


class ExactEvidence(NamedTuple):
    """Evidence for the second of two images, and how far the model of defocus is trusted, from 0 to 1; shape (h, w) each."""

    evidence: FloatArray
    trust: FloatArray


def exact_evidence(
    first: FloatArray, second: FloatArray, is_first: BoolArray, *, is_wanted: BoolArray, noise_power: float
) -> ExactEvidence:
    """Return by how much better the fused image, blurred, explains the first image than the second; above 0 the second is sharp.

    Near an edge each image alone is sharp on one side only, and blurring it again reproduces the other image on that side only. The fused
    image is sharp on both: where an image is out of focus, the fused image, blurred, is that image, to the pixel. This holds where
    defocus is a blur of what is seen. Where images do not lie on each other, or something hidden comes into view, it does not; what the
    blurred image leaves of the image that was not chosen tells, and there the evidence is nothing.

    Parameters
    ----------
    first, second : ndarray of float, shape (3, h, w)
    is_first : ndarray of bool, shape (h, w)
        Where the fused image is taken from the first image; elsewhere it is taken from the second.
    is_wanted : ndarray of bool, shape (h, w)
    noise_power : float

    Returns
    -------
    ExactEvidence
        Of the wanted pixels; 0 elsewhere.

    Notes
    -----
    ``ln((r_2 + n) / (r_1 + n))`` with ``r_k = |I_k - G_s * F|^2`` for the ``s`` that explains the neighborhood best, times a gate that is
    1 where the image not chosen is explained up to `EXPLAINED_SHARES`[0] of its difference to the other, and 0 from
    `EXPLAINED_SHARES`[1] on.
    """
    evidence, trust = np.zeros((2, *is_wanted.shape), first.dtype)
    images = (np.ascontiguousarray(first), np.ascontiguousarray(second))
    shrunk = np.empty((3, *shrunk_shape(is_first.shape)), first.dtype)
    # the fused image is shrunk without being composed first
    for one, other, result in zip(*images, shrunk, strict=True):
        shrink_choice(is_first, one, other, SHRUNK_BORDER, result)
    coarse = blur_coarsely(shrunk, EXACT_BLURS_PX[N_NARROW:])
    taps = tuple(gaussian_taps(deviation, first.dtype.name) for deviation in EXACT_BLURS_PX[:N_NARROW])
    limits = np.array([noise_power, LEAST_REST, *EXPLAINED_SHARES])
    weigh_rests(images, is_first, coarse, taps, is_wanted, list_boxes(is_wanted, CELL_PX), limits, evidence, trust)
    return ExactEvidence(evidence, trust)


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
    drawn = refine_edges(decision.index, basis.blocks, config.decision, noise_level=basis.noise_level)
    return replace(decision, index=drawn.index, is_exact=drawn.is_exact)


EDGES = CleanUpStage(
    name="cleanup.boundaries.reblurring.refine_edges",
    reaches=(
        Reach(
            lambda _config, _side: ROUNDS + MARGIN_PX,
            "`cleanup.boundaries.outlines.ROUNDS`, and `MARGIN_PX` = 28: 1 + `WIDEST_PX`",
            of="first drawing, samples",
        ),
        Reach(_drawing_to_map, "that, and ⌈√2 (`MARGIN_PX` + `edge_band_px`)⌉ + 1: to the nearest edge", of="first drawing, map"),
        Reach(
            lambda _config, _side: EXACT_ROUNDS + EXACT_MARGIN_PX,
            "`EXACT_ROUNDS`, and `EXACT_MARGIN_PX` = 35: 8 + `WIDEST_PX`",
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
    overlap_px=lambda config, _side: config.decision.edge_band_px,
    working_bytes=bytes_per_pixel(80),
    clean_up=_clean_up,
    cases=(
        {},
        *(
            {"edge_band_px": band_px, "edge_inertia": 0.0, "edge_stiffness": stiffness}
            for band_px in (2, 8)
            for stiffness in (0.0, 0.5, 2.0)
        ),
    ),
    attains_reach=False,
)
