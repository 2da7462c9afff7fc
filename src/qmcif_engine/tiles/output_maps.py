"""The maps that go with a fused image, each declared once: name, sample type, meaning, look, and where a tile takes it from.

Results in memory, in files and lazy, slabs, the help of the command and the layers of the viewer all go by this list. It is light to
import: a program that only shows its help does so.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from enum import Enum
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from qmcif_engine.rules import Decision

    TakenFrom = Callable[[Decision], NDArray[Any] | None]

_IndexPlane = TypeVar("_IndexPlane")
_FloatPlane = TypeVar("_FloatPlane")


class Asked(Enum):
    """When a map is made."""

    ALWAYS = "with every fusion"
    WITH_MAPS = "with the maps"
    WITH_POSITION = "for heights; it is not written by itself"


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputMap:
    """What everybody must know of one map.

    Attributes
    ----------
    name : str
        Of its field in results, of its file without the suffix, and of its layer.
    dtype : str
    meaning : str
        In a few words.
    asked : Asked
    counts_images : bool
        Whether samples are images, or places between them, counted from 0: slabs then add their first image, and viewers show colors from
        the first image to the last. All others are shares from 0 to 1, shown in gray.
    take : callable
        Returns the map from a decision, in the window of that; None for none.
    """

    name: str
    dtype: Literal["uint16", "float32"]
    meaning: str
    asked: Asked
    counts_images: bool
    take: TakenFrom

    @property
    def is_written(self) -> bool:
        """Whether it is a file and a layer of its own, rather than what heights are made of."""
        return self.asked is not Asked.WITH_POSITION

    def is_wanted(self, *, with_maps: bool, with_position: bool) -> bool:
        """Return whether it is made where this is asked for."""
        return {Asked.ALWAYS: True, Asked.WITH_MAPS: with_maps, Asked.WITH_POSITION: with_position}[self.asked]


def output_map(dtype: str, meaning: str, take: TakenFrom, *, asked: Asked = Asked.ALWAYS, counts_images: bool = True) -> Any:  # noqa: ANN401
    """Declare a field together with what everybody must know of it."""
    declared = {"dtype": dtype, "meaning": meaning, "take": take, "asked": asked, "counts_images": counts_images}
    # maps that are not always made may be left out
    return field(default=None, metadata=declared) if asked is not Asked.ALWAYS else field(metadata=declared)


@dataclass(frozen=True, slots=True, kw_only=True)
class MapPlanes(Generic[_IndexPlane, _FloatPlane]):
    """The maps of a tile or of a whole result.

    Attributes
    ----------
    source_index : array of uint16, shape (Y, X), or (Y, X, C) where each channel was decided on by itself
        Which image, 0-based, gave each pixel, or the largest share of it.
    base_map, detail_map : array of uint16, of the same shape, or None
        What the base scale and the detail scale chose, where it was asked for.
    confidence : array of float32, of the same shape
        Probability that the image chosen is the right one; in ordered stacks of three images and more, the right one or a neighbor of
        it. From the costs behind the decision.
    position : array of float32, of the same shape, or None
        Where along the stack each pixel is sharpest, counted in images from 0, where it was asked for: what
        `qmcif_engine.depth.height_map` turns into heights.
    """

    source_index: _IndexPlane = output_map("uint16", "image that gave each pixel", lambda decision: decision.index)
    base_map: _IndexPlane | None = output_map(
        "uint16", "choice of the base scale", lambda decision: decision.maps.get("base_map", decision.index), asked=Asked.WITH_MAPS
    )
    detail_map: _IndexPlane | None = output_map(
        "uint16", "choice of the detail scale", lambda decision: decision.maps.get("detail_map", decision.index), asked=Asked.WITH_MAPS
    )
    confidence: _FloatPlane = output_map(
        "float32", "probability that the choice is right", lambda decision: decision.confidence, counts_images=False
    )
    position: _FloatPlane | None = output_map(
        "float32", "place of sharpest focus", lambda decision: decision.position, asked=Asked.WITH_POSITION
    )


# everything else reads this: adding a field above is all that a new map takes
OUTPUT_MAPS = {item.name: OutputMap(name=item.name, **item.metadata) for item in fields(MapPlanes)}
"""All maps by name, in the order in which they are written."""

WRITTEN_MAPS = tuple(name for name, declared in OUTPUT_MAPS.items() if declared.is_written)
"""Names of those that are files and layers of their own."""
