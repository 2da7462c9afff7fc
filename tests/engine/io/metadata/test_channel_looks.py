"""Names, colors, contrast limits, wavelengths and order of channels reach the result, whichever formats the two have."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import ome_types
import ome_zarr.io
import ome_zarr.reader
import pytest
import tifffile
import yaozarrs

from qmcif_engine import FusionConfig, fuse_to_file, open_stack
from qmcif_engine.io.output.stack_output import write_stack

NAMES, COLORS = ("EGFP", "tdTomato", "Cy5"), ("#00ff00", "#ff8000", "#ff00ff")
LIMITS, EMISSIONS = ((10.0, 200.0), (5.5, 90.25), (0.0, 255.0)), (509.0, None, 670.5)
SUFFIXES = (".ome.tif", ".ome.zarr", ".tif")
CONFIG = FusionConfig().replaced({"iterations": 2})


def planes(dtype: str = "uint16") -> np.ndarray:
    return np.random.default_rng(0).integers(0, 250, (2, 3, 24, 28)).astype(dtype)


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    path = tmp_path_factory.mktemp("source") / "in.ome.tif"
    channels = {"Name": list(NAMES), "Color": [int(color[1:] + "ff", 16) - (2**32 if color > "#7f" else 0) for color in COLORS]}
    described = {"axes": "ZCYX", "Name": "embryo 7", "Description": "three dyes", "PhysicalSizeX": 0.5, "PhysicalSizeY": 0.5}
    tifffile.imwrite(path, planes(), ome=True, metadata=described | {"Channel": channels})
    stack = open_stack(path)
    assert (stack.metadata.channel_names, stack.metadata.channel_colors) == (NAMES, COLORS)
    return replace(stack, metadata=replace(stack.metadata, channel_limits=LIMITS, channel_emissions_nm=EMISSIONS))


@pytest.fixture(scope="module", params=SUFFIXES)
def fused(request, source, tmp_path_factory):
    path = tmp_path_factory.mktemp("fused") / f"out{request.param}"
    fuse_to_file(source, path, CONFIG)
    return path


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("between", SUFFIXES)
def test_looks_survive_a_stack_in_any_format(source, tmp_path, between, suffix):
    write_stack(source, tmp_path / f"between{between}")
    again = open_stack(tmp_path / f"between{between}")
    write_stack(again, tmp_path / f"out{suffix}")
    found = open_stack(tmp_path / f"out{suffix}").metadata
    assert found.channel_names == NAMES
    assert found.channel_colors == COLORS
    assert found.channel_limits == LIMITS
    assert found.channel_emissions_nm == EMISSIONS
    assert (found.image_name, found.description) == ("embryo 7", "three dyes")
    assert (found.pixel_size, found.unit) == (pytest.approx((0.5, 0.5)), "micrometer")


def test_other_libraries_read_the_looks(fused):
    if fused.name.endswith(".ome.tif"):
        image = ome_types.from_tiff(fused).images[0]
        assert (image.name, image.description) == ("embryo 7", "three dyes")
        channels = image.pixels.channels
        assert [channel.name for channel in channels] == list(NAMES)
        assert [channel.color.as_hex("long")[:7] for channel in channels] == list(COLORS)
        assert [channel.emission_wavelength for channel in channels] == list(EMISSIONS)
        notes = ome_types.from_tiff(fused).structured_annotations.map_annotations[0].value.ms
        assert [entry.value for entry in notes] == [f"{low!r} {high!r}" for low, high in LIMITS]
    elif fused.name.endswith(".zarr"):
        yaozarrs.validate_zarr_store(fused)
        node = next(iter(ome_zarr.reader.Reader(ome_zarr.io.parse_url(fused))()))
        assert node.metadata["channel_names"] == list(NAMES)
        assert [list(limits) for limits in node.metadata["contrast_limits"]] == [list(limits) for limits in LIMITS]
        shown = ["#" + bytes(np.rint(np.multiply(ramp[1], 255)).astype(np.uint8)).hex() for ramp in node.metadata["colormap"]]
        assert shown == list(COLORS)
    else:
        with tifffile.TiffFile(fused) as tiff:
            notes = tiff.imagej_metadata
            assert (tiff.series[0].kind, tiff.series[0].axes) == ("imagej", "CYX")
            assert tiff.series[0].dataoffset is not None  # ImageJ takes planes to follow each other
        assert notes["Labels"] == list(NAMES)
        assert notes["Ranges"] == tuple(limit for pair in LIMITS for limit in pair)
        assert ["#" + bytes(table[:, 255]).hex() for table in notes["LUTs"]] == list(COLORS)
        assert notes["Info"] == "Name = embryo 7\nDescription = three dyes\nEmission 1 = 509 nm\nEmission 3 = 670.5 nm\n"


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("channels", [None, [1], "each"])
def test_three_channels_without_names_are_never_samples_of_one_pixel(tmp_path, suffix, channels):
    tifffile.imwrite(tmp_path / "in.ome.tif", planes(), ome=True, metadata={"axes": "ZCYX"})
    fuse_to_file(open_stack(tmp_path / "in.ome.tif", channels=channels), tmp_path / f"out{suffix}", CONFIG)
    if suffix == ".ome.zarr":
        group = yaozarrs.open_group(tmp_path / "out.ome.zarr")
        assert [channel.label for channel in group.ome_metadata().omero.channels] == ["Channel 1", "Channel 2", "Channel 3"]
    else:
        with tifffile.TiffFile(tmp_path / f"out{suffix}") as tiff:
            assert (tiff.series[0].axes, tiff.pages.first.samplesperpixel) == ("CYX", 1)


def test_channels_without_limits_are_each_shown_as_far_as_they_have_samples(tmp_path):
    samples = planes()
    samples[:, 1] //= 10
    tifffile.imwrite(tmp_path / "in.ome.tif", samples, ome=True, metadata={"axes": "ZCYX"})
    report = fuse_to_file(open_stack(tmp_path / "in.ome.tif"), tmp_path / "out.ome.zarr", CONFIG)
    node = next(iter(ome_zarr.reader.Reader(ome_zarr.io.parse_url(report.outputs[0]))()))
    picture = np.asarray(node.data[0])
    assert [list(limits) for limits in node.metadata["contrast_limits"]] == [[plane.min(), plane.max()] for plane in picture]


def test_types_that_imagej_lacks_are_written_as_plain_tiff(tmp_path):
    tifffile.imwrite(tmp_path / "in.tif", planes("float64"), metadata={"axes": "ZCYX"}, photometric="minisblack")
    fuse_to_file(open_stack(tmp_path / "in.tif", axes="ZCYX"), tmp_path / "out.tif", CONFIG)
    with tifffile.TiffFile(tmp_path / "out.tif") as tiff:
        assert not tiff.is_imagej
        assert tiff.asarray().shape == (3, 24, 28)
