"""The two steps of convolutional coding solve what they say, and no entry is forgotten."""

import numpy as np

from qmcif_engine.comparison.rivals.sparse_maps import shrink_maps, solve_spectrum

GENERATOR = np.random.default_rng(4)


def draw_complex(*shape):
    return GENERATOR.normal(size=shape) + 1j * GENERATOR.normal(size=shape)


def test_the_spectrum_solves_the_system_at_each_frequency():
    filters, wanted, target, penalty = draw_complex(5, 3, 4), draw_complex(5, 3, 4), draw_complex(3, 4), 0.7
    spectrum = wanted.copy()
    solve_spectrum(spectrum, filters, target, (np.abs(filters) ** 2).sum(axis=0), penalty)
    for y in range(3):
        for x in range(4):
            row = filters[:, y, x]
            system = np.outer(row.conj(), row) + penalty * np.eye(5)
            expected = np.linalg.solve(system, row.conj() * target[y, x] + penalty * wanted[:, y, x])
            np.testing.assert_allclose(spectrum[:, y, x], expected)


def test_maps_are_shrunk_and_the_multiplier_keeps_the_rest():
    smooth, maps, multiplier = (GENERATOR.normal(size=(3, 4, 5)) for _ in range(3))
    described, before, gathered = smooth.copy(), maps.copy(), multiplier.copy()
    apart, change, *sizes = shrink_maps(smooth, maps, multiplier, 0.4, 1.8)
    relaxed = 1.8 * described - 0.8 * before + gathered
    expected = np.sign(relaxed) * np.maximum(np.abs(relaxed) - 0.4, 0)

    np.testing.assert_allclose(maps, expected)
    np.testing.assert_allclose(multiplier, relaxed - expected, atol=1e-12)
    np.testing.assert_allclose(smooth, maps - multiplier, atol=1e-12)
    np.testing.assert_allclose([apart, change], [np.sum((described - expected) ** 2), np.sum((expected - before) ** 2)])
    np.testing.assert_allclose(sizes, [np.sum(described**2), np.sum(expected**2)])
