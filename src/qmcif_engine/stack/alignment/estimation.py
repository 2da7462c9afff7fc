"""Movements of the images of a stack, estimated between neighbors and related to one reference."""

from __future__ import annotations

import heapq
import logging
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from qmcif_engine.errors import InvalidConfigError
from qmcif_engine.stack.alignment.opencv import one_opencv_thread
from qmcif_engine.stack.alignment.pairs import TRUSTED_PX, USABLE_PX, Link, link_images
from qmcif_engine.stack.alignment.pyramids import can_match, read_pyramid
from qmcif_engine.stack.alignment.transforms import (
    IDENTITY,
    AlignmentWarning,
    Matrix,
    TransformModel,
    Transforms,
    apply_matrix,
    as_matrix,
    as_projective_matrix,
    frame_corners,
    identity_transforms,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from qmcif_engine.stack.alignment.pyramids import Level
    from qmcif_engine.stack.stack import Stack

logger = logging.getLogger(__name__)

_UNMOVED_PX, _LARGEST_UNMOVED_PX = 0.1, 0.3
"""Images whose corners move less than the first are left as they are, sample by sample; up to the second, those that move less than
thrice the uncertainty of all links on the way: resampling would cost more than it gains."""

# infinitely uncertain: it is taken only where no other link leads to an image
_NO_LINK = Link(np.eye(3), TransformModel.NONE, np.inf)
_Links = dict[tuple[int, int], Link]
"""By first and second image, the first before the second."""


class AlignmentProgress(NamedTuple):
    """How much of an estimate is done: one step per image."""

    done: int
    total: int


def estimate_transforms(
    stack: Stack,
    model: TransformModel,
    *,
    reference: int | None = None,
    on_progress: Callable[[AlignmentProgress], None] | None = None,
    check_cancelled: Callable[[], None] | None = None,
) -> Transforms:
    """Estimate where each image must be sampled to coincide with the reference image.

    Each image is linked to the next one. Where that fails, because the two have nothing sharp in common, the image is also linked to the
    one that looks most like it; the most certain links then lead from the reference to all the others. An image that no link leads to
    with certainty is only shifted, or left where its neighbor lies, and `Transforms.warnings` says so. So it does where windows are too
    few or too badly spread for a homography and a similarity was taken.

    Parameters
    ----------
    stack : Stack
        Read in bands, each image once or twice.
    model : TransformModel
    reference : int, optional
        The image that stays as it is, 0-based; the middle one where it is left out.
    on_progress : callable, optional
        Receives an `AlignmentProgress` after each image.
    check_cancelled : callable, optional
        Called before each image; raises to end the estimate.

    Returns
    -------
    Transforms

    Raises
    ------
    InvalidConfigError
        If the reference is none of the images.
    MissingExtraError
        If OpenCV is not installed.
    """
    center = stack.n_images // 2 if reference is None else reference
    if not 0 <= center < stack.n_images:
        msg = f"image {center} was given as the reference, counted from 0; the stack has {stack.n_images}: choose one of them"
        raise InvalidConfigError(msg)
    if model is TransformModel.NONE or stack.n_images == 1:
        return identity_transforms(stack.n_images, stack.image_shape, reference=center)
    with one_opencv_thread():
        links = _link_neighbors(stack, model, on_progress=on_progress, check_cancelled=check_cancelled)
    return _relate(stack, model, reference=center, links=links)


def _link_neighbors(
    stack: Stack,
    model: TransformModel,
    *,
    on_progress: Callable[[AlignmentProgress], None] | None,
    check_cancelled: Callable[[], None] | None,
) -> _Links:
    """Return the links between neighbors, and those to other images where neighbors have too little in common."""
    if not can_match(stack.image_shape):
        return {(number - 1, number): _NO_LINK for number in range(1, stack.n_images)}
    links: _Links = {}
    thumbnails = []
    previous: tuple[Level, ...] = ()
    for number in range(stack.n_images):
        if check_cancelled is not None:
            check_cancelled()
        pyramid = read_pyramid(stack, number)
        # the coarsest level is small enough to be kept of every image, to find those that look alike
        thumbnails.append(pyramid[0].detail.ravel())
        if number:
            links[number - 1, number] = _link(previous, pyramid, model, image_shape=stack.image_shape)
        # pyramids of two images at a time: those of all would not fit into memory
        previous = pyramid
        if on_progress is not None:
            on_progress(AlignmentProgress(number + 1, stack.n_images))
    for first, second in _choose_other_pairs(links, thumbnails):
        if check_cancelled is not None:
            check_cancelled()
        pair = (read_pyramid(stack, first), read_pyramid(stack, second))
        links[first, second] = _link(*pair, model, image_shape=stack.image_shape)
    return links


def _link(first: tuple[Level, ...], second: tuple[Level, ...], model: TransformModel, *, image_shape: tuple[int, ...]) -> Link:
    """Return a link that can be trusted in the wanted model, else one by a shift, else none."""
    link = link_images(first, second, model, image_shape=image_shape)
    if link.uncertainty_px > TRUSTED_PX and model is not TransformModel.TRANSLATION:
        # two parameters can be certain where there is too little in common for four and more
        link = link_images(first, second, TransformModel.TRANSLATION, image_shape=image_shape)
    return link if link.uncertainty_px <= USABLE_PX else _NO_LINK


def _choose_other_pairs(links: _Links, thumbnails: list[NDArray[np.floating]]) -> list[tuple[int, int]]:
    """Return, for each image with an uncertain neighbor, the pair with the image most like it."""
    poor = sorted({number for pair, link in links.items() if link.uncertainty_px > TRUSTED_PX for number in pair})
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
    """Return the transforms along the most certain links from the reference to every image (Prim's tree)."""
    found: dict[int, _Path] = {}
    warnings: list[AlignmentWarning] = []
    queue: list[tuple[float, int, int, int]] = [(0.0, 0, reference, reference)]
    while queue:
        *_, number, origin = heapq.heappop(queue)
        if number in found:
            continue
        if number == origin:
            found[number] = _Path(np.eye(3), 0.0)
        else:
            # links lead from the smaller number to the larger one; the other way round they are inverted
            link = links[min(origin, number), max(origin, number)]
            step = link.matrix if origin < number else np.linalg.inv(link.matrix)
            # errors of links are independent, so their squares add up along the path
            found[number] = _Path(step @ found[origin].matrix, float(np.hypot(found[origin].uncertainty_px, link.uncertainty_px)))
            warnings += _warn(stack.names, number, origin=origin, link=link, model=model)
        for (first, second), link in links.items():
            if number in (first, second):
                # of equally certain links the nearest neighbor comes first, so that the tree does not depend on the order of the queue
                heapq.heappush(queue, (link.uncertainty_px, second - first, first + second - number, number))
    logger.info("aligned %d images by %s to %s, %d of them uncertain", stack.n_images, model, stack.names[reference], len(warnings))
    return Transforms(
        matrices=tuple(_settle(found[number], model, stack.image_shape) for number in range(stack.n_images)),
        model=model,
        image_shape=(stack.image_shape[0], stack.image_shape[1]),
        reference=reference,
        warnings=tuple(sorted(warnings, key=lambda warning: warning.number)),
    )


class _Path(NamedTuple):
    """How an image moved against the reference, and how uncertain that is."""

    matrix: NDArray[np.float64]
    uncertainty_px: float


def _settle(path: _Path, model: TransformModel, image_shape: tuple[int, ...]) -> Matrix:
    """Return the matrix in plain numbers, and exactly the identity where the image hardly moves."""
    corners = frame_corners(image_shape)
    movement_px = float(np.hypot(*(apply_matrix(path.matrix, corners) - corners).T).max())
    # resampling costs sharpness: a movement that may be an error of the estimate is not worth it
    unmoved_px = min(max(_UNMOVED_PX, 3 * path.uncertainty_px), _LARGEST_UNMOVED_PX)
    if movement_px < unmoved_px:
        return IDENTITY
    return as_projective_matrix(path.matrix) if model is TransformModel.HOMOGRAPHY else as_matrix(path.matrix)


def _warn(names: tuple[str, ...], number: int, *, origin: int, link: Link, model: TransformModel) -> list[AlignmentWarning]:
    if link.model is TransformModel.NONE:
        told = "no movement could be estimated and none is assumed"
    elif link.model is not model:
        told = f"no {model.value} could be estimated and a {link.model.value} is assumed"
    elif link.uncertainty_px > TRUSTED_PX:
        told = f"the {model.value} is uncertain"
    else:
        return []
    is_spread_short = model is TransformModel.HOMOGRAPHY and link.model is TransformModel.SIMILARITY
    reason = "too few windows are sharp and alike in both images" + (", or they lie too close together" if is_spread_short else "")
    return [AlignmentWarning(number, f"{names[number]} against {names[origin]}: {told}, because {reason}; check the result there")]
