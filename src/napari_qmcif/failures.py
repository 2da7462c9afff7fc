"""Errors told to a person: in words where they were foreseen, with their traceback where not."""

from __future__ import annotations

from napari.utils.notifications import notification_manager, show_error

from qmcif_engine import QmcifError

TOO_LARGE = "the images do not fit into memory; more memory or smaller images are needed: crop or reduce them first"


def describe_failure(error: Exception) -> str:
    """Return an error in words: its own where it was foreseen, its kind too where not."""
    if isinstance(error, MemoryError):
        return TOO_LARGE
    return str(error) if isinstance(error, QmcifError | OSError) else f"{type(error).__name__}: {error}"


def notify(error: Exception) -> None:
    """Show an error as napari does: in words where it was foreseen, with its traceback where not."""
    if isinstance(error, QmcifError | OSError | MemoryError):
        show_error(describe_failure(error))
    else:
        notification_manager.receive_error(type(error), error, error.__traceback__)
