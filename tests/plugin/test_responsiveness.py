"""The benchmark of the viewer's responsiveness keeps running as the widget changes: here on a small pair, once."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "responsiveness.py"
SMALL = "PRESETS={'default': None}, WARM_UP_SHAPE=(32, 32), PREVIEW_SHAPE=(48, 64), REST_SECONDS=0.1, N_OPENINGS=1"


@pytest.mark.slow
@pytest.mark.viewer
def test_the_report_gives_gap_and_insertion_of_a_run_and_the_time_of_a_preview():
    program = f"import runpy, sys; sys.argv[1:] = ['48', '64']; main = runpy.run_path({str(SCRIPT)!r})['main']; "
    program += f"main.__globals__.update({SMALL}); main()"

    shown = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout

    gaps, taken = r"largest gap \d+ ms, most CPU in one \d+ ms", r"\d+ ms \(-?\d+ ms CPU\)"
    assert re.search(rf"pair of 48 x 64: run [\d.]+ s, {gaps}; layers added in {taken}, by napari alone in {taken}", shown)
    assert re.search(rf"pair of 48 x 64: preview [\d.]+ s, {gaps}", shown)
    assert re.search(rf"large sample: largest gap {taken}, by napari alone {taken}, ours beyond it -?{taken}", shown)
    assert re.search(r"pair of 48 x 64: cancelled after \d+ ms while starting, \d+ ms while fusing", shown)
