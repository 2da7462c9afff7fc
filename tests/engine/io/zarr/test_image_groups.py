from __future__ import annotations

import json

import numpy as np
import pytest
import zarr

from qmcif_engine.errors import ImageFileError, InvalidConfigError
from qmcif_engine.io.input.open import open_stack
from qmcif_engine.stack.window import Window

NAMES = ("overview", "nuclei & membranes")
AXES = [{"name": name, "type": "space", "unit": "micrometer"} for name in "zyx"]


def samples(number: int) -> np.ndarray:
    return np.full((3, 8, 10), number + 1, "uint16")


def add_image(group: zarr.Group, number: int, **others: object) -> None:
    scale = [{"type": "scale", "scale": [2.0, 0.5, 0.25]}]
    described = {"multiscales": [{"axes": AXES, "datasets": [{"path": "0", "coordinateTransformations": scale}]}]} | others
    is_latest = group.metadata.zarr_format == 3
    group.attrs.update({"ome": described | {"version": "0.5"}} if is_latest else described)
    group.create_array("0", data=samples(number), chunks=(1, 8, 10))


def bioformats2raw(folder, *, version: str = "0.4", names: tuple[str, ...] = NAMES, with_series: bool = True):
    """What bioformats2raw writes: an image a group, the list of them and their names in the group OME."""
    layout = {"bioformats2raw.layout": 3}
    path = folder / "slide.zarr"
    group = zarr.create_group(
        path, zarr_format=2 if version == "0.4" else 3, attributes=layout if version == "0.4" else {"ome": layout | {"version": version}}
    )
    for number in range(len(names)):
        add_image(group.create_group(str(number)), number)
    about = group.create_group("OME")
    if with_series:
        series = {"series": [str(number) for number in range(len(names))]}
        about.attrs.update(series if version == "0.4" else {"ome": series | {"version": version}})
    listed = "".join(f'<Image ID="Image:{number}" Name="{name.replace("&", "&amp;")}"/>' for number, name in enumerate(names))
    xml = f'<?xml version="1.0"?><OME xmlns="http://www.openmicroscopy.org/Schemas/OME/2016-06">{listed}</OME>'
    (path / "OME" / "METADATA.ome.xml").write_text(xml)
    return path


def first_sample(stack) -> int:
    return int(stack.read(0, Window(0, 0, 1, 1))[0, 0])


@pytest.mark.parametrize("with_series", [True, False])
@pytest.mark.parametrize("version", ["0.4", "0.5"])
def test_an_image_of_bioformats2raw_is_chosen_by_number_or_name(tmp_path, version, with_series):
    path = bioformats2raw(tmp_path, version=version, with_series=with_series)
    assert [first_sample(open_stack(path, image=image)) for image in (1, 2, *NAMES)] == [1, 2, 1, 2]
    found = open_stack(path, image=2).metadata
    assert (found.image_name, found.pixel_size, found.z_step) == (NAMES[1], (0.5, 0.25), 2.0)


def test_images_are_listed_where_none_is_chosen(tmp_path):
    path = bioformats2raw(tmp_path)
    message = r"holds 2 images \(1 'overview', 2 'nuclei & membranes'\); one of them is needed; .*--image"
    with pytest.raises(ImageFileError, match=message) as caught:
        open_stack(path)
    assert caught.value.choices == NAMES


@pytest.mark.parametrize("image", [0, 3, "nuclei"])
def test_an_image_that_is_not_there_is_refused(tmp_path, image):
    with pytest.raises(InvalidConfigError, match=r"the image .* was chosen of .*holds 2 images \(1 'overview', 2 "):
        open_stack(bioformats2raw(tmp_path), image=image)


def test_a_name_that_two_images_have_is_refused(tmp_path):
    with pytest.raises(InvalidConfigError, match=r"holds 2 images \(1 'a', 2 'a'\); give the number"):
        open_stack(bioformats2raw(tmp_path, names=("a", "a")), image="a")


def test_the_only_image_needs_no_choice(tmp_path):
    assert first_sample(open_stack(bioformats2raw(tmp_path, names=("alone",)))) == 1


def test_an_input_of_one_image_has_no_second(tmp_path):
    zarr.save_array(tmp_path / "stack.zarr", samples(0))
    assert open_stack(tmp_path / "stack.zarr", image=1).n_images == 3
    with pytest.raises(InvalidConfigError, match=r"the image 2 was chosen of .*holds 1 image \(1 'stack.zarr'\)"):
        open_stack(tmp_path / "stack.zarr", image=2)


def rewrite(file, change) -> None:
    content = json.loads(file.read_text())
    change(content)
    file.write_text(json.dumps(content))


@pytest.mark.parametrize("series", [["../elsewhere"], ["/0"], [0], [], "0", ["0"] * 70_000])
def test_a_list_of_images_that_is_none_is_refused(tmp_path, series):
    path = bioformats2raw(tmp_path)
    rewrite(path / "OME" / ".zattrs", lambda content: content.update(series=series))
    with pytest.raises(ImageFileError, match=r"slide.zarr' is truncated or corrupt \(its image is said to be at|\(it lists no images"):
        open_stack(path, image=1)


@pytest.mark.parametrize("text", ["<OME", "<!DOCTYPE x><OME/>", "<OME>\x00</OME>"])
def test_a_description_that_cannot_be_parsed_is_refused(tmp_path, text):
    path = bioformats2raw(tmp_path)
    (path / "OME" / "METADATA.ome.xml").write_text(text)
    with pytest.raises(ImageFileError, match="its OME-XML"):
        open_stack(path, image=1)


def test_labels_are_refused_by_name(tmp_path):
    group = zarr.create_group(tmp_path / "image.zarr", zarr_format=2)
    add_image(group, 0)
    labels = group.create_group("labels", attributes={"labels": ["nuclei"]})
    add_image(labels.create_group("nuclei"), 1, **{"image-label": {"version": "0.4"}})
    with pytest.raises(ImageFileError, match=r"nuclei' holds the labels of an image, .* pass one, such as '.*image.zarr'$"):
        open_stack(tmp_path / "image.zarr" / "labels" / "nuclei")
    with pytest.raises(ImageFileError, match=r"holds a list of labels \(nuclei\); an image is needed; pass one, such as '.*image.zarr'$"):
        open_stack(tmp_path / "image.zarr" / "labels")


@pytest.mark.parametrize("version", ["0.4", "0.5"])
def test_wells_and_plates_are_refused_by_name(tmp_path, version):
    plate = {"plate": {"wells": [{"path": "B/03"}], "rows": [], "columns": []}}
    well = {"well": {"images": [{"path": "0"}, {"path": "1"}]}}
    for name, attributes in (("plate", plate), ("well", well)):
        zarr.create_group(
            tmp_path / f"{name}.zarr",
            zarr_format=2 if version == "0.4" else 3,
            attributes=attributes if version == "0.4" else {"ome": attributes | {"version": version}},
        )
    with pytest.raises(ImageFileError, match=r"holds a plate of 1 wells \(B/03\); an image is needed; .*plate.zarr/B/03/0'$"):
        open_stack(tmp_path / "plate.zarr")
    with pytest.raises(ImageFileError, match=r"holds a well of 2 images \(0, 1\); an image is needed; .*well.zarr/0'$"):
        open_stack(tmp_path / "well.zarr")


@pytest.mark.parametrize("kind", ["plate", "well"])
@pytest.mark.parametrize("content", [7, [], {}, {"wells": 3, "images": 3}, {"wells": [7], "images": [None]}])
def test_wells_and_plates_that_are_damaged_are_refused(tmp_path, kind, content):
    zarr.create_group(tmp_path / "odd.zarr", zarr_format=2, attributes={kind: content})
    with pytest.raises(ImageFileError, match=f"holds a {kind} of"):
        open_stack(tmp_path / "odd.zarr")


def test_versions_with_systems_of_coordinates_are_read(tmp_path):
    systems = [{"name": "stage", "axes": [{"name": "a"}]}, {"name": "physical", "axes": AXES}]
    steps = [{"type": "scale", "scale": [2.0, 0.5, 0.25]}, {"type": "translation", "translation": [1.0, 2.0, 3.0]}]
    level = {"path": "0", "coordinateTransformations": [{"type": "sequence", "input": "0", "output": "physical", "transformations": steps}]}
    further = [{"type": "scale", "scale": [9.0, 9.0, 9.0], "input": "physical", "output": "stage"}]
    multiscale = {"name": "embryo", "coordinateSystems": systems, "datasets": [level], "coordinateTransformations": further}
    group = zarr.create_group(tmp_path / "new.zarr", zarr_format=3, attributes={"ome": {"version": "0.6", "multiscales": [multiscale]}})
    group.create_array("0", data=samples(0), chunks=(1, 8, 10))
    stack = open_stack(tmp_path / "new.zarr")
    found = stack.metadata
    assert (stack.n_images, found.pixel_size, found.z_step, found.unit) == (3, (0.5, 0.25), 2.0, "micrometer")
    assert found.image_name == "embryo"


@pytest.mark.parametrize("systems", [[], [7], [{"name": "a"}], "x"])
def test_systems_of_coordinates_that_make_no_sense_are_refused(tmp_path, systems):
    multiscale = {"coordinateSystems": systems, "datasets": [{"path": "0"}]}
    group = zarr.create_group(tmp_path / "new.zarr", zarr_format=3, attributes={"ome": {"version": "0.6", "multiscales": [multiscale]}})
    group.create_array("0", data=samples(0), chunks=(1, 8, 10))
    with pytest.raises(ImageFileError, match="its OME-Zarr metadata make no sense"):
        open_stack(tmp_path / "new.zarr")
