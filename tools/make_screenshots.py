"""Make the screenshots of docs/tutorial.md: the main steps in a real viewer, on the sample data.

Run it as ``xvfb-run -a -s "-screen 0 1600x1000x24" python tools/make_screenshots.py``, or on a desktop. The window has 1280 x 800 pixels
and the dock of the widget is 300 wide, as on a small laptop. ``--themes dark light`` makes every screenshot in both themes.
"""

import argparse
import os
import tempfile
import time
from pathlib import Path

os.environ["NAPARI_CONFIG"] = ""  # nobody's own settings

import napari
import numpy as np
from PIL import Image
from qtpy.QtCore import Qt
from qtpy.QtWidgets import QApplication

from napari_qmcif.dock import open_page
from qmcif_engine import make_focus_stack

WINDOW = (1280, 800)
DOCK_PX = 300
LARGEST_BYTES = 300_000
DOCS = Path(__file__).parents[1] / "docs" / "images"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-o", "--output", type=Path, default=DOCS, help="folder for the screenshots")
    parser.add_argument("--themes", nargs="+", choices=("dark", "light"), default=["dark"], help="themes to make every screenshot in")
    options = parser.parse_args()
    for theme in options.themes:
        Session(theme, options.output).run()


class Session:
    """Do the steps of the tutorial in one viewer, and take a screenshot of each."""

    def __init__(self, theme, folder):
        self.theme, self.folder = theme, folder
        self.viewer = napari.Viewer(title="napari")
        self.viewer.theme = theme
        self.viewer.window.resize(*WINDOW)
        self.dock = self.widget = None

    def run(self):
        for step in (
            self.open_sample,
            self.show_settings,
            self.fuse,
            self.retouch,
            self.evaluate,
            self.compare,
            self.show_depth,
            self.fuse_many,
        ):
            step()
        self.close_dock()
        self.viewer.close()

    def open_sample(self):
        self.viewer.open_sample("napari-qmcif", "color_focus_stack")
        self.open_page("Fuse")
        self.wait(0.5)
        self.viewer.reset_view()
        self.take("open")

    def show_settings(self):
        self.widget.fold.expand(animate=False)
        self.wait(0.5)
        self.take("settings")
        self.widget.fold.collapse(animate=False)

    def fuse(self):
        self.viewer.reset_view()
        self.widget.run()
        self.wait_until(lambda: not self.widget.row.is_running)
        index = self.viewer.layers["focus stack: source map"]
        index.visible, index.opacity = True, 0.7
        self.viewer.layers.selection = {index}
        self.take("result")
        index.visible = False

    def retouch(self):
        self.open_page("Retouch")
        self.widget.result.value = self.viewer.layers["focus stack: fused"]
        self.widget.toggle()
        self.widget.paint_with.value = 5
        labels = self.viewer.layers["retouch"]
        labels.brush_size = 40
        for column in range(300, 460, 10):
            labels.paint((150 + 40 * np.sin(column / 30), column), 5)
        self.wait_until(lambda: not self.widget.session.is_running)
        self.take("retouch")
        self.widget.clear_button.native.click()
        self.wait_until(lambda: not self.widget.session.is_running)
        self.widget.toggle()
        self.viewer.layers.remove("retouch")
        self.viewer.layers.selection = {self.viewer.layers["focus stack: fused"]}

    def evaluate(self):
        self.open_page("Evaluate")
        self.widget.result.value = self.viewer.layers["focus stack: fused"]
        self.widget.truth.value = self.viewer.layers["focus stack truth"]
        self.widget.row.start()
        self.wait_until(lambda: not self.widget.row.is_running)
        self.take("evaluate")

    def compare(self):
        self.open_page("Compare")
        self.widget.result.value = self.viewer.layers["focus stack: fused"]
        self.widget.other.value = self.viewer.layers["focus stack"]
        self.widget.wipes.value = True
        self.widget.row.attempt(lambda: self.widget.measure_at(200, 300))
        self.wait_until(lambda: not self.widget.row.is_running)
        self.take("compare")
        self.widget.wipes.value = False

    def show_depth(self):
        self.open_page("Depth")
        self.widget.exaggerate.value = 20
        self.widget.show_surface()
        self.take("depth")

    def fuse_many(self):
        """Fuse two stacks below a folder, and one that is none."""
        self.viewer.layers.clear()
        self.viewer.dims.ndisplay = 2
        self.open_page("Batch")
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch) / "microscope, Monday"  # so much of the place is seen
            for name, n_images in {"leaf": 3, "moss": 3, "single image": 1}.items():
                (folder / "stacks" / name).mkdir(parents=True)
                images = make_focus_stack(n_images=3, shape=(256, 384), seed=len(name)).images
                for number, image in enumerate(images[:n_images]):
                    Image.fromarray(image).save(folder / "stacks" / name / f"{number}.png")
            self.widget.form.folder.value, self.widget.form.results.value = folder / "stacks", folder / "results"
            self.widget.row.start()
            self.wait_until(lambda: not self.widget.row.is_running)
            self.widget.inspect(1)
            self.wait_until(lambda: not self.widget.row.is_running)
            self.viewer.reset_view()
            self.take("batch")

    def open_page(self, title):
        self.widget = open_page(self.viewer, title)
        (name,) = self.viewer.window._wrapped_dock_widgets
        self.dock = self.viewer.window._wrapped_dock_widgets[name]
        self.viewer.window._qt_window.resizeDocks([self.dock], [DOCK_PX], Qt.Orientation.Horizontal)

    def close_dock(self):
        self.dock.inner_widget().shut_down()
        self.viewer.window.remove_dock_widget(self.dock)

    def wait(self, seconds):
        """Give the viewer time to work."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            QApplication.processEvents()
            time.sleep(0.01)

    def wait_until(self, is_done, seconds=300):
        end = time.monotonic() + seconds
        while not is_done():
            if time.monotonic() > end:
                msg = "the step takes too long"
                raise TimeoutError(msg)
            self.wait(0.05)
        self.wait(0.5)

    def take(self, name):
        """Write what the window shows, in 256 colors if it would be too large for the documents."""
        self.wait(1.5)
        shown = self.viewer.screenshot(canvas_only=False, flash=False)
        screenshot = Image.fromarray(shown[..., :3])
        target = self.folder / f"plugin-{name}{'' if self.theme == 'dark' else '-light'}.png"
        screenshot.save(target, optimize=True)
        if target.stat().st_size > LARGEST_BYTES:
            screenshot.quantize(256, dither=Image.Dither.NONE).save(target, optimize=True)
        size = f"{screenshot.width} x {screenshot.height}, {target.stat().st_size / 1000:.0f} kB"
        print(f"{target.name}: {size}, dock {self.dock.width()} px wide")


if __name__ == "__main__":
    main()
