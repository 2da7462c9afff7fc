"""Options for heights and for slabs; nothing here computes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse


def add_heights(parser: argparse.ArgumentParser) -> None:
    """Add the options of the height map."""
    parser.add_argument(
        "--depth", type=Path, metavar="FILE", help="also write the height of every pixel, as floats: .ome.tif, .tif or .ome.zarr"
    )
    add_height_scale(parser)


def add_height_scale(parser: argparse.ArgumentParser) -> None:
    """Add what heights mean and how they are smoothed."""
    parser.add_argument(
        "--z-step",
        type=float,
        metavar="D",
        help="distance between neighboring images, negative if the stack runs downwards (default: from the input)",
    )
    parser.add_argument("--z-unit", metavar="UNIT", help="unit of the z step and of the heights, such as micrometer or mm")
    parser.add_argument(
        "--depth-smoothing", type=int, metavar="PX", help="radius over which heights are smoothed, keeping steps (default: 0)"
    )


def add_slabs(parser: argparse.ArgumentParser) -> None:
    """Add the options of fusing in slabs."""
    add_slab_size(parser)
    parser.add_argument("--slab-folder", type=Path, metavar="DIR", help="folder where the slabs are kept (default: OUT.slabs)")


def add_slab_size(parser: argparse.ArgumentParser) -> None:
    """Add how a stack is cut into slabs."""
    parser.add_argument("--slab", type=int, metavar="N", help="fuse groups of N neighboring images first, keep the results, and fuse these")
    parser.add_argument("--slab-overlap", type=int, metavar="K", help="images that neighboring slabs share (default: a quarter of N)")
