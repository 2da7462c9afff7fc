"""Options that say what is opened, and what is taken of it; nothing here computes."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from qmcif_engine.errors import InvalidConfigError
from qmcif_engine.io.remote.remote_path import RemotePath, locate

if TYPE_CHECKING:
    from pathlib import Path

    from qmcif_engine.io.remote.remote_path import Location


def to_path(text: str) -> Path:
    """Return the name of a file or folder on this machine, which is not empty."""
    place = to_location(text)
    if isinstance(place, RemotePath):
        msg = f"{str(place)!r} lies on a server, the name of a file or folder here is needed"
        raise argparse.ArgumentTypeError(msg)
    return place


def to_location(text: str) -> Location:
    """Return the name of a file or folder, here or on a server, which is not empty."""
    if not text:
        msg = "an empty name was given, the name of a file or folder is needed"
        raise argparse.ArgumentTypeError(msg)
    try:
        return locate(text)
    except InvalidConfigError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def add_input(parser: argparse.ArgumentParser) -> None:
    """Add the inputs, and what is taken of them."""
    parser.add_argument(
        "images",
        nargs="+",
        type=to_location,
        metavar="INPUT",
        help="image files; or one folder, pattern, multi-page TIFF, OME-TIFF, OME-Zarr or Zarr with the stack; https:// and s3:// too",
    )
    add_choice(parser)


def add_choice(parser: argparse.ArgumentParser) -> None:
    """Add what is taken of an input."""
    parser.add_argument(
        "--exclude", action="append", default=[], type=_frame, metavar="FRAME", help="leave out a frame: number from 1, or name pattern"
    )
    parser.add_argument("--order", type=_order, metavar="ORDER", help="order of the frames: reversed, or numbers such as 3,1,2")
    parser.add_argument("--image", type=_frame, metavar="IMAGE", help="which image of a file that holds several: number from 1, or name")
    parser.add_argument("--axes", metavar="AXES", help="axes of the input if it does not name them, such as ZCYX")
    parser.add_argument("--time", type=int, metavar="T", help="fuse one time point, counted from 0 (default: all)")
    parser.add_argument(
        "--channels",
        type=_channels,
        metavar="LIST",
        help="up to three channels that decide for all, by number from 1 or name: 1,3 or DAPI,GFP; or each: every channel separately",
    )
    parser.add_argument("--strict-chunks", action="store_true", help="refuse a Zarr with missing chunks, which otherwise count as empty")
    parser.add_argument("--scratch", type=to_path, metavar="DIR", help="folder for decoded copies of PNG and JPEG images")


def _frame(text: str) -> int | str:
    # a name of digits alone cannot be given: numbers come first
    return int(text) if text.isdecimal() else text


def _order(text: str) -> list[int] | str:
    try:
        return text if text == "reversed" else [int(number) for number in text.split(",")]
    except ValueError:
        msg = f"{text!r} was given, reversed or frame numbers with commas between them are needed"
        raise argparse.ArgumentTypeError(msg) from None


def _channels(text: str) -> list[int | str] | str:
    return text if text == "each" else [_frame(name.strip()) for name in text.split(",")]
