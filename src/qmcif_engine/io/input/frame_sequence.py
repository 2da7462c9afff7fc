"""Join inputs of one image each, such as the files of a folder, into the frames of one stack."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from qmcif_engine.errors import ImageFileError, InvalidImageError
from qmcif_engine.io.input.frame_source import FramePosition, FrameSource, SourceDescription

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from qmcif_engine.stack.window import Window

_ONLY_FRAME = FramePosition(0, 0)


class FrameSequence:
    """Offer the single frames of several sources as one source.

    Parameters
    ----------
    sources : sequence of FrameSource
        One frame each, all of one size and type; the first gives the metadata.
    """

    def __init__(self, sources: Sequence[FrameSource]) -> None:
        self._sources = list(sources)
        self._description = _join([source.description for source in self._sources])

    @property
    def description(self) -> SourceDescription:
        """What the frames have in common."""
        return self._description

    def read(self, position: FramePosition, window: Window, channels: Sequence[int]) -> NDArray[Any]:
        """Return one window of some channels of a frame."""
        return self._sources[position.number].read(_ONLY_FRAME, window, channels)

    def transcoded_bytes(self, position: FramePosition) -> int:
        """Return what a decoded copy of a frame takes."""
        return self._sources[position.number].transcoded_bytes(_ONLY_FRAME)


def _join(found: Sequence[SourceDescription]) -> SourceDescription:
    """Return the common description, or say by name which input differs."""
    first = found[0]
    name = first.names[0]
    for other in found:
        if other.n_frames > 1 or other.n_times > 1:
            name = other.names[0].partition(" of ")[2]
            msg = f"{name} holds {other.n_frames * other.n_times} images; one image in each of several inputs is needed: pass it alone"
            raise InvalidImageError(msg)
        if other.frame_shape != first.frame_shape:
            msg = (
                f"{name} has shape {first.frame_shape} and {other.names[0]} {other.frame_shape}; "
                "all must be equal: crop or align them first"
            )
            raise InvalidImageError(msg)
        if other.dtype != first.dtype:
            msg = f"{name} is {first.dtype} and {other.names[0]} {other.dtype}; all must be of one type: convert them first"
            raise InvalidImageError(msg)
    if len({other.has_alpha for other in found}) > 1:
        without = next(other.names[0] for other in found if not other.has_alpha)
        msg = f"{without} has no alpha while others have; all or none is needed: add or remove the alpha channel"
        raise ImageFileError(msg)
    bits = {other.metadata.significant_bits for other in found}
    return replace(
        first,
        names=tuple(other.names[0] for other in found),
        metadata=replace(first.metadata, significant_bits=bits.pop() if len(bits) == 1 else None),
        paths=tuple(dict.fromkeys(path for other in found for path in other.paths)),
    )
