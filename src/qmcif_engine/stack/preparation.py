"""Bring a stack into the state it is fused in: aligned, of even exposure, with everything that goes with it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from qmcif_engine.errors import InvalidConfigError
from qmcif_engine.stack.picture_metadata import PictureMetadata
from qmcif_engine.stack.stack import StackView, count_separate_channels, decides_each

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from qmcif_engine.kernels.array_types import BoolArray, SampleArray
    from qmcif_engine.stack.alignment.transforms import TransformModel, Transforms
    from qmcif_engine.stack.exposure import ExposureCorrection
    from qmcif_engine.stack.stack import Stack
    from qmcif_engine.stack.window import Window


class PreparedStack(StackView):
    """Show a stack aligned or corrected, and its alpha and further channels aligned with it.

    Parameters
    ----------
    original : Stack
        The stack as it was opened: what it says of itself is handed on.
    transforms : Transforms, optional
        Where its images are sampled.
    correction : ExposureCorrection, optional
        How bright its images are made; its deciding channels too, where the companions hold them.
    companion_correction : ExposureCorrection, optional
        How bright all of its further channels are made; those that do not decide keep their samples without it.
    """

    def __init__(
        self,
        original: Stack,
        *,
        transforms: Transforms | None = None,
        correction: ExposureCorrection | None = None,
        companion_correction: ExposureCorrection | None = None,
    ) -> None:
        super().__init__(original)
        self.transforms, self.correction = transforms, correction if companion_correction is None else companion_correction
        self._shown = _corrected(_aligned(original, transforms), correction)
        self.alpha = _aligned(getattr(original, "alpha", None), transforms)
        companions = _aligned(getattr(original, "companions", None), transforms)
        self.companions = (
            _corrected_companions(companions, original, correction)
            if companion_correction is None
            else _corrected(companions, companion_correction)
        )
        self.metadata: PictureMetadata = getattr(original, "metadata", PictureMetadata())
        self.n_separate_channels, self.decides_each = count_separate_channels(original), decides_each(original)
        self.sources: tuple[Path, ...] = getattr(original, "sources", ())
        self.scratch_bytes: int = getattr(original, "scratch_bytes", 0)
        self.frame_numbers: tuple[int, ...] = getattr(original, "frame_numbers", ())

    def read(self, number: int, window: Window) -> SampleArray:
        """Return one window of one image."""
        samples: SampleArray = self._shown.read(number, window)
        return samples

    def valid(self, number: int, window: Window) -> BoolArray:
        """Return which pixels of a window, (h, w), the image really has."""
        is_valid: BoolArray = self._shown.valid(number, window)
        return is_valid


def prepare_stack(
    stack: Stack,
    *,
    align: str = "none",
    reference: int | None = None,
    transforms: Transforms | None = None,
    even_exposure: bool = False,
    correction: ExposureCorrection | None = None,
    even_companions: bool = False,
    on_progress: Callable[[int, int], None] | None = None,
    check_cancelled: Callable[[], None] | None = None,
) -> Stack:
    """Return a stack whose images coincide and are equally bright, as far as that is asked for.

    What moved is estimated here, from reduced previews; samples are moved only when a window of them is read. Nothing is cropped: pixels
    that an image lacks after it was moved are taken from the others.

    Parameters
    ----------
    stack : Stack
    align : str
        ``none``, ``translation``, ``similarity``, ``affine`` or ``homography``.
    reference : int, optional
        The image that stays as it is, 0-based; the middle one where it is left out.
    transforms : Transforms, optional
        Taken instead of an estimate.
    even_exposure : bool
        Bring every image to the brightness of the reference, channel by channel.
    correction : ExposureCorrection, optional
        Taken instead of an estimate.
    even_companions : bool
        Do the same to further channels, which otherwise keep their samples: they are composed by decisions made on the stack.
    on_progress, check_cancelled : callable, optional
        For the estimate: takes the images done and all of them; may raise to end it.

    Returns
    -------
    Stack
        The stack itself where nothing is asked for.
    """
    # OpenCV is loaded only for those who align
    from qmcif_engine.stack.alignment.estimation import estimate_transforms
    from qmcif_engine.stack.exposure import estimate_exposure

    model = parse_model(align)
    if transforms is None and model is not model.NONE:
        transforms = estimate_transforms(
            stack,
            model,
            reference=reference,
            on_progress=None if on_progress is None else lambda progress: on_progress(*progress),
            check_cancelled=check_cancelled,
        )
    aligned = stack if transforms is None else PreparedStack(stack, transforms=transforms)
    center = reference if transforms is None else transforms.reference
    if even_exposure and correction is None:
        correction = estimate_exposure(aligned, reference=center)
    channels: Stack | None = getattr(aligned, "companions", None)
    companion_correction = estimate_exposure(channels, reference=center) if even_companions and channels is not None else None
    if correction is None and companion_correction is None:
        return aligned
    return PreparedStack(stack, transforms=transforms, correction=correction, companion_correction=companion_correction)


def parse_model(name: str) -> TransformModel:
    """Return the model of that name."""
    from qmcif_engine.stack.alignment.transforms import TransformModel

    try:
        return TransformModel(name)
    except ValueError:
        msg = f"align is {name!r}; one of {', '.join(TransformModel)} is needed: choose one"
        raise InvalidConfigError(msg) from None


def _aligned(stack: Stack | None, transforms: Transforms | None) -> Any:  # noqa: ANN401 - a stack or nothing, as it came
    from qmcif_engine.stack.alignment.aligned_stack import AlignedStack

    return stack if stack is None or transforms is None else AlignedStack(stack, transforms)


def _corrected(stack: Any, correction: ExposureCorrection | None) -> Any:  # noqa: ANN401 - a stack with or without `valid`
    from qmcif_engine.stack.exposure import CorrectedStack

    return stack if correction is None else CorrectedStack(stack, correction)


def _corrected_companions(companions: Any, original: Stack, correction: ExposureCorrection | None) -> Any:  # noqa: ANN401 - as above
    """Return all channels, those that decide as bright as they are made."""
    deciding: tuple[int, ...] = getattr(original, "deciding_channels", ())
    if companions is None or correction is None or not deciding:
        return companions
    return _corrected(companions, correction.for_channels(deciding, companions.image_shape[2]))
