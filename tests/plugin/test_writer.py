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


@pytest.mark.parametrize("name", ["a.png", "a.jpg", "a.tif", "a.ome.tif", "a.ome.zarr"])
def test_every_format_holds_the_samples_and_a_file_is_replaced_as_the_dialog_asked(tmp_path, images, name):
    target = str(tmp_path / name)
    for image in images[:2]:
        assert write_layer(target, image, ATTRIBUTES) == [target]
    if name.endswith("zarr"):
        ((samples, _, _),) = open_files([Path(target)])
    else:
        samples = read_image(target).samples
    assert np.abs(np.asarray(samples).astype(int) - images[1]).mean() < (12 if name == "a.jpg" else 1e-9)


def test_finest_levels_and_opacity_are_written_and_what_a_format_cannot_hold_is_refused(tmp_path, images):
    levels = [da.from_array(images[0], chunks=16), images[0][::2, ::2]]
    write_layer(str(tmp_path / "a.tif"), levels, {**ATTRIBUTES, "multiscale": True})
    np.testing.assert_array_equal(read_image(tmp_path / "a.tif").samples, images[0])
    write_layer(str(tmp_path / "a.png"), np.dstack([images[0], np.full((48, 64), 9, np.uint8)]), ATTRIBUTES)
    read = read_image(tmp_path / "a.png")
    np.testing.assert_array_equal(read.samples, images[0])
    assert (read.alpha == 9).all()
    with pytest.raises(QmcifError, match="JPEG holds uint8"):
        write_layer(str(tmp_path / "a.jpg"), np.zeros((4, 5), np.uint16), {**ATTRIBUTES, "rgb": False})


@pytest.mark.viewer
@pytest.mark.parametrize("name", ["saved.ome.tif", "saved.ome.zarr", "saved.tif"])
def test_a_person_saves_a_layer_and_opens_it_again_without_times_and_places(tmp_path, images, viewer, name):
    layer = viewer.add_image(images[0], rgb=True, name="leaf", scale=(0.5, 0.25), units=("um", "um"), metadata={"qmcif": RECORD})
    layer.save(str(tmp_path / name), plugin="napari-qmcif")
    (opened,) = add_layers(viewer, open_files([tmp_path / name]))
    np.testing.assert_array_equal(np.asarray(opened.data), images[0])
    assert (opened.rgb, tuple(opened.scale), {str(unit) for unit in opened.units}) == (True, (0.5, 0.25), {"micrometer"})
    assert opened.metadata["qmcif"] == {"version": "1", "images": 3, "part": "fused"}


def test_a_result_becomes_a_folder_that_is_read_as_one(tmp_path, images):
    index = np.arange(48 * 64, dtype=np.uint16).reshape(48, 64) % 3
    named = {**ATTRIBUTES, "rgb": False, "name": "leaf: source index", "metadata": {"qmcif": {**RECORD, "part": "source_index"}}}
    plain = {**ATTRIBUTES, "name": "../over: there", "metadata": {}}

    written = write_result(
        str(tmp_path / "all"), [(index, named, "image"), (images[0], ATTRIBUTES, "image"), (images[1], plain, "image")] * 2
    )

    expected = ["source_index.tif", "source_index_2.tif", "fused.ome.tif", "fused_2.ome.tif", "over_there.ome.tif", "over_there_2.ome.tif"]
    assert {Path(path).name for path in written} == {path.name for path in (tmp_path / "all").iterdir()} == set(expected)
    np.testing.assert_array_equal(tifffile.imread(tmp_path / "all" / "source_index.tif"), index)


def channel(number, samples):
    record = {**RECORD, "n_channels": 2, "of_result": "run"}
    return (samples[..., number], {**ATTRIBUTES, "rgb": False, "name": f"dye {number}: fused", "metadata": {"qmcif": record}}, "image")


def test_channels_of_a_result_are_saved_together_or_not_at_all(tmp_path, images):
    refusal = "'dye 1: fused' is one of 2 channels of a result, of which 1 would be saved; all are needed: select the layers of all"
    for name in ("a.ome.tif", "a.png"):
        with pytest.raises(QmcifError, match=refusal):
            write_layer(str(tmp_path / name), *channel(1, images[0])[:2])
    with pytest.raises(QmcifError, match=refusal):
        write_result(str(tmp_path / "result"), [channel(1, images[0]), (images[0], ATTRIBUTES, "image")])
    assert list(tmp_path.iterdir()) == []

    write_result(str(tmp_path / "result"), [channel(number, images[0]) for number in (0, 1)])
    for number, name in enumerate(("fused", "fused_2")):
        np.testing.assert_array_equal(tifffile.imread(tmp_path / "result" / f"{name}.ome.tif"), images[0][..., number])


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


def test_points_in_time_are_one_file_and_one_layer_again(tmp_path):
    samples = np.arange(3 * 1 * 8 * 9, dtype=np.uint16).reshape(3, 1, 8, 9)
    space = {"scale": (1, 20, 0.5, 0.25), "units": ("pixel", *["micrometer"] * 3), "axis_labels": ("t", "z", "y", "x")}
    attributes = {**ATTRIBUTES, "rgb": False, **space}
    source_map = {**attributes, "metadata": {"qmcif": {**RECORD, "part": "source_index"}}}

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
