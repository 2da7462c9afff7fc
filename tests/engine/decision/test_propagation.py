"""Belief propagation: against plain NumPy, exact on chains, and near the least energy on small grids."""

import itertools

import numpy as np
import pytest

from qmcif_engine.decision import propagation
from qmcif_engine.decision.evidence import BLOCK_PX, CELL_PX, Candidates
from qmcif_engine.decision.filters import average_cells
from qmcif_engine.decision.propagation import PRICES_PX

CELLS = BLOCK_PX // CELL_PX
AREA = CELL_PX**2
DIRECTIONS = ((0, 1), (0, -1), (1, 0), (-1, 0))


def pass_on(candidates, cost, means, *, far, smoothness):
    return propagation.propagate(candidates.label, cost, propagation.price_borders(means, candidates, far), far=far, smoothness=smoothness)


def problem(shape, *, n_images, count, seed=0, missing=0.0, spread=0.6, planes=1):
    """Random candidates of blocks, their costs on cells, and means of all images."""
    generator = np.random.default_rng(seed)
    blocks = [-(-length // CELLS) for length in shape]
    label = np.sort([[generator.permutation(n_images)[:count] for _ in range(blocks[1])] for _ in range(blocks[0])]).astype(np.int32)
    label[generator.random(blocks) < missing, 1:] = -1
    cost = generator.uniform(0, spread, (*shape, count)).astype(np.float32)
    best = generator.uniform(0, 3, shape).astype(np.float32)
    side = [-(-length * CELL_PX // PRICES_PX[-1]) for length in shape]
    means = generator.normal(0, 3, (n_images, planes, *side)).astype(np.float32)
    return Candidates(label, cost, np.zeros((2, *shape), np.uint16), best), cost, means


def step_between(grid, p, q, a, b):
    """The mean step between two labels at two cells; a block knows only those among its own candidates."""
    known = [grid.step(place, a, b) for place in (p, q) if {a, b} <= set(grid.labels(place))]
    return np.mean(known) if known else 0.0


class Grid:
    """One grid of the pyramid, in plain NumPy."""

    def __init__(self, candidates, cost, means, *, side, far, smoothness):
        self.side, self.far, self.border = side, far, side * propagation.BORDER * smoothness
        cells = side // CELL_PX
        rows, columns = (-(-length // cells) for length in cost.shape[:2])
        # incomplete cells are completed by their last row and column
        y, x = (np.minimum(np.arange(n * cells), length - 1) for n, length in zip((rows, columns), cost.shape, strict=False))
        self.cost = AREA * cost[y[:, None], x].astype(np.float64).reshape(rows, cells, columns, cells, -1).sum(axis=(1, 3))
        self.label, self.blocks = candidates.label, BLOCK_PX // side
        self.coarse = max(side, PRICES_PX[-1])
        self.power = average_cells(np.exp(candidates.best), self.coarse // CELL_PX).astype(np.float64)
        self.means = (means if self.coarse == PRICES_PX[-1] else average_cells(means, self.coarse // PRICES_PX[-1])).astype(np.float64)

    def labels(self, place):
        return [int(label) for label in self.label[place[0] // self.blocks, place[1] // self.blocks]]

    def step(self, place, a, b):
        """The root mean square of the difference of two images at a cell, in units of the detail."""
        y, x = (k * self.side // self.coarse for k in place)
        return np.sqrt(((self.means[a, :, y, x] - self.means[b, :, y, x]) ** 2).mean() / self.power[y, x])

    def pair(self, p, q, a, b):
        """What a border between a label at one cell and a label at the next one costs."""
        return 0.0 if a == b else self.border * min(abs(a - b) / self.far, 1) * (1 + propagation.SEAM * step_between(self, p, q, a, b))

    def pass_messages(self, messages, rounds):
        h, w, count = self.cost.shape
        for turn, y, x in itertools.product(range(rounds), range(h), range(w)):
            if (y + x) % 2 != turn % 2:
                continue
            total = self.cost[y, x] + messages[:, y, x].sum(axis=0)
            for d, (dy, dx) in enumerate(DIRECTIONS):
                v, u = y + dy, x + dx
                if not (0 <= v < h and 0 <= u < w):
                    continue
                own, other = self.labels((y, x)), self.labels((v, u))
                sent = np.array(
                    [
                        min(total[i] - messages[d ^ 1, y, x, i] + self.pair((y, x), (v, u), own[i], b) for i in range(count) if own[i] >= 0)
                        for b in other
                        if b >= 0
                    ]
                )
                messages[d, v, u, : len(sent)] = sent - sent.min()
        return messages


def beliefs_written_out(candidates, cost, means, *, far, smoothness):
    messages = None
    for side, rounds in zip(propagation.GRIDS_PX, propagation.ROUNDS, strict=True):
        grid = Grid(candidates, cost, means, side=side, far=far, smoothness=smoothness)
        h, w, count = grid.cost.shape
        messages = np.zeros((4, h, w, count)) if messages is None else messages.repeat(2, axis=1).repeat(2, axis=2)[:, :h, :w] / 2
        grid.pass_messages(messages, rounds)
    return (grid.cost + messages.sum(axis=0)) / AREA


@pytest.mark.parametrize(
    ("shape", "n_images", "count", "missing", "far", "planes"),
    [((8, 8), 2, 2, 0, 1, 1), ((9, 7), 6, 3, 0.3, 2, 3), ((3, 4), 5, 4, 0, 2.5, 1), ((1, 1), 2, 2, 0, 1, 1), ((5, 13), 12, 8, 0.5, 2, 1)],
)
def test_beliefs_are_those_of_plain_messages(shape, n_images, count, missing, far, planes):
    candidates, cost, means = problem(shape, n_images=n_images, count=count, missing=missing, seed=count, planes=planes)

    beliefs = pass_on(candidates, cost, means, far=far, smoothness=1.3)

    is_candidate = candidates.label.repeat(CELLS, axis=0).repeat(CELLS, axis=1)[: shape[0], : shape[1]] >= 0
    expected = beliefs_written_out(candidates, cost, means, far=far, smoothness=1.3)
    np.testing.assert_allclose(beliefs[is_candidate], expected[is_candidate], rtol=1e-4, atol=1e-4)


def energy_of(grid, labels):
    """The energy that is minimized, of one labeling of the finest grid."""
    h, w, _ = grid.cost.shape
    total = sum(grid.cost[y, x, grid.labels((y, x)).index(labels[y][x])] for y in range(h) for x in range(w))
    for y, x in np.ndindex(h, w):
        for v, u in ((y + 1, x), (y, x + 1)):
            if v < h and u < w:
                total += grid.pair((y, x), (v, u), labels[y][x], labels[v][u])
    return total


def take_best(candidates, beliefs):
    label = candidates.label.repeat(CELLS, axis=0).repeat(CELLS, axis=1)[: beliefs.shape[0], : beliefs.shape[1]]
    return np.take_along_axis(label, beliefs.argmin(axis=-1)[..., None], -1)[..., 0].tolist()


@pytest.mark.parametrize("place", [(44, 44), (47, 41)])
def test_costs_reach_as_far_as_is_stated(place):
    candidates, cost, means = problem((88, 88), n_images=2, count=2, spread=0.1)
    changed = cost.copy()
    changed[place] = 5, 0

    one, other = (pass_on(candidates, each, means, far=1.0, smoothness=1.0) for each in (cost, changed))

    cells = np.argwhere((one != other).any(axis=-1)) - place
    # from the pixels of one cell to the nearest pixels of another
    assert BLOCK_PX < CELL_PX * (np.abs(cells).max() - 1) + 1 <= propagation.PROPAGATION_REACH_PX


def energies(shape, n_images, seed, *, spread=0.6, far=2.0):
    """The energy of the labels found, the least of all, and that of cells which decide for themselves."""
    candidates, cost, means = problem(shape, n_images=n_images, count=n_images, seed=seed, spread=spread)
    grid = Grid(candidates, cost, means, side=CELL_PX, far=far, smoothness=1.0)
    found = take_best(candidates, pass_on(candidates, cost, means, far=far, smoothness=1.0))
    labelings = itertools.product(range(n_images), repeat=shape[0] * shape[1])
    least = min(energy_of(grid, np.reshape(labels, shape).tolist()) for labels in labelings)
    assert take_best(candidates, pass_on(candidates, cost, means, far=far, smoothness=0.0)) == take_best(candidates, cost)
    return energy_of(grid, found), least, energy_of(grid, take_best(candidates, cost))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("shape", "n_images"), [((1, 3), 3), ((3, 1), 4), ((1, 2), 5), ((1, 3), 2)])
def test_on_a_chain_the_least_energy_is_found(shape, n_images, seed):
    """Messages of coarse grids only start the others: on a chain no longer than the rounds the result is exact."""
    assert max(shape) <= propagation.ROUNDS[-1] + 1

    found, least, _ = energies(shape, n_images, seed)

    assert found == pytest.approx(least, rel=1e-3)


def test_on_grids_of_three_by_three_cells_the_energy_is_near_the_least_and_in_clear_cases_is_it():
    found, least, alone = np.mean([energies((3, 3), 2, seed, spread=0.3, far=1.0) for seed in range(8)], axis=0)
    clear = [energies((3, 3), 2, seed, spread=3.0, far=1.0)[:2] for seed in range(3)]

    assert least <= found < least + 0.5 * (alone - least)
    for one, best in clear:
        assert one == pytest.approx(best, rel=0.02)


@pytest.mark.parametrize(
    ("n_images", "is_ordered", "far"),
    [
        (2, True, 1),
        (40, False, 1),
        (3, True, propagation.LEAST_FAR),
        (300, True, propagation.MOST_FAR),
        (50, True, 6.25),
    ],
)
def test_labels_are_far_apart_from_a_share_of_the_stack_within_bounds(n_images, is_ordered, far):
    assert propagation.far_apart(n_images, is_ordered=is_ordered) == pytest.approx(far)
