"""Small sound files as microscopes and cameras write them: Zeiss CZI, Nikon ND2, Leica LIF, DNG of a camera, HEIC of a phone."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import tifffile
from seed_images import SIDE, make_images

if TYPE_CHECKING:
    from collections.abc import Mapping

_HEIC = Path(__file__).with_name("phone.heic").read_bytes()
"""64 x 48 pixels; no library that we use encodes HEIC, so it was encoded once."""


def write_heic(folder: Path) -> list[str]:
    """Write two images of a phone."""
    for number in range(2):
        (folder / f"{number}.heic").write_bytes(_HEIC)
    return ["0.heic", "1.heic"]


def write_dng(folder: Path) -> list[str]:
    """Write two images of a camera with a Bayer pattern."""
    one, none = (10000, 10000), (0, 10000)
    tags = [
        (271, "s", 0, "Maker", True), (274, "H", 1, 1, True), (33421, "H", 2, (2, 2), True), (33422, "B", 4, (0, 1, 1, 2), True),
        (50706, "B", 4, (1, 4, 0, 0), True), (50708, "s", 0, "Maker Model", True), (50714, "H", 1, 10, True), (50717, "H", 1, 4095, True),
        (50721, "2i", 9, (*one, *none, *none, *none, *one, *none, *none, *none, *one), True), (50728, "2I", 3, one * 3, True),
        (50778, "H", 1, 21, True),
    ]  # fmt: skip
    for number, image in enumerate(make_images(np.uint16)):
        tifffile.imwrite(folder / f"{number}.dng", np.tile(image, (2, 2)), photometric="cfa", extratags=tags, metadata=None)
    return ["0.dng", "1.dng"]


def write_czi(folder: Path) -> list[str]:
    """Write a stack by the library of the maker."""
    from pylibCZIrw import czi

    with czi.create_czi(str(folder / "a.czi")) as file:
        for number, image in enumerate(make_images(np.uint16)):
            file.write(np.ascontiguousarray(image[..., np.newaxis]), plane={"Z": number, "C": 0, "T": 0})
        file.write_metadata(channel_names={0: "DAPI"}, scale_x=2e-7, scale_y=2e-7, scale_z=5e-7)
    return ["a.czi"]


def write_lif(folder: Path) -> list[str]:
    """Write a stack as Leica lays it out: XML in UTF-16, then a block of samples."""
    images = make_images()
    height, width = SIDE
    steps = ((1, width, 1), (2, height, width), (3, len(images), height * width))
    sides = "".join(
        f'<DimensionDescription DimID="{axis}" NumberOfElements="{length}" Origin="0" Length="1e-5" Unit="m" BitInc="0" '
        f'BytesInc="{stride}"/>'
        for axis, length, stride in steps
    )
    text = (
        '<LMSDataContainerHeader Version="2"><Element Name="p" UniqueID="p"><Data><Experiment Path="" IsSavedFlag="1"/></Data>'
        '<Memory Size="0" MemoryBlockID="MemBlock_p"/><Children><Element Name="s" UniqueID="0"><Data><Image TextDescription="">'
        '<ImageDescription><Channels><ChannelDescription DataType="0" ChannelTag="0" NameOfMeasuredQuantity="" Min="0" Max="255" Unit="" '
        f'IsLUTInverted="0" Resolution="8" LUTName="Green" BytesInc="0" BitInc="0"/></Channels><Dimensions>{sides}</Dimensions>'
        f'</ImageDescription></Image></Data><Memory Size="{images.nbytes}" MemoryBlockID="MemBlock_0"/><Children/></Element></Children>'
        "</Element></LMSDataContainerHeader>"
    ).encode("utf-16-le")
    label = "MemBlock_0".encode("utf-16-le")
    block = b"\x2a" + struct.pack("<Q", images.nbytes) + b"\x2a" + struct.pack("<I", len(label) // 2) + label
    head = b"\x2a" + struct.pack("<I", len(text) // 2) + text
    parts = (struct.pack("<II", 0x70, len(head)), head, struct.pack("<II", 0x70, len(block)), block, images.tobytes())
    (folder / "a.lif").write_bytes(b"".join(parts))
    return ["a.lif"]


_SIGNATURE, _FILE_MAP, _CHUNK_MAP = (
    b"ND2 FILE SIGNATURE CHUNK NAME01!", b"ND2 FILEMAP SIGNATURE NAME 0001!", b"ND2 CHUNK MAP SIGNATURE 0000001!",
)  # fmt: skip
_CHUNK_MAGIC = 0x0ABECEDA
_FRAME_NAME_BYTES = 4072
"""Room for the name of a frame, so that its samples begin at a page of memory, behind 8 bytes of time."""


def write_nd2(folder: Path) -> list[str]:
    """Write a stack as Nikon lays it out: named chunks, those of metadata as trees of typed values, and a map of all chunks at the end."""
    images = make_images(np.uint16)
    height, width = SIDE
    attributes = {
        "uiWidth": width, "uiWidthBytes": 2 * width, "uiHeight": height, "uiComp": 1, "uiBpcInMemory": 16, "uiBpcSignificant": 12,
        "uiSequenceCount": len(images), "uiTileWidth": width, "uiTileHeight": height, "eCompression": 2, "dCompressionParam": 0.0,
        "ePixelType": 1, "uiVirtualComponents": 1,
    }  # fmt: skip
    loop = {
        "uiCount": len(images),
        "dZLow": 0.0,
        "dZHigh": 0.5,
        "dZStep": 0.5,
        "dZHome": 0.0,
        "bZInverted": False,
        "wsZDevice": "Z",
        "iType": 0,
    }
    experiment = {"eType": 4, "uLoopPars": loop, "uiNextLevelCount": 0, "wsApplicationDesc": ""}
    probe = {"m_sName": "", "m_uiColor": 65280, "m_ExcitationSpectrum": {"bPoints": False, "uiCount": 0}}
    plane = {
        "sDescription": "GFP",
        "uiColor": 65280,
        "uiCompCount": 1,
        "uiModalityMask": 134218241,
        "uiSampleIndex": 0,
        "pFluorescentProbe": probe,
    }
    planes = {"uiCount": 1, "uiCompCount": 1, "uiSampleCount": 0, "sPlaneNew": {"a0": plane}}
    picture = {"dCalibration": 0.2, "bCalibrated": True, "dAspect": 1.0, "dTimeMSec": 0.0, "dTimeAbsolute": 2456827.0, "dXPos": 0.0,
               "dYPos": 0.0, "dZPos": 0.0, "dObjectiveMag": 60.0, "dObjectiveNA": 0.9, "dZoom": 1.0, "sPicturePlanes": planes}  # fmt: skip
    chunks = {
        b"ImageAttributesLV!": _branch("SLxImageAttributes", attributes),
        b"ImageMetadataLV!": _branch("SLxExperiment", experiment),
        b"ImageMetadataSeqLV|0!": _branch("SLxPictureMetadata", picture),
    } | {b"ImageDataSeq|%d!" % number: bytes(8) + image.tobytes() for number, image in enumerate(images)}
    content, places = _chunk(_SIGNATURE, b"Ver3.0".ljust(64, b"\0"), name_bytes=len(_SIGNATURE)), b""
    for name, data in chunks.items():
        places += name + struct.pack("<QQ", len(content), len(data))
        content += _chunk(name, data, name_bytes=_FRAME_NAME_BYTES)
    end = _CHUNK_MAP + struct.pack("<Q", len(content))
    (folder / "a.nd2").write_bytes(content + _chunk(_FILE_MAP, places + end, name_bytes=len(_FILE_MAP)))
    return ["a.nd2"]


def _chunk(name: bytes, data: bytes, *, name_bytes: int) -> bytes:
    return struct.pack("<IIQ", _CHUNK_MAGIC, name_bytes, len(data)) + name.ljust(name_bytes, b"\0") + data


def _branch(name: str, values: Mapping[str, object]) -> bytes:
    """Return a tree of values as ND2 stores it: each has a type, a name, and its bytes; behind a branch is a table of its entries."""
    entries = b"".join(_branch(key, value) if isinstance(value, dict) else _leaf(key, value) for key, value in values.items())
    head = _head(11, name)
    return head + struct.pack("<IQ", len(values), len(head) + 12 + len(entries)) + entries + bytes(8 * len(values))


def _leaf(name: str, value: object) -> bytes:
    if isinstance(value, str):
        return _head(8, name) + value.encode("utf-16-le") + bytes(2)
    kind, layout = (1, "<B") if isinstance(value, bool) else (6, "<d") if isinstance(value, float) else (3, "<I")
    return _head(kind, name) + struct.pack(layout, value)


def _head(kind: int, name: str) -> bytes:
    return bytes((kind, len(name) + 1)) + name.encode("utf-16-le") + bytes(2)
