"""Garbage is not looked for while modules load, and is again afterwards."""

import gc
import subprocess
import sys

import pytest

from qmcif_engine.cli.garbage import loading


def test_nothing_is_collected_in_the_block_only():
    with loading():
        assert not gc.isenabled()

    assert gc.isenabled()


def test_it_is_again_after_an_error():
    with pytest.raises(ImportError), loading():
        raise ImportError

    assert gc.isenabled()


@pytest.mark.parametrize(("call", "is_frozen"), [("main()", True), ("main(['--version'])", False)])
def test_only_a_process_that_ends_leaves_its_garbage(call, is_frozen):
    # Python 3.12 itself begins with some
    before = "import gc, sys; from qmcif_engine.cli import main; sys.argv = ['qmcif', '--version']; n = gc.get_freeze_count()"
    code = f"{before}\ntry: {call}\nexcept SystemExit: pass\nprint(gc.get_freeze_count() > n)"

    finished = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert finished.stdout.splitlines()[-1] == str(is_frozen)
