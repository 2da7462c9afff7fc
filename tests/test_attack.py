"""Runs that are killed, or meet a disk error, at any file call leave whole outputs and can be gone on with."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

TOOLS = Path(__file__).parents[1] / "tools" / "attack"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not hasattr(os, "fork"), reason="the runs are forks of one process"),
]


def test_no_kill_and_no_disk_error_breaks_a_promise():
    request = [sys.executable, str(TOOLS / "kills.py"), "--kills", "60", "--errors", "20", "--seed", "18"]
    finished = subprocess.run(request, capture_output=True, text=True, check=False)

    report = json.loads(finished.stdout.splitlines()[-1])
    assert report["failures"] == []
    assert finished.returncode == 0
    assert (report["kills"], report["disk_errors"]) == (60, 20)
    assert all(n_calls > 30 for n_calls in report["calls_a_run"].values())  # the faults really met the calls


def test_a_broken_promise_is_found(tmp_path):
    """A program that throws the journal of its moves away is caught; these are cases that happen while files are moved."""
    code = (
        "import sys, runpy; sys.argv[1:] = ['--first', '63', '--kills', '4', '--errors', '0', '--seed', '1'];"
        "import qmcif_engine.run.job_folder as folders, qmcif_engine.io.output.moves as moves;"
        "folders.roll_back = moves.roll_back = lambda journal: journal.unlink(missing_ok=True);"
        f"sys.path.insert(0, {str(TOOLS)!r}); runpy.run_path({str(TOOLS / 'kills.py')!r}, run_name='__main__')"
    )
    finished = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=tmp_path)

    assert finished.returncode == 1
    assert json.loads(finished.stdout.splitlines()[-1])["failures"]
