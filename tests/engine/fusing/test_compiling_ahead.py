"""A second process compiles what is needed late, once something is compiled at all, and ends with the run."""

import subprocess
import sys

import numpy as np
import pytest

from qmcif_engine.fusing import compiling_ahead as ahead
from qmcif_engine.compiled import compiled

SHOW_NEW_SIGNATURES = """
import importlib, pkgutil
from qmcif_engine import fuse, kernels, make_focus_stack
from qmcif_engine.fusing.compiling_ahead import draw_something

def signatures():
    modules = [importlib.import_module(f"{kernels.__name__}.{found.name}") for found in pkgutil.iter_modules(kernels.__path__)]
    parts = {f"{value.__module__}.{name}": value for module in modules for name, value in vars(module).items() if hasattr(value, "py_func")}
    return {name: set(map(str, getattr(part, "kernel", part).signatures)) for name, part in parts.items()}

draw_something()
drawn = {name: found for name, found in signatures().items() if found}
fuse(make_focus_stack(n_images=2, shape=(300, 300), seed=3).images)
fused = signatures()
print(sorted(name.rsplit(".", 1)[1] for name in drawn))
print([name for name in drawn if fused[name] - drawn[name]])
"""


def doubled(values):
    for i in range(values.size):
        values[i] *= 2


class Recorder:
    def __init__(self, monkeypatch, *, n_cores=2, is_refused=False):
        self.commands, self.ends, self._is_refused = [], [], is_refused
        monkeypatch.setattr(ahead, "count_cores", lambda: n_cores)
        monkeypatch.setattr(ahead.subprocess, "Popen", self.start)

    def start(self, command, **_):
        if self._is_refused:
            raise OSError
        self.commands.append(command)
        return self

    def terminate(self):
        self.ends.append("terminate")

    def wait(self):
        self.ends.append("wait")


@pytest.mark.usefixtures("no_kernel_cache")
def test_the_first_function_that_is_compiled_starts_one_process_which_ends_with_the_run(monkeypatch):
    recorder, kernel = Recorder(monkeypatch), compiled(doubled)

    with ahead.compiling_ahead():
        kernel(np.ones(3))
        kernel(np.ones(3, np.float32))
        assert recorder.commands == [[sys.executable, "-m", "qmcif_engine.fusing.compiling_ahead"]]
        assert not recorder.ends

    assert recorder.ends == ["terminate", "wait"]


@pytest.mark.usefixtures("no_kernel_cache")
@pytest.mark.parametrize("circumstances", [{"n_cores": 1}, {"is_refused": True}])
def test_without_a_second_core_or_process_all_is_compiled_here(monkeypatch, circumstances):
    recorder, kernel, values = Recorder(monkeypatch, **circumstances), compiled(doubled), np.ones(3)

    with ahead.compiling_ahead():
        kernel(values)

    assert not recorder.commands
    assert values.tolist() == [2, 2, 2]


def test_nothing_is_started_where_nothing_is_compiled(monkeypatch):
    recorder = Recorder(monkeypatch)

    with ahead.compiling_ahead():
        pass

    assert not recorder.commands


def test_what_is_compiled_ahead_is_what_a_fusion_needs():
    shown = subprocess.run([sys.executable, "-c", SHOW_NEW_SIGNATURES], check=True, capture_output=True, text=True).stdout
    names, further = shown.splitlines()

    assert {"gather_shares", "settle_cells", "weigh_rests", "weigh_explanations", "take_in_image", "mark_rough"} <= set(
        names.strip("[]").replace("'", "").split(", ")
    )
    assert further == "[]"
