"""Learn the quaternion dictionaries of the package again: ``python tools/learn_dictionary.py [-o FILE.npz]``.

K-SVD over the quaternions, reproducible to the last stored digit. The paper uses a "pretrained" dictionary and gives no recipe; this is
ours. Everything is computed in float64 with one BLAS thread, all random choices come from a fixed seed, every tie has a rule and every
phase that the mathematics leaves open is fixed. Rounding is therefore hardly amplified: training patches disturbed by one part in 1e12
move no element of an atom by more than about 1e-11, and three BLAS kernels with different orders of summation give the same atoms.

Needs scikit-image, whose wheel contains the training images. The archive is not compressed and bears a constant date, so that equal atoms
give equal bytes.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import scipy.fft
import scipy.linalg
from numpy.lib.stride_tricks import sliding_window_view
from threadpoolctl import threadpool_limits
from tqdm import tqdm

from qmcif_engine.method.dictionary import SHIPPED_PATCH_SIDES, array_name
from qmcif_engine.method.quaternion import (
    complex_adjoint,
    conjugate,
    conjugate_transpose,
    gram_matrix,
    matrix_product,
    modulus,
    real_form,
)

TRAINING_IMAGES = ("astronaut", "chelsea", "coffee")
"""Functions of `skimage.data`: public domain (NASA), CC0 (Stefan van der Walt), CC0 (Rachel Michetti).

All are PNG, so that every library decodes them to the same samples: a face and a space suit, fur, wood and porcelain.
"""

SMALLEST_CONTRAST = 4
"""Patches whose samples deviate less from their mean (root mean square color distance, gray levels of 0-255) teach only noise."""

TRAINING_SEED = 2505
"""Of the positions of the training patches; nothing else is random. The value means nothing."""

N_TRAINING_PATCHES = 6000
"""For each patch side: 60 or more to an atom, so that even rare atoms are averages over many patches. More changed little."""

TRAINING_SPARSITY = {5: 3, 8: 6, 10: 8}
"""Atoms for one patch, besides the constant one, by patch side: about as many as leave a tenth of a patch's energy."""

TRAINING_ITERATIONS = 12

ROUNDING = 1e-9
"""Relative size of what counts as rounding: far above the error of float64 sums, far below any difference that means something.

Two atoms whose correlations differ by less are tied, and a correlation that is smaller than this share of its patch is zero. Without
these two rules the last bit of a sum would decide, and would decide otherwise on another machine.
"""


def sample_patches(images, *, patch_px, n_patches, generator):
    """Draw different patches, shape (4, d, P), equally many from each image of shape (H, W, 3), leaving out the flat ones.

    Only the raw stream of the generator's bits is used: NumPy promises never to change that, unlike the methods of a generator.
    """
    share = n_patches // len(images)
    drawn = []
    for image in images:
        candidates = np.flatnonzero(_has_contrast(image, patch_px=patch_px))
        if len(candidates) < share:
            message = f"A training image has {len(candidates)} textured patches, {share} are needed: ask for fewer patches."
            raise ValueError(message)
        # sorting by random keys draws without repetition; the sort is stable for equal keys
        keys = np.asarray(generator.bit_generator.random_raw(len(candidates)))
        positions = candidates[np.argsort(keys, kind="stable")[:share]]
        windows = sliding_window_view(image, (patch_px, patch_px), axis=(0, 1))
        drawn.append(windows[np.unravel_index(positions, windows.shape[:2])])
    colors = np.concatenate(drawn).reshape(-1, 3, patch_px**2).transpose(1, 2, 0)
    return np.concatenate((np.zeros_like(colors[:1]), colors)).astype(np.float64)


def _has_contrast(image, *, patch_px):
    """Return at which positions a patch is not flat; in exact integers, so that no rounding decides."""
    windows = sliding_window_view(image.astype(np.int64), (patch_px, patch_px), axis=(0, 1))
    n_pixels = patch_px**2
    # n times the sum of squared deviations, in whole numbers
    deviation = (n_pixels * np.einsum("...ij,...ij->...", windows, windows) - windows.sum(axis=(-2, -1)) ** 2).sum(axis=2)
    return deviation >= (SMALLEST_CONTRAST * n_pixels) ** 2


def encode_patches(patches, atoms, *, sparsity):
    """Represent patches, shape (4, d, P), by at most `sparsity` atoms each, of shape (4, d, L); return the codes, shape (4, L, P).

    Notes
    -----
    Greedy solution of ``min ||y - A z||_2`` subject to ``||z||_0 <= sparsity``, the quaternion orthogonal matching pursuit of Xu, Yu,
    Xu, Zhang and Nguyen, *Vector sparse representation of color image using quaternion matrix analysis*, IEEE Transactions on Image
    Processing 24(4), 2015. With the support ``S`` so far and the residual ``r = y - A_S z_S``, each step adds
    ``arg max_l |a_l^H r|`` to ``S`` and solves ``(A_S^H A_S) z_S = A_S^H y``. The residuals are never formed:
    ``A^H r = A^H y - (A^H A) z``.

    A null atom is appended: patches that need no further atom choose it, which keeps all supports equally long.
    """
    with_null = np.concatenate((atoms, np.zeros_like(atoms[:, :, :1])), axis=2)
    adjoint = conjugate_transpose(with_null)
    gram = matrix_product(adjoint, with_null)
    targets = matrix_product(adjoint, patches)
    norms = np.sqrt(np.einsum("cdp,cdp->p", patches, patches))
    negligible = np.maximum(ROUNDING * norms, np.finfo(np.float64).tiny)  # above zero, so that a zero patch prefers the null atom
    supports = np.empty((0, patches.shape[2]), np.intp)
    correlations, codes = targets, np.zeros_like(targets)
    for _ in range(sparsity):
        strength = modulus(correlations)
        # chosen atoms are orthogonal to the residual but for rounding: never twice
        np.put_along_axis(strength, supports, 0, axis=0)
        # the null atom is the last, so it wins only where no other reaches that much
        strength[-1] = negligible
        choices = np.argmax(strength >= (1 - ROUNDING) * strength.max(axis=0), axis=0)
        supports = np.concatenate((supports, choices[None]))
        codes = _solve_on_supports(gram, targets, supports=supports)
        correlations = targets - matrix_product(gram, codes)
    return codes[:, :-1]


def _solve_on_supports(gram, targets, *, supports):
    """Solve the normal equations of all patches, each on its own support; zero elsewhere and for the null atom."""
    n_chosen, n_patches = supports.shape
    # (4, P, n, n): one small system for each patch, all solved at once
    systems = gram[:, supports.T[:, :, None], supports.T[:, None, :]]
    # the row of the null atom is zero; a one on the diagonal makes the system regular and its coefficient zero
    systems[0] += np.eye(n_chosen) * np.equal(supports.T, gram.shape[1] - 1)[:, :, None]
    right_sides = np.take_along_axis(targets, supports[None], axis=1).reshape(4 * n_chosen, n_patches)
    solutions = np.linalg.solve(real_form(systems), right_sides.T[:, :, None])
    codes = np.zeros_like(targets)
    np.put_along_axis(codes, supports[None], solutions[:, :, 0].T.reshape(4, n_chosen, n_patches), axis=1)
    return codes


def cosine_dictionary(patch_px):
    """Return the separable discrete cosine basis, shape (4, d, d), the constant atom first: where learning starts.

    Its atoms are real, hence prefer no color, and orthonormal, hence well separated.
    """
    basis = scipy.fft.dct(np.eye(patch_px), norm="ortho", axis=1)
    atoms = np.zeros((4, patch_px**2, patch_px**2))
    atoms[0] = np.kron(basis, basis)
    return atoms


def learn_dictionary(patches, initial, *, sparsity, iterations, progress=lambda: None):
    """Adapt a dictionary, shape (4, d, L), to patches so that few atoms represent each of them well; the first atom is kept.

    Notes
    -----
    Quaternion K-SVD lowers ``||Y - A Z||_F^2`` subject to ``||z_p||_0 <= sparsity`` for every column of ``Z``: a pursuit for all codes
    with ``A`` fixed, then for each atom the best rank-1 approximation of what the other atoms leave of the patches that use it (Xu et
    al. 2015).

    Departs: the first atom is fixed and learning goes on in its orthogonal complement. A real constant atom times a quaternion
    coefficient is a patch of any one color: it holds the mean exactly, treats all colors alike, and frees the other atoms from carrying
    brightness, which has by far the most energy and would otherwise rule every choice.

    One BLAS thread, because the order of summation depends on the number of threads.
    """
    fixed, atoms = initial[:, :, :1], initial[:, :, 1:]
    with threadpool_limits(limits=1):
        # orthogonal to the fixed atom, as all learned atoms then are
        varying = patches - matrix_product(fixed, matrix_product(conjugate_transpose(fixed), patches))
        for _ in range(iterations):
            atoms = update_atoms(varying, atoms, codes=encode_patches(varying, atoms, sparsity=sparsity))
            progress()
    return np.concatenate((fixed, atoms), axis=2)


def update_atoms(patches, atoms, *, codes):
    """Improve one atom after the other, each together with its own coefficients.

    Notes
    -----
    With ``P_k`` the patches that use atom ``k``, ``a_k`` and its row of ``Z`` become the best rank-1 approximation of
    ``E_k = (Y - sum_{l != k} a_l z_l)`` on ``P_k``. An atom that no patch uses takes the direction of the largest residual left.
    """
    atoms = atoms.copy()
    residuals = patches - matrix_product(atoms, codes)
    negligible = ROUNDING * modulus(patches).max(initial=0)
    for index in range(atoms.shape[2]):
        atom, row = atoms[:, :, index, None], codes[:, index, None]
        users = np.flatnonzero(row.any(axis=(0, 1)))
        if users.size:
            # what the atom itself explained is put back first: it is to be fitted anew
            unexplained = residuals[:, :, users] + matrix_product(atom, row[:, :, users])
        else:
            energies = np.einsum("cdp,cdp->p", residuals, residuals)
            # the first of several that are equal but for rounding
            users = np.flatnonzero(energies >= (1 - ROUNDING) * energies.max())[:1]
            unexplained = residuals[:, :, users]
            # rounding errors have no direction worth learning, and differ between machines
            if modulus(unexplained).max() <= negligible:
                continue
        direction, coefficients = best_rank_one(unexplained)
        # the next atom sees what this one now leaves: Gauss-Seidel, not Jacobi
        residuals[:, :, users] = unexplained - matrix_product(direction, coefficients)
        atoms[:, :, index, None] = align_phase(direction, atom)
    return atoms


def best_rank_one(matrix):
    """Return the unit column, shape (4, d, 1), and the row, shape (4, 1, n), whose product is nearest to a quaternion matrix.

    Notes
    -----
    The column is the leading left singular vector ``u``, the row ``u^H E``. ``u`` is the leading eigenvector of the small ``E E^H``. In
    the complex adjoint an eigenvector ``(v, w)`` stands for ``v - conj(w) j``; its eigenvalue occurs twice, and which vector of that
    plane is found only changes ``u`` to ``u q`` with a unit quaternion ``q`` and the row to ``conj(q)`` times itself.
    """
    half = matrix.shape[1]
    last = 2 * half - 1
    _, vectors = scipy.linalg.eigh(complex_adjoint(gram_matrix(matrix)), subset_by_index=(last, last), check_finite=False)
    first, second = vectors[:half], -vectors[half:].conj()
    column = np.stack((first.real, first.imag, second.real, second.imag))
    return column, matrix_product(conjugate_transpose(column), matrix)


def align_phase(column, reference):
    """Turn a unit column by the unit quaternion that makes its inner product with a reference real and positive.

    A singular vector is defined only up to a unit quaternion from the right, which decompositions choose by accident. Where the two are
    orthogonal no phase is better than another, and the column's first element becomes real and positive instead.
    """
    inner = matrix_product(conjugate_transpose(reference), column)
    if np.linalg.norm(inner) <= ROUNDING:
        inner = column[:, np.argmax(modulus(column) > ROUNDING), None]
    return matrix_product(column, conjugate(inner) / np.linalg.norm(inner))


def learn_shipped_dictionary(images, patch_px, *, progress=lambda: None):
    """Learn the dictionary of one patch side: the same float32 atoms on every run."""
    # seeded by the side too, so that each dictionary can be learned by itself
    generator = np.random.Generator(np.random.PCG64((TRAINING_SEED, patch_px)))
    patches = sample_patches(images, patch_px=patch_px, n_patches=N_TRAINING_PATCHES, generator=generator)
    sparsity = TRAINING_SPARSITY[patch_px]
    atoms = learn_dictionary(patches, cosine_dictionary(patch_px), sparsity=sparsity, iterations=TRAINING_ITERATIONS, progress=progress)
    return atoms.astype(np.float32)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", type=Path, default=Path("trained.npz"), help="file that must not exist (default: %(default)s)")
    output = parser.parse_args().output
    from skimage import data

    images = [getattr(data, name)() for name in TRAINING_IMAGES]
    # opened first: a place that cannot be written is found before minutes of work
    with output.open("xb") as file, tqdm(total=TRAINING_ITERATIONS * len(SHIPPED_PATCH_SIDES)) as bar:
        learned = {array_name(side): learn_shipped_dictionary(images, side, progress=bar.update) for side in SHIPPED_PATCH_SIDES}
        np.savez(file, **learned)


if __name__ == "__main__":
    main()
