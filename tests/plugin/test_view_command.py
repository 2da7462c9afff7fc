"""`qmcif view` opens the stack with the fusion beside it."""

import subprocess
import sys

import napari
import numpy as np
import pytest

from qmcif_engine import write_image
from qmcif_engine.cli import main


@pytest.mark.viewer
def test_the_stack_is_opened_and_the_widget_docked(tmp_path, pictures, make_napari_viewer, monkeypatch):
    for number, picture in enumerate(pictures):
        write_image(tmp_path / f"{number}.png", picture)
    viewers = []

    def make(**options):
        viewers.append(make_napari_viewer())
        return viewers[-1]

    ran = []
    monkeypatch.setattr(napari, "Viewer", make)
    monkeypatch.setattr(napari, "run", lambda: ran.append(True))

    assert main(["view", str(tmp_path)]) == 0

    (viewer,) = viewers
    (layer,) = viewer.layers
    assert (layer.rgb, layer.name, ran) == (True, tmp_path.name, [True])
    np.testing.assert_array_equal(layer.data, pictures)
    docked = next(iter(viewer.window.dock_widgets.values()))
    assert docked.run_panel.run_button.isEnabled()
    docked.shut_down()


@pytest.mark.parametrize("names", [["missing.png"], ["0.png"]])
def test_what_is_no_stack_is_refused_before_a_viewer_opens(tmp_path, pictures, monkeypatch, capsys, names):
    write_image(tmp_path / "0.png", pictures[0])
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
