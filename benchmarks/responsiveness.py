"""Measure whether the viewer stays usable while a fusion runs: the largest gap between two turns of its event loop.

Run as ``python benchmarks/responsiveness.py [HEIGHT WIDTH]`` on a machine that does nothing else, with a display or under ``xvfb-run -a``.
A timer of 5 ms notes when the event loop comes round, from the click on Run until the first layer of the result is added, and how much
CPU time its thread took meanwhile: that is the part of a gap that is not due to other processes. How long adding the layers takes is
reported apart, beside what napari alone takes for the same arrays, and so are a preview of the visible field, the time from Cancel to the
end, and opening the large sample, in turn with napari's own `add_image` of the same arrays. The pair is generated.
"""

from __future__ import annotations

import itertools
import os
import platform
import sys
import time

import napari
import numpy as np
from qtpy.QtCore import QTimer
from qtpy.QtWidgets import QApplication

from napari_qmcif.sample_data import make_large_stack_layers
from qmcif_engine import PRESETS, __version__, make_focus_stack

SHAPE = (2000, 3000)
WARM_UP_SHAPE = (200, 200)
PREVIEW_SHAPE = (1000, 1000)
TICK_MILLISECONDS = 5
REST_SECONDS = 2.0
N_OPENINGS = 5
PATIENCE_SECONDS = 3600.0


class Pulse:
    """Note the times at which the event loop comes round, and the CPU time that its thread has taken by then."""

    def __init__(self) -> None:
        self.turns: list[tuple[float, float]] = []
        self._timer = QTimer()
        self._timer.setInterval(TICK_MILLISECONDS)
        self._timer.timeout.connect(lambda: self.turns.append(now()))
        self._timer.start()

    def find_gaps(self, begin: tuple[float, float], end: tuple[float, float]) -> tuple[float, float]:
        """Return the longest time without a turn between two moments, both of them taken for turns, and the most CPU time in one."""
        turns = [begin, *(turn for turn in self.turns if begin[0] < turn[0] < end[0]), end]
        pairs = list(itertools.pairwise(turns))
        gap, own = (max(later[kind] - earlier[kind] for earlier, later in pairs) for kind in (0, 1))
        return gap, own

    def describe_gaps(self, begin: tuple[float, float], end: tuple[float, float]) -> str:
        """Return the gaps between two moments in words."""
        gap, own = self.find_gaps(begin, end)
        return f"largest gap {1e3 * gap:.0f} ms, most CPU in one {1e3 * own:.0f} ms"

    def stop(self) -> None:
        """Tick no more."""
        self._timer.stop()


def now() -> tuple[float, float]:
    """Return the time, and the CPU time of this thread."""
    return time.perf_counter(), time.thread_time()


def describe_time(begin: tuple[float, float], end: tuple[float, float]) -> str:
    """Return the time and the CPU time between two moments."""
    return f"{1e3 * (end[0] - begin[0]):.0f} ms ({1e3 * (end[1] - begin[1]):.0f} ms CPU)"


def generate_pair(shape: tuple[int, int]) -> np.ndarray:
    """Return two images of any size, a small scene repeated."""
    small = make_focus_stack(n_images=2, shape=(500, 500), seed=0).images
    repeats = (1, -(-shape[0] // 500), -(-shape[1] // 500), 1)
    return np.tile(small, repeats)[:, : shape[0], : shape[1]]


def wait_until(is_over: object) -> None:
    """Run the event loop as napari does until something is over."""
    deadline = time.perf_counter() + PATIENCE_SECONDS
    while not is_over() and time.perf_counter() < deadline:
        QApplication.processEvents()
        time.sleep(0.0005)


def rest() -> None:
    """Run the event loop until what is under way is drawn."""
    ready = time.perf_counter() + REST_SECONDS
    wait_until(lambda: time.perf_counter() > ready)


def measure_run(viewer: napari.Viewer, widget: object) -> str:
    """Press Run and return one line of figures."""
    pulse, inserting, inserted = Pulse(), [], []
    before = len(viewer.layers)
    viewer.layers.events.inserting.connect(lambda _: inserting.append(now()))
    viewer.layers.events.inserted.connect(lambda _: inserted.append(now()))
    wait_until(lambda: len(pulse.turns) > 20)
    begin = now()
    widget.run()
    wait_until(lambda: not widget.row.is_running)
    drawn = now()
    rest()
    pulse.stop()
    end = inserting[0] if inserting else drawn
    run = f"run {end[0] - begin[0]:.1f} s, {pulse.describe_gaps(begin, end)}"
    if not inserting:
        return f"{run}; {widget.row.message.text()}"
    alone = measure_adding([layer.as_layer_data_tuple() for layer in viewer.layers[before:]])
    return f"{run}; layers added in {describe_time(inserting[0], inserted[-1])}, by napari alone in {alone}"


def measure_adding(layers: list[tuple]) -> str:
    """Return how long napari takes to add layers to a viewer without our dock."""
    viewer = napari.Viewer(show=True)
    viewer.add_image(np.zeros((2, *layers[0][0].shape), np.uint8), rgb=True)
    rest()
    begin = now()
    for samples, attributes, _ in layers:
        viewer.add_image(samples, **attributes)
    taken = describe_time(begin, now())
    viewer.close()
    return taken


def measure_preview(widget: object) -> str:
    """Press Preview and return one line of figures."""
    pulse, begin = Pulse(), now()
    widget.preview.start()
    wait_until(lambda: not widget.preview.is_running)
    end = now()
    pulse.stop()
    return f"preview {end[0] - begin[0]:.2f} s, {pulse.describe_gaps(begin, end)}"


def measure_opening() -> str:
    """Open the large sample beside the dock, and add the same arrays to a viewer without it, in turn; return one line of figures."""
    taken = [(find_opening_gap(is_ours=True), find_opening_gap(is_ours=False)) for _ in range(N_OPENINGS)]
    # medians of pairs taken one after the other: what else the machine does meanwhile changes slowly
    ours, alone = (np.median([pair[which] for pair in taken], axis=0) for which in (0, 1))
    beyond = np.median([np.subtract(*pair) for pair in taken], axis=0)
    words = [f"{1e3 * gap:.0f} ms ({1e3 * own:.0f} ms CPU)" for gap, own in (ours, alone, beyond)]
    return f"largest gap {words[0]}, by napari alone {words[1]}, ours beyond it {words[2]}; medians of {N_OPENINGS}"


def find_opening_gap(*, is_ours: bool) -> tuple[float, float]:
    """Return the largest gap and the most CPU time in one, from the opening of the large sample until it is drawn."""
    viewer = napari.Viewer(show=True)
    dock = viewer.window.add_plugin_dock_widget("napari-qmcif", "Fuse focus stack")[1] if is_ours else None
    rest()
    pulse, begin = Pulse(), now()
    if is_ours:
        viewer.open_sample("napari-qmcif", "large_focus_stack")
    else:
        for samples, attributes, _ in make_large_stack_layers():
            viewer.add_image(samples, **attributes)
    rest()
    pulse.stop()
    if dock is not None:
        dock.shut_down()
    gaps = pulse.find_gaps(begin, now())
    viewer.close()
    return gaps


def measure_cancel(shape: tuple[int, int]) -> str:
    """Press Cancel while the images are looked at and while they are fused, and return how long the run still took."""
    viewer = napari.Viewer(show=True)
    viewer.add_image(generate_pair(shape), rgb=True, name="pair")
    _, dock = viewer.window.add_plugin_dock_widget("napari-qmcif", "Fuse focus stack")
    widget, taken = dock.fusion, []
    for phase in ("starting", "fusing"):
        widget.run()
        wait_until(lambda phase=phase: widget.row.message.text().startswith(phase) or not widget.row.is_running)
        asked = time.perf_counter()
        widget.row.cancel()
        wait_until(lambda: not widget.row.is_running)
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
    rest()
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
    print(f"large sample: {measure_opening()}")
    print(f"load while this ran: {os.getloadavg()[1]:.1f} on {os.cpu_count()} cores" if hasattr(os, "getloadavg") else "")


if __name__ == "__main__":
    main()
