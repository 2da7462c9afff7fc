"""``qmcif evaluate``: the figures of one fused image."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from qmcif_engine import __version__
from qmcif_engine.cli.options import Request
from qmcif_engine.cli.terminal import progress_bar
from qmcif_engine.comparison.datasets import opaque_sample, read_opaque, refuse_transparency
from qmcif_engine.comparison.tables import format_figure
from qmcif_engine.errors import InvalidConfigError, InvalidImageError, QmcifError
from qmcif_engine.io.input.file_order import is_zarr_folder
from qmcif_engine.io.input.file_stack import FileStack
from qmcif_engine.io.input.open import open_stack
from qmcif_engine.metrics import evaluate
from qmcif_engine.metrics.blocks import LARGEST_WHOLE_PX
from qmcif_engine.metrics.truth import DEFAULT_BORDER_PX
from qmcif_engine.stack.samples import check_images


def run(options: Request) -> None:
    """Print the figures of the named image, as a table or as one JSON object."""
    if len(options.images) < 2:
        msg = "1 source was given; at least 2 are needed: name all images that were fused"
        raise InvalidImageError(msg)
    if options.border is not None and options.truth is None:
        msg = f"--border {options.border} was given without --truth; it is left out of a comparison with the truth: name the truth too"
        raise InvalidConfigError(msg)
    n_sources = len(options.images)
    with (
        open_images([*options.images, options.fused, *([options.truth] if options.truth else [])]) as opened,
        progress_bar("evaluating", is_quiet=options.json) as move,
    ):
        result = evaluate(
            opened[:n_sources],
            opened[n_sources],
            truth=opened[-1] if options.truth else None,
            sample_range=None if options.sample_range is None else tuple(options.sample_range),
            border_px=DEFAULT_BORDER_PX if options.border is None else options.border,
            progress=lambda step: move(step.done, step.total),
        )
    figures = result.list_by_symbol()
    if options.json:
        named = {"fused": str(options.fused), "truth": None if options.truth is None else str(options.truth)}
        print(json.dumps({"version": __version__, "sources": [str(path) for path in options.images], **named, "figures": figures}))
    else:
        print(*draw_figures(figures), sep="\n")


@contextmanager
def open_images(paths: Sequence[Path]) -> Iterator[list[Any]]:
    """Give the images as arrays: read whole where they are small, else as dask arrays that are read by window.

    Formats that can only be decoded whole are decoded once, into a temporary file.
    """
    stack = _open_by_window(paths)
    if stack is None:
        yield check_images([read_opaque(path) for path in paths], names=[repr(str(path)) for path in paths])
        return
    with stack:
        if stack.alpha is not None:
            alpha, opaque = stack.alpha.to_dask(), opaque_sample(stack.alpha.dtype)
            for number, path in enumerate(paths):
                has_other = (alpha[number] != opaque).any()
                refuse_transparency(path, bool(has_other.compute(scheduler="threads", callbacks=())))
        yield list(stack.to_dask())


def _open_by_window(paths: Sequence[Path]) -> FileStack | None:
    """Return the images as a stack where that is worth it, or the only way; None where each is to be read whole."""
    try:
        # 0: what is kept decoded goes to disk, since images here may be as large as any
        stack = open_stack([str(path) for path in paths], memory_bytes=0)
    except QmcifError:
        if any(is_zarr_folder(path) for path in paths):
            raise
        return None  # reading the images one by one shows which of them cannot be read, or differs
    n_pixels = stack.image_shape[0] * stack.image_shape[1]
    is_small = n_pixels <= LARGEST_WHOLE_PX and not any(is_zarr_folder(path) for path in paths)
    # fewer or more images than names: one of them is a stack itself
    if is_small or stack.n_images != len(paths) or stack.companions is not None:
        stack.close()
        return None
    return stack


def draw_figures(figures: Mapping[str, float | None]) -> list[str]:
    """Return one line a figure, symbols and decimal points aligned; figures there is no truth for are left out."""
    texts = {symbol: format_figure(value, symbol=symbol) for symbol, value in figures.items() if value is not None}
    widest = max(len(symbol) for symbol in texts)
    # every figure has a point, and is shifted until it lies below the others
    before_point = max(text.index(".") for text in texts.values())
    return [
        f"{symbol:<{widest}}  {' ' * (before_point - text.index('.'))}{text}{' dB' if symbol.startswith('PSNR') else ''}"
        for symbol, text in texts.items()
    ]
