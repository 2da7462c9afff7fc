"""What is copied runs, and gives what Run gives."""

import shlex
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import tifffile
from napari.components import ViewerModel
from napari.layers import Image

from napari_qmcif.chosen_stack import choose_layers, choose_planes
from napari_qmcif.clipboard import write_command, write_python
from qmcif_engine import PRESETS, InvalidImageError, fuse, open_stack, prepare_stack, read_image, save_transforms, write_image
from qmcif_engine.cli import main

FEW = {"decision.smoothness": 2.0, "decision.measure": "laplacian", "decision.feather_px": 5.0}


@pytest.fixture
def in_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def file_layers(in_folder, images, npe2pm):
    paths = [in_folder / f"the image {number}.png" for number in range(len(images))]
    for path, image in zip(paths, images, strict=True):
        write_image(path, image)
    with npe2pm.tmp_plugin(package="napari"):
        return ViewerModel().open(paths, plugin="napari", stack=False)


def run_python(text, **names):
    exec(compile(text, "copied", "exec"), names)
    return read_image("fused.tif").samples


@pytest.fixture
def expected(images):
    return fuse(images, PRESETS["default"].replaced(FEW)).fused


def test_copied_script_reads_the_files_and_gives_the_result(file_layers, expected):
    text = write_python(choose_layers(file_layers), preset="default", changes=FEW)

    np.testing.assert_array_equal(run_python(text), expected)


def test_copied_script_takes_layers_without_files_from_the_viewer(in_folder, images, expected):
    viewer = ViewerModel()
    for image in images:
        viewer.add_image(image, rgb=True)

    text = write_python(choose_layers(list(viewer.layers)), preset="default", changes=FEW)

    np.testing.assert_array_equal(run_python(text, viewer=viewer), expected)


def test_copied_script_takes_planes_of_a_stack_at_the_position_of_the_sliders(in_folder, images, expected):
    viewer = ViewerModel()
    layer = viewer.add_image(np.stack([np.zeros_like(images), images]), rgb=True, axis_labels=("t", "z", "y", "x"))

    text = write_python(choose_planes(layer, 1, point=(1, 0, 0, 0)), preset="default", changes=FEW)

    np.testing.assert_array_equal(run_python(text, viewer=viewer), expected)


def test_copied_script_takes_each_layer_at_its_finest_level(in_folder, images, expected):
    viewer = ViewerModel()
    viewer.add_image(images[0], rgb=True)
    for image in images[1:]:
        viewer.add_image([image, image[::2, ::2]], rgb=True, multiscale=True)

    text = write_python(choose_layers(list(viewer.layers)), preset="default", changes=FEW)

    np.testing.assert_array_equal(run_python(text, viewer=viewer), expected)


@pytest.mark.parametrize("is_in_files", [False, True])
def test_copied_script_keeps_opacity(in_folder, images, expected, open_in_viewer, is_in_files):
    opaque = [np.dstack([image, np.full(image.shape[:2], 50 * number, np.uint8)]) for number, image in enumerate(images)]
    viewer = ViewerModel()
    for number, image in enumerate(opaque):
        viewer.add_image(image, rgb=True)
        write_image(f"{number}.png", image[..., :3], alpha=image[..., 3])
    layers = [open_in_viewer([f"{number}.png"], stack=False) for number in range(3)] if is_in_files else list(viewer.layers)

    run_python(write_python(choose_layers(layers), preset="default", changes=FEW), viewer=viewer)

    stored = tifffile.imread("fused.tif")
    np.testing.assert_array_equal(stored[..., :3], expected)
    assert set(np.unique(stored[..., 3])) >= {0, 50}


@pytest.mark.parametrize("prepared", [{"align": "translation"}, {"even_exposure": True}, {"align": "translation", "even_exposure": True}])
@pytest.mark.parametrize("is_in_files", [False, True])
def test_what_is_copied_aligns_and_evens_out(in_folder, images, file_layers, is_in_files, prepared):
    viewer = ViewerModel()
    layers = file_layers if is_in_files else [viewer.add_image(image, rgb=True) for image in images]
    stack = replace(choose_layers(layers), **prepared)
    config = PRESETS["default"].replaced(FEW)
    expected = fuse(prepare_stack(open_stack(list(images)), **prepared), config).fused

    np.testing.assert_array_equal(run_python(write_python(stack, preset="default", changes=FEW), viewer=viewer), expected)
    if is_in_files:
        arguments = shlex.split(write_command(stack, preset="default", changes=FEW))[1:]
        assert main([*arguments, "--overwrite"]) == 0
        np.testing.assert_array_equal(read_image("fused.tif").samples, expected)


@pytest.mark.parametrize("is_in_files", [False, True])
@pytest.mark.parametrize("is_known", [False, True])
def test_what_is_copied_leaves_out_what_was_left_out_and_moves_images_as_they_were_moved(
    in_folder, images, file_layers, is_in_files, is_known
):
    viewer, remaining = ViewerModel(), open_stack([images[0], images[2]])
    layers = file_layers if is_in_files else [viewer.add_image(image, rgb=True) for image in images]
    prepared = prepare_stack(remaining, align="translation", reference=1)
    stack = replace(choose_layers(layers), left_out=(1,), align="translation", reference=1)
    if is_known:
        save_transforms("found.json", prepared.transforms)
        stack = replace(stack, transforms=prepared.transforms, transforms_file=Path("found.json"))
    expected = fuse(prepared, PRESETS["default"].replaced(FEW)).fused

    np.testing.assert_array_equal(run_python(write_python(stack, preset="default", changes=FEW), viewer=viewer), expected)
    if is_in_files:
        assert main([*shlex.split(write_command(stack, preset="default", changes=FEW))[1:], "--overwrite"]) == 0
        np.testing.assert_array_equal(read_image("fused.tif").samples, expected)


def test_a_copied_script_works_with_the_type_that_was_worked_with(in_folder, images):
    viewer = ViewerModel()
    layer = viewer.add_image(images[..., 0].astype(np.int32), rgb=False)

    fused = run_python(write_python(choose_planes(layer, 0), preset="default", changes=FEW), viewer=viewer)

    expected = fuse(images[..., 0].astype(np.float64), PRESETS["default"].replaced(FEW)).fused
    np.testing.assert_array_equal(fused, expected)


def test_copied_command_gives_the_result(file_layers, expected):
    text = write_command(choose_layers(file_layers), preset="default", changes=FEW)

    program, *arguments = shlex.split(text)

    assert program == "qmcif"
    assert main(arguments) == 0
    np.testing.assert_array_equal(read_image("fused.tif").samples, expected)


def test_unchanged_settings_are_not_repeated(file_layers):
    write = partial(write_command, choose_layers(file_layers), preset="paper")

    assert "--set" not in write(changes={})
    assert "--preset paper" in write(changes={})


def test_layers_without_files_cannot_become_a_command(images):
    stack = choose_layers([Image(image, rgb=True) for image in images])

    with pytest.raises(InvalidImageError, match="the images do not lie in files as they are shown"):
        write_command(stack, preset="default", changes={})


@pytest.fixture
def open_in_viewer(npe2pm):
    def open_files(paths, *, stack):
        with npe2pm.tmp_plugin(package="napari"):
            (layer,) = ViewerModel().open(paths, plugin="napari", stack=stack)
        return layer

    return open_files


def test_a_stack_in_one_file_becomes_a_command(in_folder, images, expected, open_in_viewer):
    tifffile.imwrite("stack.tif", images, photometric="rgb")
    layer = open_in_viewer(["stack.tif"], stack=False)

    text = write_command(choose_planes(layer, 0, point=(0, 0, 0)), preset="default", changes=FEW)

    assert main(shlex.split(text)[1:]) == 0
    np.testing.assert_array_equal(read_image("fused.tif").samples, expected)


def test_a_stack_of_several_files_cannot_become_a_command_because_only_one_is_known(in_folder, images, open_in_viewer):
    names = [f"{number}.tif" for number in range(3)]
    for name, image in zip(names, images, strict=True):
        tifffile.imwrite(name, image, photometric="rgb")
    layer = open_in_viewer(names, stack=True)

    with pytest.raises(InvalidImageError, match="the images do not lie in files as they are shown"):
        write_command(choose_planes(layer, 0, point=(0, 0, 0)), preset="default", changes={})
