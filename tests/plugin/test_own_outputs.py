"""Written results are opened lazily, level by level."""

import dask.array as da
import numpy as np
import pytest
import tifffile

from napari_qmcif.own_outputs import CHUNK_SIDE_PX, open_pyramid, open_tiles
from qmcif_engine import write_image


@pytest.mark.parametrize("channels", [(), (3,)])
def test_levels_of_a_pyramid_come_fine_to_coarse_with_channels_last(channels, tmp_path):
    picture = np.random.default_rng(0).integers(0, 256, (700, 900, *channels), dtype=np.uint8)
    write_image(tmp_path / "a.ome.zarr", picture)

    levels = open_pyramid(tmp_path / "a.ome.zarr")

    assert [level.shape[:2] for level in levels][:2] == [(700, 900), (350, 450)]
    assert all(isinstance(level, da.Array) for level in levels)
    np.testing.assert_array_equal(levels[0].compute(), picture)


def test_a_tiled_file_is_read_in_parts(tmp_path):
    picture = np.arange(1100 * 1300, dtype=np.uint16).reshape(1100, 1300)
    tifffile.imwrite(tmp_path / "a.tif", picture, tile=(256, 256))

    opened = open_tiles(tmp_path / "a.tif")

    assert opened.chunks == ((CHUNK_SIDE_PX, 1100 - CHUNK_SIDE_PX), (CHUNK_SIDE_PX, 1300 - CHUNK_SIDE_PX))
    np.testing.assert_array_equal(opened[1000:1060, 1010:1040].compute(), picture[1000:1060, 1010:1040])
    np.testing.assert_array_equal(opened.compute(), picture)
