"""Measure how long a retouching stroke takes on 24 megapixels: from the paint event to the updated array, drawing excluded.

Run it as ``python benchmarks/retouch.py``; it needs the viewer, but no screen. The strokes are painted on napari's labels layer and
followed by the session behind the widget. Picture and decisions are made up, since a stroke does not ask where they came from.
"""

import argparse
import os
import time

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

import numpy as np
from napari.components import ViewerModel
from qtpy.QtCore import QEventLoop
from qtpy.QtWidgets import QApplication

from napari_qmcif.layers_in import choose_planes
from napari_qmcif.retouch import RetouchSession
from qmcif_engine import make_lazy_focus_stack

SHAPE = (4000, 6000)
SIDES_PX = (64, 256, 512)
N_REPEATS = 5


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", type=int, nargs="+", default=[2, 5, 20], help="sizes of the stack (default: %(default)s)")
    options = parser.parse_args()
    application = QApplication.instance() or QApplication([])
    pair = make_lazy_focus_stack(shape=SHAPE).compute()
    for n_images in options.images:
        measure(pair[np.arange(n_images) % 2], application)


def measure(images, application):
    """Print the middle and the slowest of several strokes of each size."""
    n_images, viewer = len(images), ViewerModel()
    source = viewer.add_image(images, rgb=True, visible=False)
    rows, columns = np.ogrid[: SHAPE[0], : SHAPE[1]]
    index = ((rows // 300 + columns // 300) % n_images).astype(np.uint16)
    session = RetouchSession(
        viewer,
        choose_planes(source, 0, point=(0, 0, 0)),
        fused=viewer.add_image(images[0].copy(), rgb=True, visible=False),
        index=viewer.add_image(index, rgb=False, contrast_limits=(0, n_images - 1), visible=False),
    )
    strokes = Strokes(session, application)
    strokes.paint((50, 50), 32)  # compiles, and measures the focus range
    for side_px in SIDES_PX:
        times = [strokes.paint((700 * turn + 400, 900 * turn + 400), side_px) for turn in range(N_REPEATS)]
        print(
            f"{n_images:3d} images of {SHAPE[0] * SHAPE[1] / 1e6:.0f} megapixels, stroke {side_px:3d} x {side_px:3d} px: "
            f"{1000 * np.median(times):4.0f} ms, slowest {1000 * max(times):4.0f} ms"
        )
    session.end()


class Strokes:
    """Painted discs, and when the paint event came."""

    def __init__(self, session, application):
        self._session, self._application = session, application
        self._painted_at = 0.0
        session.labels.events.paint.connect(self._note_time, position="first")

    def _note_time(self, event):
        self._painted_at = time.perf_counter()

    def paint(self, center, side_px):
        """Return the seconds from the paint event to the updated arrays."""
        labels = self._session.labels
        labels.brush_size = side_px
        labels.paint(center, 2)
        while self._session.is_running:
            self._application.processEvents(QEventLoop.ProcessEventsFlag.WaitForMoreEvents)
        seconds = time.perf_counter() - self._painted_at
        assert labels.data[center] == 2
        return seconds


if __name__ == "__main__":
    main()
