"""Everything that a run writes to files: named and checked before it begins, and recognized after it has ended."""

from __future__ import annotations

import html
import json
import mmap
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from qmcif_engine.depth import HeightRequest, choose_height_scale
from qmcif_engine.errors import InvalidConfigError, OutputError
from qmcif_engine.io.limits import LARGEST_NODE_BYTES, read_bounded
from qmcif_engine.io.output.formats import check_target, choose_format, name_beside
from qmcif_engine.io.output.placement import check_maps_target, check_place, check_sources_kept, map_path, refusing
from qmcif_engine.io.remote_path import Location, RemotePath
from qmcif_engine.run.job_folder import name_job_folder, recover
from qmcif_engine.stack.stack import Stack
from qmcif_engine.tiles.output_maps import WRITTEN_MAPS

CHOICE_MAPS = "choice_maps"
"""Folder, among the slabs, of the maps that say which slab was chosen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SlabLayout:
    """How a stack is cut into slabs, and where these are kept.

    Attributes
    ----------
    size : int
        Images a slab.
    overlap : int
        Images that neighboring slabs share, at least.
    folder : Path
        Made where it is missing; the slabs stay there.
    """

    size: int
    overlap: int
    folder: Path


def plan_slabs(n_images: int, *, size: int, overlap: int) -> tuple[range, ...]:
    """Return which images each slab has; all slabs are of one size, so the last shares more with the one before it.

    Raises
    ------
    InvalidConfigError
        When these slabs cannot be cut.
    """
    if not 2 <= size < n_images:
        msg = f"slabs of {size} images were asked of a stack of {n_images}; 2 to {n_images - 1} are needed: choose another size"
        raise InvalidConfigError(msg)
    if not 0 <= overlap < size:
        msg = f"an overlap of {overlap} images was asked of slabs of {size}; 0 to {size - 1} are needed: choose another overlap"
        raise InvalidConfigError(msg)
    starts = [*range(0, n_images - size, size - overlap), n_images - size]
    return tuple(range(start, start + size) for start in starts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outputs:
    """Where the results of a run go.

    Attributes
    ----------
    image : Path or RemotePath
    maps : Path or None
        Folder of the maps.
    height : HeightRequest or None
    slabs : SlabLayout or None
        The slabs to fuse first.
    """

    image: Location
    maps: Path | None = None
    height: HeightRequest | None = None
    slabs: SlabLayout | None = None

    def at_time(self, label: str) -> Outputs:
        """Return where the results of one time point go: files and folders with the label in their names."""
        height = self.height
        return Outputs(
            image=name_beside(self.image, f"_{label}"),
            maps=None if self.maps is None else self.maps.with_name(f"{self.maps.name}_{label}"),
            height=None if height is None else replace(height, target=name_beside(height.target, f"_{label}")),
            slabs=self.slabs_at_time(label),
        )

    def slabs_at_time(self, label: str) -> SlabLayout | None:
        """Return where the slabs of one time point go."""
        slabs = self.slabs
        return None if slabs is None else replace(slabs, folder=slabs.folder.with_name(f"{slabs.folder.name}_{label}"))

    @property
    def files(self) -> tuple[Location, ...]:
        """All files but those of slabs, the image first."""
        maps = () if self.maps is None else tuple(map_path(self.maps, name) for name in WRITTEN_MAPS)
        return (self.image, *maps, *(() if self.height is None else (self.height.target, self.height.confidence_target)))

    @property
    def choice_maps(self) -> dict[str, Path]:
        """The maps that say which slab was chosen, by name."""
        return {} if self.slabs is None else {name: map_path(self.slabs.folder / CHOICE_MAPS, name) for name in WRITTEN_MAPS}

    def list_slabs(self, n_images: int) -> tuple[Outputs, ...]:
        """Return where the results of every slab go."""
        if self.slabs is None:
            return ()
        folder, height = self.slabs.folder, self.height
        spans = plan_slabs(n_images, size=self.slabs.size, overlap=self.slabs.overlap)
        names = [f"slab_{number:03d}" for number in range(1, len(spans) + 1)]
        return tuple(
            Outputs(
                image=folder / f"{name}.ome.tif",
                maps=folder / f"{name}_maps",
                # without smoothing: heights are smoothed once, over the borders of slabs, when all are put together
                height=None if height is None else replace(height, target=folder / f"{name}_height.ome.tif", smoothing_px=0),
            )
            for name in names
        )


def label_times(n_times: int) -> dict[int, str]:
    """Return what the names of results say of each time point: t000, t001 and so on."""
    # of one length, so that names sort as time goes
    n_digits = max(3, len(str(n_times - 1)))
    return {number: f"t{number:0{n_digits}d}" for number in range(n_times)}


def check_outputs(stack: Stack, outputs: Outputs, further: Sequence[Path], *, n_times: int, overwrite: bool, resume: bool) -> bool:
    """Refuse outputs that cannot be written; return whether they may be replaced.

    What a killed run had begun to place is taken back first. A run that is resumed may replace what it was allowed to, and may find all
    of its outputs in place. `further` are the files of slabs.
    """
    # first of all, since outputs half placed by a killed run would look like files of the user
    with refusing(outputs.image):
        may_replace = overwrite or (recover(name_job_folder(outputs.image)) and resume)
    files = (*outputs.files, *further)
    is_allowed = may_replace or (resume and are_all_there(files, outputs.image))
    if n_times > 1:
        _check_series(outputs.image, n_times)
    _check_files(stack, outputs, overwrite=is_allowed)
    for path in further:
        check_place(path, overwrite=is_allowed, makes_folder=True)
    # two names may be one file by links or by ".."
    if len({path if isinstance(path, RemotePath) else os.path.realpath(path) for path in files}) < len(files):
        msg = (
            f"{', '.join(repr(str(path)) for path in outputs.files)} are to be written; a name of its own is needed for each: choose others"
        )
        raise OutputError(msg)
    check_sources_kept(files, stack.sources)
    return may_replace


def _check_files(stack: Stack, outputs: Outputs, *, overwrite: bool) -> None:
    channels = stack.companions
    has_alpha = channels is None and stack.alpha is not None
    shape = stack.image_shape if channels is None else channels.image_shape
    check_target(outputs.image, overwrite=overwrite, samples_dtype=stack.dtype, has_alpha=has_alpha, shape=shape)
    if outputs.maps is not None:
        # maps are local files; a remote image cannot be among them
        beside = None if isinstance(outputs.image, RemotePath) else outputs.image
        check_maps_target(outputs.maps, WRITTEN_MAPS, overwrite=overwrite, image=beside)
    if outputs.height is not None:
        choose_height_scale(stack.metadata, z_step=outputs.height.z_step, unit=outputs.height.unit)
        for target in (outputs.height.target, outputs.height.confidence_target):
            check_target(target, overwrite=overwrite, samples_dtype=np.float32, shape=(*stack.image_shape[:2], *stack.decision_channels))


def _check_series(target: Location, n_times: int) -> None:
    """Refuse a target that cannot hold all time points.

    Raises
    ------
    OutputError
        With the formats that can.
    """
    chosen = choose_format(target)
    if isinstance(target, RemotePath):
        msg = (
            f"{str(target)!r} is to hold {n_times} time points; one is written to a store on a server: write each to a store of its own "
            "with --split-time, or only one with --time"
        )
        raise OutputError(msg)
    if not chosen.holds_stacks:
        msg = (
            f"{str(target)!r} is to hold {n_times} time points; {chosen.name} holds one image: use .ome.tif, .ome.zarr or .tif, "
            "or write each point to a file of its own with --split-time, or only one with --time"
        )
        raise OutputError(msg)


def are_all_there(files: Iterable[Location], target: Location) -> bool:
    """Return whether all outputs are there and no run is unfinished, as after a run that was killed at its very end."""
    return all(path.exists() for path in files) and not name_job_folder(target).exists()


def refuse_other_result(path: Location) -> OutputError:
    """Return the error for an output that is there and not known to be what would be written."""
    return OutputError(
        f"{str(path)!r} exists already and is not known to be the result of these images and settings; an interrupted run or that very "
        "result is needed to resume: choose another name or allow overwriting (overwrite=True, on the command line --overwrite)"
    )


def holds_provenance(output: Location, items: Mapping[str, object]) -> bool:
    """Return whether a file, or the metadata of a Zarr folder, holds each of some items of provenance.

    Files hold provenance as plain text, so that no reader is needed, nor any memory for an image.
    """
    try:
        if isinstance(output, RemotePath) or output.is_dir():
            described = json.loads(read_bounded(output / "zarr.json", largest_bytes=LARGEST_NODE_BYTES))["attributes"]["qmcif"]
            return all(described.get(name) == json.loads(json.dumps(value)) for name, value in items.items())
        with output.open("rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as content:
            return all(any(content.find(text.encode()) >= 0 for text in _spell(item)) for item in items.items())
    except (OSError, ValueError, KeyError, TypeError, AttributeError):  # not to be read, or empty
        return False


def _spell(item: tuple[str, object]) -> Iterator[str]:
    """Yield how an item of provenance is written in files: with or without sorted names, and escaped in OME-XML."""
    for is_sorted in (True, False):
        # without its braces: it stands among others
        text = json.dumps(dict([item]), sort_keys=is_sorted)[1:-1]
        yield from (text, html.escape(text))
