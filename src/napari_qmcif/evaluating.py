"""Ask the engine how good a fusion is; everything here runs in a worker thread."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from napari.layers import Layer

from napari_qmcif.chosen_stack import ChosenStack
from napari_qmcif.provenance import read_record
from napari_qmcif.result_parts import finest_level
from napari_qmcif.worker import EngineWorker, Progress
from qmcif_engine import InvalidImageError, evaluate

N_COLORS = 3
MEANINGS = {
    "Q_MI": "mutual information kept from the sources",
    "Q_G": "gradients kept from the sources",
    "Q_P": "phase congruency kept from the sources",
    "Q_E": "edge-dependent similarity to the sources",
    "Q_Y": "structural similarity to the sources",
    "Q_CB": "contrast kept, as the eye sees it",
    "PSNR": "peak signal-to-noise ratio against the truth",
    "PSNR_inner": "the same without a frame of 8 px",
    "SSIM": "structural similarity of the gray levels to the truth",
    "Q_SSIM": "quaternion structural similarity of the colors to the truth",
}


def is_decibel(symbol: str) -> bool:
    """Say whether a figure is a ratio in decibel rather than a share."""
    return symbol.startswith("PSNR")


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationRequest:
    """What is to be judged.

    The result and its name, the sources, the truth where there is one, what counts as black and white, and what the user should know.
    """

    name: str
    stack: ChosenStack
    result: Any
    truth: Any
    sample_range: tuple[float, float] | None
    note: str = ""


def assemble_request(stack: ChosenStack, *, result: Layer | None, truth: Layer | None) -> EvaluationRequest:
    """Return the request, once everything is known to be of one size and type.

    Floats have no black and white of their own: what the result's layer shows as such is taken.

    Raises
    ------
    InvalidImageError
        With the reason and the remedy.
    """
    if result is None:
        msg = "no result is chosen; the fused picture is needed: fuse a stack first, or choose a layer"
        raise InvalidImageError(msg)
    for layer in (result, truth):
        if layer is None:
            continue
        array = finest_level(layer)
        if array.shape[:2] != stack.picture_shape or bool(layer.rgb) != stack.is_color or array.dtype != stack.stored_dtype:
            msg = (
                f"{layer.name!r} is {array.dtype} of shape {array.shape}, "
                f"the sources are {stack.stored_dtype} of {stack.picture_shape} pixels; "
                "equal ones are needed: choose the images that were fused"
            )
            raise InvalidImageError(msg)
    low, high = (float(bound) for bound in result.contrast_limits)
    sample_range = (low, high) if stack.dtype.kind == "f" else None
    known_truth = None if truth is None else finest_level(truth)
    return EvaluationRequest(
        name=str(result.name),
        stack=stack,
        result=finest_level(result),
        truth=known_truth,
        sample_range=sample_range,
        note=_note_alignment(result),
    )


def evaluate_layers(request: EvaluationRequest, *, job: EngineWorker) -> tuple[str, dict[str, float]]:
    """Return the name of the result and its figures by symbol; those that need a truth there is none of are left out."""

    def report(progress: Progress) -> None:
        job.check_cancelled()
        job.report(progress)

    sources = [_opaque(image) for image in request.stack.cut_images()]
    truth = None if request.truth is None else _opaque(request.truth).astype(request.stack.dtype)
    result = _opaque(request.result).astype(request.stack.dtype)
    scores = evaluate(sources, result, truth=truth, sample_range=request.sample_range, progress=report)
    return request.name, {symbol: figure for symbol, figure in scores.list_by_symbol().items() if figure is not None}


def _note_alignment(result: Layer) -> str:
    """Say that figures suffer from it where a result is compared with images that were moved for it."""
    was_aligned = read_record(result).get("align", "none") != "none"
    return (
        "the images were aligned to make this result; it is compared with them as they are, so the figures are low" if was_aligned else ""
    )


def _opaque(array: Any) -> Any:  # noqa: ANN401 - any array
    """Return the samples without opacity; what is read lazily stays lazy, since the engine reads large images block by block."""
    if not isinstance(array, np.ndarray) and not hasattr(array, "dask"):
        from dask.array import from_array

        array = from_array(array, name=False)
    return array[..., :N_COLORS] if array.ndim == N_COLORS else array
