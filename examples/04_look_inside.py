"""Split images into base, detail and noise layers, as the published method does, and read how the solver went."""

import numpy as np

from qmcif_engine import PRESETS, decompose, make_focus_stack

images = make_focus_stack(n_images=2, shape=(120, 160), seed=3).images

for number, image in enumerate(images, start=1):
    layers = decompose(image, PRESETS["paper"])
    strength = np.abs(layers.detail).mean()
    print(f"image {number}: mean detail {strength:.2f} gray levels, stopped because: {layers.history.reason}")
    for iteration, record in enumerate(layers.history.records, start=1):
        print(f"  iteration {iteration:2d}: change {record.change:.2e}, sum residual {record.sum_residual:.2e}")
