"""The compiled solve without the low-rank term against the plain updates, one after the other."""

from dataclasses import replace

import numpy as np
import pytest

from qmcif_engine.config.fusion_config import DecompositionConfig, Precision
from qmcif_engine.method.decomposition.image_solve import ImageSolve, norm
from qmcif_engine.method.decomposition.solver import initialize, raise_multipliers, sweep

FULL_SCALE = 255
SINGLE_TOLERANCE = 50 * float(np.finfo(np.float32).eps) * FULL_SCALE
COMPILED_TOLERANCE = 4 * SINGLE_TOLERANCE
"""In gray levels: each solve by relaxation stops a few roundings early. Far below the hundredth that decisions could notice."""


def layers_of(image, config):
    """Base, detail and noise after all iterations."""
    solve, penalty = ImageSolve(image, config), config.penalty
    for _ in range(config.iterations):
        solve.advance(penalty)
        penalty = min(config.penalty_cap, penalty * config.penalty_growth)
    return solve.layers()[:3]


@pytest.mark.parametrize("iterations", [1, 3, 12])
@pytest.mark.parametrize("shape", [(40, 65), (35, 30), (5, 5)])
@pytest.mark.parametrize("changes", [{}, {"noise_weight": 0.0}, {"base_smoothness": 0.0}, {"detail_sparsity": 4.0, "penalty_growth": 2.0}])
def test_compiled_solve_agrees_with_the_plain_updates_in_single_precision(textured_image, shape, iterations, changes):
    image, config = textured_image(shape), DecompositionConfig(base_patch_px=5, iterations=iterations, **changes)
    problem, state = initialize(image, replace(config, precision=Precision.DOUBLE))
    penalty = config.penalty
    for _ in range(iterations):
        state, _ = raise_multipliers(sweep(state, problem, penalty=penalty), problem, penalty=penalty)
        penalty *= config.penalty_growth

    for layer, expected in zip(layers_of(image, config), (state.base, state.detail, state.noise), strict=True):
        np.testing.assert_allclose(layer, expected, rtol=0, atol=COMPILED_TOLERANCE)


def test_measures_are_those_of_the_plain_updates(textured_image):
    image, config = textured_image((20, 25)), DecompositionConfig(base_patch_px=5, precision=Precision.DOUBLE)
    solve = ImageSolve(image, config)
    problem, state = initialize(image, config)
    for penalty in (0.2, 0.3, 0.5):
        before = state
        state, sizes = raise_multipliers(sweep(state, problem, penalty=penalty), problem, penalty=penalty)
        change = np.sqrt(np.sum((state.detail - before.detail) ** 2, axis=0)).max() / FULL_SCALE

        measures = solve.advance_measured(penalty)

        assert measures == pytest.approx((change, *sizes[:2]), rel=1e-9)


def test_image_whose_sides_are_no_multiples_of_a_patch_is_treated_alike_at_all_borders(textured_image):
    """Turning the picture upside down turns the layers; padding at one side would not."""
    image, config = textured_image((23, 29)), DecompositionConfig(precision=Precision.DOUBLE)

    for layer, turned in zip(layers_of(image, config), layers_of(image[:, ::-1, ::-1], config), strict=True):
        np.testing.assert_allclose(turned[:, ::-1, ::-1], layer, rtol=0, atol=1e-9)


def test_norm_is_summed_in_double_precision():
    values = np.full((2, 5000), 4097.0, np.float32)

    assert norm(values) == pytest.approx(4097 * 100, rel=1e-12)
