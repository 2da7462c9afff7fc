"""All figures of one fused image."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from qmcif_engine.errors import InvalidImageError

from .contrast import measure_contrast
from .edge_similarity import measure_edge_similarity
from .evaluation_progress import StepCounter
from .gradient import measure_gradient
from .inputs import load_samples, name_images, prepare_images, settle_limits
from .levels import LARGEST_WHOLE_PX, SMALLEST_BLOCK_SIDE_PX
from .log_gabor import N_ORIENTATIONS
from .mutual_information import measure_mutual_information
from .phase_congruency import measure_phase_congruency
from .structural_similarity import measure_structural_similarity
from .truth import DEFAULT_BORDER_PX, measure_quaternion_similarity, measure_right_choices, measure_signal_to_noise, measure_similarity

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dask.array import Array as DaskImage
    from numpy.typing import NDArray

    from .evaluation_progress import EvaluationProgress
    from .levels import Levels


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """The figures of one fused image; larger is better for all of them.

    Attributes
    ----------
    mutual_information, gradient, phase_congruency, edge_similarity, structural_similarity, contrast : float
        Q_MI, Q_G, Q_P, Q_E, Q_Y and Q_CB against the sources.
    signal_to_noise_db, inner_signal_to_noise_db : float or None
        PSNR against the truth, over the whole image and without its border.
    truth_similarity, truth_quaternion_similarity : float or None
        SSIM of the gray levels and quaternion SSIM of the colors, against the truth.
    right_source_share : float or None
        Share of pixels taken from the source that is sharp there.

    Figures without a truth to compare with are None.
    """

    mutual_information: float
    gradient: float
    phase_congruency: float
    edge_similarity: float
    structural_similarity: float
    contrast: float
    signal_to_noise_db: float | None = None
    inner_signal_to_noise_db: float | None = None
    truth_similarity: float | None = None
    truth_quaternion_similarity: float | None = None
    right_source_share: float | None = None

    def list_by_symbol(self) -> dict[str, float | None]:
        """Return all figures by the symbols that papers print, in the order of their tables."""
        return {
            "Q_MI": self.mutual_information,
            "Q_G": self.gradient,
            "Q_P": self.phase_congruency,
            "Q_E": self.edge_similarity,
            "Q_Y": self.structural_similarity,
            "Q_CB": self.contrast,
            "PSNR": self.signal_to_noise_db,
            "PSNR_inner": self.inner_signal_to_noise_db,
            "SSIM": self.truth_similarity,
            "Q_SSIM": self.truth_quaternion_similarity,
            "right_source": self.right_source_share,
        }


def evaluate(
    sources: Sequence[NDArray[Any] | DaskImage],
    fused: NDArray[Any] | DaskImage,
    *,
    truth: NDArray[Any] | DaskImage | None = None,
    border_px: int = DEFAULT_BORDER_PX,
    source_index: NDArray[Any] | None = None,
    true_index: NDArray[Any] | None = None,
    sample_range: tuple[float, float] | None = None,
    progress: Callable[[EvaluationProgress], None] | None = None,
) -> Evaluation:
    """Judge a fused image against its sources and, where it is known, the truth.

    Parameters
    ----------
    sources : sequence of ndarray or dask array, shape (H, W) or (H, W, 3)
        The N >= 2 images that were fused, all uint8, uint16, float32 or float64.
    fused, truth : ndarray or dask array of the same shape and dtype
        The result, and the all-in-focus image if there is one.
    border_px : int
        Width of the border left out of the second PSNR.
    source_index, true_index : ndarray of int, shape (H, W)
        Which source, from 0, each pixel was taken from and should have been taken from. Both or none.
    sample_range : tuple of float, optional
        Samples shown as black and white. Images are brought to 8 bits by it, as saving them would do; samples outside are clipped. The
        default is the range of the integer type (for 12-bit data in uint16 pass ``(0, 4095)``); floats need it.
    progress : callable, optional
        Receives an `EvaluationProgress` after every step. What it raises ends the evaluation.

    Returns
    -------
    Evaluation
        All figures; None for those that had no truth.

    Raises
    ------
    InvalidImageError
        If the images do not fit each other, or cannot be brought to 8 bits without guessing.

    Notes
    -----
    Images of more than 4 megapixels are evaluated block by block, each read once, in less than 1.2 GB whatever their size. Where a
    metric is local (Q_MI, Q_G, Q_E, Q_Y and everything that needs the truth) its value is that of the whole image up to rounding, 1e-9.
    Q_CB and Q_P transform the whole image in the reference: from blocks, Q_CB differs by less than 1e-5 and Q_P by less than 0.002.
    """
    # every check that needs no samples comes first, also for images that will take minutes to read
    _check_border(border_px)
    named = name_images(sources, fused, truth)
    limits = settle_limits(fused.dtype, sample_range)
    shape, n_sources = fused.shape[:2], len(sources)
    right_share = _rate_choices(source_index, true_index, shape=shape, n_sources=n_sources)
    if shape[0] * shape[1] > LARGEST_WHOLE_PX and min(shape) >= SMALLEST_BLOCK_SIDE_PX:
        # dask is loaded for large images only
        from .by_block.large_evaluation import evaluate_by_block

        figures = evaluate_by_block(named, n_sources=n_sources, limits=limits, border_px=border_px, progress=progress)
        return Evaluation(**figures, right_source_share=right_share)
    loaded = [(name, load_samples(image)) for name, image in named]
    images = prepare_images(loaded, n_sources=n_sources, limits=limits)
    # four quick metrics; per image one step of contrast and one per orientation of phase congruency
    total = 4 + (1 + N_ORIENTATIONS) * (len(sources) + 1) + (truth is not None)
    finish_step = StepCounter(total, progress).finish_step
    figures = _compare_with_sources(images.sources, images.fused, finish_step=finish_step)
    if images.truth_samples is not None:
        figures |= _compare_with_truth(images.fused_samples, images.truth_samples, border_px=border_px)
        finish_step("truth")
    return Evaluation(**figures, right_source_share=right_share)


def _compare_with_sources(sources: Sequence[Levels], fused: Levels, *, finish_step: Callable[[str], None]) -> dict[str, float]:
    """Compute the six metrics, the quick ones first."""
    figures: dict[str, float] = {}
    quick: dict[str, Callable[[Sequence[Levels], Levels], float]] = {
        "mutual_information": measure_mutual_information,
        "gradient": measure_gradient,
        "edge_similarity": measure_edge_similarity,
        "structural_similarity": measure_structural_similarity,
    }
    for name, measure in quick.items():
        figures[name] = measure(sources, fused)
        finish_step(name)
    figures["contrast"] = measure_contrast(sources, fused, on_step=partial(finish_step, "contrast"))
    figures["phase_congruency"] = measure_phase_congruency(sources, fused, on_step=partial(finish_step, "phase_congruency"))
    return figures


def _compare_with_truth(fused: Levels, truth: Levels, *, border_px: int) -> dict[str, float]:
    """Compute the figures that need the truth."""
    return {
        "signal_to_noise_db": measure_signal_to_noise(fused, truth),
        "inner_signal_to_noise_db": measure_signal_to_noise(fused, truth, border_px=border_px),
        "truth_similarity": measure_similarity(fused, truth),
        "truth_quaternion_similarity": measure_quaternion_similarity(fused, truth),
    }


def _check_border(border_px: object) -> None:
    """Refuse a border that is no width."""
    if isinstance(border_px, bool) or not isinstance(border_px, (int, np.integer)) or border_px < 0:
        message = f"Got a border of {border_px!r} px; a whole number from 0 on is needed. Pass 0 to leave nothing out."
        raise InvalidImageError(message)


def _rate_choices(
    source_index: NDArray[Any] | None,
    true_index: NDArray[Any] | None,
    *,
    shape: tuple[int, ...],
    n_sources: int,
) -> float | None:
    """Check both index maps and compare them; without any there is nothing to rate."""
    if source_index is None and true_index is None:
        return None
    if source_index is None or true_index is None:
        given, missing = ("true_index", "source_index") if source_index is None else ("source_index", "true_index")
        message = f"Got {given} without {missing}; the share of right choices needs both. Pass both, or neither."
        raise InvalidImageError(message)
    _check_index("source_index", source_index, shape=shape, n_sources=n_sources)
    _check_index("true_index", true_index, shape=shape, n_sources=n_sources)
    return measure_right_choices(source_index, true_index)


def _check_index(name: str, index: object, *, shape: tuple[int, ...], n_sources: int) -> None:
    """Refuse a map that does not name one of the sources at each pixel."""
    if not (isinstance(index, np.ndarray) and np.issubdtype(index.dtype, np.integer) and index.shape == shape):
        found = f"{index.dtype} of shape {index.shape}" if isinstance(index, np.ndarray) else type(index).__name__
        message = f"Got {name} as {found}; an integer array of shape {shape} is needed. Pass one source number for each pixel."
        raise InvalidImageError(message)
    if index.min() < 0 or index.max() >= n_sources:
        found = f"{index.min()} to {index.max()}"
        message = f"Got {name} from {found}; there are {n_sources} sources, counted from 0. Pass 0 to {n_sources - 1}."
        raise InvalidImageError(message)
