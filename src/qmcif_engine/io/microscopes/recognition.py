"""Kinds of microscope files, told by their first bytes, and the libraries that read them; none is loaded before its kind occurs.

The libraries are an extra: ``pip install "napari-qmcif[microscopes]"``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from qmcif_engine.errors import MissingExtraError
from qmcif_engine.io.input.guarded_reading import is_installed
from qmcif_engine.io.input.image_file import check_regular_file, refuse_content, translate_failures

if TYPE_CHECKING:
    from pathlib import Path

_N_BYTES = 16
_LIF_MARK = slice(8, 9)


@dataclass(frozen=True, slots=True)
class FileKind:
    """One kind of file: what people call it, the library that reads it, and our module and class that ask that library."""

    name: str
    library: str
    module: str
    reader: str


_CZI = FileKind("a Zeiss CZI file", "pylibCZIrw", "czi", "CziReader")
_ND2 = FileKind("a Nikon ND2 file", "nd2", "nd2_file", "Nd2Reader")
_LIF = FileKind("a Leica LIF file", "liffile", "lif", "LifReader")

_UNREAD = {
    ".oib": "Olympus",
    ".oif": "Olympus",
    ".oir": "Olympus",
    ".vsi": "Olympus",
    ".zvi": "Zeiss",
    ".lof": "Leica",
    ".xlef": "Leica",
    ".ims": "Imaris",
    ".dv": "DeltaVision",
    ".mrxs": "3DHISTECH",
    ".dm3": "Gatan",
    ".dm4": "Gatan",
}
_IMAGE_SIGNATURES = (b"\x89PNG", b"\xff\xd8", b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")


def recognize_microscope(path: Path) -> FileKind | None:
    """Return which kind of microscope file this is, None for another kind.

    Raises
    ------
    ImageFileError
        For the files of microscopes that no library is used for.
    """
    start = translate_failures(_read_start, path)
    if start.startswith(b"ZISRAWFILE"):
        return _CZI
    # ND2 of today, and the older kind, which is a JPEG 2000 file inside
    if start.startswith((b"\xda\xce\xbe\x0a", b"\x00\x00\x00\x0cjP  ")) and path.suffix.lower() not in (".jp2", ".jpx"):
        return _ND2
    # both marks that every block of a LIF file begins with
    if start.startswith(b"\x70\0\0\0") and start[_LIF_MARK] == b"\x2a":
        return _LIF
    maker = _UNREAD.get(path.suffix.lower())
    if maker is not None and not start.startswith(_IMAGE_SIGNATURES):
        raise refuse_content(
            path,
            given=f"what a program of {maker} wrote",
            needed="CZI, ND2, LIF, OME-TIFF or OME-Zarr",
            remedy="export it as OME-TIFF, or convert it with bioformats2raw",
        )
    return None


def check_library(kind: FileKind, path: Path) -> None:
    """Refuse a file whose library is not installed.

    Raises
    ------
    MissingExtraError
    """
    if not is_installed(kind.library):
        msg = (
            f"{str(path)!r} is {kind.name}; {kind.library} is needed to read it; "
            "install it with: pip install 'napari-qmcif[microscopes]', or export the stack as OME-TIFF"
        )
        raise MissingExtraError(msg)


def _read_start(path: Path) -> bytes:
    check_regular_file(path)
    with path.open("rb") as stream:
        return stream.read(_N_BYTES)
