"""Errors of this package.

Every message has three parts: what was given, what is needed, what to do. Each class also inherits the fitting builtin, so that
callers can catch it without this package.
"""

from __future__ import annotations


class QmcifError(Exception):
    """Common base of every error this package raises on purpose.

    Attributes
    ----------
    choices : tuple of str
        Where something has to be chosen first, what there is, so that a program can ask.
    """

    choices: tuple[str, ...] = ()


class InvalidConfigError(QmcifError, ValueError):
    """A setting that is unknown, of the wrong type or out of bounds."""


class InvalidImageError(QmcifError, ValueError):
    """Image arrays that cannot be fused or compared as they are."""


class ImageFileError(QmcifError, OSError):
    """An image file that cannot be read, or not without loss."""


class OutputError(QmcifError, OSError):
    """A target that cannot be written, or not without destroying something."""


class MissingExtraError(QmcifError, ImportError):
    """An optional package that the requested command needs and that is not installed."""


class ExecutionError(QmcifError, RuntimeError):
    """A failure while tiles were computed: a lost worker, a worker of another version."""


class Cancelled(QmcifError):
    """The end of a run whose cancellation was asked for."""
