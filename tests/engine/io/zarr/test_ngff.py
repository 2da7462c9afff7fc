from __future__ import annotations

from pathlib import Path

import pytest

from qmcif_engine.errors import ImageFileError
from qmcif_engine.io.zarr.zarr_source import describe_image, name_ngff_axes

FILE = Path("some.zarr")
AXES = [
    {"name": "t", "type": "time", "unit": "second"},
    {"name": "c", "type": "channel"},
    *({"name": name, "type": "space", "unit": "micrometer"} for name in "zyx"),
]


def image(scale=None, *, path: object = "0", axes=AXES, **others):
    level = {"path": path, "coordinateTransformations": [{"type": "scale", "scale": scale or [1, 1, 2, 0.5, 0.25]}]}
    return {"multiscales": [{"axes": axes, "datasets": [level, {"path": "1"}]} | others]}


@pytest.mark.parametrize("version", ["0.4", "0.5"])
def test_image_is_described_in_both_versions(version):
    attributes = image() | {"omero": {"channels": [{"label": "DAPI"}, {"label": "GFP"}]}}
    found = describe_image(attributes if version == "0.4" else {"ome": attributes}, FILE)
    assert (found.array_path, found.axes) == ("0", "TCZYX")
    assert (found.metadata.pixel_size, found.metadata.z_step, found.metadata.unit) == ((0.5, 0.25), 2.0, "micrometer")
    assert found.metadata.channel_names == ("DAPI", "GFP")


def test_scale_of_the_whole_image_multiplies_that_of_the_level():
    both = image(coordinateTransformations=[{"type": "scale", "scale": [1, 1, 10, 10, 10]}])
    assert describe_image(both, FILE).metadata.pixel_size == (5.0, 2.5)


def test_translations_and_senseless_scales_are_left_out():
    attributes = image([1, 1, 2, 0, -1])
    attributes["multiscales"][0]["datasets"][0]["coordinateTransformations"].append({"type": "translation", "translation": [1] * 5})
    assert describe_image(attributes, FILE).metadata.pixel_size is None
    assert describe_image(image([1, 1]), FILE).metadata.pixel_size is None


def test_axes_without_unit_of_length_have_no_size():
    found = describe_image(image(axes=[{"name": name, "type": "space"} for name in "zyx"], scale=[1, 1, 1]), FILE)
    assert (found.metadata.pixel_size, found.metadata.unit, found.axes) == (None, None, "ZYX")


def test_axes_are_known_by_name_then_by_kind():
    kinds = [{"name": "t"}, {"name": "wave", "type": "channel"}, {"name": "angle"}, {"name": "phase"}, {"name": "Y"}, {"name": "x"}]
    assert name_ngff_axes(kinds) == "TCQRYX"


def test_axes_may_be_given_as_names_alone():
    assert describe_image(image(axes=list("tczyx")), FILE).axes == "TCZYX"


@pytest.mark.parametrize("labels", [[{}], [], None, [{"label": 3}], [7]])
def test_labels_that_are_none_are_left_out(labels):
    assert describe_image(image() | {"omero": {"channels": labels}}, FILE).metadata.channel_names == ()


def test_a_missing_label_is_a_number():
    channels = [{"label": "a"}, {}]
    assert describe_image(image() | {"omero": {"channels": channels}}, FILE).metadata.channel_names == ("a", "Channel 2")


@pytest.mark.parametrize("path", ["../secret", "/etc", "a/../../b", "..", ".", "", "a//b", "C:\\x", "a\\b", "a\0b", 3, None])
def test_path_that_leads_out_of_the_group_is_refused(path):
    with pytest.raises(ImageFileError, match="its image is said to be at"):
        describe_image(image(path=path), FILE)


@pytest.mark.parametrize("attributes", [{}, {"multiscales": []}, {"plate": {}}, {"ome": {}}])
def test_group_without_image_is_refused(attributes):
    with pytest.raises(ImageFileError, match="holds a Zarr group without an image; an OME-Zarr image or an array is needed; name the one"):
        describe_image(attributes, FILE)


@pytest.mark.parametrize(
    "attributes", [{"multiscales": [3]}, {"multiscales": {"a": 1}}, {"multiscales": [{}]}, {"multiscales": [{"datasets": []}]}, {"ome": 3}]
)
def test_senseless_metadata_are_refused(attributes):
    with pytest.raises(ImageFileError, match="its OME-Zarr metadata make no sense"):
        describe_image(attributes, FILE)


@pytest.mark.parametrize(
    ("colors", "expected"),
    [(["00FF00", "ff00ff"], ("#00ff00", "#ff00ff")), (["00FF00", "green"], ("#00ff00", "#ffffff")), ([None, "green"], ())],
)
def test_colors_of_channels_are_kept_and_missing_ones_are_white(colors, expected):
    channels = [{"label": "a", "color": color} for color in colors]
    assert describe_image(image() | {"omero": {"channels": channels}}, FILE).metadata.channel_colors == expected
