"""Measure what an evaluation costs: CPU seconds and peak memory for a small and for a 24-megapixel pair, each in a process of its own.

Run as ``python benchmarks/metrics.py``; pairs are generated.
"""

from __future__ import annotations

import subprocess
import sys

SHAPES = ((520, 520), (4000, 6000))
MEASUREMENT = """
import resource, sys, time
import numpy as np
from qmcif_engine import evaluate, make_focus_stack

height, width = int(sys.argv[1]), int(sys.argv[2])
small = make_focus_stack(n_images=2, shape=(520, 520), seed=0)
repeats = (-(-height // 520), -(-width // 520), 1)
*sources, fused = (np.tile(image, repeats)[:height, :width] for image in (*small.images, small.truth))
started = time.process_time()
evaluate(sources, fused)
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
print(f"{height} x {width}: {time.process_time() - started:.2f} CPU seconds for all six metrics, peak {peak / 1e9:.2f} GB with the images")
"""


def main() -> None:
    """Print one line a size."""
    for height, width in SHAPES:
        subprocess.run([sys.executable, "-c", MEASUREMENT, str(height), str(width)], check=True)


if __name__ == "__main__":
    main()
