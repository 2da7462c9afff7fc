"""Commands of other packages, such as that of the viewer; what they need is imported when they run.

A package contributes a command through an entry point of the group ``qmcif.commands``: a light module with a line of help in ``HELP``,
with ``add_arguments(parser)`` and with ``run(options)``, which does the heavy imports.
"""

from __future__ import annotations

from functools import partial
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, Any

from qmcif_engine.errors import MissingExtraError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

GROUP = "qmcif.commands"


def add_contributed(add: Callable[[str, str, Callable[[argparse.Namespace], None]], argparse.ArgumentParser]) -> None:
    """Add every contributed command.

    Parameters
    ----------
    add : callable
        Takes the name, the help and what carries the command out, and returns its parser.
    """
    for entry in sorted(entry_points(group=GROUP)):
        # light by agreement: it is loaded for every command, --help too
        module = entry.load()
        module.add_arguments(add(entry.name, module.HELP, partial(_run, module, entry)))


def _run(module: Any, entry: EntryPoint, options: argparse.Namespace) -> None:  # noqa: ANN401 - a module
    try:
        module.run(options)
    except ModuleNotFoundError as error:
        msg = f"qmcif {entry.name} needs {error.name}, which is not installed; install it with: pip install 'napari-qmcif[napari]'"
        raise MissingExtraError(msg) from error
