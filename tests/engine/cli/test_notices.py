"""What is allowed but hardly meant is told on standard error."""

import sys

import numpy as np
import pytest

from qmcif_engine.cli import main
from qmcif_engine.cli.notices import telling_of_compilation
from qmcif_engine.compiled import compiled
from qmcif_engine.io.output.writers import write_image
from qmcif_engine.stack.synthetic import make_focus_stack

FAST = ["--set", "effort=fast"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in").mkdir()
    for number, image in enumerate(make_focus_stack(n_images=2, shape=(40, 48)).images):
        write_image(tmp_path / "in" / f"{number}.png", image)
    return tmp_path


@pytest.mark.parametrize("inputs", [["in", "in/0.png"], ["in/0.png", "in/1.png", "in/../in/0.png"], ["in", "in/*.png"]])
def test_an_image_that_is_given_twice_is_told(folder, capsys, inputs):
    assert main(["fuse", *inputs, "-o", "f.png", *FAST]) == 0

    assert "0.png' was given more than once; each image is needed once" in capsys.readouterr().err


@pytest.mark.parametrize("inputs", ["in", "in/*.png"])
def test_a_result_that_the_next_run_would_take_for_an_image_is_told(folder, capsys, inputs):
    assert main(["fuse", inputs, "-o", "in/f.png", *FAST]) == 0

    message = "'in/f.png' lies among the images, and the next run would take it for one of them: move it, or leave it out with --exclude"
    assert message in capsys.readouterr().err


def test_nothing_is_told_of_usual_or_quiet_runs(folder, capsys):
    assert main(["fuse", "in", "-o", "f.png", *FAST]) == 0
    assert main(["fuse", "in/0.png", "in/1.png", "-o", "in/f.png", *FAST]) == 0
    assert main(["fuse", "in", "in/f.png", "-o", "in/g.png", "--quiet", *FAST]) == 0

    assert "qmcif:" not in capsys.readouterr().err


@pytest.mark.parametrize(("is_terminal", "n_lines"), [(True, 1), (False, 0)])
def test_compiling_is_told_of_once_at_a_terminal(capsys, monkeypatch, is_terminal, n_lines):
    def without_a_place(*_):
        raise RuntimeError

    def double(values):
        for i in range(values.size):
            values[i] *= 2

    monkeypatch.setattr("numba.core.caching.FunctionCache.__init__", without_a_place)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: is_terminal)
    kernel = compiled(double)

    with telling_of_compilation():
        kernel(np.arange(5.0))
        kernel(np.arange(5))

    assert capsys.readouterr().err.count("qmcif: compiling") == n_lines
