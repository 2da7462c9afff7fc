"""Keep the metadata blocks of cameras fit to be stored with another picture."""

from __future__ import annotations

import struct

from qmcif_engine.io.metadata.orientation import UPRIGHT, find_exif_orientation

_ORDERS = {b"II*\0": "<", b"MM\0*": ">"}
_PROFILE_SIGNATURE = slice(36, 40)


def set_upright(exif: bytes) -> bytes | None:
    """Return an EXIF block that says upright, since the samples are turned when they are read; None for an empty or alien block.

    Parameters
    ----------
    exif : bytes
        The TIFF structure of the block, beginning with its byte order mark.
    """
    order = _ORDERS.get(exif[:4])
    place = find_exif_orientation(exif)
    if order is None or place is None:
        return exif if order else None
    return exif[:place] + struct.pack(order + "H", UPRIGHT) + exif[place + 2 :]


def check_profile(profile: bytes) -> bytes | None:
    """Return a color profile whose length and signature are those of one, else None: a broken one would spoil the output."""
    is_sound = len(profile) >= 128 and profile[_PROFILE_SIGNATURE] == b"acsp" and int.from_bytes(profile[:4], "big") == len(profile)
    return profile if is_sound else None
