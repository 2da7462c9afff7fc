"""Checks of everything a comparison will read, before any work is spent on it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qmcif_engine.comparison.fingerprints import digest_engine, digest_file, digest_settings, digest_texts
from qmcif_engine.comparison.report_images import read_eight_bit
from qmcif_engine.errors import InvalidImageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from qmcif_engine.comparison.datasets import Dataset
    from qmcif_engine.comparison.methods import Method


def fingerprint_inputs(
    dataset: Dataset, methods: Sequence[Method], *, progress: Callable[[int, int], None], border_px: int | None = None
) -> dict[tuple[str, str], str]:
    """Check the images of every set and return what each result depends on.

    Parameters
    ----------
    dataset : Dataset
    methods : sequence of Method
    progress : callable
        Receives the sets done and the sets in all.
    border_px : int, optional
        Width of the border that is to be left out; something of every image must remain.

    Returns
    -------
    dict of tuple of str to str
        A digest for each set and method: of the program, the settings, the sources, the truth and another method's image. While it
        stays the same, so does the result.

    Raises
    ------
    ImageFileError, InvalidImageError
        When an image cannot be read, is not 8-bit, differs in size from the others of its set, or is nothing but border.
    """
    fingerprints = {}
    for n_done, image_set in enumerate(dataset.sets, start=1):
        # the truth and other programs' images too: found out now, not after hours of fusing
        shape = _check_sizes([*image_set.files, *(method.images[image_set.name] for method in methods if method.images)])
        if border_px is not None:
            _check_inside(image_set.sources[0], shape, border_px=border_px)
        contents = [digest_file(path) for path in image_set.sources]
        # digests are taken once per set, not once per method
        truth = "" if image_set.truth is None else digest_file(image_set.truth)
        for method in methods:
            image = digest_file(method.images[image_set.name]) if method.images else ""
            parts = [digest_engine(), digest_settings(method.settings, rival=method.rival), *contents, truth, image]
            fingerprints[image_set.name, method.name] = digest_texts(parts)
        progress(n_done, len(dataset.sets))
    return fingerprints


def _check_sizes(paths: Iterable[Path]) -> tuple[int, ...]:
    """Return the common shape; read one image at a time, so that large stacks fit into memory."""
    shapes = {path: read_eight_bit(path).shape for path in paths}
    first, wanted = next(iter(shapes.items()))
    for path, shape in shapes.items():
        if shape != wanted:
            msg = (
                f"{str(path)!r} is {_describe(shape)} and {str(first)!r} {_describe(wanted)}; images of one set must agree in size "
                "and color: crop or convert them first"
            )
            raise InvalidImageError(msg)
    return wanted


def _check_inside(path: Path, shape: tuple[int, ...], *, border_px: int) -> None:
    # one pixel must remain in the middle
    widest = (min(shape[:2]) - 1) // 2
    if border_px > widest:
        msg = (
            f"--border {border_px} leaves nothing of {str(path)!r}, which is {_describe(shape)}; for this image {widest} is the most: "
            "choose a narrower border or leave the set out"
        )
        raise InvalidImageError(msg)


def _describe(shape: tuple[int, ...]) -> str:
    return f"{shape[1]} x {shape[0]} px {'gray' if len(shape) == 2 else 'RGB'}"
