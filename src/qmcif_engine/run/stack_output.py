"""Aligned stacks written to files, window by window, so that no image has to fit into memory."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qmcif_engine import __version__
from qmcif_engine.errors import Cancelled
from qmcif_engine.io.output.placement import check_sources_kept
from qmcif_engine.io.output.stack_files import check_stack_target, place_stack
from qmcif_engine.io.output.windowed_image import assemble_content
from qmcif_engine.run.execution import count_workers
from qmcif_engine.stack.window import Window

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np

    from qmcif_engine.arrays import SampleArray
    from qmcif_engine.io.output.windowed_image import ImageContent
    from qmcif_engine.stack.alignment.transforms import Transforms
    from qmcif_engine.stack.stack import Stack


class _ImagePart:
    """One image of a stack, or a rectangle of it, as it is written."""

    def __init__(self, stack: Stack, number: int, area: Window) -> None:
        self._stack, self._number, self._area = stack, number, area
        self.shape: tuple[int, ...] = (*area.shape, *stack.image_shape[2:])
        self.dtype: np.dtype[Any] = stack.dtype

    def read(self, window: Window) -> SampleArray:
        top, left = self._area.top, self._area.left
        return self._stack.read(self._number, Window(window.top + top, window.left + left, window.bottom + top, window.right + left))


def write_stack(
    stack: Stack,
    output: Path | str,
    *,
    crop: bool = False,
    workers: int | None = None,
    overwrite: bool = False,
    is_checked: bool = False,
    on_progress: Callable[[int, int], None] | None = None,
    is_cancelled: Callable[[], bool] | None = None,
) -> tuple[Path, ...]:
    """Write a stack, usually one that `prepare_stack` aligned, with all its channels and what it says of itself.

    Samples keep their type. Pixels that an image does not have after it was moved repeat the nearest sample on its edge; `crop` leaves
    the rows and columns with such pixels out. The same stack gives the same bytes, whatever the number of workers; outputs appear
    complete or not at all.

    Parameters
    ----------
    stack : Stack
        Read window by window.
    output : Path
        The suffix chooses the format: .tif (a page per image), .ome.tif or .ome.zarr. Where the name holds ``{frame}``, every image
        gets a file with its number, counted from 1, in any format that images are written in; the folder is made where it is missing.
    crop : bool
        Keep the largest rectangle that all images have.
    workers : int, optional
        Windows resampled at once, one per core where it is left out.
    overwrite : bool
        Replace existing outputs.
    is_checked : bool
        Whether `qmcif_engine.run.stack_output.check_stack_output` has let the same output pass.
    on_progress : callable, optional
        Takes the blocks written and all of them.
    is_cancelled : callable, optional
        Asked before each block; a cancelled run leaves nothing behind.

    Returns
    -------
    tuple of Path
        What was written.

    Raises
    ------
    Cancelled
    InvalidConfigError
        When the images are to be cropped and have nothing in common.
    OutputError
        When the format cannot hold the images or the place cannot be written.
    """
    target = Path(output)
    if not is_checked:
        check_stack_output(stack, target, overwrite=overwrite)
    transforms = stack.transforms
    area = Window.whole(stack.image_shape)
    if crop and transforms is not None:
        # loads what only those need who crop
        from qmcif_engine.stack.alignment.shared_area import find_shared_area

        area = find_shared_area(transforms)

    def check_cancelled() -> None:
        if is_cancelled is not None and is_cancelled():
            msg = "writing the stack was cancelled; nothing was written: start it again"
            raise Cancelled(msg)

    return place_stack(
        target,
        _assemble(stack, area, provenance=_describe(stack, transforms, area)),
        n_workers=count_workers(workers),
        overwrite=overwrite,
        on_progress=on_progress,
        check_cancelled=check_cancelled,
    )


def check_stack_output(stack: Stack, target: Path, *, overwrite: bool) -> tuple[Path, ...]:
    """Return every file that `write_stack` would write, once all of them can be and none is read."""
    shown, alpha = _planes_of(stack)
    files = check_stack_target(
        target, stack.n_images, dtype=shown.dtype, has_alpha=alpha is not None, shape=shown.image_shape, overwrite=overwrite
    )
    check_sources_kept(files, stack.sources)
    return files


def _planes_of(stack: Stack) -> tuple[Stack, Stack | None]:
    """Return what is written: all channels where only some decide, else the stack and its alpha."""
    return (stack, stack.alpha) if stack.companions is None else (stack.companions, None)


def _assemble(stack: Stack, area: Window, *, provenance: dict[str, object]) -> list[ImageContent]:
    shown, alpha = _planes_of(stack)
    return [
        assemble_content(
            _ImagePart(shown, number, area),
            None if alpha is None else _ImagePart(alpha, number, area),
            metadata=replace(stack.metadata, z_step=_settle_step(stack)),
            provenance=provenance,
        )
        for number in range(stack.n_images)
    ]


def _settle_step(stack: Stack) -> float | None:
    """Return the distance of neighboring images after some were left out; None where it is not the same between all."""
    # in units of the recorded distance; images chosen backwards have it too
    steps = {abs(second - first) for first, second in itertools.pairwise(stack.frame_numbers)}
    z_step = stack.metadata.z_step
    if z_step is None or len(steps) > 1:
        return None
    return z_step * (steps.pop() if steps else 1)


def _describe(stack: Stack, transforms: Transforms | None, area: Window) -> dict[str, object]:
    """Return what was done to the stack, without times, names and paths."""
    described: dict[str, object] = {"version": __version__, "images": stack.n_images, "area": list(area)}
    if transforms is not None:
        # image numbers are counted from 1 wherever people read them
        described |= {"align": transforms.model.value, "reference": transforms.reference + 1, "matrices": transforms.matrices}
    if stack.correction is not None:
        described |= {"gains": stack.correction.gains, "offsets": stack.correction.offsets}
    return described
