"""Linear algebra and image filters on one thread, so that the order of their sums, and with it the last byte, is always the same."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from threadpoolctl import LibController, OpenBLASController, ThreadpoolController

from qmcif_engine.stack.alignment.opencv import one_opencv_thread

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_lock = threading.Lock()
_users = 0
_before: dict[str, tuple[LibController, int]] = {}
"""The libraries whose number of threads belongs to the process, by path, with the number that the first user found."""


@contextmanager
def single_thread() -> Iterator[None]:
    """Limit BLAS, OpenMP and OpenCV to one thread while any caller is inside; callers may be in several threads.

    Some libraries keep a number for each thread: every caller sets and restores its own. Others have one number for the process, and
    callers may overlap: the first one in sets it, and the last one out restores what was before.
    """
    libraries = ThreadpoolController().lib_controllers
    # looked for each time: libraries may have been loaded since
    own = [(library, library.num_threads) for library in libraries if _has_a_number_for_each_thread(library)]
    _limit_shared([library for library in libraries if not _has_a_number_for_each_thread(library)])
    try:
        for library, _ in own:
            library.set_num_threads(1)
        with one_opencv_thread():
            yield
    finally:
        for library, n_threads in own:
            library.set_num_threads(n_threads)
        _release_shared()


def _has_a_number_for_each_thread(library: LibController) -> bool:
    is_openblas_on_openmp = library.internal_api == "openblas" and library.threading_layer == "openmp"
    return library.internal_api in ("openmp", "mkl") or is_openblas_on_openmp


def _limit_shared(libraries: Sequence[LibController]) -> None:
    global _users
    with _lock:
        _users += 1
        _take_control()
        for library in libraries:
            # only the first user finds what the process had; later ones find our 1
            _before.setdefault(library.filepath, (library, library.num_threads))
            library.set_num_threads(1)


def _release_shared() -> None:
    global _users
    with _lock:
        _users -= 1
        if _users:
            return
        _take_control()
        for library, n_threads in _before.values():
            library.set_num_threads(n_threads)
        _before.clear()
        OpenBLASController.clear_controlling_thread()


def _take_control() -> None:
    """Make this thread set the number of threads of OpenBLAS.

    To threadpoolctl the first thread that sets it is in control for as long as it lives, and it ignores all others. That thread may be
    one of Dask's, which live on idle, or one that knows nothing of us.
    """
    OpenBLASController.clear_controlling_thread(force=True)
