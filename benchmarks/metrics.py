"""Measure what an evaluation costs: CPU seconds and peak memory of pairs of 0.3, 24 and 100 megapixels, each in a process of its own.

Run as ``python benchmarks/metrics.py``, or with a height and a width for that size only; pairs are generated, large ones lazily.
"""

from __future__ import annotations

import subprocess
import sys

SHAPES = ((520, 520), (4000, 6000), (10000, 10000))
MEASUREMENT = """
import resource, sys, time
import dask.array as da
from qmcif_engine import evaluate, make_focus_stack

height, width = int(sys.argv[1]), int(sys.argv[2])
small = make_focus_stack(n_images=2, shape=(520, 520), seed=0)
repeats = (-(-height // 520), -(-width // 520), 1)
tiled = [da.tile(da.from_array(image), repeats)[:height, :width] for image in (*small.images, small.truth)]
*sources, fused = (image.rechunk((1040, 1040, 3)) for image in tiled)
started = time.process_time()
figures = evaluate(sources, fused).list_by_symbol()
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
print(f"{height} x {width}: {time.process_time() - started:.2f} CPU seconds for all six metrics, peak {peak / 1e9:.2f} GB")
print(", ".join(f"{symbol} {figure:.6f}" for symbol, figure in figures.items() if figure is not None))
"""


def main() -> None:
    """Print what each size costs, and its figures."""
    given = [int(side) for side in sys.argv[1:]]
    for height, width in [(given[0], given[1])] if given else SHAPES:
        subprocess.run([sys.executable, "-c", MEASUREMENT, str(height), str(width)], check=True)


if __name__ == "__main__":
    main()
