"""Notes of camera makers, which hold positions within their EXIF block, on their way through a fusion."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from PIL import Image

from qmcif_engine.cli import main
from qmcif_engine.stack.synthetic import make_focus_stack

EXIF_DIRECTORY, MAKER_NOTE = 34665, 37500
NOTE = b"TESTNOTE" + bytes(range(1, 57))


def lay_out_block():
    """An EXIF block of a maker's name and of an inner directory with a maker's note, which lies at the end."""
    maker = b"Testmaker\0"
    inner = 8 + 2 + 2 * 12 + 4 + len(maker)
    first = struct.pack("<H", 2)
    first += struct.pack("<HHII", 271, 2, len(maker), inner - len(maker)) + struct.pack("<HHII", EXIF_DIRECTORY, 4, 1, inner)
    first += struct.pack("<I", 0) + maker
    second = struct.pack("<H", 1) + struct.pack("<HHII", MAKER_NOTE, 7, len(NOTE), inner + 2 + 12 + 4) + struct.pack("<I", 0)
    return b"II*\0" + struct.pack("<I", 8) + first + second + NOTE


@pytest.mark.parametrize("suffix", ["jpg", "png"])
def test_note_stays_in_its_place(tmp_path, suffix):
    block = lay_out_block()
    for number, image in enumerate(make_focus_stack(n_images=2, shape=(48, 64), dtype=np.uint8).images):
        Image.fromarray(image).save(tmp_path / f"{number}.jpg", quality=95, exif=b"Exif\0\0" + block)
    target = tmp_path / f"fused.{suffix}"
    assert main(["fuse", str(tmp_path / "0.jpg"), str(tmp_path / "1.jpg"), "-o", str(target)]) == 0
    with Image.open(target) as picture:
        assert picture.getexif()[271] == "Testmaker"
        assert picture.getexif().get_ifd(EXIF_DIRECTORY)[MAKER_NOTE] == NOTE
        written = picture.info["exif"].removeprefix(b"Exif\0\0")
    assert written.index(NOTE) == block.index(NOTE)
