"""A test that leaves a job running fails, and does not disturb the next."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

TESTS = """
import time

import pytest

from napari_qmcif.worker import EngineWorker, list_running_workers


def work_until_cancelled(job):
    while not job.is_cancelled():
        time.sleep(0.005)


@pytest.fixture
def job(qapp):
    return EngineWorker(work_until_cancelled)


def test_careless(job):
    job.start()


def test_next():
    assert list_running_workers() == []


def test_careful(job, qtbot):
    with qtbot.waitSignal(job.finished):
        job.start()
        job.cancel()
"""


def test_a_job_that_nobody_waited_for_fails_its_test_and_no_other(tmp_path):
    shutil.copy(Path(__file__).with_name("conftest.py"), tmp_path)
    (tmp_path / "test_jobs.py").write_text(TESTS, encoding="utf-8")

    command = [sys.executable, "-m", "pytest", "-q", "-p", "pytestqt.plugin", "-p", "no:cacheprovider", "test_jobs.py"]
    few_plugins = os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    finished = subprocess.run(command, cwd=tmp_path, check=False, capture_output=True, text=True, env=few_plugins)

    assert "ERROR test_jobs.py::test_careless" in finished.stdout
    assert "a fusion was still running when its test ended" in finished.stdout
    assert re.search(r"3 passed, .*1 error in", finished.stdout)  # between them, warnings of napari's own
