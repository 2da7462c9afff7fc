"""Carry out ``qmcif evaluate``: judge one fused picture and print its figures."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from qmcif_engine import __version__
from qmcif_engine.cli.progress_bar import progress_bar
from qmcif_engine.comparison.pictures import read_opaque
from qmcif_engine.comparison.tables import format_figure
from qmcif_engine.errors import InvalidConfigError, InvalidImageError
from qmcif_engine.metrics import evaluate
from qmcif_engine.stack.samples import as_stack

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Mapping


def run(options: Namespace) -> None:
    """Print the figures of the named picture, as a table or as one JSON object."""
    _check_request(options)
    paths = [*options.images, options.fused, *([options.truth] if options.truth else [])]
    pictures = as_stack([read_opaque(path) for path in paths], names=[repr(str(path)) for path in paths])
    n_sources = len(options.images)
    choices: dict[str, Any] = {} if options.frame is None else {"frame_px": options.frame}
    with progress_bar("evaluating", is_quiet=options.json) as move:
        result = evaluate(
            pictures[:n_sources],
            pictures[n_sources],
            truth=pictures[-1] if options.truth else None,
            sample_range=None if options.sample_range is None else tuple(options.sample_range),
            progress=lambda step: move(step.done, step.total),
            **choices,
        )
    figures = result.list_by_symbol()
    if options.json:
        print(json.dumps(_describe(options, figures)))
    else:
        for line in draw_figures(figures):
            print(line)


def _check_request(options: Namespace) -> None:
    if len(options.images) < 2:
        msg = "1 source was given; at least 2 are needed: name all images that were fused"
        raise InvalidImageError(msg)
    if options.frame is not None and options.truth is None:
        msg = f"--frame {options.frame} was given without --truth; the frame is left out of a comparison with the truth: name the truth too"
        raise InvalidConfigError(msg)


def _describe(options: Namespace, figures: Mapping[str, float | None]) -> dict[str, Any]:
    return {
        "version": __version__,
        "sources": [str(path) for path in options.images],
        "fused": str(options.fused),
        "truth": None if options.truth is None else str(options.truth),
        "figures": dict(figures),
    }


def draw_figures(figures: Mapping[str, float | None]) -> list[str]:
    """Return one line a figure, symbols and decimal points aligned; figures there is no truth for are left out."""
    texts = {symbol: format_figure(value, symbol=symbol) for symbol, value in figures.items() if value is not None}
    widest = max(len(symbol) for symbol in texts)
    before_point = max(text.index(".") for text in texts.values())
    return [
        f"{symbol:<{widest}}  {' ' * (before_point - text.index('.'))}{text}{' dB' if symbol.startswith('PSNR') else ''}"
        for symbol, text in texts.items()
    ]
