"""Codes found from products of atoms are those of the plain algorithm, which looks at the signal again and again."""

import numpy as np
import pytest

from qmcif_engine.comparison.baselines.sparse_coding import pursue_codes


def draw_atoms(generator, *, samples, n_atoms):
    atoms = generator.normal(size=(samples, n_atoms))
    return atoms / np.linalg.norm(atoms, axis=0)


def coded(signals, atoms, *, most_atoms, largest_rest):
    return pursue_codes(signals @ atoms, (signals**2).sum(axis=1), np.ascontiguousarray(atoms.T @ atoms), most_atoms=most_atoms, largest_rest=largest_rest)


def coded_plainly(signal, atoms, *, most_atoms, largest_rest):
    code, chosen, residual = np.zeros(atoms.shape[1]), [], signal
    while residual @ residual > largest_rest and len(chosen) < most_atoms:
        chosen.append(int(np.abs(residual @ atoms).argmax()))
        weights = np.linalg.lstsq(atoms[:, chosen], signal, rcond=None)[0]
        residual = signal - atoms[:, chosen] @ weights
        code[:] = 0
        code[chosen] = weights
    return code


@pytest.mark.parametrize(("most_atoms", "largest_rest"), [(6, 0.0), (12, 0.5), (3, 2.0)])
def test_codes_are_those_of_least_squares_on_the_atoms_chosen(most_atoms, largest_rest):
    generator = np.random.default_rng(8)
    atoms = draw_atoms(generator, samples=16, n_atoms=40)
    signals = generator.normal(size=(25, 16))
    codes = coded(signals, atoms, most_atoms=most_atoms, largest_rest=largest_rest)
    for code, signal in zip(codes, signals, strict=True):
        expected = coded_plainly(signal, atoms, most_atoms=most_atoms, largest_rest=largest_rest)
        np.testing.assert_allclose(code, expected, atol=1e-9)


def test_a_signal_that_needs_no_atom_has_none():
    atoms = draw_atoms(np.random.default_rng(1), samples=8, n_atoms=12)

    assert not coded(np.zeros((2, 8)), atoms, most_atoms=4, largest_rest=0.0).any()


def test_the_pursuit_ends_where_no_new_atom_is_left():
    atoms = np.eye(4)[:, :2]
    signals = np.array([[1.0, 2.0, 3.0, 0.0]])

    np.testing.assert_allclose(coded(signals, atoms, most_atoms=4, largest_rest=0.0), [[1.0, 2.0]])
