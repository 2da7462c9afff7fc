"""The coarse decision: against the formulas written out, plain messages and the least energy of small images; reach, masks and starts."""

import itertools

import numpy as np
import pytest

from qmcif_engine.config.fusion_config import DecisionConfig, Effort, FusionConfig, RuleName
from qmcif_engine.decision.coarse import (
    COARSE_CANDIDATES,
    COARSE_FREEDOM,
    COARSE_MARGIN_PX,
    COARSE_NOISE_ENERGY,
    COARSE_PX,
    COARSE_ROUNDS,
    DETAIL_PX,
    CoarseCells,
    CoarseDecision,
    coarse_energy,
    decide_coarsely,
    has_coarse_decision,
    start_messages,
    wanted_labels,
    weigh_coarsely,
)
from qmcif_engine.decision.evidence import BLOCK_PX, EXCLUDED
from qmcif_engine.decision.filters import average_cells, smooth
from qmcif_engine.decision.propagation import BORDER, SEAM, far_apart
from qmcif_engine.rules import StackStatistics, TileSteps
from qmcif_engine.stack.window import Window
from tests.scenes import ArrayPlanes, reach_of_change, texture

CONFIG = FusionConfig(decision=DecisionConfig(noise="off"))
DIRECTIONS = ((0, 1), (0, -1), (1, 0), (-1, 0))


def statistics(n_images, *, is_ordered=True, floor=0.5, noise=2.0):
    return StackStatistics(n_images=n_images, is_ordered=is_ordered, noise=noise, coarse_floor=floor)


def weigh(images, *, core=None, masks=None, config=CONFIG):
    planes = ArrayPlanes(np.asarray(images, np.float32), masks=masks)
    return weigh_coarsely(planes, core or planes.window, statistics(len(images)), config, steps=TileSteps())


def blurred_stack(n_images, shape, planes=1):
    return np.stack([smooth(texture((planes, *shape), sigma=1.5), 0.3 + 0.2 * ((7 * number) % n_images)) for number in range(n_images)])


# --- energy and candidates ---


@pytest.mark.parametrize("n_planes", [1, 3])
@pytest.mark.parametrize("shape", [(48, 64), (37, 50), (1, 1), (5, 33)])
def test_the_energy_is_that_of_the_formula(shape, n_planes):
    planes = texture((n_planes, *shape))

    cells = average_cells(planes.mean(axis=0), DETAIL_PX)
    around = np.pad(smooth(cells, 1.0), 1, mode="symmetric").astype(np.float64)
    detail = around[:-2, 1:-1] + around[2:, 1:-1] + around[1:-1, :-2] + around[1:-1, 2:] - 4 * around[1:-1, 1:-1]
    padded = np.pad(detail**2, [(0, -length % 8) for length in detail.shape], mode="edge")
    expected = padded.reshape(padded.shape[0] // 8, 8, -1, 8).mean(axis=(1, 3))

    np.testing.assert_allclose(coarse_energy(planes), expected, rtol=1e-3, atol=1e-5)


def test_the_energy_of_noise_is_as_stated():
    noise = np.random.default_rng(0).normal(size=(1, 2400, 2400)).astype(np.float32)

    energy = coarse_energy(noise)

    assert energy.mean() == pytest.approx(COARSE_NOISE_ENERGY, rel=0.02)


@pytest.mark.parametrize("n_images", [2, 5, 40])
def test_candidates_are_the_cheapest_images_at_the_cost_of_the_formula(n_images):
    images = blurred_stack(n_images, (50, 70))

    label, cost, price = weigh(images)

    count = min(n_images, COARSE_CANDIDATES)
    assert label.shape == cost.shape == (4, 5, count)
    assert price.shape == (4, 5, count, count)
    energies = np.stack([coarse_energy(image / np.float32(2.0)) for image in images]).astype(np.float64)
    evidence = np.log1p(energies / 0.5)
    below = evidence.max(axis=0) - evidence
    expected = COARSE_FREEDOM / 2 * (below - 1 + np.exp(-below))
    assert (np.diff(label, axis=-1) > 0).all()
    np.testing.assert_allclose(cost, np.take_along_axis(expected.transpose(1, 2, 0), label.astype(int), -1), atol=1e-4)
    np.testing.assert_allclose(np.sort(cost, axis=-1), np.sort(expected, axis=0)[:count].transpose(1, 2, 0), atol=1e-4)
    means = np.stack([average_cells(image / np.float32(2.0), COARSE_PX) for image in images]).astype(np.float64)
    far = far_apart(n_images, is_ordered=True)
    for y, x, i, j in itertools.product(range(4), range(5), range(count), range(count)):
        a, b = label[y, x, i], label[y, x, j]
        step = np.sqrt(((means[a, :, y, x] - means[b, :, y, x]) ** 2).mean() / np.exp(evidence[:, y, x].max()))
        assert price[y, x, i, j] == pytest.approx(min(abs(a - b) / far, 1) * (1 + SEAM * step) if i != j else 0, abs=1e-3)


def test_preference_counts_as_sharpness():
    images = np.stack([texture((1, 32, 32))] * 2)

    for preference, cheap in (("front", 0), ("back", 1)):
        cost = weigh(images, config=CONFIG.replaced({"preference": preference})).cost
        assert (cost[..., cheap] < cost[..., 1 - cheap]).all()


def test_an_image_that_lacks_a_pixel_of_a_cell_is_none_of_its_candidates_while_others_have_all():
    images, masks = blurred_stack(6, (48, 48)), np.ones((6, 48, 48), bool)
    best = int(weigh(images[:, :, :16, :16]).cost[0, 0].argmin())
    masks[:3, 20, 40] = False  # one cell; and all images lack another one
    masks[:, 40, 5] = False

    label, cost, _ = weigh(images, masks=masks)

    assert list(label[1, 2, cost[1, 2] < EXCLUDED]) == [3, 4, 5]
    assert cost[2, 0].max() < EXCLUDED
    assert best in label[0, 0]


def test_a_window_gives_what_the_whole_image_gives():
    images = blurred_stack(3, (96, 128), planes=3)
    whole = weigh(images)

    core = Window(32, 48, 64, 96)
    seen = core.grown(COARSE_MARGIN_PX, (96, 128))
    part = weigh(images[:, :, *seen.slices], core=core.relative_to(seen))

    for mine, its in zip(part, whole, strict=True):
        np.testing.assert_allclose(mine, its[core.in_cells(COARSE_PX).slices], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("place", [(48, 48), (63, 50)])
def test_energies_reach_as_far_as_is_stated(place):
    def pixels(planes):
        return coarse_energy(planes).repeat(COARSE_PX, axis=0).repeat(COARSE_PX, axis=1)[None]

    # a cell, and what is looked at beyond it
    assert reach_of_change(pixels, texture((1, 112, 112)), place) <= COARSE_PX + COARSE_MARGIN_PX


# --- messages ---


def problem(shape, *, n_images, count, seed=0, spread=0.01):
    generator = np.random.default_rng(seed)
    label = np.sort([[generator.permutation(n_images)[:count] for _ in range(shape[1])] for _ in range(shape[0])]).astype(np.int32)
    cost = generator.uniform(0, spread, label.shape).astype(np.float32)
    price = generator.uniform(0.5, 2, (*shape, n_images, n_images)).astype(np.float32)
    price = (price + price.swapaxes(2, 3)) / 2 * (1 - np.eye(n_images, dtype=np.float32))
    rows, columns = np.mgrid[: shape[0], : shape[1]]
    return CoarseCells(label, cost, price[rows[..., None, None], columns[..., None, None], label[..., :, None], label[..., None, :]])


def pair(cells, p, q, a, b, *, far):
    """What a border between a label at one cell and a label at the next one costs; a cell knows only its own candidates."""
    known = [
        cells.price[place][*(list(cells.label[place]).index(one) for one in (a, b))] for place in (p, q) if {a, b} <= {*cells.label[place]}
    ]
    price = np.mean(known) if known else min(abs(a - b) / far, 1)
    return 0.0 if a == b else COARSE_PX * BORDER * price


def plain_messages(cells, far):
    h, w, count = cells.label.shape
    messages = np.zeros((h, w, 4, count))
    for turn, y, x in itertools.product(range(COARSE_ROUNDS), range(h), range(w)):
        if (y + x) % 2 != turn % 2:
            continue
        total = COARSE_PX**2 * cells.cost[y, x].astype(float) + messages[y, x].sum(axis=0)
        for d, (dy, dx) in enumerate(DIRECTIONS):
            v, u = y + dy, x + dx
            if 0 <= v < h and 0 <= u < w:
                own, other = cells.label[y, x], cells.label[v, u]
                sent = [
                    min(total[i] - messages[y, x, d ^ 1, i] + pair(cells, (y, x), (v, u), own[i], b, far=far) for i in range(count))
                    for b in other
                ]
                messages[v, u, d] = np.array(sent) - min(sent)
    return messages


@pytest.mark.parametrize(("shape", "n_images", "count", "far"), [((3, 4), 2, 2, 1.0), ((2, 3), 9, 4, 2.0), ((1, 1), 3, 3, 2.0)])
def test_messages_are_the_plain_ones(shape, n_images, count, far):
    cells = problem(shape, n_images=n_images, count=count, seed=count)

    found = decide_coarsely(cells, far=far, smoothness=1.0, steps=TileSteps())

    np.testing.assert_array_equal(found.label, cells.label)
    np.testing.assert_allclose(found.messages, plain_messages(cells, far), rtol=2e-3, atol=2e-3)


def decided(cells, **options):
    coarse = decide_coarsely(cells, **{"far": 1.0, "smoothness": 1.0, "steps": TileSteps(), **options})
    beliefs = COARSE_PX**2 * cells.cost + coarse.messages.astype(np.float32).sum(axis=2)
    return np.take_along_axis(cells.label, beliefs.argmin(axis=-1)[..., None], -1)[..., 0]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("shape", "n_images"), [((1, 5), 3), ((6, 1), 2), ((2, 2), 2)])
def test_small_images_have_the_least_energy(shape, n_images, seed):
    cells = problem(shape, n_images=n_images, count=n_images, seed=seed, spread=0.03)

    def energy(labels):
        total = sum(COARSE_PX**2 * cells.cost[place][labels[place]] for place in np.ndindex(shape))
        for y, x in np.ndindex(shape):
            for q in ((y + 1, x), (y, x + 1)):
                if q[0] < shape[0] and q[1] < shape[1]:
                    total += pair(cells, (y, x), q, labels[y, x], labels[q], far=1.0)
        return total

    least = min(energy(np.reshape(labels, shape)) for labels in itertools.product(range(n_images), repeat=shape[0] * shape[1]))
    assert energy(decided(cells)) == pytest.approx(least, rel=1e-2)


def test_evidence_decides_over_hundreds_of_pixels_and_no_farther_than_is_stated():
    length = 2 * COARSE_ROUNDS
    cost = np.zeros((1, length, 2), np.float32)
    cost[0, 0] = 1, 0
    label = np.broadcast_to(np.arange(2, dtype=np.int32), cost.shape).copy()
    cells = CoarseCells(label, cost, np.broadcast_to(1 - np.eye(2, dtype=np.float32), (1, length, 2, 2)).copy())

    found = decided(cells)[0]

    assert (found[: COARSE_ROUNDS - 1] == 1).all()
    assert (found[COARSE_ROUNDS + 1 :] == 0).all()  # nothing is known here


def test_a_decision_can_be_cancelled():
    def cancel():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        decided(problem((2, 2), n_images=2, count=2), steps=TileSteps(check_cancelled=cancel))


# --- what tiles take over ---


def test_blocks_start_with_the_messages_of_their_cell():
    generator = np.random.default_rng(3)
    coarse = CoarseDecision(
        np.sort(generator.permuted(np.tile(np.arange(9, dtype=np.uint16), (2, 3, 1)), axis=-1)[..., :4]),
        generator.uniform(0, 3, (2, 3, 4, 4)).astype(np.float16),
    )
    label = np.sort(generator.permuted(np.tile(np.arange(9, dtype=np.int32), (4, 5, 1)), axis=-1)[..., :3])

    found = start_messages(coarse, label, side=BLOCK_PX, far=2.0, smoothness=1.5)

    for y, x, d, k in np.ndindex(found.shape):
        known, its = coarse.label[y // 2, x // 2].astype(int), coarse.messages[y // 2, x // 2, d].astype(float)
        expected = min(m + 1.5 * COARSE_PX * BORDER * min(abs(int(label[y, x, k]) - a) / 2, 1) for a, m in zip(known, its, strict=True)) / 2
        assert found[y, x, d, k] == pytest.approx(expected, rel=1e-4)


def test_wanted_labels_are_those_of_the_cells_of_a_window():
    label = np.arange(24, dtype=np.uint16).reshape(3, 4, 2)
    coarse = CoarseDecision(label, np.zeros((3, 4, 4, 2), np.float16))

    wanted = wanted_labels(coarse, Window(16, 0, 43, 57), BLOCK_PX)

    assert wanted.shape == (4, 8, 2)
    np.testing.assert_array_equal(wanted[::2, ::2], label[1:])
    np.testing.assert_array_equal(wanted[1, 1], label[1, 0])


@pytest.mark.parametrize(("decision", "has_one"), [({}, True), ({"effort": Effort.FAST}, False), ({"rule": RuleName.PAPER}, False)])
def test_only_the_whole_energy_has_a_coarse_decision(decision, has_one):
    assert has_coarse_decision(FusionConfig(decision=DecisionConfig(**decision))) is has_one
