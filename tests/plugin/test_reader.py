"""Focus stacks and results are read lazily, and nothing else is taken away from other readers."""

import dask.array as da
import numpy as np
import pytest
import tifffile

from napari_qmcif import own_outputs
from napari_qmcif.reader import get_reader
from qmcif_engine import FusionConfig, fuse, fuse_to_file, make_focus_stack, open_stack, write_image

CONFIG = FusionConfig().replaced({"iterations": 1})


def write_frames(folder, images, suffix=".png"):
    folder.mkdir(exist_ok=True)
    paths = [folder / f"frame_{number}{suffix}" for number in range(1, len(images) + 1)]
    for path, image in zip(paths, images, strict=True):
        write_image(path, image)
    return [str(path) for path in paths]


def read_one(path):
    (layer,) = get_reader(path)(path)
    return layer


@pytest.mark.parametrize("suffix", [".png", ".jpg", ".tif"])
def test_a_folder_of_images_is_one_lazy_stack(tmp_path, pictures, suffix):
    write_frames(tmp_path / "leaf", pictures, suffix)

    samples, attributes, kind = read_one(str(tmp_path / "leaf"))

    assert isinstance(samples, da.Array)
    assert (kind, attributes["rgb"], attributes["name"], attributes["axis_labels"]) == ("image", True, "leaf", ("focus", "y", "x"))
    if suffix == ".jpg":
        assert samples.shape == pictures.shape
    else:
        np.testing.assert_array_equal(samples, pictures)


def test_a_list_of_files_is_one_stack_in_the_given_order(tmp_path, pictures):
    paths = write_frames(tmp_path, pictures)[::-1]

    samples, attributes, _ = read_one(paths)

    np.testing.assert_array_equal(samples, pictures[::-1])
    assert attributes["name"] == "frame_3 + 2"


def test_opacity_stays_with_the_colors(tmp_path, pictures):
    for number in range(2):
        write_image(tmp_path / f"{number}.png", pictures[number], alpha=np.full((48, 64), 7 + number, np.uint8))

    samples, attributes, _ = read_one(str(tmp_path))

    assert (samples.shape, attributes["rgb"]) == ((2, 48, 64, 4), True)
    assert samples[1, 0, 0, 3].compute() == 8


def test_scale_and_units_come_from_the_file(tmp_path):
    gray = make_focus_stack(n_images=3, shape=(20, 30), is_color=False, dtype=np.uint16).images
    target = tmp_path / "stack" / "cells.ome.tif"
    target.parent.mkdir()
    tifffile.imwrite(
        target,
        gray,
        metadata={"axes": "ZYX", "PhysicalSizeX": 0.25, "PhysicalSizeY": 0.5, "PhysicalSizeZ": 2.0, "PhysicalSizeZUnit": "µm"},
    )

    samples, attributes, _ = read_one(str(target.parent))

    np.testing.assert_array_equal(samples, gray)
    assert (attributes["rgb"], attributes["scale"], attributes["units"]) == (False, (2.0, 0.5, 0.25), ("micrometer",) * 3)
    assert attributes["axis_labels"] == ("z", "y", "x")


def test_points_in_time_come_first(tmp_path):
    samples = np.arange(2 * 3 * 8 * 9, dtype=np.uint16).reshape(2, 3, 8, 9)
    (tmp_path / "stack").mkdir()
    tifffile.imwrite(tmp_path / "stack" / "series.ome.tif", samples, metadata={"axes": "TZYX"})

    lazy, attributes, _ = read_one(str(tmp_path / "stack"))

    np.testing.assert_array_equal(lazy, samples)
    assert attributes["axis_labels"][0] == "t"
    assert len(attributes["axis_labels"]) == 4


@pytest.fixture
def stack(tmp_path):
    images = make_focus_stack(n_images=2, shape=(60, 70)).images
    return open_stack(list(images))


@pytest.mark.parametrize("name", ["fused.ome.tif", "fused.tif", "fused.ome.zarr"])
def test_our_pictures_come_back_with_their_record(tmp_path, stack, name):
    fuse_to_file(stack, tmp_path / name, CONFIG)
    expected = fuse(stack, CONFIG).fused

    samples, attributes, _ = read_one(str(tmp_path / name))

    np.testing.assert_array_equal(samples, expected)
    assert (attributes["name"], attributes["rgb"], attributes["multiscale"]) == ("fused", True, False)
    assert attributes["metadata"]["qmcif"]["settings"]["decomposition"]["iterations"] == 1
    assert attributes["metadata"]["qmcif"]["part"] == "fused"


@pytest.mark.parametrize("name", ["fused.ome.tif", "fused.ome.zarr"])
def test_large_pictures_of_ours_stay_on_disk_as_pyramids(tmp_path, name, monkeypatch):
    monkeypatch.setattr(own_outputs, "LARGEST_LOADED_SAMPLES", 1000)
    images = make_focus_stack(n_images=2, shape=(520, 600)).images
    write_image(tmp_path / name, images[0], provenance={"version": "1"}, pixel_size=(0.5, 0.25), unit="micrometer")

    levels, attributes, _ = read_one(str(tmp_path / name))

    assert [level.shape for level in levels[:2]] == [(520, 600, 3), (260, 300, 3)]
    assert all(isinstance(level, da.Array) for level in levels)
    assert (attributes["multiscale"], attributes["rgb"], attributes["scale"]) == (True, True, (0.5, 0.25))
    np.testing.assert_array_equal(levels[0], images[0])


@pytest.mark.viewer
@pytest.mark.parametrize("name", ["fused.ome.tif", "fused.ome.zarr"])
def test_dyes_become_layers_of_their_own(tmp_path, name, make_napari_viewer_proxy):
    gray = make_focus_stack(n_images=2, shape=(40, 50), is_color=False).images
    dyes = np.stack([gray, gray[:, ::-1], gray // 2, 255 - gray])
    fuse_to_file(open_stack(dyes, axes="CZYX", channels=[1]), tmp_path / name, CONFIG)
    viewer = make_napari_viewer_proxy()

    layers = viewer.open(str(tmp_path / name), plugin="napari-qmcif")

    assert [(layer.rgb, layer.data.shape) for layer in layers] == [(False, (40, 50))] * 4
    np.testing.assert_allclose(layers[0].data // 2, layers[2].data, atol=1)


def test_a_folder_of_maps_is_read_as_maps(tmp_path, stack):
    fuse_to_file(stack, tmp_path / "fused.tif", CONFIG, maps=tmp_path / "maps")

    layers = get_reader(str(tmp_path / "maps"))(str(tmp_path / "maps"))

    parts = [attributes["metadata"]["qmcif"]["part"] for _, attributes, _ in layers]
    assert parts == ["confidence", "detail_map", "base_map", "source_index"]
    assert [attributes["contrast_limits"] for _, attributes, _ in layers] == [(0, 1)] * 4
    np.testing.assert_array_equal(layers[-1][0], fuse(stack, CONFIG).source_index)


def test_what_is_not_ours_is_left_to_other_readers(tmp_path, pictures):
    paths = write_frames(tmp_path / "frames", pictures, ".tif")
    write_image(tmp_path / "single.png", pictures[0])
    write_image(tmp_path / "other.ome.zarr", pictures[0])
    (tmp_path / "empty").mkdir()
    (tmp_path / "mixed").mkdir()
    write_image(tmp_path / "mixed" / "a.png", pictures[0])
    write_image(tmp_path / "mixed" / "b.png", pictures[1][:-1])
    (tmp_path / "broken.tif").write_bytes(b"II*\0rubbish")
    (tmp_path / "notes.txt").write_text("no picture")

    for name in ("single.png", "broken.tif", "empty", "mixed", "notes.txt", "missing.tif"):
        assert get_reader(str(tmp_path / name)) is None, name
    assert get_reader(paths[0]) is None
    assert get_reader(paths[:1]) is None
    assert get_reader([paths[0], str(tmp_path / "notes.txt")]) is None


@pytest.mark.viewer
def test_the_viewer_opens_a_folder_and_a_list_through_the_plugin(tmp_path, pictures, make_napari_viewer_proxy):
    viewer = make_napari_viewer_proxy()
    paths = write_frames(tmp_path / "leaf", pictures)

    (folder,) = viewer.open(str(tmp_path / "leaf"), plugin="napari-qmcif")
    (files,) = viewer.open(paths, stack=True, plugin="napari-qmcif")

    for layer in (folder, files):
        assert (layer.rgb, layer.data.shape) == (True, pictures.shape)
