"""Everything that a run from files to files writes: checked before it begins, and recognized after it has ended."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import numpy as np

from qmcif_engine.depth import HeightRequest, settle_scale
from qmcif_engine.errors import OutputError
from qmcif_engine.fusing.run_plan import job_folder
from qmcif_engine.io.output.map_files import check_maps_target, map_path
from qmcif_engine.io.output.placed_outputs import holds_provenance
from qmcif_engine.io.output.placement import check_sources_kept, refusing
from qmcif_engine.io.output.writers import check_target
from qmcif_engine.io.remote.remote_path import RemotePath
from qmcif_engine.run.job_folders import recover
from qmcif_engine.stack.separate_channels import channel_planes
from qmcif_engine.tiles.output_maps import WRITTEN_MAPS

LONGEST_NAME_BYTES = 255
"""What file systems allow for one name."""

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from qmcif_engine.io.remote.remote_path import Location
    from qmcif_engine.stack.stack import Stack


def check_outputs(
    stack: Stack, target: Location, maps_folder: Path | None, *, height: HeightRequest | None = None, overwrite: bool, resume: bool = False
) -> tuple[Location, ...]:
    """Return every file that will be written, once all of them can be.

    What a killed run had begun to place is taken back first. A run that is resumed may replace what it was allowed to, and may find all
    of its outputs in place.
    """
    maps = () if maps_folder is None else tuple(map_path(maps_folder, name) for name in WRITTEN_MAPS)
    places = (target, *maps, *(() if height is None else (height.target, height.confidence_target)))
    _check_length(target)
    # first of all, since outputs half placed by a killed run would look like files of the user
    with refusing(target):
        may_replace = recover(job_folder(target))
    overwrite = overwrite or (resume and (may_replace or are_all_there(places, target)))
    channels = stack.companions
    has_alpha = channels is None and stack.alpha is not None
    shape = stack.image_shape if channels is None else channels.image_shape
    check_target(target, overwrite=overwrite, samples_dtype=stack.dtype, has_alpha=has_alpha, shape=shape)
    if maps_folder is not None:
        # maps are local files; a remote image cannot be among them
        beside = None if isinstance(target, RemotePath) else target
        check_maps_target(maps_folder, WRITTEN_MAPS, overwrite=overwrite, image=beside)
    heights = () if height is None else _check_heights(stack, height, overwrite=overwrite)
    outputs = (target, *maps, *heights)
    # two names may be one file by links or by ".."
    if len({path if isinstance(path, RemotePath) else os.path.realpath(path) for path in outputs}) < len(outputs):
        msg = f"{', '.join(repr(str(path)) for path in outputs)} are to be written; a name of its own is needed for each: choose others"
        raise OutputError(msg)
    check_sources_kept(outputs, stack.sources)
    return outputs


def _check_length(target: Location) -> None:
    """Refuse a name that leaves no room for that of the folder where tiles wait."""
    n_bytes = len(os.fsencode(target.name))
    # the name of the job folder is that of the target and a suffix
    longest = LONGEST_NAME_BYTES - len(os.fsencode(job_folder(target).name)) + n_bytes
    if n_bytes > longest:
        msg = (
            f"the name {target.name!r} has {n_bytes} bytes; at most {longest} are needed, for tiles wait in a folder beside it: shorten it"
        )
        raise OutputError(msg)


def _check_heights(stack: Stack, height: HeightRequest, *, overwrite: bool) -> tuple[Path, Path]:
    settle_scale(stack.metadata, z_step=height.z_step, unit=height.unit)
    targets = (height.target, height.confidence_target)
    for target in targets:
        check_target(target, overwrite=overwrite, samples_dtype=np.float32, shape=(*stack.image_shape[:2], *channel_planes(stack)))
    return targets


def are_all_there(outputs: Iterable[Location], target: Location) -> bool:
    """Return whether all outputs are there and no run is unfinished, as after a run that was killed at its very end."""
    return all(path.exists() for path in outputs) and not job_folder(target).exists()


def check_placed(outputs: Iterable[Location], identity: str, *, heights: Mapping[Location, Mapping[str, object]]) -> None:
    """Refuse outputs that are there, unless they are those of the same images and settings.

    Parameters
    ----------
    outputs : iterable of Path or RemotePath
    identity : str
        What their provenance has to say.
    heights : mapping of Path to mapping
        What it has to say beyond that of some of them.
    """
    for path in outputs:
        if not holds_provenance(path, {"identity": identity, **heights.get(path, {})}):
            raise refuse_other_result(path)


def refuse_other_result(path: Location) -> OutputError:
    """Return the error for an output that is there and not known to be what would be written."""
    return OutputError(
        f"{str(path)!r} exists already and is not known to be the result of these images and settings; an interrupted run or that very "
        "result is needed to resume: choose another name or allow overwriting (overwrite=True, on the command line --overwrite)"
    )
