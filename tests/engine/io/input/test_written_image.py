"""What we wrote is opened again lazily, level by level, with its metadata and its record."""

import dask.array as da
import numpy as np
import pytest
import tifffile

from qmcif_engine.errors import ImageFileError
from qmcif_engine.io.input.written_image import CHUNK_SIDE_PX, WrittenImage
from qmcif_engine.io.output.formats import write_image

RECORD = {"version": "1", "settings": {"focus": 3}}
NAMES = ["a.ome.tif", "a.tif", "a.ome.zarr"]


@pytest.mark.parametrize("channels", [(), (3,)])
@pytest.mark.parametrize("name", NAMES)
def test_an_image_comes_back_with_its_record_and_pixel_size(tmp_path, name, channels):
    samples = np.random.default_rng(0).integers(0, 256, (70, 90, *channels), dtype=np.uint8)
    write_image(tmp_path / name, samples, provenance=RECORD, pixel_size=(0.5, 0.25), unit="micrometer")

    opened = WrittenImage.open(tmp_path / name)

    np.testing.assert_array_equal(opened.levels[0], samples)
    assert opened.record == WrittenImage.find_record(tmp_path / name) == RECORD
    assert (opened.metadata.pixel_size, opened.metadata.unit) == (pytest.approx((0.5, 0.25)), "micrometer")
    assert (opened.has_time, opened.metadata.has_separate_channels) == (False, False)


@pytest.mark.parametrize("name", ["a.ome.tif", "a.ome.zarr"])
@pytest.mark.parametrize("channels", [(), (3,)])
def test_levels_come_fine_to_coarse_with_channels_last(tmp_path, name, channels):
    samples = np.random.default_rng(0).integers(0, 256, (700, 900, *channels), dtype=np.uint8)
    write_image(tmp_path / name, samples, provenance=RECORD)

    levels = WrittenImage.open(tmp_path / name).levels

    assert [level.shape for level in levels][:2] == [(700, 900, *channels), (350, 450, *channels)]
    assert all(isinstance(level, da.Array) for level in levels)
    np.testing.assert_array_equal(levels[0], samples)


def test_a_large_file_is_read_in_parts(tmp_path):
    samples = np.arange(1100 * 1300, dtype=np.uint16).reshape(1100, 1300)
    write_image(tmp_path / "a.tif", samples, provenance=RECORD)

    (level,) = WrittenImage.open(tmp_path / "a.tif").levels

    assert level.chunks == ((CHUNK_SIDE_PX, 1100 - CHUNK_SIDE_PX), (CHUNK_SIDE_PX, 1300 - CHUNK_SIDE_PX))
    np.testing.assert_array_equal(level[1000:1060, 1010:1040], samples[1000:1060, 1010:1040])


def test_sizes_for_printers_say_nothing_of_a_pixel(tmp_path):
    described = '{"qmcif": {"version": "1"}}'
    tifffile.imwrite(tmp_path / "a.tif", np.zeros((8, 9), np.uint8), resolution=(300, 300), resolutionunit="INCH", description=described)

    assert WrittenImage.open(tmp_path / "a.tif").metadata.pixel_size is None


@pytest.mark.parametrize("description", ["", "{", "[1]", '{"qmcif": 3}', "ImageJ=1.1\nqmcif=no\n", "<OME>"])
def test_other_files_have_no_record_and_are_refused(tmp_path, description):
    tifffile.imwrite(tmp_path / "a.tif", np.zeros((8, 9), np.uint8), description=description, metadata=None)
    (tmp_path / "broken.tif").write_bytes(b"II*\0rubbish")
    (tmp_path / "empty").mkdir()

    for name in ("a.tif", "broken.tif", "empty", "missing"):
        assert WrittenImage.find_record(tmp_path / name) is None
    with pytest.raises(ImageFileError, match="no record of ours; an image that this program wrote is needed"):
        WrittenImage.open(tmp_path / "a.tif")
