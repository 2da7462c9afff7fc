"""Movements of the images of a stack, estimated between pairs and related to one reference."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial, reduce
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.linalg import spsolve

from qmcif_engine.compiled import single_thread
from qmcif_engine.stack.alignment.matching import Level, can_match, read_pyramid
from qmcif_engine.stack.alignment.pairs import NO_LINK, Link, link_images, look_again, refine_link
from qmcif_engine.stack.alignment.transforms import (
    IDENTITY,
    AlignmentWarning,
    Matrix,
    TransformModel,
    Transforms,
    apply_matrix,
    as_matrix,
    frame_corners,
    identity_transforms,
    is_affine,
    linearize,
)
from qmcif_engine.stack.stack import Stack, choose_reference

logger = logging.getLogger(__name__)

_SECOND_LOOK_PX = 5 * 2**20
"""Pixels of the finest level where the first attempt failed: what is sharp in both images may be finer than the first could see."""

_FURTHER_STEPS = (2, 4)
"""Neighbors beyond the next one that images are also linked to: errors of single links then do not add up along the stack."""

_UNMOVED_PX, _LARGEST_UNMOVED_PX, _UNMOVED_ERRORS = 0.1, 1.0, 1.5
"""Images whose corners move less than the first are left as they are, sample by sample; up to the second, those that move less than so
many times the expected error of the links on the way: resampling would cost more than it gains."""

_SMALLEST_ERROR_PX, _UNTRUSTED_ERROR_PX = 0.02, 100.0
_DISPUTED_PX = 1.0
_ROUNDS = 6
_DIGITS = 12

_Links = dict[tuple[int, int], Link]
"""By first and second image, the first before the second."""


def estimate_transforms(
    stack: Stack,
    model: TransformModel,
    *,
    reference: int | None = None,
    on_progress: Callable[[int, int], None] | None = None,
    check_cancelled: Callable[[], None] | None = None,
) -> Transforms:
    """Estimate where each image must be sampled to coincide with the reference image.

    Each image is linked to the next one, and to the second and the fourth after it. Where the first of these fails, because the two have
    nothing sharp in common, they are looked at again in finer detail, and the image is also linked to the one that looks most like it;
    all links together then give all images, by robust least squares. An image that no link leads to with certainty is only shifted, or
    left where its neighbor lies, and `Transforms.warnings` has an entry, as it has where windows are too few or too badly spread for a
    homography and a similarity was taken, and where links contradict each other.

    Parameters
    ----------
    stack : Stack
        Read in bands, each image once or twice.
    model : TransformModel
    reference : int, optional
        The image that stays as it is, 0-based; the middle one where it is left out.
    on_progress : callable, optional
        Receives, after each image, how many are done and how many there are.
    check_cancelled : callable, optional
        Called before each image; raises to end the estimate.

    Returns
    -------
    Transforms

    Raises
    ------
    InvalidConfigError
        If the reference is none of the images.
    """
    center = choose_reference(stack, reference)
    if model is TransformModel.NONE or stack.n_images == 1:
        return identity_transforms(stack.n_images, stack.image_shape, reference=center)
    with single_thread():
        links = _link_all(stack, model, on_progress=on_progress, check_cancelled=check_cancelled or (lambda: None))
    return _relate(stack, model, reference=center, links=links)


def _link_all(
    stack: Stack,
    model: TransformModel,
    *,
    on_progress: Callable[[int, int], None] | None,
    check_cancelled: Callable[[], None],
) -> _Links:
    """Return the links between neighbors, and those to other images."""
    if not can_match(stack.image_shape):
        return {(number - 1, number): NO_LINK for number in range(1, stack.n_images)}
    links: _Links = {}
    thumbnails = []
    pyramids: dict[int, tuple[Level, ...]] = {}
    for number in range(stack.n_images):
        check_cancelled()
        pyramids[number] = pyramid = read_pyramid(stack, number)
        # the coarsest level is small enough to be kept of every image, to find those that look alike
        thumbnails.append(pyramid[0].detail.ravel())
        if number:
            links[number - 1, number] = link_images(pyramids[number - 1], pyramid, model)
            _link_further(links, pyramids, number, model)
        # pyramids of few images at a time: those of all would not fit into memory
        pyramids.pop(number - max(_FURTHER_STEPS), None)
        if on_progress is not None:
            on_progress(number + 1, stack.n_images)
    pyramids.clear()
    if not can_match(stack.image_shape, largest_px=_SECOND_LOOK_PX):
        return links
    for choose in (_find_poor, partial(_find_alike, thumbnails=thumbnails)):
        for pair in choose(links):
            check_cancelled()
            for number in pair:
                if number not in pyramids:
                    pyramids[number] = read_pyramid(stack, number, largest_px=_SECOND_LOOK_PX)
            link = look_again(pyramids[pair[0]], pyramids[pair[1]], model, known=links.get(pair, NO_LINK))
            if link.is_usable or pair in links:
                links[pair] = link
            # the next pair of neighbors begins with the second image of this one
            pyramids = {pair[1]: pyramids[pair[1]]}
    return links


def _link_further(links: _Links, pyramids: dict[int, tuple[Level, ...]], number: int, model: TransformModel) -> None:
    """Add the links of an image to those two and four before it, which the links in between lead to."""
    for step in _FURTHER_STEPS:
        first = number - step
        way = [links[between, between + 1] for between in range(max(first, 0), number)]
        if first < 0 or not all(link.is_sure for link in way):
            continue
        start = reduce(lambda matrix, link: link.matrix @ matrix, way, np.eye(3))
        link = refine_link(pyramids[first], pyramids[number], model, start=start if start[2, 2] == 1 else start / start[2, 2])
        if link.is_sure and link.model is model:
            links[first, number] = link


def _find_poor(links: _Links) -> list[tuple[int, int]]:
    """Return the neighbors without a sure link."""
    return [pair for pair, link in links.items() if not link.is_sure]


def _find_alike(links: _Links, *, thumbnails: list[NDArray[np.floating]]) -> list[tuple[int, int]]:
    """Return, for each image that has a neighbor without a sure link, the pair with the image most like it."""
    poor = sorted({number for pair in _find_poor(links) for number in pair})
    if not poor or len(thumbnails) < 3:
        return []
    rows = np.array(thumbnails)
    # an image without any detail has a norm of 0
    rows /= np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), np.finfo(rows.dtype).tiny)
    pairs: dict[tuple[int, int], None] = {}
    for number in poor:
        likeness = rows @ rows[number]
        # neighbors were tried already
        likeness[[other for other in (number - 1, number, number + 1) if 0 <= other < len(rows)]] = -np.inf
        other = int(likeness.argmax())
        pairs[min(number, other), max(number, other)] = None
    return list(pairs)


def _relate(stack: Stack, model: TransformModel, *, reference: int, links: _Links) -> Transforms:
    """Return the transforms that agree best with all links."""
    corners = frame_corners(stack.image_shape)
    # what cannot be trusted moves nothing
    links = {pair: link if link.is_usable else link._replace(matrix=np.eye(3)) for pair, link in links.items()}
    tree = _span(links, reference=reference, n_images=stack.n_images)
    places = _solve(links, tree, corners)
    gap_px = {pair: _measure_gap(links[pair], places[pair[0]], places[pair[1]]) for pair in links if links[pair].is_usable}
    warnings = []
    matrices = []
    is_projective = not all(is_affine(link.matrix) for link in links.values())
    for number, branch in enumerate(tree):
        matrices.append(_to_matrix(places[number], corners, is_projective=is_projective, uncertainty_px=branch.uncertainty_px))
        if number != reference:
            warnings += _warn(stack.names, number, branch.origin, links=links, gap_px=gap_px, model=model)
    logger.info("aligned %d images by %s to %s, %d of them uncertain", stack.n_images, model, stack.names[reference], len(warnings))
    return Transforms(
        matrices=tuple(matrices),
        model=model,
        image_shape=(stack.image_shape[0], stack.image_shape[1]),
        reference=reference,
        warnings=tuple(warnings),
    )


class _Branch(NamedTuple):
    """How an image is reached from the reference: over which other image, by which matrix, and how uncertain that is."""

    origin: int
    matrix: NDArray[np.float64]
    uncertainty_px: float


def _span(links: _Links, *, reference: int, n_images: int) -> list[_Branch]:
    """Return the most certain links from the reference to every image (Prim's tree)."""
    found = {reference: _Branch(reference, np.eye(3), 0.0)}
    while len(found) < n_images:
        # of equally certain links the nearest neighbor comes first
        first, second = min(
            (pair for pair in links if (pair[0] in found) != (pair[1] in found)),
            key=lambda pair: (_error_px(links[pair]), pair[1] - pair[0], pair),
        )
        origin, number = (first, second) if first in found else (second, first)
        # links lead from the smaller number to the larger one; the other way round they are inverted
        step = links[first, second].matrix
        step = step if origin < number else np.asarray(np.linalg.inv(step), np.float64)
        # errors of links are independent, so their squares add up along the path
        uncertainty_px = float(np.hypot(found[origin].uncertainty_px, _error_px(links[first, second])))
        found[number] = _Branch(origin, step @ found[origin].matrix, uncertainty_px)
    return [found[number] for number in range(n_images)]


def _error_px(link: Link) -> float:
    return max(link.corner_error_px, _SMALLEST_ERROR_PX) if link.is_usable else _UNTRUSTED_ERROR_PX


def _solve(links: _Links, tree: list[_Branch], corners: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return where the corners of the reference lie in every image, shape (N, 4, 2), by reweighted least squares over all links.

    Each corner is a system of its own. It is linear, homographies being replaced by their derivative at the places found so far, and
    since links are similarities, or affine, so is what is found.
    """
    places = np.array([apply_matrix(branch.matrix, corners) for branch in tree])
    pairs, fixed = list(links), next(number for number, branch in enumerate(tree) if branch.origin == number)
    n_pairs, n_images = len(pairs), len(tree)
    if n_pairs < n_images:  # a tree: nothing to be balanced
        return places
    free = np.delete(np.arange(2 * n_images), [2 * fixed, 2 * fixed + 1])
    rows = np.arange(2 * n_pairs).reshape(n_pairs, 2)
    columns = 2 * np.array(pairs)[..., np.newaxis] + np.arange(2)
    for _ in range(_ROUNDS):
        gaps_px = np.array([_measure_gap(links[pair], *places[list(pair)]) for pair in pairs])
        weight = np.array([1 / _error_px(links[pair]) for pair in pairs]) / (1 + (gaps_px / _DISPUTED_PX) ** 2)
        for corner in range(len(corners)):
            linear = np.array([linearize(links[pair].matrix, places[pair[0], [corner]])[0] for pair in pairs])
            missing = np.array([apply_matrix(links[a, b].matrix, places[a, [corner]])[0] - places[b, corner] for a, b in pairs])
            blocks = np.concatenate((-linear, np.broadcast_to(np.eye(2), linear.shape)), axis=2) * weight[:, np.newaxis, np.newaxis]
            places_of = (np.repeat(rows, 4), np.repeat(columns.reshape(n_pairs, 1, 4), 2, axis=1).ravel())
            design = sparse.csr_array((blocks.ravel(), places_of), shape=(2 * n_pairs, 2 * n_images))[:, free]
            right_side = design.T @ (missing * weight[:, np.newaxis]).ravel()
            step = np.zeros(2 * n_images)
            step[free] = spsolve((design.T @ design).tocsc(), right_side)
            places[:, corner] += step.reshape(-1, 2)
    return places


def _measure_gap(link: Link, first: NDArray[np.float64], second: NDArray[np.float64]) -> float:
    """Return by how much a link misses where the corners of the frame lie in both of its images."""
    return float(np.hypot(*(apply_matrix(link.matrix, first) - second).T).max())


def _to_matrix(place: NDArray[np.float64], corners: NDArray[np.float64], *, is_projective: bool, uncertainty_px: float) -> Matrix:
    """Return the matrix that brings the corners to their places, and exactly the identity where they hardly move."""
    # resampling costs sharpness: a movement that may be an error of the estimate is not worth it
    unmoved_px = min(max(_UNMOVED_PX, _UNMOVED_ERRORS * uncertainty_px), _LARGEST_UNMOVED_PX)
    if np.hypot(*(place - corners).T).max() < unmoved_px:
        return IDENTITY
    if is_projective:
        return as_matrix(_find_homography(corners, place))
    around = corners - corners.mean(axis=0)
    linear = np.linalg.solve(around.T @ around, around.T @ place).T
    # without what the arithmetic leaves: of translations exactly 1 and 0
    linear = np.round(linear, _DIGITS)
    shift = place.mean(axis=0) - linear @ corners.mean(axis=0)
    return as_matrix([*np.column_stack((linear, shift)), IDENTITY[2]])


def _find_homography(corners: NDArray[np.float64], place: NDArray[np.float64]) -> NDArray[np.float64]:
    rows = []
    for (x, y), (right, down) in zip(corners, place, strict=True):
        rows += [(x, y, 1, 0, 0, 0, -right * x, -right * y), (0, 0, 0, x, y, 1, -down * x, -down * y)]
    return np.append(np.linalg.solve(np.array(rows), place.ravel()), 1).reshape(3, 3)


def _warn(
    names: tuple[str, ...], number: int, origin: int, *, links: _Links, gap_px: dict[tuple[int, int], float], model: TransformModel
) -> list[AlignmentWarning]:
    link = links[min(origin, number), max(origin, number)]
    gaps_px = {pair: gap for pair, gap in gap_px.items() if number in pair}
    disputed_px = [gap for pair, gap in gaps_px.items() if gap > max(_DISPUTED_PX, links[pair].corner_error_px)]
    reason = "too few windows are sharp and alike in both images"
    if not link.is_usable:
        found = "no movement could be estimated and none is assumed"
    elif link.model is not model:
        found = f"no {model.value} could be estimated and a {link.model.value} is assumed"
        reason += ", or they lie too close together" if link.model is TransformModel.SIMILARITY else ""
    elif not link.is_sure:
        found = f"the {model.value} is uncertain by about {link.corner_error_px:.0f} px"
    elif disputed_px and 2 * len(disputed_px) >= len(gaps_px):
        found = f"the {model.value} is uncertain by about {max(disputed_px):.0f} px"
        reason = "comparisons with other images contradict each other"
    else:
        return []
    return [AlignmentWarning(number, f"{names[number]} against {names[origin]}: {found}, because {reason}; check the result there")]
