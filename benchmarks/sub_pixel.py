"""Show what boundaries finer than a pixel could be worth, and what two ways of finding them are, on the shared pairs that have a truth.

``python benchmarks/sub_pixel.py --save sub_pixel`` fuses MFI-WHU and NYU-D with the default and changes the pixels along decision edges:

- *Unmixed*: where a source is the sharp image S and its blur G mixed, and the other one the same in the opposite shares, both together
  are S + G. So S is A + B - G within 16 px of an edge, with the blur G of the fused image that explains the image not chosen best, where
  A - G and B - G agree in direction and are both above the noise.
- *Shares by descent*: within 1.5 px of an edge the fused image is B + share (A - B), and shares go down the squared difference between the
  image not chosen and the fused image, blurred, where the model of defocus is trusted.
- *Best image* and *best share* know the truth, within 2 px of an edge: what no method can surpass there.

Figures are means of the PSNR without an 8-px border.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from qmcif_engine.cleanup.boundaries.reblurring import NOISE_POWER
from result_files import Cell, save_result
from scipy import ndimage

from qmcif_engine import fuse, read_image
from qmcif_engine.comparison.datasets import find_dataset

SHARED_DATA = Path(__file__).parents[2] / "shared" / "data"
PATCHED_TRUTHS = {"mfi_whu": ("03", "05")}
"""Pairs whose truth is put together from the sources, with blurred samples where one source is sharp."""

MARGIN_PX = 8
BLURS_PX = (1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0)
WINDOW_PX = 17
UNMIXED_PX, LEAST_COSINE, LEAST_POWER = 16, 0.8, 8.0
DESCENT_PX, N_ROUNDS, STEP, LARGEST_REST = 1.5, 3, 2.0, 0.18
KNOWN_PX = 2.5
VARIANTS = ("default", "unmixed", "shares by descent", "best image, truth known", "best share, truth known")
Samples: TypeAlias = "np.ndarray[Any, np.dtype[np.float64]]"


class Pair(NamedTuple):
    """Two images, their truth, the fused image, where it is taken from the first, and how far each pixel is from an edge of that."""

    first: Samples
    second: Samples
    truth: Samples
    fused: Samples
    is_first: np.ndarray[Any, np.dtype[np.bool_]]
    distance: Samples


def main(arguments: list[str] | None = None) -> None:
    """Print the means of every set, and keep them where a name is given."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--save", metavar="NAME", help="keep the figures as benchmarks/results/NAME.json")
    options = parser.parse_args(arguments)
    rows: list[list[Cell]] = []
    for name in ("mfi_whu", "nyu_d"):
        figures = {}
        for pair in find_dataset(SHARED_DATA / name).sets:
            figures[pair.name] = measure(fuse_pair(*(read_image(path).samples for path in (*pair.sources, pair.truth))))
            print(name, pair.name, *(f"{figure:.2f}" for figure in figures[pair.name]), flush=True)
        for left_out in ((), PATCHED_TRUTHS.get(name, ())):
            kept = [row for number, row in figures.items() if number not in left_out]
            if left_out or not rows or rows[-1][0] != name:
                label = f"{name} without {' and '.join(left_out)}" if left_out else name
                rows.append([label, len(kept), *(round(float(mean), 4) for mean in np.mean(kept, axis=0))])
    for row in rows:
        print(*row)
    if options.save:
        save_result(options.save, columns=("set", "pairs", *VARIANTS), rows=rows, formats=dict.fromkeys(VARIANTS, ".2f"))


def fuse_pair(first: Any, second: Any, truth: Any) -> Pair:
    """Fuse a pair and find the edges of its decisions."""
    result = fuse([first, second])
    index = result.source_index
    is_edge = np.zeros(index.shape, bool)
    for here, there in ((np.s_[1:], np.s_[:-1]), (np.s_[:, 1:], np.s_[:, :-1])):
        differs = index[here] != index[there]
        is_edge[here] |= differs
        is_edge[there] |= differs
    distance = ndimage.distance_transform_edt(~is_edge)
    return Pair(*(samples.astype(float) for samples in (first, second, truth, result.fused)), index == 0, distance)


def measure(pair: Pair) -> list[float]:
    """Return the PSNR of every variant."""
    cut = np.where(pair.is_first[..., None], pair.first, pair.second)
    other = np.where(pair.is_first[..., None], pair.second, pair.first)
    blurred = [ndimage.gaussian_filter(cut, (deviation, deviation, 0)) for deviation in BLURS_PX]
    rests = np.stack([average(power(other - each), WINDOW_PX) for each in blurred])
    fitting = rests.argmin(axis=0)
    at_edge = (pair.distance < KNOWN_PX)[..., None]
    images = (
        pair.fused,
        unmix(pair, np.choose(fitting[..., None], blurred)),
        descend(pair, other, fitting, rests.min(axis=0)),
        np.where(at_edge, choose_best(pair), pair.fused),
        np.where(at_edge, share_best(pair), pair.fused),
    )
    inner = np.s_[MARGIN_PX:-MARGIN_PX, MARGIN_PX:-MARGIN_PX]
    return [float(10 * np.log10(255**2 / power(image - pair.truth)[inner].mean())) for image in images]


def unmix(pair: Pair, blurred: Samples) -> Samples:
    """Return the fused image with both images less the blur where they agree that each is a mixture."""
    parts = pair.first - blurred, pair.second - blurred
    powers = [average(power(part), 5) for part in parts]
    cosine = average((parts[0] * parts[1]).mean(axis=-1), 5) / np.sqrt(powers[0] * powers[1] + 1e-9)
    is_mixed = (pair.distance <= UNMIXED_PX) & (cosine > LEAST_COSINE) & (np.minimum(*powers) > LEAST_POWER)
    return np.where(is_mixed[..., None], np.clip(blurred + parts[0] + parts[1], 0, 255), pair.fused)


def descend(pair: Pair, other: Samples, fitting: Any, least: Samples) -> Samples:
    """Return the fused image with shares along its edges that explain the image not chosen better."""
    difference = pair.first - pair.second
    trusted = least / (average(power(difference), WINDOW_PX) + 2.5 * NOISE_POWER) < LARGEST_REST
    is_open = (pair.distance < DESCENT_PX) & trusted
    shares = pair.is_first.astype(float)
    scale = np.maximum((difference**2).sum(axis=-1), 1)
    for _ in range(N_ROUNDS):
        mixed = pair.second + shares[..., None] * difference
        step = np.zeros(shares.shape)
        for number, deviation in enumerate(BLURS_PX):
            widths = (deviation, deviation, 0)
            rest = np.where((fitting == number)[..., None], other - ndimage.gaussian_filter(mixed, widths), 0)
            step += (ndimage.gaussian_filter(rest, widths) * difference).sum(axis=-1) / scale
        shares = np.where(is_open, np.clip(shares + STEP * step, 0, 1), shares)
    return np.where(is_open[..., None], pair.second + shares[..., None] * difference, pair.fused)


def choose_best(pair: Pair) -> Samples:
    """Return the image that is nearer to the truth at each pixel."""
    is_nearer = power(pair.first - pair.truth) < power(pair.second - pair.truth)
    return np.where(is_nearer[..., None], pair.first, pair.second)


def share_best(pair: Pair) -> Samples:
    """Return the mixture of both images that is nearest to the truth at each pixel."""
    difference = pair.first - pair.second
    wanted = ((pair.truth - pair.second) * difference).sum(axis=-1) / np.maximum((difference**2).sum(axis=-1), 1)
    return pair.second + np.clip(wanted, 0, 1)[..., None] * difference


def power(difference: Samples) -> Samples:
    """Return the mean square over the channels."""
    return np.asarray((difference**2).mean(axis=-1))


def average(plane: Samples, side_px: int) -> Samples:
    """Return means over windows."""
    return np.asarray(ndimage.uniform_filter(plane, side_px))


if __name__ == "__main__":
    main()
