"""Keep the plugin's tests from touching the user's settings, and from being left out unnoticed.

Without the viewer these tests cannot run: they are left out, and the summary says so. `make test` sets ``QMCIF_REQUIRE_VIEWER``, which
turns that into an error.
"""

import os
from functools import partial
from importlib.util import find_spec

import pytest

# napari reads this once, on import; its viewer fixture would otherwise reset the settings file of whoever runs the tests
os.environ["NAPARI_CONFIG"] = ""
# a widget that outlives its viewer fails the test
os.environ["NAPARI_STRICT_QT"] = "raise"

# the first fusion after the kernels changed compiles them, a minute on a busy machine; pytest's own limit cannot end a waiting event loop
HANGS_AFTER_MILLISECONDS = int(os.environ.get("HANGS", 500_000))

_MISSING = [name for name in ("napari", "npe2", "pytestqt") if find_spec(name) is None]
_REMEDY = f"tests/plugin needs {', '.join(_MISSING)}: pip install -e '.[napari,test,test-viewer]'"

if _MISSING:
    if os.environ.get("QMCIF_REQUIRE_VIEWER"):
        raise pytest.UsageError(_REMEDY)
    collect_ignore_glob = ["*"]


@pytest.fixture(autouse=True)
def no_job_stays_behind():
    """Fail a test that did not wait for the end of every worker it started."""
    from qtpy.QtTest import QTest

    from napari_qmcif.worker import list_running_workers

    yield
    left = [worker for worker in list_running_workers() if not worker.is_cancelled()]
    for worker in left:
        worker.cancel()
    while list_running_workers():  # the next test shall not find them
        QTest.qWait(10)
    assert not left, "a fusion was still running when its test ended"


class QuietJob:
    """What the work sees of its worker, without a thread."""

    def __init__(self):
        self.notes, self.steps, self.remarks, self._is_cancelled = [], [], [], False

    def note(self, text):
        self.notes.append(text)

    def remark(self, text):
        self.remarks.append(text)

    def report(self, progress):
        self.steps.append(tuple(progress))

    def cancel(self):
        self._is_cancelled = True

    def is_cancelled(self):
        return self._is_cancelled

    def check_cancelled(self):
        from qmcif_engine import Cancelled

        if self._is_cancelled:
            msg = "the work was cancelled"
            raise Cancelled(msg)


@pytest.fixture
def job():
    return QuietJob()


@pytest.fixture
def qtbot(qtbot, monkeypatch):
    """pytest-qt's, with one limit for every wait: a test waits for what will come, however busy the machine, and only a hang ends it."""
    for name in ("waitUntil", "waitSignal"):
        monkeypatch.setattr(qtbot, name, partial(getattr(qtbot, name), timeout=HANGS_AFTER_MILLISECONDS))
    return qtbot


@pytest.fixture
def images():
    """Three small color images of one scene, each sharp at another depth, shape (3, 48, 64, 3)."""
    from qmcif_engine import make_focus_stack

    return make_focus_stack(n_images=3, shape=(48, 64), seed=0).images


@pytest.fixture(scope="session")
def window(qapp):
    """One viewer for all tests: making one takes longer than most tests."""
    import napari
    import numpy as np

    viewer = napari.Viewer(show=False)
    # without a window on a screen, napari can ask for the abilities of OpenGL only before anything else is drawn
    viewer.add_image(np.zeros((2, 2)))
    viewer.layers.clear()
    yield viewer
    viewer.close()


@pytest.fixture
def viewer(window, qtbot):
    """The one viewer, empty; at the end whatever runs is cancelled, and docks and layers go."""
    from qtpy.QtTest import QTest

    from napari_qmcif.fuse_widget import SESSIONS
    from napari_qmcif.worker import list_running_workers

    yield window
    SESSIONS.clear()
    window.window.remove_dock_widget("all")
    for worker in list_running_workers():
        worker.cancel()
    while list_running_workers():
        QTest.qWait(10)
    window.layers.clear()
    window.dims.ndisplay = 2
    window.reset_view()


@pytest.fixture
def open_page(viewer, qtbot):
    """Returns what puts a page of the dock beside the viewer; at the end its work is waited for, and it lets go of the viewer."""
    opened = []

    def open_one(page):
        opened.append(page(viewer))
        viewer.window.add_dock_widget(opened[-1])
        return opened[-1]

    yield open_one
    for page in opened:
        page.shut_down()
    for page in opened:
        wait_for(page, qtbot)


@pytest.fixture
def wait(qtbot):
    """Returns what waits until nothing runs on a page."""
    return partial(wait_for, qtbot=qtbot)


def wait_for(page, qtbot):
    qtbot.waitUntil(lambda: not (page.session is not None and page.session.is_running if hasattr(page, "session") else page.row.is_running))


@pytest.fixture
def answer(monkeypatch):
    """Answer the dialogs as a person would."""

    def choose(**answers):
        for name, given in answers.items():
            monkeypatch.setattr(f"qtpy.QtWidgets.QFileDialog.{name}", lambda *_, given=given: given)

    return choose


@pytest.fixture
def run():
    """Returns what fuses layers as Run does, adds the result with all maps, and returns its layers by part."""
    from napari_qmcif.fusing import FusionRequest, choose_images, run_fusion
    from napari_qmcif.layers_out import add_layers, part_of
    from napari_qmcif.preferences import RunOptions
    from qmcif_engine import FusionConfig

    def fuse(viewer, *layers, **options):
        wanted = RunOptions(**{"confidence": True, "scale_maps": True, **options})
        request = FusionRequest(series=choose_images(layers, wanted), config=FusionConfig(), options=wanted)
        return {part_of(layer): layer for layer in add_layers(viewer, run_fusion(request, 1, job=QuietJob()))}

    return fuse


@pytest.fixture
def time_series():
    """A gray layer of two time points, 4 micrometers between the planes, named leaf."""
    import numpy as np
    from napari.layers import Image

    from qmcif_engine import make_focus_stack

    images = [make_focus_stack(n_images=3, shape=(48, 64), seed=seed, is_color=False).images for seed in (0, 1)]
    space = {"axis_labels": ("t", "z", "y", "x"), "scale": (1, 4, 0.5, 0.5), "units": ("pixel", "um", "um", "um")}
    return Image(np.stack(images), rgb=False, name="leaf", contrast_limits=(0, 255), **space)


def pytest_terminal_summary(terminalreporter):
    if _MISSING:
        terminalreporter.section("left out")
        terminalreporter.write_line(_REMEDY)
