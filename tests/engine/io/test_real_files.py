"""Files of public projects, each named by its test: fused with what it says of itself, or refused with the remedy."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import ome_types
import pytest
import tifffile
from scipy import ndimage

from qmcif_engine.cli import main
from qmcif_engine.io.input.open import open_stack
from qmcif_engine.stack.window import Window

FILES = Path(__file__).parents[4] / "shared" / "data" / "files"

pytestmark = [pytest.mark.shared, pytest.mark.skipif(not FILES.is_dir(), reason="the files of other projects are not there")]


def fused(folder, *arguments):
    """Return the image that the command line writes."""
    target = folder / "fused.ome.tif"
    assert main(["fuse", *map(str, arguments), "-o", str(target)]) == 0
    return target


def blended_within_range(picture, stored):
    """Return whether every sample lies in the range of the images, stored along the first axis, in the 13 px around it.

    Brightness is blended apart from detail, so a blended sample need not lie between those of its own pixel; hardly any lies outside.
    """
    size = (1,) * (picture.ndim - 2) + (13, 13)
    least, most = ndimage.minimum_filter(stored.min(axis=0), size), ndimage.maximum_filter(stored.max(axis=0), size)
    is_between = (stored.min(axis=0) <= picture) & (picture <= stored.max(axis=0))
    return (least <= picture).all() and (picture <= most).all() and is_between.mean() > 0.95


def test_bead_palette_imagej_is_gray_and_keeps_its_scale(tmp_path):
    stack = open_stack(FILES / "bead_palette_imagej.tif")
    assert (stack.n_images, stack.image_shape, stack.dtype) == (41, (150, 150), np.uint8)
    metadata = stack.metadata
    assert (metadata.z_step, metadata.unit, metadata.channel_colors) == (0.125, "micrometer", ("#ffffff",))
    assert metadata.pixel_size == pytest.approx((1 / 44.460534, 1 / 44.460534))
    stored = tifffile.imread(FILES / "bead_palette_imagej.tif")
    np.testing.assert_array_equal(stack.read(20, Window(0, 0, 150, 150)), stored[20])
    picture = tifffile.imread(fused(tmp_path, FILES / "bead_palette_imagej.tif"))
    assert (picture.shape, picture.dtype) == ((150, 150), np.uint8)
    assert (picture == stored).any(axis=0).mean() > 0.9, "most samples are those of one image"


def test_leica_palette_is_gray_and_keeps_its_green(tmp_path):
    stack = open_stack(FILES / "leica_palette")
    assert (stack.n_images, stack.image_shape, stack.dtype) == (3, (256, 256), np.uint8)
    assert stack.metadata.channel_colors == ("#00ff00",)
    stored = np.stack([tifffile.imread(path) for path in sorted((FILES / "leica_palette").iterdir())])
    picture = tifffile.imread(fused(tmp_path, FILES / "leica_palette"))
    assert picture.dtype == np.uint8
    assert (picture == stored).any(axis=0).mean() > 0.9


def test_int8_channels_without_focus_positions_is_refused_with_the_axes_to_name(tmp_path, capsys):
    path = FILES / "int8_channels.ome.tif"
    assert main(["fuse", str(path), "-o", str(tmp_path / "fused.ome.tif")]) == 2
    assert "at least 2 images along one axis other than C are needed: name the axes with" in capsys.readouterr().err


def test_int8_channels_is_fused_in_its_type_where_its_channels_are_named_focus_positions(tmp_path):
    path = FILES / "int8_channels.ome.tif"
    stored = tifffile.imread(path)
    assert stored.dtype == np.int8
    picture = tifffile.imread(fused(tmp_path, path, "--axes", "ZYX"))
    assert (picture.shape, picture.dtype) == ((167, 439), np.int8)
    assert (picture == stored).any(axis=0).mean() > 0.9, "most samples are those of one image"


def test_cluster_nd2_keeps_scale_channels_and_points_in_time(tmp_path):
    nd2 = pytest.importorskip("nd2")
    path = FILES / "cluster.nd2"
    with nd2.ND2File(path) as file:
        stored = file.asarray()
    stack = open_stack(path, time=1)
    assert (stack.n_times, stack.n_images, stack.image_shape, stack.dtype) == (3, 10, (31, 38, 3), np.uint16)
    np.testing.assert_array_equal(stack.read(4, Window(2, 3, 30, 37))[..., :2], np.moveaxis(stored[1, 4], 0, -1)[2:30, 3:37])
    metadata = stack.metadata
    assert metadata.pixel_size == pytest.approx((0.167809, 0.167809), rel=1e-5)
    assert (metadata.z_step, metadata.unit, metadata.significant_bits) == (0.5, "micrometer", 12)
    assert metadata.channel_names == ("5-FAM/pH 9.0", "FM 4-64/2% CHAPS")
    assert metadata.channel_colors == ("#78e90f", "#fe0100")
    picture = tifffile.imread(fused(tmp_path, path, "--time", "1"))
    assert (picture.shape, picture.dtype) == ((2, 31, 38), np.uint16)
    assert (picture == stored[1]).any(axis=0).mean() > 0.5


def test_multiple_images_czi_asks_for_a_scene_and_fuses_it(tmp_path, capsys):
    czi = pytest.importorskip("pylibCZIrw.czi")
    path = FILES / "multiple_images.czi"
    assert main(["fuse", str(path), "-o", str(tmp_path / "none.tif")]) == 2
    assert "holds 2 images (1, 2); one of them is needed; choose it by number or name with --image" in capsys.readouterr().err
    with czi.open_czi(str(path)) as file:
        stored = np.stack([file.read(plane={"Z": z, "C": 0, "T": 0}, scene=1)[..., 0] for z in range(2)])
    stack = open_stack(path, image=2)
    assert (stack.n_images, stack.image_shape, stack.dtype) == (2, (251, 251), np.uint16)
    np.testing.assert_array_equal(stack.read(1, Window(5, 7, 90, 99)), stored[1, 5:90, 7:99])
    metadata = stack.metadata
    assert metadata.pixel_size == pytest.approx((0.1956444, 0.1956444), rel=1e-6)
    assert (metadata.z_step, metadata.unit) == (pytest.approx(0.3), "micrometer")
    assert (metadata.channel_names, metadata.channel_colors) == (("ChA",), ("#ffffff",))
    picture = tifffile.imread(fused(tmp_path, path, "--image", "2"))
    assert (picture == stored).any(axis=0).mean() > 0.9


def test_two_channels_lif_is_cut_across_its_sections(tmp_path, capsys):
    liffile = pytest.importorskip("liffile")
    path = FILES / "two_channels.lif"
    assert main(["fuse", str(path), "-o", str(tmp_path / "none.tif")]) == 2
    assert "holds 3 images (1 'xzt', 2 'xzy', 3 'xz'); one of them is needed" in capsys.readouterr().err
    assert main(["fuse", str(path), "--image", "xz", "-o", str(tmp_path / "none.tif")]) == 2
    assert "a section along Z and X; images along Y and X are needed" in capsys.readouterr().err
    with liffile.LifFile(path) as file:
        stored = file.images[1].asarray()  # Y, C, Z, X
    stack = open_stack(path, image="xzy")
    assert (stack.n_images, stack.image_shape) == (128, (23, 128, 3))
    np.testing.assert_array_equal(stack.read(60, Window(2, 3, 20, 99))[..., :2], np.moveaxis(stored[2:20, :, 60, 3:99], 1, -1))
    metadata = stack.metadata
    assert metadata.pixel_size == pytest.approx((5.039354 / 22, 17.81554 / 127), rel=1e-5)
    assert metadata.z_step == pytest.approx(17.8154 / 127, rel=1e-5)
    assert metadata.channel_colors == ("#00ff00", "#ff0000")
    picture = tifffile.imread(fused(tmp_path, path, "--image", "xzy", "--exclude", "1"))
    assert (picture.shape, picture.dtype) == ((2, 23, 128), np.uint8)


@pytest.mark.parametrize("name", ["cluster.nd2", "multiple_images.czi", "two_channels.lif"])
@pytest.mark.parametrize("part", [0.01, 0.4, 0.6])
def test_truncated_file_of_a_microscope_is_refused_without_a_traceback(tmp_path, capsys, name, part):
    pytest.importorskip({"nd2": "nd2", "czi": "pylibCZIrw", "lif": "liffile"}[name.rpartition(".")[2]])
    content = (FILES / name).read_bytes()
    cut = tmp_path / name
    cut.write_bytes(content[: int(len(content) * part)])
    assert main(["fuse", str(cut), "--image", "2" if name.endswith(("czi", "lif")) else "1", "-o", str(tmp_path / "fused.ome.tif")]) == 2
    message = capsys.readouterr().err
    assert name in message
    assert "Traceback" not in message
    assert not (tmp_path / "fused.ome.tif").exists()


def test_frame_that_a_nd2_lacks_is_not_taken_for_black(tmp_path, capsys):
    pytest.importorskip("nd2")
    content = (FILES / "cluster.nd2").read_bytes()
    assert content.count(b"ImageDataSeq|3!") >= 1
    path = tmp_path / "aborted.nd2"
    path.write_bytes(content.replace(b"ImageDataSeq|3!", b"ImageDataSex|3!"))
    assert main(["fuse", str(path), "--time", "0", "-o", str(tmp_path / "fused.ome.tif")]) == 2
    assert "(frame 4 is missing); a complete file is needed" in capsys.readouterr().err


def test_cells_two_channels_keeps_names_scale_and_order(tmp_path):
    path = FILES / "cells_two_channels.ome.tif"
    stored = tifffile.imread(path)
    stack = open_stack(path)
    assert (stack.n_images, stack.companions.image_shape, stack.dtype) == (60, (66, 85, 2), np.uint16)
    metadata = stack.metadata
    assert metadata.channel_names == ("membrane", "nuclei")
    assert (metadata.pixel_size, metadata.z_step, metadata.unit) == ((1.0, 1.0), 1.0, "micrometer")
    target = fused(tmp_path, path, "--exclude", "1")
    picture, named = tifffile.imread(target), ome_types.from_tiff(target).images[0].pixels.channels
    assert [channel.name for channel in named] == ["membrane", "nuclei"]
    assert (picture.shape, picture.dtype) == ((2, 66, 85), np.uint16)
    assert blended_within_range(picture, np.moveaxis(stored, 1, 0))


@pytest.mark.parametrize("version", ["missing_chunks_v04.zarr", "missing_chunks_v05.zarr"])
def test_missing_chunks_are_empty_ones_unless_reading_is_strict(tmp_path, version, capsys):
    path = FILES / version
    stack = open_stack(path)
    assert (stack.n_times, stack.n_images, stack.companions.image_shape) == (4, 10, (64, 64, 2))
    metadata = stack.metadata
    assert (metadata.channel_names, metadata.channel_colors) == (("channel_0", "channel_1"), ("#00ffff", "#ff00ff"))
    assert (metadata.channel_limits, metadata.time_step) == (((0.0, 65535.0),) * 2, 1.0)
    target = tmp_path / "fused.ome.zarr"
    assert main(["fuse", str(path), "-o", str(target)]) == 0
    looks = open_stack(target, axes="ZCYX").metadata
    assert (looks.channel_colors, looks.channel_limits) == (metadata.channel_colors, metadata.channel_limits)
    assert main(["fuse", str(path), "-o", str(tmp_path / "none.ome.zarr"), "--strict-chunks"]) == 2
    assert "lacks the chunk" in capsys.readouterr().err
    for labels in ("labels", "labels/label"):
        assert main(["fuse", str(path / labels), "-o", str(tmp_path / "none.ome.zarr")]) == 2
        assert "labels" in capsys.readouterr().err


def test_every_file_has_a_test_that_names_it():
    text = Path(__file__).read_text(encoding="utf-8")
    assert [path.name for path in sorted(FILES.iterdir()) if f'"{path.name}"' not in text] == []


MICROSCOPY = {
    "dna_confocal_and_widefield_16bit.tif": (45, (130, 133, 2), "uint16", 0.511878, 0.499413),
    "mitotic_plate.tif": (6, (263, 263), "uint8", 0.0851964, 3.0),
    "neuron_confocal_float32.tif": (50, (256, 256), "float32", None, None),
    "nuclear_envelope.tif": (14, (224, 305), "uint8", 0.24165, None),
    "nucleus_confocal.tif": (7, (207, 207), "uint8", None, None),
    "spots.tif": (17, (88, 89), "uint16", 0.0941345, 0.4),
}
"""Images, shape with all channels, type, side of a pixel and z step in micrometers, as tifffile reads them from the files."""


@pytest.mark.slow
@pytest.mark.parametrize("name", MICROSCOPY)
def test_stack_of_a_microscope_keeps_its_scale_into_ome_tiff(tmp_path, name):
    n_images, shape, dtype, side, z_step = MICROSCOPY[name]
    path = FILES.parent / "microscopy" / name
    stack = open_stack(path)
    assert (stack.n_images, (stack.companions or stack).image_shape, stack.dtype.name) == (n_images, shape, dtype)
    assert stack.metadata.pixel_size == (None if side is None else pytest.approx((side, side), rel=1e-5))
    assert stack.metadata.z_step == (None if z_step is None else pytest.approx(z_step, rel=1e-5))

    target = fused(tmp_path, path, "--preset", "fast")

    pixels = ome_types.from_tiff(target).images[0].pixels
    assert (pixels.size_y, pixels.size_x, pixels.size_z, pixels.type.value.replace("float", "float32")) == (*shape[:2], 1, dtype)
    assert pixels.size_c == (shape[2] if len(shape) == 3 else 1)
    assert pixels.physical_size_x == (None if side is None else pytest.approx(side, rel=1e-5))
    picture = tifffile.imread(target)
    stored = tifffile.imread(path).reshape(n_images, *picture.shape)
    assert blended_within_range(picture, stored)
