from __future__ import annotations

import json
from xml.etree import ElementTree

import numpy as np
import pytest
import tifffile

from qmcif_engine.io.output.formats import place_contents
from qmcif_engine.io.output.windowed_image import ArrayImage, ImageContent, assemble_content, halve
from qmcif_engine.io.tiff.tiff_writer import LARGEST_CLASSIC_BYTES, needs_bigtiff
from qmcif_engine.stack.image_metadata import ImageMetadata

OME = "{http://www.openmicroscopy.org/Schemas/OME/2016-06}"
PROVENANCE = {"version": "1.2.3", "identity": "abc", "inputs": ["<a> & ä.png"]}


def noise(shape: tuple[int, ...], dtype: str = "uint8") -> np.ndarray:
    return np.random.default_rng(7).integers(0, np.iinfo(dtype).max, shape, dtype=dtype, endpoint=True)


def stream(target, samples, *, metadata=None, alpha=None, provenance=PROVENANCE, **options) -> None:
    described = metadata or ImageMetadata()
    content = assemble_content(ArrayImage(samples), alpha, metadata=described, provenance=provenance)
    place_contents({target: content}, overwrite=False, **options)


def describe(target) -> ElementTree.Element:
    with tifffile.TiffFile(target) as tiff:
        return ElementTree.fromstring(tiff.ome_metadata)


class SizeOnly:
    """Only looked at, never read."""

    dtype = np.dtype("uint8")

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.shape = shape


@pytest.mark.parametrize("shape", [(1200, 1100, 3), (1025, 700)])
def test_every_level_of_the_pyramid_is_the_half_of_the_one_before(tmp_path, shape):
    samples = noise(shape, "uint16")
    stream(tmp_path / "p.ome.tif", samples)
    with tifffile.TiffFile(tmp_path / "p.ome.tif") as tiff:
        assert len(tiff.series) == len(tiff.pages) == 1
        levels = tiff.series[0].levels
        assert len(levels) == 3
        assert all(page.is_tiled and page.tile == (512, 512) for level in levels for page in level.pages)
        assert [level.keyframe.is_reduced for level in levels] == [False, True, True]
        for level in levels:
            np.testing.assert_array_equal(level.asarray(), samples)
            samples = halve(samples)


def test_channels_with_names_of_their_own_get_a_plane_each(tmp_path):
    samples = noise((600, 520, 3), "uint16")
    stream(tmp_path / "p.ome.tif", samples, metadata=ImageMetadata(channel_names=("DAPI", "GFP", "RFP")))
    with tifffile.TiffFile(tmp_path / "p.ome.tif") as tiff:
        series = tiff.series[0]
        assert (series.axes, len(tiff.pages)) == ("CYX", 3)
        assert tiff.pages.first.photometric == tifffile.PHOTOMETRIC.MINISBLACK
        np.testing.assert_array_equal(series.asarray(), np.moveaxis(samples, -1, 0))
        np.testing.assert_array_equal(series.levels[1].asarray(), np.moveaxis(halve(samples), -1, 0))
    assert [channel.get("Name") for channel in describe(tmp_path / "p.ome.tif").iter(f"{OME}Channel")] == ["DAPI", "GFP", "RFP"]


def test_five_channels_are_written_as_pages_of_plain_tiff_too(tmp_path):
    samples = noise((30, 20, 5), "uint16")
    seen = []
    stream(tmp_path / "p.tif", samples, on_progress=lambda done, total: seen.append((done, total)))
    with tifffile.TiffFile(tmp_path / "p.tif") as tiff:
        np.testing.assert_array_equal([page.asarray() for page in tiff.pages], np.moveaxis(samples, -1, 0))
    assert seen[-1] == (1, 1)  # small enough to be written at once, with what ImageJ wants to know


@pytest.mark.parametrize("names", [(), ("Red", "Green", "Blue"), ("r", "g", "b")])
def test_colors_stay_side_by_side(tmp_path, names):
    stream(tmp_path / "p.ome.tif", noise((30, 20, 3)), metadata=ImageMetadata(channel_names=names))
    with tifffile.TiffFile(tmp_path / "p.ome.tif") as tiff:
        assert tiff.pages.first.photometric == tifffile.PHOTOMETRIC.RGB
        assert tiff.series[0].axes == "YXS"
    (channel,) = describe(tmp_path / "p.ome.tif").iter(f"{OME}Channel")
    assert channel.get("Name") == (", ".join(names) or None)


def test_the_description_holds_pixel_size_bits_and_provenance_and_no_time(tmp_path):
    metadata = ImageMetadata(pixel_size=(0.5, 0.25), unit="micrometer", significant_bits=12)
    stream(tmp_path / "p.ome.tif", noise((30, 20), "uint16"), metadata=metadata)
    root = describe(tmp_path / "p.ome.tif")
    pixels = next(root.iter(f"{OME}Pixels"))
    assert (pixels.get("PhysicalSizeY"), pixels.get("PhysicalSizeX")) == ("0.5", "0.25")
    assert (pixels.get("PhysicalSizeYUnit"), pixels.get("PhysicalSizeXUnit")) == ("µm", "µm")
    assert (pixels.get("SignificantBits"), pixels.get("Type")) == ("12", "uint16")
    annotation = next(root.iter(f"{OME}CommentAnnotation"))
    assert annotation.get("Namespace") == "qmcif"
    assert json.loads(annotation[0].text) == {"qmcif": PROVENANCE}
    assert root.get("Creator") == "napari-qmcif 1.2.3"
    with tifffile.TiffFile(tmp_path / "p.ome.tif") as tiff:
        assert "DateTime" not in tiff.pages.first.tags
        assert tiff.pages.first.software == "napari-qmcif 1.2.3"


def test_a_size_without_unit_claims_none(tmp_path):
    stream(tmp_path / "p.ome.tif", noise((30, 20)), metadata=ImageMetadata(pixel_size=(2.0, 2.0)))
    assert next(describe(tmp_path / "p.ome.tif").iter(f"{OME}Pixels")).get("PhysicalSizeXUnit") == "reference frame"


def test_the_identifier_follows_from_what_the_picture_was_made_of(tmp_path):
    identifiers = []
    for name, identity in (("a", "one"), ("b", "one"), ("c", "two")):
        stream(tmp_path / f"{name}.ome.tif", noise((30, 20)), provenance={"identity": identity})
        identifiers.append(describe(tmp_path / f"{name}.ome.tif").get("UUID"))
    assert identifiers[0] == identifiers[1] != identifiers[2]


def test_bigtiff_is_chosen_where_the_tiles_could_pass_four_gigabytes():
    assert LARGEST_CLASSIC_BYTES < 2**32
    for side_px, is_big in ((30_000, False), (32_768, False), (38_000, True)):
        content = ImageContent(image=SizeOnly((side_px, side_px, 3)))
        assert needs_bigtiff(content, n_levels=1) == is_big
    assert needs_bigtiff(ImageContent(image=SizeOnly((34_000, 34_000, 3))))
    assert not needs_bigtiff(ImageContent(image=SizeOnly((34_000, 34_000, 3))), n_levels=1)


@pytest.mark.parametrize("suffix", [".tif", ".ome.tif"])
def test_bigtiff_is_written_with_everything_in_it(tmp_path, suffix, monkeypatch):
    monkeypatch.setattr("qmcif_engine.io.tiff.tiff_writer.LARGEST_CLASSIC_BYTES", 0)
    monkeypatch.setattr("qmcif_engine.io.tiff.tiff_writer.LARGEST_STRIPPED_BYTES", 0)
    samples = noise((600, 520, 3))
    stream(tmp_path / f"p{suffix}", samples)
    with tifffile.TiffFile(tmp_path / f"p{suffix}") as tiff:
        assert tiff.is_bigtiff
        np.testing.assert_array_equal(tiff.series[0].asarray(), samples)
