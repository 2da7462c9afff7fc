from __future__ import annotations

from pathlib import Path

import pytest

from qmcif_engine.errors import ImageFileError
from qmcif_engine.io.metadata.ome_xml import parse_ome

FILE = Path("some.ome.tif")
SIZES = 'SizeX="4" SizeY="4" SizeZ="2" SizeC="2" SizeT="1"'


def ome(attributes: str = "", inner: str = "", before: str = "") -> str:
    return f'{before}<OME xmlns="http://x/OME"><Image><Pixels {SIZES} {attributes}>{inner}</Pixels></Image></OME>'


def described(attributes: str = "", inner: str = ""):
    return parse_ome(ome(attributes, inner), FILE)


def test_text_that_is_not_ome_is_left_alone():
    assert parse_ome("ImageJ=1.53\nimages=3", FILE) is None
    assert parse_ome("", FILE) is None
    assert parse_ome("<OME></OME>", FILE) is None


def test_pixel_sizes_are_micrometers_where_no_unit_is_given():
    found = described('PhysicalSizeX="0.5" PhysicalSizeY="0.25" PhysicalSizeZ="2"')
    assert (found.pixel_size, found.z_step, found.unit) == ((0.25, 0.5), 2.0, "micrometer")


def test_different_units_are_brought_to_one():
    found = described('PhysicalSizeX="500" PhysicalSizeXUnit="nm" PhysicalSizeY="0.5" PhysicalSizeZ="2" PhysicalSizeZUnit="mm"')
    assert found.unit == "nanometer"
    assert found.pixel_size == pytest.approx((500, 500))
    assert found.z_step == pytest.approx(2e6)


@pytest.mark.parametrize("size", ["0", "-1", "nan", "many", ""])
def test_senseless_sizes_are_left_out(size):
    found = described(f'PhysicalSizeX="{size}" PhysicalSizeY="{size}"')
    assert (found.pixel_size, found.unit) == (None, None)


def test_units_that_are_no_lengths_are_left_out():
    assert described('PhysicalSizeX="1" PhysicalSizeXUnit="pixel" PhysicalSizeY="1" PhysicalSizeYUnit="pixel"').pixel_size is None


def test_names_of_channels_are_kept_and_missing_ones_are_numbers():
    assert described(inner='<Channel Name="DAPI"/><Channel Name="GFP"/>').channel_names == ("DAPI", "GFP")
    assert described(inner='<Channel Name="DAPI"/><Channel/>').channel_names == ("DAPI", "Channel 2")
    assert described(inner="<Channel/><Channel/>").channel_names == ()


def test_document_types_and_entities_are_refused_before_parsing():
    bomb = '<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;">]>'
    with pytest.raises(ImageFileError, match="its OME-XML or other description is too long or declares a document type"):
        parse_ome(ome(before=bomb), FILE)


def test_endless_text_is_refused_before_parsing():
    with pytest.raises(ImageFileError, match="its OME-XML or other description is too long"):
        parse_ome(" " * 2**25 + ome(), FILE)


def test_broken_text_is_refused():
    with pytest.raises(ImageFileError, match="its OME-XML cannot be parsed: mismatched tag"):
        parse_ome("<OME><Image></OME>", FILE)


def test_axes_within_axes_are_refused():
    with pytest.raises(ImageFileError, match=r"holds axes within axes \(OME modulo\); plain T, C, Z is needed; export it without them"):
        parse_ome(ome(inner='<ModuloAlongT Start="0" End="1e12" Step="1"/>'), FILE)


def test_sizes_that_are_missing_are_refused():
    with pytest.raises(ImageFileError, match="its OME-XML gives no sound size: 'SizeZ'"):
        parse_ome('<OME><Pixels SizeX="4"/></OME>', FILE)


def test_colors_of_channels_are_kept_and_missing_ones_are_white():
    blue, green = 0x0000FFFF, 0x00FF00FF
    assert described(inner=f'<Channel Color="{blue}"/><Channel Color="{green}"/>').channel_colors == ("#0000ff", "#00ff00")
    assert described(inner=f'<Channel Color="{0xFF0000FF - 2**32}"/>').channel_colors == ("#ff0000",)
    for senseless in ("", "red", str(2**40)):
        assert described(inner=f'<Channel Color="{blue}"/><Channel Color="{senseless}"/>').channel_colors == ("#0000ff", "#ffffff")
    assert described(inner="<Channel/><Channel/>").channel_colors == ()


def test_wavelengths_and_steps_in_time_are_read_in_any_unit():
    inner = '<Channel EmissionWavelength="0.509" EmissionWavelengthUnit="µm"/><Channel EmissionWavelength="-3"/>'
    found = described('TimeIncrement="2.5" TimeIncrementUnit="min"', inner)
    assert found.channel_emissions_nm == (pytest.approx(509), None)
    assert found.time_step == 150
    for unit in ("", "parsec"):
        assert described(f'TimeIncrement="2.5" TimeIncrementUnit="{unit}"').time_step is None


def test_name_and_description_of_the_image_are_read():
    text = ome().replace("<Image>", '<Image Name="embryo"><Description>two dyes</Description>')
    found = parse_ome(text, FILE)
    assert (found.image_name, found.description) == ("embryo", "two dyes")


@pytest.mark.parametrize("limits", ["1", "2 1", "a b", "nan 1", "1 inf", ""])
def test_limits_that_are_none_are_left_out(limits):
    note = f'<MapAnnotation Namespace="qmcif/display limits"><Value><M K="channel 1">{limits}</M></Value></MapAnnotation>'
    text = ome(inner="<Channel/>").replace("</OME>", note + "</OME>")
    assert parse_ome(text, FILE).channel_limits == ()
