"""All figures of one fused image."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from numpy.typing import NDArray

from .blocks import Passes
from .contrast import measure_contrast
from .inputs import check_border, choose_limits, name_images, rate_choices
from .levels import Levels, keep_levels, offer_places
from .local_metrics import measure_edge_similarity, measure_gradient, measure_mutual_information, measure_structural_similarity
from .phase_congruency import measure_phase_congruency
from .truth import DEFAULT_BORDER_PX, compare_with_truth

if TYPE_CHECKING:
    from dask.array import Array as DaskImage

    from .blocks import EvaluationProgress

    Image: TypeAlias = NDArray[Any] | DaskImage


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
    sources: Sequence[Image],
    fused: Image,
    *,
    truth: Image | None = None,
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
    Every image is read once and evaluated block by block. Images of more than 4 megapixels take less than 1.2 GB whatever their size; their
    8-bit levels wait in temporary files. Where a metric is local (Q_MI, Q_G, Q_E, Q_Y and everything that needs the truth) its value is
    that of the whole image up to rounding, 1e-9. Q_CB and Q_P transform the whole image in the reference: from blocks, Q_CB differs by
    less than 1e-5 and Q_P by less than 0.002.
    """
    # every check that needs no samples comes first, also for images that will take minutes to read
    check_border(border_px)
    named = name_images(sources, fused, truth)
    limits = choose_limits(fused.dtype, sample_range)
    n_sources = len(sources)
    right_share = rate_choices(source_index, true_index, shape=fused.shape[:2], n_sources=n_sources)
    passes = Passes(fused.shape, progress)
    # reading, three local metrics, the gradient by source, contrast and phase congruency with what they need to know before, the truth
    passes.n_passes = len(named) + 3 + n_sources + (2 if passes.is_whole else 4) + (0 if truth is None else 2)
    with offer_places(in_files=not passes.is_whole) as place:
        kept = [
            keep_levels(name, image, limits=limits, passes=passes, place=place, with_color=truth is not None and number >= n_sources)
            for number, (name, image) in enumerate(named)
        ]
        colors, grays = zip(*kept, strict=True)
        figures = _compare_with_sources(grays[: n_sources + 1], passes)
        if truth is not None:
            figures |= compare_with_truth(colors[n_sources:], grays[n_sources:], passes, border_px=border_px)
    return Evaluation(**figures, right_source_share=right_share)


def _compare_with_sources(images: Sequence[Levels], passes: Passes) -> dict[str, float]:
    """Compute the six metrics, the quick ones first."""
    mutual_information, tables = measure_mutual_information(images, passes)
    return {
        "mutual_information": mutual_information,
        "gradient": measure_gradient(images, passes),
        "edge_similarity": measure_edge_similarity(images, passes),
        "structural_similarity": measure_structural_similarity(images, passes),
        "contrast": measure_contrast(images, tables, passes),
        # the table of an image with a single level is all 0, that of any other reaches 255
        "phase_congruency": measure_phase_congruency(images, passes, is_constant=not tables[-1].any()),
    }
