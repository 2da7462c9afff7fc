"""Results are written through the engine and come back as they were."""

from pathlib import Path

import dask.array as da
import numpy as np
import pytest
import tifffile

from napari_qmcif.layers_out import add_layers
from napari_qmcif.reader import open_files
from napari_qmcif.writer import write_layer, write_result
from qmcif_engine import FusionConfig, QmcifError, fuse_to_file, open_stack, read_image

RECORD = {"version": "1", "made": "today", "path": None, "inputs": [{"layer": "leaf"}], "n_images": 3, "part": "fused"}
ATTRIBUTES = {
    "name": "leaf: fused",
    "rgb": True,
    "scale": (0.5, 0.25),
    "units": ("micrometer", "micrometer"),
    "metadata": {"qmcif": RECORD},
    "multiscale": False,
}


@pytest.mark.parametrize("name", ["a.png", "a.jpg", "a.tif", "a.ome.tif"])
def test_every_format_holds_the_samples(tmp_path, images, name):
    target = str(tmp_path / name)

    assert write_layer(target, images[0], ATTRIBUTES) == [target]

    samples = read_image(target).samples
    if name == "a.jpg":
        assert np.abs(samples.astype(int) - images[0]).mean() < 12
    else:
        np.testing.assert_array_equal(samples, images[0])


@pytest.mark.parametrize("name", ["a.ome.tif", "a.ome.zarr", "a.tif"])
def test_scale_and_record_come_back_without_times_and_places(tmp_path, images, name):
    target = str(tmp_path / name)
    write_layer(target, images[0], ATTRIBUTES)

    ((samples, attributes, _),) = open_files([Path(target)])

    np.testing.assert_array_equal(samples, images[0])
    np.testing.assert_allclose(attributes["scale"], (0.5, 0.25))
    assert {str(unit) for unit in attributes["units"]} <= {"micrometer", "µm"}
    assert attributes["metadata"]["qmcif"] == {"version": "1", "images": 3, "part": "fused"}


def test_pyramids_and_lazy_arrays_are_written_from_their_finest_level(tmp_path, images):
    levels = [da.from_array(images[0], chunks=16), images[0][::2, ::2]]

    write_layer(str(tmp_path / "a.tif"), levels, {**ATTRIBUTES, "multiscale": True})

    np.testing.assert_array_equal(read_image(tmp_path / "a.tif").samples, images[0])


def test_opacity_is_written_as_such(tmp_path, images):
    opaque = np.dstack([images[0], np.full((48, 64), 9, np.uint8)])

    write_layer(str(tmp_path / "a.png"), opaque, ATTRIBUTES)

    read = read_image(tmp_path / "a.png")
    np.testing.assert_array_equal(read.samples, images[0])
    assert (read.alpha == 9).all()


def test_an_existing_file_is_replaced_as_the_dialog_asked(tmp_path, images):
    for image in images[:2]:
        write_layer(str(tmp_path / "a.png"), image, ATTRIBUTES)

    np.testing.assert_array_equal(read_image(tmp_path / "a.png").samples, images[1])


def test_what_a_format_cannot_hold_is_refused_in_the_words_of_the_engine(tmp_path):
    with pytest.raises(QmcifError, match="JPEG holds uint8"):
        write_layer(str(tmp_path / "a.jpg"), np.zeros((4, 5), np.uint16), {**ATTRIBUTES, "rgb": False})


def test_a_result_becomes_a_folder_that_is_read_as_one(tmp_path, images):
    index = np.arange(48 * 64, dtype=np.uint16).reshape(48, 64) % 3
    named = {**ATTRIBUTES, "rgb": False, "name": "leaf: source index", "metadata": {"qmcif": {**RECORD, "part": "source_index"}}}
    plain = {**ATTRIBUTES, "name": "../over: there", "metadata": {}}
    target = str(tmp_path / "result")

    written = write_result(target, [(index, named, "image"), (images[0], ATTRIBUTES, "image"), (images[1], plain, "image")] * 2)

    assert sorted(path.name for path in (tmp_path / "result").iterdir()) == sorted(
        ["source_index.tif", "source_index_2.tif", "fused.ome.tif", "fused_2.ome.tif", "over_there.ome.tif", "over_there_2.ome.tif"]
    )
    assert len(written) == 6
    np.testing.assert_array_equal(tifffile.imread(tmp_path / "result" / "source_index.tif"), index)


@pytest.mark.viewer
@pytest.mark.parametrize("name", ["saved.ome.tif", "saved.ome.zarr", "saved.png"])
def test_a_person_saves_a_layer_and_opens_it_again(tmp_path, images, viewer, name):
    layer = viewer.add_image(images[0], rgb=True, name="leaf", scale=(0.5, 0.5), units=("um", "um"), metadata={"qmcif": RECORD})

    layer.save(str(tmp_path / name), plugin="napari-qmcif")
    if name.endswith("png"):
        (opened,) = viewer.open(str(tmp_path / name))
    else:
        (opened,) = add_layers(viewer, open_files([tmp_path / name]))

    np.testing.assert_array_equal(np.asarray(opened.data), images[0])
    assert opened.rgb
    if not name.endswith("png"):
        np.testing.assert_allclose(opened.scale, (0.5, 0.5))
        assert opened.metadata["qmcif"]["version"] == "1"


def channel(number, samples, *, n_channels=2):
    record = {**RECORD, "n_channels": n_channels, "of_result": "run"}
    return (samples[..., number], {**ATTRIBUTES, "rgb": False, "name": f"dye {number}: fused", "metadata": {"qmcif": record}}, "image")


@pytest.mark.parametrize("name", ["a.ome.tif", "a.png"])
def test_one_channel_of_several_is_not_saved_as_the_result(tmp_path, images, name):
    refusal = "'dye 1: fused' is one of 2 channels of a result, of which 1 would be saved; all are needed: select the layers of all"

    with pytest.raises(QmcifError, match=refusal):
        write_layer(str(tmp_path / name), *channel(1, images[0])[:2])
    with pytest.raises(QmcifError, match=refusal):
        write_result(str(tmp_path / "result"), [channel(1, images[0]), (images[0], ATTRIBUTES, "image")])
    assert list(tmp_path.iterdir()) == []


def test_all_channels_are_saved_together(tmp_path, images):
    write_result(str(tmp_path / "result"), [channel(number, images[0]) for number in (0, 1)])

    for number, name in enumerate(("fused", "fused_2")):
        np.testing.assert_array_equal(tifffile.imread(tmp_path / "result" / f"{name}.ome.tif"), images[0][..., number])
    ((_, attributes, _), _) = open_files([tmp_path / "result"])
    assert attributes["metadata"]["qmcif"] == {"version": "1", "images": 3, "part": "fused"}


@pytest.mark.viewer
def test_a_channel_of_an_opened_result_is_saved_with_the_others_or_not_at_all(tmp_path, viewer):
    dyes = np.arange(2 * 3 * 40 * 50, dtype=np.uint16).reshape(2, 3, 40, 50)
    fuse_to_file(open_stack(dyes, axes="CZYX"), tmp_path / "fused.ome.tif", FusionConfig().replaced({"measure": "laplacian"}))
    layers = add_layers(viewer, open_files([tmp_path / "fused.ome.tif"]))

    assert len(viewer.layers.save(str(tmp_path / "both"), plugin="napari-qmcif")) == 2
    layers[0].save(str(tmp_path / "saved.ome.tif"), plugin="napari-qmcif")
    np.testing.assert_array_equal(tifffile.imread(tmp_path / "saved.ome.tif"), [layer.data for layer in layers])
    viewer.layers.remove(layers[1])
    with pytest.raises(QmcifError, match="is one of 2 channels of a result"):
        layers[0].save(str(tmp_path / "alone.ome.tif"), plugin="napari-qmcif")
    assert not (tmp_path / "alone.ome.tif").exists()


@pytest.mark.viewer
def test_several_layers_are_saved_into_a_folder(tmp_path, images, viewer):
    viewer.add_image(images[0], rgb=True, name="one")
    viewer.add_image(images[1], rgb=True, name="two")

    written = viewer.layers.save(str(tmp_path / "both"), plugin="napari-qmcif")

    assert len(written) == 2
    assert sorted(path.name for path in (tmp_path / "both").iterdir()) == ["one.ome.tif", "two.ome.tif"]


def test_points_in_time_are_one_file_and_one_layer_again(tmp_path):
    samples = np.arange(3 * 1 * 8 * 9, dtype=np.uint16).reshape(3, 1, 8, 9)
    space = {"scale": (1, 20, 0.5, 0.25), "units": ("pixel", *["micrometer"] * 3), "axis_labels": ("t", "z", "y", "x")}
    attributes = {**ATTRIBUTES, "rgb": False, **space}
    source_map = {**attributes, "metadata": {"qmcif": {**ATTRIBUTES["metadata"]["qmcif"], "part": "source_index"}}}

    write_result(str(tmp_path / "result"), [(samples, attributes, "image"), (samples % 4, source_map, "image")])

    assert sorted(path.name for path in (tmp_path / "result").iterdir()) == ["fused.ome.tif", "source_index.tif"]
    for (read, described, _), expected in zip(open_files([tmp_path / "result"]), (samples, samples % 4), strict=True):
        np.testing.assert_array_equal(read, expected[:, 0])
        assert (described["axis_labels"], described["scale"]) == (("t", "y", "x"), (1, 0.5, 0.25))
    with pytest.raises(QmcifError, match="is to hold 3 images; PNG holds one"):
        write_layer(str(tmp_path / "all.png"), samples, attributes)
    with pytest.raises(QmcifError, match="has several axes before rows and columns; one, such as time, is needed: fuse it"):
        write_layer(str(tmp_path / "all.tif"), np.stack([samples[:, 0]] * 2), attributes)
    write_layer(str(tmp_path / "a.tif"), samples[:1], attributes)
    np.testing.assert_array_equal(read_image(tmp_path / "a.tif").samples, samples[0, 0])
