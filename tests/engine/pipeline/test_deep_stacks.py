"""Hundreds of images: memory does not grow with their number, and what each gave is counted."""

import subprocess
import sys

import numpy as np
import pytest

from qmcif_engine.config.fusion_config import FusionConfig
from qmcif_engine.pipeline.in_memory import fuse
from qmcif_engine.pipeline.to_file import fuse_to_file
from qmcif_engine.stack.stack import Stack, number_images

CONFIG = FusionConfig().replaced({"tile_px": 128, "smoothness": 0.0})


def make_strips(n_images, shape=(16, 900)):
    """A stack that exists nowhere: image n is sharp in the n-th of as many strips as there are images, every fourth in none."""
    sharp = np.random.default_rng(0).integers(0, 256, shape)
    strip = np.arange(shape[1]) * n_images // shape[1]

    def read(number, window):
        distance = np.abs(strip - number) + 3 * (number % 4 == 3)
        image = 128 + (sharp - 128) * 0.5**distance
        return np.rint(image).astype(np.uint8)[window.slices]

    return Stack(names=number_images(n_images), image_shape=shape, dtype=np.dtype(np.uint8), read=read)


@pytest.mark.parametrize("n_images", [32, 100, 300])
def test_deep_stacks_are_fused_and_images_that_give_nothing_are_counted(n_images, tmp_path):
    stack = make_strips(n_images)

    report = fuse_to_file(stack, tmp_path / "f.tif", CONFIG, workers=1)

    counts = np.array(report.pixels_by_image)
    assert len(counts) == n_images
    assert counts.sum() == 16 * 900
    assert (counts[3::4] == 0).mean() > 0.9
    assert (counts == 0).mean() < 0.9


def test_the_counts_of_a_result_in_memory_are_those_of_its_index():
    result = fuse(make_strips(6, (16, 60)), CONFIG)

    assert result.pixels_by_image == tuple(np.bincount(result.source_index.ravel(), minlength=6))
    assert len(result.pixels_by_image) == 6


PROGRAM = """
import resource, sys
import numpy as np
from qmcif_engine.decision import energy
from qmcif_engine.pipeline import pipeline
from qmcif_engine.pipeline.to_file import fuse_to_file
from qmcif_engine.stack.stack import Stack, number_images

def read(number, window):
    # The first three images have texture, each in a third of the picture; the others have next to none.
    noise = np.random.default_rng(number).integers(0, 256, (*window.shape, 3), np.uint8)
    is_sharp = np.arange(window.left, window.right)[None, :, None] * 3 // 700 == number
    return np.where(is_sharp, noise, 120 + noise // 64)

stack = Stack(names=number_images(int(sys.argv[1])), image_shape=(700, 700, 3), dtype=np.dtype(np.uint8), read=read)
# windows wait in a file, however much memory this machine could spare
pipeline._free_bytes = lambda: 0
# and so does what is measured of them
energy.IN_MEMORY_BYTES = 2**20
fuse_to_file(stack, sys.argv[2], workers=1, focus_range=(0, 255))
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


@pytest.mark.slow
def test_peak_memory_does_not_grow_with_the_number_of_images(tmp_path):
    peaks = [
        int(subprocess.run([sys.executable, "-c", PROGRAM, str(n), str(tmp_path / f"{n}.tif")], check=True, capture_output=True).stdout)
        for n in (30, 90)
    ]

    assert peaks[1] < peaks[0] + 30_000  # kilobytes: 60 more images would take 88 MB, and their levels 118 MB
