"""The outputs of a command."""

from __future__ import annotations

from qmcif_engine.cli.options import Request
from qmcif_engine.depth import HeightRequest
from qmcif_engine.errors import InvalidConfigError
from qmcif_engine.fusing.outputs import Outputs, SlabLayout
from qmcif_engine.io.remote_path import RemotePath


def gather_outputs(options: Request) -> Outputs:
    """Return where the results go that the options ask for.

    Raises
    ------
    InvalidConfigError
        For options that mean nothing without another one.
    """
    _check_together(
        "depth", {"--z-step": options.z_step, "--z-unit": options.z_unit, "--depth-smoothing": options.depth_smoothing}, options
    )
    _check_together("slab", {"--slab-overlap": options.slab_overlap, "--slab-folder": options.slab_folder}, options)
    height = slabs = None
    if options.depth is not None:
        height = HeightRequest(target=options.depth, z_step=options.z_step, unit=options.z_unit, smoothing_px=options.depth_smoothing or 0)
    if options.slab is not None:
        if isinstance(options.output, RemotePath):
            msg = f"--slab was given with {str(options.output)!r}; slabs are written as files here: name a file here, or leave --slab out"
            raise InvalidConfigError(msg)
        overlap = options.slab // 4 if options.slab_overlap is None else options.slab_overlap
        folder = options.output.with_name(f"{options.output.name}.slabs") if options.slab_folder is None else options.slab_folder
        slabs = SlabLayout(size=options.slab, overlap=overlap, folder=folder)
    return Outputs(image=options.output, maps=options.maps, height=height, slabs=slabs)


def _check_together(leader: str, followers: dict[str, object], options: Request) -> None:
    given = [name for name, value in followers.items() if value is not None]
    if given and getattr(options, leader) is None:
        msg = f"{', '.join(given)} was given without --{leader}; it belongs to that option: add --{leader} or leave it out"
        raise InvalidConfigError(msg)
