"""Windows of all images of a stack, each read from its source once."""

from __future__ import annotations

from functools import partial

from qmcif_engine.arrays import SampleArray
from qmcif_engine.stack.samples import check_finite
from qmcif_engine.stack.spilling import SpilledArrays
from qmcif_engine.stack.stack import Stack
from qmcif_engine.stack.window import Window

SAMPLES_IN_MEMORY_BYTES = 48 * 2**20
"""Windows of more images than this holds wait in a temporary file, unless a run can spare more: rules read each several times."""


def hold_window(stack: Stack, window: Window, *, memory_bytes: int = SAMPLES_IN_MEMORY_BYTES) -> Stack:
    """Return one window of a stack as a stack of its own, whose samples are read from their source only once.

    It stays in this process and thread.
    """
    cut = stack.cut(window)
    # views of arrays cost nothing
    return cut if stack.is_in_memory else cut.replaced(read=partial(_read_held, cut, SpilledArrays(memory_bytes=memory_bytes)))


def _read_held(stack: Stack, held: SpilledArrays, number: int, window: Window) -> SampleArray:
    # in order, since that is how they are stored; decisions go through the stack from its beginning anyway
    while len(held) <= number:
        samples = stack[len(held)]
        # here, where every sample passes once
        check_finite(samples, stack.names[len(held)])
        held.append(samples)
    return held.read_rows(number, window.top, window.bottom)[:, window.left : window.right]
