"""Freed memory is used again by the command's own process."""

import subprocess
import sys

import pytest

COUNT_FAULTS = """
import resource, sys
import numpy as np
from qmcif_engine.cli.allocator import keep_freed_memory

if sys.argv[1] == "keep":
    keep_freed_memory()

def take_and_free():
    arrays = [np.ones(2**21, np.uint8) for _ in range(12)]
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

for _ in range(3):  # until the allocator has seen what comes and goes
    before = take_and_free()
print(take_and_free() - before)
"""


def count_faults(what):
    return int(subprocess.run([sys.executable, "-c", COUNT_FAULTS, what], check=True, capture_output=True, text=True).stdout)


@pytest.mark.skipif(sys.platform != "linux", reason="other systems' allocators are left as they are")
def test_pages_of_freed_arrays_are_not_taken_from_the_system_again():
    assert count_faults("keep") < count_faults("leave") / 10


def test_other_systems_are_left_alone(monkeypatch):
    from qmcif_engine.cli import allocator

    def refuse(_name):
        raise AssertionError

    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(allocator.ctypes, "CDLL", refuse)

    allocator.keep_freed_memory()
