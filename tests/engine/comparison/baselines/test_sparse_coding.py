"""Codes of all patches at once, found from products of atoms, are those of the plain algorithm for each of them."""

import numpy as np
import pytest

from qmcif_engine.comparison.baselines.sparse_coding import LARGEST_RESIDUAL, cosine_dictionary, pursue, pursue_codes


def code_plainly(signal, atoms, *, most_atoms, largest_rest):
    code, chosen, residual = np.zeros(atoms.shape[1]), [], signal
    while residual @ residual > largest_rest and len(chosen) < most_atoms:
        chosen.append(int(np.abs(residual @ atoms).argmax()))
        code[chosen] = np.linalg.lstsq(atoms[:, chosen], signal, rcond=None)[0]
        residual = signal - atoms @ code
    return code


def code_all(signals, atoms, **limits):
    return pursue_codes(signals @ atoms, (signals**2).sum(axis=1), atoms.T @ atoms, **limits)


@pytest.mark.parametrize(("most_atoms", "largest_rest"), [(6, 0.0), (12, 0.5), (3, 2.0)])
def test_codes_are_those_of_least_squares_on_the_atoms_chosen(most_atoms, largest_rest):
    generator = np.random.default_rng(8)
    atoms = generator.normal(size=(16, 40))
    atoms /= np.linalg.norm(atoms, axis=0)
    signals = generator.normal(size=(25, 16))
    signals[3] = 0
    limits = {"most_atoms": most_atoms, "largest_rest": largest_rest}

    codes = code_all(signals, atoms, **limits)

    np.testing.assert_allclose(codes, [code_plainly(signal, atoms, **limits) for signal in signals], atol=1e-9)
    assert not codes[3].any()


def test_the_pursuit_ends_where_no_new_atom_is_left():
    codes = code_all(np.array([[1.0, 2.0, 3.0, 0.0]]), np.eye(4)[:, :2], most_atoms=4, largest_rest=0.0)

    np.testing.assert_allclose(codes, [[1.0, 2.0]])


def test_patches_are_described_up_to_the_residual_allowed_by_atoms_of_unit_norm_without_mean():
    atoms = cosine_dictionary()
    signals = np.random.default_rng(6).normal(0, 0.02, (30, 64))
    signals -= signals.mean(axis=1, keepdims=True)
    activity, described = pursue(signals, atoms)

    assert atoms.shape == (64, 256)
    np.testing.assert_allclose(np.linalg.norm(atoms, axis=0), 1)
    np.testing.assert_allclose(atoms[:, 1:].sum(axis=0), 0, atol=1e-12)
    assert np.linalg.norm(signals - described, axis=1).max() <= LARGEST_RESIDUAL
    assert activity.min() > 0
