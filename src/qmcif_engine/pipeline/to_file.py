"""Fusion from files to files, tile by tile, so that neither images nor results have to fit into memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qmcif_engine.config.fusion_config import FusionConfig
from qmcif_engine.depth import HeightRequest
from qmcif_engine.io.remote_path import Location, locate
from qmcif_engine.pipeline.file_run import FileReport, FileRun
from qmcif_engine.pipeline.outputs import Outputs, SlabLayout
from qmcif_engine.run.execution import FusionProgress
from qmcif_engine.stack.samples import GivenRanges
from qmcif_engine.stack.stack import Stack

if TYPE_CHECKING:
    from distributed import Client


def fuse_to_file(
    stack: Stack,
    output: Location | str,
    config: FusionConfig | None = None,
    *,
    maps: Path | str | None = None,
    height: HeightRequest | None = None,
    guide: Stack | None = None,
    focus_range: GivenRanges | None = None,
    channels: str | None = None,
    memory_bytes: int | None = None,
    workers: int | None = None,
    client: Client | None = None,
    resume: bool = False,
    overwrite: bool = False,
    on_progress: Callable[[FusionProgress], None] | None = None,
    is_cancelled: Callable[[], bool] | None = None,
) -> FileReport:
    """Fuse a stack of any size and write the result.

    Parameters
    ----------
    stack : Stack
        What `qmcif_engine.open_stack` returns.
    output : Path, RemotePath or str
        The suffix chooses the format: .ome.zarr, .ome.tif, .tif, .png or .jpg. An OME-Zarr may go to ``s3://``, with the extra ``remote``.
    config : FusionConfig, optional
    maps : Path, optional
        A folder for the maps, those of `qmcif_engine.tiles.output_maps.MapPlanes` but the position.
    height : HeightRequest, optional
        Where a height map goes, and how it is made.
    guide, focus_range, channels : optional
        See `qmcif_engine.fuse`. Where each channel is decided on by itself, maps and heights have a page for each, in the order of the
        channels.
    memory_bytes : int, optional
        Tiles in flight take no more than this; half of the free memory where it is left out.
    workers : int, optional
        Tiles computed at once on this machine.
    client : distributed.Client, optional
        See `qmcif_engine.fuse`. Workers that see the folder of the target write their tiles themselves.
    resume : bool
        Continue an interrupted run of the same images and settings; if it was allowed to replace outputs, it still is. Outputs of a
        run that was finished are left as they are.
    overwrite : bool
        Replace existing outputs, and discard an unfinished run unless it is resumed.
    on_progress, is_cancelled : callable, optional
        See `qmcif_engine.fuse`. A cancelled run can be resumed.

    Returns
    -------
    FileReport
    """
    return _fuse(
        stack,
        Outputs(image=_locate(output), maps=None if maps is None else Path(maps), height=height),
        config,
        guide=guide,
        channels=channels,
        focus_range=focus_range,
        memory_bytes=memory_bytes,
        workers=workers,
        client=client,
        resume=resume,
        overwrite=overwrite,
        on_progress=on_progress,
        is_cancelled=is_cancelled,
    )


def fuse_in_slabs(
    stack: Stack,
    output: Path | str,
    config: FusionConfig | None = None,
    *,
    slabs: SlabLayout,
    channels: Sequence[int | str] | None = None,
    maps: Path | str | None = None,
    height: HeightRequest | None = None,
    **options: Any,  # noqa: ANN401 - those of `fuse_to_file`
) -> FileReport:
    """Fuse groups of neighboring images, keep the results, and fuse these.

    Maps and heights of the final image are those of the slab that was chosen for each pixel, and count the images of the whole stack.

    Parameters
    ----------
    stack : Stack
    output : Path
    config : FusionConfig, optional
    slabs : SlabLayout
    channels : sequence of int or str, optional
        The channels that decide, as they were given to `qmcif_engine.open_stack`: the results of the slabs are opened with them. Or
        ``"each"``.
    maps, height, **options
        See `qmcif_engine.fuse_to_file`; a guide is none of them. Slabs are written with the other outputs, when all of them are complete.

    Returns
    -------
    FileReport
        The slabs are among its outputs.
    """
    outputs = Outputs(image=_locate(output), maps=None if maps is None else Path(maps), height=height, slabs=slabs)
    return _fuse(stack, outputs, config, guide=None, channels=channels, **options)


def _fuse(
    stack: Stack,
    outputs: Outputs,
    config: FusionConfig | None,
    *,
    client: Client | None = None,
    on_progress: Callable[[FusionProgress], None] | None = None,
    is_cancelled: Callable[[], bool] | None = None,
    **options: Any,  # noqa: ANN401 - those of `FileRun.prepare`
) -> FileReport:
    run = FileRun.prepare(stack, outputs, config, **options)
    return run(client=client, on_progress=on_progress, is_cancelled=is_cancelled)[0]


def _locate(output: Location | str) -> Location:
    return locate(output) if isinstance(output, str) else output
