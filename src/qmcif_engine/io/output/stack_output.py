"""Stacks, usually aligned ones, written to files window by window, so that no image has to fit into memory."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from qmcif_engine import __version__
from qmcif_engine.errors import Cancelled, OutputError
from qmcif_engine.io.dask_threads import count_cores
from qmcif_engine.io.output.formats import check_target, choose_format, place_contents
from qmcif_engine.io.output.placement import check_sources_kept
from qmcif_engine.io.output.windowed_image import ImageContent, StackImage, assemble_content, join_contents
from qmcif_engine.stack.stack import Stack
from qmcif_engine.stack.window import Window

if TYPE_CHECKING:
    from qmcif_engine.stack.alignment.transforms import Transforms

FRAME_MARK = "{frame}"
"""Stands in the name of a target for the number of each image, which then gets a file of its own."""

_SMALLEST_N_DIGITS = 3


def write_stack(
    stack: Stack,
    output: Path | str,
    *,
    crop: bool = False,
    workers: int | None = None,
    overwrite: bool = False,
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
    files = check_stack_output(stack, target, overwrite=overwrite)
    transforms = stack.transforms
    area = Window.whole(stack.image_shape)
    if crop and transforms is not None:
        # loads what only those need who crop
        from qmcif_engine.stack.alignment.warping import find_shared_area

        area = find_shared_area(transforms)

    def check_cancelled() -> None:
        if is_cancelled is not None and is_cancelled():
            msg = "writing the stack was cancelled; nothing was written: start it again"
            raise Cancelled(msg)

    contents = _assemble(stack, area, provenance=_describe(stack, transforms, area))
    place_contents(
        dict(zip(files, contents, strict=True)) if FRAME_MARK in target.name else {target: join_contents(contents, "Z")},
        folders=[target.parent] if FRAME_MARK in target.name else [],
        n_workers=count_cores() if workers is None else max(workers, 1),
        overwrite=overwrite,
        on_progress=on_progress,
        check_cancelled=check_cancelled,
    )
    return files


def check_stack_output(stack: Stack, target: Path, *, overwrite: bool) -> tuple[Path, ...]:
    """Return every file that `write_stack` would write, once all of them can be and none is read."""
    shown, alpha = _planes_of(stack)
    chosen, is_one_a_frame = choose_format(target), FRAME_MARK in target.name
    if not (is_one_a_frame or chosen.holds_stacks):
        msg = (
            f"{str(target)!r} is to hold {stack.n_images} images; {chosen.name} holds one: use .tif, .ome.tif or .ome.zarr, or give each "
            f"image a file with a name such as {target.stem}_{FRAME_MARK}{target.suffix}"
        )
        raise OutputError(msg)
    # of one length, so that names sort as the images do
    n_digits = max(_SMALLEST_N_DIGITS, len(str(stack.n_images)))
    numbers = [f"{number:0{n_digits}d}" for number in range(1, stack.n_images + 1)] if is_one_a_frame else [""]
    files = tuple(target.with_name(target.name.replace(FRAME_MARK, number)) for number in numbers)
    for path in files:
        check_target(
            path,
            overwrite=overwrite,
            samples_dtype=shown.dtype,
            has_alpha=alpha is not None,
            shape=shown.image_shape,
            makes_folder=is_one_a_frame,
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
            StackImage(shown, number, area),
            None if alpha is None else StackImage(alpha, number, area),
            metadata=replace(stack.metadata, z_step=_measure_step(stack)),
            provenance=provenance,
        )
        for number in range(stack.n_images)
    ]


def _measure_step(stack: Stack) -> float | None:
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
