"""Learning of the shipped quaternion dictionaries: K-SVD over the quaternions, reproducible to the last stored digit.

The paper uses a "pretrained" dictionary and gives no recipe; this is ours. Everything is computed in float64 with one BLAS thread,
all random choices come from a fixed seed, every tie has a rule and every phase that the mathematics leaves open is fixed. Rounding is
therefore hardly amplified: training patches disturbed by one part in 1e12 move no element of an atom by more than about 1e-11, and three
BLAS kernels with different orders of summation give the same float32 atoms.
"""

from __future__ import annotations

import logging
import os
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import scipy.fft
import scipy.linalg

from qmcif_engine.compiled import single_thread
from qmcif_engine.errors import OutputError
from qmcif_engine.method.dictionary import SHIPPED_PATCH_SIDES, array_name
from qmcif_engine.method.dictionary.pursuit import ROUNDING, encode_patches
from qmcif_engine.method.dictionary.training import load_training_images, sample_patches
from qmcif_engine.method.quaternion import complex_adjoint, conjugate, conjugate_transpose, gram_matrix, matrix_product, modulus

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from qmcif_engine.arrays import FloatArray

logger = logging.getLogger(__name__)

TRAINING_SEED = 2505
"""Of the positions of the training patches; nothing else is random. The value means nothing."""

N_TRAINING_PATCHES = 6000
"""For each patch side: 60 or more to an atom, so that even rare atoms are averages over many patches. More changed little."""

TRAINING_SPARSITY = {5: 3, 8: 6, 10: 8}
"""Atoms for one patch, besides the constant one, by patch side: about as many as leave a tenth of a patch's energy."""

TRAINING_ITERATIONS = 12
"""Sweeps over all atoms: the error on images not learned from has all but settled."""


def cosine_dictionary(patch_px: int) -> FloatArray:
    """Return the separable discrete cosine basis, the constant atom first: where learning starts.

    Its atoms are real, hence prefer no color, and orthonormal, hence well separated; and a start that is not drawn needs no seed.

    Parameters
    ----------
    patch_px : int

    Returns
    -------
    ndarray of float64, shape (4, d, d)
        ``d = patch_px**2``; rows in the row-major order of a patch.
    """
    basis = scipy.fft.dct(np.eye(patch_px), norm="ortho", axis=1)
    atoms = np.zeros((4, patch_px**2, patch_px**2))
    # products of a vertical and a horizontal cosine; the first is constant
    atoms[0] = np.kron(basis, basis)
    return atoms


def learn_dictionary(
    patches: FloatArray,
    initial: FloatArray,
    *,
    sparsity: int,
    iterations: int,
    progress: Callable[[int, int], None] | None = None,
) -> FloatArray:
    """Adapt a dictionary to patches so that few atoms represent each of them well; the first atom is kept.

    Parameters
    ----------
    patches : ndarray of float64, shape (4, d, P)
    initial : ndarray of float64, shape (4, d, L)
        Atoms of unit norm to start from. The first is to be the constant ``1/sqrt(d)``, as in `cosine_dictionary`.
    sparsity : int
        Atoms for one patch, not counting the first, which every patch may use.
    iterations : int
    progress : callable, optional
        Called after each iteration with the number done and the number in all.

    Returns
    -------
    ndarray of float64, shape (4, d, L)

    Notes
    -----
    Quaternion K-SVD lowers ``||Y - A Z||_F^2`` subject to ``||z_p||_0 <= sparsity`` for every column of ``Z``: a pursuit for all codes
    with ``A`` fixed, then for each atom the best rank-1 approximation of what the other atoms leave of the patches that use it (Xu,
    Yu, Xu, Zhang and Nguyen, *Vector sparse representation of color image using quaternion matrix analysis*, IEEE Transactions on
    Image Processing 24(4), 2015).

    Departs: the first atom is fixed and learning goes on in its orthogonal complement. A real constant atom times a quaternion
    coefficient is a patch of any one color: it holds the mean exactly, treats all colors alike, and frees the other atoms from carrying
    brightness, which has by far the most energy and would otherwise rule every choice.

    One BLAS thread, because the order of summation depends on the number of threads.
    """
    fixed, atoms = initial[:, :, :1], initial[:, :, 1:]
    with single_thread():
        # orthogonal to the fixed atom, as all learned atoms then are
        varying = patches - matrix_product(fixed, matrix_product(conjugate_transpose(fixed), patches))
        for iteration in range(iterations):
            codes = encode_patches(varying, atoms, sparsity=sparsity)
            atoms = update_atoms(varying, atoms, codes=codes)
            if progress is not None:
                progress(iteration + 1, iterations)
    return np.concatenate((fixed, atoms), axis=2)


def update_atoms(patches: FloatArray, atoms: FloatArray, *, codes: FloatArray) -> FloatArray:
    """Improve one atom after the other, each together with its own coefficients.

    Parameters
    ----------
    patches : ndarray of float64, shape (4, d, P)
    atoms : ndarray of float64, shape (4, d, L)
    codes : ndarray of float64, shape (4, L, P)
        Where they are zero they stay zero.

    Returns
    -------
    ndarray of float64, shape (4, d, L)

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
            users = _worst_represented(residuals)
            unexplained = residuals[:, :, users]
            # rounding errors have no direction worth learning, and differ between machines
            if modulus(unexplained).max() <= negligible:
                continue
        direction, coefficients = best_rank_one(unexplained)
        # the next atom sees what this one now leaves: Gauss-Seidel, not Jacobi
        residuals[:, :, users] = unexplained - matrix_product(direction, coefficients)
        atoms[:, :, index, None] = align_phase(direction, atom)
    return atoms


def _worst_represented(residuals: FloatArray) -> NDArray[np.intp]:
    """Return the position, shape (1,), of the patch with the largest residual: the first where several are equal but for rounding."""
    energies = np.einsum("cdp,cdp->p", residuals, residuals)
    return np.flatnonzero(energies >= (1 - ROUNDING) * energies.max())[:1]


def best_rank_one(matrix: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the unit column and the row whose product is nearest to a quaternion matrix.

    Parameters
    ----------
    matrix : ndarray of float64, shape (4, d, n)

    Returns
    -------
    column : ndarray of float64, shape (4, d, 1)
    row : ndarray of float64, shape (4, 1, n)

    Notes
    -----
    The column is the leading left singular vector ``u``, the row ``u^H E``: nothing of rank 1 is nearer in the Frobenius norm. ``u`` is
    the leading eigenvector of the small ``E E^H``. In the complex adjoint an eigenvector ``(v, w)`` stands for ``v - conj(w) j``; its
    eigenvalue occurs twice, and which vector of that plane is found only changes ``u`` to ``u q`` with a unit quaternion ``q`` and the
    row to ``conj(q)`` times itself.
    """
    half = matrix.shape[1]
    last = 2 * half - 1
    # of d x d, not of d x n: the patches that use an atom are many more than their samples
    _, vectors = scipy.linalg.eigh(complex_adjoint(gram_matrix(matrix)), subset_by_index=(last, last), check_finite=False)
    first, second = vectors[:half], -vectors[half:].conj()
    column = np.stack((first.real, first.imag, second.real, second.imag))
    return column, matrix_product(conjugate_transpose(column), matrix)


def align_phase(column: FloatArray, reference: FloatArray) -> FloatArray:
    """Turn a column by the unit quaternion that makes its inner product with a reference real and positive.

    A singular vector is defined only up to a unit quaternion from the right, which decompositions choose by accident. Where the two are
    orthogonal no phase is better than another, and the column's first element becomes real and positive instead.

    Parameters
    ----------
    column, reference : ndarray of float64, shape (4, d, 1)
        Of unit norm.

    Returns
    -------
    ndarray of float64, shape (4, d, 1)
    """
    inner = matrix_product(conjugate_transpose(reference), column)
    length = float(np.linalg.norm(inner))
    if length <= ROUNDING:
        inner = column[:, np.argmax(modulus(column) > ROUNDING), None]
        length = float(np.linalg.norm(inner))
    return matrix_product(column, conjugate(inner) / length)


def learn_shipped_dictionaries(*, progress: Callable[[int, int], None] | None = None) -> dict[str, NDArray[np.float32]]:
    """Learn all dictionaries of the package again, from the images inside the installed scikit-image.

    Parameters
    ----------
    progress : callable, optional
        Called after each iteration with the number done and the number in all.

    Returns
    -------
    dict of str to ndarray of float32, shape (4, d, L)
        Array name to atoms, ready for `save_dictionaries`: the same bytes on the same machine and versions.

    Raises
    ------
    MissingExtraError
        If scikit-image is not installed.
    """
    images = load_training_images()
    steps = count(1)

    def report(_done: int, iterations: int) -> None:
        if progress is not None:
            progress(next(steps), iterations * len(SHIPPED_PATCH_SIDES))

    learned = {}
    for patch_px in SHIPPED_PATCH_SIDES:
        logger.info("Learning %d atoms for patches of %d px", patch_px**2, patch_px)
        # seeded by the side too, so that each dictionary can be learned by itself
        generator = np.random.Generator(np.random.PCG64((TRAINING_SEED, patch_px)))
        atoms = learn_dictionary(
            sample_patches(images, patch_px=patch_px, n_patches=N_TRAINING_PATCHES, generator=generator),
            cosine_dictionary(patch_px),
            sparsity=TRAINING_SPARSITY[patch_px],
            iterations=TRAINING_ITERATIONS,
            progress=report,
        )
        learned[array_name(patch_px)] = atoms.astype(np.float32)
    return learned


def save_dictionaries(path: str | Path, atoms: Mapping[str, FloatArray], *, overwrite: bool = False) -> None:
    """Write dictionaries to one ``.npz`` file, whole or not at all.

    Parameters
    ----------
    path : str or pathlib.Path
    atoms : mapping of str to ndarray of float, shape (4, d, L)
    overwrite : bool, optional
        Replace a file of that name.

    Raises
    ------
    OutputError
        If the file exists and may not be replaced, or cannot be written.

    Notes
    -----
    The archive is not compressed and bears a constant date, so that equal atoms give equal bytes.
    """
    path = Path(path)
    if path.exists() and not overwrite:
        message = f"{path} exists already: give another path or allow it to be overwritten."
        raise OutputError(message)
    try:
        _write_whole(path, atoms)
    except OSError as error:
        message = f"{path} cannot be written ({error.strerror or error}): a writable directory is needed; choose another path."
        raise OutputError(message) from error


def _write_whole(path: Path, atoms: Mapping[str, FloatArray]) -> None:
    """Write beside the target and rename, so that no reader ever meets half a file."""
    # with the process id, so that two processes do not write one file
    partial = path.with_name(f".{path.name}.{os.getpid()}.part")
    partial.touch()
    try:
        with partial.open("wb") as file:
            np.savez(file, **atoms)  # type: ignore[arg-type]  # the stub takes any keyword for `allow_pickle`
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
