"""All time points of an acquisition, fused one by one and written as one file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from qmcif_engine.cli.options import Request
from qmcif_engine.cli.targets import gather_targets, label_times
from qmcif_engine.fusing.file_outputs import check_outputs, refuse_other_result
from qmcif_engine.fusing.joined_times import PointFiles, SeriesFolder, join_times
from qmcif_engine.io.input.written_image import WrittenImage
from qmcif_engine.io.remote.remote_file import RemoteFile
from qmcif_engine.io.remote.remote_path import RemotePath
from qmcif_engine.stack.samples import list_bounds

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from qmcif_engine.cli.fuse_command import Fused
    from qmcif_engine.cli.targets import Targets
    from qmcif_engine.config.fusion_config import FusionConfig
    from qmcif_engine.io.input.file_stack import FileStack
    from qmcif_engine.io.remote.remote_path import Location
    from qmcif_engine.stack.samples import FocusRanges

    Identify: TypeAlias = Callable[[FileStack, int, Request], tuple[str, FocusRanges]]

# a run that goes on with others of these would mix two results
_DECIDING = ("exclude", "order", "image", "axes", "channels", "focus_range", "align", "reference", "even_exposure", "slab", "slab_overlap")
_WRITTEN = ("maps", "depth", "z_step", "z_unit", "depth_smoothing")


def is_series(stack: FileStack, options: Request) -> bool:
    """Return whether several time points go into one file."""
    return stack.n_times > 1 and options.time is None and not options.split_time


def fuse_series(
    stack: FileStack, options: Request, settings: FusionConfig, *, fuse: Callable[..., Fused], identify: Identify
) -> list[Fused]:
    """Fuse every time point that is not finished, then join them; return none where the result of a resumed run is there already.

    Parameters
    ----------
    stack : FileStack
    options : Request
    settings : FusionConfig
    fuse : callable
        Fuses one time point, to where it waits.
    identify : callable
        Returns the identity and the focus range that one time point would have.
    """
    targets, waiting = gather_targets(options), SeriesFolder.beside(options.output)
    waiting.begin(_describe(stack, options, settings), resume=options.resume, overwrite=options.overwrite)
    points = [PointFiles(waiting.folder, label) for label in label_times(stack.n_times).values()]
    results = []
    try:
        if options.resume and not options.overwrite and targets.output.exists():
            _check_placed(stack, options, targets, identify=identify)
        else:
            results = _fuse_points(stack, options, points, targets=targets, waiting=waiting, fuse=fuse)
            waiting.lock.check()
            final: dict[str, Any] = {"maps": targets.maps, "height": targets.height, "overwrite": options.overwrite}
            join_times(points, targets.output, stack=stack, config=settings, check_cancelled=waiting.lock.beat, **final)
    except BaseException as error:
        if waiting.give_up() and isinstance(error, KeyboardInterrupt):
            msg = "what is finished is kept: continue with --resume, or discard it with --overwrite"
            raise KeyboardInterrupt(msg) from None
        raise
    waiting.remove()
    # the names of what was just placed
    outputs = check_outputs(stack, targets.output, targets.maps, height=targets.height, overwrite=True)
    written = [path for result in results for path in result.report.outputs if isinstance(path, Path)]
    slabs = tuple(path for path in written if waiting.folder not in path.parents)
    return [replace(result, report=replace(result.report, outputs=(*outputs, *slabs))) for result in results]


def _fuse_points(
    stack: FileStack,
    options: Request,
    points: Sequence[PointFiles],
    *,
    targets: Targets,
    waiting: SeriesFolder,
    fuse: Callable[..., Fused],
) -> list[Fused]:
    """Fuse every time point that is not finished, to where it waits."""

    def is_over() -> bool:
        """Carry the signs of life of the series: the question whether to go on comes often enough."""
        waiting.lock.beat()
        return False

    results = []
    for number, point in enumerate(points):
        # written last: the point is finished
        if point.note.exists():
            continue
        place = targets.waiting(point)
        outputs = check_outputs(stack, place.output, place.maps, height=place.height, overwrite=True)
        results.append(fuse(stack, number, _replacing(options), targets=place, outputs=outputs, is_cancelled=is_over))
        point.finish(results[-1].report)
    return results


def _check_placed(stack: FileStack, options: Request, targets: Targets, *, identify: Identify) -> None:
    """Refuse outputs that are there, unless they say that they were made of the same images and settings."""
    outputs = check_outputs(stack, targets.output, targets.maps, height=targets.height, overwrite=True)
    known = [(WrittenImage.find_record(path) or {}).get("points_in_time") for path in outputs if isinstance(path, Path)]
    # heights do not say how they were smoothed, nor images of slabs what was in these
    if targets.height is not None or targets.slabs is not None or not all(known):
        raise refuse_other_result(targets.output)
    own = [identify(stack, number, options) for number in range(stack.n_times)]
    wanted = [{"identity": identity, "focus_range": list_bounds(bounds)} for identity, bounds in own]
    if any(points != wanted for points in known):
        raise refuse_other_result(targets.output)


def _replacing(options: Request) -> Request:
    """Return the options for what waits: a point that was interrupted while it was placed is placed again."""
    return replace(options, overwrite=True)


def _describe(stack: FileStack, options: Request, settings: FusionConfig) -> dict[str, Any]:
    """Return all that decides about the results: settings, options, and the files by name, size and time of change."""
    stamps = [(str(path), *_stamp(path)) for path in stack.sources]
    named = {name: getattr(options, name) for name in (*_DECIDING, *_WRITTEN)}
    guide = [str(path) for path in options.guide or ()]
    return {"settings": settings.to_dict(), "options": named, "guide": guide, "sources": stamps, "shape": stack.image_shape}


def _stamp(path: Location) -> tuple[int, int]:
    """Return size and time of change; of a store on a server nothing is known, and of a file there what its server says."""
    if isinstance(path, RemotePath):
        return (0, 0) if path.is_dir() else RemoteFile(path).stamp()
    status = path.stat()
    return status.st_size, status.st_mtime_ns
