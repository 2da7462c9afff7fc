"""Options of ``qmcif surface``; nothing here computes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qmcif_engine.cli.input_options import to_path

if TYPE_CHECKING:
    from argparse import ArgumentParser


def add_surface(parser: ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument("heights", type=to_path, metavar="HEIGHTS", help="height map that fuse --depth wrote: .tif or .ome.tif")
    parser.add_argument(
        "-o", "--output", type=to_path, required=True, metavar="OUT", help="surface: .stl, .obj or .ply; profile along a line: .csv"
    )
    parser.add_argument("--image", type=to_path, metavar="FILE", help="fused image that lies on the surface: .tif or .ome.tif")
    parser.add_argument(
        "--line", type=float, nargs=4, metavar=("X0", "Y0", "X1", "Y1"), help="line of a profile: columns and rows of its ends, in pixels"
    )
    parser.add_argument("--stride", type=int, metavar="N", help="take every Nth row and column (default: 4 million points at most)")
    parser.add_argument(
        "--pixel-size", type=float, metavar="D", help="side of a pixel in the unit of the heights, if the file does not state it"
    )
    parser.add_argument("--overwrite", action="store_true", help="replace existing output files")
