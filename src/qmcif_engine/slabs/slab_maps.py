"""Maps of slabs, read back by window and put together so that they name images of the whole stack."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from qmcif_engine.depth import assemble_heights, settle_scale
from qmcif_engine.fusing.identity import describe_fused
from qmcif_engine.io.input.map_file import MapFile
from qmcif_engine.io.output.map_files import map_path
from qmcif_engine.io.output.streamed_output import describe_map
from qmcif_engine.io.output.windowed_image import assemble_content, block_windows
from qmcif_engine.tiles.output_maps import OUTPUT_MAPS, WRITTEN_MAPS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from qmcif_engine.depth import HeightRequest
    from qmcif_engine.fusing.to_file import FileReport
    from qmcif_engine.io.output.windowed_image import ImageContent, WindowedImage
    from qmcif_engine.slabs.layout import SlabFiles
    from qmcif_engine.stack.stack import Stack
    from qmcif_engine.stack.window import Window


class StackImage:
    """One image of a stack as an image to write."""

    def __init__(self, stack: Stack, number: int) -> None:
        self._stack, self._number = stack, number
        self.shape: tuple[int, ...] = stack.image_shape
        self.dtype: np.dtype[Any] = stack.dtype

    def read(self, window: Window) -> NDArray[Any]:
        """Return the samples of a window."""
        return self._stack.read(self._number, window)


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


class SlabMaps:
    """The maps of a fusion in slabs, put together.

    Parameters
    ----------
    files : sequence of SlabFiles
    spans : sequence of range
        The images of each slab.
    choice : callable
        Returns, by its name, a map that says which slab was chosen.
    n_channels : int
        How many channels were decided on one by one; 1 for a joint decision.
    """

    def __init__(
        self, files: Sequence[SlabFiles], spans: Sequence[range], *, choice: Callable[[str], WindowedImage], n_channels: int = 1
    ) -> None:
        self._files, self._spans, self._choice = list(files), list(spans), choice
        self._open = partial(MapFile, n_channels=n_channels)

    def _composed(self, name: str) -> ChosenImage:
        """Return a map by its name; what counts no images is that of the slab that gives the pixel."""
        # a slab counts its images from 0; those of the whole stack begin at its first one
        is_index = OUTPUT_MAPS[name].counts_images
        choice = self._choice(name if is_index else "source_index")
        offsets = [span.start for span in self._spans] if is_index else None
        return ChosenImage(choice, [self._open(map_path(place.maps, name)) for place in self._files], offsets=offsets)

    def count_pixels(self, n_images: int) -> tuple[int, ...]:
        """Return how many pixels each image of the whole stack gave."""
        index, counts = self._composed("source_index"), np.zeros(n_images, np.int64)
        for window in block_windows(index.shape):
            counts += np.bincount(index.read(window).reshape(-1), minlength=n_images)
        return tuple(counts.tolist())

    def describe_maps(self, folder: Path, *, stack: Stack, identity: str) -> dict[Path, ImageContent]:
        """Return what goes into the files of the maps."""
        known, provenance = describe_fused(stack), self._provenance(identity)
        maps = {name: self._composed(name) for name in WRITTEN_MAPS}
        return {
            map_path(folder, name): assemble_content(plane, None, metadata=describe_map(plane, known), provenance=provenance)
            for name, plane in maps.items()
        }

    def describe_heights(self, request: HeightRequest, *, stack: Stack, results: Stack, report: FileReport) -> dict[Path, ImageContent]:
        """Return what goes into the files of the heights, guided by the results of the slabs."""
        metadata = describe_fused(stack)
        z_step = settle_scale(metadata, z_step=request.z_step, unit=request.unit).z_step
        choice = self._choice("source_index")
        # heights of slabs are lengths above their first image: divided by the step they are positions in the stack
        position = ChosenImage(
            choice, [self._open(place.heights) for place in self._files], factor=1 / z_step, offsets=[span.start for span in self._spans]
        )
        return assemble_heights(
            request,
            position=position,
            confidence=self._composed("confidence"),
            guide=ChosenImage(choice, [StackImage(results, number) for number in range(results.n_images)]),
            guide_range=report.focus_range,
            metadata=metadata,
            provenance=self._provenance(report.identity),
        )

    def _provenance(self, identity: str) -> dict[str, object]:
        return {"identity": identity, "slabs": [[span.start, span.stop] for span in self._spans]}
