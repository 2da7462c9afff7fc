"""Targets of a command, named anew for every time point."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from qmcif_engine.cli.options import Request
from qmcif_engine.depth import HeightRequest
from qmcif_engine.errors import InvalidConfigError
from qmcif_engine.io.output.output_formats import name_beside
from qmcif_engine.io.remote.remote_path import RemotePath
from qmcif_engine.slabs import SlabLayout

if TYPE_CHECKING:
    from qmcif_engine.fusing.joined_times import PointFiles


@dataclass(frozen=True, slots=True, kw_only=True)
class Targets:
    """Everything that one fusion writes.

    Attributes
    ----------
    output : Path
    maps : Path or None
        Folder of the maps.
    height : HeightRequest or None
    slabs : SlabLayout or None
        The slabs to fuse first.
    """

    output: Path
    maps: Path | None
    height: HeightRequest | None
    slabs: SlabLayout | None

    def at_time(self, label: str) -> Targets:
        """Return where the results of one time point go: files and folders with the label in their names."""
        height, slabs = self.height, self.slabs
        return Targets(
            output=name_beside(self.output, f"_{label}"),
            maps=None if self.maps is None else self.maps.with_name(f"{self.maps.name}_{label}"),
            height=None if height is None else replace(height, target=name_beside(height.target, f"_{label}")),
            slabs=None if slabs is None else replace(slabs, folder=slabs.folder.with_name(f"{slabs.folder.name}_{label}")),
        )

    def waiting(self, point: PointFiles) -> Targets:
        """Return where the results of one time point wait until they are joined; slabs stay where they are kept."""
        split = self.at_time(point.label)
        return Targets(
            output=point.image,
            maps=None if self.maps is None else point.maps,
            height=None if self.height is None else replace(self.height, target=point.heights),
            slabs=split.slabs,
        )


def label_times(n_times: int) -> dict[int, str]:
    """Return what the names of results say of each time point: t000, t001 and so on."""
    # of one length, so that names sort as time goes
    n_digits = max(3, len(str(n_times - 1)))
    return {number: f"t{number:0{n_digits}d}" for number in range(n_times)}


def gather_targets(options: Request) -> Targets:
    """Return the targets that the options name.

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
    return Targets(output=options.output, maps=options.maps, height=height, slabs=slabs)


def _check_together(leader: str, followers: dict[str, object], options: Request) -> None:
    given = [name for name, value in followers.items() if value is not None]
    if given and getattr(options, leader) is None:
        msg = f"{', '.join(given)} was given without --{leader}; it belongs to that option: add --{leader} or leave it out"
        raise InvalidConfigError(msg)
