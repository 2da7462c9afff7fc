"""``qmcif align``: a stack opened, aligned and written as a stack."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from qmcif_engine import __version__
from qmcif_engine.cli.options import Request
from qmcif_engine.cli.stacks import check_alignment, estimate_transforms, open_inputs, prepare_inputs, report_decoding, report_misplaced
from qmcif_engine.cli.terminal import peak_memory_bytes, progress_bar
from qmcif_engine.io.input.file_stack import FileStack
from qmcif_engine.io.output.formats import name_beside
from qmcif_engine.io.output.stack_output import check_stack_output, write_stack
from qmcif_engine.pipeline.outputs import label_times
from qmcif_engine.stack.alignment.transforms import Transforms

DEFAULT_MODEL = "similarity"


class Aligned(NamedTuple):
    """One stack that was aligned and written; without transforms where nothing was to be moved."""

    outputs: tuple[Path, ...]
    n_images: int
    transforms: Transforms | None
    wall_seconds: float


def run(options: Request) -> None:
    """Align the named inputs as the options say, every time point by itself."""
    # a file of transforms says which model it has
    if options.align is None and not (options.transforms is not None and options.transforms.exists()):
        options = replace(options, align=DEFAULT_MODEL)
    with open_inputs(options) as stack:
        points = _points_in_time(stack, options)
        for target in points.values():
            # all time points, before the first is aligned
            check_alignment(stack, options, check_stack_output(stack, target, overwrite=options.overwrite))
        report_decoding(options, stack)
        estimate_transforms(stack, options)
        results = []
        for number, target in points.items():
            try:
                with stack.at_time(number) as point:  # leaving it removes decoded copies, which would add up
                    results.append(_align(point, target, options))
            except KeyboardInterrupt:
                if results:
                    msg = f"the first {len(results)} of {len(points)} time points are finished and kept"
                    raise KeyboardInterrupt(msg) from None
                raise
    if options.json:
        contents = [_describe(result) for result in results]
        print(json.dumps(contents[0] if len(contents) == 1 else {"times": contents}))
    if options.is_verbose:
        _print(results)
    if not options.quiet:
        report_misplaced(options.images, [path for result in results for path in result.outputs])


def _points_in_time(stack: FileStack, options: Request) -> dict[int, Path]:
    if options.time is not None or stack.n_times == 1:
        return {options.time or 0: options.output}
    return {number: name_beside(options.output, f"_{label}") for number, label in label_times(stack.n_times).items()}


def _align(stack: FileStack, target: Path, options: Request) -> Aligned:
    started = time.perf_counter()
    prepared = prepare_inputs(stack, options, keeps_channels=True)
    with progress_bar("writing", is_quiet=options.quiet) as move:
        outputs = write_stack(prepared, target, crop=options.crop, workers=options.workers, overwrite=options.overwrite, on_progress=move)
    return Aligned(outputs, stack.n_images, prepared.transforms, round(time.perf_counter() - started, 3))


def _print(results: list[Aligned]) -> None:
    for outputs, n_images, transforms, seconds in results:
        moved = "as it is" if transforms is None else f"by {transforms.model.value}"
        largest = 0.0 if transforms is None else transforms.largest_movement_px()
        names = str(outputs[0]) if len(outputs) == 1 else f"{outputs[0]} to {outputs[-1].name}"
        print(f"aligned {n_images} images {moved}, at most {largest:.1f} px, in {seconds:.1f} s: {names}")


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
