"""Time points of one acquisition, fused one by one and joined to files with a time axis.

Until all are there, the finished ones wait in a folder beside the target, from which an interrupted run goes on.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from qmcif_engine import __version__
from qmcif_engine.depth import HeightRequest, settle_scale
from qmcif_engine.errors import OutputError
from qmcif_engine.fusing.identity import describe_fused
from qmcif_engine.io.input.map_file import MapFile
from qmcif_engine.io.output.map_files import map_path
from qmcif_engine.io.output.output_formats import choose_format
from qmcif_engine.io.output.placement import ready_folder, refusing
from qmcif_engine.io.output.stack_files import STACK_FORMATS, check_stack_target, place_series
from qmcif_engine.io.output.stores import write_durably
from qmcif_engine.io.output.streamed_output import describe_map
from qmcif_engine.io.output.windowed_image import ImageContent
from qmcif_engine.io.remote.remote_path import RemotePath
from qmcif_engine.run.lock import RunLock, check_ended, read_holder
from qmcif_engine.stack.samples import list_bounds
from qmcif_engine.stack.separate_channels import count_decisions
from qmcif_engine.tiles.output_maps import WRITTEN_MAPS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from qmcif_engine.config.fusion_config import FusionConfig
    from qmcif_engine.fusing.to_file import FileReport
    from qmcif_engine.io.remote.remote_path import Location
    from qmcif_engine.stack.image_metadata import ImageMetadata
    from qmcif_engine.stack.stack import Stack
    from qmcif_engine.stack.window import Window

_DESCRIPTION = "series.json"
_LOCK_NAME = ".qmcif-times.lock"
_LARGEST_NOTE_BYTES = 2**24  # far above any note of ours: a file of that name may be anything


class StoredImage:
    """The full level of an OME-Zarr that we wrote, read by window."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        stored = self._array.shape
        # Zarr has channels first, images to be written have them last
        self.shape: tuple[int, ...] = (*stored[-2:], *stored[:-2])
        self.dtype: np.dtype[Any] = np.dtype(self._array.dtype)

    @cached_property
    def _array(self) -> Any:  # noqa: ANN401 - zarr loads slowly
        import zarr

        return zarr.open_array(self._folder / "0", mode="r")

    def read(self, window: Window) -> NDArray[Any]:
        """Return the samples of a window."""
        planes = np.asarray(self._array[(..., *window.slices)])
        return np.moveaxis(planes, 0, -1) if planes.ndim == 3 else planes


@dataclass(frozen=True, slots=True)
class PointFiles:
    """Where one time point waits: image, maps, heights, and the note that says it is finished."""

    folder: Path
    label: str

    @property
    def image(self) -> Path:
        """The fused image, a Zarr folder, which holds whatever an image may be."""
        return self.folder / f"{self.label}.ome.zarr"

    @property
    def maps(self) -> Path:
        """Folder of the maps."""
        return self.folder / f"{self.label}-maps"

    @property
    def heights(self) -> Path:
        """Heights; their confidence lies beside them."""
        return self.folder / f"{self.label}-heights.tif"

    @property
    def note(self) -> Path:
        """What the finished point was made of."""
        return self.folder / f"{self.label}.json"

    def finish(self, report: FileReport) -> None:
        """Note that the point is finished."""
        content = {"identity": report.identity, "focus_range": list_bounds(report.focus_range)}
        with refusing(self.note):
            # the last file of a point: without it the point is fused again
            write_durably({self.note: json.dumps(content).encode()}, scratch_folder=self.folder)


@dataclass(frozen=True, slots=True)
class SeriesFolder:
    """The time points of a run that is not finished yet, in a folder that one run at a time uses."""

    folder: Path
    lock: RunLock

    @classmethod
    def beside(cls, target: Path) -> SeriesFolder:
        """Return the folder of a target."""
        folder = target.with_name(f"{target.name}.qmcif-times")
        return cls(folder, RunLock(folder / _LOCK_NAME))

    def check_free(self) -> None:
        """Refuse to go on while another run uses the folder; raises as `check_ended` does."""
        holder = read_holder(self.lock.path)
        if holder is not None:
            check_ended(self.lock.path, holder)

    def begin(self, request: object, *, resume: bool, overwrite: bool) -> None:
        """Make the folder, or go on with it, and hold its lock.

        Parameters
        ----------
        request : JSON value
            All that decides about the results; points of another request are not used.
        resume, overwrite : bool
            Go on with an unfinished run, or throw it away.

        Raises
        ------
        OutputError
            When another run is going on, or an unfinished run is there that may be neither used nor thrown away.
        """
        # with the version: another one may fuse differently, and half a series of each must not be joined
        identity = hashlib.sha256(json.dumps([__version__, request], sort_keys=True, default=str).encode()).hexdigest()
        with refusing(self.folder):
            self.folder.mkdir(exist_ok=True)
            # before anything is looked at: what another run is writing must be neither used nor thrown away
            self.lock.take()
        try:
            self._take_up(identity, resume=resume, overwrite=overwrite)
        except BaseException:
            self._let_go()
            raise

    def _take_up(self, identity: str, *, resume: bool, overwrite: bool) -> None:
        # an empty folder may be one of ours that was killed before its description was written
        if self._list_contents():
            if resume:
                self._check(identity)
                return
            if not overwrite:
                msg = f"an unfinished run is in {str(self.folder)!r}: continue it (--resume) or discard it (--overwrite)"
                raise OutputError(msg)
            self._clear()
        with refusing(self.folder):
            write_durably({self.folder / _DESCRIPTION: json.dumps({"identity": identity}).encode()}, scratch_folder=self.folder)

    def _check(self, identity: str) -> None:
        if _read_note(self.folder / _DESCRIPTION).get("identity") != identity:
            msg = (
                f"the unfinished run in {str(self.folder)!r} has other images, settings or another version; the same are needed: "
                "restore them, or start over with --overwrite"
            )
            raise OutputError(msg)

    def give_up(self) -> bool:
        """Let go of the folder after a failure, and return whether there is something in it to go on with; else it is deleted."""
        if self.lock.is_held() and self._list_contents() == [self.folder / _DESCRIPTION]:
            self.remove()
            return False
        self._let_go()
        return True

    def remove(self) -> None:
        """Delete the folder."""
        self._clear()
        self._let_go()

    def _clear(self) -> None:
        """Delete all but the lock, which keeps others away meanwhile, once the folder is known to be ours."""
        # never delete what may be somebody's folder of that name
        if not (self.folder / _DESCRIPTION).is_file():
            msg = f"{str(self.folder)!r} is not an unfinished run of this program; its name is needed for this run: move it away"
            raise OutputError(msg)
        with refusing(self.folder):
            for path in self._list_contents():
                if path.is_dir() and not path.is_symlink():
                    shutil.rmtree(path)
                else:
                    path.unlink()

    def _let_go(self) -> None:
        self.lock.release()
        with suppress(OSError):  # it holds something, or another run has taken it by now
            self.folder.rmdir()

    def _list_contents(self) -> list[Path]:
        """Return what is in the folder but the lock, and the probes of runs that ask for it."""
        return [path for path in self.folder.iterdir() if not path.name.startswith(_LOCK_NAME) and path.suffix != ".probe"]


def _read_note(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as stream:
            note = json.loads(stream.read(_LARGEST_NOTE_BYTES))
    except (OSError, ValueError, RecursionError) as error:
        msg = f"{str(path.parent)!r} is not an unfinished run of this program ({error}); one is needed: start over with --overwrite"
        raise OutputError(msg) from error
    return note if isinstance(note, dict) else {}


def check_series_target(stack: Stack, target: Location, n_times: int, *, overwrite: bool) -> None:
    """Refuse a target that cannot hold all time points, or that another run is about to write.

    Raises
    ------
    OutputError
        With the formats that can, or which run it is.
    """
    chosen = choose_format(target)
    if isinstance(target, RemotePath):
        msg = (
            f"{str(target)!r} is to hold {n_times} time points; one is written to a store on a server: write each to a store of its own "
            "with --split-time, or only one with --time"
        )
        raise OutputError(msg)
    if chosen.name not in STACK_FORMATS:
        msg = (
            f"{str(target)!r} is to hold {n_times} time points; {chosen.name} holds one image: use .ome.tif, .ome.zarr or .tif, "
            "or write each point to a file of its own with --split-time, or only one with --time"
        )
        raise OutputError(msg)
    SeriesFolder.beside(target).check_free()
    shown = stack.companions or stack
    has_alpha = stack.companions is None and stack.alpha is not None
    check_stack_target(target, n_times, dtype=shown.dtype, has_alpha=has_alpha, shape=shown.image_shape, overwrite=overwrite)


def join_times(
    points: Sequence[PointFiles],
    target: Path,
    *,
    stack: Stack,
    config: FusionConfig,
    maps: Path | None,
    height: HeightRequest | None,
    overwrite: bool,
    check_cancelled: Callable[[], None] | None = None,
) -> None:
    """Write finished time points as one file each for image, maps and heights; all of them appear or none.

    Parameters
    ----------
    points : sequence of PointFiles
        All of them, in order.
    target : Path
    stack : Stack
        Any time point; says what the image is.
    config : FusionConfig
    maps : Path, optional
        Folder of the maps.
    height : HeightRequest, optional
    overwrite : bool
    check_cancelled : callable, optional
        Called before each block; ends the writing by raising, after which nothing is left behind.
    """
    provenance = _describe(points, stack, config)
    metadata, has_alpha = describe_fused(stack), stack.companions is None and stack.alpha is not None
    images = [
        ImageContent(image=StoredImage(point.image), has_alpha=has_alpha, metadata=metadata, provenance=provenance) for point in points
    ]
    contents = {target: images}
    n_channels = count_decisions(stack)
    if height is not None:
        name = settle_scale(metadata, z_step=height.z_step, unit=height.unit).channel_name
        waiting = [HeightRequest(target=point.heights) for point in points]
        heights, confidences = [request.target for request in waiting], [request.confidence_target for request in waiting]
        contents[height.target] = _join_maps(heights, metadata, provenance, n_channels=n_channels, name=name)
        contents[height.confidence_target] = _join_maps(confidences, metadata, provenance, n_channels=n_channels)
    if maps is None:
        place_series(contents, overwrite=overwrite, check_cancelled=check_cancelled)
        return
    for name in WRITTEN_MAPS:
        paths = [map_path(point.maps, name) for point in points]
        contents[map_path(maps, name)] = _join_maps(paths, metadata, provenance, n_channels=n_channels)
    # the folder of the maps is made with them, or not at all
    with ready_folder(maps):
        place_series(contents, overwrite=overwrite, check_cancelled=check_cancelled)


def _join_maps(
    paths: Sequence[Path], metadata: ImageMetadata, provenance: Mapping[str, object], *, n_channels: int, name: str = ""
) -> list[ImageContent]:
    """Return the maps of all time points; those of heights have a name, that of each channel before it."""
    planes = [MapFile(path, n_channels=n_channels) for path in paths]
    # one map has no time, a series of them has that of the images
    described = replace(describe_map(planes[0], metadata), time_step=metadata.time_step)
    if name:
        described = replace(described, channel_names=tuple(f"{channel} {name}" for channel in described.channel_names) or (name,))
    return [ImageContent(image=plane, metadata=described, provenance=provenance) for plane in planes]


def _describe(points: Sequence[PointFiles], stack: Stack, config: FusionConfig) -> dict[str, Any]:
    """Return version, settings and what each time point was made of, without times, names and paths."""
    return {
        "version": __version__,
        "images": stack.n_images,
        "image_shape": list(stack.image_shape),
        "dtype": stack.dtype.name,
        "settings": config.to_dict(),
        "points_in_time": [_read_note(point.note) for point in points],
    }
