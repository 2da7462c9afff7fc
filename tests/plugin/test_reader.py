"""Focus stacks and results are read lazily, and nothing else is taken away from other readers."""

from dataclasses import replace
from pathlib import Path

import dask.array as da
import npe2
import numpy as np
import pytest
import tifffile
import zarr

from napari_qmcif import reader
from napari_qmcif.reader import get_reader, open_files
from qmcif_engine import FusionConfig, QmcifError, fuse, fuse_to_file, make_focus_stack, open_stack, write_image

CONFIG = FusionConfig().replaced({"iterations": 1})


def write_frames(folder, images, suffix=".png"):
    folder.mkdir(exist_ok=True)
    paths = [folder / f"frame_{number}{suffix}" for number in range(1, len(images) + 1)]
    for path, image in zip(paths, images, strict=True):
        write_image(path, image)
    return [str(path) for path in paths]


def read_one(*paths):
    (layer,) = open_files([Path(path) for path in paths])
    return layer


def write_slide(path, shapes):
    """Write a store as bioformats2raw does, with an image of each shape."""
    group = zarr.create_group(path, zarr_format=2, attributes={"bioformats2raw.layout": 3})
    axes = [{"name": name, "type": "space"} for name in "zyx"]
    for number, shape in enumerate(shapes):
        image = group.create_group(str(number))
        scale = [{"type": "scale", "scale": [1.0, 1.0, 1.0]}]
        image.attrs["multiscales"] = [{"axes": axes, "datasets": [{"path": "0", "coordinateTransformations": scale}]}]
        image.create_array("0", data=np.full(shape, number, np.uint8))


def test_every_stack_of_a_file_with_several_images_becomes_a_layer(tmp_path):
    write_slide(tmp_path / "slide.zarr", [(3, 8, 10), (1, 8, 10), (4, 9, 12)])
    left_out = []

    layers = open_files([tmp_path / "slide.zarr"], remark=left_out.append)

    assert [(attributes["name"], samples.shape) for samples, attributes, _ in layers] == [
        ("slide.zarr: 1", (3, 8, 10)),
        ("slide.zarr: 3", (4, 9, 12)),
    ]
    assert [int(samples[0, 0, 0].compute()) for samples, _, _ in layers] == [0, 2]
    (reason,) = left_out
    assert reason.startswith("left out: image '2' of 'slide.zarr': 1 image was given"), "its folder is known"
    assert reason.endswith("are needed"), "advice for the command line is of no use here"


def test_a_file_with_several_images_of_which_none_is_a_stack_is_refused(tmp_path):
    write_slide(tmp_path / "slide.zarr", [(1, 8, 10), (1, 9, 12)])

    with pytest.raises(QmcifError, match="1 image was given; at least 2 of one scene are needed"):
        open_files([tmp_path / "slide.zarr"], remark=lambda _: None)


@pytest.mark.parametrize("suffix", [".png", ".jpg", ".tif"])
def test_a_folder_of_images_is_one_lazy_stack(tmp_path, images, suffix):
    write_frames(tmp_path / "leaf", images, suffix)

    samples, attributes, kind = read_one(str(tmp_path / "leaf"))

    assert isinstance(samples, da.Array)
    assert (kind, attributes["rgb"], attributes["name"], attributes["axis_labels"]) == ("image", True, "leaf", ("focus", "y", "x"))
    if suffix == ".jpg":
        assert samples.shape == images.shape
    else:
        np.testing.assert_array_equal(samples, images)


def test_a_list_of_files_is_one_stack_in_the_given_order(tmp_path, images):
    paths = write_frames(tmp_path, images)[::-1]

    samples, attributes, _ = read_one(*paths)

    np.testing.assert_array_equal(samples, images[::-1])
    assert attributes["name"] == "frame_3 + 2"


def test_opacity_stays_with_the_colors(tmp_path, images):
    for number in range(2):
        write_image(tmp_path / f"{number}.png", images[number], alpha=np.full((48, 64), 7 + number, np.uint8))

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
def test_our_images_come_back_with_their_record(tmp_path, stack, name):
    fuse_to_file(stack, tmp_path / name, CONFIG)
    expected = fuse(stack, CONFIG).fused

    samples, attributes, _ = read_one(str(tmp_path / name))

    np.testing.assert_array_equal(samples, expected)
    assert (attributes["name"], attributes["rgb"], attributes["multiscale"]) == ("fused", True, False)
    assert attributes["metadata"]["qmcif"]["settings"]["method"]["iterations"] == 1
    assert attributes["metadata"]["qmcif"]["part"] == "fused"


@pytest.mark.parametrize("name", ["fused.ome.tif", "fused.ome.zarr"])
def test_large_images_of_ours_stay_on_disk_as_pyramids(tmp_path, name, monkeypatch):
    monkeypatch.setattr(reader, "LARGEST_LOADED_SAMPLES", 1000)
    images = make_focus_stack(n_images=2, shape=(520, 600)).images
    write_image(tmp_path / name, images[0], provenance={"version": "1"}, pixel_size=(0.5, 0.25), unit="micrometer")

    levels, attributes, _ = read_one(str(tmp_path / name))

    assert [level.shape for level in levels[:2]] == [(520, 600, 3), (260, 300, 3)]
    assert all(isinstance(level, da.Array) for level in levels)
    assert (attributes["multiscale"], attributes["rgb"], attributes["scale"]) == (True, True, (0.5, 0.25))
    np.testing.assert_array_equal(levels[0], images[0])


@pytest.mark.viewer
@pytest.mark.parametrize("name", ["fused.ome.tif", "fused.ome.zarr"])
def test_dyes_become_layers_of_their_own(tmp_path, name, viewer):
    gray = make_focus_stack(n_images=2, shape=(40, 50), is_color=False).images
    dyes = np.stack([gray, gray[:, ::-1], gray // 2, 255 - gray])
    fuse_to_file(open_stack(dyes, axes="CZYX", channels=[1]), tmp_path / name, CONFIG)
    samples, attributes, _ = read_one(tmp_path / name)

    layers = viewer.add_image(samples, **attributes)

    assert [(layer.rgb, layer.data.shape) for layer in layers] == [(False, (40, 50))] * 4
    np.testing.assert_allclose(layers[0].data // 2, layers[2].data, atol=1)


@pytest.mark.viewer
@pytest.mark.parametrize("name", ["fused.ome.tif", "fused.ome.zarr", "fused.tif"])
def test_the_viewer_shows_dyes_as_their_file_says(tmp_path, name, viewer):
    gray = make_focus_stack(n_images=2, shape=(40, 50), is_color=False).images
    channels = {"Name": ["EGFP", "Cy5"], "Color": [0x00FF00FF, 0x7F00FFFF]}
    metadata = {"axes": "ZCYX", "PhysicalSizeX": 0.25, "PhysicalSizeY": 0.5, "Channel": channels}
    tifffile.imwrite(tmp_path / "in.ome.tif", np.stack([gray, gray // 2], axis=1), ome=True, metadata=metadata)
    stack = open_stack(tmp_path / "in.ome.tif")
    stack = replace(stack, metadata=replace(stack.metadata, channel_limits=((3.0, 200.0), (0.5, 99.0))))
    fuse_to_file(stack, tmp_path / name, CONFIG)
    samples, attributes, _ = read_one(tmp_path / name)

    layers = viewer.add_image(samples, **attributes)

    assert [layer.name for layer in layers] == ["fused: EGFP", "fused: Cy5"]
    assert [tuple(layer.contrast_limits) for layer in layers] == [(3, 200), (0.5, 99)]
    shown = [layer.colormap.map(np.ones(1))[0, :3] for layer in layers]
    np.testing.assert_allclose(shown, [[0, 1, 0], [0x7F / 255, 0, 1]], atol=0.01)
    assert [tuple(layer.scale) for layer in layers] == [pytest.approx((0.5, 0.25))] * 2
    assert [str(unit) for unit in layers[0].units] == ["micrometer"] * 2


def test_a_folder_of_maps_is_read_as_maps(tmp_path, stack):
    fuse_to_file(stack, tmp_path / "fused.tif", CONFIG, maps=tmp_path / "maps")

    layers = get_reader(str(tmp_path / "maps"))(str(tmp_path / "maps"))

    parts = [attributes["metadata"]["qmcif"]["part"] for _, attributes, _ in layers]
    assert parts == ["confidence", "detail_map", "base_map", "source_index"]
    assert [attributes["contrast_limits"] for _, attributes, _ in layers] == [(0, 1)] * 4
    np.testing.assert_array_equal(layers[-1][0], fuse(stack, CONFIG).source_index)


def test_what_is_not_ours_is_left_to_other_readers(tmp_path, images):
    paths = write_frames(tmp_path / "frames", images, ".tif")
    write_image(tmp_path / "single.png", images[0])
    (tmp_path / "empty").mkdir()
    (tmp_path / "mixed").mkdir()
    write_image(tmp_path / "mixed" / "a.png", images[0])
    write_image(tmp_path / "mixed" / "b.png", images[1][:-1])
    (tmp_path / "broken.tif").write_bytes(b"II*\0rubbish")
    (tmp_path / "notes.txt").write_text("no image")

    for name in ("single.png", "broken.tif", "empty", "mixed", "notes.txt", "missing.tif"):
        assert get_reader(str(tmp_path / name)) is None, name
    assert get_reader(paths) is None


def test_a_result_folder_is_read_with_its_image_and_hidden_maps_above_it(tmp_path, stack):
    fuse_to_file(stack, tmp_path / "fused.ome.tif", CONFIG, maps=tmp_path / "maps")
    (tmp_path / "notes.png").write_bytes(b"anything else of the user")

    layers = get_reader(str(tmp_path))(str(tmp_path))

    names = [(attributes["metadata"]["qmcif"]["part"], attributes.get("visible", True)) for _, attributes, _ in layers]
    assert names == [("fused", True)] + [(name, False) for name in ("confidence", "detail_map", "base_map", "source_index")]
    np.testing.assert_array_equal(layers[0][0], fuse(stack, CONFIG).fused)


def test_a_result_saved_among_its_images_does_not_hide_them(tmp_path, images):
    write_frames(tmp_path, images, ".tif")
    write_image(tmp_path / "fused.tif", images[0], provenance={"version": "1"})

    samples, _, _ = read_one(tmp_path)

    assert samples.shape == (4, *images.shape[1:])


@pytest.mark.parametrize("n_channels", [2, 3, 5])
@pytest.mark.parametrize("has_colors", [True, False])
def test_channels_stay_apart_with_their_names_and_colors(tmp_path, n_channels, has_colors):
    samples = np.arange(2 * 3 * n_channels * 8 * 9, dtype=np.uint16).reshape(2, 3, n_channels, 8, 9)
    channels = {"Name": [f"dye {number}" for number in range(n_channels)]}
    colors = ["#0000ff", "#00ff00", "#ff0000", "#ffffff", "#00ffff"][:n_channels]
    if has_colors:
        channels["Color"] = [int(color[1:], 16) << 8 | 255 for color in colors]
        channels["Color"] = [value - 2**32 if value >= 2**31 else value for value in channels["Color"]]
    size = {"PhysicalSizeX": 0.2, "PhysicalSizeY": 0.2, "PhysicalSizeZ": 4.0}
    tifffile.imwrite(tmp_path / "cells.ome.tif", samples, metadata={"axes": "TZCYX", "Channel": channels, **size})

    layers = open_files([tmp_path / "cells.ome.tif"])

    assert [attributes["name"] for _, attributes, _ in layers] == [f"cells.ome.tif: dye {number}" for number in range(n_channels)]
    for number, (lazy, attributes, _) in enumerate(layers):
        np.testing.assert_array_equal(lazy, samples[:, :, number])
        assert (attributes["axis_labels"], attributes["scale"]) == (("t", "z", "y", "x"), (1.0, 4.0, 0.2, 0.2))
        assert attributes["contrast_limits"] == (samples[0, 1, number].min(), samples[0, 1, number].max())
        assert (attributes["blending"], attributes["rgb"]) == ("additive", False)
    if has_colors:
        assert [attributes["colormap"] for _, attributes, _ in layers] == colors
    assert len({attributes["colormap"] for _, attributes, _ in layers}) == n_channels


def open_from_menu(viewer, monkeypatch, title, *paths):
    """Do what a person does: File > Open, the names chosen in the dialog; no reader is named, and none may be asked for."""
    from napari._qt.dialogs import qt_reader_dialog

    def refuse(*arguments, **options):
        pytest.fail(f"a reader was asked for: {options.get('readers')}")

    names = [str(path) for path in paths]
    monkeypatch.setattr("napari._qt.qt_viewer.QFileDialog.getOpenFileNames", lambda *_, **__: (names, ""))
    monkeypatch.setattr(qt_reader_dialog, "QtReaderDialog", refuse)
    next(action for action in viewer.window.file_menu.actions() if action.text() == title).trigger()


@pytest.mark.viewer
@pytest.mark.parametrize("suffix", [".png", ".jpg", ".tif"])
def test_ordinary_images_open_from_the_menu_as_without_the_plugin(tmp_path, images, suffix, viewer, monkeypatch):
    assert "napari-qmcif" in npe2.PluginManager.instance()
    paths = write_frames(tmp_path, images, suffix)

    open_from_menu(viewer, monkeypatch, "Open File(s)...", *paths)

    assert [layer.source.reader_plugin for layer in viewer.layers] == ["napari"] * 3
    open_from_menu(viewer, monkeypatch, "Open Files as Stack...", *paths)
    assert viewer.layers[-1].data.shape == images.shape


@pytest.mark.viewer
def test_for_an_ome_tiff_napari_asks_which_reader_to_take(tmp_path, images, viewer, monkeypatch):
    """Both can read it: napari each image as it is, the plugin a stack with its scale."""
    asked = []
    monkeypatch.setattr("napari._qt.qt_viewer.handle_gui_reading", lambda paths, *_, **options: asked.append(paths))
    (path, *_) = write_frames(tmp_path, images, ".ome.tif")

    open_from_menu(viewer, monkeypatch, "Open File(s)...", path)

    assert (asked, list(viewer.layers)) == ([[path]], [])
    viewer.open(path, plugin="napari")
    assert viewer.layers[-1].source.reader_plugin == "napari"


@pytest.mark.viewer
def test_the_viewer_opens_a_folder_through_the_plugin(tmp_path, images, viewer):
    write_frames(tmp_path / "leaf", images)

    (folder,) = viewer.open(str(tmp_path / "leaf"), plugin="napari-qmcif")

    assert (folder.rgb, folder.data.shape) == (True, images.shape)
