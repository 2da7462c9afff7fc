"""`qmcif view` opens the stack with the fusion beside it."""

import subprocess
import sys

import napari
import numpy as np
import pytest
import tifffile
import zarr

from qmcif_engine import write_image
from qmcif_engine.cli import main


@pytest.mark.viewer
def test_the_stack_is_opened_and_the_widget_docked(tmp_path, images, viewer, monkeypatch):
    for number, image in enumerate(images):
        write_image(tmp_path / f"{number}.png", image)
    ran = []
    monkeypatch.setattr(napari, "Viewer", lambda **_: viewer)
    monkeypatch.setattr(napari, "run", lambda: ran.append(True))

    assert main(["view", str(tmp_path)]) == 0

    (layer,) = viewer.layers
    assert (layer.rgb, layer.name, ran) == (True, tmp_path.name, [True])
    np.testing.assert_array_equal(layer.data, images)
    docked = next(iter(viewer.window.dock_widgets.values()))
    assert docked.fusion.row.button.enabled
    docked.shut_down()


@pytest.mark.viewer
@pytest.mark.parametrize("suffix", [".ome.tif", ".ome.zarr"])
def test_channels_are_kept_apart_with_their_colors_and_scale(tmp_path, viewer, monkeypatch, suffix):
    samples = np.arange(3 * 2 * 16 * 18, dtype=np.uint16).reshape(3, 2, 16, 18)
    target = tmp_path / f"cells{suffix}"
    if suffix == ".ome.tif":
        channels = {"Name": ["DAPI", "GFP"], "Color": [0x0000FFFF, 0x00FF00FF]}
        size = {"PhysicalSizeX": 0.2, "PhysicalSizeY": 0.4, "PhysicalSizeZ": 2.0}
        tifffile.imwrite(target, samples, metadata={"axes": "ZCYX", "Channel": channels, **size})
    else:
        axes = [{"name": "c", "type": "channel"}, *({"name": name, "type": "space", "unit": "micrometer"} for name in "zyx")]
        level = {"path": "0", "coordinateTransformations": [{"type": "scale", "scale": [1.0, 2.0, 0.4, 0.2]}]}
        dyes = {"channels": [{"label": "DAPI", "color": "0000FF"}, {"label": "GFP", "color": "00FF00"}]}
        group = zarr.open_group(target, mode="w", attributes={"ome": {"multiscales": [{"axes": axes, "datasets": [level]}], "omero": dyes}})
        group.create_array("0", data=np.ascontiguousarray(samples.swapaxes(0, 1)))
    monkeypatch.setattr(napari, "Viewer", lambda **_: viewer)
    monkeypatch.setattr(napari, "run", lambda: None)

    assert main(["view", str(target)]) == 0

    for number, (layer, name) in enumerate(zip(viewer.layers, ("DAPI", "GFP"), strict=True)):
        assert layer.name == f"{target.name}: {name}"
        np.testing.assert_array_equal(layer.data, samples[:, number])
        np.testing.assert_allclose(layer.scale, (2.0, 0.4, 0.2))
        assert ({str(unit) for unit in layer.units}, layer.axis_labels) == ({"micrometer"}, ("z", "y", "x"))
        np.testing.assert_allclose(layer.colormap.colors[-1][:3], np.eye(3)[2 - number])
    next(iter(viewer.window.dock_widgets.values())).shut_down()


@pytest.mark.parametrize("names", [["missing.png"], ["0.png"]])
def test_what_is_no_stack_is_refused_before_a_viewer_opens(tmp_path, images, monkeypatch, capsys, names):
    write_image(tmp_path / "0.png", images[0])
    monkeypatch.setattr(napari, "Viewer", lambda **_: pytest.fail("a viewer was opened"))

    assert main(["view", *(str(tmp_path / name) for name in names)]) == 2
    assert capsys.readouterr().err.startswith("qmcif: ")


def test_help_imports_no_viewer():
    program = """
import sys
from qmcif_engine.cli import main
try:
    main(["--help"])
finally:
    print({"napari", "qtpy", "dask"} & set(sys.modules))
"""
    shown = subprocess.run([sys.executable, "-c", program], check=False, capture_output=True, text=True).stdout

    assert "view" in shown
    assert shown.strip().endswith("set()")
