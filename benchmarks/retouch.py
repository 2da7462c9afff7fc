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
from qtpy.QtWidgets import QApplication

from napari_qmcif.chosen_stack import choose_planes
from napari_qmcif.retouch_session import RetouchSession
from napari_qmcif.retouch_subject import RetouchSubject
from qmcif_engine import FusionConfig, make_lazy_focus_stack

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
        measure(np.stack([pair[0], pair[1]]) if n_images == 2 else pair[np.arange(n_images) % 2], application)


def measure(images, application):
    """Print the middle and the slowest of several strokes of each size."""
    n_images, viewer = len(images), ViewerModel()
    source = viewer.add_image(images, rgb=True, visible=False)
    rows, columns = np.ogrid[: SHAPE[0], : SHAPE[1]]
    index = ((rows // 300 + columns // 300) % n_images).astype(np.uint16)
    subject = RetouchSubject(
        stack=choose_planes(source, 0, point=(0, 0, 0)),
        fused=viewer.add_image(images[0].copy(), rgb=True, visible=False),
        index=viewer.add_image(index, rgb=False, contrast_limits=(0, n_images - 1), visible=False),
        config=FusionConfig(),
        focus_range=(0.0, 255.0),
    )
    session = RetouchSession(viewer, subject)
    paint(session, (50, 50), 32, application)  # compiles
    for side_px in SIDES_PX:
        times = [paint(session, (700 * turn + 400, 900 * turn + 400), side_px, application) for turn in range(N_REPEATS)]
        print(
            f"{n_images:3d} images of {SHAPE[0] * SHAPE[1] / 1e6:.0f} megapixels, stroke {side_px:3d} x {side_px:3d} px: "
            f"{1000 * np.median(times):4.0f} ms, slowest {1000 * max(times):4.0f} ms"
        )
    session.end()


def paint(session, center, side_px, application):
    """Paint a disc and return the seconds from the paint event, when the labels are in place, to the updated arrays."""
    painted_at = []
    session.labels.events.paint.connect(lambda event: painted_at.append(time.perf_counter()), position="first")
    session.labels.brush_size = side_px
    session.labels.paint(center, 2)
    session.labels.events.paint.disconnect()
    session._connect()
    while session.is_running:
        application.processEvents()
    return time.perf_counter() - painted_at[0]


if __name__ == "__main__":
    main()
