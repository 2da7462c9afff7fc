"""The stack in the state it is fused in: aligned, of even exposure, with everything that goes with it."""

from __future__ import annotations

from collections.abc import Callable

from qmcif_engine.errors import InvalidConfigError
from qmcif_engine.stack.alignment.transforms import TransformModel, Transforms
from qmcif_engine.stack.exposure import ExposureCorrection, correct_stack, estimate_exposure
from qmcif_engine.stack.stack import Stack


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
    from qmcif_engine.stack.alignment.warping import align_stack

    try:
        model = TransformModel(align)
    except ValueError:
        msg = f"align is {align!r}; one of {', '.join(TransformModel)} is needed: choose one"
        raise InvalidConfigError(msg) from None
    if transforms is None and model is not model.NONE:
        transforms = estimate_transforms(
            stack,
            model,
            reference=reference,
            on_progress=on_progress,
            check_cancelled=check_cancelled,
        )
    # exposure is compared where the images coincide
    aligned = stack if transforms is None else align_stack(stack, transforms)
    # given transforms have their own reference, which is used for both
    center = reference if transforms is None else transforms.reference
    if even_exposure and correction is None:
        correction = estimate_exposure(aligned, reference=center)
    channels = aligned.companions
    companion_correction = estimate_exposure(channels, reference=center) if even_companions and channels is not None else None
    prepared = aligned if correction is None else correct_stack(aligned, correction)
    if companion_correction is None or channels is None:
        return prepared
    # its deciding channels too, which the companions hold
    return prepared.replaced(companions=correct_stack(channels, companion_correction), correction=companion_correction)
