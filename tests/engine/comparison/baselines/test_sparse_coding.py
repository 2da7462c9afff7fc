"""Matching pursuit in steps for all patches at once is matching pursuit for each of them."""

from __future__ import annotations

import numpy as np

from qmcif_engine.comparison.baselines.sparse_coding import LARGEST_RESIDUAL, cosine_dictionary, pursue


def code_alone(signal, atoms):
    """The plain algorithm: the best atom, then all codes anew by least squares."""
    chosen, residual, code = [], signal, np.zeros(0)
    while np.linalg.norm(residual) > LARGEST_RESIDUAL:
        chosen.append(int(np.abs(residual @ atoms).argmax()))
        code = np.linalg.lstsq(atoms[:, chosen], signal, rcond=None)[0]
        residual = signal - atoms[:, chosen] @ code
    return np.abs(code).sum(), signal - residual


def test_atoms_have_unit_norm_and_all_but_the_first_of_each_axis_no_mean():
    atoms = cosine_dictionary()

    assert atoms.shape == (64, 256)
    np.testing.assert_allclose(np.linalg.norm(atoms, axis=0), 1)
    np.testing.assert_allclose(atoms[:, 1:].sum(axis=0), 0, atol=1e-12)


def test_all_signals_are_coded_as_each_alone():
    atoms = cosine_dictionary()
    generator = np.random.default_rng(5)
    codes = np.where(generator.random((256, 20)) < 0.02, generator.normal(0, 0.3, (256, 20)), 0)
    signals = (atoms @ codes).T + generator.normal(0, 0.002, (20, 64))
    signals[3] = 0
    activity, described = pursue(signals, atoms)
    for signal, found, near in zip(signals, activity, described, strict=True):
        expected, expected_near = code_alone(signal, atoms)
        np.testing.assert_allclose(found, expected, rtol=1e-8)
        np.testing.assert_allclose(near, expected_near, atol=1e-9)


def test_a_signal_is_described_up_to_the_residual_allowed():
    signals = np.random.default_rng(6).normal(0, 0.02, (30, 64))
    signals -= signals.mean(axis=1, keepdims=True)
    _, described = pursue(signals, cosine_dictionary())

    assert np.linalg.norm(signals - described, axis=1).max() <= LARGEST_RESIDUAL
