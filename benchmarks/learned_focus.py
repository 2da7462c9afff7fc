"""A learned measure of focus, tried beside the evidence of the method: an experiment, no part of the product.

Run as ``python benchmarks/learned_focus.py --save learned_focus`` beside ``../shared``. A network of some kilobytes is trained on scenes of
our generator alone, with and without noise: the energies of a few bands around a cell, in two windows, go through two layers of 24 units
to one number, so that the difference of the numbers of two images is the logarithm of the odds that the one is nearer to focus. It is
given to the decisions in place of a stage of the product, once added to the evidence of each cell and once alone. What changes is
measured on pairs with and without noise, generated stacks, photographs and microscopy. Equal seeds give equal networks.
"""

from __future__ import annotations

import argparse
import tempfile
from contextlib import ExitStack, contextmanager
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from unittest import mock

import numpy as np
from qmcif_engine.cleanup.regularization import CellEvidence
from qmcif_engine.kernels.cell_sums import CELL_PX
from quality import DATA_SETS, SHARED_DATA, SYMBOLS, score
from real_stacks import find_stacks, read_frames
from result_files import save_result
from scenes import make_scene, measure_right_share
from scipy import ndimage
from stack_quality import load_tool

from qmcif_engine import fuse, read_image
from qmcif_engine.comparison.datasets import find_dataset
from qmcif_engine.stack.synthetic import make_focus_stack
from qmcif_engine.tiles import tile_decisions

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from qmcif_engine.stack.window import Window

BANDS_PX = (0.5, 1.0, 2.0, 4.0, 8.0)
"""Standard deviations of the Gaussians whose differences are the bands."""

WINDOWS_PX = (2.5, 8.0)
LEAST_POWER = 0.05
N_HIDDEN = 24
NOISES = (0.0, 0.0, 2.0, 5.0, 10.0)
N_SCENES, N_STEPS, BATCH, RATE = 40, 4000, 512, 2e-3
CLEAR_DIFFERENCE = 48
"""Difference of the squared errors of two sources from which one of them is right, as in ``noisy_decisions.py``."""

STACKS = ("aligned_32", "photo_10", "mitotic_plate", "neuron_confocal_float32", "nucleus_confocal", "spots")
GENERATED = ("dome-12", "steps-12", "threads-12")
MODES = ("default", "added", "alone")
Array = np.ndarray[Any, np.dtype[np.float32]]


def look(image: np.ndarray) -> Array:
    """Return logarithms of the energies around each cell of an image on the 0-255 scale, shape (rows, columns, bands x windows)."""
    blurred = [ndimage.gaussian_filter(image.astype(np.float32), deviation) for deviation in BANDS_PX]
    rows, columns = (np.minimum(np.arange(0, side, CELL_PX) + CELL_PX // 2, side - 1) for side in image.shape)
    powers = [(fine - coarse) ** 2 for fine, coarse in pairwise(blurred)]
    means = [ndimage.gaussian_filter(power, width)[np.ix_(rows, columns)] for power in powers for width in WINDOWS_PX]
    return np.log(np.stack(means, axis=-1) + np.float32(LEAST_POWER))


class Network(NamedTuple):
    """Weights of three layers, and what the energies are shifted and scaled by."""

    mean: Array
    scale: Array
    weights: list[Array]

    def judge(self, energies: Array) -> Array:
        """Return how near to focus each cell is, up to a constant that is the same for all images of a scene."""
        return self.run((energies - self.mean) / self.scale)[-1][..., 0]

    def run(self, values: Array) -> list[Array]:
        """Return what goes into each layer, and what comes out of the last one; rectified in between."""
        passed = [values]
        for number, (matrix, shift) in enumerate(zip(self.weights[::2], self.weights[1::2], strict=True)):
            result = passed[-1] @ matrix + shift
            passed.append(np.maximum(result, 0) if number < len(self.weights) // 2 - 1 else result)
        return passed


def collect_examples(generator: np.random.Generator) -> tuple[Array, Array]:
    """Return energies of cells in focus and of the same cells of another image, with textureless ones left out."""
    sharp, blurred = [], []
    for seed in range(N_SCENES):
        n_images = int(generator.integers(2, 7))
        stack = make_focus_stack(n_images=n_images, seed=1000 + seed, blur_px=float(generator.uniform(1, 5)))
        noise = float(generator.choice(NOISES))
        grays = [image.mean(axis=-1) + generator.normal(0, noise, image.shape[:2]) for image in stack.images]
        energies = np.stack([look(gray) for gray in grays])
        depth = stack.depth_index[CELL_PX // 2 :: CELL_PX, CELL_PX // 2 :: CELL_PX]
        truth = look(stack.truth.mean(axis=-1))[..., 0]
        rows, columns = np.nonzero(truth > np.log(1.0 + noise**2))
        other = (depth[rows, columns] + generator.integers(1, n_images, rows.size)) % n_images
        sharp.append(energies[depth[rows, columns], rows, columns])
        blurred.append(energies[other, rows, columns])
    return np.concatenate(sharp), np.concatenate(blurred)


def train(generator: np.random.Generator) -> tuple[Network, float]:
    """Return a network, and the share of the examples kept back that it tells right; Adam on the logistic loss of differences."""
    sharp, blurred = collect_examples(generator)
    order = generator.permutation(len(sharp))
    kept, used = order[: len(order) // 10], order[len(order) // 10 :]
    sizes = (sharp.shape[1], N_HIDDEN, N_HIDDEN, 1)
    weights: list[Array] = []
    for n_in, n_out in pairwise(sizes):
        weights += [generator.normal(0, (2 / n_in) ** 0.5, (n_in, n_out)).astype(np.float32), np.zeros(n_out, np.float32)]
    network = Network(sharp.mean(axis=0), sharp.std(axis=0), weights)
    moments = [(np.zeros_like(weight), np.zeros_like(weight)) for weight in weights]
    for step in range(1, N_STEPS + 1):
        batch = generator.choice(used, BATCH)
        slopes = find_slopes(network, sharp[batch], blurred[batch])
        for weight, slope, (first, second) in zip(weights, slopes, moments, strict=True):
            first += 0.1 * (slope - first)
            second += 0.001 * (slope**2 - second)
            weight -= RATE * (first / (1 - 0.9**step)) / (np.sqrt(second / (1 - 0.999**step)) + 1e-8)
    return network, float((network.judge(sharp[kept]) > network.judge(blurred[kept])).mean())


def find_slopes(network: Network, sharp: Array, blurred: Array) -> list[Array]:
    """Return the derivatives of the mean of ln(1 + exp(blurred - sharp)) by all weights."""
    energies = (np.concatenate([sharp, blurred]) - network.mean) / network.scale
    passed = network.run(energies)
    lead = passed[-1][: len(sharp)] - passed[-1][len(sharp) :]
    share = 1 / (1 + np.exp(np.clip(lead, -30, 30))) / len(sharp)
    back = np.concatenate([-share, share]).astype(np.float32)
    slopes: list[Array] = []
    for number in range(len(network.weights) // 2 - 1, -1, -1):
        slopes = [passed[number].T @ back, back.sum(axis=0), *slopes]
        back = (back @ network.weights[2 * number].T) * (passed[number] > 0)
    return slopes


@contextmanager
def deciding(network: Network, mode: str) -> Iterator[None]:
    """Make the network take part in decisions: not at all, added to what speaks against each image, or in place of that."""
    judged: list[Array] = []
    decide, costs = tile_decisions.decide_cells, CellEvidence.costs

    def decide_with_network(blocks: Sequence[Array], *arguments: Any, **settings: Any) -> Any:
        judged[:] = [network.judge(look(blocks[number].mean(axis=0))) for number in range(len(blocks))]
        return decide(blocks, *arguments, **settings)

    def cost_with_network(self: CellEvidence, window: Window, *, contrast_weight: float) -> Array:
        levels = np.stack([plane[window.slices] for plane in judged])
        learned = levels.max(axis=0) - levels
        return learned + (costs(self, window, contrast_weight=contrast_weight) if mode == "added" else 0)

    with ExitStack() as changed:
        if mode != "default":
            changed.enter_context(mock.patch.object(tile_decisions, "decide_cells", decide_with_network))
            changed.enter_context(mock.patch.object(CellEvidence, "costs", cost_with_network))
        yield


def score_pairs(name: str) -> dict[str, float]:
    """Return the metrics of a set of pairs, and with truth the share of right decisions without and with noise."""
    figures, shares = [], {0: [], 10: []}
    for pair in find_dataset(SHARED_DATA / name).sets:
        figures.append(score(("default", pair.sources, pair.truth)))
        if pair.truth is None:
            continue
        truth, *sources = (read_image(path).samples for path in (pair.truth, *pair.sources))
        errors = [((source.astype(float) - truth) ** 2).sum(axis=-1) for source in sources]
        is_clear = np.abs(errors[0] - errors[1]) > CLEAR_DIFFERENCE
        for sigma, found in shares.items():
            generator = np.random.default_rng(5)
            noisy = [np.clip(source + generator.normal(0, sigma, source.shape), 0, 255).round().astype(np.uint8) for source in sources]
            found.append(100 * (fuse(noisy).source_index == (errors[1] < errors[0]))[is_clear].mean())
    means = dict(zip(SYMBOLS, np.mean(figures, axis=0), strict=True))
    means |= {f"right decisions, noise {sigma}, %": np.mean(found) for sigma, found in shares.items() if found}
    return {label: float(value) for label, value in means.items() if not np.isnan(value)}


def score_scene(name: str) -> dict[str, float]:
    """Return the share of right decisions on a generated stack, in %."""
    scene, _, n_images = name.rpartition("-")
    made = {noise: make_scene(scene, int(n_images), noise=noise) for noise in ("none", "photons 30")}
    return {f"right decisions, {noise}, %": 100 * measure_right_share(one, fuse(one.images).source_index) for noise, one in made.items()}


def score_stack(name: str) -> dict[str, float]:
    """Return what a real stack loses, in %."""
    tool = load_tool(SHARED_DATA.parent, "lost_detail")
    (place,) = [place for place in find_stacks(SHARED_DATA) if place.name == name]
    frames = read_frames(place, Path(tempfile.gettempdir()) / "qmcif-stacks")
    figures, _ = tool.measure(tool.gray(fuse(frames).fused), [tool.gray(frame) for frame in frames])
    return {f"{label}, %": 100 * figures[label] for label in ("lost", "soft", "excess")}


def main(arguments: list[str] | None = None) -> None:
    """Train, measure and print one row per figure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--save", metavar="NAME", help="keep the figures as benchmarks/results/NAME.json")
    options = parser.parse_args(arguments)
    network, share = train(np.random.default_rng(0))
    n_bytes = sum(weight.nbytes for weight in network.weights)
    print(f"{n_bytes} bytes of weights; right on {100 * share:.1f} % of the cells kept back", flush=True)
    rows: list[list[str | float]] = []
    jobs = (
        [(score_pairs, name) for name in DATA_SETS] + [(score_scene, name) for name in GENERATED] + [(score_stack, name) for name in STACKS]
    )
    for score_data, name in jobs:
        found = {}
        for mode in MODES:
            with deciding(network, mode):
                found[mode] = score_data(name)
        for label in found["default"]:
            rows.append([name, label, *(round(found[mode][label], 6) for mode in MODES)])
            print(" | ".join([name, label, *(f"{found[mode][label]:.4f}" for mode in MODES)]), flush=True)
    if options.save:
        note = f"{n_bytes} bytes of weights; {100 * share:.1f} % of the generated cells kept back are told right."
        save_result(options.save, columns=("data", "figure", *MODES), rows=rows, formats=dict.fromkeys(MODES, ".4f"), note=note)


if __name__ == "__main__":
    main()
