"""The stack that a command names, and the guide that decides for it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from qmcif_engine.cli.options import Request
from qmcif_engine.errors import InvalidConfigError, InvalidImageError
from qmcif_engine.io.input.open import open_stack
from qmcif_engine.io.remote_path import Location, RemotePath

if TYPE_CHECKING:
    from qmcif_engine.io.input.file_stack import FileStack
    from qmcif_engine.stack.stack import Stack


def open_inputs(options: Request) -> FileStack:
    """Open the stack that the options name."""
    return _open(options.images, options, time=options.time or 0, channels=options.channels)


def open_guide(stack: FileStack, options: Request) -> FileStack | None:
    """Open the guide that the options name, if any, once it is known to fit the stack.

    What the options leave out of the stack, reorder or choose, they do to the guide; a guide of one channel needs no choice.
    """
    if options.guide is None:
        return None
    if options.slab is not None:
        msg = "--guide was given with --slab; slabs are decided on by themselves, without a guide: leave one of the two out"
        raise InvalidConfigError(msg)
    # loads NumPy, which `qmcif --help` does without
    from qmcif_engine.stack.deciding import join_guide

    # tried with its first channel, which a guide of one channel is; with several the options choose
    guide = _open(options.guide, options, channels=[1])
    if guide.companions is not None:
        guide = _open(options.guide, options, channels=options.channels)
    if guide.n_times != stack.n_times:
        msg = (
            f"the guide has {guide.n_times} time points and the stack has {stack.n_times}; as many are needed: "
            "make the guide from the whole of this stack"
        )
        raise InvalidImageError(msg)
    join_guide(guide, stack)
    return guide


def prepare_guide(guide: FileStack | None, prepared: Stack, options: Request) -> Stack | None:
    """Return a guide moved as its stack was, and with its own images evened out where that is asked for."""
    if guide is None:
        return None
    from qmcif_engine.stack.preparation import prepare_stack

    guide.expect_all()
    reference = None if options.reference is None else options.reference - 1
    return prepare_stack(guide, reference=reference, transforms=prepared.transforms, even_exposure=options.even_exposure)


def _open(inputs: Sequence[Location], options: Request, *, channels: Sequence[int | str] | None, time: int = 0) -> FileStack:
    return open_stack(
        [path if isinstance(path, RemotePath) else str(path) for path in inputs],
        exclude=options.exclude,
        order=options.order,
        image=options.image,
        axes=options.axes,
        time=time,
        channels=channels,
        scratch_folder=options.scratch,
        strict_chunks=options.strict_chunks,
    )
