"""Groups of similar base patches."""

from __future__ import annotations

import threading
import warnings
from typing import TYPE_CHECKING

import numpy as np

from qmcif_engine.kernels.single_thread import single_thread

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qmcif_engine.arrays import FloatArray

LLOYD_ITERATIONS = 20
"""Groups need not be optimal, only alike; more iterations changed no decision we measured."""

_fitting = threading.Lock()
"""Python's warning filters belong to the process; two threads that change them at once would leave them changed."""


def group_patches(patches: FloatArray, *, n_groups: int, seed: int) -> tuple[NDArray[np.intp], ...]:
    """Return the column numbers of each group of similar patches, found by k-means.

    Parameters
    ----------
    patches : ndarray of float, shape (rows, P)
        One patch per column.
    n_groups : int
        ``K``; fewer where there are fewer distinct patches.
    seed : int
        Seed of the k-means initialization.

    Returns
    -------
    tuple of ndarray of int
        Non-empty groups that together name every column once.

    Notes
    -----
    The groups ``R(B)_k`` of [QMCIF, Eq. (3)], formed once from the initial base layer: regrouping would change the problem and void the
    descent of its Lagrangian. One OpenMP thread, because the sums of several would depend on their number.
    """
    # a second of import time that most settings never need
    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning

    # scikit-learn wants one sample per row
    columns = np.ascontiguousarray(patches.T)
    model = KMeans(min(n_groups, len(columns)), n_init=1, max_iter=LLOYD_ITERATIONS, random_state=seed)
    with _fitting, single_thread(), warnings.catch_warnings():
        # fewer distinct patches than groups are no fault: flat areas have them
        warnings.simplefilter("ignore", ConvergenceWarning)
        labels = model.fit(columns).labels_
    groups = (np.flatnonzero(labels == label) for label in range(model.n_clusters))
    # fewer distinct patches than groups leave some of them empty
    return tuple(members for members in groups if len(members))
