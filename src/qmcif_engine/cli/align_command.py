"""``qmcif align``: a stack opened, aligned and written as a stack."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qmcif_engine import __version__
from qmcif_engine.cli.alignment_options import check_alignment, estimate_transforms, prepare_inputs
from qmcif_engine.cli.named_stacks import open_inputs
from qmcif_engine.cli.options import Request
from qmcif_engine.cli.terminal import peak_memory_bytes, progress_bar, report_outputs_among, report_repeated, show_bytes
from qmcif_engine.fusing.outputs import label_times
from qmcif_engine.io.output.formats import name_beside
from qmcif_engine.io.output.stack_output import check_stack_output, write_stack

if TYPE_CHECKING:
    from qmcif_engine.io.input.file_stack import FileStack
    from qmcif_engine.stack.alignment.transforms import Transforms

DEFAULT_MODEL = "similarity"


@dataclass(frozen=True, slots=True, kw_only=True)
class Aligned:
    """One stack that was aligned and written.

    Attributes
    ----------
    outputs : tuple of Path
    n_images : int
    transforms : Transforms or None
        None where nothing was to be moved.
    wall_seconds : float
    """

    outputs: tuple[Path, ...]
    n_images: int
    transforms: Transforms | None
    wall_seconds: float


def run(options: Request) -> None:
    """Align the named inputs as the options say, every time point by itself."""
    settled = _settle_model(options)
    with open_inputs(settled) as stack:
        points = _points_in_time(stack, settled)
        for target in points.values():
            # all time points, before the first is aligned
            check_alignment(stack, settled, check_stack_output(stack, target, overwrite=settled.overwrite))
        if stack.scratch_bytes and not settled.quiet and not settled.json:
            print(f"decoding {stack.n_images} images once into {show_bytes(stack.scratch_bytes)} of scratch space")
        estimate_transforms(stack, settled)
        results = []
        for number, target in points.items():
            try:
                with stack.at_time(number) as point:  # leaving it removes decoded copies, which would add up
                    results.append(_align(point, target, settled))
            except KeyboardInterrupt:
                if results:
                    msg = f"the first {len(results)} of {len(points)} time points are finished and kept"
                    raise KeyboardInterrupt(msg) from None
                raise
    _render(results, settled)
    if not settled.quiet:
        report_repeated(settled.images)
        report_outputs_among(settled.images, [path for result in results for path in result.outputs])


def _settle_model(options: Request) -> Request:
    """Return the options with the model that is meant where none is named: that of a file of transforms, else the default."""
    has_file = options.transforms is not None and Path(options.transforms).exists()
    return options if options.align is not None or has_file else replace(options, align=DEFAULT_MODEL)


def _points_in_time(stack: FileStack, options: Request) -> dict[int, Path]:
    if options.time is not None or stack.n_times == 1:
        return {options.time or 0: options.output}
    return {number: name_beside(options.output, f"_{label}") for number, label in label_times(stack.n_times).items()}


def _align(stack: FileStack, target: Path, options: Request) -> Aligned:
    started = time.perf_counter()
    prepared = prepare_inputs(stack, options, keeps_channels=True)
    with progress_bar("writing", is_quiet=options.quiet) as move:
        how: dict[str, Any] = {"crop": options.crop, "workers": options.workers, "overwrite": options.overwrite}
        outputs = write_stack(prepared, target, **how, on_progress=move)
    return Aligned(
        outputs=outputs,
        n_images=stack.n_images,
        transforms=prepared.transforms,
        wall_seconds=round(time.perf_counter() - started, 3),
    )


def _render(results: list[Aligned], options: Request) -> None:
    """Report what was done: one JSON object, or a line for each time point."""
    if options.json:
        contents = [_describe(result) for result in results]
        print(json.dumps(contents[0] if len(contents) == 1 else {"times": contents}))
        return
    for result in [] if options.quiet else results:
        moved = "as it is" if result.transforms is None else f"by {result.transforms.model.value}"
        largest = 0.0 if result.transforms is None else result.transforms.largest_movement_px()
        names = str(result.outputs[0]) if len(result.outputs) == 1 else f"{result.outputs[0]} to {result.outputs[-1].name}"
        print(f"aligned {result.n_images} images {moved}, at most {largest:.1f} px, in {result.wall_seconds:.1f} s: {names}")


def _describe(result: Aligned) -> dict[str, object]:
    transforms = result.transforms
    return {
        "version": __version__,
        "images": result.n_images,
        "align": "none" if transforms is None else transforms.model.value,
        "reference": None if transforms is None else transforms.reference + 1,
        "matrices": None if transforms is None else transforms.matrices,
        "warnings": [] if transforms is None else [warning.message for warning in transforms.warnings],
        "wall_seconds": result.wall_seconds,
        "peak_memory_bytes": peak_memory_bytes(),
        "outputs": [str(path) for path in result.outputs],
    }
