"""Decompose the images as the published method does, and read how the solver went."""

import numpy as np

from qmcif_engine import PRESETS, decompose, fuse, make_focus_stack

images = list(make_focus_stack(n_images=2, shape=(120, 160), seed=3).images)
result = fuse(images, PRESETS["paper"])

for number, image in enumerate(images, start=1):
    layers = decompose(image, PRESETS["paper"], focus_range=result.focus_range)
    strength = np.abs(layers.detail).mean()
    print(f"image {number}: mean detail {strength:.2f} gray levels, stopped because: {layers.history.reason}")
    for iteration, record in enumerate(layers.history.records, start=1):
        print(f"  iteration {iteration:2d}: change {record.change:.2e}, sum residual {record.sum_residual:.2e}")
print(f"mean confidence {result.confidence.mean():.2f}")
