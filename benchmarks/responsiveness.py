"""Measure whether the viewer stays usable while a fusion runs: the largest gap between two turns of its event loop.

Run as ``python benchmarks/responsiveness.py [HEIGHT WIDTH]`` on a machine that does nothing else, with a display or under ``xvfb-run -a``.
A timer of 5 ms notes when the event loop comes round, from the click on Run until the first layer of the result is added. How long adding
the layers takes is reported apart, and so are a preview of the visible field and the time from Cancel to the end. The pair is generated.
"""

from __future__ import annotations

import itertools
import platform
import sys
import time

import napari
import numpy as np
from qtpy.QtCore import QTimer
from qtpy.QtWidgets import QApplication

from qmcif_engine import PRESETS, __version__, make_focus_stack

SHAPE = (2000, 3000)
WARM_UP_SHAPE = (200, 200)
PREVIEW_SHAPE = (1000, 1000)
TICK_MILLISECONDS = 5
REST_SECONDS = 2.0
PATIENCE_SECONDS = 3600.0


class Pulse:
    """Note the times at which the event loop comes round."""

    def __init__(self) -> None:
        self.times: list[float] = []
        self._timer = QTimer()
        self._timer.setInterval(TICK_MILLISECONDS)
        self._timer.timeout.connect(lambda: self.times.append(time.perf_counter()))
        self._timer.start()

    def largest_gap(self, begin: float, end: float) -> float:
        """Return the longest time without a turn between two moments, both of them taken for turns."""
        turns = [begin, *(moment for moment in self.times if begin < moment < end), end]
        return max(later - earlier for earlier, later in itertools.pairwise(turns))

    def stop(self) -> None:
        """Tick no more."""
        self._timer.stop()


def generate_pair(shape: tuple[int, int]) -> np.ndarray:
    """Return two pictures of any size, a small scene repeated."""
    small = make_focus_stack(n_images=2, shape=(500, 500), seed=0).images
    repeats = (1, -(-shape[0] // 500), -(-shape[1] // 500), 1)
    return np.tile(small, repeats)[:, : shape[0], : shape[1]]


def wait_until(is_over: object) -> None:
    """Run the event loop as napari does until something is over."""
    deadline = time.perf_counter() + PATIENCE_SECONDS
    while not is_over() and time.perf_counter() < deadline:
        QApplication.processEvents()
        time.sleep(0.0005)


def measure_run(viewer: napari.Viewer, widget: object) -> str:
    """Press Run and return one line of figures."""
    pulse, inserting, inserted = Pulse(), [], []
    viewer.layers.events.inserting.connect(lambda _: inserting.append(time.perf_counter()))
    viewer.layers.events.inserted.connect(lambda _: inserted.append(time.perf_counter()))
    wait_until(lambda: len(pulse.times) > 20)
    begin = time.perf_counter()
    widget.run()
    wait_until(lambda: not widget.run_panel.is_running)
    drawn = time.perf_counter()
    wait_until(lambda: time.perf_counter() > drawn + REST_SECONDS)
    pulse.stop()
    end = inserting[0] if inserting else drawn
    run = f"run {end - begin:.1f} s, largest gap {1e3 * pulse.largest_gap(begin, end):.0f} ms"
    outcome = f"layers added in {1e3 * (inserted[-1] - inserting[0]):.0f} ms" if inserting else widget.run_panel.message.text()
    return f"{run}; {outcome}"


def measure_preview(widget: object) -> str:
    """Press Preview and return one line of figures."""
    pulse, begin = Pulse(), time.perf_counter()
    widget.preview.start()
    wait_until(lambda: not widget.preview.is_running)
    end = time.perf_counter()
    pulse.stop()
    return f"preview {end - begin:.2f} s, largest gap {1e3 * pulse.largest_gap(begin, end):.0f} ms"


def measure_cancel(shape: tuple[int, int]) -> str:
    """Press Cancel while the images are looked at and while they are fused, and return how long the run still took."""
    viewer = napari.Viewer(show=True)
    viewer.add_image(generate_pair(shape), rgb=True, name="pair")
    _, dock = viewer.window.add_plugin_dock_widget("napari-qmcif", "Fuse focus stack")
    widget, taken = dock.fusion, []
    for phase in ("looking whether the images moved", "fusing"):
        widget.run()
        wait_until(lambda phase=phase: widget.run_panel.message.text().startswith(phase) or not widget.run_panel.is_running)
        asked = time.perf_counter()
        widget.run_panel.cancel()
        wait_until(lambda: not widget.run_panel.is_running)
        taken.append(f"{1e3 * (time.perf_counter() - asked):.0f} ms while {phase}")
    dock.shut_down()
    viewer.close()
    return f"cancelled after {', '.join(taken)}"


def measure(preset: str, shape: tuple[int, int], *, is_preview: bool) -> str:
    """Open a viewer, run one fusion or preview in it and close it."""
    viewer = napari.Viewer(show=True)
    viewer.add_image(generate_pair(shape), rgb=True, name="pair")
    _, dock = viewer.window.add_plugin_dock_widget("napari-qmcif", "Fuse focus stack")
    widget = dock.fusion
    widget.settings.preset_box.value = preset
    ready = time.perf_counter() + REST_SECONDS
    wait_until(lambda: time.perf_counter() > ready)
    line = measure_preview(widget) if is_preview else measure_run(viewer, widget)
    dock.shut_down()
    viewer.close()
    return line


def main() -> None:
    """Print two lines a preset, the first of each kind after a warm-up."""
    shape = (int(sys.argv[1]), int(sys.argv[2])) if len(sys.argv) == 3 else SHAPE
    print(f"napari-qmcif {__version__}, napari {napari.__version__}, Python {platform.python_version()}, {platform.machine()}")
    measure("default", WARM_UP_SHAPE, is_preview=False)
    for preset in PRESETS:
        if preset == "paper":
            continue  # made for comparison, not for speed
        print(f"{preset}, pair of {shape[0]} x {shape[1]}: {measure(preset, shape, is_preview=False)}")
        print(f"{preset}, pair of {PREVIEW_SHAPE[0]} x {PREVIEW_SHAPE[1]}: {measure(preset, PREVIEW_SHAPE, is_preview=True)}")
    print(f"pair of {shape[0]} x {shape[1]}: {measure_cancel(shape)}")


if __name__ == "__main__":
    main()
