"""A matte follows the colors of the picture between what is known."""

from __future__ import annotations

import numpy as np

from qmcif_engine.comparison.baselines.morphological_gradients import solve_matte


def test_what_is_known_stays():
    known = (np.arange(24).reshape(4, 6) % 2).astype(float)

    np.testing.assert_array_equal(solve_matte(np.random.default_rng(1).random((3, 4, 6)), known, np.zeros((4, 6), bool)), known)


def test_the_matte_steps_where_the_picture_does():
    picture = np.zeros((3, 12, 20))
    picture[:, :, 11:] = 0.8
    known = np.zeros((12, 20))
    known[:, 10:] = 1
    is_unknown = np.zeros((12, 20), bool)
    is_unknown[:, 5:15] = True
    matte = solve_matte(picture, known, is_unknown)

    assert matte[:, :11].max() < 0.05
    assert matte[:, 11:].min() > 0.95


def test_a_soft_edge_of_the_picture_gives_a_soft_matte():
    ramp = np.clip((np.arange(24) - 6) / 12, 0, 1)
    picture = np.broadcast_to(ramp, (3, 10, 24)).copy()
    known = np.broadcast_to((ramp > 0.5).astype(float), (10, 24))
    is_unknown = np.broadcast_to((ramp > 0) & (ramp < 1), (10, 24))

    np.testing.assert_allclose(solve_matte(picture, known, is_unknown)[5], ramp, atol=0.03)


def test_pixels_with_nothing_known_around_them_stay_undecided():
    matte = solve_matte(np.full((3, 6, 6), 0.5), np.zeros((6, 6)), np.ones((6, 6), bool))

    np.testing.assert_allclose(matte, 0.5, atol=1e-6)
