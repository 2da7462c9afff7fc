import numpy as np
import pytest

from qmcif_engine.stack.alignment.fitting import compare_fits, fit_movement
from qmcif_engine.stack.alignment.matching import Matches
from qmcif_engine.stack.alignment.transforms import TransformModel, apply_matrix

SHAPE = (400, 600)
TRUE = {
    TransformModel.TRANSLATION: np.array([(1, 0, 1.5), (0, 1, -2.25), (0, 0, 1)]),
    TransformModel.SIMILARITY: np.array([(1.002, -0.003, 1.5), (0.003, 1.002, -2.25), (0, 0, 1)]),
    TransformModel.AFFINE: np.array([(1.002, -0.001, 1.5), (0.003, 0.999, -2.25), (0, 0, 1)]),
    TransformModel.HOMOGRAPHY: np.array([(1.002, -0.001, 1.5), (0.003, 0.999, -2.25), (8e-6, -5e-6, 1)]),
}


def make_matches(matrix, *, n_wrong=0, n_windows=60):
    generator = np.random.default_rng(2)
    position = generator.uniform((40, 40), (560, 360), (n_windows, 2))
    shift = apply_matrix(matrix, position) - position
    shift[:n_wrong] += generator.uniform(2, 6, (n_wrong, 2))
    return Matches(position, shift, np.tile(np.eye(2), (n_windows, 1, 1)))


@pytest.mark.parametrize("model", TRUE)
@pytest.mark.parametrize("n_wrong", [0, 20])
def test_the_movement_is_found_though_some_windows_are_wrong(model, n_wrong):
    fit = fit_movement(make_matches(TRUE[model], n_wrong=n_wrong), model, shape=SHAPE)
    corners = np.array([(0.0, 0.0), (599.0, 0.0), (0.0, 399.0), (599.0, 399.0)])

    np.testing.assert_allclose(apply_matrix(fit.matrix, corners), apply_matrix(TRUE[model], corners), atol=0.02)
    assert not fit.agrees[:n_wrong].any()
    assert fit.agrees[n_wrong:].all()


def test_a_window_counts_along_the_direction_it_can_tell():
    matches = make_matches(np.eye(3), n_windows=2)
    # the first window knows x and is wrong about y, the second the other way around
    matches = matches._replace(
        shift=np.array([(0.2, -0.1), (-0.1, 0.2)]), information=np.array([[(1, 0), (0, 1e-6)], [(1e-6, 0), (0, 1)]], float)
    )

    fit = fit_movement(matches, TransformModel.TRANSLATION, shape=SHAPE)

    np.testing.assert_allclose(fit.matrix[:2, 2], (0.2, 0.2), atol=1e-3)


@pytest.mark.parametrize("model", [TransformModel.AFFINE, TransformModel.HOMOGRAPHY])
def test_windows_in_one_spot_do_not_invent_growth(model):
    matches = make_matches(TRUE[TransformModel.TRANSLATION], n_windows=12)
    matches = matches._replace(position=np.full((12, 2), 50.0))

    fit = fit_movement(matches, model, shape=SHAPE)

    np.testing.assert_allclose(fit.matrix, TRUE[TransformModel.TRANSLATION], atol=0.01)


def test_the_error_expected_at_the_corners_grows_where_windows_lie_close_together():
    matches = make_matches(np.eye(3))
    near = matches._replace(position=matches.position / 4)
    spread, close = (fit_movement(chosen, TransformModel.HOMOGRAPHY, shape=SHAPE).corner_error_px for chosen in (matches, near))

    assert close > 20 * spread


def test_perspective_is_not_mistaken_for_growth():
    matches = make_matches(TRUE[TransformModel.HOMOGRAPHY])
    affine, homography = (fit_movement(matches, model, shape=SHAPE) for model in (TransformModel.AFFINE, TransformModel.HOMOGRAPHY))

    assert homography.support > 0.999 > affine.support


def test_a_richer_model_explains_more_only_where_there_is_something_to_explain():
    generator = np.random.default_rng(4)
    gains = {}
    for model in (TransformModel.SIMILARITY, TransformModel.HOMOGRAPHY):
        matches = make_matches(TRUE[model])
        noisy = matches._replace(shift=matches.shift + generator.normal(0, 0.05, matches.shift.shape))
        gains[model] = compare_fits(noisy, TransformModel.SIMILARITY, TransformModel.HOMOGRAPHY, shape=SHAPE)

    assert gains[TransformModel.SIMILARITY] < 5
    assert gains[TransformModel.HOMOGRAPHY] > 20


def test_too_few_windows_explain_nothing():
    matches = make_matches(TRUE[TransformModel.HOMOGRAPHY], n_windows=4)

    assert compare_fits(matches, TransformModel.SIMILARITY, TransformModel.HOMOGRAPHY, shape=SHAPE) == 0
