"""Outputs that are in place already, known by the provenance in them."""

from __future__ import annotations

import html
import json
import mmap
from typing import TYPE_CHECKING

from qmcif_engine.io.input.bounded_reading import read_bounded
from qmcif_engine.io.limits import LARGEST_NODE_BYTES
from qmcif_engine.io.remote.remote_path import RemotePath

if TYPE_CHECKING:
    from collections.abc import Mapping

    from qmcif_engine.io.remote.remote_path import Location

_METADATA = "zarr.json"


def holds_provenance(output: Location, items: Mapping[str, object]) -> bool:
    """Return whether a file, or the metadata of a Zarr folder, holds each of some items of provenance.

    Every format holds provenance as plain text, so that no reader is needed, nor any memory for an image.
    """
    # one item without its braces: it stands among others
    texts = [json.dumps({name: value})[1:-1] for name, value in items.items()]
    try:
        if isinstance(output, RemotePath):
            described = read_bounded(output / _METADATA, largest_bytes=LARGEST_NODE_BYTES)
            return all(text.encode() in described for text in texts)
        path = output / _METADATA if output.is_dir() else output
        with path.open("rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as content:
            # OME-XML holds the same text escaped
            return all(content.find(text.encode()) >= 0 or content.find(html.escape(text).encode()) >= 0 for text in texts)
    except (OSError, ValueError):  # not to be read, or empty
        return False
