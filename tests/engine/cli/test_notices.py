"""What is allowed but hardly meant is told on standard error."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import qmcif_engine
from qmcif_engine.cli import main
from qmcif_engine.cli.terminal import report_compilation
from qmcif_engine.compiled import compiled
from qmcif_engine.io.output.formats import write_image
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


def doubled(values):
    for i in range(values.size):
        values[i] *= 2


@pytest.mark.usefixtures("no_kernel_cache")
@pytest.mark.parametrize(("is_terminal", "is_quiet", "n_lines"), [(True, False, 1), (False, False, 0), (True, True, 0)])
def test_compiling_is_reported_once_at_a_terminal(capsys, monkeypatch, is_terminal, is_quiet, n_lines):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: is_terminal)
    kernel = compiled(doubled)

    with report_compilation(is_quiet=is_quiet):
        kernel(np.arange(5.0))
        kernel(np.arange(5))

    assert capsys.readouterr().err.count("qmcif: compiling, which takes up to a minute once") == n_lines


@pytest.mark.slow
def test_a_run_without_a_folder_for_compiled_code_says_so_before_it_compiles(tmp_path):
    """As where neither the installation nor a home can be written: every run compiles, and nothing may look as if it hangs."""
    package = shutil.copytree(Path(qmcif_engine.__file__).parent, tmp_path / "src" / "qmcif_engine", ignore=lambda *_: ["__pycache__"])
    for folder in [package, *(path for path in package.rglob("*") if path.is_dir())]:
        (folder / "__pycache__").write_bytes(b"")  # no folder can be made here, whoever asks
    (tmp_path / "file").write_bytes(b"")
    nowhere = str(tmp_path / "file" / "cache")
    for number, image in enumerate(make_focus_stack(n_images=2, shape=(40, 48)).images):
        write_image(tmp_path / f"{number}.png", image)
    program = f"import sys; sys.path.insert(0, {str(tmp_path / 'src')!r}); from qmcif_engine.cli import main; sys.exit(main())"
    command = [sys.executable, "-B", "-c", program, "fuse", "0.png", "1.png", "-o", "f.png", *FAST]

    environment = {**os.environ, "NUMBA_CACHE_DIR": nowhere, "HOME": nowhere, "XDG_CACHE_HOME": nowhere, "PYTHONPATH": ""}
    finished = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)

    assert (finished.returncode, (tmp_path / "f.png").exists()) == (0, True), finished.stderr
    assert finished.stderr.count("since no folder for compiled code can be written: set NUMBA_CACHE_DIR to one that can") == 1
