"""What is copied gives what Run gives."""

import shlex
from dataclasses import replace

import numpy as np
import pytest
from napari.components import ViewerModel

from napari_qmcif.clipboard import options_of, write_command, write_python
from napari_qmcif.fusing import choose_images
from napari_qmcif.layers_in import choose_layers
from napari_qmcif.preferences import RunOptions
from qmcif_engine import (
    PRESETS,
    InvalidImageError,
    fuse,
    load_transforms,
    open_stack,
    prepare_stack,
    read_image,
    save_transforms,
    write_image,
)
from qmcif_engine.cli import main

FEW = {"decision.smoothness": 2.0, "decision.measure": "laplacian", "decision.feather_px": 5.0}
CONFIG = PRESETS["default"].replaced(FEW)


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


PREPARED = [{}, {"align": "translation"}, {"even_exposure": True, "left_out": (1,)}, {"align": "translation", "reference": 2}]


@pytest.mark.parametrize("prepared", PREPARED)
def test_a_copied_script_adds_the_layers_of_the_run(images, prepared):
    viewer = ViewerModel()
    for image in images:
        viewer.add_image(image, rgb=True)
    stack = replace(choose_layers(list(viewer.layers)), **prepared)
    options = options_of(stack)
    again = choose_images(stack.layers, options).first
    assert [getattr(again, name) for name in ("align", "even_exposure", "reference", "left_out")] == [
        getattr(stack, name) for name in ("align", "even_exposure", "reference", "left_out")
    ]

    exec(write_python(stack.layers, options, preset="default", changes=FEW), {"viewer": viewer})

    kept = images[list(stack.frame_numbers)]
    wishes = {name: value for name, value in prepared.items() if name != "left_out"}
    np.testing.assert_array_equal(viewer.layers[-2].data, fuse(prepare_stack(open_stack(list(kept)), **wishes), CONFIG).fused)


@pytest.mark.parametrize("prepared", PREPARED)
def test_a_copied_command_gives_the_result(file_layers, images, prepared):
    stack = replace(choose_layers(file_layers), **prepared)

    arguments = shlex.split(write_command(stack.layers, options_of(stack), preset="default", changes=FEW))[1:]

    assert main([*arguments, "--overwrite"]) == 0
    kept = images[list(stack.frame_numbers)]
    wishes = {name: value for name, value in prepared.items() if name != "left_out"}
    np.testing.assert_array_equal(read_image("fused.tif").samples, fuse(prepare_stack(open_stack(list(kept)), **wishes), CONFIG).fused)


def test_a_file_of_transforms_is_named(file_layers, in_folder):
    file = in_folder / "found.json"
    save_transforms(file, prepare_stack(open_stack([layer.data for layer in file_layers]), align="translation").transforms)
    stack = replace(choose_layers(file_layers), transforms=load_transforms(file), transforms_file=file)

    assert f"--transforms {file}" in write_command(stack.layers, options_of(stack), preset="fast", changes={})
    assert f"transforms='{file}'" in write_python(stack.layers, options_of(stack), preset="fast", changes={})


def test_a_command_needs_files_that_hold_what_is_shown(in_folder, images):
    viewer = ViewerModel()
    layer = viewer.add_image(images, rgb=True)

    with pytest.raises(InvalidImageError, match="the images do not lie in files as they are shown; such files are needed for a command"):
        write_command([layer], RunOptions(), preset="default", changes={})
    assert RunOptions() == options_of(choose_layers([viewer.add_image(image, rgb=True) for image in images]))
