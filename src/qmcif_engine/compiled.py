"""Inner loops compiled to machine code on their first call and kept for the next process, and libraries kept to one thread."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from typing import Any, Self, TypeVar

import cv2
import numba
from numba.core.event import Event, Listener, install_listener
from threadpoolctl import LibController, OpenBLASController, ThreadpoolController

_Function = TypeVar("_Function", bound=Callable[..., Any])

without_cache: list[str] = []
"""Names of functions whose code can be stored nowhere: they are compiled in every process."""


def compiled(function: _Function) -> _Function:
    """Compile a function without the interpreter lock, and store the code beside it or in the user's cache where one can be written.

    Divisions follow NumPy (no check for zero), and no operation is reordered: the same input gives the same bytes.
    """
    kernel: Any = numba.njit(function, nogil=True, error_model="numpy")
    try:
        kernel.enable_caching()
    except RuntimeError:  # no folder can be written
        without_cache.append(function.__name__)
    # numba's own guard against errors of the file system: a full disk costs the stored code and not the run
    kernel._cache._guard_against_spurious_io_errors = partial(suppress, OSError)
    result: _Function = kernel
    return result


class CompilationListener(Listener):
    """Context that calls back whenever a function begins to be compiled, in the thread that compiles it.

    That is so in the first run after an installation; later ones load what was stored.

    Parameters
    ----------
    callback : callable
    """

    def __init__(self, callback: Callable[[], None]) -> None:
        self._callback = callback
        self._installed = ExitStack()

    def __enter__(self) -> Self:
        """Begin to listen."""
        self._installed.enter_context(install_listener("numba:compile", self))
        return self

    def __exit__(self, *error: object) -> None:
        """Stop."""
        self._installed.close()

    def on_start(self, event: Event) -> None:
        """Pass on a beginning; numba calls this."""
        del event
        self._callback()

    def on_end(self, event: Event) -> None:
        """Do nothing; numba calls this."""
        del event


class _OpenCV:
    """OpenCV, described as threadpoolctl describes other libraries."""

    filepath, internal_api, threading_layer = "cv2", "opencv", ""

    @property
    def num_threads(self) -> int:
        return cv2.getNumThreads()

    def set_num_threads(self, n_threads: int) -> None:
        cv2.setNumThreads(n_threads)


_lock = threading.Lock()
_users = 0
_before: dict[str, tuple[LibController | _OpenCV, int]] = {}
"""The libraries whose number of threads belongs to the process, by path, with the number that the first user found."""


@contextmanager
def single_thread() -> Iterator[None]:
    """Limit BLAS, OpenMP and OpenCV to one thread while any caller is inside; callers may be in several threads.

    The order of sums, and with it the last byte, is then always the same.

    Some libraries keep a number for each thread: every caller sets and restores its own. Others have one number for the process, and
    callers may overlap: the first one in sets it, and the last one out restores what was before.
    """
    global _users
    own = []
    with _lock:
        _users += 1
        _take_control()
        # looked for each time: libraries may have been loaded since
        for library in (*ThreadpoolController().lib_controllers, _OpenCV()):
            if _has_a_number_for_each_thread(library):
                own.append((library, library.num_threads))
            else:  # only the first user finds what the process had; later ones find our 1
                _before.setdefault(library.filepath, (library, library.num_threads))
            library.set_num_threads(1)
    try:
        yield
    finally:
        with _lock:
            _users -= 1
            _take_control()
            for library, n_threads in (*own, *(() if _users else _before.values())):
                library.set_num_threads(n_threads)
            if not _users:
                _before.clear()
                OpenBLASController.clear_controlling_thread()


def _has_a_number_for_each_thread(library: LibController | _OpenCV) -> bool:
    is_openblas_on_openmp = library.internal_api == "openblas" and library.threading_layer == "openmp"
    return library.internal_api in ("openmp", "mkl") or is_openblas_on_openmp


def _take_control() -> None:
    """Make this thread set the number of threads of OpenBLAS.

    To threadpoolctl the first thread that sets it is in control for as long as it lives, and it ignores all others. That thread may be
    one of Dask's, which live on idle, or one that knows nothing of us.
    """
    OpenBLASController.clear_controlling_thread(force=True)
