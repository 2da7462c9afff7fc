"""Finished fusions of a run, and what goes into the files of their results: one image, slabs put together, or time points joined."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qmcif_engine.arrays import BoolArray, SampleArray
from qmcif_engine.depth import HeightRequest, assemble_heights, choose_height_scale
from qmcif_engine.io.output.formats import describe_map
from qmcif_engine.io.output.placement import map_path
from qmcif_engine.io.output.windowed_image import ImageContent, WindowedImage, assemble_content, block_windows, join_contents
from qmcif_engine.io.remote_path import RemotePath
from qmcif_engine.pipeline.outputs import Outputs
from qmcif_engine.stack.image_metadata import ImageMetadata, name_planes
from qmcif_engine.stack.samples import FocusRanges
from qmcif_engine.stack.stack import FindValid, Stack
from qmcif_engine.stack.window import Window
from qmcif_engine.tiles.output_maps import OUTPUT_MAPS, WRITTEN_MAPS


def describe_fused(stack: Stack) -> ImageMetadata:
    """Return the metadata of what is made of a stack; channels that were recorded one by one are named, so that none passes for a color."""
    known, shown = stack.metadata, stack.companions or stack
    if not (known.has_separate_channels or stack.n_separate_channels) or len(shown.image_shape) < 3:
        return known
    names = name_planes(known.channel_names, shown.image_shape[2])
    return replace(known, channel_names=names, has_separate_channels=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class FusedPart:
    """A fusion whose tiles are all there: an image, a time point of one, or a slab.

    Attributes
    ----------
    stack : Stack
        What was fused; it says what the result is, and is not read any more.
    image : callable
        Returns a plane of the result by its name.
    shown : tuple of str
        The planes that are the fused image: colors or channels, and alpha.
    provenance : mapping
    guide_range : FocusRange, or tuple of one per channel
        Samples of the result that count as black and white where it guides the smoothing of heights.
    """

    stack: Stack
    image: Callable[[str], WindowedImage]
    shown: tuple[str, ...]
    provenance: Mapping[str, Any]
    guide_range: FocusRanges

    def describe_image(self) -> ImageContent:
        """Return what goes into the file of the fused image."""
        planes = [self.image(name) for name in self.shown]
        alpha = planes[1] if len(planes) > 1 else None
        return assemble_content(planes[0], alpha, metadata=describe_fused(self.stack), provenance=self.provenance)

    def list_contents(self, outputs: Outputs, *, has_image: bool = True) -> dict[Path, ImageContent]:
        """Return what goes into each file; the image is left out where it is a store that is complete already."""
        contents = {}
        if outputs.maps is not None:
            paths = {map_path(outputs.maps, name): self.image(name) for name in WRITTEN_MAPS}
            contents = describe_maps(paths, self.stack, self.provenance)
        if outputs.height is not None:
            contents |= assemble_heights(
                outputs.height,
                position=self.image("position"),
                confidence=self.image("confidence"),
                guide=self.image("fused"),
                guide_range=self.guide_range,
                metadata=describe_fused(self.stack),
                provenance=self.provenance,
            )
        if has_image and not isinstance(outputs.image, RemotePath):
            contents[outputs.image] = self.describe_image()
        return contents


def describe_maps(planes: Mapping[Path, WindowedImage], stack: Stack, provenance: Mapping[str, Any]) -> dict[Path, ImageContent]:
    """Return what goes into the files of maps."""
    known = describe_fused(stack)
    return {
        path: assemble_content(plane, None, metadata=describe_map(plane, known), provenance=provenance) for path, plane in planes.items()
    }


def join_times(
    points: Sequence[Mapping[Path, ImageContent]], provenance: Mapping[str, Any], *, time_step: float | None
) -> dict[Path, ImageContent]:
    """Return contents of all time points as one for each file, with a time axis."""
    joined = {}
    for path, first in points[0].items():
        # how heights were made goes with the provenance of all points
        made = {name: first.provenance[name] for name in ("height",) if name in first.provenance}
        content = join_contents([point[path] for point in points], "T")
        # one map has no time, a series of them has that of the images
        joined[path] = replace(content, metadata=replace(first.metadata, time_step=time_step), provenance={**provenance, **made})
    return joined


def stack_slabs(
    original: Stack, spans: Sequence[range], results: Sequence[WindowedImage], companions: Sequence[WindowedImage] = ()
) -> Stack:
    """Return the results of slabs as a stack, with the metadata of the original.

    A pixel that no image of a slab has, because all of them were moved, the slab does not have either.

    Parameters
    ----------
    original : Stack
    spans : sequence of range
        The images of each slab.
    results : sequence of WindowedImage
    companions : sequence of WindowedImage
        Alpha or further channels of the results, where the original has them.
    """
    find_valid = original.find_valid
    return original.replaced(
        follow=lambda plane: stack_slabs(plane, spans, companions),
        names=tuple(f"slab {number}" for number in range(1, len(spans) + 1)),
        read=partial(_read_result, tuple(results)),
        find_valid=None if find_valid is None else partial(_find_any, find_valid, tuple(spans)),
        frame_numbers=(),
        scratch_bytes=0,
        whole_bytes=0,
    )


def _read_result(results: Sequence[WindowedImage], number: int, window: Window) -> SampleArray:
    return results[number].read(window)


def _find_any(find_valid: FindValid, spans: Sequence[range], number: int, window: Window) -> BoolArray:
    """Return which pixels of a window, (h, w), any image of a slab has."""
    is_valid: BoolArray = np.any([find_valid(image, window) for image in spans[number]], axis=0)
    return is_valid


class ChosenImage:
    """An image whose pixels come from the slabs that were chosen for them.

    Parameters
    ----------
    choice : WindowedImage of an integer type, shape (H, W), or that of the parts
        Which slab, 0-based, for each pixel or for each of its channels.
    parts : sequence of WindowedImage
        One a slab.
    factor : float
        What samples are multiplied by, then
    offsets : sequence of float, optional
        what is added to those of each slab.
    """

    def __init__(
        self, choice: WindowedImage, parts: Sequence[WindowedImage], *, factor: float = 1, offsets: Sequence[float] | None = None
    ) -> None:
        self._choice, self._parts, self._factor = choice, list(parts), factor
        self._offsets = [0] * len(self._parts) if offsets is None else list(offsets)
        self.shape: tuple[int, ...] = self._parts[0].shape
        self.dtype: np.dtype[Any] = self._parts[0].dtype

    def read(self, window: Window) -> NDArray[Any]:
        """Return the samples of a window."""
        choice = self._choice.read(window)
        samples = np.empty((*window.shape, *self.shape[2:]), self.dtype)
        # only slabs that were chosen somewhere in the window are read
        for number in np.unique(choice):
            is_chosen = choice == number
            taken = self._parts[number].read(window)[is_chosen]
            # in the type of the samples: counts of images must not pass through floats and back
            samples[is_chosen] = taken * self.dtype.type(self._factor) + self.dtype.type(self._offsets[number])
        return samples


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinedSlabs:
    """Slabs and the choice between them; maps and heights name images of the whole stack.

    Attributes
    ----------
    stack : Stack
        The whole one.
    slabs : tuple of FusedPart
    choice : FusedPart
        The fusion of the slabs.
    spans : tuple of range
        The images of each slab.
    """

    stack: Stack
    slabs: tuple[FusedPart, ...]
    choice: FusedPart
    spans: tuple[range, ...]

    def _compose(self, name: str) -> ChosenImage:
        """Return a map by its name; what counts no images is that of the slab that gives the pixel."""
        # a slab counts its images from 0; those of the whole stack begin at its first one
        is_index = OUTPUT_MAPS[name].counts_images
        choice = self.choice.image(name if is_index else "source_index")
        return ChosenImage(choice, [slab.image(name) for slab in self.slabs], offsets=self._offsets if is_index else None)

    @property
    def _offsets(self) -> list[int]:
        return [span.start for span in self.spans]

    def count_pixels(self) -> tuple[int, ...]:
        """Return how many pixels each image of the whole stack gave."""
        index, counts = self._compose("source_index"), np.zeros(self.stack.n_images, np.int64)
        for window in block_windows(index.shape):
            counts += np.bincount(index.read(window).reshape(-1), minlength=self.stack.n_images)
        return tuple(counts.tolist())

    def list_contents(self, outputs: Outputs, *, has_image: bool = True) -> dict[Path, ImageContent]:
        """Return what goes into each file of the whole result."""
        contents = self.choice.list_contents(replace(outputs, maps=None, height=None), has_image=has_image)
        provenance = {"identity": self.choice.provenance["identity"], "slabs": [[span.start, span.stop] for span in self.spans]}
        if outputs.maps is not None:
            maps: dict[Path, WindowedImage] = {map_path(outputs.maps, name): self._compose(name) for name in WRITTEN_MAPS}
            contents |= describe_maps(maps, self.stack, provenance)
        if outputs.height is not None:
            contents |= self._describe_heights(outputs, outputs.height, provenance)
        return contents

    def list_further(self, outputs: Outputs) -> dict[Path, ImageContent]:
        """Return what goes into the files of the slabs, and into the maps of the choice between them."""
        contents: dict[Path, ImageContent] = {}
        for slab, files in zip(self.slabs, outputs.list_slabs(self.stack.n_images), strict=True):
            contents |= slab.list_contents(files)
        chosen = {path: self.choice.image(name) for name, path in outputs.choice_maps.items()}
        return contents | describe_maps(chosen, self.choice.stack, self.choice.provenance)

    def _describe_heights(self, outputs: Outputs, request: HeightRequest, provenance: Mapping[str, Any]) -> dict[Path, ImageContent]:
        """Return what goes into the files of the heights, guided by the results of the slabs."""
        metadata = describe_fused(self.stack)
        z_step = choose_height_scale(metadata, z_step=request.z_step, unit=request.unit).z_step
        choice, files = self.choice.image("source_index"), outputs.list_slabs(self.stack.n_images)
        heights = [slab.list_contents(place)[place.files[-2]].image for slab, place in zip(self.slabs, files, strict=True)]  # type: ignore[index]
        return assemble_heights(
            request,
            # heights of slabs are lengths above their first image: divided by the step they are positions in the stack
            position=ChosenImage(choice, heights, factor=1 / z_step, offsets=self._offsets),
            confidence=self._compose("confidence"),
            guide=ChosenImage(choice, [slab.image("fused") for slab in self.slabs]),
            guide_range=self.choice.guide_range,
            metadata=metadata,
            provenance=provenance,
        )
