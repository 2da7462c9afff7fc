"""Sparse maps describe their layer, at the cost they minimize."""

from __future__ import annotations

import numpy as np
from scipy import ndimage

from qmcif_engine.comparison.baselines.convolutional_coding import N_FILTERS, SPARSITY, code, cosine_filters, draw, split_layers

PLANE = ndimage.gaussian_filter(np.random.default_rng(2).uniform(size=(40, 36)), 1)


def go_on():
    """Nobody ends the work."""


def cost_of(maps, layer):
    return 0.5 * np.sum((draw(maps) - layer) ** 2) + SPARSITY * np.abs(maps).sum()


def test_filters_are_orthonormal_and_without_mean():
    filters = cosine_filters().reshape(N_FILTERS, -1)

    np.testing.assert_allclose(filters @ filters.T, np.eye(N_FILTERS), atol=1e-6)
    np.testing.assert_allclose(filters.sum(axis=1), 0, atol=1e-6)


def test_the_layers_add_up_and_the_base_is_the_smoother():
    base, detail = split_layers(PLANE)

    np.testing.assert_allclose(base + detail, PLANE)
    assert np.abs(np.diff(base)).sum() < np.abs(np.diff(PLANE)).sum()
    np.testing.assert_allclose(base.mean(), PLANE.mean())


def test_drawing_convolves_each_map_with_its_filter():
    maps = np.zeros((N_FILTERS, 20, 20), np.float32)
    maps[4, 5, 6] = 1.0
    drawn = draw(maps)

    np.testing.assert_allclose(drawn[5:13, 6:14], cosine_filters()[4], atol=1e-6)
    assert np.abs(drawn[13:]).max() < 1e-6


def test_maps_are_sparse_and_near_the_least_cost():
    _, detail = split_layers(PLANE)
    maps = code(detail, go_on)
    cost = cost_of(maps, detail)

    assert cost < 0.5 * np.sum(detail**2)
    assert np.count_nonzero(maps) < 0.2 * maps.size
    generator = np.random.default_rng(1)
    for _ in range(5):
        nudged = maps + 0.02 * generator.normal(size=maps.shape).astype(np.float32) * (maps != 0)
        assert cost_of(nudged, detail) > cost
